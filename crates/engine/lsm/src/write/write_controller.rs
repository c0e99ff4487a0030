//! Back-pressure: limits the write rate while flush and compaction catch up.
//!
//! The backlog is a fraction `x` of its limit, and determines a rate. The rate is normally
//! unlimited without a backlog, equals the flush or compaction throughput at one half, and
//! approaches zero near the limit. Writers wait in turns of a few milliseconds, each for the share of
//! the puts since the last turn, never for a whole compaction.
//!
//! The largest of three backlogs counts: immutable MemTables that wait for a flush, runs in level 0
//! that every read must visit, and bytes that compaction has yet to rewrite.
//!
//! * *Flush.* MemTables are flushed one by one, so the backlog gives the rate directly: `drain x (1
//!   - x) / x`.
//! * *Compaction.* It removes many runs at once, so the backlog alone would make the rate
//!   oscillate. Runs being compacted therefore count by the unfinished part of the compaction
//!   (`l0_progress`). The rate starts at twice the compaction throughput, `2 x drain x (1 - x)`.
//! * *Increase.* A rate that compaction determined rises no faster than doubling per second.
//!   Otherwise writers would fill level 0 to its limit whenever a compaction ends, and nearly stop
//!   until the next one does. A rate that only a flush determined ends with the flush.
//! * *Cap.* Once a compaction backlog has slowed writers, their rate stays at twice the compaction
//!   throughput until compactions are idle or the cap no longer binds. The next compaction takes as
//!   long as the last one.
//!
//! No rate is made from a throughput that was never measured. Until the first compaction of level 0
//! has ended, the throughput of flushes stands for it; before the first flush, nothing is limited but
//! by the number of segments.

use super::drain_rates::{DrainRates, Level0Drain};
use super::stall_inputs::{DEBT_FREE_SEGMENTS, INDEX_FREE, L0_SLOWDOWN_FREE_RUNS, StallInputs};
use esker_base::Clock;
use esker_base::operation_cost::count;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// So many runs in level 0 beyond those at which it is merged are the limit, and level 0 never gets twice as many.
const RUNS_LIMIT: f64 = 36.0;
/// So many bytes awaiting compaction, in segments, are the limit.
const DEBT_LIMIT_SEGMENTS: f64 = 256.0;

/// Compaction debt begins to slow writers at so many times the compaction throughput.
const RATE_AT_ZERO_DEBT_FACTOR: f64 = 2.0;
/// Writers keep at least this, in bytes a second, so that none waits permanently.
const RATE_FLOOR: f64 = 1e6;
/// A rate that may rise doubles in so long,
const DOUBLES_IN: Duration = Duration::from_secs(1);
/// and is none any more beyond this,
const RATE_FREE: f64 = 4e9;
/// or once there is no compaction debt and no writer has written for so long. A rate is lifted once it throttled no writer for so long.
const UNUSED: Duration = Duration::from_millis(100);
/// Waits shorter than this are saved up: to sleep and be woken costs 5 to 50 µs of processor time, and
/// to wait awake keeps a processor from the flush that is waited for. A writer who makes a put in 1.5 µs and
/// sleeps half of the time then sleeps at one put in 3,000; with a tenth of a millisecond it was one in 70.
const SLEEP_LEAST: Duration = Duration::from_millis(5);
/// So much of the rate as was not used is saved up, so that a sleep that is longer than it was to be, by no
/// more than this, costs no writer anything.
const CREDIT: Duration = Duration::from_millis(1);
/// No single wait is longer.
const SLEEP_MOST: Duration = Duration::from_millis(20);
/// No write is put off further than this by those before it: what they cost beyond is forgiven, or a
/// short time of overload would slow writers for minutes after.
const MAX_BACKLOG: Duration = Duration::from_millis(100);

/// See the file's head.
pub(crate) struct WriteController {
    /// Bytes a second that all writers together might write at `since`; 0 is no limit. The four are
    /// stored under the lock and read without it: who reads new and old ones waits too long, or not
    /// long enough, once.
    rate: AtomicU64,
    /// The point in time, in nanoseconds of the clock, that `rate` is from.
    since: AtomicU64,
    /// What the rate rises to from there; 0 is no limit.
    target: AtomicU64,
    /// Whether the target is no debt's: the pace of writers who were slowed.
    is_pace: AtomicBool,
    /// Whether what compactions have yet to do limits it.
    is_owed_by_compaction: AtomicBool,
    /// The point in time, in nanoseconds of the clock, until which earlier writes have used up the rate.
    busy_until: AtomicU64,
    /// The point in time until which a writer was throttled last.
    held_until: AtomicU64,
    stalled_ns: AtomicU64,
    pace: Mutex<Pace>,
}

#[derive(Default)]
struct Pace {
    drains: DrainRates,
    /// Whether compaction debt has slowed writers, who go on at their pace since.
    is_paced: bool,
    /// Whether compaction debt has slowed writers, and the rate rises step by step since.
    rises: bool,
}

impl WriteController {
    pub(crate) fn new() -> Self {
        WriteController {
            rate: AtomicU64::new(0),
            since: AtomicU64::new(0),
            target: AtomicU64::new(0),
            is_pace: AtomicBool::new(false),
            is_owed_by_compaction: AtomicBool::new(false),
            busy_until: AtomicU64::new(0),
            held_until: AtomicU64::new(0),
            stalled_ns: AtomicU64::new(0),
            pace: Mutex::default(),
        }
    }

    /// Waits as long as a write of `bytes` must.
    #[inline]
    pub(crate) fn before_write(&self, bytes: usize, clock: &dyn Clock) {
        let rate = self.rate.load(Ordering::Acquire);
        if rate > 0 {
            self.wait(bytes, rate, clock);
        }
    }

    /// Whether compactions have so much to do that writers may not go as fast as they can. Writers that only a flush
    /// slows down gain nothing by a compaction.
    pub(crate) fn waits_for_compaction(&self) -> bool {
        self.is_owed_by_compaction.load(Ordering::Relaxed)
    }

    #[cold]
    fn wait(&self, bytes: usize, rate: u64, clock: &dyn Clock) {
        let now = clock.now().as_nanos() as u64;
        let Some(risen) = self.risen(rate, now) else {
            // Unless another limit was set meanwhile. Were it the same number, it would come back with the
            // next change of the debt.
            let _ = self.rate.compare_exchange(rate, 0, Ordering::Relaxed, Ordering::Relaxed);
            return;
        };
        let cost_ns = (bytes as u64).saturating_mul(1_000_000_000) / risen;
        let earliest = now.saturating_sub(CREDIT.as_nanos() as u64);
        let start = |busy_until: u64| busy_until.max(earliest);
        let latest = now + MAX_BACKLOG.as_nanos() as u64;
        let after = |busy_until| Some(start(busy_until).saturating_add(cost_ns).min(latest));
        let before = self.busy_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        let wait = Duration::from_nanos(start(before.unwrap_or(now)).saturating_sub(now));
        if wait >= SLEEP_LEAST {
            let wait = wait.min(SLEEP_MOST);
            clock.sleep(wait);
            self.note_stalled(wait, Duration::from_nanos(now) + wait);
        }
    }

    /// What `rate` has become by `now`, if there still is one.
    fn risen(&self, rate: u64, now: u64) -> Option<u64> {
        let since = self.since.load(Ordering::Relaxed);
        let doublings = now.saturating_sub(since) as f64 / DOUBLES_IN.as_nanos() as f64;
        let risen = rate as f64 * doublings.exp2();
        let is_over = |until: u64| until.saturating_add(UNUSED.as_nanos() as u64) < now;
        let holds_nobody = is_over(self.held_until.load(Ordering::Relaxed));
        match self.target.load(Ordering::Relaxed) {
            0 => {
                let is_used = !holds_nobody || !is_over(self.busy_until.load(Ordering::Relaxed));
                (risen < RATE_FREE && is_used).then_some(risen as u64)
            }
            _ if self.is_pace.load(Ordering::Relaxed) && holds_nobody => None,
            target => Some(risen.min(target as f64) as u64),
        }
    }

    /// Whether writers are throttled by compaction debt.
    pub(crate) fn is_paced(&self) -> bool {
        self.pace.lock().is_paced
    }

    /// Counts time that the calling writer waited, until then.
    pub(crate) fn note_stalled(&self, duration: Duration, until: Duration) {
        self.held_until.fetch_max(until.as_nanos() as u64, Ordering::Relaxed);
        self.stalled_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
        count(|cost| cost.stalled += duration);
    }

    /// The time that writers have waited in all.
    pub(crate) fn stalled(&self) -> Duration {
        Duration::from_nanos(self.stalled_ns.load(Ordering::Relaxed))
    }

    /// Records that it took so long to verify and sort an immutable MemTable: a part of its flush, where that was
    /// a job of its own.
    pub(crate) fn sorted(&self, took: Duration) {
        self.pace.lock().drains.sorted(took);
    }

    /// What was recorded of sorting since the last flush.
    #[cfg(test)]
    pub(crate) fn sorting(&self) -> Duration {
        self.pace.lock().drains.sorting()
    }

    /// Records that a flush emptied `bytes` of segments in `took`, after what was recorded of its sorting.
    pub(crate) fn flushed(&self, bytes: u64, took: Duration) {
        self.pace.lock().drains.flushed(bytes, took);
    }

    /// Records that a compaction took `drained` out of level 0 in `took`.
    pub(crate) fn drained_level_0(&self, drained: Level0Drain, took: Duration) {
        self.pace.lock().drains.drained_level_0(drained, took);
    }

    /// The bytes of tables that compactions take out of level 0 in a time.
    pub(crate) fn could_drain_level_0(&self, time: Duration) -> u64 {
        (self.pace.lock().drains.of_level_0_tables() * time.as_secs_f64()) as u64
    }

    /// What compactions take out of level 0, in bytes that were written a second.
    #[cfg(test)]
    pub(crate) fn drain_rate_of_level_0(&self) -> f64 {
        self.pace.lock().drains.of_level_0()
    }

    /// Sets the rate by the compaction debt that there is now. It is measured under the lock, so that of two
    /// callers at once the later one has the last word.
    pub(crate) fn set_debt(&self, now: Duration, measure: impl FnOnce() -> StallInputs) {
        let mut pace = self.pace.lock();
        let debt = measure();
        let tolerable = (debt.sealed_limit + 1).saturating_sub(debt.sealed_free) as f64;
        let sealed = debt.sealed.saturating_sub(debt.sealed_free) as f64 / tolerable;
        let index = (debt.index_share - INDEX_FREE) / (1.0 - INDEX_FREE);
        let runs = (debt.level_0_excess_runs - L0_SLOWDOWN_FREE_RUNS)
            / (RUNS_LIMIT - L0_SLOWDOWN_FREE_RUNS);
        let segments = debt.compaction_bytes as f64 / debt.segment_bytes.max(1) as f64;
        let bytes = (segments - DEBT_FREE_SEGMENTS) / (DEBT_LIMIT_SEGMENTS - DEBT_FREE_SEGMENTS);
        // Compactions before may have been faster than the limit is now; and there may have been none.
        let limit = debt.write_rate_max.map_or(f64::INFINITY, |rate| rate as f64);
        let level_0 = pace.drains.of_level_0().min(limit);
        let of_compaction = even_rate_at(runs, level_0).min(even_rate_at(bytes, level_0));
        let was_owed = self.is_owed_by_compaction.load(Ordering::Relaxed);
        self.is_owed_by_compaction.store(runs.max(bytes) > 0.0, Ordering::Relaxed);
        let now = now.as_nanos() as u64;
        let before = match self.rate.load(Ordering::Relaxed) {
            0 => None,
            rate => self.risen(rate, now),
        };
        let owed = rate_at(sealed.max(index), pace.drains.of_flush()).min(of_compaction);
        pace.is_paced = before.is_some() && (was_owed || pace.is_paced) && debt.is_compacting;
        pace.rises = before.is_some() && (was_owed || pace.rises);
        let most = if pace.is_paced { RATE_AT_ZERO_DEBT_FACTOR * level_0 } else { f64::INFINITY };
        self.is_pace.store(most < owed, Ordering::Relaxed);
        let rate = owed.min(most);
        let target = rate.max(RATE_FLOOR);
        // What is drained, at least, is no rate to be reached step by step.
        let rate = match before.filter(|_| pace.rises) {
            Some(before) => target.min(level_0.max(before as f64)),
            None => target,
        };
        let stored = |rate: f64| if rate.is_finite() { rate as u64 } else { 0 };
        self.target.store(stored(target), Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        // Last, so that who finds it finds the others.
        self.rate.store(stored(rate), Ordering::Release);
    }
}

/// The rate at a fraction `x` of the tolerable compaction debt.
fn rate_at(x: f64, drain: f64) -> f64 {
    if x <= 0.0 || drain.is_infinite() { f64::INFINITY } else { drain * (1.0 - x).max(0.0) / x }
}

/// The same for a compaction debt that is paid in few large pieces. While one of them is on its way, MemTables that were
/// sealed before are still flushed, and may take the compaction debt over its limit: up to a quarter of the compaction throughput is
/// left to writers until it is twice the limit, which adds little to what the next piece takes away.
fn even_rate_at(x: f64, drain: f64) -> f64 {
    if x <= 0.0 || drain.is_infinite() {
        f64::INFINITY
    } else {
        drain * (RATE_AT_ZERO_DEBT_FACTOR * (1.0 - x)).max((2.0 - x) / 4.0).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point in time.
    const NOW: Duration = Duration::from_secs(1000);

    /// What flushes and compactions take in these tests, in bytes a second.
    const DRAIN: f64 = 100e6;

    fn drained(bytes: u64) -> Level0Drain {
        Level0Drain { written: bytes, tables: bytes }
    }

    fn measured() -> WriteController {
        let stall = WriteController::new();
        stall.flushed(DRAIN as u64, Duration::from_secs(1));
        stall.drained_level_0(drained(DRAIN as u64), Duration::from_secs(1));
        stall
    }

    fn rate(debt: StallInputs) -> u64 {
        let stall = measured();
        stall.set_debt(NOW, || StallInputs { sealed_limit: 3, segment_bytes: 64 << 20, ..debt });
        stall.rate.load(Ordering::Relaxed)
    }

    #[test]
    fn without_debt_writers_run_free() {
        assert_eq!(rate(StallInputs::default()), 0);
        assert_eq!(rate(StallInputs { level_0_excess_runs: 8.0, ..StallInputs::default() }), 0);
    }

    #[test]
    fn the_rate_falls_step_by_step_and_never_to_nothing() {
        let by_runs: Vec<u64> = (9..60)
            .map(|runs| {
                rate(StallInputs { level_0_excess_runs: f64::from(runs), ..StallInputs::default() })
            })
            .collect();
        assert!(by_runs.windows(2).all(|pair| pair[1] <= pair[0]));
        assert!(by_runs.windows(2).all(|pair| pair[1] * 2 >= pair[0] || pair[1] < 20_000_000));
        assert!(by_runs.iter().all(|&rate| rate >= RATE_FLOOR as u64));
        let by_sealed: Vec<u64> =
            (1..6).map(|sealed| rate(StallInputs { sealed, ..StallInputs::default() })).collect();
        assert!(by_sealed.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn writers_get_no_more_than_a_limit_of_background_writes_lets_compactions_take() {
        let at = |limit: Option<u64>, level_0_excess_runs| {
            let write_rate_max = limit;
            rate(StallInputs { level_0_excess_runs, write_rate_max, ..StallInputs::default() })
        };
        // At half of the limit writers get what compactions take.
        assert_eq!(at(None, 22.0), DRAIN as u64);
        assert_eq!(at(Some(10_000_000), 22.0), 10_000_000);
        assert_eq!(at(Some(1_000_000_000), 22.0), DRAIN as u64);
        assert_eq!(at(Some(10_000_000), 8.0), 0, "no backlog");
    }

    const NONE: StallInputs = StallInputs {
        sealed: 0,
        sealed_limit: 3,
        sealed_free: 0,
        index_share: 0.0,
        level_0_excess_runs: 0.0,
        compaction_bytes: 0,
        is_compacting: false,
        segment_bytes: 1,
        write_rate_max: None,
    };

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
        let (stall, clock) = (measured(), Counting(AtomicU64::new(0)));
        let debt = |level_0_excess_runs| StallInputs { level_0_excess_runs, ..NONE };
        stall.set_debt(clock.now(), || debt(60.0));
        (0..50).for_each(|_| stall.before_write(1 << 20, &clock));
        stall.set_debt(clock.now(), || debt(9.0));
        let eased = clock.now();
        (0..50).for_each(|_| stall.before_write(100, &clock));
        assert!(clock.now() - eased <= MAX_BACKLOG, "{:?}", clock.now() - eased);
    }

    #[test]
    fn a_memtable_that_waits_for_its_flush_slows_writers_and_is_not_owed_by_compaction() {
        let stall = measured();
        let owes = |debt: StallInputs| {
            stall.set_debt(NOW, || debt);
            (stall.rate.load(Ordering::Relaxed) > 0, stall.waits_for_compaction())
        };
        assert_eq!(owes(NONE), (false, false));
        assert_eq!(owes(StallInputs { sealed: 1, ..NONE }), (true, false));
        assert_eq!(owes(StallInputs { sealed: 1, level_0_excess_runs: 9.0, ..NONE }), (true, true));
        assert_eq!(owes(StallInputs { compaction_bytes: 65, ..NONE }), (true, true));
        assert!(!owes(NONE).1);
    }

    #[test]
    fn a_pool_is_filled_to_a_half_before_it_slows_writers_and_then_step_by_step() {
        let pool = |sealed| {
            let (stall, debt) =
                (measured(), StallInputs { segment_bytes: 1, ..StallInputs::default() });
            stall.set_debt(NOW, || StallInputs {
                sealed,
                sealed_limit: 14,
                sealed_free: 7,
                ..debt
            });
            stall.rate.load(Ordering::Relaxed)
        };
        assert!((0..=7).all(|sealed| pool(sealed) == 0));
        let rates: Vec<u64> = (8..=15).map(pool).collect();
        assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
        // The first segment beyond slows nobody to less than what is flushed meanwhile.
        assert!(rates[0] as f64 > DRAIN && rates[7] == RATE_FLOOR as u64, "{rates:?}");
    }

    #[test]
    fn index_that_outgrows_its_share_of_the_memory_slows_writers() {
        assert_eq!(rate(StallInputs { index_share: INDEX_FREE, ..StallInputs::default() }), 0);
        let rates = [0.6, 0.8, 1.0]
            .map(|index_share| rate(StallInputs { index_share, ..StallInputs::default() }));
        assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
    }

    #[test]
    fn a_slowed_writer_waits_in_short_turns() {
        let (stall, clock) = (measured(), Counting(AtomicU64::new(0)));
        stall.set_debt(clock.now(), || StallInputs { level_0_excess_runs: 22.0, ..NONE });
        // At half of the limit writers get just the drain rate: 100 MB in about a second.
        for _ in 0..100_000 {
            stall.before_write(1000, &clock);
        }
        let seconds = clock.now().as_secs_f64();
        assert!((0.9..1.1).contains(&seconds), "{seconds}");
    }

    /// The bytes that a writer who never rests writes in `duration`.
    fn written_in(stall: &WriteController, clock: &Counting, duration: Duration) -> u64 {
        let (end, mut bytes) = (clock.now() + duration, 0);
        while clock.now() < end {
            stall.before_write(1000, clock);
            clock.0.fetch_add(400, Ordering::Relaxed);
            bytes += 1000;
        }
        bytes
    }

    #[test]
    fn writers_wait_for_the_share_of_a_few_puts_at_once() {
        let (stall, clock) = (measured(), Counting(AtomicU64::new(0)));
        stall.set_debt(clock.now(), || StallInputs { level_0_excess_runs: 22.0, ..NONE });
        written_in(&stall, &clock, Duration::from_secs(1));
        let begin = clock.now();
        let waits: Vec<_> = (0..50_000)
            .map(|_| {
                let before = clock.now();
                stall.before_write(1000, &clock);
                clock.now() - before
            })
            .collect();
        let longest = *waits.iter().max().unwrap();
        assert!(longest < SLEEP_LEAST + Duration::from_micros(11), "{longest:?}");
        let slept = waits.iter().filter(|wait| !wait.is_zero()).count();
        assert!((95..=105).contains(&slept), "1,000 bytes of 100 MB/s are 10 us: {slept}");
        assert!((495_000..=505_000).contains(&(clock.now() - begin).as_micros()));
    }

    #[test]
    fn nothing_is_limited_by_a_throughput_that_was_never_measured() {
        let stall = WriteController::new();
        let rate = |debt: StallInputs| {
            stall.set_debt(NOW, || debt);
            stall.rate.load(Ordering::Relaxed)
        };
        let (sealed, runs) =
            (StallInputs { sealed: 1, ..NONE }, StallInputs { level_0_excess_runs: 22.0, ..NONE });
        assert_eq!([rate(sealed), rate(runs)], [0, 0]);
        stall.flushed(1_000_000, Duration::from_secs(1));
        let of_flush = rate(runs);
        assert_eq!((of_flush, rate(NONE)), (1_000_000, 1_000_000), "flushes stand for compactions");
        stall.drained_level_0(drained(2_000_000), Duration::from_secs(1));
        assert_eq!(rate(runs), 2_000_000);
    }

    #[test]
    fn a_rate_that_only_a_flush_determined_ends_with_it() {
        let stall = measured();
        stall.set_debt(NOW, || StallInputs { sealed: 2, ..NONE });
        assert!(stall.rate.load(Ordering::Relaxed) > 0);
        stall.set_debt(NOW, || NONE);
        assert_eq!(stall.rate.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn when_a_merge_ends_the_rate_rises_step_by_step() {
        let (stall, clock) = (measured(), Counting(AtomicU64::new(0)));
        stall.set_debt(clock.now(), || StallInputs { level_0_excess_runs: 22.0, ..NONE });
        written_in(&stall, &clock, Duration::from_secs(1));
        stall.set_debt(clock.now(), || NONE);
        let by_second: Vec<u64> =
            (0..3).map(|_| written_in(&stall, &clock, Duration::from_secs(1))).collect();
        // A rate that doubles in a second writes 1.44 times what it began with meanwhile.
        for (wanted, written) in [144e6, 288e6, 577e6].into_iter().zip(by_second) {
            assert!((0.95..1.05).contains(&(written as f64 / wanted)), "{written} of {wanted}");
        }
    }

    #[test]
    fn writers_that_were_slowed_get_twice_the_drain_until_compactions_rest() {
        let (stall, clock) = (measured(), Counting(AtomicU64::new(0)));
        let compacting = StallInputs { is_compacting: true, ..NONE };
        stall.set_debt(clock.now(), || compacting);
        assert_eq!(stall.rate.load(Ordering::Relaxed), 0, "they were not slowed yet");
        stall.set_debt(clock.now(), || StallInputs { sealed: 1, ..compacting });
        stall.set_debt(clock.now(), || compacting);
        assert_eq!(stall.target.load(Ordering::Relaxed), 0, "only a flush slowed them");
        stall.set_debt(clock.now(), || StallInputs { level_0_excess_runs: 22.0, ..compacting });
        written_in(&stall, &clock, Duration::from_secs(1));
        stall.set_debt(clock.now(), || compacting);
        assert!(!stall.waits_for_compaction(), "nothing is owed");
        written_in(&stall, &clock, Duration::from_secs(2));
        let written = written_in(&stall, &clock, Duration::from_secs(1)) as f64;
        assert!((0.95..1.05).contains(&(written / (2.0 * DRAIN))), "{written}");
        // A MemTable that is flushed meanwhile changes nothing.
        stall.set_debt(clock.now(), || StallInputs { sealed: 1, ..compacting });
        stall.set_debt(clock.now(), || compacting);
        assert!(stall.is_paced());
        stall.set_debt(clock.now(), || NONE);
        let written = written_in(&stall, &clock, Duration::from_secs(1)) as f64;
        assert!(written > 2.5 * DRAIN, "{written}");
    }

    #[test]
    fn a_pace_that_holds_nobody_back_is_gone() {
        let (stall, clock) = (measured(), Counting(AtomicU64::new(0)));
        let compacting = StallInputs { is_compacting: true, ..NONE };
        stall.set_debt(clock.now(), || StallInputs { level_0_excess_runs: 22.0, ..compacting });
        written_in(&stall, &clock, Duration::from_secs(1));
        stall.set_debt(clock.now(), || compacting);
        // Someone writes on, a fifth of what might be.
        for _ in 0..6 * 400 {
            stall.before_write(1000, &clock);
            clock.0.fetch_add(50_000, Ordering::Relaxed);
        }
        assert_eq!(stall.rate.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_writer_that_waits_for_a_segment_keeps_its_pace() {
        let stall = measured();
        let compacting = StallInputs { is_compacting: true, ..NONE };
        stall.set_debt(NOW, || StallInputs { level_0_excess_runs: 22.0, ..compacting });
        stall.set_debt(NOW, || compacting);
        assert!(stall.is_paced());
        let (waited, until) = (Duration::from_millis(300), NOW + Duration::from_millis(300));
        stall.note_stalled(waited, until);
        stall.set_debt(until, || compacting);
        assert!(stall.is_paced());
    }

    #[test]
    fn a_rate_that_nobody_used_is_gone() {
        let (stall, clock) = (measured(), Counting(AtomicU64::new(0)));
        stall.set_debt(clock.now(), || StallInputs { level_0_excess_runs: 22.0, ..NONE });
        written_in(&stall, &clock, Duration::from_secs(1));
        stall.set_debt(clock.now(), || NONE);
        clock.sleep(SLEEP_MOST);
        stall.before_write(1000, &clock);
        assert!(stall.rate.load(Ordering::Relaxed) > 0, "not after a moment");
        (0..6).for_each(|_| clock.sleep(SLEEP_MOST));
        stall.before_write(1000, &clock);
        assert_eq!(stall.rate.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_sleep_that_was_too_long_costs_no_rate() {
        struct Late(Counting);
        impl Clock for Late {
            fn now(&self) -> Duration {
                self.0.now()
            }
            fn sleep(&self, duration: Duration) {
                self.0.0.fetch_add(duration.as_nanos() as u64 + 50_000, Ordering::Relaxed);
            }
        }
        let (stall, clock) = (measured(), Late(Counting(AtomicU64::new(0))));
        stall.set_debt(clock.now(), || StallInputs { level_0_excess_runs: 22.0, ..NONE });
        (0..100_000).for_each(|_| stall.before_write(1000, &clock));
        let seconds = clock.now().as_secs_f64();
        assert!((0.99..1.01).contains(&seconds), "100 MB of 100 MB/s: {seconds}");
    }
}
