//! Which parts of indexes and filters are in memory.
//!
//! Each table has a slot for each of its parts. So a lookup finds a part by its number, without a
//! hash table and without a lock. The cache bounds the bytes of all parts that are in slots:
//!
//! * CLOCK decides which goes. A lookup that uses a part lets it stay for another round, up to three.
//! * A walk over a table leaves no such mark, and what it reads goes in the next round. So a scan does not push
//!   out the parts that lookups use. A compaction reads past the cache.
//! * Parts of level 0 stay two rounds longer: nearly every get asks them. The levels below it that are not the
//!   last stay one round longer, as they are smaller.
//!
//! Invariant: the ring has an entry for each slot with a part, and `used` is the sum of their bytes.

use crate::parts::Part;
use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// What a part costs in addition to itself: reference counts, and its entry in the ring.
const ENTRY_OVERHEAD_BYTES: usize = 48;

/// Uses that count for a part.
const USES_MAX: u8 = 3;

/// The deepest level: its runs are the largest.
const LAST_LEVEL: u8 = 6;

/// Who asks for a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartUse {
    /// A lookup of a key.
    Lookup,
    /// A walk over many blocks.
    Walk,
    /// A compaction, which leaves the cache as it is.
    Compaction,
}

/// The parts of one table that are in memory.
pub(crate) struct PartSlots {
    owner: u32,
    /// Rounds that its parts stay without being used.
    rounds: u8,
    slots: Box<[PartSlot]>,
}

#[derive(Default)]
struct PartSlot {
    part: ArcSwapOption<Part>,
    /// Rounds of the clock that the part stays.
    uses: AtomicU8,
    /// Where its entry is in the ring. Guarded by the ring's lock.
    entry: AtomicU32,
}

impl PartSlots {
    pub(crate) fn new(owner: u32, level: u8, parts: usize) -> Arc<PartSlots> {
        let rounds = match level {
            0 => 2,
            LAST_LEVEL.. => 0,
            _ => 1,
        };
        let slots = (0..parts).map(|_| PartSlot::default()).collect();
        Arc::new(PartSlots { owner, rounds, slots })
    }

    /// Part `at`, if it is in memory.
    #[inline]
    pub(crate) fn get(&self, at: usize, purpose: PartUse) -> Guard<Option<Arc<Part>>> {
        let slot = &self.slots[at];
        if purpose == PartUse::Lookup {
            let uses = slot.uses.load(Ordering::Relaxed);
            if uses < USES_MAX + self.rounds {
                slot.uses.store(uses + 1, Ordering::Relaxed);
            }
        }
        slot.part.load()
    }

    /// The bytes of the filters that are in memory.
    pub(crate) fn filter_bytes(&self) -> usize {
        let parts = self.slots.iter().filter_map(|slot| slot.part.load_full());
        parts.map(|part| part.filter.memory_bytes()).sum()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<PartSlots>() + size_of_val(&self.slots[..])
    }
}

/// See the file's head.
pub(crate) struct PartCache {
    limit: AtomicUsize,
    used: AtomicUsize,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    entries: Vec<Entry>,
    hand: usize,
}

struct Entry {
    table: Arc<PartSlots>,
    at: u32,
    bytes: usize,
}

impl PartCache {
    /// An empty cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let (limit, used) = (AtomicUsize::new(limit), AtomicUsize::new(0));
        PartCache { limit, used, ring: Mutex::default() }
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        let mut ring = self.ring.lock();
        self.limit.store(limit, Ordering::Relaxed);
        self.make_room(&mut ring, 0);
    }

    /// Bytes of memory that parts take.
    #[inline]
    pub(crate) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Keeps part `at` of a table, if it is not too large.
    pub(crate) fn insert(
        &self,
        table: &Arc<PartSlots>,
        at: usize,
        part: &Arc<Part>,
        purpose: PartUse,
    ) {
        let bytes = part.memory_bytes() + ENTRY_OVERHEAD_BYTES;
        let mut ring = self.ring.lock();
        let slot = &table.slots[at];
        let fits = bytes <= self.limit.load(Ordering::Relaxed);
        if purpose == PartUse::Compaction || !fits || slot.part.load().is_some() {
            return;
        }
        self.make_room(&mut ring, bytes);
        slot.uses.store(table.rounds + u8::from(purpose == PartUse::Lookup), Ordering::Relaxed);
        slot.entry.store(ring.entries.len() as u32, Ordering::Relaxed);
        ring.entries.push(Entry { table: table.clone(), at: at as u32, bytes });
        slot.part.store(Some(part.clone()));
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Drops parts until so many bytes are free.
    fn make_room(&self, ring: &mut Ring, bytes: usize) {
        while self.used_bytes() + bytes > self.limit.load(Ordering::Relaxed) {
            if ring.hand >= ring.entries.len() {
                ring.hand = 0;
            }
            let Some(entry) = ring.entries.get(ring.hand) else { return };
            let slot = entry.slot();
            let uses = slot.uses.load(Ordering::Relaxed);
            if uses > 0 {
                slot.uses.store(uses - 1, Ordering::Relaxed);
                ring.hand += 1;
            } else {
                self.remove(ring, ring.hand);
            }
        }
    }

    /// Takes the part of an entry out of its slot. The last entry takes its place in the ring.
    fn remove(&self, ring: &mut Ring, at: usize) {
        let entry = ring.entries.swap_remove(at);
        entry.slot().part.store(None);
        self.used.fetch_sub(entry.bytes, Ordering::Relaxed);
        if let Some(moved) = ring.entries.get(at) {
            moved.slot().entry.store(at as u32, Ordering::Relaxed);
        }
    }

    /// Forgets a table, which is closed.
    pub(crate) fn forget(&self, table: &PartSlots) {
        let mut ring = self.ring.lock();
        for slot in &table.slots {
            if slot.part.load().is_some() {
                let at = slot.entry.load(Ordering::Relaxed) as usize;
                self.remove(&mut ring, at);
            }
        }
    }

    /// Drops the parts of an owner.
    pub(crate) fn remove_owner(&self, owner: u32) {
        let mut ring = self.ring.lock();
        let mut at = 0;
        while at < ring.entries.len() {
            match ring.entries[at].table.owner == owner {
                true => self.remove(&mut ring, at),
                false => at += 1,
            }
        }
    }

    /// Bytes of memory that the parts of an owner take.
    pub(crate) fn owner_bytes(&self, owner: u32) -> usize {
        let ring = self.ring.lock();
        let own = ring.entries.iter().filter(|entry| entry.table.owner == owner);
        own.map(|entry| entry.bytes).sum()
    }
}

impl Entry {
    fn slot(&self) -> &PartSlot {
        &self.table.slots[self.at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::index::Index;

    fn part() -> Arc<Part> {
        Arc::new(Part { filter: Filter::default(), index: Index::default() })
    }

    fn weight() -> usize {
        part().memory_bytes() + ENTRY_OVERHEAD_BYTES
    }

    fn has(table: &PartSlots, at: usize) -> bool {
        table.get(at, PartUse::Walk).is_some()
    }

    fn kept(table: &PartSlots, parts: std::ops::Range<usize>) -> usize {
        parts.filter(|&at| has(table, at)).count()
    }

    #[test]
    fn the_bytes_of_parts_are_bounded_and_those_of_closed_tables_are_given_back() {
        let cache = PartCache::new(10 * weight());
        let tables: Vec<_> = (0..4).map(|level| PartSlots::new(1, level, 8)).collect();
        for at in 0..8 {
            for table in &tables {
                cache.insert(table, at, &part(), PartUse::Lookup);
                cache.insert(table, at, &part(), PartUse::Lookup);
                assert!(cache.used_bytes() <= 10 * weight());
            }
        }
        assert_eq!(cache.used_bytes(), 10 * weight());
        cache.set_limit(5 * weight());
        assert_eq!(cache.used_bytes(), 5 * weight());
        for (closed, table) in (1..).zip(&tables) {
            cache.forget(table);
            assert_eq!(kept(table, 0..8), 0);
            let left: usize = tables[closed..].iter().map(|table| kept(table, 0..8)).sum();
            assert_eq!(cache.used_bytes(), left * weight());
        }
        assert_eq!(cache.ring.lock().entries.len(), 0);
    }

    #[test]
    fn a_cache_without_room_keeps_no_part() {
        let (cache, table) = (PartCache::new(weight() - 1), PartSlots::new(1, 1, 1));
        cache.insert(&table, 0, &part(), PartUse::Lookup);
        assert!(!has(&table, 0) && cache.used_bytes() == 0);
    }

    #[test]
    fn a_walk_does_not_push_out_what_lookups_use_and_a_compaction_nothing() {
        let cache = PartCache::new(20 * weight());
        let (used, walked) = (PartSlots::new(1, 6, 10), PartSlots::new(1, 6, 500));
        for at in 0..10 {
            cache.insert(&used, at, &part(), PartUse::Lookup);
        }
        for at in 0..500 {
            cache.insert(&walked, at, &part(), PartUse::Walk);
            drop(used.get(at % 10, PartUse::Lookup));
        }
        assert_eq!(kept(&used, 0..10), 10);
        let before = kept(&walked, 0..500);
        for at in 0..500 {
            cache.insert(&walked, at, &part(), PartUse::Compaction);
        }
        assert_eq!(kept(&walked, 0..500), before);
    }

    #[test]
    fn parts_of_level_0_stay_longer() {
        let cache = PartCache::new(20 * weight());
        let [newest, last] = [0, 6].map(|level| PartSlots::new(1, level, 1_000));
        for at in 0..10 {
            cache.insert(&newest, at, &part(), PartUse::Lookup);
            cache.insert(&last, at, &part(), PartUse::Lookup);
        }
        for at in 10..20 {
            cache.insert(&last, at, &part(), PartUse::Lookup);
        }
        assert_eq!((kept(&newest, 0..10), kept(&last, 0..10)), (10, 0));
        assert_eq!(kept(&last, 10..20), 10);
    }

    #[test]
    fn owners_are_told_apart() {
        let cache = PartCache::new(20 * weight());
        let tables = [1, 2].map(|owner| PartSlots::new(owner, 1, 10));
        for at in 0..6 {
            tables.iter().for_each(|table| cache.insert(table, at, &part(), PartUse::Lookup));
        }
        assert_eq!([1, 2].map(|owner| cache.owner_bytes(owner)), [6 * weight(); 2]);
        cache.remove_owner(1);
        assert_eq!((kept(&tables[0], 0..6), kept(&tables[1], 0..6)), (0, 6));
        assert_eq!((cache.owner_bytes(1), cache.used_bytes()), (0, 6 * weight()));
    }
}
