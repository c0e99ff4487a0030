//! Disks with flexible data placement (FDP, NVMe technical proposal 4146).
//!
//! A write carries a *placement identifier*. The disk stores the data of each identifier in
//! separate *reclaim units* and erases each unit as a whole. If all data of a reclaim unit is
//! deallocated together, the disk has nothing to copy. The disk can be written at any address, and
//! does not report in which unit the data is stored.
//!
//! [`KernelDisk`] uses a disk through Linux, [`EmulatedDisk`] is in memory. The layer above both is
//! `crate::zones`.

mod emulated;
mod kernel;
mod log_pages;

pub use emulated::EmulatedDisk;
pub use kernel::KernelDisk;

use esker_uring::Buffer;
use std::io;

/// What a disk counted since it was made, or since the last that asked it to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Bytes that were written by all users of the endurance group, all namespaces of it.
    pub host_bytes: u128,
    /// Bytes that were written to the medium for that: these, and those that the disk moved.
    pub media_bytes: u128,
}

/// A disk with placement identifiers. Offsets and lengths are multiples of 4 KiB.
pub trait Disk: Send + Sync + 'static {
    /// What to call it in messages.
    fn name(&self) -> String;
    /// Its size.
    fn bytes(&self) -> u64;
    /// What a reclaim unit holds, in bytes.
    fn reclaim_unit_bytes(&self) -> u64;
    /// The identifiers that may be used, at least one. The first is that of writes which have none.
    fn identifiers(&self) -> &[u16];
    /// Fills `out`.
    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()>;
    /// Writes what belongs to `identifier`. After a failure any blocks of it may be written.
    fn write_at(&self, offset: u64, bytes: &[u8], identifier: u16) -> io::Result<()>;
    /// Makes bytes zero and deallocates them. After a failure, or power loss, any blocks of it may be.
    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Makes everything written and made zero so far survive power loss.
    fn flush(&self) -> io::Result<()>;
    /// Claims it for one user, until the claim is dropped.
    fn claim(&self) -> io::Result<Box<dyn Send + Sync>>;
    /// What it counted.
    fn statistics(&self) -> io::Result<Statistics>;
}
