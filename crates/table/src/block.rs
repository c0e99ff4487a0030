//! A data block in memory, and the search for one key in it.
//!
//! ```text
//! entry:  tag u8 | shared varint | unshared varint | value_len varint | seqno, 0..7 bytes | key suffix | value
//! block:  entries | restart offsets, u32 each | number of restarts u32
//! ```
//!
//! The tag's low four bits are the kind, its high four the number of seqno bytes, so that the last
//! level, where seqnos are 0, spends none. A key shares its first `shared` bytes with the key
//! before; at a restart it shares none.
//!
//! A get neither builds keys nor compares them in full. While it scans, every earlier key is below
//! the target and agrees with it in exactly `matched` bytes. An entry that shares more than that
//! with its predecessor differs from the target where the predecessor did: it is below, too. One
//! that shares less is above. Only one that shares exactly `matched` bytes is compared, and only
//! from there on.

use esker_base::coding::{take_varint32, u32_at};
use esker_base::{Kind, Seqno};
use std::cmp::Ordering;
use std::ops::Range;

/// The shortest entry: tag and three lengths.
pub(crate) const ENTRY_BYTES_MIN: usize = 4;

/// The seqno of a version takes at most this many bytes.
const SEQNO_BYTES_MAX: usize = 7;

/// Behind the last entry lie at least one restart and the count, so this many bytes can be loaded
/// at the start of any entry.
const ENTRY_WINDOW: usize = ENTRY_BYTES_MIN + 8;

/// Bytes that are no block. Where, relative to the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadEntry {
    /// Offset in the unpacked block.
    pub(crate) at: usize,
}

/// A data block, unpacked and checked against its checksum.
#[derive(Debug)]
pub(crate) struct Block {
    /// Entries, restarts and count; whatever follows is not looked at.
    bytes: Vec<u8>,
    /// Where the entries end and the restarts start.
    entries_end: usize,
    /// At least one.
    restarts: usize,
}

/// One entry, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEntry {
    pub(crate) shared: usize,
    /// Where the key's unshared bytes start; the value starts where they end.
    pub(crate) suffix: usize,
    pub(crate) value: usize,
    pub(crate) end: usize,
    pub(crate) seqno: Seqno,
    pub(crate) kind: Kind,
}

/// Where a search ends: at the first version at or after its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landing {
    /// Offset of the entry.
    pub(crate) at: usize,
    pub(crate) entry: RawEntry,
    /// Whether the entry's key is the target's.
    pub(crate) same_key: bool,
}

impl Block {
    /// Takes the first `len` of `bytes` for a block. `None` if its end is not one.
    pub(crate) fn new(bytes: Vec<u8>, len: usize) -> Option<Block> {
        let count_at = len.checked_sub(4).filter(|_| len <= bytes.len())?;
        let restarts = u32_at(&bytes, count_at) as usize;
        let entries_end = count_at.checked_sub(restarts.checked_mul(4)?)?;
        let block = Block { bytes, entries_end, restarts };
        let in_order = restarts > 0
            && block.restart(0) == 0
            && (1..restarts).all(|n| block.restart(n - 1) < block.restart(n))
            && block.restart(restarts - 1) < entries_end;
        in_order.then_some(block)
    }

    /// Bytes of memory that the block takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Block>() + self.bytes.capacity()
    }

    /// Where the entries end.
    #[inline]
    pub(crate) fn entries_end(&self) -> usize {
        self.entries_end
    }

    /// The number of restarts, at least one.
    pub(crate) fn restarts(&self) -> usize {
        self.restarts
    }

    /// The offset of restart `n`, below [`Block::restarts`].
    #[inline]
    pub(crate) fn restart(&self, n: usize) -> usize {
        u32_at(&self.bytes, self.entries_end + 4 * n) as usize
    }

    /// Bytes of the block.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The unshared bytes of an entry's key.
    #[inline]
    pub(crate) fn suffix(&self, entry: &RawEntry) -> &[u8] {
        &self.bytes[entry.suffix..entry.value]
    }

    /// Takes the entry at `at` apart.
    #[inline]
    pub(crate) fn entry(&self, at: usize) -> Result<RawEntry, BadEntry> {
        self.decode(at).ok_or(BadEntry { at })
    }

    #[inline]
    fn decode(&self, at: usize) -> Option<RawEntry> {
        let window: &[u8; ENTRY_WINDOW] = self.bytes.get(at..)?.first_chunk()?;
        let lengths = u32::from_le_bytes([window[0], window[1], window[2], window[3]]);
        if lengths & 0x8080_8000 != 0 {
            return self.decode_long(at);
        }
        let seqno = u64::from_le_bytes(window[4..].try_into().ok()?);
        let lengths = [usize::from(window[1]), usize::from(window[2]), usize::from(window[3])];
        self.assemble(window[0], lengths, at + ENTRY_BYTES_MIN, seqno)
    }

    /// As [`Block::decode`], for an entry with a length of 128 or more.
    fn decode_long(&self, at: usize) -> Option<RawEntry> {
        let entries = &self.bytes[..self.entries_end];
        let (tag, mut rest) = entries.get(at..)?.split_first()?;
        let mut length = || take_varint32(&mut rest).map(|length| length as usize);
        let lengths = [length()?, length()?, length()?];
        let seqno_at = self.entries_end - rest.len();
        let seqno = u64::from_le_bytes(*self.bytes[seqno_at..].first_chunk()?);
        self.assemble(*tag, lengths, seqno_at, seqno)
    }

    /// `seqno` holds the eight bytes at `seqno_at`, of which the tag says how many count.
    #[inline]
    fn assemble(
        &self,
        tag: u8,
        [shared, unshared, value_len]: [usize; 3],
        seqno_at: usize,
        seqno: u64,
    ) -> Option<RawEntry> {
        let seqno_bytes = usize::from(tag >> 4);
        let kind = match tag & 0x0f {
            0 => Kind::Delete,
            1 => Kind::Put,
            _ => return None,
        };
        let suffix = seqno_at + seqno_bytes;
        let value = suffix + unshared;
        let end = value + value_len;
        if seqno_bytes > SEQNO_BYTES_MAX || end > self.entries_end {
            return None;
        }
        let seqno = seqno & ((1 << (8 * seqno_bytes)) - 1);
        Some(RawEntry { shared, suffix, value, end, seqno, kind })
    }

    /// The key of restart `n` and its seqno.
    fn restart_version(&self, n: usize) -> Result<(&[u8], Seqno), BadEntry> {
        let at = self.restart(n);
        let entry = self.entry(at)?;
        if entry.shared != 0 {
            return Err(BadEntry { at });
        }
        Ok((self.suffix(&entry), entry.seqno))
    }

    /// Checks that every restart is the start of an entry, and that its key is whole.
    pub(crate) fn check_restarts(&self) -> Result<(), BadEntry> {
        let mut at = 0;
        for n in 0..self.restarts {
            let restart = self.restart(n);
            while at < restart {
                at = self.entry(at)?.end;
            }
            if at != restart {
                return Err(BadEntry { at: restart });
            }
            self.restart_version(n)?;
        }
        Ok(())
    }

    /// The number of restarts whose version is before `(key, seqno)`.
    fn restarts_before(&self, key: &[u8], seqno: Seqno) -> Result<usize, BadEntry> {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = (low + high) / 2;
            let (other, other_seqno) = self.restart_version(middle)?;
            let before = match other.cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => other_seqno > seqno,
                Ordering::Greater => false,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first version at or after `(key, seqno)`, if the block has one.
    pub(crate) fn seek(&self, key: &[u8], seqno: Seqno) -> Result<Option<Landing>, BadEntry> {
        let restarts_before = self.restarts_before(key, seqno)?;
        let limit = if restarts_before < self.restarts {
            self.restart(restarts_before)
        } else {
            self.entries_end
        };
        if restarts_before > 0 {
            let start = self.restart(restarts_before - 1);
            if let Some(landing) = self.scan(start..limit, key, seqno)? {
                return Ok(Some(landing));
            }
        }
        if limit == self.entries_end {
            return Ok(None);
        }
        let entry = self.entry(limit)?;
        let same_key = self.suffix(&entry) == key;
        Ok(Some(Landing { at: limit, entry, same_key }))
    }

    /// The first version at or after `(key, seqno)` in one restart interval.
    #[inline]
    fn scan(
        &self,
        interval: Range<usize>,
        key: &[u8],
        seqno: Seqno,
    ) -> Result<Option<Landing>, BadEntry> {
        let mut matched = 0;
        let mut at = interval.start;
        while at < interval.end {
            let entry = self.entry(at)?;
            if entry.shared < matched {
                return Ok(Some(Landing { at, entry, same_key: false }));
            }
            if entry.shared == matched {
                let (suffix, rest) = (self.suffix(&entry), &key[matched..]);
                let common = common_prefix(suffix, rest);
                matched += common;
                if common == rest.len() {
                    let same_key = common == suffix.len();
                    if !same_key || entry.seqno <= seqno {
                        return Ok(Some(Landing { at, entry, same_key }));
                    }
                } else if common < suffix.len() && suffix[common] > rest[common] {
                    return Ok(Some(Landing { at, entry, same_key: false }));
                }
            }
            at = entry.end;
        }
        Ok(None)
    }
}

/// The number of leading bytes that `a` and `b` have in common.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let limit = a.len().min(b.len());
    let (a, b) = (&a[..limit], &b[..limit]);
    let mut at = 0;
    while let (Some(x), Some(y)) = (a[at..].first_chunk::<8>(), b[at..].first_chunk::<8>()) {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return at + differing.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < limit && a[at] == b[at] {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefixes_are_found_at_every_length() {
        let a: Vec<u8> = (0..40).collect();
        for len in 0..=40 {
            for differs_at in 0..len {
                let mut b = a[..len].to_vec();
                b[differs_at] ^= 0x80;
                assert_eq!(common_prefix(&a, &b), differs_at);
            }
            assert_eq!(common_prefix(&a, &a[..len]), len);
        }
    }

    #[test]
    fn ends_that_are_no_block_are_refused() {
        for bad in [
            &[][..],
            &[0, 0, 0],
            &[0, 0, 0, 0],
            &[1, 0, 0, 0],
            &[0, 0, 0, 0, 1, 0, 0, 0],
            &[9, 9, 9, 9, 1, 0, 0, 0, 1, 0, 0, 0],
            &[9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
            &[0xff; 16],
        ] {
            assert!(Block::new(bad.to_vec(), bad.len()).is_none(), "{bad:?}");
        }
    }
}
