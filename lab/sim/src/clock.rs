//! Simulated time: it advances only when a thread sleeps or the harness advances it.

use esker_base::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that only [`Clock::sleep`] moves, by just the time asked for.
#[derive(Debug, Default)]
pub struct SimClock {
    now_ns: AtomicU64,
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) {
        self.now_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}
