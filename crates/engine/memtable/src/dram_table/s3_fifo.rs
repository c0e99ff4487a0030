//! The entries of a shard, within a budget of bytes: S3-FIFO.
//!
//! After Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction" (SOSP
//! 2023): new entries are in a *small* queue, a tenth of the bytes; one that was read more than
//! once by its end goes over to *main*, one that was not is evicted and remembered as a *ghost*; a
//! key that comes back while it is a ghost starts in main. Who comes to main's end goes round again
//! once for each read counted, three at most. A read only counts, it moves nothing, so it can do
//! with a shared lock; and a scan passes through the small queue without touching main.
//!
//! An entry is in a cell of the index, where lookups end, and has a slot, which stands for it in a
//! queue: so a hit inspects no slot.
//!
//! Invariants, whenever the shard's lock is free:
//! 1. A slot has one cell, of its tag, and is in exactly one queue, where the entry is counted; or it
//!    has no cell and is in the free list. A cell has a slot.
//! 2. `memory_bytes()` is what entries and arrays take, to the byte as far as the allocator's own
//!    share is known, and at most the budget unless the store is empty.

use super::ghost::Ghost;
use super::index::{Cell, Index, SLOTS_MAX};
use super::queue::{NONE, Place, Queue, Slot};
use super::row::{Key, Row};
use esker_base::Seqno;

/// The small queue's share of the bytes.
const SMALL_SHARE: usize = 10;

/// Read more often than this in the small queue, an entry goes over to main.
const SMALL_READS: u32 = 1;

/// An entry takes at most this share of the budget, so that no one entry empties a shard.
const ENTRY_SHARE: usize = 8;

/// The slots grow by an eighth, at least by this many.
const SLOTS_STEP_MIN: usize = 16;

/// What became of a version that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PutOutcome {
    /// It is the entry of its key from now on.
    Stored,
    /// It was so before.
    Held,
    /// A newer version is.
    Outrun,
    /// It is too large. An older version, if there was one, is gone.
    TooLarge,
    /// It took an older version's place, and had to make space at once.
    Evicted,
}

impl PutOutcome {
    /// Whether it is the entry of its key now.
    pub fn is_held(self) -> bool {
        matches!(self, PutOutcome::Stored | PutOutcome::Held)
    }
}

/// See the module's text. The index comes first: see [`Shard`](super::shard::Shard).
#[repr(C)]
pub(super) struct S3Fifo {
    index: Index,
    budget: usize,
    /// Bytes that count, but are not here: the shard's own.
    beside: usize,
    slots: Vec<Slot>,
    /// The first free slot.
    free: u32,
    small: Queue,
    main: Queue,
    ghost: Ghost,
    /// How many entries made space for others.
    pub evictions: u64,
}

impl S3Fifo {
    pub fn new(budget: usize, beside: usize) -> S3Fifo {
        S3Fifo {
            budget,
            beside,
            index: Index::default(),
            slots: Vec::new(),
            free: NONE,
            small: Queue::new(),
            main: Queue::new(),
            ghost: Ghost::default(),
            evictions: 0,
        }
    }

    /// Where the entry of `key` is, until the next one comes in or goes.
    #[inline]
    pub fn find(&self, key: &Key<'_>) -> Option<usize> {
        self.index.find(key)
    }

    /// Where the entry is that slot `number` stands for, if it stands for one.
    pub fn find_slot(&self, number: u32) -> Option<usize> {
        let slot = &self.slots[number as usize];
        (slot.place != Place::Free).then(|| self.index.find_slot(slot.tag, number))
    }

    #[inline]
    pub fn cell(&self, at: usize) -> &Cell {
        self.index.cell(at)
    }

    pub fn entry_mut(&mut self, at: usize) -> &mut Row {
        &mut self.index.cell_mut(at).entry
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.small.len + self.main.len
    }

    /// How many slots there are, the free ones included.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.beside
            + self.small.bytes
            + self.main.bytes
            + self.slots.capacity() * size_of::<Slot>()
            + self.index.memory_bytes()
            + self.ghost.memory_bytes()
    }

    /// Adds an entry for a key that has none.
    pub fn insert(
        &mut self,
        key: &Key<'_>,
        seqno: Seqno,
        as_of: Seqno,
        value: &[u8],
    ) -> PutOutcome {
        let bytes = Row::bytes_for(key, value);
        if bytes > self.budget / ENTRY_SHARE || !self.make_room(bytes) {
            return PutOutcome::TooLarge;
        }
        let tag = key.tag();
        let place = if self.ghost.take(tag) { Place::Main } else { Place::Small };
        self.put(Row::new(key, seqno, as_of, value), tag, 0, place);
        PutOutcome::Stored
    }

    /// Gives the key whose entry is at `at` another version. It keeps its place in its queue. If that
    /// is the next to make space, a longer version may have to go at once.
    pub fn replace(
        &mut self,
        at: usize,
        key: &Key<'_>,
        seqno: Seqno,
        as_of: Seqno,
        value: &[u8],
    ) -> PutOutcome {
        let cell = self.index.cell_mut(at);
        if cell.entry.overwrite(seqno, as_of, value) {
            return PutOutcome::Stored;
        }
        if Row::bytes_for(key, value) > self.budget / ENTRY_SHARE {
            self.remove(at);
            return PutOutcome::TooLarge;
        }
        let before = cell.entry.memory_bytes();
        cell.entry = Row::new(key, seqno, as_of, value);
        let after = cell.entry.memory_bytes();
        let number = cell.slot();
        let queue = match self.slots[number as usize].place {
            Place::Small => &mut self.small,
            _ => &mut self.main,
        };
        queue.bytes = queue.bytes - before + after;
        self.trim();
        // Nothing comes in meanwhile: a slot that is free is this entry's own.
        match self.slots[number as usize].place {
            Place::Free => PutOutcome::Evicted,
            Place::Small | Place::Main => PutOutcome::Stored,
        }
    }

    fn trim(&mut self) {
        while self.memory_bytes() > self.budget && self.evict() {}
    }

    /// Says how many bytes are next to it from now on.
    pub fn set_beside(&mut self, bytes: usize) {
        self.beside = bytes;
        self.trim();
    }

    /// Removes the entry at `at`.
    pub fn remove(&mut self, at: usize) {
        let cell = self.index.remove(at);
        let number = cell.slot();
        self.unlink(number, cell.entry.memory_bytes());
        let slot = &mut self.slots[number as usize];
        slot.place = Place::Free;
        slot.older = std::mem::replace(&mut self.free, number);
    }

    /// Puts an entry into the index, and a slot for it at the newer end of the queue that is named.
    fn put(&mut self, entry: Row, tag: u32, reads: u32, place: Place) {
        let number = match self.free {
            NONE => {
                self.slots.push(Slot::new(tag));
                self.slots.len() as u32 - 1
            }
            number => {
                let old = std::mem::replace(&mut self.slots[number as usize], Slot::new(tag));
                self.free = old.older;
                number
            }
        };
        self.push(number, place, entry.memory_bytes());
        self.index.insert(Cell::new(entry, tag, number, reads));
    }

    fn push(&mut self, number: u32, place: Place, bytes: usize) {
        self.slots[number as usize].place = place;
        match place {
            Place::Small => self.small.push(&mut self.slots, number, bytes),
            Place::Main => self.main.push(&mut self.slots, number, bytes),
            Place::Free => unreachable!("a free slot is in no queue"),
        }
    }

    fn unlink(&mut self, number: u32, bytes: usize) {
        match self.slots[number as usize].place {
            Place::Small => self.small.unlink(&mut self.slots, number, bytes),
            Place::Main => self.main.unlink(&mut self.slots, number, bytes),
            Place::Free => unreachable!("a free slot is in no queue"),
        }
    }

    /// Evicts until an entry of `bytes` fits, with a slot and a cell for it. The arrays grow only
    /// if that fits next to what it has: otherwise they would drive out more than they gain.
    fn make_room(&mut self, bytes: usize) -> bool {
        loop {
            let slots = self.slots_for_one_more();
            let cells = self.index.cells_for_one_more();
            let arrays = arrays_bytes(slots, cells);
            if self.beside + self.small.bytes + self.main.bytes + bytes + arrays <= self.budget {
                self.resize(slots, cells);
                return true;
            }
            if !self.evict() {
                return false;
            }
        }
    }

    fn slots_for_one_more(&self) -> usize {
        let capacity = self.slots.capacity();
        if self.free != NONE || self.slots.len() < capacity {
            return capacity;
        }
        capacity + (capacity / 8).max(SLOTS_STEP_MIN)
    }

    fn resize(&mut self, slots: usize, cells: usize) {
        assert!(slots <= SLOTS_MAX, "a shard has far fewer entries than slots have numbers");
        if slots > self.slots.capacity() {
            self.slots.reserve_exact(slots - self.slots.len());
            self.ghost.resize(slots);
        }
        if Index::bytes_of(cells) != self.index.memory_bytes() {
            self.index.resize(cells);
        }
    }

    /// Evicts one entry. False if there is none.
    fn evict(&mut self) -> bool {
        loop {
            let small_is_full =
                self.small.bytes * SMALL_SHARE >= self.small.bytes + self.main.bytes;
            let queue = if small_is_full && self.small.len > 0 || self.main.len == 0 {
                &mut self.small
            } else {
                &mut self.main
            };
            let number = queue.oldest;
            if number == NONE {
                return false;
            }
            let &Slot { tag, place, .. } = &self.slots[number as usize];
            let at = self.index.find_slot(tag, number);
            let cell = self.index.cell_mut(at);
            let reads = cell.reads();
            let stays = match place {
                Place::Small => reads > SMALL_READS,
                _ => reads > 0,
            };
            if !stays {
                if place == Place::Small {
                    self.ghost.add(tag);
                }
                self.remove(at);
                self.evictions += 1;
                return true;
            }
            cell.set_reads(if place == Place::Small { 0 } else { reads - 1 });
            let bytes = cell.entry.memory_bytes();
            self.unlink(number, bytes);
            self.push(number, Place::Main, bytes);
        }
    }

    /// Takes another budget. If that is less than what is there, entries go and the arrays shrink.
    pub fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
        if self.memory_bytes() <= budget {
            return;
        }
        let needed = |store: &S3Fifo| {
            let len = store.len();
            let arrays = arrays_bytes(len, Index::cells_for(len));
            store.beside + store.small.bytes + store.main.bytes + arrays
        };
        while needed(self) > budget && self.evict() {}
        self.rebuild();
    }

    /// Moves everything to arrays that are just large enough. Slot numbers change.
    fn rebuild(&mut self) {
        let mut fresh = S3Fifo::new(self.budget, self.beside);
        fresh.evictions = self.evictions;
        if self.len() > 0 {
            fresh.resize(self.len(), Index::cells_for(self.len()));
        }
        for first in [self.small.oldest, self.main.oldest] {
            let mut number = first;
            while number != NONE {
                let &Slot { tag, place, .. } = &self.slots[number as usize];
                let cell = self.index.remove(self.index.find_slot(tag, number));
                let reads = cell.reads();
                fresh.put(cell.entry, tag, reads, place);
                number = Queue::next(&self.slots, number);
            }
        }
        *self = fresh;
    }
}

/// The memory of the arrays for so many slots and so many cells of the index.
fn arrays_bytes(slots: usize, cells: usize) -> usize {
    slots * size_of::<Slot>() + Ghost::bytes_of(slots) + Index::bytes_of(cells)
}
