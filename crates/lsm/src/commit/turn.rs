//! A turn that one thread has at a time, while others wait for what its work achieves.
//!
//! Unlike a lock, a waiter does not want the turn itself: it wants its bytes to be down, and whoever
//! has the turn may see to that. So waiters leave as soon as that holds, all at once.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the file's head.
#[derive(Default)]
pub(crate) struct Turn {
    taken: AtomicBool,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    done: Condvar,
}

impl Turn {
    /// Takes the turn if it is free.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives the turn back, and lets waiters look at what was achieved.
    #[inline]
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // The lock makes sure that a waiter that just looked is asleep by now.
            drop(self.lock.lock());
            self.done.notify_all();
        }
    }

    /// Waits until `achieved`, or until the turn is free.
    pub(crate) fn wait_until(&self, achieved: impl Fn() -> bool) {
        let mut guard = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.taken.load(Ordering::SeqCst) && !achieved() {
            self.done.wait(&mut guard);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
