//! New keys more often than old ones, falling off exponentially.

use super::Distribution;
use esker_base::Rng;

/// The exponential distribution of a key's age, counted back from the newest key, `count - 1`. It is
/// truncated at the oldest key there is.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    gamma: f64,
}

impl Exponential {
    /// With `percentile` percent of the draws among the newest `range` keys. The percentile must be
    /// in (0, 100) and the range positive.
    pub fn new(percentile: f64, range: f64) -> Self {
        assert!(percentile > 0.0 && percentile < 100.0, "a percentile of {percentile}");
        assert!(range > 0.0 && range.is_finite(), "a range of {range} keys");
        Exponential { gamma: -(1.0 - percentile / 100.0).ln() / range }
    }
}

impl Distribution for Exponential {
    #[inline]
    fn next(&mut self, rng: &mut Rng, count: u64) -> u64 {
        // The inverse of the distribution function, restricted to ages below the count. That is
        // what drawing again until the age is small enough would give, without the loop.
        let whole = -(-self.gamma * count as f64).exp_m1();
        let age = -(-rng.unit() * whole).ln_1p() / self.gamma;
        count - 1 - (age as u64).min(count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of draws among the newest `range` of `count` keys, at 95% in the newest 1,000.
    fn share(range: u64, count: u64) -> f64 {
        let mut rng = Rng::new(6);
        let mut ages = Exponential::new(95.0, 1_000.0);
        let hits = (0..100_000).filter(|_| count - 1 - ages.next(&mut rng, count) < range).count();
        hits as f64 / 100_000.0
    }

    #[test]
    fn ages_follow_the_distribution_function() {
        for (range, expected) in [(1_000, 0.95), (500, 0.7764), (2_000, 0.9975)] {
            assert!((share(range, 1 << 40) - expected).abs() < 0.005, "the newest {range}");
        }
    }

    #[test]
    fn few_keys_share_what_older_ones_would_have_had() {
        // 1 - 0.05^(1/2) of an untruncated 1 - 0.05 fall to the newest half.
        assert!((share(500, 1_000) - 0.7764 / 0.95).abs() < 0.005);
        assert_eq!(share(3, 3), 1.0);
    }
}
