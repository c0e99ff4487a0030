//! Time in tests: set by hand, or waited for.

use esker_base::{Clock, SystemClock};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::Duration;

pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let clock = SystemClock::new();
    while !is_so() {
        assert!(clock.now() < Duration::from_secs(20), "still not so: {what}");
        clock.sleep(Duration::from_millis(1));
    }
}

/// A clock that is set by hand, in milliseconds.
#[derive(Default)]
pub struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(SeqCst))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, SeqCst);
    }
}

/// A clock that is set by hand, and knows who inspects it.
#[derive(Default)]
pub struct WatchedClock {
    time: HandClock,
    looks: Mutex<HashMap<ThreadId, usize>>,
}

impl WatchedClock {
    /// How often a thread has looked: one that waits does so again and again.
    pub fn looks(&self, thread: ThreadId) -> usize {
        self.looks.lock().unwrap().get(&thread).copied().unwrap_or(0)
    }
}

impl Clock for WatchedClock {
    fn now(&self) -> Duration {
        *self.looks.lock().unwrap().entry(std::thread::current().id()).or_default() += 1;
        self.time.now()
    }
    fn sleep(&self, duration: Duration) {
        self.time.sleep(duration);
    }
}
