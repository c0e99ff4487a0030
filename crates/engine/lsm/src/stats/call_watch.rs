//! Times the calls of users while there is a limit for slow calls.
//!
//! Without a limit, a call reads one flag, and no clock.

use super::events::CallKind;
use esker_base::operation_cost::{Measuring, measure_held};
use esker_base::{Clock, OperationCost};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// No call is as slow.
const NO_LIMIT: u64 = u64::MAX;

/// A key in a report has at most so many bytes before it is escaped.
const KEY_BYTES_MAX: usize = 64;

/// See the file's head.
pub(crate) struct CallWatch {
    /// Whether there is a limit.
    is_on: AtomicBool,
    /// The limit in nanoseconds.
    slow_ns: AtomicU64,
    slow_calls: AtomicU64,
    /// There while there is a limit, so that costs are counted.
    measuring: Mutex<Option<Measuring>>,
}

impl CallWatch {
    /// With this limit; [`Duration::MAX`] is none.
    pub(crate) fn new(slow: Duration) -> CallWatch {
        let watch = CallWatch {
            is_on: AtomicBool::new(false),
            slow_ns: AtomicU64::new(NO_LIMIT),
            slow_calls: AtomicU64::new(0),
            measuring: Mutex::default(),
        };
        watch.set_slow(slow);
        watch
    }

    /// Whether calls are timed.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Calls of this time or more are slow. [`Duration::MAX`] is no limit.
    pub(crate) fn set_slow(&self, slow: Duration) {
        let mut measuring = self.measuring.lock();
        self.slow_ns.store(slow.as_nanos().try_into().unwrap_or(NO_LIMIT), Ordering::Relaxed);
        let is_on = slow != Duration::MAX;
        *measuring = is_on.then(Measuring::start);
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

    /// Runs `call`, and gives `report` its time and cost if it is slow.
    pub(crate) fn run<T>(
        &self,
        clock: &dyn Clock,
        call: impl FnOnce() -> T,
        report: impl FnOnce(Duration, OperationCost),
    ) -> T {
        let started = clock.now();
        let (value, cost) = measure_held(call);
        let took = clock.now().saturating_sub(started);
        if took.as_nanos() >= u128::from(self.slow_ns.load(Ordering::Relaxed)) {
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

    /// Counts how often it is read, and each time is a millisecond after the last.
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
            watch.run(&clock, || (), |took, cost| reported.push((took, cost)));
        };
        run(&watch);
        watch.set_slow(Duration::from_millis(2));
        run(&watch);
        assert_eq!(watch.slow_calls(), 1);
        assert_eq!(reported, [(Duration::from_millis(1), OperationCost::default())]);
        assert_eq!(watch.slow(), Duration::from_millis(2));
    }

    #[test]
    fn it_is_on_while_there_is_a_limit() {
        let watch = CallWatch::new(Duration::MAX);
        assert_eq!((watch.is_on(), watch.slow()), (false, Duration::MAX));
        watch.set_slow(Duration::from_secs(1));
        assert!(watch.is_on() && watch.measuring.lock().is_some());
        watch.set_slow(Duration::MAX);
        assert!(!watch.is_on() && watch.measuring.lock().is_none());
    }

    #[test]
    fn keys_are_cut_before_they_are_escaped() {
        assert_eq!(shown_key(b"a\0\"b"), "a\\x00\\\"b");
        assert_eq!(shown_key(&[b'k'; 64]), "k".repeat(64));
        assert_eq!(shown_key(&[0; 65]), format!("{}...", "\\x00".repeat(64)));
        assert_eq!(shown_key(b""), "");
    }
}
