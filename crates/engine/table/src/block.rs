//! A data block in memory, and the search for one key in it.
//!
//! ```text
//! entry:    tag u8 | shared varint | unshared varint | value_len varint | seqno, 0..7 bytes | key suffix
//! restart:  offset of its entry u32 | offset of its value, from the first value, u32
//! block:    restarts u32 | bytes of all entries u32 | bytes of all values u32 | restarts | entries | values
//! ```
//!
//! Keys and values are apart, and restarts before the keys: a search walks a few neighbouring cache
//! lines from the block's start on, instead of one or two an entry, each of which would have to
//! arrive before the next one's address is known.
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
use esker_base::prefetch;
use esker_base::{EXPIRY_BYTES, Kind, Seqno};
use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

/// The shortest entry: tag and three lengths.
pub(crate) const ENTRY_BYTES_MIN: usize = 4;

/// The seqno of a version takes at most this many bytes.
const SEQNO_BYTES_MAX: usize = 7;

/// An entry's fixed fields, with a value length of two bytes, and a seqno as a whole word.
const ENTRY_WINDOW: usize = ENTRY_BYTES_MIN + 1 + 8;

/// The bits of an entry's first byte that are set in no tag: of the kind, and of the number of seqno bytes.
const UNKNOWN_TAGS: u32 = 0x8e;

/// The bits of an entry's first four bytes that say that a length goes on,
const LONG_LENGTHS: u32 = 0x8080_8000;

/// and the one of them that says so of the value's.
const LONG_VALUE: u32 = 0x8000_0000;

/// At most so many bytes are [touched](Block::touch).
const TOUCHED_BYTES: usize = 1 << 10;

/// What a processor fetches from memory at once.
const CACHE_LINE_BYTES: usize = 64;

/// Three counts.
pub(crate) const HEADER_BYTES: usize = 12;

/// A restart: two offsets.
pub(crate) const RESTART_BYTES: usize = 8;

/// Bytes that are no block. Where, relative to the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadEntry {
    /// Offset in the unpacked block.
    pub(crate) at: usize,
}

/// A data block, unpacked and checked against its checksum. Cheap to clone. The counts are held
/// here, next to the pointer, and so in the cache's own slot.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// What the counts cover; the rest is ignored.
    bytes: Arc<[u8]>,
    /// At least one.
    restarts: u32,
    /// Where the entries end and the values start.
    entries_end: u32,
    /// Where the values end.
    values_end: u32,
}

/// One entry, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEntry {
    pub(crate) shared: usize,
    /// Where the key's unshared bytes start. They end where the entry does.
    pub(crate) suffix: usize,
    pub(crate) end: usize,
    pub(crate) value_len: usize,
    pub(crate) seqno: Seqno,
    pub(crate) kind: Kind,
}

/// What a search needs of an entry that it passes.
struct Step {
    shared: usize,
    suffix: usize,
    end: usize,
    value_len: usize,
}

/// Where an entry, and where its value starts in the block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct EntryPosition {
    pub(crate) entry: usize,
    pub(crate) value: usize,
}

impl EntryPosition {
    /// The place behind `entry`, which is in this block.
    #[inline]
    pub(crate) fn after(self, entry: &RawEntry) -> EntryPosition {
        EntryPosition { entry: entry.end, value: self.value + entry.value_len }
    }
}

/// Where a search ends: at the first version at or after its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeekResult {
    pub(crate) place: EntryPosition,
    pub(crate) entry: RawEntry,
    /// Whether the entry's key is the target's.
    pub(crate) same_key: bool,
}

impl Block {
    /// Takes what `bytes` start with for a block. `None` if it is none.
    pub(crate) fn new(bytes: Arc<[u8]>) -> Option<Block> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let [restarts, entries, values] = [0, 4, 8].map(|at| u32_at(header, at));
        let restart_bytes = u64::from(restarts) * RESTART_BYTES as u64;
        let len = restart_bytes + u64::from(entries) + u64::from(values);
        if restarts == 0 || len > rest.len() as u64 || len > u64::from(u32::MAX / 2) {
            return None;
        }
        let entries_end = HEADER_BYTES as u32 + restart_bytes as u32 + entries;
        let block = Block { bytes, restarts, entries_end, values_end: entries_end + values };
        let first = block.first() == block.restart(0);
        let in_order = (1..block.restarts()).all(|n| {
            let (before, here) = (block.restart(n - 1), block.restart(n));
            before.entry < here.entry && before.value <= here.value
        });
        let last = block.restart(block.restarts() - 1);
        let inside = last.entry < block.entries_end() && last.value <= block.values_end as usize;
        (first && in_order && inside).then_some(block)
    }

    /// The memory of the block, which its clones share.
    #[inline]
    pub(crate) fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The same, without this clone.
    #[inline]
    pub(crate) fn into_bytes(self) -> Arc<[u8]> {
        self.bytes
    }

    /// Bytes of memory that the block takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Where the first entry and the first value are.
    #[inline]
    pub(crate) fn first(&self) -> EntryPosition {
        let entry = HEADER_BYTES + RESTART_BYTES * self.restarts();
        EntryPosition { entry, value: self.entries_end() }
    }

    /// Where the entries end.
    #[inline]
    pub(crate) fn entries_end(&self) -> usize {
        self.entries_end as usize
    }

    /// The number of restarts, at least one.
    #[inline]
    pub(crate) fn restarts(&self) -> usize {
        self.restarts as usize
    }

    /// Restart `n`, below [`Block::restarts`].
    #[inline]
    pub(crate) fn restart(&self, n: usize) -> EntryPosition {
        let at = HEADER_BYTES + RESTART_BYTES * n;
        let first = self.first();
        EntryPosition {
            entry: first.entry + u32_at(&self.bytes, at) as usize,
            value: first.value + u32_at(&self.bytes, at + 4) as usize,
        }
    }

    /// Where the value of `entry` is, which is at `place`.
    #[inline]
    pub(crate) fn value(
        &self,
        place: EntryPosition,
        entry: &RawEntry,
    ) -> Result<Range<usize>, BadEntry> {
        let end = place.value + entry.value_len;
        if end > self.values_end as usize {
            return Err(BadEntry { at: place.entry });
        }
        Ok(place.value..end)
    }

    /// Whether `other` is the same block in memory.
    #[inline]
    pub(crate) fn is(&self, other: &Block) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
    }

    /// Bytes of the block.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The `N` bytes at `at`, if the block has so many.
    #[inline]
    pub(crate) fn chunk<const N: usize>(&self, at: usize) -> Option<&[u8; N]> {
        self.bytes.get(at..)?.first_chunk()
    }

    /// The unshared bytes of an entry's key.
    #[inline]
    pub(crate) fn suffix(&self, entry: &RawEntry) -> &[u8] {
        &self.bytes[entry.suffix..entry.end]
    }

    /// Takes the entry at `at` apart.
    #[inline]
    pub(crate) fn entry(&self, at: usize) -> Result<RawEntry, BadEntry> {
        self.decode(at).ok_or(BadEntry { at })
    }

    #[inline]
    fn decode(&self, at: usize) -> Option<RawEntry> {
        let Some(window) = self.bytes.get(at..)?.first_chunk::<ENTRY_WINDOW>() else {
            return self.decode_long_entry(at);
        };
        let word = u32_at(window, 0);
        let (value_len, seqno) = match word & LONG_LENGTHS {
            0 => (usize::from(window[3]), &window[ENTRY_BYTES_MIN..]),
            LONG_VALUE if window[4] < 0x80 => {
                let value_len = usize::from(window[3] & 0x7f) | usize::from(window[4]) << 7;
                (value_len, &window[ENTRY_BYTES_MIN + 1..])
            }
            _ => return self.decode_long_entry(at),
        };
        let seqno_at = at + window.len() - seqno.len();
        let seqno = u64::from_le_bytes(*seqno.first_chunk()?);
        let lengths = [usize::from(window[1]), usize::from(window[2]), value_len];
        self.assemble(window[0], lengths, seqno_at, seqno)
    }

    /// As [`Block::decode`], for an entry with longer lengths, or at the very end.
    fn decode_long_entry(&self, at: usize) -> Option<RawEntry> {
        let entries = &self.bytes[..self.entries_end()];
        let (tag, mut rest) = entries.get(at..)?.split_first()?;
        let mut length = || take_varint32(&mut rest).map(|length| length as usize);
        let lengths = [length()?, length()?, length()?];
        let mut seqno = [0; 8];
        let seqno_bytes = rest.get(..usize::from(tag >> 4))?;
        seqno.get_mut(..seqno_bytes.len())?.copy_from_slice(seqno_bytes);
        self.assemble(*tag, lengths, entries.len() - rest.len(), u64::from_le_bytes(seqno))
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
            3 => Kind::Merge,
            4 => Kind::Separated,
            5 if value_len >= EXPIRY_BYTES => Kind::ExpiringPut,
            6 => Kind::Combined,
            _ => return None,
        };
        let suffix = seqno_at + seqno_bytes;
        let end = suffix + unshared;
        if seqno_bytes > SEQNO_BYTES_MAX || end > self.entries_end() {
            return None;
        }
        let seqno = seqno & ((1 << (8 * seqno_bytes)) - 1);
        Some(RawEntry { shared, suffix, end, value_len, seqno, kind })
    }

    /// Checks that every restart is the start of an entry and its value, and its key whole.
    pub(crate) fn check_restarts(&self) -> Result<(), BadEntry> {
        let mut place = self.first();
        for n in 0..self.restarts() {
            let restart = self.restart(n);
            while place.entry < restart.entry {
                place = place.after(&self.entry(place.entry)?);
            }
            if place != restart {
                return Err(BadEntry { at: restart.entry });
            }
            self.restart_version(n)?;
        }
        Ok(())
    }

    /// The key of restart `n` and its seqno.
    fn restart_version(&self, n: usize) -> Result<(&[u8], Seqno), BadEntry> {
        let at = self.restart(n).entry;
        let entry = self.entry(at)?;
        if entry.shared != 0 {
            return Err(BadEntry { at });
        }
        Ok((self.suffix(&entry), entry.seqno))
    }

    /// The last restart whose version is before `(key, seqno)`, or the first of all.
    fn restart_before(&self, key: &[u8], seqno: Seqno) -> Result<usize, BadEntry> {
        let (mut low, mut high) = (0, self.restarts());
        while high - low > 1 {
            let middle = (low + high) / 2;
            let (other, other_seqno) = self.restart_version(middle)?;
            let before = match other.cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => other_seqno > seqno,
                Ordering::Greater => false,
            };
            if before {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Has the processor fetch what a search reads all at once. Otherwise it would wait for each
    /// cache line before it knew the next.
    #[inline]
    pub(crate) fn touch(&self) {
        let searched = &self.bytes[..self.entries_end().min(TOUCHED_BYTES)];
        let lines = searched.iter().step_by(CACHE_LINE_BYTES);
        black_box(lines.fold(0, |sum, byte| sum ^ byte));
    }

    /// Asks the processor for what a scan reads first: the count of references, which is in front of the
    /// bytes, the first entries, and the first value.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let start = self.bytes.as_ptr();
        prefetch(start.wrapping_sub(2 * size_of::<usize>()));
        prefetch(start.wrapping_add(CACHE_LINE_BYTES));
        prefetch(start.wrapping_add(self.entries_end()));
    }

    /// The first version at or after `(key, seqno)`, if the block has one.
    #[inline]
    pub(crate) fn seek(&self, key: &[u8], seqno: Seqno) -> Result<Option<SeekResult>, BadEntry> {
        let before = self.restart_before(key, seqno)?;
        let is_last = before + 1 == self.restarts();
        let end = if is_last { self.entries_end() } else { self.restart(before + 1).entry };
        let found = self.scan(self.restart(before), end, key, seqno)?;
        if found.is_some() || is_last {
            return Ok(found);
        }
        let place = self.restart(before + 1);
        let entry = self.entry(place.entry)?;
        let same_key = self.suffix(&entry) == key;
        Ok(Some(SeekResult { place, entry, same_key }))
    }

    /// The first version at or after `(key, seqno)` in the restart interval from `place` to `end`.
    #[inline]
    fn scan(
        &self,
        mut place: EntryPosition,
        end: usize,
        key: &[u8],
        seqno: Seqno,
    ) -> Result<Option<SeekResult>, BadEntry> {
        let (start, mut matched) = (place.entry, 0);
        while place.entry < end {
            let Step { shared, suffix, end, value_len } = self.step(place.entry)?;
            if shared > matched && place.entry == start {
                return Err(BadEntry { at: start });
            }
            if shared < matched {
                return self.landing(place, false);
            }
            if shared == matched {
                let (suffix, rest) = (&self.bytes[suffix..end], &key[matched..]);
                let is_below = match (suffix, rest) {
                    // Most differ in their first byte.
                    ([byte, ..], [other, ..]) if byte != other => byte < other,
                    _ => {
                        let common = common_prefix(suffix, rest);
                        matched += common;
                        if common == rest.len() {
                            let landing = self.landing(place, common == suffix.len())?;
                            let is_newer = |it: &SeekResult| it.same_key && it.entry.seqno > seqno;
                            if !landing.as_ref().is_some_and(is_newer) {
                                return Ok(landing);
                            }
                            true
                        } else {
                            common == suffix.len() || suffix[common] < rest[common]
                        }
                    }
                };
                if !is_below {
                    return self.landing(place, false);
                }
            }
            place = EntryPosition { entry: end, value: place.value + value_len };
        }
        Ok(None)
    }

    /// The lengths of the entry at `at`.
    #[inline(always)]
    fn step(&self, at: usize) -> Result<Step, BadEntry> {
        let window: Option<&[u8; ENTRY_BYTES_MIN + 1]> = self.chunk(at);
        let Some(window) = window else { return self.step_slowly(at) };
        let word = u32_at(window, 0);
        let (mut value_len, mut seqno_at) = (word >> 24, at + ENTRY_BYTES_MIN);
        match word & (LONG_LENGTHS | UNKNOWN_TAGS) {
            0 => {}
            LONG_VALUE if window[4] < 0x80 => {
                value_len = value_len & 0x7f | u32::from(window[4]) << 7;
                seqno_at += 1;
            }
            _ => return self.step_slowly(at),
        }
        let suffix = seqno_at + (word >> 4 & 0x0f) as usize;
        let end = suffix + (word >> 16 & 0xff) as usize;
        if end > self.entries_end() {
            return Err(BadEntry { at });
        }
        Ok(Step { shared: (word >> 8 & 0xff) as usize, suffix, end, value_len: value_len as usize })
    }

    /// As [`Block::step`], for any entry.
    #[cold]
    fn step_slowly(&self, at: usize) -> Result<Step, BadEntry> {
        let RawEntry { shared, suffix, end, value_len, .. } = self.entry(at)?;
        Ok(Step { shared, suffix, end, value_len })
    }

    /// The end of a search at the entry at `place`.
    #[inline]
    fn landing(
        &self,
        place: EntryPosition,
        same_key: bool,
    ) -> Result<Option<SeekResult>, BadEntry> {
        let entry = self.entry(place.entry)?;
        Ok(Some(SeekResult { place, entry, same_key }))
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
        let block =
            |words: &[u32]| Block::new(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        // Counts, restarts, and a word each of entries and values.
        assert!(block(&[1, 4, 4, 0, 0, 7, 7]).is_some());
        assert!(block(&[2, 8, 4, 0, 0, 4, 4, 7, 7, 7]).is_some());
        for bad in [
            &[][..],
            &[1, 4],
            &[0, 4, 4, 7, 7],
            &[1, 4, 4, 0, 0, 7],
            &[1, 0, 4, 0, 0, 7, 7],
            &[1, 8, 4, 4, 0, 7, 7, 7],
            &[1, 4, 4, 0, 1, 7, 7],
            &[2, 8, 4, 0, 0, 0, 0, 7, 7, 7],
            &[2, 8, 4, 0, 0, 8, 0, 7, 7, 7],
            &[2, 8, 4, 0, 0, 4, 5, 7, 7, 7],
            &[u32::MAX, 4, 4, 0, 0, 7, 7],
            &[1, u32::MAX, u32::MAX, 0, 0, 7, 7],
        ] {
            assert!(block(bad).is_none(), "{bad:?}");
        }
    }
}
