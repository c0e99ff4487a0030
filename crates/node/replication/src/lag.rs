//! For how long a follower is behind its primary.

use esker_base::Seqno;
use std::collections::VecDeque;
use std::time::Duration;

/// Marks are at least so far from each other.
const MARK_EVERY: Duration = Duration::from_millis(10);

/// There are no more marks. With as many, every second one is dropped, and further ones are twice as far from each
/// other, until the follower has all.
const MARKS_MAX: usize = 1024;

/// When which writes were seen first that the follower has not applied.
#[derive(Default)]
pub(crate) struct Lag {
    /// Ascending. The follower has applied no write of a mark.
    marks: VecDeque<(Seqno, Duration)>,
    /// How often they were made fewer.
    thinned: u32,
}

impl Lag {
    /// Notes that there are writes up to `last`, none of which beyond `applied` the follower has.
    pub(crate) fn see(&mut self, last: Seqno, applied: Seqno, now: Duration) {
        let every = MARK_EVERY * (1 << self.thinned);
        let is_due = |(_, at): &(_, Duration)| now >= *at + every;
        if last <= applied || !self.marks.back().is_none_or(is_due) {
            return;
        }
        if self.marks.len() == MARKS_MAX {
            self.thinned = (self.thinned + 1).min(20);
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.marks.push_back((last, now));
    }

    /// Notes that the follower has applied all writes up to `through`.
    pub(crate) fn apply(&mut self, through: Seqno) {
        let applied = self.marks.partition_point(|(last, _)| *last <= through);
        self.marks.drain(..applied);
        if self.marks.is_empty() {
            self.thinned = 0;
        }
    }

    /// How long it has not applied a write that was seen: at least so long it is behind.
    pub(crate) fn time(&self, now: Duration) -> Duration {
        self.marks.front().map_or(Duration::ZERO, |(_, at)| now.saturating_sub(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_is_the_age_of_the_oldest_write_that_is_not_applied() {
        let mut lag = Lag::default();
        assert_eq!(lag.time(5 * MS), Duration::ZERO);
        lag.see(10, 0, 100 * MS);
        lag.see(20, 0, 105 * MS);
        lag.see(30, 0, 110 * MS);
        assert_eq!(lag.time(200 * MS), 100 * MS);
        lag.apply(9);
        assert_eq!(lag.time(200 * MS), 100 * MS);
        lag.apply(10);
        assert_eq!(lag.time(200 * MS), 90 * MS, "what came soon after a mark has none");
        lag.apply(30);
        assert_eq!(lag.time(200 * MS), Duration::ZERO);
        lag.see(30, 30, 300 * MS);
        assert_eq!(lag.time(400 * MS), Duration::ZERO, "it has all");
    }

    #[test]
    fn its_marks_are_bounded_and_the_oldest_stays() {
        let mut lag = Lag::default();
        (1..100_000).for_each(|n| lag.see(n, 0, n as u32 * 10 * MS));
        assert!(lag.marks.len() <= MARKS_MAX);
        assert_eq!(lag.time(1_000_000 * MS), 999_990 * MS);
        lag.apply(50_000);
        let time = lag.time(1_000_000 * MS);
        assert!(time <= 500_000 * MS && time > 490_000 * MS, "{time:?}");
    }
}
