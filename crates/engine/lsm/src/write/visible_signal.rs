//! Wakes readers of the change feed when more is visible.
//!
//! A writer only loads a counter, which is zero unless a reader sleeps. A reader that keeps up with
//! writers does not sleep here but looks again after a pause, so that it costs them no wake-ups.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// See the file's head.
#[derive(Default)]
pub(crate) struct VisibleSignal {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl VisibleSignal {
    /// Says that more is visible, or never will be. The marks that readers check changed before, in
    /// sequentially consistent operations.
    #[inline]
    pub(crate) fn announce(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        drop(self.lock.lock());
        self.wake.notify_all();
    }

    /// Waits until `is_due`, a wake-up or the timeout.
    pub(crate) fn wait(&self, timeout: Duration, is_due: impl Fn() -> bool) {
        let mut guard = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // The look at the marks comes after the counter, as the writer's look at the counter after its marks.
        std::sync::atomic::fence(Ordering::SeqCst);
        if !is_due() {
            self.wake.wait_for(&mut guard, timeout);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
