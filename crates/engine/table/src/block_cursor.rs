//! Walks one data block both ways.
//!
//! Forward, a key is the last key cut to what is shared, plus a suffix. Backward, that can't be
//! undone, so the first step back decodes the restart interval before the position once, keeps its
//! at most 16 keys, and the following steps take them off again.

use crate::block::{BadEntry, Block, EntryPosition, RawEntry};
use esker_base::{Kind, Seqno};
use std::ops::Range;

/// A position in a block. The block is handed in at every call and must be the same one from seek
/// to seek.
pub(crate) struct BlockCursor {
    /// Where the current entry is.
    place: EntryPosition,
    /// Where the next is.
    next: EntryPosition,
    key: Vec<u8>,
    seqno: Seqno,
    kind: Kind,
    value: Range<usize>,
    /// The entries of this restart interval before the current one: place, and where in `back_keys`
    /// their key starts. Empty if not known.
    back: Vec<(EntryPosition, usize)>,
    back_keys: Vec<u8>,
}

impl BlockCursor {
    /// A cursor that is nowhere: seek first.
    pub(crate) fn new() -> Self {
        BlockCursor {
            place: EntryPosition { entry: 0, value: 0 },
            next: EntryPosition { entry: 0, value: 0 },
            key: Vec::new(),
            seqno: 0,
            kind: Kind::Delete,
            value: 0..0,
            back: Vec::new(),
            back_keys: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn seqno(&self) -> Seqno {
        self.seqno
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    pub(crate) fn value(&self) -> Range<usize> {
        self.value.clone()
    }

    /// Where the next entry is.
    #[inline]
    pub(crate) fn next_place(&self) -> EntryPosition {
        self.next
    }

    /// Goes to the first entry at or after `(key, seqno)`. False if there is none.
    pub(crate) fn seek(
        &mut self,
        block: &Block,
        key: &[u8],
        seqno: Seqno,
    ) -> Result<bool, BadEntry> {
        self.clear_backward();
        let Some(landing) = block.seek(key, seqno)? else {
            return Ok(false);
        };
        // The search stops at an entry that shares at most the matched bytes, which are the target's.
        let shared = key.get(..landing.entry.shared).ok_or(BadEntry { at: landing.place.entry })?;
        self.key.clear();
        self.key.extend_from_slice(shared);
        self.key.extend_from_slice(block.suffix(&landing.entry));
        self.set_position(block, landing.place, &landing.entry)?;
        Ok(true)
    }

    /// Goes to the first entry.
    pub(crate) fn seek_first(&mut self, block: &Block) -> Result<(), BadEntry> {
        self.key.clear();
        self.next = block.first();
        self.next(block).map(|_| ())
    }

    /// Goes to the last entry.
    pub(crate) fn seek_last(&mut self, block: &Block) -> Result<(), BadEntry> {
        self.seek_end(block);
        self.prev(block).map(|_| ())
    }

    /// Goes behind the last entry: only `prev` may follow.
    pub(crate) fn seek_end(&mut self, block: &Block) {
        self.clear_backward();
        self.place.entry = block.entries_end();
    }

    /// Goes one entry on. False, and no move, at the last.
    #[inline]
    pub(crate) fn next(&mut self, block: &Block) -> Result<bool, BadEntry> {
        let place = self.next;
        if place.entry == block.entries_end() {
            return Ok(false);
        }
        self.clear_backward();
        let entry = block.entry(place.entry)?;
        if entry.shared > self.key.len() {
            return Err(BadEntry { at: place.entry });
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(block.suffix(&entry));
        self.set_position(block, place, &entry)?;
        Ok(true)
    }

    /// Goes one entry back. False, and no move, at the first.
    #[inline]
    pub(crate) fn prev(&mut self, block: &Block) -> Result<bool, BadEntry> {
        if self.place.entry == block.first().entry {
            return Ok(false);
        }
        if self.back.is_empty() {
            self.decode_interval_backward(block)?;
        }
        let (place, key_start) = self.back.pop().ok_or(BadEntry { at: self.place.entry })?;
        self.key.clear();
        self.key.extend_from_slice(&self.back_keys[key_start..]);
        self.back_keys.truncate(key_start);
        let entry = block.entry(place.entry)?;
        self.set_position(block, place, &entry)?;
        Ok(true)
    }

    #[inline]
    fn set_position(
        &mut self,
        block: &Block,
        place: EntryPosition,
        entry: &RawEntry,
    ) -> Result<(), BadEntry> {
        self.value = block.value(place, entry)?;
        self.place = place;
        self.next = place.after(entry);
        self.seqno = entry.seqno;
        self.kind = entry.kind;
        Ok(())
    }

    #[inline]
    fn clear_backward(&mut self) {
        self.back.clear();
        self.back_keys.clear();
    }

    /// Decodes what is between the restart before the current entry and that entry.
    fn decode_interval_backward(&mut self, block: &Block) -> Result<(), BadEntry> {
        let (mut low, mut high) = (0, block.restarts());
        while low + 1 < high {
            let middle = (low + high) / 2;
            if block.restart(middle).entry < self.place.entry {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut place = block.restart(low);
        let mut last_key_start = 0;
        while place.entry < self.place.entry {
            let entry = block.entry(place.entry)?;
            let key_start = self.back_keys.len();
            if entry.shared > key_start - last_key_start {
                return Err(BadEntry { at: place.entry });
            }
            self.back_keys.extend_from_within(last_key_start..last_key_start + entry.shared);
            self.back_keys.extend_from_slice(block.suffix(&entry));
            self.back.push((place, key_start));
            last_key_start = key_start;
            place = place.after(&entry);
        }
        if place.entry == self.place.entry { Ok(()) } else { Err(BadEntry { at: place.entry }) }
    }
}
