//! The hash: from (keyspace, key) to its newest entry, and from there to the older ones.
//!
//! Open addressing over atomic slots, each a 32-bit tag and an entry number plus one; zero is an
//! empty slot. Where a key's probing starts follows from the upper half of its hash, the tag is
//! the lower half. A slot's tag never changes once set, so the slot of a tag, seen from one start,
//! never moves. Entries whose keys have the same tag and meet in one slot share a chain; readers
//! compare keys, writers need not: an insert reads no entry's bytes.
//!
//! Invariants:
//! 1. Along a chain entry numbers, and therefore seqnos, strictly fall. Writers insert in any order:
//!    each goes in at its place, by compare-and-swap on the link before it.
//! 2. Links are only ever set to entries whose own link was set before (release), so that who
//!    follows links (acquire) always finds the rest of the chain.
//! 3. There are more slots than entries, so that probing ends.
//!
//! An index that grows consists of parts. Each part has its own slots, for a range of entry numbers. A
//! chain is within one part, so all links of a newer part name newer entries than those of an older.

use crate::loom_shim::{AtomicU64, Ordering};
use crate::segment::{EntryLinks, Zeroable, ZeroedVec};
use esker_base::KeyspaceId;
use esker_base::prefetch;
use std::ops::Range;
use std::sync::OnceLock;

// SAFETY: a zero word is an empty slot; dropping it does nothing.
unsafe impl Zeroable for AtomicU64 {
    fn zero() -> Self {
        AtomicU64::new(0)
    }
}

/// Mixes a keyspace into the hash of a key.
#[inline]
pub(crate) fn hash_in(keyspace: KeyspaceId, key_hash: u64) -> u64 {
    // The key's hash is uniform already; an odd multiplier tells keyspaces apart in both halves.
    key_hash ^ u64::from(keyspace.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// See the module's text.
pub(crate) struct HashIndex {
    first: Slots,
    /// Those of later entries, of an index that grows.
    later: Box<[Later]>,
}

/// Slots that are made once entries come near them.
struct Later {
    entries: Range<u32>,
    slots: OnceLock<Slots>,
}

/// How many times more entries an index that grows has space for with each part.
const PART_GROWTH: usize = 16;

impl HashIndex {
    /// An index for up to `entries` entries. Its memory is touched.
    pub fn new(entries: usize) -> HashIndex {
        HashIndex { first: Slots::new(entries), later: Box::default() }
    }

    /// An index that grows from `first` entries to `entries` at most.
    pub fn growing(first: usize, entries: usize) -> HashIndex {
        let mut later = Vec::new();
        let mut end = first;
        while end < entries {
            let next = entries.min(end * PART_GROWTH);
            // What would be small beside the others is one with the one before.
            let next = if next * 2 > entries { entries } else { next };
            later.push(Later { entries: end as u32..next as u32, slots: OnceLock::new() });
            end = next;
        }
        HashIndex { first: Slots::new(first.min(entries)), later: later.into() }
    }

    /// Makes the parts for the entries below `entries`.
    pub fn grow(&self, entries: u32) {
        for part in self.later.iter().take_while(|part| part.entries.start < entries) {
            part.slots.get_or_init(|| Slots::new(part.entries.len()));
        }
    }

    /// Whether it has one part. Others are not for use again.
    pub fn is_one(&self) -> bool {
        self.later.is_empty()
    }

    /// Makes all slots empty.
    pub fn clear(&mut self) {
        assert!(self.is_one(), "an index that grew is not used again");
        self.first.slots.clear();
    }

    /// The bytes of the slots.
    pub fn memory_bytes(&self) -> usize {
        let later = self.later.iter().filter_map(|part| part.slots.get());
        self.first.memory_bytes() + later.map(Slots::memory_bytes).sum::<usize>()
    }

    /// Asks the processor for the slot of `hash` among those of the newest entries.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.parts().next().expect("there is always a part").prefetch(hash);
    }

    /// The parts, the one with the newest entries first. A tag may have a chain in each.
    #[inline]
    pub fn parts(&self) -> impl Iterator<Item = &Slots> {
        self.later.iter().rev().filter_map(|part| part.slots.get()).chain([&self.first])
    }

    /// Puts entry `number`, whose key has `hash`, into the chain of its tag. Once an entry.
    #[inline]
    pub fn insert(&self, nodes: &EntryLinks, hash: u64, number: u32) {
        self.part_of(number).insert(nodes, hash, number);
    }

    #[inline]
    fn part_of(&self, number: u32) -> &Slots {
        if self.later.is_empty() {
            return &self.first;
        }
        let part = self.later.iter().find(|part| part.entries.contains(&number));
        part.map_or(&self.first, |part| part.slots.get().expect("it grew before its entries came"))
    }
}

/// The slots of some entries.
pub(crate) struct Slots {
    slots: ZeroedVec<AtomicU64>,
}

impl Slots {
    /// Slots for up to `entries` entries: half as many again, so that they are two thirds full at worst,
    /// and mostly far less. Their memory is touched.
    fn new(entries: usize) -> Slots {
        Slots { slots: ZeroedVec::new(entries + entries / 2 + 1) }
    }

    fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<AtomicU64>()
    }

    /// Where probing for `hash` starts.
    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        (((hash >> 32) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn prefetch(&self, hash: u64) {
        prefetch(&raw const self.slots[self.first_slot(hash)]);
    }

    /// The newest entry with the tag of `hash`, as a link: its number plus one, or zero.
    #[inline]
    pub fn newest(&self, hash: u64) -> u32 {
        let tag = hash as u32;
        let mut at = self.first_slot(hash);
        loop {
            let slot = self.slots[at].load(Ordering::Acquire);
            if slot == 0 || tag_of(slot) == tag {
                return slot as u32;
            }
            at = self.after(at);
        }
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    #[inline]
    fn insert(&self, nodes: &EntryLinks, hash: u64, number: u32) {
        let tag = hash as u32;
        let link = number + 1;
        let new = u64::from(tag) << 32 | u64::from(link);
        let mut at = self.first_slot(hash);
        let mut slot = self.slots[at].load(Ordering::Acquire);
        loop {
            if slot != 0 && tag_of(slot) != tag {
                at = self.after(at);
                slot = self.slots[at].load(Ordering::Acquire);
                continue;
            }
            let newest = slot as u32;
            if newest > link {
                return insert_older(nodes, newest, number);
            }
            // A fresh node's link is zero already; leave its cache line alone then.
            if newest != 0 {
                nodes.node(number).older.store(newest, Ordering::Relaxed);
            }
            match self.slots[at].compare_exchange_weak(
                slot,
                new,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(now) => slot = now,
            }
        }
    }
}

/// Puts entry `number` into the chain that starts at link `newer`, which is newer than it.
#[cold]
fn insert_older(nodes: &EntryLinks, mut newer: u32, number: u32) {
    let link = number + 1;
    loop {
        let before = &nodes.node(newer - 1).older;
        let next = before.load(Ordering::Acquire);
        if next > link {
            newer = next;
            continue;
        }
        nodes.node(number).older.store(next, Ordering::Relaxed);
        if before.compare_exchange(next, link, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return;
        }
    }
}

#[inline]
fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn chain(index: &HashIndex, nodes: &EntryLinks, hash: u64) -> Vec<u32> {
        let mut numbers = Vec::new();
        for part in index.parts() {
            let mut link = part.newest(hash);
            while link != 0 {
                numbers.push(link - 1);
                link = nodes.node(link - 1).older.load(Ordering::Acquire);
            }
        }
        numbers
    }

    #[test]
    fn chains_fall_whatever_the_order_of_arrival() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let (index, nodes) = (HashIndex::new(3), EntryLinks::new(3));
            order.iter().for_each(|&number| index.insert(&nodes, 42, number));
            assert_eq!(chain(&index, &nodes, 42), [2, 1, 0], "{order:?}");
        }
    }

    #[test]
    fn a_full_index_still_finds_every_chain() {
        let (index, nodes) = (HashIndex::new(100), EntryLinks::new(100));
        // All start at the same slot, so that they fill it in a row, and wrap around.
        let hash = |number: u32| u64::from(u32::MAX) << 32 | u64::from(number);
        (0..100).for_each(|number| index.insert(&nodes, hash(number), number));
        for number in 0..100 {
            assert_eq!(chain(&index, &nodes, hash(number)), [number]);
        }
        assert_eq!(chain(&index, &nodes, hash(100)), [0u32; 0]);
    }

    #[test]
    fn an_index_that_grows_finds_chains_across_its_parts() {
        let (index, nodes) = (HashIndex::growing(4, 1000), EntryLinks::new(1000));
        for number in 0..1000 {
            index.grow(number + 1);
            index.insert(&nodes, u64::from(number % 10), number);
        }
        assert!(index.later.len() > 1);
        for tag in 0..10 {
            let expected: Vec<u32> = (0..1000).rev().filter(|number| number % 10 == tag).collect();
            assert_eq!(chain(&index, &nodes, u64::from(tag)), expected);
        }
    }
}
