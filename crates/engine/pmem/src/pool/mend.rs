//! A pool some of whose words do not hold, on its way to be whole again.
//!
//! Whoever knows what the pool should hold decides: it looks into the extents whose state is unknown,
//! presumes what each of them is, and, once everything is decided, has the words written. Until then
//! nothing in the pool has changed.

use super::{Pool, Use};
use crate::extent::Extent;
use crate::format::{ExtentState, OWNER_AT, OWNER_COMPLEMENT_AT};
use esker_base::Result;
use std::sync::Arc;

/// How a pool is opened that may be damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inspect {
    /// To look at, beside its writer if there is one.
    Beside,
    /// To look at, with the writer's lock, so that nothing changes meanwhile.
    Alone,
    /// To be mended, with the writer's lock.
    ToMend,
}

impl Pool {
    /// The extents whose state is unknown, by their numbers.
    pub fn unknown(&self) -> Vec<u32> {
        let slots = self.slots.lock();
        let unknown = (0..).zip(slots.iter()).filter(|(_, slot)| slot.state == Use::Unknown);
        unknown.map(|(index, _)| index).collect()
    }

    /// An extent, whatever it holds, to look at. It says that its epoch is zero.
    pub fn look_into(self: &Arc<Self>, index: u32) -> Extent {
        self.slots.lock()[index as usize].handles += 1;
        Extent::new(self.clone(), index, 0)
    }

    /// Takes an extent of unknown state to hold the segment `epoch`, which no other does, or nothing.
    pub fn presume(&self, index: u32, epoch: Option<u32>) {
        let state = epoch.map_or(Use::Free, Use::Used);
        let mut slots = self.slots.lock();
        assert_eq!(slots[index as usize].state, Use::Unknown, "what is known is not presumed");
        let taken = slots.iter().any(|slot| slot.state == state);
        assert!(state == Use::Free || !taken, "an epoch has one extent");
        slots[index as usize].state = state;
    }

    /// Stores the owner and the states anew, as they are presumed, and waits until they are durable.
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
