//! The bytes of a pool, shared by writer and reader; `docs/formats/pool.md` describes them.

use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{u32_at, u64_at};

/// The newest pool format that this code reads, and the one it writes.
pub(crate) const POOL_VERSION: u32 = 1;

/// The first word of a pool whose creation was finished.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"ESKRPOOL");

/// The bytes under the header's checksum, and the checksum.
pub(crate) const HEADER_BYTES: usize = 64;
const CHECKSUM_AT: usize = 60;
const RESERVED: std::ops::Range<usize> = 56..CHECKSUM_AT;

/// The owner, on a line of its own, with its complement: together they distinguish damage from a claim.
pub(crate) const OWNER_AT: usize = 64;
pub(crate) const OWNER_COMPLEMENT_AT: usize = 72;

/// The process that has the pool open, for messages; means nothing to anybody without the lock.
pub(crate) const HOLDER_AT: usize = 128;

/// The state words, one an extent.
pub(crate) const TABLE_AT: usize = 4096;

/// What extents and the data start are multiples of in small pools.
const PAGE_BYTES: u64 = 4 << 10;

/// The same in large ones, for the sake of huge pages.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// A sixteenth of a pool of this size is one huge page.
const LARGE_POOL_BYTES: u64 = 64 << 20;

/// Few large extents: each is a MemTable that every read must ask.
const EXTENTS_WANTED: u64 = 16;
const EXTENT_BYTES_MIN: u64 = 64 << 10;
const EXTENT_BYTES_MAX: u64 = 1 << 30;

/// The smallest pool: two extents, as one is flushed while the other is written.
pub(crate) const POOL_BYTES_MIN: u64 = TABLE_AT as u64 + PAGE_BYTES + 2 * EXTENT_BYTES_MIN;
pub(crate) const POOL_BYTES_MAX: u64 = 1 << 46;

/// Where things are in a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub pool_bytes: u64,
    pub extent_bytes: u64,
    pub extents: u32,
    pub data_at: u64,
}

impl Layout {
    /// The layout of a pool of `pool_bytes`, which are within the bounds.
    pub fn of(pool_bytes: u64) -> Layout {
        let unit = if pool_bytes < LARGE_POOL_BYTES { PAGE_BYTES } else { HUGE_PAGE_BYTES };
        // The table of the largest pool takes 64 Ki words, half a MiB.
        let most = pool_bytes / EXTENT_BYTES_MAX + EXTENTS_WANTED;
        let data_at = (TABLE_AT as u64 + most * 8).next_multiple_of(unit);
        let room = pool_bytes - data_at;
        let extent_bytes =
            (room / EXTENTS_WANTED / unit * unit).clamp(EXTENT_BYTES_MIN, EXTENT_BYTES_MAX);
        let extents = (room / extent_bytes) as u32;
        Layout { pool_bytes, extent_bytes, extents, data_at }
    }

    /// What no pool of this version can say of itself, if this one does.
    fn flaw(&self) -> Option<&'static str> {
        let table_end = TABLE_AT as u64 + u64::from(self.extents) * 8;
        let data = u64::from(self.extents).checked_mul(self.extent_bytes);
        if self.extents == 0 || self.extent_bytes < EXTENT_BYTES_MIN {
            Some("it says that it has no space")
        } else if !self.extent_bytes.is_multiple_of(PAGE_BYTES)
            || !self.data_at.is_multiple_of(PAGE_BYTES)
            || self.extent_bytes > EXTENT_BYTES_MAX
        {
            Some("its extents have a size or a place that no pool has")
        } else if self.data_at < table_end
            || data
                .and_then(|bytes| bytes.checked_add(self.data_at))
                .is_none_or(|end| end > self.pool_bytes)
        {
            Some("its extents do not fit into it")
        } else {
            None
        }
    }
}

/// What the first line of a pool says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PoolHeader {
    pub identity: u64,
    pub layout: Layout,
}

/// Why a first line is no header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BadHeader {
    /// The magic is zero: a creation that was truncated.
    Unfinished,
    /// Something else starts with other bytes.
    Foreign,
    Newer(u32),
    UnknownFeatures(u32),
    Damaged {
        offset: u64,
        what: &'static str,
    },
}

/// Frames start at multiples of this, so that each can be streamed in whole lines.
pub(crate) const ALIGNMENT: u32 = 64;

impl PoolHeader {
    /// The header as it is stored.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&POOL_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.layout.pool_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.layout.extent_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.layout.extents.to_le_bytes());
        bytes[44..48].copy_from_slice(&ALIGNMENT.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.layout.data_at.to_le_bytes());
        let checksum = crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<PoolHeader, BadHeader> {
        let damaged = |offset, what| Err(BadHeader::Damaged { offset, what });
        match u64_at(bytes, 0) {
            MAGIC => {}
            0 => return Err(BadHeader::Unfinished),
            _ => return Err(BadHeader::Foreign),
        }
        if u32_at(bytes, CHECKSUM_AT) != crc32c(&bytes[..CHECKSUM_AT]) {
            return damaged(CHECKSUM_AT as u64, "the header's checksum does not match");
        }
        match (u32_at(bytes, 8), u32_at(bytes, 12)) {
            (version, _) if version > POOL_VERSION => return Err(BadHeader::Newer(version)),
            (0, _) => return damaged(8, "the format version is zero"),
            (_, 0) => {}
            (_, flags) => return Err(BadHeader::UnknownFeatures(flags)),
        }
        let layout = Layout {
            pool_bytes: u64_at(bytes, 24),
            extent_bytes: u64_at(bytes, 32),
            extents: u32_at(bytes, 40),
            data_at: u64_at(bytes, 48),
        };
        if u32_at(bytes, 44) != ALIGNMENT {
            return damaged(44, "the alignment is not 64");
        }
        if bytes[RESERVED].iter().any(|&byte| byte != 0) {
            return damaged(RESERVED.start as u64, "reserved bytes of the header are not zero");
        }
        match layout.flaw() {
            Some(what) => damaged(24, what),
            None => Ok(PoolHeader { identity: u64_at(bytes, 16), layout }),
        }
    }
}

/// What an extent is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtentState {
    Free,
    /// Holds the segment of this epoch.
    Used(u32),
}

const FREE: u64 = 1;
const USED: u64 = 2;

impl ExtentState {
    /// `epoch u32 | check u24 | state u8`, from the low bits. The check covers which pool and which
    /// extent the word is for, so that a word from elsewhere does not pass.
    pub fn encode(self, identity: u64, index: u32) -> u64 {
        let (state, epoch) = match self {
            ExtentState::Free => (FREE, 0),
            ExtentState::Used(epoch) => (USED, epoch),
        };
        let check = crc32c_append(crc32c(&identity.to_le_bytes()), &index.to_le_bytes());
        let check = crc32c_append(check, &[state as u8]);
        let check = crc32c_append(check, &u32::to_le_bytes(epoch));
        u64::from(epoch) | u64::from(check & 0xff_ffff) << 32 | state << 56
    }

    /// Reads a word; `None` if no writer made it.
    pub fn decode(word: u64, identity: u64, index: u32) -> Option<ExtentState> {
        let state = match (word >> 56, word as u32) {
            (FREE, 0) => ExtentState::Free,
            (USED, epoch) if epoch > 0 => ExtentState::Used(epoch),
            _ => return None,
        };
        (state.encode(identity, index) == word).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> PoolHeader {
        PoolHeader { identity: 0x0123_4567_89ab_cdef, layout: Layout::of(1 << 20) }
    }

    #[test]
    fn a_header_round_trips() {
        assert_eq!(PoolHeader::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_seen() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = sample().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(PoolHeader::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_state_word_is_seen() {
        for state in [ExtentState::Free, ExtentState::Used(77)] {
            let word = state.encode(9, 3);
            assert_eq!(ExtentState::decode(word, 9, 3), Some(state));
            for bit in 0..64 {
                assert_eq!(ExtentState::decode(word ^ 1 << bit, 9, 3), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_state_word_of_another_extent_or_pool_does_not_pass() {
        let word = ExtentState::Used(77).encode(9, 3);
        assert_eq!(ExtentState::decode(word, 9, 4), None);
        assert_eq!(ExtentState::decode(word, 8, 3), None);
    }

    #[test]
    fn layouts_of_all_sizes_are_sound() {
        let sizes = (17..46).flat_map(|bits| {
            [1 << bits, (1 << bits) + 4096, (1 << bits) + (1 << (bits - 1)), (1 << bits) * 2 - 1]
        });
        for bytes in sizes.filter(|bytes| (POOL_BYTES_MIN..=POOL_BYTES_MAX).contains(bytes)) {
            let layout = Layout::of(bytes);
            assert_eq!(layout.flaw(), None, "{layout:?}");
            assert!(layout.extents >= 2, "{layout:?}");
            if (1 << 30..=16 << 30).contains(&bytes) {
                assert!((15..=17).contains(&layout.extents), "{layout:?}");
                assert!(layout.extent_bytes >= 60 << 20, "{layout:?}");
            }
        }
    }

    #[test]
    fn layouts_that_do_not_fit_are_refused() {
        let sound = Layout::of(1 << 20);
        for layout in [
            Layout { extents: 0, ..sound },
            Layout { extents: u32::MAX, ..sound },
            Layout { extents: sound.extents + 1, ..sound },
            Layout { extent_bytes: 0, ..sound },
            Layout { extent_bytes: sound.extent_bytes + 1, ..sound },
            Layout { extent_bytes: u64::MAX - 4095, ..sound },
            Layout { data_at: 4096, ..sound },
            Layout { data_at: u64::MAX - 4095, ..sound },
            Layout { pool_bytes: sound.pool_bytes / 2, ..sound },
        ] {
            let header = PoolHeader { layout, ..sample() };
            assert!(matches!(PoolHeader::decode(&header.encode()), Err(BadHeader::Damaged { .. })));
        }
    }
}
