//! Time as a value that is passed in.

use std::time::{Duration, Instant};

/// A monotonic clock that can also wait.
pub trait Clock: Send + Sync + 'static {
    /// Time since some fixed moment. Never goes back.
    fn now(&self) -> Duration;
    /// Blocks the calling thread for `duration`. A simulated clock only moves its own time on.
    fn sleep(&self, duration: Duration);
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts at zero now.
    #[expect(clippy::disallowed_methods, reason = "this is where the ambient clock enters")]
    pub fn new() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the ambient clock enters")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
