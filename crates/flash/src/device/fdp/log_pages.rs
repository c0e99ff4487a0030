//! What a disk says of its placement, as bytes: log pages 20h and 22h, feature 1Dh and the status of reclaim unit
//! handles, as NVMe's base specification 2.1 has them, and what of its controller is wanted.

use super::Statistics;
use esker_base::coding::{u32_at, u64_at};

/// Bytes of log page 22h.
pub(super) const STATISTICS_BYTES: usize = 64;

const CONFIGURATION_HEADER: usize = 16;
const STATUS_HEADER: usize = 16;
const STATUS_BYTES: usize = 32;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Whether a controller knows placement: bit 19 of its attributes.
pub(super) fn has_placement(controller: &[u8]) -> bool {
    u32_at(controller, 96) & 1 << 19 != 0
}

/// The number of the current configuration, if any, as in feature 1Dh.
pub(super) fn configuration_in_force(feature: u64) -> Option<usize> {
    (feature & 1 != 0).then_some((feature >> 8 & 0xff) as usize)
}

/// How long all configurations are, by the head of log page 20h.
pub(super) fn configurations_bytes(head: &[u8]) -> usize {
    u32_at(head, 4) as usize
}

/// The size of a reclaim unit in a configuration of log page 20h.
pub(super) fn reclaim_unit_bytes(page: &[u8], number: usize) -> Option<u64> {
    let mut at = CONFIGURATION_HEADER;
    for _ in 0..number {
        let bytes = page.get(at..at + 2)?;
        at += usize::from(u16_at(bytes, 0)).max(1);
    }
    page.get(at + 16..at + 24).map(|bytes| u64_at(bytes, 0))
}

/// How long the status of so many handles is.
pub(super) fn status_bytes(handles: usize) -> usize {
    STATUS_HEADER + handles * STATUS_BYTES
}

/// How many handles there are, and the identifiers of those that came along.
pub(super) fn identifiers(status: &[u8]) -> (usize, Vec<u16>) {
    let count = usize::from(u16_at(status, 14));
    let each = status[STATUS_HEADER..].chunks_exact(STATUS_BYTES).take(count);
    (count, each.map(|handle| u16_at(handle, 0)).collect())
}

/// Log page 22h.
pub(super) fn statistics(page: &[u8]) -> Statistics {
    let number = |at: usize| u128::from(u64_at(page, at)) | u128::from(u64_at(page, at + 8)) << 64;
    Statistics { host_bytes: number(0), media_bytes: number(16) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_is_off_has_no_configuration() {
        assert_eq!(configuration_in_force(0x0300), None);
        assert_eq!(configuration_in_force(0x0301), Some(3));
    }

    #[test]
    fn configurations_are_passed_over_by_their_sizes() {
        let mut page = vec![0; 16 + 80 + 64];
        page[4..8].copy_from_slice(&160u32.to_le_bytes());
        (page[16], page[96]) = (80, 64);
        page[16 + 16..][..8].copy_from_slice(&(1u64 << 20).to_le_bytes());
        page[96 + 16..][..8].copy_from_slice(&(13u64 << 30).to_le_bytes());
        assert_eq!(configurations_bytes(&page), 160);
        assert_eq!(reclaim_unit_bytes(&page, 0), Some(1 << 20));
        assert_eq!(reclaim_unit_bytes(&page, 1), Some(13 << 30));
        assert_eq!(reclaim_unit_bytes(&page, 2), None);
    }

    #[test]
    fn handles_tell_their_identifiers() {
        let mut status = vec![0; status_bytes(2)];
        status[14] = 3;
        (status[16], status[48], status[49]) = (5, 1, 0x80);
        assert_eq!(identifiers(&status), (3, vec![5, 0x8001]));
    }

    #[test]
    fn statistics_are_numbers_of_sixteen_bytes() {
        let mut page = vec![0; STATISTICS_BYTES];
        (page[0], page[8], page[17]) = (3, 1, 1);
        let expected = Statistics { host_bytes: (1 << 64) + 3, media_bytes: 256 };
        assert_eq!(statistics(&page), expected);
    }
}
