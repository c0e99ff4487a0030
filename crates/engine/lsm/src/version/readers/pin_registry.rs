//! Leases: objects that their holders use from time to time, and that can be recalled in between.
//!
//! A recall never waits for a holder that is in the middle of a step, which may take long. It
//! leaves a mark, and the holder returns the object when the step ends.
//!
//! A holder that is done may [leave](PinRegistry::leave) its lease with the object in it. The next
//! holder gets both, and so need not create the object. Left leases are recalled like others.

use parking_lot::Mutex;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Weak};

/// What one holder has, or had before it was recalled.
pub(crate) struct RevocablePin<T> {
    /// In a box, so that what is left of a holder that has gone is small.
    thing: Mutex<Option<Box<T>>>,
    /// A recall found the thing in use.
    recalled: AtomicBool,
}

impl<T> RevocablePin<T> {
    /// Lets the holder use the thing: `None` at first and after a recall.
    #[inline]
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut Option<Box<T>>) -> R) -> R {
        let outcome = step(&mut self.thing.lock());
        // A recall that found the lock taken has left word before it looked; see there.
        fence(Ordering::SeqCst);
        if self.recalled.load(Ordering::Relaxed) {
            self.give_back();
        }
        outcome
    }

    #[cold]
    fn give_back(&self) {
        let taken = {
            let Some(mut thing) = self.thing.try_lock() else { return };
            self.recalled.store(false, Ordering::Relaxed);
            thing.take()
        };
        // Not under the lock: this may remove a table's file.
        drop(taken);
    }
}

/// A lease, whatever it is of.
trait Revocable: Send + Sync {
    /// Takes the thing from a holder that is not using it now; one that is gives it back soon.
    fn recall(&self);
}

impl<T: Send> Revocable for RevocablePin<T> {
    fn recall(&self) {
        self.recalled.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.give_back();
    }
}

/// All leases of a database that may be out.
pub(crate) struct PinRegistry {
    granted: Mutex<Granted>,
}

struct Granted {
    leases: Vec<Weak<dyn Revocable>>,
    /// Leases that their holders have left. They are in `leases` too.
    idle: Vec<Arc<dyn Any + Send + Sync>>,
    /// With so many entries, those of holders that are gone are dropped.
    prune_at: usize,
}

/// A list this short is not worth pruning.
const PRUNE_MIN: usize = 64;

/// So many leases without a holder are kept at most.
const IDLE_MAX: usize = 8;

impl Default for PinRegistry {
    fn default() -> Self {
        let (leases, idle) = (Vec::new(), Vec::new());
        PinRegistry { granted: Mutex::new(Granted { leases, idle, prune_at: PRUNE_MIN }) }
    }
}

impl Granted {
    fn prune(&mut self) {
        self.leases.retain(|lease| lease.strong_count() > 0);
        self.prune_at = (self.leases.len() * 2).max(PRUNE_MIN);
    }
}

impl PinRegistry {
    /// A lease of nothing yet, or one that another holder has left with what it had.
    pub(crate) fn grant<T: Send + 'static>(&self) -> Arc<RevocablePin<T>> {
        let mut granted = self.granted.lock();
        if let Some(left) = granted.idle.pop().and_then(|left| left.downcast().ok()) {
            return left;
        }
        let lease =
            Arc::new(RevocablePin { thing: Mutex::new(None), recalled: AtomicBool::new(false) });
        if granted.leases.len() >= granted.prune_at {
            granted.prune();
        }
        let granted_lease: Weak<RevocablePin<T>> = Arc::downgrade(&lease);
        granted.leases.push(granted_lease);
        lease
    }

    /// Leaves `lease`, and what is in it, to the next holder. The caller has no other handle of it.
    pub(crate) fn leave<T: Send + 'static>(&self, lease: Arc<RevocablePin<T>>) {
        let mut granted = self.granted.lock();
        match granted.idle.len() < IDLE_MAX {
            true => granted.idle.push(lease),
            false => {
                // Dropping what is in it may remove a table's file.
                drop(granted);
                drop(lease);
            }
        }
    }

    /// Takes back everything that is not in use now, and the rest as soon as it is not.
    pub(crate) fn recall(&self) {
        let leases: Vec<_> = {
            let mut granted = self.granted.lock();
            granted.prune();
            granted.leases.iter().filter_map(Weak::upgrade).collect()
        };
        leases.iter().for_each(|lease| lease.recall());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(leases: &PinRegistry, thing: &Arc<()>) -> Arc<RevocablePin<Arc<()>>> {
        let lease = leases.grant();
        lease.with(|slot| *slot = Some(Box::new(thing.clone())));
        lease
    }

    #[test]
    fn a_recall_takes_what_nobody_is_using() {
        let (leases, thing) = (PinRegistry::default(), Arc::new(()));
        let lease = filled(&leases, &thing);
        leases.recall();
        assert_eq!(Arc::strong_count(&thing), 1);
        assert!(lease.with(|slot| slot.is_none()));
    }

    #[test]
    fn what_is_in_use_is_given_back_after_the_step() {
        let (leases, thing) = (PinRegistry::default(), Arc::new(()));
        let lease = filled(&leases, &thing);
        lease.with(|slot| {
            leases.recall();
            assert!(slot.is_some());
        });
        assert_eq!(Arc::strong_count(&thing), 1);
    }

    #[test]
    fn the_next_holder_gets_what_the_last_one_left() {
        let (leases, thing) = (PinRegistry::default(), Arc::new(()));
        leases.leave(filled(&leases, &thing));
        let lease = leases.grant::<Arc<()>>();
        assert!(lease.with(|slot| slot.is_some()));
        let other = leases.grant::<Arc<()>>();
        assert!(other.with(|slot| slot.is_none()), "nobody left a second one");
    }

    #[test]
    fn what_was_left_is_recalled_and_does_not_pile_up() {
        let (leases, thing) = (PinRegistry::default(), Arc::new(()));
        let held: Vec<_> = (0..3 * IDLE_MAX).map(|_| filled(&leases, &thing)).collect();
        held.into_iter().for_each(|lease| leases.leave(lease));
        assert_eq!(Arc::strong_count(&thing), 1 + IDLE_MAX);
        leases.recall();
        assert_eq!(Arc::strong_count(&thing), 1);
        assert!(leases.grant::<Arc<()>>().with(|slot| slot.is_none()));
    }

    #[test]
    fn holders_that_are_gone_leave_no_entries() {
        let (leases, thing) = (PinRegistry::default(), Arc::new(()));
        for _ in 0..10 * PRUNE_MIN {
            filled(&leases, &thing);
        }
        assert!(leases.granted.lock().leases.len() <= PRUNE_MIN);
    }

    #[test]
    fn nothing_is_kept_when_recalls_and_steps_race() {
        let (leases, thing) = (PinRegistry::default(), Arc::new(()));
        let lease = leases.grant();
        for _ in 0..200 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..20 {
                        lease.with(|slot| *slot = Some(Box::new(thing.clone())));
                    }
                });
                scope.spawn(|| leases.recall());
            });
            leases.recall();
            assert_eq!(Arc::strong_count(&thing), 1);
        }
    }
}
