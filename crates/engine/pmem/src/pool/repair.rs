//! A pool some of whose words are corrupt, on its way to be whole again.
//!
//! The caller that knows what the pool should hold decides: it looks into the extents whose state is unknown,
//! presumes what each of them is, and, once everything is decided, has the words written. Until then
//! nothing in the pool has changed.

use super::{Pool, Use};
use crate::extent::Extent;
use crate::format::{ExtentState, OWNER_AT, OWNER_COMPLEMENT_AT};
use esker_base::Result;
use std::sync::Arc;

/// How a possibly damaged pool is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolRepair {
    /// For reading, also while its writer continues.
    Beside,
    /// For reading, with the writer's lock, so that nothing changes.
    Alone,
    /// For repair, with the writer's lock.
    ToMend,
}

impl Pool {
    /// Returns the indexes of the extents whose state is unknown.
    pub fn unknown(&self) -> Vec<u32> {
        let slots = self.slots.lock();
        let unknown = (0..).zip(slots.iter()).filter(|(_, slot)| slot.state == Use::Unknown);
        unknown.map(|(index, _)| index).collect()
    }

    /// Returns an extent for reading, whatever it holds. Its epoch reads as zero.
    #[doc(hidden)]
    pub fn look_into(self: &Arc<Self>, index: u32) -> Extent {
        self.slots.lock()[index as usize].handles += 1;
        Extent::new(self.clone(), index, 0)
    }

    /// Presumes that an extent of unknown state holds the segment `epoch`, or is free if `None`.
    ///
    /// # Panics
    /// If the state of the extent is known, or another extent holds the segment.
    pub fn presume(&self, index: u32, epoch: Option<u32>) {
        let state = epoch.map_or(Use::Free, Use::Used);
        let mut slots = self.slots.lock();
        assert_eq!(slots[index as usize].state, Use::Unknown, "what is known is not presumed");
        let taken = slots.iter().any(|slot| slot.state == state);
        assert!(state == Use::Free || !taken, "an epoch has one extent");
        slots[index as usize].state = state;
    }

    /// Stores the presumed owner and states, and waits until they are durable.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](esker_base::Error::ReadOnly) if the pool is not writable.
    pub fn write_presumed(&self) -> Result<()> {
        self.check_writable()?;
        if let Some(owner) = self.owner() {
            self.store_word(OWNER_COMPLEMENT_AT, !owner);
            self.store_word(OWNER_AT, owner);
        }
        let slots = self.slots.lock();
        for (index, slot) in (0..).zip(slots.iter()) {
            match slot.state {
                Use::Free => self.store_state(index, ExtentState::Free),
                Use::Used(epoch) => self.store_state(index, ExtentState::Used(epoch)),
                Use::Taken(_) | Use::Released | Use::Unknown => {}
            }
        }
        self.fence();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::examine;
    use crate::region::Region;
    use crate::sim::SimRegion;

    /// Mends an owner and a state word. How many words a crash may then take back.
    fn mend(mutate: impl FnOnce(&SimRegion)) -> usize {
        let region = Arc::new(SimRegion::new(256 << 10));
        Pool::format(region.clone(), "pool", 1).unwrap().claim(70).unwrap();
        for at in [OWNER_AT, 4096] {
            // SAFETY: an aligned word of the region, which nobody else has.
            unsafe { region.store_word(at, 5) };
        }
        region.fence();
        let pool = Arc::new(Pool::of(region.clone(), "pool", &examine(&*region, "pool").unwrap()));
        assert!(pool.presume_owner(70));
        pool.presume(0, Some(7));
        mutate(&region);
        pool.write_presumed().unwrap();
        region.crash().unsettled()
    }

    #[test]
    fn what_was_presumed_needs_the_fence_and_the_flush_of_each_word() {
        assert_eq!(mend(|_| {}), 0);
        assert_eq!(mend(|region| region.drop_fence(region.fences())), 2);
        let missed = (0..5).filter(|n| mend(|region| region.drop_flush(region.flushes() + n)) == 1);
        assert_eq!(missed.count(), 2);
    }
}
