//! Zoned disks, as in NVMe's Zoned Namespace command set and SCSI's ZBC. A zone is written only at
//! its write pointer and is reset as a whole. Its capacity may be less than its size.
//!
//! [`KernelDisk`] uses a disk through Linux. The layer above is `crate::zones`, which is tested on
//! a disk in memory.

mod ioctl;
mod kernel;
mod write_mode;
mod zone_append;

pub use kernel::{KernelDisk, has_zones};

use esker_uring::Buffer;
use std::io;

/// A zone. Positions and lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Where it begins on the disk.
    pub start: u64,
    /// The distance to the next zone.
    pub bytes: u64,
    /// How much of it can be written.
    pub capacity: u64,
    /// How much of it was, since it was reset.
    pub written: u64,
    /// What can be done with it.
    pub condition: Condition,
}

/// What can be done with a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Written anywhere, as any disk: it has no write pointer.
    Conventional,
    /// Written from its beginning.
    Empty,
    /// Written behind what is there: implicitly or explicitly open, or closed. A disk has space for so many.
    Active,
    /// Read, and reset.
    Full,
    /// Read.
    ReadOnly,
    /// Nothing.
    Offline,
}

/// A disk of zones.
pub trait Disk: Send + Sync + 'static {
    /// What to call it in messages.
    fn name(&self) -> String;
    /// The zones from the one at `start` on, as the disk has them now: some of them, at least one, and none behind
    /// the last.
    fn report(&self, start: u64) -> io::Result<Vec<Zone>>;
    /// How many zones may be active at a time. `None` if all may.
    fn active_max(&self) -> Option<usize>;
    /// Fills `out`.
    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()>;
    /// How zones are written, for people.
    fn written_by(&self) -> String;
    /// How much is written at a time at the most, in bytes: whole blocks.
    fn write_bytes_max(&self) -> usize;
    /// Writes behind what is in a zone, and says where on the disk that was: a disk that appends says where it found the
    /// zone's end, and any other writes where `zone` says that is, or fails. After a failure some of it may be written,
    /// from the beginning. There is one write to a zone at a time.
    fn write(&self, zone: &Zone, bytes: Buffer) -> io::Result<u64>;
    /// Empties a zone.
    fn reset(&self, zone: &Zone) -> io::Result<()>;
    /// Makes a zone full, however much was written; it is not active any more.
    fn finish(&self, zone: &Zone) -> io::Result<()>;
    /// Makes everything written, reset and finished so far survive power loss.
    fn flush(&self) -> io::Result<()>;
    /// Claims it for one user, until the claim is dropped.
    fn claim(&self) -> io::Result<Box<dyn Send + Sync>>;
}

/// All zones of a disk.
pub fn zones_of(disk: &dyn Disk) -> io::Result<Vec<Zone>> {
    let mut zones = disk.report(0)?;
    while let Some(last) = zones.last() {
        let more = disk.report(last.start + last.bytes)?;
        if more.is_empty() {
            break;
        }
        zones.extend(more);
    }
    Ok(zones)
}
