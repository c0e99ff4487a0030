//! The throughput of flushes and of compactions, as measured. Writers that must wait get a part of it.

use std::time::Duration;

/// How much a new measurement counts.
const WEIGHT: f64 = 0.3;

/// In bytes a second.
#[derive(Default)]
pub(super) struct DrainRates {
    flush: Option<f64>,
    level_0: Option<f64>,
    /// What sorting the MemTable that is flushed next has taken.
    sorting: Duration,
}

impl DrainRates {
    /// What flushes take: without limit before the first.
    pub(super) fn of_flush(&self) -> f64 {
        self.flush.unwrap_or(f64::INFINITY)
    }

    /// What compactions take out of level 0: before the first, what flushes take.
    pub(super) fn of_level_0(&self) -> f64 {
        self.level_0.unwrap_or(self.of_flush())
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
        learn(&mut self.flush, bytes, took);
    }

    /// Records that a compaction took `bytes` out of level 0.
    pub(super) fn drained_level_0(&mut self, bytes: u64, took: Duration) {
        learn(&mut self.level_0, bytes, took);
    }
}

fn learn(rate: &mut Option<f64>, bytes: u64, took: Duration) {
    let seconds = took.as_secs_f64();
    if seconds > 0.0 && bytes > 0 {
        let measured = bytes as f64 / seconds;
        let before = rate.unwrap_or(measured);
        *rate = Some(before + WEIGHT * (measured - before));
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
        rates.drained_level_0(400, SECOND);
        assert_eq!((rates.of_level_0(), rates.of_flush()), (400.0, 1_000.0));
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
