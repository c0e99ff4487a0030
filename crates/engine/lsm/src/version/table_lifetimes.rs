//! Predicts table lifetimes from those of the same keyspace and level.
//!
//! Time is measured in bytes written to tables, by flush and compaction. A table's lifetime is thus
//! what the device has to write until the table's space is free again, and tables of a rarely
//! written keyspace live long. A table counts for the level it was written to, even if it was moved
//! since: the storage placed its file then.
//!
//! The last deaths of each keyspace and level are recorded, and the birth of each table. The
//! expected lifetime of a new table is the median by the Kaplan-Meier estimator, over the time
//! since before the first of these deaths:
//!
//! ```text
//!              since                      now
//!   ──────■━━━━━┿━━━━━━━━━✕                │     died at this age; at risk from the age that it had then
//!               │    ■━━━━━━━━━━━━━━━━━━━━━┿━    alive: at risk up to the age that it has
//!   ■━━━━━━━━━━━┿━━━━━━━━━━━━━━━━━━━━━━━━━━┿━    alive and old: at risk at high ages only
//! ```
//!
//! At each age with deaths, the survival rate is that of the tables at risk at that age. Live
//! tables therefore count for the ages they had, and a keyspace whose tables rarely die is
//! recognized as cold. Tables that are never rewritten do not raise the estimate for new ones. If
//! fewer than half have died at every age, the result is a lower bound: half live longer than the
//! age of the oldest.

use esker_base::coding::{put_varint64, take_varint64};
use std::collections::{BTreeMap, VecDeque};

/// Groups of deaths that are kept of a keyspace's level.
const GROUPS: usize = 32;

/// Into at most so many the tables that went at one time are put: of like age.
const GROUPS_AT_ONCE: usize = 8;

/// Nothing is expected before so many tables were seen.
const SEEN_LEAST: u64 = 4;

/// When a table was written, and to which level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TableBirth {
    /// Bytes that the database had written to tables.
    pub at: u64,
    /// The level.
    pub level: u8,
}

/// The last deaths of a keyspace's tables of one level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LifetimeEstimator {
    /// Of what was before, deaths are forgotten.
    since: u64,
    /// The oldest first.
    deaths: VecDeque<DeathRecord>,
}

/// Tables that went at a time, and were about equally old.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DeathRecord {
    born: u64,
    at: u64,
    tables: u64,
}

/// The ages at which tables were seen.
struct AgeInterval {
    from: u64,
    to: u64,
    tables: u64,
}

impl LifetimeEstimator {
    /// Tables are gone now that were born then.
    pub fn note(&mut self, mut born: Vec<u64>, now: u64) {
        if self.since.max(self.last()) > now {
            // The clock went back. What was known counts from another beginning, and would stay the newest until the
            // clock is there again: this begins anew.
            *self = LifetimeEstimator { since: now, deaths: VecDeque::new() };
        }
        // Of what was born later than now the age is not known.
        born.retain(|born| *born <= now);
        born.sort_unstable();
        let most = born.len().div_ceil(GROUPS_AT_ONCE).max(1);
        for group in born.chunks(most) {
            let (born, tables) = (group[group.len() / 2], group.len() as u64);
            self.deaths.push_back(DeathRecord { born, at: now, tables });
        }
        // What went at one time is forgotten together: what was seen begins behind it.
        while self.deaths.len() > GROUPS {
            let first = self.deaths[0].at;
            match first < now {
                true => self.deaths.retain(|deaths| deaths.at > first),
                false => self.deaths.truncate(GROUPS),
            }
            self.since = first;
        }
    }

    /// How long half of those live that are written now, if that is known: `alive` says when each table was
    /// born that is alive.
    pub fn expected(&self, alive: impl Iterator<Item = u64>, now: u64) -> Option<u64> {
        let seen = |born: u64, until: u64, tables: u64| AgeInterval {
            from: self.since.saturating_sub(born),
            to: until.saturating_sub(born),
            tables,
        };
        let dead = self.deaths.iter().map(|deaths| seen(deaths.born, deaths.at, deaths.tables));
        let all: Vec<AgeInterval> = dead.chain(alive.map(|born| seen(born, now, 1))).collect();
        if all.iter().map(|seen| seen.tables).sum::<u64>() < SEEN_LEAST {
            return None;
        }
        let mut died: BTreeMap<u64, u64> = BTreeMap::new();
        for deaths in &self.deaths {
            *died.entry(deaths.life()).or_default() += deaths.tables;
        }
        let mut left = 1.0;
        for (life, died) in died {
            let at_risk = all.iter().filter(|seen| (seen.from..=seen.to).contains(&life));
            let at_risk: u64 = at_risk.map(|seen| seen.tables).sum();
            left *= 1.0 - died as f64 / at_risk as f64;
            if left <= 0.5 {
                return Some(life);
            }
        }
        all.iter().map(|seen| seen.to).max()
    }

    /// When the last deaths were.
    fn last(&self) -> u64 {
        self.deaths.back().map_or(0, |deaths| deaths.at)
    }

    /// Whether nothing was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.deaths.is_empty()
    }

    /// As bytes: since when deaths are known, how many groups of them there are, and of each when it was, how long
    /// they had lived and how many they were.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.since);
        put_varint64(out, self.deaths.len() as u64);
        for deaths in &self.deaths {
            put_varint64(out, deaths.at);
            put_varint64(out, deaths.life());
            put_varint64(out, deaths.tables);
        }
    }

    /// Reads what [`LifetimeEstimator::encode`] wrote.
    pub(crate) fn decode(input: &mut &[u8]) -> Option<LifetimeEstimator> {
        let (since, groups) = (take_varint64(input)?, take_varint64(input)?);
        let mut deaths = VecDeque::new();
        for _ in 0..groups {
            let (at, life) = (take_varint64(input)?, take_varint64(input)?);
            deaths.push_back(DeathRecord {
                born: at.checked_sub(life)?,
                at,
                tables: take_varint64(input)?,
            });
        }
        Some(LifetimeEstimator { since, deaths })
    }
}

impl DeathRecord {
    fn life(&self) -> u64 {
        self.at - self.born
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    /// A level of which a table is born at each step and lives for as long as `life` says.
    #[derive(Default)]
    struct Level {
        lives: LifetimeEstimator,
        /// When it was born, and when it goes.
        alive: Vec<(u64, u64)>,
        now: u64,
    }

    impl Level {
        fn steps(&mut self, steps: u64, mut life: impl FnMut(u64) -> u64) {
            for _ in 0..steps {
                self.now += 1;
                self.alive.push((self.now, self.now.saturating_add(life(self.now))));
                self.die();
            }
        }

        /// Time passes, and nothing is born.
        fn wait(&mut self, steps: u64) {
            self.now += steps;
            self.die();
        }

        fn die(&mut self) {
            let gone = self.alive.extract_if(.., |(_, end)| *end <= self.now);
            let born: Vec<u64> = gone.map(|(born, _)| born).collect();
            self.lives.note(born, self.now);
        }

        fn expected(&self) -> Option<u64> {
            self.lives.expected(self.alive.iter().map(|(born, _)| *born), self.now)
        }

        #[track_caller]
        fn expects(&self, from: u64, to: u64) {
            let expected = self.expected().expect("it was learnt");
            assert!((from..=to).contains(&expected), "{expected}");
        }
    }

    #[test]
    fn nothing_is_expected_of_a_level_of_which_little_was_seen() {
        let mut level = Level::default();
        assert_eq!(level.expected(), None);
        level.steps(3, |_| 1);
        assert_eq!(level.expected(), None);
        level.steps(1, |_| 1);
        assert_eq!(level.expected(), Some(1));
    }

    #[test]
    fn what_lives_equally_long_is_expected_to() {
        let mut level = Level::default();
        level.steps(1_000, |_| 100);
        assert_eq!(level.expected(), Some(100));
    }

    #[test]
    fn half_live_longer_of_lives_that_differ() {
        let (mut level, mut rng) = (Level::default(), Rng::new(1));
        // Half of them live for 80 at most, by doublings.
        level.steps(5_000, |_| 5 << rng.below(9));
        level.expects(40, 160);
    }

    #[test]
    fn the_few_that_live_long_do_not_count_for_more_than_they_are() {
        let mut level = Level::default();
        level.steps(2_000, |now| if now % 10 == 0 { 1_000 } else { 10 });
        assert_eq!(level.expected(), Some(10));
    }

    #[test]
    fn tables_that_are_never_written_again_do_not_make_new_ones_look_old() {
        let mut level = Level::default();
        level.steps(1_000, |_| u64::MAX);
        level.steps(1_000, |_| 20);
        assert_eq!(level.expected(), Some(20));
    }

    #[test]
    fn tables_that_do_not_die_are_known_to_live_as_long_as_they_have() {
        let mut level = Level::default();
        level.steps(50, |now| if now % 10 == 0 { 3 } else { u64::MAX });
        level.wait(10_000);
        level.expects(10_000, 10_050);
    }

    #[test]
    fn a_level_that_comes_to_be_written_less_is_known_to_before_its_tables_die() {
        let mut level = Level::default();
        level.steps(1_000, |_| 50);
        level.expects(50, 50);
        level.steps(100, |_| 100_000);
        level.wait(2_000);
        level.expects(2_000, 2_100);
    }

    #[test]
    fn a_level_that_comes_to_be_written_more_is_known_to_soon() {
        let mut level = Level::default();
        level.steps(1_000, |_| 500);
        level.expects(500, 500);
        level.steps(100, |_| 5);
        level.expects(5, 5);
    }

    #[test]
    fn a_merge_of_many_tables_counts_them_all_and_takes_little_room() {
        let mut lives = LifetimeEstimator::default();
        lives.note((0..1_000).map(|n| if n < 300 { n } else { 10_000 }).collect(), 10_020);
        assert!(lives.deaths.len() <= GROUPS_AT_ONCE);
        assert_eq!(lives.expected(std::iter::empty(), 10_020), Some(20));
        (0..100).for_each(|now| lives.note((0..100).collect(), 20_000 + now));
        assert!(lives.deaths.len() <= GROUPS);
    }

    #[test]
    fn deaths_at_one_time_are_bounded_too() {
        let mut lives = LifetimeEstimator::default();
        (0..1_000).for_each(|_| lives.note(vec![4, 5], 15));
        assert!(lives.deaths.len() <= GROUPS);
        lives.expected([1, 2, 3].into_iter(), 15).expect("there is much");
    }

    #[test]
    fn a_clock_that_goes_back_is_learnt_from_anew() {
        let mut level = Level::default();
        level.wait(1_000_000);
        level.steps(1_000, |_| 500);
        level.expects(500, 500);
        level.now = 10;
        level.alive.clear();
        level.steps(200, |_| 20);
        level.expects(20, 20);
    }

    #[test]
    fn tables_from_before_a_clock_went_back_are_not_taken_for_short_lived() {
        let mut level = Level { now: 10, ..Level::default() };
        level.steps(30, |_| 20);
        level.lives.note((500..900).collect(), level.now);
        level.expects(20, 20);
    }

    #[test]
    fn tables_of_one_merge_count_for_as_many_as_they_are() {
        let mut lives = LifetimeEstimator::default();
        lives.note(vec![80; 1_000], 100);
        (0..20).for_each(|merge| lives.note(vec![100 + merge], 1_000 + merge));
        assert_eq!(lives.expected(std::iter::empty(), 1_020), Some(20));
    }

    #[test]
    fn what_was_learnt_is_read_as_it_was_written() {
        let mut level = Level::default();
        level.steps(300, |now| now % 7 * 30);
        level.lives.note(vec![17; 100], level.now);
        let mut bytes = Vec::new();
        level.lives.encode(&mut bytes);
        assert_eq!(LifetimeEstimator::decode(&mut &bytes[..]), Some(level.lives));
        assert!(
            (0..bytes.len()).all(|len| LifetimeEstimator::decode(&mut &bytes[..len]).is_none())
        );
    }

    #[test]
    fn a_life_from_before_the_beginning_is_refused() {
        assert_eq!(LifetimeEstimator::decode(&mut &[0, 1, 5, 6, 1][..]), None);
        assert!(LifetimeEstimator::decode(&mut &[0, 1, 6, 5, 1][..]).is_some());
    }
}
