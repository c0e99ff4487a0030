//! Back-pressure: how fast writers may go while flush and compaction catch up.
//!
//! There is no cliff. Debt is measured as a fraction `x` of what is tolerable, and writers are
//! slowed to `drain x (1 - x) / x`: unlimited without debt, just what is drained at one half, and
//! almost nothing when the limit is near. So a limit is approached ever more slowly, and a put waits
//! a few milliseconds at a time, never for a whole compaction.
//!
//! Three debts count, and the worst of them rules: sealed MemTables that wait for their flush, runs
//! in level 0 that every read must visit, and bytes that compaction has yet to rewrite.

use esker_base::Clock;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many runs in level 0 beyond those at which it is merged cost reads little: their filters answer.
const RUNS_FREE: f64 = 8.0;
/// Level 0 never gets so many beyond.
const RUNS_LIMIT: f64 = 36.0;
/// Up to this part of what it may take, the index of sealed MemTables slows nobody.
const INDEX_FREE: f64 = 0.5;
/// Bytes awaiting compaction, in segments, up to which writers run free; and the limit.
const DEBT_FREE_SEGMENTS: f64 = 64.0;
const DEBT_LIMIT_SEGMENTS: f64 = 256.0;

/// Writers keep at least this, in bytes a second, so that none waits for ever.
const RATE_FLOOR: f64 = 1e6;
/// The drain rates before any was measured, in bytes a second.
const DRAIN_INITIAL: f64 = 100e6;
/// How much a new measurement of a drain rate counts.
const DRAIN_WEIGHT: f64 = 0.3;

/// Sleeps shorter than this are saved up: the system's timers are no finer.
const SLEEP_LEAST: Duration = Duration::from_micros(500);
/// No single wait is longer.
const SLEEP_MOST: Duration = Duration::from_millis(20);
/// No write is put off further than this by those before it: what they cost beyond is forgiven, or a
/// moment of overload would slow writers for minutes after.
const BACKLOG_MOST: Duration = Duration::from_millis(100);

/// What writers' debts are made of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt {
    /// Sealed MemTables waiting for their flush, and how many are tolerable.
    pub(crate) sealed: usize,
    pub(crate) sealed_limit: usize,
    /// So many of them cost nobody anything: a pool of persistent memory is there to be filled.
    pub(crate) sealed_free: usize,
    /// The index of sealed MemTables, as a part of what it may take of the memory.
    pub(crate) index_share: f64,
    /// The most runs in level 0 of any keyspace, beyond those at which it is merged.
    pub(crate) level_0_excess_runs: usize,
    /// Bytes that compaction has yet to rewrite.
    pub(crate) compaction_bytes: u64,
    pub(crate) segment_bytes: usize,
}

/// See the file's head.
pub(crate) struct Stall {
    /// Bytes a second that all writers together may write; 0 is no limit.
    rate: AtomicU64,
    /// The moment, in nanoseconds of the clock, until which earlier writes have used up the rate.
    busy_until: AtomicU64,
    stalled_ns: AtomicU64,
    drains: Mutex<Drains>,
}

struct Drains {
    flush: f64,
    level_0: f64,
}

impl Stall {
    pub(crate) fn new() -> Self {
        Stall {
            rate: AtomicU64::new(0),
            busy_until: AtomicU64::new(0),
            stalled_ns: AtomicU64::new(0),
            drains: Mutex::new(Drains { flush: DRAIN_INITIAL, level_0: DRAIN_INITIAL }),
        }
    }

    /// Waits as long as a write of `bytes` must.
    #[inline]
    pub(crate) fn before_write(&self, bytes: usize, clock: &dyn Clock) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate > 0 {
            self.wait(bytes, rate, clock);
        }
    }

    /// Whether there is so much debt that writers may not go as fast as they can.
    pub(crate) fn slows_writers(&self) -> bool {
        self.rate.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn wait(&self, bytes: usize, rate: u64, clock: &dyn Clock) {
        let cost_ns = (bytes as u64).saturating_mul(1_000_000_000) / rate;
        let now = clock.now().as_nanos() as u64;
        // Rate that was not used in the past is not saved up.
        let start = |busy_until: u64| busy_until.max(now);
        let latest = now + BACKLOG_MOST.as_nanos() as u64;
        let after = |busy_until| Some(start(busy_until).saturating_add(cost_ns).min(latest));
        let before = self.busy_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        let wait = Duration::from_nanos(start(before.unwrap_or(now)) - now);
        if wait >= SLEEP_LEAST {
            let wait = wait.min(SLEEP_MOST);
            clock.sleep(wait);
            self.note_stalled(wait);
        }
    }

    /// Counts time that a writer waited.
    pub(crate) fn note_stalled(&self, duration: Duration) {
        self.stalled_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The time that writers have waited in all.
    pub(crate) fn stalled(&self) -> Duration {
        Duration::from_nanos(self.stalled_ns.load(Ordering::Relaxed))
    }

    /// Learns that a flush emptied `bytes` of segments in `took`.
    pub(crate) fn flushed(&self, bytes: u64, took: Duration) {
        learn(&mut self.drains.lock().flush, bytes, took);
    }

    /// Learns that a compaction took `bytes` out of level 0 in `took`.
    pub(crate) fn drained_level_0(&self, bytes: u64, took: Duration) {
        learn(&mut self.drains.lock().level_0, bytes, took);
    }

    /// Sets the rate by the debt that there is now. It is measured under the lock, so that of two
    /// callers at once the later one has the last word.
    pub(crate) fn set_debt(&self, measure: impl FnOnce() -> Debt) {
        let drains = self.drains.lock();
        let debt = measure();
        let tolerable = (debt.sealed_limit + 1).saturating_sub(debt.sealed_free) as f64;
        let sealed = debt.sealed.saturating_sub(debt.sealed_free) as f64 / tolerable;
        let index = (debt.index_share - INDEX_FREE) / (1.0 - INDEX_FREE);
        let runs = (debt.level_0_excess_runs as f64 - RUNS_FREE) / (RUNS_LIMIT - RUNS_FREE);
        let segments = debt.compaction_bytes as f64 / debt.segment_bytes.max(1) as f64;
        let bytes = (segments - DEBT_FREE_SEGMENTS) / (DEBT_LIMIT_SEGMENTS - DEBT_FREE_SEGMENTS);
        let rate = rate_at(sealed.max(index), drains.flush)
            .min(rate_at(runs, drains.level_0))
            .min(rate_at(bytes, drains.level_0));
        let stored = if rate.is_finite() { rate.max(RATE_FLOOR) as u64 } else { 0 };
        self.rate.store(stored, Ordering::Relaxed);
    }
}

/// The rate at a fraction `x` of the tolerable debt.
fn rate_at(x: f64, drain: f64) -> f64 {
    if x <= 0.0 { f64::INFINITY } else { drain * (1.0 - x).max(0.0) / x }
}

fn learn(drain: &mut f64, bytes: u64, took: Duration) {
    let seconds = took.as_secs_f64();
    if seconds > 0.0 && bytes > 0 {
        *drain += DRAIN_WEIGHT * (bytes as f64 / seconds - *drain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(debt: Debt) -> u64 {
        let stall = Stall::new();
        stall.set_debt(|| Debt { sealed_limit: 3, segment_bytes: 64 << 20, ..debt });
        stall.rate.load(Ordering::Relaxed)
    }

    #[test]
    fn without_debt_writers_run_free() {
        assert_eq!(rate(Debt::default()), 0);
        assert_eq!(rate(Debt { level_0_excess_runs: 8, ..Debt::default() }), 0);
    }

    #[test]
    fn the_rate_falls_step_by_step_and_never_to_nothing() {
        let by_runs: Vec<u64> = (9..60)
            .map(|runs| rate(Debt { level_0_excess_runs: runs, ..Debt::default() }))
            .collect();
        assert!(by_runs.windows(2).all(|pair| pair[1] <= pair[0]));
        assert!(by_runs.windows(2).all(|pair| pair[1] * 3 >= pair[0] || pair[1] < 20_000_000));
        assert!(by_runs.iter().all(|&rate| rate >= RATE_FLOOR as u64));
        let by_sealed: Vec<u64> =
            (1..6).map(|sealed| rate(Debt { sealed, ..Debt::default() })).collect();
        assert!(by_sealed.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    struct Counting(AtomicU64);

    impl Clock for Counting {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.0.load(Ordering::Relaxed))
        }
        fn sleep(&self, duration: Duration) {
            assert!(duration >= SLEEP_LEAST && duration <= SLEEP_MOST);
            self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_moment_of_overload_is_soon_over() {
        let (stall, clock) = (Stall::new(), Counting(AtomicU64::new(0)));
        let debt = |level_0_excess_runs| Debt {
            level_0_excess_runs,
            sealed_limit: 3,
            segment_bytes: 1,
            ..Debt::default()
        };
        stall.set_debt(|| debt(60));
        (0..50).for_each(|_| stall.before_write(1 << 20, &clock));
        stall.set_debt(|| debt(9));
        let eased = clock.now();
        (0..50).for_each(|_| stall.before_write(100, &clock));
        assert!(clock.now() - eased <= BACKLOG_MOST, "{:?}", clock.now() - eased);
    }

    #[test]
    fn a_pool_is_filled_to_a_half_before_it_slows_writers_and_then_step_by_step() {
        let pool = |sealed| {
            let (stall, debt) = (Stall::new(), Debt { segment_bytes: 1, ..Debt::default() });
            stall.set_debt(|| Debt { sealed, sealed_limit: 14, sealed_free: 7, ..debt });
            stall.rate.load(Ordering::Relaxed)
        };
        assert!((0..=7).all(|sealed| pool(sealed) == 0));
        let rates: Vec<u64> = (8..=15).map(pool).collect();
        assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
        // The first segment beyond slows nobody to less than what is flushed meanwhile.
        assert!(rates[0] as f64 > DRAIN_INITIAL && rates[7] == RATE_FLOOR as u64, "{rates:?}");
    }

    #[test]
    fn index_that_outgrows_its_share_of_the_memory_slows_writers() {
        assert_eq!(rate(Debt { index_share: INDEX_FREE, ..Debt::default() }), 0);
        let rates =
            [0.6, 0.8, 1.0].map(|index_share| rate(Debt { index_share, ..Debt::default() }));
        assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
    }

    #[test]
    fn a_slowed_writer_waits_in_short_turns() {
        let stall = Stall::new();
        stall.set_debt(|| Debt {
            level_0_excess_runs: 22,
            sealed_limit: 3,
            segment_bytes: 1,
            ..Debt::default()
        });
        let clock = Counting(AtomicU64::new(0));
        // At half of the limit writers get just the drain rate: 100 MB in about a second.
        for _ in 0..100_000 {
            stall.before_write(1000, &clock);
        }
        let seconds = clock.now().as_secs_f64();
        assert!((0.9..1.1).contains(&seconds), "{seconds}");
    }
}
