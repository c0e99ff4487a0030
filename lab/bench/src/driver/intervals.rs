//! What a load was like piece by piece, all pieces being of one length: a second, if the load takes
//! minutes.
//!
//! A thread fills a histogram for the piece that it is in, and brings it here when the piece has
//! passed. Once every thread has left a piece behind, its histogram becomes one [`Interval`] and is
//! forgotten, so that a long load takes no more memory than a short one.

use crate::Latencies;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// One piece of a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Its end, from the load's start.
    pub end: Duration,
    /// Operations that ended in it.
    pub operations: u64,
    /// 99% of the steps that ended in it took at most so many microseconds.
    pub latency_p99_us: f64,
    /// 99.9% of them.
    pub latency_p999_us: f64,
    /// All of them.
    pub latency_max_us: f64,
}

/// Where threads bring their pieces.
pub(super) struct Intervals {
    length: Duration,
    state: Mutex<State>,
}

struct State {
    /// The load's start: that of the thread that was first.
    start: Option<Duration>,
    /// The piece that each thread is in. All before it were brought.
    at: Vec<u64>,
    /// The last piece that some thread has been in. All before it were whole.
    newest: u64,
    open: BTreeMap<u64, (Latencies, u64)>,
    closed: Vec<Interval>,
}

/// One thread's piece.
pub(super) struct Ongoing<'a> {
    intervals: &'a Intervals,
    thread: usize,
    /// The load's start.
    start: Duration,
    index: u64,
    end: Duration,
    latencies: Latencies,
    operations: u64,
}

impl Intervals {
    /// Pieces of `length`, which is not zero.
    pub(super) fn new(threads: usize, length: Duration) -> Self {
        let at = vec![0; threads];
        let (open, closed) = (BTreeMap::new(), Vec::new());
        let state = Mutex::new(State { start: None, at, newest: 0, open, closed });
        Intervals { length, state }
    }

    /// A thread that starts now.
    pub(super) fn join(&self, thread: usize, now: Duration) -> Ongoing<'_> {
        let start = *self.lock().start.get_or_insert(now);
        Ongoing {
            intervals: self,
            thread,
            start,
            index: 0,
            end: start + self.length,
            latencies: Latencies::new(),
            operations: 0,
        }
    }

    /// All whole pieces. The last one, which ended early, would not compare.
    pub(super) fn take(&self) -> Vec<Interval> {
        std::mem::take(&mut self.lock().closed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect(UNBROKEN)
    }
}

const UNBROKEN: &str = "no thread panics with the lock";

impl Ongoing<'_> {
    /// Adds a step that ended at `now`. Says whether a piece had passed and was brought away.
    #[inline]
    pub(super) fn record(&mut self, now: Duration, latency: Duration, operations: u64) -> bool {
        let has_passed = now >= self.end;
        if has_passed {
            self.bring(now);
        }
        self.latencies.record(latency);
        self.operations += operations;
        has_passed
    }

    #[cold]
    fn bring(&mut self, now: Duration) {
        let length = self.intervals.length;
        let next = (now.saturating_sub(self.start).as_nanos() / length.as_nanos()) as u64;
        let mut state = self.intervals.lock();
        let (latencies, operations) = state.open.entry(self.index).or_default();
        latencies.merge(&self.latencies);
        *operations += self.operations;
        state.newest = state.newest.max(next);
        state.leave(self.thread, next, length);
        drop(state);
        self.latencies.clear();
        self.operations = 0;
        self.index = next;
        self.end = self.start + length * u32::try_from(next + 1).unwrap_or(u32::MAX);
    }
}

impl Drop for Ongoing<'_> {
    /// The thread ends: no other waits for it any more. Others may go on to the end of its last piece,
    /// so what it did in it is brought.
    fn drop(&mut self) {
        let Ok(mut state) = self.intervals.state.lock() else { return };
        let (latencies, operations) = state.open.entry(self.index).or_default();
        latencies.merge(&self.latencies);
        *operations += self.operations;
        state.leave(self.thread, u64::MAX, self.intervals.length);
    }
}

impl State {
    /// Closes the pieces that no thread is in any more.
    fn leave(&mut self, thread: usize, next: u64, length: Duration) {
        self.at[thread] = next;
        let least = self.at.iter().copied().min().unwrap_or(u64::MAX).min(self.newest);
        while let Some(first) = self.open.first_entry() {
            if *first.key() >= least {
                break;
            }
            let (index, (latencies, operations)) = first.remove_entry();
            if operations == 0 {
                continue;
            }
            self.closed.push(Interval {
                end: length * u32::try_from(index + 1).unwrap_or(u32::MAX),
                operations,
                latency_p99_us: latencies.percentile_us(99.0),
                latency_p999_us: latencies.percentile_us(99.9),
                latency_max_us: latencies.max_us(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn seen(intervals: &Intervals) -> Vec<(u64, u64)> {
        let all = intervals.take();
        all.into_iter().map(|interval| (interval.end.as_secs(), interval.operations)).collect()
    }

    #[test]
    fn a_second_is_what_all_threads_did_in_it() {
        let intervals = Intervals::new(2, SECOND);
        let (mut one, mut two) = (intervals.join(0, ms(500)), intervals.join(1, ms(510)));
        assert!(!one.record(ms(600), ms(1), 1) && !two.record(ms(1_499), ms(1), 2));
        assert!(one.record(ms(1_500), ms(1), 1), "the second ends a second after the start");
        assert!(two.record(ms(1_600), ms(1), 1));
        assert!(one.record(ms(2_600), ms(1), 1) && two.record(ms(2_700), ms(1), 1));
        drop((one, two));
        assert_eq!(seen(&intervals), [(1, 3), (2, 2)], "the third second is not whole");
    }

    #[test]
    fn pieces_may_be_shorter() {
        let intervals = Intervals::new(1, ms(100));
        let mut one = intervals.join(0, ms(0));
        one.record(ms(50), ms(1), 1);
        one.record(ms(120), ms(9), 2);
        one.record(ms(150), ms(1), 3);
        one.record(ms(200), ms(1), 1);
        drop(one);
        let pieces = intervals.take();
        let seen: Vec<_> = pieces.iter().map(|piece| (piece.end, piece.operations)).collect();
        assert_eq!(seen, [(ms(100), 1), (ms(200), 5)]);
        assert!((pieces[1].latency_max_us / 9_000.0 - 1.0).abs() < 0.01, "{pieces:?}");
    }

    #[test]
    fn a_second_in_which_nothing_ended_is_left_out() {
        let intervals = Intervals::new(1, SECOND);
        let mut one = intervals.join(0, ms(0));
        one.record(ms(100), ms(1), 1);
        one.record(ms(3_100), ms(3_000), 1);
        one.record(ms(4_000), ms(1), 1);
        drop(one);
        assert_eq!(seen(&intervals), [(1, 1), (4, 1)]);
    }

    #[test]
    fn a_thread_that_ends_early_holds_nobody_up() {
        let intervals = Intervals::new(2, SECOND);
        let mut one = intervals.join(0, ms(0));
        intervals.join(1, ms(0)).record(ms(10), ms(1), 1);
        one.record(ms(900), ms(7), 1);
        one.record(ms(1_000), ms(1), 1);
        assert_eq!(seen(&intervals), [(1, 2)]);
    }

    #[test]
    fn the_last_second_of_a_thread_that_ends_early_counts_in_that_of_the_others() {
        let intervals = Intervals::new(2, SECOND);
        let (mut one, mut two) = (intervals.join(0, ms(0)), intervals.join(1, ms(0)));
        two.record(ms(1_000), ms(1), 1);
        two.record(ms(1_100), ms(1), 10);
        drop(two);
        one.record(ms(1_200), ms(1), 100);
        one.record(ms(2_000), ms(1), 1_000);
        drop(one);
        assert_eq!(seen(&intervals), [(2, 111)], "the third second is not whole");
    }

    #[test]
    fn latencies_count_in_the_second_in_which_they_end() {
        let intervals = Intervals::new(1, SECOND);
        let mut one = intervals.join(0, ms(0));
        one.record(ms(900), ms(1), 1);
        one.record(ms(1_900), ms(1_000), 1);
        one.record(ms(2_000), ms(100), 1);
        drop(one);
        let p99: Vec<_> =
            intervals.take().iter().map(|second| second.latency_p99_us.round()).collect();
        assert!((p99[0] / 1_000.0 - 1.0).abs() < 0.001, "{p99:?}");
        assert!((p99[1] / 1_000_000.0 - 1.0).abs() < 0.001, "{p99:?}");
    }
}
