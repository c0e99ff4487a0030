//! Devices that data can be kept on: chunks that are written from the beginning and reset as a whole.
//!
//! * [`FileZones`]: a file for each chunk, in a directory;
//! * [`MemoryZones`]: chunks in memory that can lose power, for tests.

mod files;
mod memory;
mod unflushed;

pub use files::FileZones;
pub use memory::MemoryZones;

use crate::{Chunk, Geometry};
use esker_base::Result;

/// What devices are read and written in, in bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// A device of chunks. Offsets and lengths are multiples of [`BLOCK_BYTES`].
///
/// What was written survives the death of the process, and power loss after [`flush`](Zones::flush). Power loss
/// leaves of each chunk what was flushed and a part from the beginning of what was written after that, or what it
/// was before a reset that was not flushed.
pub trait Zones: Send + Sync + 'static {
    /// What to call it in messages.
    fn describe(&self) -> String;
    /// What it is made of.
    fn geometry(&self) -> Geometry;
    /// Whether a chunk can't be used.
    fn is_bad(&self, chunk: Chunk) -> bool;
    /// Bytes written into a chunk since its last reset: where the next write goes.
    fn written(&self, chunk: Chunk) -> Result<u64>;
    /// Writes behind what is written. `at` says where the caller believes that is.
    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()>;
    /// Reads what was written.
    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()>;
    /// Empties a chunk. After a failure it may be empty or not, and may be bad.
    fn reset(&self, chunk: Chunk) -> Result<()>;
    /// Makes everything written and reset so far survive power loss.
    fn flush(&self) -> Result<()>;
    /// Takes the device for one user, as [`esker_storage::Storage::lock`] does.
    fn lock(&self) -> Result<Box<dyn Send + Sync>>;
}
