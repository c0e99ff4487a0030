//! The slots of a shard and the queues they stand in: lists by slot number, oldest first.

use super::entry::Entry;
use std::sync::atomic::{AtomicU8, Ordering};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Reads are counted up to this.
const READS_MAX: u8 = 3;

/// Which queue a slot stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Free,
    Small,
    Main,
}

/// An entry and its links.
pub(super) struct Slot {
    pub entry: Entry,
    pub tag: u32,
    newer: u32,
    /// For a free slot, the next free one.
    pub older: u32,
    /// How often it was read since it came in or was passed over: 0 to 3.
    reads: AtomicU8,
    pub place: Place,
}

impl Slot {
    pub fn new(entry: Entry, tag: u32, reads: u8, place: Place) -> Slot {
        Slot { entry, tag, newer: NONE, older: NONE, reads: AtomicU8::new(reads), place }
    }

    /// Counts a read. Two at once may count as one: that harms nothing.
    #[inline]
    pub fn note_read(&self) {
        let reads = self.reads.load(Ordering::Relaxed);
        if reads < READS_MAX {
            self.reads.store(reads + 1, Ordering::Relaxed);
        }
    }

    pub fn reads(&self) -> u8 {
        self.reads.load(Ordering::Relaxed)
    }

    pub fn set_reads(&mut self, reads: u8) {
        *self.reads.get_mut() = reads;
    }
}

/// A list through the slots.
pub(super) struct Queue {
    newest: u32,
    pub oldest: u32,
    /// The memory of its entries.
    pub bytes: usize,
    pub len: usize,
}

impl Queue {
    pub fn new() -> Queue {
        Queue { newest: NONE, oldest: NONE, bytes: 0, len: 0 }
    }

    /// Puts slot `number` at the newer end.
    pub fn push(&mut self, slots: &mut [Slot], number: u32) {
        let newest = std::mem::replace(&mut self.newest, number);
        match newest {
            NONE => self.oldest = number,
            newest => slots[newest as usize].newer = number,
        }
        let slot = &mut slots[number as usize];
        (slot.older, slot.newer) = (newest, NONE);
        self.bytes += slot.entry.memory_bytes();
        self.len += 1;
    }

    /// Takes slot `number`, which stands in this queue, out of it.
    pub fn unlink(&mut self, slots: &mut [Slot], number: u32) {
        let slot = &slots[number as usize];
        let (older, newer) = (slot.older, slot.newer);
        self.bytes -= slot.entry.memory_bytes();
        self.len -= 1;
        match older {
            NONE => self.oldest = newer,
            older => slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => slots[newer as usize].older = older,
        }
    }

    /// The slot after `number` towards the newer end.
    pub fn next(slots: &[Slot], number: u32) -> u32 {
        slots[number as usize].newer
    }
}
