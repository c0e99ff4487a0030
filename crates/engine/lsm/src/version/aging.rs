//! The age of entries, for keyspaces with a time to live.
//!
//! A keyspace with a time to live has a seqno up to which all of its entries have expired. It is in
//! the manifest and in the version, so what has expired stays so, and a reader compares seqnos and
//! needs no clock. A background job moves it on. For that, `Ages` remembers when writes became
//! visible.
//!
//! Compactions of such a keyspace keep seqnos. Entries that lost theirs before, at the deepest level,
//! count as the last write before the keyspace got its first time to live.

use super::TableMeta;
use super::dates::{Dates, Mark};
use esker_base::Seqno;

/// What of a keyspace has expired by its age.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expired {
    /// Entries below this seqno have expired.
    pub(crate) below: Seqno,
    /// But those have not that have lost their seqno.
    pub(crate) spares_zeroed: bool,
    /// Whether the keyspace has windows, or has or had a time to live, so that seqnos must be kept.
    pub(crate) keeps_seqnos: bool,
}

impl Expired {
    /// Whether an entry with this seqno has expired.
    #[inline]
    pub(crate) fn has(self, seqno: Seqno) -> bool {
        seqno < self.below && !(seqno == 0 && self.spares_zeroed)
    }
}

/// The time to live of a keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aging {
    /// The time to live, in milliseconds. `None`: nothing expires any more.
    pub millis: Option<u64>,
    /// The last write when the keyspace got its first time to live.
    pub zeroed_as: Seqno,
    /// Entries up to here have expired.
    pub expired_through: Seqno,
}

impl Aging {
    pub(crate) fn expired(&self) -> Expired {
        Expired {
            below: if self.expired_through > 0 { self.expired_through + 1 } else { 0 },
            spares_zeroed: self.expired_through < self.zeroed_as,
            keeps_seqnos: true,
        }
    }
}

impl Expired {
    /// About which share of the entries of a table has expired by its age, or by its own time at `now`,
    /// in milliseconds since 1970-01-01.
    pub(crate) fn share(self, meta: &TableMeta, now: u64) -> f64 {
        let by_time = meta.expiring.map_or(0.0, |expiring| {
            // The first has, at least.
            let some = u64::from(expiring.earliest <= now);
            expiring.expired(now).max(some) as f64 / meta.entries.max(1) as f64
        });
        by_time.max(self.aged_share(meta))
    }

    /// 0 for a table with something that no rewrite takes away.
    fn aged_share(self, meta: &TableMeta) -> f64 {
        let keeps_old = meta.deletes > 0 || meta.range_tombstones > 0;
        if !self.has(meta.min_seqno) || keeps_old {
            return 0.0;
        }
        let (old, all) = (self.below - meta.min_seqno, meta.max_seqno + 1 - meta.min_seqno);
        (old as f64 / all as f64).min(1.0)
    }
}

/// An age is known to one part in so many.
const PRECISION: u64 = 64;

/// When writes became visible, in milliseconds. A write is as old as the first mark at or after it.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    /// Ascending in both.
    marks: Vec<Mark>,
}

impl Ages {
    /// Takes the dates of a manifest.
    pub(crate) fn of(dates: &Dates) -> Ages {
        let later = |mark: &Mark| Mark { at: (mark.at + 1) * 1_000, ..*mark };
        Ages { marks: dates.marks().iter().map(later).collect() }
    }

    /// Notes that writes through `through` are visible at `now`.
    pub(crate) fn note(&mut self, through: Seqno, now: u64) {
        // A mark of the future shows that the calendar was set back: its writes count from now.
        self.marks.retain(|old| old.at < now);
        if self.marks.last().is_none_or(|last| last.through < through) {
            self.marks.push(Mark { through, at: now });
            self.thin_out(now);
        }
    }

    fn thin_out(&mut self, now: u64) {
        let marks = std::mem::take(&mut self.marks);
        for (n, mark) in marks.iter().enumerate() {
            let is_needed = match (self.marks.last(), marks.get(n + 1)) {
                (Some(older), Some(newer)) => {
                    (newer.at - older.at).saturating_mul(PRECISION) > now - older.at
                }
                _ => true,
            };
            self.marks.extend(is_needed.then_some(*mark));
        }
    }

    /// The last write that is at least `millis` old at `now`, or 0.
    pub(crate) fn aged(&self, millis: u64, now: u64) -> Seqno {
        let Some(until) = now.checked_sub(millis) else { return 0 };
        let older = self.marks.partition_point(|mark| mark.at <= until);
        self.marks[..older].last().map_or(0, |mark| mark.through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::TableId;

    #[test]
    fn an_entry_has_expired_at_or_below_the_mark_unless_its_seqno_was_lost_later() {
        let aging = |expired_through| Aging { millis: Some(1), zeroed_as: 50, expired_through };
        let has = |through, seqno| aging(through).expired().has(seqno);
        assert!(!has(0, 0) && !has(0, 1), "nothing has");
        assert!(has(7, 7) && !has(7, 8));
        assert!(!has(49, 0) && has(50, 0));
    }

    #[test]
    fn the_share_of_a_table_that_is_old_enough_is_that_of_its_seqnos() {
        let id = TableId { file: 1, offset: 0 };
        let table = TableMeta { min_seqno: 101, max_seqno: 200, ..TableMeta::new(id, "a", "z") };
        assert_eq!(Expired::default().share(&table, 0), 0.0);
        let (millis, zeroed_as) = (Some(1), 170);
        for (expired_through, expected) in [(100, 0.0), (150, 0.5), (199, 0.99), (300, 1.0)] {
            let expired = Aging { millis, zeroed_as, expired_through }.expired();
            assert_eq!(expired.share(&table, 0), expected, "{expired_through}");
            let with_delete = TableMeta { deletes: 1, ..table.clone() };
            assert_eq!(expired.share(&with_delete, 0), 0.0, "it may stay with its seqno");
            let zeroed = TableMeta { min_seqno: 0, ..table.clone() };
            assert_eq!(expired.share(&zeroed, 0) > 0.0, expired_through >= zeroed_as);
        }
    }

    #[test]
    fn no_write_is_taken_for_older_than_it_is_and_its_age_is_known_to_a_part() {
        let (mut ages, start, end) = (Ages::default(), 1_000_000, 1_000_000 + 86_400_000);
        for now in (start..=end).step_by(1_000) {
            ages.note((now - start) / 100 + 1, now);
        }
        assert!(ages.marks.len() < 1_200, "{}", ages.marks.len());
        for age in [2_000, 60_000, 3_600_000, 80_000_000] {
            let (exact, found) = ((end - age - start) / 100 + 1, ages.aged(age, end));
            let late = (exact - found) * 100;
            assert!(found <= exact && late <= 1_000 + age / 32, "{age}: {late} late");
        }
        assert_eq!(ages.aged(86_400_001, end), 0);
    }

    #[test]
    fn without_writes_there_are_no_new_marks_and_where_the_calendar_goes_back_writes_are_younger() {
        let mut ages = Ages::default();
        ages.note(10, 5_000);
        ages.note(10, 9_000);
        assert_eq!((ages.aged(1_000, 6_000), ages.aged(1_000, 5_999)), (10, 0));
        ages.note(20, 4_000);
        assert_eq!((ages.aged(1_000, 4_999), ages.aged(1_000, 5_000)), (0, 20));
    }
}
