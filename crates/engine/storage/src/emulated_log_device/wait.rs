//! Waiting until a point in time, neither long past it nor with a core that others could use.
//!
//! A sleeper wakes late: by 16 to 40 µs at the median on a virtual machine, whatever it asked for, and
//! by 50 µs more unless the kernel is notified that this thread's timers may not be put together with
//! others (`PR_SET_TIMERSLACK`). So a wait sleeps for all but a margin, and watches the clock for the
//! rest. The margin follows the lateness that is seen, so that nine sleepers in ten wake in time. What
//! is shorter than the margin is watched from its start: that takes a core, as a device driver that
//! polls does, and who measures subtracts it.

use esker_base::Clock;
use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sleeps to measure, before there is any other.
const FIRST_SLEEPS: usize = 16;
/// How long each of them is.
const FIRST_SLEEP: Duration = Duration::from_micros(50);
/// What the margin shrinks by when a sleeper wakes in time. It grows by nine of them when one does not,
/// so that it rests where one in ten is late.
const STEP_NS: u64 = 200;
/// Beyond this a sleeper was held up by other threads, which waiting awake would not have helped.
const MARGIN_MOST_NS: u64 = 100_000;

pub(super) struct PreciseSleep {
    margin_ns: AtomicU64,
}

impl PreciseSleep {
    /// One that has measured how late sleepers wake.
    pub(super) fn calibrated(clock: &dyn Clock) -> Self {
        allow_no_slack();
        let mut late: Vec<u64> = (0..FIRST_SLEEPS)
            .map(|_| {
                let until = clock.now() + FIRST_SLEEP;
                clock.sleep(FIRST_SLEEP);
                clock.now().saturating_sub(until).as_nanos() as u64
            })
            .collect();
        late.sort_unstable();
        let margin = late[FIRST_SLEEPS * 9 / 10].min(MARGIN_MOST_NS);
        PreciseSleep { margin_ns: AtomicU64::new(margin) }
    }

    /// Returns at `until`, or at once if that is past.
    pub(super) fn wait(&self, clock: &dyn Clock, until: Duration) {
        let margin = self.margin_ns.load(Ordering::Relaxed);
        let asleep = until
            .saturating_sub(clock.now())
            .checked_sub(Duration::from_nanos(margin))
            .filter(|asleep| *asleep > Duration::ZERO);
        if let Some(asleep) = asleep {
            allow_no_slack();
            clock.sleep(asleep);
            let is_late = clock.now() > until;
            let margin =
                if is_late { margin + 9 * STEP_NS } else { margin.saturating_sub(STEP_NS) };
            // Of several that learn at once, one is enough.
            self.margin_ns.store(margin.min(MARGIN_MOST_NS), Ordering::Relaxed);
        }
        while clock.now() < until {
            std::hint::spin_loop();
        }
    }
}

/// Has the kernel wake this thread as soon as its time has come.
fn allow_no_slack() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !DONE.replace(true) {
        #[cfg(target_os = "linux")]
        // Refused, it only makes the margin larger.
        let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock on which every sleep is too long by so much.
    struct Late {
        now_ns: AtomicU64,
        late_ns: u64,
    }

    impl Clock for Late {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.now_ns.fetch_add(10, Ordering::SeqCst))
        }

        fn sleep(&self, duration: Duration) {
            self.now_ns.fetch_add(duration.as_nanos() as u64 + self.late_ns, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_wait_ends_at_its_time_however_late_sleepers_wake() {
        for late_us in [0, 5, 30, 90] {
            let clock = Late { now_ns: AtomicU64::new(0), late_ns: late_us * 1_000 };
            let waiter = PreciseSleep::calibrated(&clock);
            for wait_us in [1, 20, 1_000] {
                let until = clock.now() + Duration::from_micros(wait_us);
                // It may try a smaller margin, and see that it was too small.
                waiter.wait(&clock, until);
                let over = clock.now().saturating_sub(until);
                assert!(over < Duration::from_micros(1), "{late_us} {wait_us}: {over:?}");
            }
        }
    }

    #[test]
    fn a_margin_that_is_too_small_grows() {
        let clock = Late { now_ns: AtomicU64::new(0), late_ns: 30_000 };
        let waiter = PreciseSleep { margin_ns: AtomicU64::new(0) };
        let over = |waits: usize| {
            let mut over = Duration::ZERO;
            for _ in 0..waits {
                let until = clock.now() + Duration::from_millis(1);
                waiter.wait(&clock, until);
                over = clock.now().saturating_sub(until);
            }
            over
        };
        assert!(over(1) > Duration::from_micros(25));
        assert!(over(50) < Duration::from_micros(3));
    }
}
