//! Latencies, kept to three digits.

use hdrhistogram::Histogram;
use std::time::Duration;

/// The longest latency that is distinguished from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The digits that a percentile is good to: 0.1%.
const DIGITS: u8 = 3;

/// Points of a distribution between one half, one quarter, one eighth of the rest and the next.
/// Enough for a smooth curve: fewer than two hundred points for a million latencies.
const STEPS_A_HALF: u32 = 8;

/// Nanoseconds per microsecond, the unit that latencies are reported in.
const NS_PER_US: f64 = 1_000.0;

/// A set of latencies. One thread fills it, and sets are merged afterwards.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// The exact sum, so that the mean is exact too.
    sum_ns: u64,
}

impl Latencies {
    /// An empty set. All the memory it will ever need is allocated here.
    pub fn new() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are valid");
        Latencies { histogram, sum_ns: 0 }
    }

    /// Adds a latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        let ns = latency.as_nanos() as u64;
        self.sum_ns += ns;
        self.histogram.saturating_record(ns);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum_ns += other.sum_ns;
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.sum_ns = 0;
    }

    /// The cumulative distribution: a latency in microseconds, and the part of all that is at or
    /// below it. Both grow from point to point, and steps grow finer towards the longest latencies.
    pub fn distribution(&self) -> Vec<[f64; 2]> {
        let mut points: Vec<[f64; 2]> = Vec::new();
        if self.count() == 0 {
            return points;
        }
        for step in self.histogram.iter_quantiles(STEPS_A_HALF) {
            let latency_us = step.value_iterated_to() as f64 / NS_PER_US;
            let point = [latency_us, step.quantile()];
            match points.last_mut() {
                // Nothing lies between: one point stands for both.
                Some(last) if last[0] >= point[0] || last[1] >= point[1] => {
                    last[1] = last[1].max(point[1]);
                }
                _ => points.push(point),
            }
        }
        points
    }

    /// How many latencies there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean in microseconds; 0 if there are none.
    pub fn mean_us(&self) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        self.sum_ns as f64 / self.count() as f64 / NS_PER_US
    }

    /// The latency in microseconds that `percent` of all are at or below.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        self.histogram.value_at_percentile(percent) as f64 / NS_PER_US
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.histogram.max() as f64 / NS_PER_US
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(us: impl Iterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        us.for_each(|us| latencies.record(Duration::from_micros(us)));
        latencies
    }

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 0.001, "{actual} is not {expected}");
    }

    #[test]
    fn percentiles_are_good_to_three_digits() {
        let latencies = of(1..=10_000);
        assert_close(latencies.percentile_us(50.0), 5_000.0);
        assert_close(latencies.percentile_us(99.0), 9_900.0);
        assert_close(latencies.percentile_us(99.9), 9_990.0);
        assert_close(latencies.max_us(), 10_000.0);
        assert_eq!(latencies.mean_us(), 5_000.5);
    }

    #[test]
    fn merged_sets_are_one_set() {
        let mut merged = of(1..=500);
        merged.merge(&of(501..=1_000));
        let whole = of(1..=1_000);
        assert_eq!(merged.histogram, whole.histogram);
        assert_eq!((merged.count(), merged.mean_us()), (1_000, 500.5));
    }

    #[test]
    fn extremes_are_kept_within_the_bounds() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(100_000));
        assert_eq!(latencies.count(), 2);
        assert_close(latencies.max_us(), 3_600e6);
    }

    #[test]
    fn a_distribution_grows_to_one() {
        let points = of(1..=10_000).distribution();
        assert!(points.len() > 30 && points.len() < 200, "{}", points.len());
        assert!(points.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] < pair[1][1]));
        assert_eq!(points.last().unwrap()[1], 1.0);
        for [latency, part] in points {
            assert!((latency / 10_000.0 - part).abs() < 0.002, "{part} are below {latency}");
        }
        assert_eq!(of([5; 100].into_iter()).distribution().len(), 1);
    }

    #[test]
    fn what_was_cleared_is_as_new() {
        let mut latencies = of(1..=500);
        latencies.clear();
        latencies.merge(&of(7..=7));
        assert_eq!((latencies.count(), latencies.mean_us()), (1, 7.0));
    }

    #[test]
    fn an_empty_set_has_no_latency() {
        let empty = Latencies::new();
        assert_eq!(empty.distribution(), Vec::<[f64; 2]>::new());
        assert_eq!((empty.mean_us(), empty.percentile_us(99.0), empty.max_us()), (0.0, 0.0, 0.0));
    }
}
