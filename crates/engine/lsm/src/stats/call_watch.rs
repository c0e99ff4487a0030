//! Times the calls of users while there is a reason: a limit for slow calls, or an observer.
//!
//! ```text
//! off ──(limit set)────────────────────► every call is timed, and its cost counted
//!  └───(a status is asked for)─► watched: every call is counted, a sample of them is timed
//!            ▲                      │
//!            └── WATCHED_FOR after the last status
//! ```
//!
//! While it is off, a call reads one flag, and no clock. The end of a watch is noticed by the next timed
//! call, or by the thread that answers requests.

use super::events::CallKind;
use super::latency::{LatencyHistogram, LatencyRecorder};
use super::table_reads::{STRIPES, own_stripe};
use esker_base::operation_cost::{Measuring, measure_held};
use esker_base::{Clock, OperationCost};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// No limit.
const NO_LIMIT: u64 = u64::MAX;

/// A key in a report has at most so many bytes before it is escaped.
const KEY_BYTES_MAX: usize = 64;

/// Calls are counted and timed for so long after a status was asked for.
const WATCHED_FOR: Duration = Duration::from_secs(10);

/// So many timed calls of a kind in a second are enough for quantiles.
const SAMPLES_A_SECOND: u64 = 10_000;
/// At least one of so many calls of a kind is timed.
const SAMPLED_MOST: u64 = 256;

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
    /// There while it is on, so that costs are counted and cursors ask.
    measuring: Option<Measuring>,
    /// When the last status was asked for, and how many calls of each kind there were by then.
    last: Option<(Duration, [u64; CallKind::ALL.len()])>,
    /// The database is closed, so nothing turns it on again.
    is_over: bool,
}

/// Counts of calls, and times of some of them.
struct CallTimers {
    counts: [Stripe; STRIPES],
    times: [LatencyRecorder; CallKind::ALL.len()],
    /// One of so many calls of a kind is timed: a power of two, less one. A kind of few calls is timed
    /// whole, however many there are of another.
    masks: [AtomicU64; CallKind::ALL.len()],
}

/// Two cache lines, because processors fetch them two at once.
#[derive(Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; CallKind::ALL.len()]);

impl CallTimers {
    fn new() -> Box<CallTimers> {
        Box::new(CallTimers {
            counts: Default::default(),
            times: Default::default(),
            masks: Default::default(),
        })
    }

    /// Counts a call. Returns whether it is to be timed.
    fn count(&self, kind: CallKind) -> bool {
        let count = self.counts[own_stripe()].0[kind as usize].fetch_add(1, Ordering::Relaxed);
        count & self.masks[kind as usize].load(Ordering::Relaxed) == 0
    }

    fn calls(&self, kind: CallKind) -> u64 {
        self.counts.iter().map(|stripe| stripe.0[kind as usize].load(Ordering::Relaxed)).sum()
    }
}

/// Calls of one kind, counted and timed while statuses are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CallTimes {
    /// The kind.
    pub call: CallKind,
    /// How many there were.
    pub count: u64,
    /// How long a sample of them took.
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
        let has_reason = is_watched || self.slow_ns.load(Ordering::Relaxed) != NO_LIMIT;
        let is_on = has_reason && !state.is_over;
        match (is_on, &state.measuring) {
            (true, None) => state.measuring = Some(Measuring::start()),
            (false, _) => state.measuring = None,
            (true, Some(_)) => {}
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

    /// Calls while statuses were asked for. Counts for [`WATCHED_FOR`] from `now` on.
    pub(crate) fn observe(&self, now: Duration) -> Vec<CallTimes> {
        let timers = self.timers.get_or_init(CallTimers::new);
        let mut state = self.state.lock();
        let times = CallKind::ALL.map(|call| {
            let times = timers.times[call as usize].histogram();
            CallTimes { call, count: timers.calls(call), times }
        });
        let counts = times.each_ref().map(|times| times.count);
        if let Some((before, counted)) = state.last.replace((now, counts)) {
            let nanos = now.saturating_sub(before).as_nanos().max(1);
            for (mask, (count, counted)) in timers.masks.iter().zip(counts.iter().zip(counted)) {
                let a_second = u128::from(count - counted) * 1_000_000_000 / nanos;
                let each = a_second / u128::from(SAMPLES_A_SECOND) + 1;
                let each = each.min(u128::from(SAMPLED_MOST)).next_power_of_two();
                mask.store(each as u64 - 1, Ordering::Relaxed);
            }
        }
        self.watched_until.store((now + WATCHED_FOR).as_nanos() as u64, Ordering::Relaxed);
        self.switch(&mut state);
        times.into()
    }

    /// Ends the watch if no status was asked for until `now`.
    #[cold]
    fn end_watch(&self, now: Duration) {
        let mut state = self.state.lock();
        if (now.as_nanos() as u64) > self.watched_until.load(Ordering::Relaxed) {
            self.watched_until.store(0, Ordering::Relaxed);
            state.last = None;
            // The next watch begins without knowing how many calls there are.
            for mask in self.timers.get().iter().flat_map(|timers| &timers.masks) {
                mask.store(0, Ordering::Relaxed);
            }
            self.switch(&mut state);
        }
    }

    /// Ends a watch that no call has ended. Called periodically: it makes the calls of all databases of
    /// the process count their cost.
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
        let timers = self.timers.get().filter(|timers| until > 0 && timers.count(kind));
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
        if let Some(timers) = timers {
            timers.times[kind as usize].record(took);
            if (ended.as_nanos() as u64) > until {
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
        assert_eq!(watch.is_on(), watch.state.lock().measuring.is_some());
        watch.is_on()
    }

    #[test]
    fn it_is_on_while_there_is_a_limit_or_an_observer() {
        let watch = CallWatch::new(Duration::MAX);
        assert_eq!((is_on(&watch), watch.slow()), (false, Duration::MAX));
        watch.set_slow(Duration::from_secs(1));
        assert!(is_on(&watch));
        watch.observe(Duration::ZERO);
        watch.set_slow(Duration::MAX);
        assert!(is_on(&watch), "it is observed");
        watch.end_watch(WATCHED_FOR);
        assert!(is_on(&watch), "not for long enough");
        watch.end_watch(WATCHED_FOR + Duration::from_nanos(1));
        assert!(!is_on(&watch));
    }

    #[test]
    fn nothing_turns_it_on_after_the_close() {
        let watch = CallWatch::new(Duration::from_secs(1));
        assert!(is_on(&watch));
        watch.close();
        assert!(!is_on(&watch));
        // Calls that another thread was just at.
        watch.observe(Duration::ZERO);
        watch.set_slow(Duration::from_secs(2));
        assert!(!is_on(&watch));
    }

    #[test]
    fn an_observer_gets_counts_and_times_until_it_asks_no_more() {
        let (clock, watch) = (Ticking::default(), CallWatch::new(Duration::MAX));
        let run = |kind| watch.run(kind, &clock, || (), |_, _| panic!("none is slow"));
        watch.observe(Duration::ZERO);
        (0..5).for_each(|_| run(CallKind::Get));
        run(CallKind::Scan);
        let seen = watch.observe(Duration::from_secs(1));
        assert_eq!(seen.iter().map(|it| it.count).collect::<Vec<_>>(), [5, 0, 0, 1]);
        let [get, _, _, scan] = &seen[..] else { panic!() };
        assert_eq!((get.times.count(), scan.times.count()), (5, 1), "few calls are all timed");
        let median = get.times.quantile(0.5).unwrap();
        assert!(median >= Duration::from_millis(1) && median < Duration::from_micros(1_125));
        // Until 11 s, and each reading of the clock is a millisecond.
        clock.0.store(11_000, Ordering::Relaxed);
        run(CallKind::Write);
        assert!(!is_on(&watch), "the call after the end ends it");
    }

    #[test]
    fn of_many_calls_a_sample_is_timed() {
        let (clock, watch) = (Ticking::default(), CallWatch::new(Duration::MAX));
        let run = || watch.run(CallKind::Get, &clock, || (), |_, _| {});
        watch.observe(Duration::ZERO);
        (0..4_000).for_each(|_| run());
        // 40,000 a second: one of eight is enough.
        watch.observe(Duration::from_millis(100));
        let before = clock.0.load(Ordering::Relaxed);
        (0..4_000).for_each(|_| run());
        assert_eq!(clock.0.load(Ordering::Relaxed) - before, 2 * 4_000 / 8);
        let seen = watch.observe(Duration::from_secs(1));
        assert_eq!((seen[0].count, seen[0].times.count()), (8_000, 4_500));
    }

    #[test]
    fn many_calls_of_one_kind_hide_none_of_another() {
        let (clock, watch) = (Ticking::default(), CallWatch::new(Duration::MAX));
        let run = |kind| watch.run(kind, &clock, || (), |_, _| {});
        let timed = |now, kind: CallKind| {
            let seen = &watch.observe(now)[kind as usize];
            (seen.count, seen.times.count())
        };
        watch.observe(Duration::ZERO);
        (0..4_000).for_each(|_| run(CallKind::Get));
        watch.observe(Duration::from_millis(100));
        (0..10).for_each(|_| run(CallKind::Write));
        assert_eq!(timed(Duration::from_millis(200), CallKind::Write), (10, 10));
        // The next watch does not know of the calls before it.
        clock.0.store(0, Ordering::Relaxed);
        (0..1_000).for_each(|_| run(CallKind::Get));
        let before = timed(Duration::from_millis(300), CallKind::Get).1;
        watch.end_watch(Duration::from_secs(60));
        watch.observe(Duration::from_secs(60));
        // All of these are within the watch.
        clock.0.store(60_000, Ordering::Relaxed);
        (0..10).for_each(|_| run(CallKind::Get));
        assert_eq!(timed(Duration::from_secs(61), CallKind::Get).1 - before, 10);
    }

    #[test]
    fn keys_are_cut_before_they_are_escaped() {
        assert_eq!(shown_key(b"a\0\"b"), "a\\x00\\\"b");
        assert_eq!(shown_key(&[b'k'; 64]), "k".repeat(64));
        assert_eq!(shown_key(&[0; 65]), format!("{}...", "\\x00".repeat(64)));
        assert_eq!(shown_key(b""), "");
    }
}
