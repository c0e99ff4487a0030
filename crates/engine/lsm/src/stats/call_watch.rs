//! Times the calls of users while there is a reason: a limit for slow calls, or an observer.
//!
//! ```text
//! off ──(limit set)───────────────► every call is timed, and its cost counted
//!  └───(an observer asks)─► watched: every call is counted, a sample of them is timed
//!            ▲                 │
//!            └── a time after the last observer
//! ```
//!
//! While it is off, a call reads one flag, and no clock. The end of a watch is noticed by the next timed
//! call, or by the thread that answers requests.
//!
//! A timed call stands for those of its kind that were not timed since the one before. How many that
//! are follows the rate of the calls: timed calls measure it themselves, so that no observer has to.

use super::events::CallKind;
use super::latency::{LatencyHistogram, LatencyRecorder};
use super::table_reads::{STRIPES, own_stripe};
use esker_base::operation_cost::{Measuring, Watching, measure_held};
use esker_base::{Clock, OperationCost};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// No limit.
const NO_LIMIT: u64 = u64::MAX;

/// A key in a report has at most so many bytes before it is escaped.
const KEY_BYTES_MAX: usize = 64;

/// So many timed calls of a kind in a second are enough for quantiles.
const SAMPLES_A_SECOND: u64 = 10_000;
/// At least one of so many calls of a kind is timed.
const SAMPLED_MOST: u64 = 256;
/// The rate of calls is measured after so many timed ones of the kind, or with the first one after so
/// long.
const MEASURED_AFTER_CALLS: u64 = 4_096;
const MEASURED_AFTER: Duration = Duration::from_secs(1);
/// A shorter time says little of the rate.
const SHORTEST_MEASURE: Duration = Duration::from_millis(2);

/// See the file's head.
pub(crate) struct CallWatch {
    /// Whether there is a limit, or an observer.
    is_on: AtomicBool,
    /// The limit in nanoseconds.
    slow_ns: AtomicU64,
    slow_calls: AtomicU64,
    /// Until when calls are counted and timed, in nanoseconds of the clock. 0: not.
    watched_until: AtomicU64,
    /// Made by the first observer.
    timers: OnceLock<Box<CallTimers>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// There while there is a limit, so that costs are counted.
    measuring: Option<Measuring>,
    /// There while it is on, so that cursors ask.
    watching: Option<Watching>,
    /// For each kind, when its rate was measured last, and how many calls there were by then.
    measured: [Option<(Duration, u64)>; CallKind::ALL.len()],
    /// The database is closed, so nothing turns it on again.
    is_over: bool,
}

/// Counts of calls, and times of some of them.
#[derive(Default)]
struct CallTimers {
    counts: [Stripe; STRIPES],
    kinds: [KindTimer; CallKind::ALL.len()],
}

/// Two cache lines, because processors fetch them two at once.
#[derive(Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; CallKind::ALL.len()]);

/// The timed calls of one kind.
#[derive(Default)]
#[repr(align(128))]
struct KindTimer {
    /// One of so many calls is timed: a power of two, less one. A kind of few calls is timed whole,
    /// however many there are of another.
    mask: AtomicU64,
    /// When the rate is measured next, in nanoseconds of the clock.
    due_at: AtomicU64,
    timed: AtomicU64,
    times: LatencyRecorder,
}

impl CallTimers {
    /// Counts a call. Returns how many calls it stands for if it is to be timed.
    fn count(&self, kind: CallKind) -> Option<u64> {
        let count = self.counts[own_stripe()].0[kind as usize].fetch_add(1, Ordering::Relaxed);
        let mask = self.kinds[kind as usize].mask.load(Ordering::Relaxed);
        (count & mask == 0).then_some(mask + 1)
    }

    fn calls(&self, kind: CallKind) -> u64 {
        self.counts.iter().map(|stripe| stripe.0[kind as usize].load(Ordering::Relaxed)).sum()
    }

    /// Notes a timed call that ended at `now`. Returns whether the rate is to be measured.
    fn note(&self, kind: CallKind, took: Duration, calls: u64, now: Duration) -> bool {
        let timer = &self.kinds[kind as usize];
        timer.times.record(took, calls);
        let timed = timer.timed.fetch_add(1, Ordering::Relaxed) + 1;
        timed.is_multiple_of(MEASURED_AFTER_CALLS)
            || nanos(now) >= timer.due_at.load(Ordering::Relaxed)
    }

    /// Measures the rate of calls of a kind, and decides how many of them are timed from now on.
    fn measure(&self, kind: CallKind, now: Duration, state: &mut State) {
        let (timer, calls) = (&self.kinds[kind as usize], self.calls(kind));
        let measured = &mut state.measured[kind as usize];
        if let Some((before, counted)) = *measured {
            let passed = now.saturating_sub(before);
            if passed < SHORTEST_MEASURE {
                return;
            }
            let a_second = u128::from(calls - counted) * 1_000_000_000 / passed.as_nanos();
            let each = a_second / u128::from(SAMPLES_A_SECOND) + 1;
            let each = each.min(u128::from(SAMPLED_MOST)).next_power_of_two();
            timer.mask.store(each as u64 - 1, Ordering::Relaxed);
        }
        *measured = Some((now, calls));
        timer.due_at.store(nanos(now + MEASURED_AFTER), Ordering::Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// How long calls took while they were watched. Each histogram stands for all calls of its kind, of
/// which a sample was timed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CallHistograms {
    /// [`CallKind::Get`].
    pub get: LatencyHistogram,
    /// [`CallKind::MultiGet`].
    pub multi_get: LatencyHistogram,
    /// [`CallKind::Write`].
    pub write: LatencyHistogram,
    /// [`CallKind::Scan`].
    pub scan: LatencyHistogram,
}

impl CallHistograms {
    /// Returns the histogram of this kind.
    pub fn of(&self, kind: CallKind) -> &LatencyHistogram {
        match kind {
            CallKind::Get => &self.get,
            CallKind::MultiGet => &self.multi_get,
            CallKind::Write => &self.write,
            CallKind::Scan => &self.scan,
        }
    }
}

/// Calls of one kind, counted and timed while they are watched.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CallTimes {
    /// The kind.
    pub call: CallKind,
    /// How many there were.
    pub count: u64,
    /// How long they took: a sample was timed, and stands for all.
    pub times: LatencyHistogram,
}

impl CallTimes {
    /// Returns these figures.
    pub fn new(call: CallKind, count: u64, times: LatencyHistogram) -> Self {
        CallTimes { call, count, times }
    }
}

impl CallWatch {
    /// With this limit; [`Duration::MAX`] is none.
    pub(crate) fn new(slow: Duration) -> CallWatch {
        let watch = CallWatch {
            is_on: AtomicBool::new(false),
            slow_ns: AtomicU64::new(NO_LIMIT),
            slow_calls: AtomicU64::new(0),
            watched_until: AtomicU64::new(0),
            timers: OnceLock::new(),
            state: Mutex::default(),
        };
        watch.set_slow(slow);
        watch
    }

    /// Whether calls are counted or timed.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Calls of this time or more are slow. [`Duration::MAX`] is no limit.
    pub(crate) fn set_slow(&self, slow: Duration) {
        let mut state = self.state.lock();
        self.slow_ns.store(slow.as_nanos().try_into().unwrap_or(NO_LIMIT), Ordering::Relaxed);
        self.switch(&mut state);
    }

    /// Turns it on or off, as there is a reason or none.
    fn switch(&self, state: &mut State) {
        let is_watched = self.watched_until.load(Ordering::Relaxed) > 0;
        let has_limit = self.slow_ns.load(Ordering::Relaxed) != NO_LIMIT;
        let is_on = (is_watched || has_limit) && !state.is_over;
        if is_on != state.watching.is_some() {
            state.watching = is_on.then(Watching::start);
        }
        let measures = is_on && has_limit;
        if measures != state.measuring.is_some() {
            state.measuring = measures.then(Measuring::start);
        }
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// The limit.
    pub(crate) fn slow(&self) -> Duration {
        match self.slow_ns.load(Ordering::Relaxed) {
            NO_LIMIT => Duration::MAX,
            nanos => Duration::from_nanos(nanos),
        }
    }

    /// Slow calls since the open.
    pub(crate) fn slow_calls(&self) -> u64 {
        self.slow_calls.load(Ordering::Relaxed)
    }

    /// Counts calls, and times a sample of them, for so long from `now` on.
    pub(crate) fn watch(&self, now: Duration, time: Duration) {
        let timers = self.timers.get_or_init(Box::default);
        let mut state = self.state.lock();
        let is_watched = self.watched_until.load(Ordering::Relaxed) > 0;
        if !is_watched {
            // How many calls there were before is nothing to it.
            state.measured = Default::default();
            timers.kinds.iter().for_each(|timer| timer.mask.store(0, Ordering::Relaxed));
        }
        CallKind::ALL.into_iter().for_each(|kind| timers.measure(kind, now, &mut state));
        self.watched_until.fetch_max(nanos(now + time), Ordering::Relaxed);
        self.switch(&mut state);
    }

    /// Calls while they were watched.
    pub(crate) fn seen(&self) -> Vec<CallTimes> {
        let histograms = self.histograms();
        let of = |call| CallTimes {
            call,
            count: self.timers.get().map_or(0, |timers| timers.calls(call)),
            times: histograms.of(call).clone(),
        };
        CallKind::ALL.map(of).into()
    }

    /// How long calls took while they were watched.
    pub(crate) fn histograms(&self) -> CallHistograms {
        let Some(timers) = self.timers.get() else { return CallHistograms::default() };
        let [get, multi_get, write, scan] =
            CallKind::ALL.map(|kind| timers.kinds[kind as usize].times.histogram());
        CallHistograms { get, multi_get, write, scan }
    }

    /// Measures the rate of calls, unless another thread does.
    #[cold]
    fn measure(&self, timers: &CallTimers, kind: CallKind, now: Duration) {
        if let Some(mut state) = self.state.try_lock() {
            timers.measure(kind, now, &mut state);
        }
    }

    /// Ends the watch if no observer asked until `now`.
    #[cold]
    fn end_watch(&self, now: Duration) {
        let mut state = self.state.lock();
        if nanos(now) > self.watched_until.load(Ordering::Relaxed) {
            self.watched_until.store(0, Ordering::Relaxed);
            self.switch(&mut state);
        }
    }

    /// Ends a watch that no call has ended. Called periodically: calls cost more as long as they are watched.
    pub(crate) fn end_due_watch(&self, clock: &dyn Clock) {
        if self.watched_until.load(Ordering::Relaxed) > 0 {
            self.end_watch(clock.now());
        }
    }

    /// Turns it off permanently: the database is closed.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        self.switch(&mut state);
    }

    /// Runs `call`, and gives `report` its time and cost if it is slow.
    pub(crate) fn run<T>(
        &self,
        kind: CallKind,
        clock: &dyn Clock,
        call: impl FnOnce() -> T,
        report: impl FnOnce(Duration, OperationCost),
    ) -> T {
        let until = self.watched_until.load(Ordering::Relaxed);
        let timers = self.timers.get().filter(|_| until > 0);
        let timers = timers.and_then(|timers| Some((timers, timers.count(kind)?)));
        let slow_ns = self.slow_ns.load(Ordering::Relaxed);
        if timers.is_none() && slow_ns == NO_LIMIT {
            return call();
        }
        let started = clock.now();
        let (value, cost) = match slow_ns {
            NO_LIMIT => (call(), OperationCost::default()),
            _ => measure_held(call),
        };
        let ended = clock.now();
        let took = ended.saturating_sub(started);
        if let Some((timers, calls)) = timers {
            if timers.note(kind, took, calls, ended) {
                self.measure(timers, kind, ended);
            }
            if nanos(ended) > until {
                self.end_watch(ended);
            }
        }
        if slow_ns != NO_LIMIT && took.as_nanos() >= u128::from(slow_ns) {
            self.slow_calls.fetch_add(1, Ordering::Relaxed);
            report(took, cost);
        }
        value
    }
}

/// A key as a report shows it: cut, and escaped.
pub(crate) fn shown_key(key: &[u8]) -> String {
    match key.get(..KEY_BYTES_MAX) {
        Some(start) if key.len() > KEY_BYTES_MAX => format!("{}...", start.escape_ascii()),
        _ => key.escape_ascii().to_string(),
    }
}

impl CallKind {
    /// All kinds, in the order of declaration.
    pub const ALL: [CallKind; 4] =
        [CallKind::Get, CallKind::MultiGet, CallKind::Write, CallKind::Scan];

    /// Returns `get`, `multi_get`, `write` or `scan`.
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Get => "get",
            CallKind::MultiGet => "multi_get",
            CallKind::Write => "write",
            CallKind::Scan => "scan",
        }
    }
}

/// Formats as [`CallKind::name`].
impl std::fmt::Display for CallKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each reading is a millisecond after the last.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn calls_of_the_limit_or_more_are_reported() {
        let (clock, watch) = (Ticking::default(), CallWatch::new(Duration::from_millis(1)));
        let mut reported = Vec::new();
        let mut run = |watch: &CallWatch| {
            let report = |took, cost| reported.push((took, cost));
            watch.run(CallKind::Get, &clock, || (), report);
        };
        run(&watch);
        watch.set_slow(Duration::from_millis(2));
        run(&watch);
        assert_eq!(watch.slow_calls(), 1);
        assert_eq!(reported, [(Duration::from_millis(1), OperationCost::default())]);
        assert_eq!(watch.slow(), Duration::from_millis(2));
    }

    fn is_on(watch: &CallWatch) -> bool {
        let state = watch.state.lock();
        assert_eq!(watch.is_on(), state.watching.is_some());
        let has_limit = watch.slow() != Duration::MAX;
        assert_eq!(
            state.measuring.is_some(),
            watch.is_on() && has_limit,
            "costs are of slow calls"
        );
        watch.is_on()
    }

    const A_SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_is_on_while_there_is_a_limit_or_an_observer() {
        let watch = CallWatch::new(Duration::MAX);
        assert_eq!((is_on(&watch), watch.slow()), (false, Duration::MAX));
        watch.set_slow(A_SECOND);
        assert!(is_on(&watch));
        watch.watch(Duration::ZERO, A_SECOND);
        watch.set_slow(Duration::MAX);
        assert!(is_on(&watch), "it is observed");
        watch.end_watch(A_SECOND);
        assert!(is_on(&watch), "not for long enough");
        watch.end_watch(A_SECOND + Duration::from_nanos(1));
        assert!(!is_on(&watch));
    }

    #[test]
    fn of_two_observers_the_one_that_asked_for_longer_counts() {
        let watch = CallWatch::new(Duration::MAX);
        watch.watch(Duration::ZERO, 5 * A_SECOND);
        watch.watch(A_SECOND, A_SECOND);
        watch.end_watch(5 * A_SECOND);
        assert!(is_on(&watch));
        watch.end_watch(6 * A_SECOND);
        assert!(!is_on(&watch));
    }

    #[test]
    fn nothing_turns_it_on_after_the_close() {
        let watch = CallWatch::new(A_SECOND);
        assert!(is_on(&watch));
        watch.close();
        assert!(!is_on(&watch));
        // Calls that another thread was just at.
        watch.watch(Duration::ZERO, A_SECOND);
        watch.set_slow(2 * A_SECOND);
        assert!(!is_on(&watch));
    }

    #[test]
    fn an_observer_gets_counts_and_times_until_it_asks_no_more() {
        let (clock, watch) = (Ticking::default(), CallWatch::new(Duration::MAX));
        let run = |kind| watch.run(kind, &clock, || (), |_, _| panic!("none is slow"));
        assert_eq!(watch.seen()[0].count, 0);
        watch.watch(Duration::ZERO, 10 * A_SECOND);
        (0..5).for_each(|_| run(CallKind::Get));
        run(CallKind::Scan);
        let seen = watch.seen();
        assert_eq!(seen.iter().map(|it| it.count).collect::<Vec<_>>(), [5, 0, 0, 1]);
        let [get, _, _, scan] = &seen[..] else { panic!() };
        assert_eq!((get.times.count(), scan.times.count()), (5, 1), "few calls are all timed");
        let median = get.times.quantile(0.5).unwrap();
        assert!(median >= Duration::from_millis(1) && median < Duration::from_micros(1_125));
        // Until 10 s, and each reading of the clock is a millisecond.
        clock.0.store(10_000, Ordering::Relaxed);
        run(CallKind::Write);
        assert!(!is_on(&watch), "the call after the end ends it");
    }

    /// Makes calls at `rate` a second, from where `clock` is, and returns how many of them were timed.
    fn timed(watch: &CallWatch, clock: &Paced, kind: CallKind, (calls, rate): (u64, u64)) -> u64 {
        let before = clock.readings.load(Ordering::Relaxed);
        for _ in 0..calls {
            watch.run(kind, clock, || (), |_, _| {});
            clock.now.fetch_add(1_000_000_000 / rate, Ordering::Relaxed);
        }
        (clock.readings.load(Ordering::Relaxed) - before) / 2
    }

    /// It goes on between calls only.
    #[derive(Default)]
    struct Paced {
        now: AtomicU64,
        readings: AtomicU64,
    }

    impl Clock for Paced {
        fn now(&self) -> Duration {
            self.readings.fetch_add(1, Ordering::Relaxed);
            Duration::from_nanos(self.now.load(Ordering::Relaxed))
        }
        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn of_many_calls_a_sample_is_timed_without_a_second_call_of_an_observer() {
        let (clock, watch) = (Paced::default(), CallWatch::new(Duration::MAX));
        watch.watch(Duration::ZERO, 100 * A_SECOND);
        let first = timed(&watch, &clock, CallKind::Get, (4_096, 1_000_000));
        assert_eq!(first, 4_096, "how many there are is not known yet");
        // One of 128 is enough.
        let next = timed(&watch, &clock, CallKind::Get, (1_000_000, 1_000_000));
        assert!((7_800..7_900).contains(&next), "{next}");
        let seen = &watch.seen()[0];
        assert_eq!(seen.count, 1_004_096);
        assert!(
            seen.times.count().abs_diff(seen.count) < 256,
            "the sample stands for all: {seen:?}"
        );
    }

    #[test]
    fn few_calls_after_many_are_all_timed_again() {
        let (clock, watch) = (Paced::default(), CallWatch::new(Duration::MAX));
        watch.watch(Duration::ZERO, 1_000 * A_SECOND);
        timed(&watch, &clock, CallKind::Get, (100_000, 1_000_000));
        timed(&watch, &clock, CallKind::Get, (512, 100));
        assert_eq!(timed(&watch, &clock, CallKind::Get, (100, 100)), 100);
    }

    #[test]
    fn many_calls_of_one_kind_hide_none_of_another() {
        let (clock, watch) = (Paced::default(), CallWatch::new(Duration::MAX));
        watch.watch(Duration::ZERO, 100 * A_SECOND);
        timed(&watch, &clock, CallKind::Get, (100_000, 1_000_000));
        assert_eq!(timed(&watch, &clock, CallKind::Write, (10, 10)), 10);
    }

    #[test]
    fn a_watch_does_not_know_of_the_calls_before_it() {
        let (clock, watch) = (Paced::default(), CallWatch::new(Duration::MAX));
        watch.watch(Duration::ZERO, A_SECOND);
        timed(&watch, &clock, CallKind::Get, (100_000, 1_000_000));
        watch.end_watch(60 * A_SECOND);
        clock.now.store(nanos(60 * A_SECOND), Ordering::Relaxed);
        watch.watch(60 * A_SECOND, 60 * A_SECOND);
        assert_eq!(timed(&watch, &clock, CallKind::Get, (10, 100)), 10);
    }

    #[test]
    fn keys_are_cut_before_they_are_escaped() {
        assert_eq!(shown_key(b"a\0\"b"), "a\\x00\\\"b");
        assert_eq!(shown_key(&[b'k'; 64]), "k".repeat(64));
        assert_eq!(shown_key(&[0; 65]), format!("{}...", "\\x00".repeat(64)));
        assert_eq!(shown_key(b""), "");
    }
}
