//! The throughput of flushes and of compactions, as measured. Writers that must wait get a part of it.

use std::time::Duration;

/// How much a new measurement counts.
const WEIGHT: f64 = 0.3;

#[derive(Default)]
pub(super) struct DrainRates {
    flush: Throughput,
    level_0: Throughput,
    /// The same in bytes of tables.
    level_0_tables: Throughput,
    /// What sorting the MemTable that is flushed next has taken.
    sorting: Duration,
}

impl DrainRates {
    /// What flushes take, in bytes a second: without limit before the first.
    pub(super) fn of_flush(&self) -> f64 {
        self.flush.rate().unwrap_or(f64::INFINITY)
    }

    /// What compactions take out of level 0, in bytes that were written a second: before the first, what flushes take.
    pub(super) fn of_level_0(&self) -> f64 {
        self.level_0.rate().unwrap_or(self.of_flush())
    }

    /// The same in bytes of tables.
    pub(super) fn of_level_0_tables(&self) -> f64 {
        self.level_0_tables.rate().unwrap_or(self.of_flush())
    }

    /// Records that it took so long to verify and sort an immutable MemTable.
    pub(super) fn sorted(&mut self, took: Duration) {
        self.sorting += took;
    }

    /// What was recorded of sorting since the last flush.
    #[cfg(test)]
    pub(super) fn sorting(&self) -> Duration {
        self.sorting
    }

    /// Records a flush of `bytes` of segments, after what was recorded of its sorting.
    pub(super) fn flushed(&mut self, bytes: u64, took: Duration) {
        let took = took + std::mem::take(&mut self.sorting);
        self.flush.measured(bytes, took);
    }

    /// Records that a compaction took `drained` out of level 0.
    pub(super) fn drained_level_0(&mut self, drained: Level0Drain, took: Duration) {
        self.level_0.measured(drained.written, took);
        self.level_0_tables.measured(drained.tables, took);
    }
}

/// What a compaction takes out of level 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Level0Drain {
    /// As writers count it: keys and values, in bytes. Separated values count as they are stored.
    pub(crate) written: u64,
    /// The bytes of its tables.
    pub(crate) tables: u64,
}

/// Averages of the bytes and of the seconds of jobs. Their quotient weighs each job by its time, so that short
/// jobs of one keyspace do not hide how long those of another take.
#[derive(Default)]
struct Throughput(Option<(f64, f64)>);

impl Throughput {
    fn measured(&mut self, bytes: u64, took: Duration) {
        let measured = (bytes as f64, took.as_secs_f64());
        if measured.0 > 0.0 && measured.1 > 0.0 {
            let (bytes, seconds) = self.0.unwrap_or(measured);
            let towards = |before: f64, now: f64| before + WEIGHT * (now - before);
            self.0 = Some((towards(bytes, measured.0), towards(seconds, measured.1)));
        }
    }

    /// In bytes a second.
    fn rate(&self) -> Option<f64> {
        self.0.map(|(bytes, seconds)| bytes / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_measurement_counts_whole_and_others_in_part() {
        let mut rates = DrainRates::default();
        rates.flushed(1_000, SECOND);
        assert_eq!(rates.of_flush(), 1_000.0);
        rates.flushed(2_000, SECOND);
        assert_eq!(rates.of_flush(), 1_300.0);
        rates.flushed(0, SECOND);
        rates.flushed(5_000, Duration::ZERO);
        assert_eq!(rates.of_flush(), 1_300.0, "these say nothing");
    }

    #[test]
    fn flushes_stand_for_compactions_that_were_never_measured() {
        let mut rates = DrainRates::default();
        assert_eq!(rates.of_level_0(), f64::INFINITY);
        rates.flushed(1_000, SECOND);
        assert_eq!(rates.of_level_0(), 1_000.0);
        rates.drained_level_0(Level0Drain { written: 400, tables: 300 }, SECOND);
        assert_eq!((rates.of_level_0(), rates.of_level_0_tables()), (400.0, 300.0));
        assert_eq!(rates.of_flush(), 1_000.0);
    }

    #[test]
    fn a_short_job_says_little_about_a_long_one() {
        let mut rates = DrainRates::default();
        rates.flushed(100_000_000, SECOND);
        rates.flushed(250_000_000, SECOND / 20);
        // The long one counts for 0.7 s, the short one for 0.015 s.
        assert!((200e6..205e6).contains(&rates.of_flush()), "{}", rates.of_flush());
    }

    #[test]
    fn what_sorting_takes_is_a_part_of_the_flush() {
        let rate = |sorting: &[u64]| {
            let mut rates = DrainRates::default();
            sorting.iter().for_each(|&took| rates.sorted(SECOND * took as u32));
            rates.flushed(1_200, SECOND);
            assert_eq!(rates.sorting(), Duration::ZERO, "the next one is sorted anew");
            rates.of_flush()
        };
        assert_eq!([rate(&[]), rate(&[1]), rate(&[1, 2])], [1_200.0, 600.0, 300.0]);
    }
}
