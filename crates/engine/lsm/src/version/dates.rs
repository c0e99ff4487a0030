//! Dates of writes: which writes have been in tables for longer than some time.
//!
//! Each flush adds a mark: the calendar's time, and the last write that is in tables then. A write is as
//! old as the first mark at or after it. So it is never taken for older than it is.
//!
//! Marks are kept in the manifest. They are thinned out as they age: a mark goes if its neighbours are
//! closer together than an eighth of their age. So an age is known to an eighth, and some two hundred
//! marks cover a month of flushes a second apart.

use esker_base::Seqno;
use esker_base::coding::{put_varint64, take_varint64};
use std::time::Duration;

/// An age is known to one part in so many.
const PRECISION: u64 = 8;

/// A time, and the last write that was in tables then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The sequence number of the write.
    pub through: Seqno,
    /// The time, in seconds since 1970-01-01.
    pub at: u64,
}

/// The times at which writes were flushed, to one eighth of their age.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dates {
    /// Ascending in both.
    marks: Vec<Mark>,
}

impl Dates {
    /// Adds a mark.
    pub fn note(&mut self, mark: Mark) {
        // Marks of the future show that the calendar was set back: their writes count from now.
        self.marks.retain(|old| old.at < mark.at && old.through < mark.through);
        self.marks.push(mark);
        self.thin_out(mark.at);
    }

    fn thin_out(&mut self, now: u64) {
        let marks = std::mem::take(&mut self.marks);
        for (n, mark) in marks.iter().enumerate() {
            let is_needed = match (self.marks.last(), marks.get(n + 1)) {
                (Some(older), Some(newer)) => {
                    (newer.at - older.at) * PRECISION > now.saturating_sub(older.at)
                }
                _ => true,
            };
            self.marks.extend(is_needed.then_some(*mark));
        }
    }

    /// Returns the last write that has been in tables for about `age` at `now`, or 0.
    ///
    /// `now` is in seconds since 1970-01-01. The write may be up to an eighth younger than `age`.
    /// Every write of that age is at or before it.
    pub fn aged(&self, age: Duration, now: u64) -> Seqno {
        let least = age.as_secs() - age.as_secs() / PRECISION;
        let Some(until) = now.checked_sub(least) else { return 0 };
        let older = self.marks.partition_point(|mark| mark.at <= until);
        self.marks[..older].last().map_or(0, |mark| mark.through)
    }

    /// Whether all writes up to `seqno` have a date.
    pub fn reach(&self, seqno: Seqno) -> bool {
        self.marks.last().is_some_and(|mark| mark.through >= seqno)
    }

    /// Whether there are no marks.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Returns the marks, ascending.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Adds the marks of `later`.
    pub fn extend(&mut self, later: &Dates) {
        later.marks.iter().for_each(|mark| self.note(*mark));
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.marks.len() as u64);
        for mark in &self.marks {
            put_varint64(out, mark.through);
            put_varint64(out, mark.at);
        }
    }

    /// Takes what [`Dates::encode`] appended. `None` if it is something else.
    pub(crate) fn decode(input: &mut &[u8]) -> Option<Dates> {
        let mut marks: Vec<Mark> = Vec::new();
        for _ in 0..take_varint64(input)? {
            let mark = Mark { through: take_varint64(input)?, at: take_varint64(input)? };
            let ascends =
                marks.last().is_none_or(|last| last.at < mark.at && last.through < mark.through);
            marks.push(Some(mark).filter(|_| ascends)?);
        }
        Some(Dates { marks })
    }
}

impl From<Mark> for Dates {
    fn from(mark: Mark) -> Self {
        Dates { marks: vec![mark] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn dates(marks: impl IntoIterator<Item = (Seqno, u64)>) -> Dates {
        let mut dates = Dates::default();
        marks.into_iter().for_each(|(through, at)| dates.note(Mark { through, at }));
        dates
    }

    #[test]
    fn a_write_is_never_taken_for_older_than_it_is_and_its_age_is_known_to_an_eighth() {
        // A flush a second for a day, each of ten writes.
        let start = 1_700_000_000;
        let end = start + 86_400;
        let dates = dates((start..end).map(|at| ((at - start + 1) * 10, at)));
        assert!(dates.marks().len() < 200, "{}", dates.marks().len());
        for age in [1, 10, 60, 3_600, 40_000, 80_000] {
            let through = dates.aged(age as u32 * SECOND, end);
            let of_that_age = (end - age - start + 1) * 10;
            let younger = (end - (age - age / 8) - start + 1) * 10;
            assert!((of_that_age..=younger).contains(&through), "{age} s: {through}");
        }
        assert_eq!(dates.aged(100_000 * SECOND, end), 0);
        assert_eq!(dates.aged(Duration::MAX, end), 0);
    }

    #[test]
    fn writes_count_from_the_flush_after_them_however_long_nothing_was_flushed() {
        let dates = dates([(10, 1_000), (20, 50_000)]);
        let through = |at| dates.aged(800 * SECOND, at);
        assert_eq!([1_699, 1_700, 50_699, 50_700].map(through), [0, 10, 10, 20]);
        assert!(dates.reach(20) && !dates.reach(21) && !Dates::default().reach(1));
    }

    #[test]
    fn where_the_calendar_is_set_back_writes_count_from_then() {
        let dates = dates([(10, 1_000), (20, 9_000), (30, 2_000)]);
        let through = |at| dates.aged(800 * SECOND, at);
        assert_eq!([1_700, 2_699, 2_700].map(through), [10, 10, 30]);
        assert_eq!(through(100), 0, "before all of them");
    }

    #[test]
    fn marks_round_trip_and_those_out_of_order_are_refused() {
        let dates = dates((1..500).map(|n| (n * n, n * 60)));
        let encode = |dates: &Dates| {
            let mut bytes = Vec::new();
            dates.encode(&mut bytes);
            bytes
        };
        assert_eq!(Dates::decode(&mut &encode(&dates)[..]).as_ref(), Some(&dates));
        let mut again = Dates::default();
        again.extend(&dates);
        assert_eq!(again, dates, "nothing more is thinned out");
        for marks in [[(5, 7), (5, 8)], [(5, 7), (6, 7)]] {
            let marks = marks.map(|(through, at)| Mark { through, at }).to_vec();
            assert_eq!(Dates::decode(&mut &encode(&Dates { marks })[..]), None);
        }
    }
}
