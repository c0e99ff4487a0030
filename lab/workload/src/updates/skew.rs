//! Computes how much separating keys by access frequency can save: the skew of
//! [`LimitLine`](super::LimitLine).

use super::Heat;
use crate::distributions::{YCSB_THETA, Zipfian};

impl Heat {
    /// The skew of updates among `records` keys of one size: see the head of [`limit_line`](esker_base::limit_line).
    pub fn skew(self, records: u64) -> f64 {
        match self {
            Heat::Uniform => 1.0,
            Heat::Zipfian => Zipfian::new(YCSB_THETA).skew(records),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::updates::LimitLine;

    /// Twenty gigabytes over memtables of 128 MB, with so many runs.
    fn line(runs: u32, skew: f64) -> LimitLine {
        LimitLine { live_bytes: 20 << 30, memtable_bytes: 128 << 20, runs, skew }
    }

    #[test]
    fn the_limit_line_gives_the_numbers_it_was_published_with() {
        // Mean space; write amplification of 8 and of 16 runs, uniform and zipfian.
        let known = [
            (1.1, [(6.8, 2.9), (6.5, 2.6)]),
            (1.2, [(4.7, 2.7), (4.3, 2.3)]),
            (1.5, [(3.7, 2.9), (2.9, 2.2)]),
        ];
        let hot = Heat::Zipfian.skew(100_000_000);
        for (space, by_runs) in known {
            for (runs, (uniform, zipfian)) in [8, 16].into_iter().zip(by_runs) {
                for (skew, expected) in [(1.0, uniform), (hot, zipfian)] {
                    let found = line(runs, skew).write_amp(space).unwrap();
                    // To one decimal place, and the gigabyte was not said to be either kind.
                    assert!((found - expected).abs() < 0.06, "{space} {runs} {skew}: {found}");
                }
            }
        }
    }

    #[test]
    fn the_skew_of_a_zipfian_is_that_of_its_probabilities() {
        assert_eq!(Heat::Uniform.skew(1_000), 1.0);
        let zipfian = Zipfian::new(YCSB_THETA);
        let root = |key| (zipfian.probability(key, 10_000) / 10_000.0).sqrt();
        let by_hand = (0..10_000).map(root).sum::<f64>().powi(2);
        assert!((Heat::Zipfian.skew(10_000) - by_hand).abs() < 1e-9);
        assert!((Heat::Zipfian.skew(100_000_000) - 0.23).abs() < 0.005);
        assert!((Zipfian::new(0.8).skew(100_000_000) - 0.57).abs() < 0.005);
    }
}
