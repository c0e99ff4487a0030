//! Where blocks of the cache are found at once.
//!
//! A lookup in the block cache misses several cache lines of the processor: those of its hash table,
//! its entry, and its list of entries. A slot is one line that has the key and the block. Each key
//! has two slots, which it shares with others, and takes the first that is free when it is looked
//! up. A key whose slots are taken is looked up in the cache. Blocks that are close in a file have
//! slots that are close, so that a scan can ask the processor for the next ones.
//!
//! Invariant: a slot holds no block that the cache has evicted, except between an eviction and the
//! next step of a lookup that runs concurrently.

use crate::block::Block;
use crate::block_key::{BlockKey, OwnedKey};
use esker_base::prefetch;
use parking_lot::{Mutex, MutexGuard};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A slot adds up so many hits before it reports them.
const HITS_UNREPORTED_MAX: u16 = 1 << 12;

/// The cache records the first hit of a block in a period, which costs a lookup there. In a period, it
/// evicts the number of slots divided by this.
const PERIODS: u32 = 2;

/// The block after the next one has its slot about here: blocks are a little over 4 KiB.
const PLACES_AHEAD: u64 = 2;

/// The slots of a cache. They are allocated by the first lookup that finds a block.
pub(crate) struct BlockSlots {
    slots: OnceLock<Box<[Slot]>>,
    evicted: AtomicU64,
    /// Whether the cache has evicted a block since it had free space.
    is_full: AtomicBool,
    /// Hits that slots have reported.
    hits: AtomicU64,
}

/// One cache line.
#[derive(Default)]
#[repr(align(64))]
struct Slot(Mutex<Kept>);

/// The parts of the key are fields of their own, so that there is no padding between.
#[derive(Default)]
struct Kept {
    owner: u32,
    file_id: u64,
    offset: u64,
    block: Option<Block>,
    /// The period of the last hit that the cache has recorded.
    period: u16,
    /// Hits that are not reported yet.
    hits: u16,
}

impl Kept {
    #[inline]
    fn key(&self) -> OwnedKey {
        OwnedKey { owner: self.owner, key: BlockKey { file_id: self.file_id, offset: self.offset } }
    }

    fn set(&mut self, OwnedKey { owner, key }: OwnedKey, block: &Block, period: u16) {
        (self.owner, self.file_id, self.offset) = (owner, key.file_id, key.offset);
        (self.block, self.period) = (Some(block.clone()), period);
    }
}

/// A block in a slot.
pub(crate) struct Hit {
    pub(crate) block: Block,
    /// Whether this is the first hit of a period: the cache has to record it.
    pub(crate) is_first: bool,
}

impl BlockSlots {
    pub(crate) fn new() -> Self {
        let (evicted, hits) = (AtomicU64::new(0), AtomicU64::new(0));
        BlockSlots { slots: OnceLock::new(), evicted, is_full: AtomicBool::new(false), hits }
    }

    /// The block of `key` with these places, if a slot has it and no thread uses that slot.
    #[inline]
    pub(crate) fn get(&self, key: &OwnedKey, places: [u64; 2]) -> Option<Hit> {
        let slots = self.slots.get()?;
        let mut kept = slot_with(slots, key, places)?;
        let block = kept.block.clone()?;
        let period = self.period(slots);
        let is_first = kept.period != period;
        if is_first {
            kept.period = period;
        } else {
            kept.hits += 1;
            if kept.hits == HITS_UNREPORTED_MAX {
                self.hits.fetch_add(u64::from(std::mem::take(&mut kept.hits)), Ordering::Relaxed);
            }
        }
        Some(Hit { block, is_first })
    }

    /// Asks the processor for the block of `key`, if a slot has it, and for the slots of the block
    /// after that.
    #[inline]
    pub(crate) fn prefetch(&self, key: &OwnedKey, places: [u64; 2]) {
        let Some(slots) = self.slots.get() else { return };
        if let Some(kept) = slot_with(slots, key, places)
            && let Some(block) = &kept.block
        {
            block.prefetch();
        }
        for place in places {
            prefetch(slot(slots, place.wrapping_add(PLACES_AHEAD)));
        }
    }

    /// Offers a block that the cache has. Returns whether a slot has taken it: the caller then
    /// makes sure that the cache still has it.
    /// `blocks_most` says how many blocks the cache can have.
    pub(crate) fn offer(
        &self,
        key: OwnedKey,
        places: [u64; 2],
        block: &Block,
        blocks_most: impl FnOnce() -> usize,
    ) -> bool {
        let slots = self.slots.get_or_init(|| {
            let slots = (blocks_most() / 2 + 1).next_power_of_two();
            (0..slots).map(|_| Slot::default()).collect()
        });
        for place in places {
            match slot(slots, place).0.try_lock() {
                // It was used by another thread when this one looked for the block.
                Some(kept) if kept.block.is_some() && kept.key() == key => return false,
                Some(kept) if kept.block.is_some() => {}
                Some(mut kept) => {
                    kept.set(key, block, self.period(slots));
                    return true;
                }
                // The thread that uses it may be about to put this block there.
                None => return false,
            }
        }
        false
    }

    /// Drops the block of `key`.
    pub(crate) fn remove(&self, key: &OwnedKey, places: [u64; 2]) {
        let Some(slots) = self.slots.get() else { return };
        for place in places {
            let mut kept = slot(slots, place).0.lock();
            if kept.key() == *key {
                kept.block = None;
            }
        }
    }

    /// Notes that the cache has evicted a block.
    pub(crate) fn count_eviction(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
        if !self.is_full() {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the cache has free space.
    pub(crate) fn note_free_space(&self) {
        if self.is_full() {
            self.is_full.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the cache has evicted a block since it had free space.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Whether the cache has evicted blocks.
    #[inline]
    pub(crate) fn has_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed) > 0
    }

    /// Drops the blocks whose keys `is_removed` selects.
    pub(crate) fn remove_all(&self, is_removed: impl Fn(&OwnedKey) -> bool) {
        for slot in self.slots.get().into_iter().flatten() {
            let mut kept = slot.0.lock();
            if is_removed(&kept.key()) {
                kept.block = None;
            }
        }
    }

    /// The hits that the cache did not record.
    pub(crate) fn hits(&self) -> u64 {
        let slots = self.slots.get().into_iter().flatten();
        let unreported: u64 = slots.map(|slot| u64::from(slot.0.lock().hits)).sum();
        self.hits.load(Ordering::Relaxed) + unreported
    }

    #[inline]
    fn period(&self, slots: &[Slot]) -> u16 {
        let shift = slots.len().ilog2().saturating_sub(PERIODS.ilog2());
        (self.evicted.load(Ordering::Relaxed) >> shift) as u16
    }
}

/// The slot with the key, if no thread uses it.
#[inline]
fn slot_with<'s>(
    slots: &'s [Slot],
    key: &OwnedKey,
    places: [u64; 2],
) -> Option<MutexGuard<'s, Kept>> {
    places.into_iter().find_map(|place| {
        slot(slots, place).0.try_lock().filter(|kept| kept.key() == *key && kept.block.is_some())
    })
}

/// The slot at a place. Their number is a power of two.
#[inline]
fn slot(slots: &[Slot], place: u64) -> &Slot {
    &slots[place as usize & (slots.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_one_cache_line() {
        assert_eq!(size_of::<Slot>(), 64);
    }
}
