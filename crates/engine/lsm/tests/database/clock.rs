//! A calendar that is set by hand.

use esker_base::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// In milliseconds. The monotonic clock starts far below the calendar, as that of a machine does: otherwise
/// it would make up for a calendar that is set back.
pub struct HandClock {
    calendar: AtomicU64,
    now: AtomicU64,
}

pub const START: u64 = 1_700_000_000_000;

impl HandClock {
    pub fn new() -> Arc<Self> {
        Arc::new(HandClock { calendar: START.into(), now: 1_000_000.into() })
    }

    pub fn millis(&self) -> u64 {
        self.calendar.load(Ordering::Relaxed)
    }

    pub fn pass(&self, millis: u64) {
        self.calendar.fetch_add(millis, Ordering::Relaxed);
        self.now.fetch_add(millis, Ordering::Relaxed);
    }

    pub fn jump(&self, millis: u64) {
        self.calendar.fetch_add(millis, Ordering::Relaxed);
    }

    pub fn set_back(&self, millis: u64) {
        self.calendar.fetch_sub(millis, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) {
        self.pass(duration.as_millis() as u64);
    }

    fn calendar(&self) -> Duration {
        Duration::from_millis(self.millis())
    }
}
