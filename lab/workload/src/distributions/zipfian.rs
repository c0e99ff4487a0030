//! Few keys often, many keys seldom: key `i` is drawn in proportion to 1 / (i + 1)^theta.

use super::{Distribution, zeta::Zeta};
use esker_base::Rng;

/// The exponent of YCSB's workloads.
pub const YCSB_THETA: f64 = 0.99;

/// The zipfian distribution with the hottest key first. A draw takes constant time, and the first
/// one after the count has changed about twice that.
#[derive(Clone, Debug)]
pub struct Zipfian {
    theta: f64,
    alpha: f64,
    half_to_theta: f64,
    zeta: Zeta,
    shape: Shape,
}

/// What follows from the count.
#[derive(Clone, Copy, Debug)]
struct Shape {
    count: u64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// With exponent `theta`, which must be in (0, 1).
    pub fn new(theta: f64) -> Self {
        assert!(theta > 0.0 && theta < 1.0, "the exponent is {theta}; it must be between 0 and 1");
        Zipfian {
            theta,
            alpha: 1.0 / (1.0 - theta),
            half_to_theta: 0.5f64.powf(theta),
            zeta: Zeta::new(theta),
            shape: Shape { count: 0, zeta: 0.0, eta: 0.0 },
        }
    }

    /// The probability of key `number` among `count`.
    pub fn probability(&self, number: u64, count: u64) -> f64 {
        ((number + 1) as f64).powf(-self.theta) / self.zeta.of(count)
    }

    /// (sum over the `count` keys of the root of their probability by `count`)^2: 1 if all were drawn
    /// equally often, and less the more they differ.
    pub fn skew(&self, count: u64) -> f64 {
        let roots = Zeta::new(self.theta / 2.0).of(count);
        roots * roots / self.zeta.of(count) / count as f64
    }

    #[inline]
    fn shape(&mut self, count: u64) -> Shape {
        if self.shape.count != count {
            self.shape = self.shape_of(count);
        }
        self.shape
    }

    #[cold]
    fn shape_of(&self, count: u64) -> Shape {
        let zeta = self.zeta.of(count);
        // Counts of one and two never get as far as to use eta: their keys are dealt with before.
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - self.theta))
            / (1.0 - self.zeta.of(2.min(count)) / zeta);
        Shape { count, zeta, eta }
    }
}

impl Distribution for Zipfian {
    fn next(&mut self, rng: &mut Rng, count: u64) -> u64 {
        let Shape { zeta, eta, .. } = self.shape(count);
        let uniform = rng.unit();
        let scaled = uniform * zeta;
        if scaled < 1.0 || count == 1 {
            return 0;
        }
        if scaled < 1.0 + self.half_to_theta || count == 2 {
            return 1;
        }
        let rank = count as f64 * (eta * uniform - eta + 1.0).powf(self.alpha);
        (rank as u64).min(count - 1)
    }
}

/// The zipfian distribution with its hot keys scattered over the key space, as in YCSB: a rank is
/// drawn among ten billion, hashed, and reduced to the count.
///
/// So the hot keys stay hot when the count grows; and the hottest has 3.8% of all draws however few
/// keys there are.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
}

/// The ranks that YCSB draws from.
const RANKS: u64 = 10_000_000_000;

impl ScrambledZipfian {
    /// With YCSB's exponent.
    pub fn new() -> Self {
        ScrambledZipfian { ranks: Zipfian::new(YCSB_THETA) }
    }
}

impl Default for ScrambledZipfian {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution for ScrambledZipfian {
    fn next(&mut self, rng: &mut Rng, count: u64) -> u64 {
        scatter(self.ranks.next(rng, RANKS)) % count
    }
}

/// FNV-1a over the eight bytes of `number`, lowest first, made non-negative as YCSB does: what it
/// scatters hot ranks with, and what it makes hashed keys of.
#[inline]
pub(crate) fn scatter(number: u64) -> u64 {
    let hash = number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const DRAWS: u64 = 400_000;

    fn counts(distribution: &mut dyn Distribution, count: u64) -> HashMap<u64, u64> {
        let mut rng = Rng::new(11);
        let mut counts = HashMap::new();
        for _ in 0..DRAWS {
            *counts.entry(distribution.next(&mut rng, count)).or_default() += 1;
        }
        counts
    }

    /// The largest distance between the drawn and the true distribution function.
    fn distance(zipfian: &mut Zipfian, count: u64) -> f64 {
        let counts = counts(zipfian, count);
        let (mut drawn, mut expected, mut distance) = (0.0, 0.0, 0.0f64);
        for number in 0..count {
            drawn += *counts.get(&number).unwrap_or(&0) as f64 / DRAWS as f64;
            expected += zipfian.probability(number, count);
            distance = distance.max((drawn - expected).abs());
        }
        distance
    }

    #[test]
    fn draws_follow_the_distribution() {
        // Gray's method is exact for the first two keys and an approximation after them: its
        // distribution function is at most 2% off, most at the third key.
        for (theta, count) in [(0.5, 1_000), (0.99, 1_000), (0.99, 20_000)] {
            let distance = distance(&mut Zipfian::new(theta), count);
            assert!(distance < 0.02, "{distance} off at exponent {theta} and {count} keys");
        }
    }

    #[test]
    fn the_two_hottest_keys_have_their_exact_share() {
        let mut zipfian = Zipfian::new(YCSB_THETA);
        let counts = counts(&mut zipfian, 10_000);
        for number in 0..2 {
            let share = counts[&number] as f64 / DRAWS as f64;
            let expected = zipfian.probability(number, 10_000);
            assert!((share / expected - 1.0).abs() < 0.02, "key {number}: {share}, {expected}");
        }
    }

    #[test]
    fn one_and_two_keys_work() {
        assert_eq!(counts(&mut Zipfian::new(YCSB_THETA), 1)[&0], DRAWS);
        let two = counts(&mut Zipfian::new(YCSB_THETA), 2);
        let share = two[&0] as f64 / DRAWS as f64;
        assert!((share - 1.0 / (1.0 + 0.5f64.powf(YCSB_THETA))).abs() < 0.005, "{share}");
    }

    #[test]
    fn a_grown_count_gives_the_draws_of_a_fresh_generator() {
        let mut grown = Zipfian::new(YCSB_THETA);
        grown.next(&mut Rng::new(0), 50);
        let mut fresh = Zipfian::new(YCSB_THETA);
        let (mut a, mut b) = (Rng::new(5), Rng::new(5));
        for _ in 0..1000 {
            assert_eq!(grown.next(&mut a, 5_000), fresh.next(&mut b, 5_000));
        }
    }

    #[test]
    fn scrambling_scatters_the_hot_keys_and_keeps_their_share() {
        let counts = counts(&mut ScrambledZipfian::new(), 1_000_000);
        let mut hottest: Vec<_> = counts.into_iter().map(|(key, hits)| (hits, key)).collect();
        hottest.sort_unstable_by(|a, b| b.cmp(a));
        let share = hottest[0].0 as f64 / DRAWS as f64;
        assert!((share - 1.0 / 26.469).abs() < 0.002, "{share}");
        assert_eq!(hottest[0].1, scatter(0) % 1_000_000);
        assert_eq!(hottest[1].1, scatter(1) % 1_000_000);
        let low_half = hottest[..100].iter().filter(|(_, key)| *key < 500_000).count();
        assert!((30..70).contains(&low_half), "{low_half} of the 100 hottest in the low half");
    }

    #[test]
    fn the_scatter_is_fnv() {
        // FNV-1a of eight zero bytes; its top bit is set, so YCSB takes the negative.
        assert_eq!(scatter(0), 0xa8c7_f832_281a_39c5u64.wrapping_neg());
    }
}
