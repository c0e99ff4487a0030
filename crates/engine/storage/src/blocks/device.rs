//! What files are on: blocks.

use esker_base::Result;

/// The unit in which devices are read and written, in bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// Blocks that can be read and written in any order. Offsets and lengths are in bytes, and multiples of
/// [`BLOCK_BYTES`]; the caller stays inside.
///
/// A block survives power loss whole, as it was or as it was written. What was written is safe against power loss after
/// the next [`flush`](BlockDevice::flush); until then each block may be found in any state that it had since the last.
pub trait BlockDevice: Send + Sync + 'static {
    /// What to call it in messages.
    fn describe(&self) -> String;

    /// Its length.
    fn bytes(&self) -> u64;

    /// Fills `out` from `offset`.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Writes `bytes` at `offset`. When this returns they survive the death of this process.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes `bytes` bytes from `offset` on zero.
    fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<()>;

    /// Makes every earlier write survive power loss. After a failure, a later success proves nothing of what
    /// was written before it.
    fn flush(&self) -> Result<()>;
}
