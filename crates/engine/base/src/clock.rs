//! Time as a value that is passed in.

use std::time::{Duration, Instant, SystemTime};

/// A monotonic clock that can also wait.
pub trait Clock: Send + Sync + 'static {
    /// Time since some fixed point in time. Never goes back.
    fn now(&self) -> Duration;
    /// Blocks the calling thread for `duration`, to within a few microseconds where the system's timers
    /// can do that. A simulated clock only moves its own time on.
    fn sleep(&self, duration: Duration);
    /// Time since the start of 1970 in UTC, as the machine's calendar has it. It may be set forward or back, but
    /// it goes on while no process runs. By default [`Clock::now`].
    fn calendar(&self) -> Duration {
        self.now()
    }
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
    fn calendar(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the ambient clock enters")]
    fn sleep(&self, duration: Duration) {
        if duration < PRECISE_BELOW {
            sleep_precisely(duration);
        } else {
            std::thread::sleep(duration);
        }
    }
}

/// From here on the system's usual lateness, 50 us on Linux, is no matter.
const PRECISE_BELOW: Duration = Duration::from_millis(1);

/// The system may be late, to wake the processor less often; not in this sleep.
#[expect(clippy::disallowed_methods, reason = "this is where the ambient clock enters")]
fn sleep_precisely(duration: Duration) {
    // Where that cannot be said, the sleep is longer.
    let usual = timer_slack(Some(1));
    std::thread::sleep(duration);
    timer_slack(usual);
}

/// How late, in nanoseconds, this thread's timers may be from here on, and how late they might be before.
#[cfg(target_os = "linux")]
fn timer_slack(slack: Option<u64>) -> Option<u64> {
    use rustix::thread::{current_timer_slack, set_current_timer_slack};
    let before = current_timer_slack().ok();
    if let Some(slack) = slack.and_then(std::num::NonZeroU64::new) {
        let _ = set_current_timer_slack(Some(slack));
    }
    before
}

#[cfg(not(target_os = "linux"))]
fn timer_slack(_slack: Option<u64>) -> Option<u64> {
    None
}
