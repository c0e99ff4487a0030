//! An open loop: operations are due at fixed times, whether or not the store keeps up.
//!
//! The latency of an operation counts from the time it was due. So when the store stalls for a
//! second, every operation that was due in that second has waited for it and says so. A closed loop
//! would have asked one slow question and nothing else: "coordinated omission". For the same reason
//! a load that ends at a given time still does what was due before, late as it is; but for as long
//! again at most, because a rate far beyond the store's would never let it end. What is left
//! then is dropped, and counted.
//!
//! The threads take turns: operation `n` of the whole load is due `n / rate` after its start and
//! belongs to thread `n mod threads`.

use esker_base::Clock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long before its time a thread stops sleeping and watches the clock: sleeping longer than
/// asked for would count as the store's latency. Twice what Linux adds to a sleep by default.
const WATCH: Duration = Duration::from_micros(100);

/// The longest sleep: threads that wait for long still see that the load has failed.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// One thread's times.
pub(super) struct Pace {
    rate: f64,
    threads: u64,
    /// The place of the next operation among those of all threads.
    next: u64,
    start: Duration,
    /// From here on nothing is due.
    stop_at: Duration,
    /// From here on nothing is begun.
    give_up_at: Duration,
    given_up: u64,
}

impl Pace {
    /// The times of thread `thread`, when all together start `rate` operations a second.
    pub(super) fn new(
        rate: f64,
        thread: usize,
        threads: usize,
        start: Duration,
        stop_at: Duration,
    ) -> Self {
        let give_up_at = stop_at.saturating_add(stop_at.saturating_sub(start));
        let (threads, next) = (threads as u64, thread as u64);
        Pace { rate, threads, next, start, stop_at, give_up_at, given_up: 0 }
    }

    /// Operations that were due and are never begun.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Waits until the next operation is due, if it is not yet at `now`, and gives the time it was
    /// due. `None` if the load ends before, or `failed`.
    #[inline]
    pub(super) fn next(
        &mut self,
        clock: &dyn Clock,
        mut now: Duration,
        failed: &AtomicBool,
    ) -> Option<Duration> {
        let due = self.start + Duration::from_secs_f64(self.next as f64 / self.rate);
        self.next += self.threads;
        if due >= self.stop_at {
            return None;
        }
        if now >= self.give_up_at {
            let left = (self.stop_at - due).as_secs_f64() * self.rate / self.threads as f64;
            self.given_up = (left.ceil() as u64).max(1);
            return None;
        }
        while now < due {
            if failed.load(Relaxed) {
                return None;
            }
            match (due - now).checked_sub(WATCH) {
                Some(left) => clock.sleep(left.min(LONGEST_SLEEP)),
                None => std::hint::spin_loop(),
            }
            now = clock.now();
        }
        Some(due)
    }
}
