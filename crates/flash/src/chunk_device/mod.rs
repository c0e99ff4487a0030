//! Devices that store data: chunks that are written sequentially and reset as a whole.
//!
//! * [`FileChunkDevice`]: one file per chunk, in a directory;
//! * [`ZnsDevice`]: the zones of a zoned disk;
//! * [`FdpDevice`]: a disk with placement identifiers (NVMe FDP);
//! * [`MemoryChunkDevice`]: chunks in memory that can lose power, for tests;
//! * [`SimulatedDevice`]: chunks in memory with the timing of a device model.

mod dirty_files;
mod fdp_device;
mod files;
mod memory;
mod open;
mod simulated;
mod zns_device;

pub use fdp_device::FdpDevice;
pub use files::FileChunkDevice;
pub use memory::MemoryChunkDevice;
pub use open::{has_zones, is_device, is_disk, open, open_to_look};
pub use simulated::SimulatedDevice;
pub use zns_device::ZnsDevice;

use crate::device::fdp;
use crate::placement::Lifetime;
use crate::{Chunk, Geometry};
use esker_base::{Error, Result};

/// What devices are read and written in, in bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// What a device says of itself to which identifiers say what belongs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// How many placement identifiers may be used.
    pub identifiers: usize,
    /// What the device erases at a time, in bytes.
    pub reclaim_unit_bytes: u64,
    /// What it counted.
    pub statistics: fdp::Statistics,
}

/// A flash device. Offsets and lengths are multiples of [`BLOCK_BYTES`].
///
/// What was written survives the death of the process, and power loss after [`flush`](ChunkDevice::flush). Power loss
/// leaves of each chunk what was flushed and a part from the beginning of what was written after that, or what it
/// was before a reset that was not flushed; of a rewritable device, and of one whose pages share cells, any blocks of
/// what was written after that, and zeros between them.
pub trait ChunkDevice: Send + Sync + 'static {
    /// What to call it in messages.
    fn describe(&self) -> String;
    /// What it is made of.
    fn geometry(&self) -> Geometry;
    /// Whether a chunk can't be used.
    fn is_bad(&self, chunk: Chunk) -> bool;
    /// Whether a chunk can be read, and neither written nor reset any more.
    fn is_read_only(&self, _chunk: Chunk) -> bool {
        false
    }
    /// Bytes written into a chunk since its last reset: the position of the next write. The whole
    /// chunk if unknown.
    fn written(&self, chunk: Chunk) -> Result<u64>;
    /// Whether a chunk that counts as full because it is not known how far it was written may be written all the same:
    /// once from any place, and on behind that.
    fn is_rewritable(&self) -> bool {
        false
    }
    /// Data of this lifetime will be written into a chunk.
    fn expect(&self, _chunk: Chunk, _lifetime: Lifetime) {}
    /// Writes behind what is written. `at` says where the caller believes that is.
    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()>;
    /// Reads what was written.
    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()>;
    /// Empties a chunk. After a failure it may be empty or not, and may be bad.
    fn reset(&self, chunk: Chunk) -> Result<()>;
    /// How many chunks may be active at a time: written in part, neither empty nor full. `None` if all may. A write that
    /// begins one more fails.
    fn active_max(&self) -> Option<usize> {
        None
    }
    /// The active chunks, on a device that limits their number.
    fn active(&self) -> Vec<Chunk> {
        Vec::new()
    }
    /// Makes an active chunk full: nothing is written behind what it holds.
    fn finish(&self, _chunk: Chunk) -> Result<()> {
        Ok(())
    }
    /// Makes everything written, reset and finished so far survive power loss.
    fn flush(&self) -> Result<()>;
    /// What it says of placement, if it knows any.
    fn placement(&self) -> Result<Option<Placement>> {
        Ok(None)
    }
    /// How it is written, for people, where devices of its kind may differ.
    fn written_by(&self) -> Option<String> {
        None
    }
    /// Whether the device itself moves what lives long: then the chunks that were reset often are no worn places of its medium.
    fn spreads_wear(&self) -> bool {
        false
    }
    /// Whether reads currently wait for writes, as far as known.
    fn is_busy(&self) -> bool {
        false
    }
    /// Takes the device for one user, as [`esker_storage::Storage::lock`] does.
    fn lock(&self) -> Result<Box<dyn Send + Sync>>;
}

/// Refuses a geometry that makes no device.
fn check(geometry: &Geometry) -> Result<()> {
    let units = u64::from(geometry.groups) * u64::from(geometry.units_per_group);
    let refused = |reason: &str| Error::InvalidSetting {
        setting: "device",
        value: format!(
            "{units} units of {} chunks of {} bytes",
            geometry.chunks_per_unit, geometry.chunk_bytes
        ),
        reason: reason.to_owned(),
    };
    match geometry.chunks_per_unit {
        _ if units == 0 || units > 1 << 10 => Err(refused("a device has 1 to 1,024 units")),
        chunks if units * u64::from(chunks) < 8 => Err(refused("a device has at least 8 chunks")),
        _ if u64::from(geometry.chunk_bytes) < 8 * BLOCK_BYTES
            || !u64::from(geometry.chunk_bytes).is_multiple_of(BLOCK_BYTES) =>
        {
            Err(refused("a chunk is at least 8 blocks of 4 KiB, and whole blocks"))
        }
        _ => Ok(()),
    }
}
