//! Numbers below a count in another order, each once, and back, without a table.

use esker_base::Rng;

/// `i` goes to `i * factor + offset` modulo the count. The factor has no divisor in common with the
/// count, so that each number is met once; and it is near the golden section of it, so that neighbours
/// come to be far apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    count: u64,
    factor: u64,
    inverse: u64,
    offset: u64,
}

impl Permutation {
    /// One of the numbers below `count`, which must not be zero.
    pub(super) fn new(count: u64, rng: &mut Rng) -> Self {
        let golden = (count as f64 * 0.618_033_988_749_895) as u64;
        let start = golden + rng.below(count.isqrt() + 1);
        let (factor, inverse) = (0..)
            .find_map(|more| {
                let factor = ((start + more) % count).max(1);
                Some((factor, inverse(factor, count)?))
            })
            .expect("one has no divisor in common with anything");
        Permutation { count, factor, inverse, offset: rng.below(count) }
    }

    /// Where `number` goes.
    #[inline]
    pub(super) fn of(&self, number: u64) -> u64 {
        let moved = u128::from(number) * u128::from(self.factor) + u128::from(self.offset);
        (moved % u128::from(self.count)) as u64
    }

    /// What goes to `number`.
    #[inline]
    pub(super) fn back(&self, number: u64) -> u64 {
        let moved = u128::from(number + (self.count - self.offset)) * u128::from(self.inverse);
        (moved % u128::from(self.count)) as u64
    }
}

/// The inverse of `factor` modulo `count`, if there is one: Euclid's algorithm.
fn inverse(factor: u64, count: u64) -> Option<u64> {
    let (mut rest, mut next) = (i128::from(count), i128::from(factor % count.max(1)));
    let (mut of_rest, mut of_next) = (0i128, 1i128);
    while next != 0 {
        let quotient = rest / next;
        (rest, next) = (next, rest - quotient * next);
        (of_rest, of_next) = (of_next, of_rest - quotient * of_next);
    }
    (rest == 1).then(|| of_rest.rem_euclid(i128::from(count)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_met_once_and_found_again() {
        for count in [1, 2, 3, 10, 97, 1_000, 4_096] {
            let permutation = Permutation::new(count, &mut Rng::new(count));
            let mut met: Vec<_> = (0..count).map(|number| permutation.of(number)).collect();
            assert!((0..count).all(|number| permutation.back(met[number as usize]) == number));
            met.sort_unstable();
            assert!(met.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn neighbours_come_to_lie_apart() {
        let permutation = Permutation::new(1_000_000, &mut Rng::new(1));
        let near = (1..1_000_000)
            .filter(|&at| permutation.of(at).abs_diff(permutation.of(at - 1)) < 1_000)
            .count();
        assert_eq!(near, 0);
    }
}
