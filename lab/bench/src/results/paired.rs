//! One engine compared with another, round by round, and how sure the ratio is.

use super::Results;
use std::collections::BTreeMap;

/// The ratio of two engines in a metric, over the rounds that have both.
///
/// What slows the machine for a whole round falls on both, so the ratios of rounds differ less than the
/// figures do. Their logarithms are taken for draws from a normal distribution; the bounds are Student's,
/// each by itself: the true ratio is above `low` in 95 of 100 such runs, and below `high` in 95.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Paired {
    /// Rounds that have both.
    pub pairs: usize,
    /// The geometric mean of their ratios.
    pub ratio: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Paired {
    /// `engine` by `baseline`. `None` with fewer than two entries, which bound nothing.
    pub fn of(
        results: &Results,
        metric: &str,
        case: &str,
        engine: &str,
        baseline: &str,
    ) -> Option<Paired> {
        let of = |name: &str| -> BTreeMap<u32, f64> {
            let rows = results.rows.iter();
            let rows =
                rows.filter(|row| row.engine == name && row.case == case && row.metric == metric);
            rows.map(|row| (row.round, row.value)).collect()
        };
        let (own, other) = (of(engine), of(baseline));
        let logs: Vec<f64> = own
            .iter()
            .filter_map(|(round, value)| Some((value / other.get(round)?).ln()))
            .filter(|log| log.is_finite())
            .collect();
        if logs.len() < 2 {
            return None;
        }
        let pairs = logs.len();
        let mean = logs.iter().sum::<f64>() / pairs as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let error = (squares / (pairs - 1) as f64 / pairs as f64).sqrt();
        let margin = student_95(pairs - 1) * error;
        Some(Paired {
            pairs,
            ratio: mean.exp(),
            low: (mean - margin).exp(),
            high: (mean + margin).exp(),
        })
    }
}

/// The 95th percentile of Student's distribution: the exact values up to ten degrees of freedom, then the
/// normal's with the first two terms of its expansion (Abramowitz and Stegun, 26.7.5).
fn student_95(freedom: usize) -> f64 {
    const FEW: [f64; 10] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812];
    const NORMAL: f64 = 1.644_854;
    if let Some(exact) = FEW.get(freedom.wrapping_sub(1)) {
        return *exact;
    }
    let (n, x) = (freedom as f64, NORMAL);
    let first = (x.powi(3) + x) / (4.0 * n);
    let second = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / (96.0 * n * n);
    x + first + second
}

#[cfg(test)]
mod tests {
    use super::super::tests::{results, row};
    use super::*;

    fn paired(values: &[(f64, f64)]) -> Option<Paired> {
        let rows = values.iter().enumerate().flat_map(|(round, (own, other))| {
            [row("one", "a", round as u32, *own), row("two", "a", round as u32, *other)]
        });
        Paired::of(&results(rows.collect()), "throughput", "a", "one", "two")
    }

    #[test]
    fn students_distribution_is_that_of_the_tables() {
        for (freedom, expected) in [(1, 6.314), (10, 1.812), (20, 1.725), (39, 1.685), (120, 1.658)]
        {
            assert!((student_95(freedom) - expected).abs() < 0.001, "{freedom}");
        }
    }

    #[test]
    fn rounds_that_are_slow_for_both_widen_nothing() {
        let found = paired(&[(95.0, 100.0), (9.5, 10.0), (190.0, 200.0)]).unwrap();
        assert_eq!(found.pairs, 3);
        assert!((found.ratio - 0.95).abs() < 1e-9);
        assert!((found.low - 0.95).abs() < 1e-9 && (found.high - 0.95).abs() < 1e-9);
    }

    #[test]
    fn the_bounds_enclose_the_ratio_and_narrow_with_more_pairs() {
        let few = paired(&[(90.0, 100.0), (110.0, 100.0)]).unwrap();
        let noisy: Vec<_> = [(90.0, 100.0), (110.0, 100.0)].repeat(20);
        let many = paired(&noisy).unwrap();
        assert!(few.low < 0.6 && few.high > 1.6, "two pairs say little: {few:?}");
        assert!(many.low > 0.96 && many.high < 1.03, "{many:?}");
    }

    #[test]
    fn a_round_without_both_does_not_count() {
        let rows = vec![row("one", "a", 0, 1.0), row("one", "a", 1, 1.0), row("two", "a", 1, 2.0)];
        assert_eq!(Paired::of(&results(rows), "throughput", "a", "one", "two"), None);
    }
}
