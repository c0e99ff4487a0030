//! The one gate of background I/O: flushes first, compactions when there is room.
//!
//! A compaction asks before each stretch of output. While a flush runs and more MemTables wait for
//! theirs, it pauses a little, so that writers are never held up by work that could wait. It never
//! pauses for long: an old compaction left undone makes reads and later compactions dearer.

use esker_base::Clock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a compaction pauses at a time, and how often at one gate passage.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES_MAX: u32 = 5;

/// See the file's head.
#[derive(Default)]
pub(crate) struct IoGate {
    /// MemTables that wait for their flush, if one is running.
    urgent_flushes: AtomicUsize,
    cancelled: AtomicBool,
}

impl IoGate {
    /// Says how many MemTables wait while a flush runs; 0 if none runs.
    pub(crate) fn set_urgent_flushes(&self, waiting: usize) {
        self.urgent_flushes.store(waiting, Ordering::Relaxed);
    }

    /// Passes a compaction through, now or a little later.
    pub(crate) fn pass_compaction(&self, clock: &dyn Clock) {
        for _ in 0..PAUSES_MAX {
            if self.urgent_flushes.load(Ordering::Relaxed) < 2 || self.is_cancelled() {
                return;
            }
            clock.sleep(PAUSE);
        }
    }

    /// Ends all compactions at their next look. Says whether that was done before.
    pub(crate) fn cancel(&self) -> bool {
        self.cancelled.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn cancelled_flag(&self) -> &AtomicBool {
        &self.cancelled
    }
}
