//! Slots and what is in them.

use crate::extent::Extent;

/// Keys up to this length are in their entries.
pub const SHORT_KEY_BYTES: usize = 16;
/// The mark of a key that does not.
pub const LONG_KEY: u32 = SHORT_KEY_BYTES as u32 + 1;

/// The most blocks of one extent.
pub const EXTENT_BLOCKS_MAX: u32 = (1 << 24) - 1;

/// How an entry's last word is made up: blocks of the first extent, what key it is, whether there
/// are more extents. Zero is an empty slot.
pub const KEY_SHIFT: u32 = 24;
pub const IN_PIECES: u32 = 1 << 29;

/// Slots of a segment, 48 KiB.
const SEGMENT_SLOTS: usize = 2048;

#[derive(Clone, Copy, Default)]
pub struct Entry {
    /// A short key and zeros; or a long key's hash and its number.
    key: [u8; SHORT_KEY_BYTES],
    pub start: u32,
    pub what: u32,
}

impl Entry {
    pub fn of_short(key: &[u8]) -> Self {
        let mut entry = Entry::default();
        entry.key[..key.len()].copy_from_slice(key);
        entry.what = (key.len() as u32) << KEY_SHIFT;
        entry
    }

    pub fn of_long(hash: u64, number: u32) -> Self {
        let mut entry = Entry::default();
        entry.key[..8].copy_from_slice(&hash.to_le_bytes());
        entry.key[8..12].copy_from_slice(&number.to_le_bytes());
        entry.what = LONG_KEY << KEY_SHIFT;
        entry
    }

    fn is_empty(&self) -> bool {
        self.what == 0
    }

    pub fn first(&self) -> Extent {
        Extent { start: self.start, blocks: self.what & EXTENT_BLOCKS_MAX }
    }

    fn key_kind(&self) -> u32 {
        self.what >> KEY_SHIFT & 31
    }

    /// The number of its key, if that is long.
    pub fn long_key(&self) -> Option<usize> {
        let number = u32::from_le_bytes(self.key[8..12].try_into().expect("four bytes"));
        (self.key_kind() == LONG_KEY).then_some(number as usize)
    }

    /// The hash of its key, if that is long.
    pub fn long_hash(&self) -> Option<u64> {
        let hash = u64::from_le_bytes(self.key[..8].try_into().expect("eight bytes"));
        (self.key_kind() == LONG_KEY).then_some(hash)
    }

    /// Its key, if that is short.
    pub fn short_key(&self) -> &[u8] {
        &self.key[..self.key_kind() as usize]
    }
}

/// Slots, in segments: those that were not used yet are not there, nor those that were freed.
pub struct Table {
    segments: Vec<Box<[Entry]>>,
    /// Segments that were freed.
    freed: usize,
    /// A part of the slots.
    homes: usize,
}

impl Table {
    pub fn new(homes: usize) -> Self {
        Table { segments: Vec::new(), freed: 0, homes }
    }

    pub fn homes(&self) -> usize {
        self.homes
    }

    /// All that were used, and what fills the last segment.
    pub fn slots(&self) -> usize {
        self.segments.len() * SEGMENT_SLOTS
    }

    pub fn memory_bytes(&self) -> usize {
        let there = self.segments.len() - self.freed;
        self.segments.capacity() * size_of::<Box<[Entry]>>()
            + there * SEGMENT_SLOTS * size_of::<Entry>()
    }

    /// The entry in a slot, if there is one.
    pub fn entry(&self, at: usize) -> Option<&Entry> {
        let segment = self.segments.get(at / SEGMENT_SLOTS)?;
        segment.get(at % SEGMENT_SLOTS).filter(|entry| !entry.is_empty())
    }

    /// All entries from a slot on.
    pub fn entries_from(&self, at: usize) -> impl Iterator<Item = &Entry> {
        let mut segments = self.segments.get(at / SEGMENT_SLOTS..).unwrap_or(&[]).iter();
        let first = segments.next().and_then(|segment| segment.get(at % SEGMENT_SLOTS..));
        let rest = segments.flat_map(|segment| segment.iter());
        first.unwrap_or(&[]).iter().chain(rest).filter(|entry| !entry.is_empty())
    }

    /// A slot, which is made if it was not used yet.
    pub fn slot(&mut self, at: usize) -> &mut Entry {
        &mut self.segment(at / SEGMENT_SLOTS)[at % SEGMENT_SLOTS]
    }

    fn segment(&mut self, number: usize) -> &mut [Entry] {
        while self.segments.len() <= number {
            self.segments.push(vec![Entry::default(); SEGMENT_SLOTS].into());
        }
        &mut self.segments[number]
    }

    /// Puts an entry into a slot, and what was there and behind it one slot further, up to a gap.
    pub fn shift_in(&mut self, at: usize, mut entry: Entry) {
        let mut from = at % SEGMENT_SLOTS;
        for number in at / SEGMENT_SLOTS.. {
            for slot in &mut self.segment(number)[from..] {
                entry = std::mem::replace(slot, entry);
                if entry.is_empty() {
                    return;
                }
            }
            from = 0;
        }
    }

    /// Frees the segment that ends in front of a slot, if one does.
    pub fn free_before(&mut self, at: usize) {
        if at.is_multiple_of(SEGMENT_SLOTS)
            && let Some(segment) = (at / SEGMENT_SLOTS).checked_sub(1)
        {
            self.segments[segment] = Box::default();
            self.freed += 1;
        }
    }
}
