//! New keys often, old keys seldom.

use super::{Distribution, Zipfian, zipfian::YCSB_THETA};
use esker_base::Rng;

/// The zipfian distribution counted back from the newest key, `count - 1`.
#[derive(Clone, Debug)]
pub struct Latest {
    ages: Zipfian,
}

impl Latest {
    /// With YCSB's exponent.
    pub fn new() -> Self {
        Latest { ages: Zipfian::new(YCSB_THETA) }
    }
}

impl Default for Latest {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution for Latest {
    fn next(&mut self, rng: &mut Rng, count: u64) -> u64 {
        count - 1 - self.ages.next(rng, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_key_is_the_hottest_as_keys_are_added() {
        let mut latest = Latest::new();
        let mut rng = Rng::new(2);
        let mut ages = [0u32; 3];
        for step in 0..30_000 {
            let count = 1_000 + step / 10;
            let age = count - 1 - latest.next(&mut rng, count);
            if let Some(hits) = ages.get_mut(age as usize) {
                *hits += 1;
            }
        }
        assert!(ages[0] > 2 * ages[1] * 9 / 10 && ages[1] > ages[2], "{ages:?}");
        assert!(ages[0] > 3_000, "the newest key has about an eighth of the draws: {ages:?}");
    }
}
