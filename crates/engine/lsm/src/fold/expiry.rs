//! The time by which entries expire.
//!
//! A put with a time to live stores when it ends, by the calendar. Time never goes back or stops,
//! although the calendar may:
//!
//! * While the database is open, [`ExpiryClock::now`] goes on with the monotonic clock, from the latest
//!   time that the calendar has shown.
//! * Over restarts, the manifest has a mark, and an open starts no earlier. Before a reader reports
//!   that an entry has expired, the mark is at or after the time at which it did. A mark that is
//!   further ahead of the calendar than marks are written shows that the calendar was set back: then
//!   time goes on from the mark. Otherwise it waits for the calendar.
//!
//! The mark is written [`AHEAD`] of the present, so at most about once in that time, and only while
//! readers meet entries that expired since. After a crash, time may start as much too late, and entries
//! expire as much early; a close writes the present. Flush and compaction need no mark: what they drop does not come back.

use esker_base::{Clock, EXPIRY_BYTES, split_expiry};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How far ahead of the present a mark is, in milliseconds.
const AHEAD: u64 = 1_000;

/// Microseconds in a millisecond.
const MICROS: u64 = 1_000;

/// Which times have passed, in milliseconds since 1970-01-01.
pub(crate) trait Time {
    fn has_passed(&self, time: u64) -> bool;
}

/// A fixed time, for flush and compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct At(pub u64);

impl Time for At {
    #[inline]
    fn has_passed(&self, time: u64) -> bool {
        time <= self.0
    }
}

/// Returns the value of an expiring put, which stores `stored`, unless its time has passed.
#[inline]
pub(crate) fn living<'v>(stored: &'v [u8], time: &impl Time) -> Option<&'v [u8]> {
    // Decoders reject one without a time.
    let (expiry, value) = split_expiry(stored)?;
    (!time.has_passed(expiry)).then_some(value)
}

/// The part of a stored value that is not its time.
pub(crate) const BEHIND_EXPIRY: usize = EXPIRY_BYTES;

/// The time of an open database.
pub(crate) struct ExpiryClock {
    clock: Arc<dyn Clock>,
    /// The mark of the open.
    start: u64,
    /// How far it was ahead of the monotonic clock, in microseconds, if the calendar was set back before.
    mark_ahead: u64,
    /// How far the calendar has been ahead of it at most since then.
    ahead: AtomicU64,
    /// The mark in the manifest, or the one that could not be written there.
    mark: AtomicU64,
    /// The latest expiry, beyond the mark, that a reader met.
    met: AtomicU64,
    /// Whether the manifest has a mark, and so the database may have expiring entries.
    is_used: AtomicBool,
    /// Held while a mark is written.
    writing: Mutex<()>,
}

impl ExpiryClock {
    /// The time of a database whose manifest has `mark`.
    pub(crate) fn new(clock: Arc<dyn Clock>, mark: Option<u64>) -> Self {
        let start = mark.unwrap_or(0);
        let was_set_back = start > (micros(clock.calendar()) / MICROS).saturating_add(AHEAD);
        let mark_ahead = start.saturating_mul(MICROS).saturating_sub(micros(clock.now()));
        ExpiryClock {
            clock,
            start,
            mark_ahead: if was_set_back { mark_ahead } else { 0 },
            ahead: 0.into(),
            mark: start.into(),
            met: start.into(),
            is_used: mark.is_some().into(),
            writing: Mutex::default(),
        }
    }

    /// The time. It is never less than before.
    pub(crate) fn now(&self) -> u64 {
        self.at_least(self.mark_ahead).max(self.start)
    }

    /// The time for the age of writes, whose dates are those of the calendar. It never goes back while the
    /// database is open.
    pub(crate) fn calendar(&self) -> u64 {
        self.at_least(0)
    }

    /// The time of a calendar that was at least so far ahead of the monotonic clock.
    fn at_least(&self, ahead_least: u64) -> u64 {
        // The calendar first: later, it might show more than the monotonic clock did.
        let calendar = micros(self.clock.calendar());
        let monotonic = micros(self.clock.now());
        let ahead = calendar.saturating_sub(monotonic);
        let most = self.ahead.load(Ordering::Acquire);
        let most = match ahead > most {
            true => self.ahead.fetch_max(ahead, Ordering::AcqRel).max(ahead),
            false => most,
        };
        monotonic.saturating_add(most.max(ahead_least)) / MICROS
    }

    /// The same, or 0 in a database without expiring entries: then no clock is read.
    pub(crate) fn now_if_used(&self) -> u64 {
        if self.is_used() { self.now() } else { 0 }
    }

    /// Whether the database may have expiring entries.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// Whether a mark must be written before a reader reports what it met.
    #[inline]
    pub(crate) fn needs_mark(&self) -> bool {
        self.met.load(Ordering::Acquire) > self.mark.load(Ordering::Acquire)
    }

    /// Returns the mark for the end of the process: the present.
    pub(crate) fn end(&self) -> u64 {
        let now = self.now();
        self.mark.store(now, Ordering::Release);
        now
    }

    /// Writes a mark by `write`, if one is needed, or if there is none and `is_first`.
    #[cold]
    pub(crate) fn write_mark<E>(
        &self,
        is_first: bool,
        write: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let _writing = self.writing.lock();
        if !self.needs_mark() && (!is_first || self.is_used()) {
            return Ok(());
        }
        let ahead = if self.needs_mark() { AHEAD } else { 0 };
        let mark = self.now().saturating_add(ahead);
        let written = write(mark);
        if written.is_ok() {
            self.is_used.store(true, Ordering::Release);
        }
        // Also if it failed: not every reader has to try.
        self.mark.fetch_max(mark, Ordering::AcqRel);
        written
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Time for ExpiryClock {
    fn has_passed(&self, time: u64) -> bool {
        if time > self.now() {
            return false;
        }
        if time > self.mark.load(Ordering::Acquire) {
            self.met.fetch_max(time, Ordering::AcqRel);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A calendar that is set by hand, in milliseconds, and time that passes in addition.
    #[derive(Default)]
    struct Calendar {
        calendar: AtomicU64,
        passed: AtomicU64,
    }

    impl Clock for Calendar {
        fn now(&self) -> Duration {
            Duration::from_millis(self.passed.load(Ordering::Relaxed))
        }
        fn calendar(&self) -> Duration {
            let set = self.calendar.load(Ordering::Relaxed);
            Duration::from_millis(set + self.passed.load(Ordering::Relaxed))
        }
        fn sleep(&self, duration: Duration) {
            self.passed.fetch_add(micros(duration) / MICROS, Ordering::Relaxed);
        }
    }

    fn at(millis: u64) -> Arc<Calendar> {
        Arc::new(Calendar { calendar: millis.into(), passed: 0.into() })
    }

    fn stored(expiry: u64) -> Vec<u8> {
        [&expiry.to_le_bytes()[..], b"value"].concat()
    }

    #[test]
    fn an_entry_has_no_value_from_the_moment_it_expires() {
        assert_eq!(living(&stored(7), &At(6)), Some(&b"value"[..]));
        assert_eq!(living(&stored(7), &At(7)), None);
        let calendar = at(6);
        let time = ExpiryClock::new(calendar.clone(), Some(0));
        assert_eq!(living(&stored(7), &time), Some(&b"value"[..]));
        calendar.calendar.store(7, Ordering::Relaxed);
        assert_eq!(living(&stored(7), &time), None);
    }

    #[test]
    fn time_neither_goes_back_nor_stops_where_the_calendar_goes_back() {
        let calendar = at(500);
        let time = ExpiryClock::new(calendar.clone(), Some(200));
        assert_eq!(time.now(), 500);
        calendar.calendar.store(300, Ordering::Relaxed);
        assert_eq!(time.now(), 500);
        calendar.sleep(Duration::from_millis(40));
        assert_eq!(time.now(), 540);
        calendar.calendar.store(700, Ordering::Relaxed);
        assert_eq!(time.now(), 740, "but it goes forward with it");
        let time = ExpiryClock::new(calendar.clone(), Some(900));
        assert_eq!((time.now(), time.calendar()), (900, 740), "not over a restart");
        calendar.sleep(Duration::from_millis(40));
        assert_eq!((time.now(), time.calendar()), (900, 780), "a mark may be ahead");
        calendar.sleep(Duration::from_millis(140));
        assert_eq!((time.now(), time.calendar()), (920, 920));
        let time = ExpiryClock::new(calendar.clone(), Some(5_000));
        calendar.sleep(Duration::from_millis(40));
        assert_eq!((time.now(), time.calendar()), (5_040, 960), "but not so far");
        calendar.calendar.store(9_000, Ordering::Relaxed);
        assert_eq!((time.now(), time.calendar()), (9_260, 9_260));
    }

    #[test]
    fn a_mark_is_needed_once_a_reader_met_what_expired_after_the_last() {
        let time = ExpiryClock::new(at(10_000), None);
        let write = |is_first| {
            let mut written = None;
            let done: Result<(), ()> = time.write_mark(is_first, |mark| {
                written = Some(mark);
                Ok(())
            });
            done.map(|()| written).unwrap()
        };
        assert_eq!((write(false), time.is_used()), (None, false));
        assert_eq!((write(true), time.is_used()), (Some(10_000), true));
        assert_eq!(write(true), None, "there is one");
        assert!(time.has_passed(10_000) && !time.has_passed(10_001) && !time.needs_mark());
        let time = ExpiryClock::new(at(10_000), Some(8_000));
        assert!(time.has_passed(8_000) && !time.needs_mark());
        assert!(time.has_passed(8_001) && time.needs_mark());
        assert_eq!(time.write_mark(false, Err), Err(11_000));
        assert!(!time.needs_mark(), "the next reader does not try again");
        assert_eq!(time.end(), 10_000);
    }
}
