//! The entries of a shard by hash: open addressing with linear probing.
//!
//! A cell holds what a hit needs and nothing else: the entry, 32 bits of the hash, and the reads
//! counted, in one word with the number of the slot that is in a queue for the entry. So a hit
//! waits for two places of memory, the cell and then the entry. Who has a slot and wants its entry
//! probes by the slot's tag, as a lookup does.
//!
//! Where probing starts follows from the bits stored, so growing and removing need nothing but the
//! cells themselves. Removing shifts back what follows: there are no marks of the dead, and a table
//! under churn stays as quick, and as large, as a fresh one. So where a cell is holds only until
//! something comes in or goes; a slot's number stays.
//!
//! Invariants:
//! 1. Between where a cell's probing starts and where it is, no cell is empty.
//! 2. No two cells have the same slot.

use super::row::{Key, Row};
use std::sync::atomic::{AtomicU32, Ordering};

/// At most this share of the cells is in use, in fourths.
const FULL_FOURTHS: usize = 3;

/// The fewest cells.
const CELLS_MIN: usize = 16;

/// Reads are counted up to this, in so many bits.
const READS_MAX: u32 = 3;
const READS_BITS: u32 = 2;

/// More slots than this have no numbers.
pub(super) const SLOTS_MAX: usize = 1 << (u32::BITS - READS_BITS);

/// An entry, with what it is found by and its slot's number.
pub(super) struct Cell {
    pub entry: Row,
    tag: u32,
    /// The reads, in the lower bits, are those since it came in or was passed over: 0 to 3.
    slot_and_reads: AtomicU32,
}

impl Cell {
    pub fn new(entry: Row, tag: u32, slot: u32, reads: u32) -> Cell {
        debug_assert!((slot as usize) < SLOTS_MAX && reads <= READS_MAX, "{slot} {reads}");
        Cell { entry, tag, slot_and_reads: AtomicU32::new(slot << READS_BITS | reads) }
    }

    pub fn slot(&self) -> u32 {
        self.slot_and_reads.load(Ordering::Relaxed) >> READS_BITS
    }

    pub fn reads(&self) -> u32 {
        self.slot_and_reads.load(Ordering::Relaxed) & READS_MAX
    }

    /// Counts a read. Two at once may count as one: that harms nothing.
    #[inline]
    pub fn note_read(&self) {
        let word = self.slot_and_reads.load(Ordering::Relaxed);
        if word & READS_MAX < READS_MAX {
            self.slot_and_reads.store(word + 1, Ordering::Relaxed);
        }
    }

    pub fn set_reads(&mut self, reads: u32) {
        debug_assert!(reads <= READS_MAX, "{reads}");
        let word = self.slot_and_reads.get_mut();
        *word = *word & !READS_MAX | reads;
    }
}

#[derive(Default)]
pub(super) struct Index {
    cells: Box<[Option<Cell>]>,
    len: usize,
}

impl Index {
    /// The bytes of an index of so many cells.
    pub fn bytes_of(cells: usize) -> usize {
        cells * size_of::<Option<Cell>>()
    }

    pub fn memory_bytes(&self) -> usize {
        Index::bytes_of(self.cells.len())
    }

    /// How many cells it must have for one more entry: more than now if it is full.
    pub fn cells_for_one_more(&self) -> usize {
        if (self.len + 1) * 4 <= self.cells.len() * FULL_FOURTHS {
            return self.cells.len();
        }
        // A quarter as many again: at worst, two fifths of the cells lie empty.
        (self.cells.len() + self.cells.len() / 4).max(CELLS_MIN)
    }

    /// How many cells `entries` entries need.
    pub fn cells_for(entries: usize) -> usize {
        (entries * 4).div_ceil(FULL_FOURTHS) + 1
    }

    /// Takes another number of cells, which must suffice for what is in it.
    pub fn resize(&mut self, cells: usize) {
        assert!(self.len < cells, "an index has space for its entries");
        let fresh = std::iter::repeat_with(|| None).take(cells).collect();
        let old = std::mem::replace(&mut self.cells, fresh);
        self.len = 0;
        old.into_iter().flatten().for_each(|cell| self.insert(cell));
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.cells.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    /// Where the first cell with this tag is that `is_it`, if there is one.
    #[inline]
    fn probe(&self, tag: u32, is_it: impl Fn(&Cell) -> bool) -> Option<usize> {
        let mut at = self.home(tag);
        loop {
            // Without cells, there is none at home either.
            let cell = self.cells.get(at)?.as_ref()?;
            if cell.tag == tag && is_it(cell) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Where the entry of `key` is, if there is one.
    #[inline]
    pub fn find(&self, key: &Key<'_>) -> Option<usize> {
        self.probe(key.tag(), |cell| cell.entry.is_of(key))
    }

    /// Where the cell of `slot` is, which is there with this tag.
    pub fn find_slot(&self, tag: u32, slot: u32) -> usize {
        self.probe(tag, |cell| cell.slot() == slot).expect("a slot in use is in the index")
    }

    /// The cell that was found there.
    #[inline]
    pub fn cell(&self, at: usize) -> &Cell {
        self.cells[at].as_ref().expect("a cell that was found")
    }

    /// The same.
    pub fn cell_mut(&mut self, at: usize) -> &mut Cell {
        self.cells[at].as_mut().expect("a cell that was found")
    }

    /// Adds `cell`. There must be one to spare: see [`Index::cells_for_one_more`].
    pub fn insert(&mut self, cell: Cell) {
        self.len += 1;
        assert!(self.len < self.cells.len(), "an index always has an empty cell");
        let mut at = self.home(cell.tag);
        while self.cells[at].is_some() {
            at = self.after(at);
        }
        self.cells[at] = Some(cell);
    }

    /// Takes the cell away that was found there.
    pub fn remove(&mut self, at: usize) -> Cell {
        let removed = self.cells[at].take().expect("a cell that was found");
        self.len -= 1;
        let mut hole = at;
        let mut at = at;
        loop {
            at = self.after(at);
            let Some(cell) = &self.cells[at] else { break };
            // It may move back into the hole unless its home lies after the hole.
            let from_home = self.distance(self.home(cell.tag), at);
            if from_home >= self.distance(hole, at) {
                self.cells.swap(hole, at);
                hole = at;
            }
        }
        removed
    }

    /// The steps from one place to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.cells.len() - from }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use esker_base::KeyspaceId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The key of which `slot` has the entry. Few homes, so that runs are long and wrap around; and
    /// tags that are shared.
    fn key_of(slot: &u8, high: u32) -> Key<'_> {
        let tag = (high + 1).wrapping_mul(0x4000_0000).wrapping_sub(1 + u32::from(*slot % 3));
        Key { keyspace: KeyspaceId(0), bytes: std::slice::from_ref(slot), hash: u64::from(tag) }
    }

    fn insert(index: &mut Index, key: &Key<'_>, slot: u32, reads: u32) {
        let cells = index.cells_for_one_more();
        if Index::bytes_of(cells) != index.memory_bytes() {
            index.resize(cells);
        }
        index.insert(Cell::new(Row::new(key, 1, 1, b""), key.tag(), slot, reads));
    }

    #[test]
    fn a_cell_is_no_larger_than_what_is_in_it() {
        assert_eq!(size_of::<Option<Cell>>(), size_of::<Row>() + 2 * size_of::<u32>());
    }

    #[test]
    fn reads_are_counted_up_to_three_and_leave_the_slot_alone() {
        let key = key_of(&7, 0);
        let slot = SLOTS_MAX as u32 - 1;
        let mut cell = Cell::new(Row::new(&key, 1, 1, b""), key.tag(), slot, 0);
        let counts = [(); 5].map(|()| {
            cell.note_read();
            (cell.reads(), cell.slot())
        });
        assert_eq!(counts, [1, 2, 3, 3, 3].map(|reads| (reads, slot)));
        cell.set_reads(1);
        assert_eq!((cell.reads(), cell.slot()), (1, slot));
    }

    proptest! {
        #[test]
        fn what_was_inserted_and_not_removed_is_found_by_key_and_by_slot(
            steps in prop::collection::vec((any::<bool>(), 0..40u8, 0..4u32), 1..400),
        ) {
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            for (insertion, slot, high) in steps {
                let number = u32::from(slot);
                if insertion && !model.contains_key(&slot) {
                    insert(&mut index, &key_of(&slot, high), number, 0);
                    model.insert(slot, high);
                } else if !insertion && let Some(high) = model.remove(&slot) {
                    let key = key_of(&slot, high);
                    prop_assert!(index.remove(index.find_slot(key.tag(), number)).entry.is_of(&key));
                    prop_assert_eq!(index.find(&key), None);
                }
                for (slot, &high) in &model {
                    let key = key_of(slot, high);
                    let at = index.find(&key);
                    prop_assert_eq!(at, Some(index.find_slot(key.tag(), u32::from(*slot))));
                }
                prop_assert_eq!(index.len, model.len());
            }
        }

        #[test]
        fn an_entry_that_is_moved_keeps_its_slot_and_its_reads(
            removed in prop::collection::btree_set(0..40u8, 0..40),
        ) {
            // All grow out of one home, so that each that goes moves those behind it.
            const HIGH: u32 = 3;
            let mut index = Index::default();
            let reads_of = |slot: u8| u32::from(slot) % (READS_MAX + 1);
            (0..40).for_each(|slot| {
                insert(&mut index, &key_of(&slot, HIGH), u32::from(slot), reads_of(slot));
            });
            for slot in &removed {
                let at = index.find(&key_of(slot, HIGH)).expect("it was inserted");
                index.remove(at);
            }
            for slot in (0..40).filter(|slot| !removed.contains(slot)) {
                let cell = index.cell(index.find(&key_of(&slot, HIGH)).expect("it was not removed"));
                prop_assert_eq!((cell.slot(), cell.reads()), (u32::from(slot), reads_of(slot)));
            }
        }
    }
}
