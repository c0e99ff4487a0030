//! Linux ioctls of zoned block devices. Structures, numbers and units (512-byte sectors) are those
//! of the kernel's `include/uapi/linux/blkzoned.h`.

#![expect(unsafe_code, reason = "ioctl takes pointers to structures that the number names")]

use super::{Condition, Zone};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};
use std::io;

/// What the kernel counts in, whatever the disk's blocks.
const SECTOR_BYTES: u64 = 512;

/// Zones that are asked for in one call.
const ZONES_A_CALL: usize = 64;

const REPORT: Opcode = opcode::read_write::<ReportHeader>(0x12, 130);
const RESET: Opcode = opcode::write::<[u64; 2]>(0x12, 131);
const ZONE_SECTORS: Opcode = opcode::read::<u32>(0x12, 132);
const FINISH: Opcode = opcode::write::<[u64; 2]>(0x12, 136);

/// Set by the kernel if zones have their capacity in the report: since Linux 5.9.
const HAS_CAPACITY: u32 = 1;

/// `struct blk_zone_report`, without the zones.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ReportHeader {
    sector: u64,
    zones: u32,
    flags: u32,
}

/// `struct blk_zone`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawZone {
    start: u64,
    len: u64,
    write_pointer: u64,
    kind: u8,
    condition: u8,
    non_sequential: u8,
    reset_recommended: u8,
    reserved: [u8; 4],
    capacity: u64,
    reserved_end: [u8; 24],
}

#[repr(C)]
struct Report {
    header: ReportHeader,
    zones: [RawZone; ZONES_A_CALL],
}

/// The distance of zones in bytes; 0 of a device without zones.
pub(super) fn zone_bytes(device: impl AsFd) -> io::Result<u64> {
    // SAFETY: the kernel writes a `u32`, as the number says.
    let sectors = unsafe { ioctl(device, Getter::<ZONE_SECTORS, u32>::new()) };
    match sectors {
        Ok(sectors) => Ok(u64::from(sectors) * SECTOR_BYTES),
        // It knows no such call: no zones either.
        Err(Errno::NOTTY | Errno::INVAL) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// The zones from the one at `start` on, at most [`ZONES_A_CALL`].
pub(super) fn report(device: impl AsFd, start: u64) -> io::Result<Vec<Zone>> {
    let zones = ZONES_A_CALL as u32;
    let header = ReportHeader { sector: start / SECTOR_BYTES, zones, flags: 0 };
    let mut report = Report { header, zones: [RawZone::default(); ZONES_A_CALL] };
    // SAFETY: the kernel reads the header, and writes it and at most as many zones behind it as the header says, for
    // which there is room. Every value of their bytes is one of the structures.
    unsafe { ioctl(device, Updater::<REPORT, Report>::new(&mut report)) }?;
    let found = (report.header.zones as usize).min(ZONES_A_CALL);
    let has_capacity = report.header.flags & HAS_CAPACITY != 0;
    Ok(report.zones[..found].iter().map(|zone| zone.decode(has_capacity)).collect())
}

pub(super) fn reset(device: impl AsFd, zone: &Zone) -> io::Result<()> {
    // SAFETY: the kernel reads a `struct blk_zone_range`: a sector, and a number of sectors.
    Ok(unsafe { ioctl(device, Setter::<RESET, [u64; 2]>::new(range(zone))) }?)
}

pub(super) fn finish(device: impl AsFd, zone: &Zone) -> io::Result<()> {
    // SAFETY: as of a reset.
    Ok(unsafe { ioctl(device, Setter::<FINISH, [u64; 2]>::new(range(zone))) }?)
}

fn range(zone: &Zone) -> [u64; 2] {
    [zone.start / SECTOR_BYTES, zone.bytes / SECTOR_BYTES]
}

impl RawZone {
    fn decode(&self, has_capacity: bool) -> Zone {
        let condition = match (self.kind, self.condition) {
            (1, _) | (_, 0x0) => Condition::Conventional,
            (_, 0x1) => Condition::Empty,
            (_, 0xd) => Condition::ReadOnly,
            (_, 0xe) => Condition::Full,
            (_, 0xf) => Condition::Offline,
            // Open, implicitly or explicitly, or closed; kernels with a cache of conditions say 0xff for any of these.
            _ => Condition::Active,
        };
        let capacity = if has_capacity { self.capacity } else { self.len } * SECTOR_BYTES;
        let written = match condition {
            Condition::Empty | Condition::Offline | Condition::Conventional => 0,
            Condition::Active => self.write_pointer.saturating_sub(self.start) * SECTOR_BYTES,
            // It has no write pointer.
            Condition::Full | Condition::ReadOnly => capacity,
        };
        let (start, bytes) = (self.start * SECTOR_BYTES, self.len * SECTOR_BYTES);
        Zone { start, bytes, capacity, written: written.min(capacity), condition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_and_numbers_are_the_kernels() {
        assert_eq!((size_of::<ReportHeader>(), size_of::<RawZone>()), (16, 64));
        assert_eq!(size_of::<Report>(), 16 + 64 * ZONES_A_CALL);
        let offsets = [
            offset_of!(RawZone, write_pointer),
            offset_of!(RawZone, kind),
            offset_of!(RawZone, condition),
            offset_of!(RawZone, capacity),
        ];
        assert_eq!(offsets, [16, 24, 25, 32]);
        let numbers = [REPORT, RESET, ZONE_SECTORS, FINISH];
        assert_eq!(numbers, [0xc010_1282, 0x4010_1283, 0x8004_1284, 0x4010_1288]);
    }

    /// A zone of 128 sectors at sector 256, of which 100 can be written and 8 are.
    fn zone(kind: u8, condition: u8) -> RawZone {
        RawZone {
            start: 256,
            len: 128,
            write_pointer: 264,
            kind,
            condition,
            capacity: 100,
            ..RawZone::default()
        }
    }

    #[test]
    fn every_condition_of_a_zone_is_known() {
        for (kind, condition, expected, written) in [
            (1, 0x0, Condition::Conventional, 0),
            (2, 0x1, Condition::Empty, 0),
            (2, 0x2, Condition::Active, 8),
            (2, 0x3, Condition::Active, 8),
            (2, 0x4, Condition::Active, 8),
            (2, 0xff, Condition::Active, 8),
            (2, 0xd, Condition::ReadOnly, 100),
            (2, 0xe, Condition::Full, 100),
            (2, 0xf, Condition::Offline, 0),
            (3, 0x2, Condition::Active, 8),
        ] {
            let (start, bytes, capacity) = (256 * 512, 128 * 512, 100 * 512);
            let expected =
                Zone { start, bytes, capacity, written: written * 512, condition: expected };
            assert_eq!(zone(kind, condition).decode(true), expected);
        }
    }

    #[test]
    fn a_kernel_that_tells_no_capacities_has_zones_that_are_written_to_their_ends() {
        assert_eq!(zone(2, 0x1).decode(false).capacity, 128 * 512);
        assert_eq!(zone(2, 0xe).decode(false).written, 128 * 512);
    }
}
