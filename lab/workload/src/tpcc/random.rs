//! The random distributions of the specification.

use super::Options;
use crate::stream;
use esker_base::Rng;

/// A number from `low` to `high`, both included.
#[inline]
pub(super) fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

/// True so many times of a hundred on average.
#[inline]
pub(super) fn percent(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// `NURand(A, x, y)` of clause 2.1.6: some numbers come far more often than others, and which ones they
/// are depends on the constant `c`.
#[inline]
pub(super) fn non_uniform(rng: &mut Rng, a: u64, c: u64, low: u64, high: u64) -> u64 {
    let drawn = rng.below(a + 1) | between(rng, low, high);
    (drawn + c) % (high - low + 1) + low
}

const LAST_NAME: u64 = 255;
const CUSTOMER: u64 = 1023;
const ITEM: u64 = 8191;

/// The constants `C` of one run, and what is drawn with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Constants {
    pub(super) last_name_loaded: u64,
    pub(super) last_name: u64,
    customer: u64,
    item: u64,
}

impl Constants {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = stream(seed, "NURand constants", 0);
        // Clause 2.1.6.1: how far the run's constant is from the load's, and how far it is not.
        let loaded = rng.below(LAST_NAME + 1 - 119);
        let distance = loop {
            match between(&mut rng, 65, 119) {
                96 | 112 => {}
                distance => break distance,
            }
        };
        Constants {
            last_name_loaded: loaded,
            last_name: loaded + distance,
            customer: rng.below(CUSTOMER + 1),
            item: rng.below(ITEM + 1),
        }
    }

    /// The number of a last name, as the load draws it.
    pub(super) fn loaded_last_name(&self, options: &Options, rng: &mut Rng) -> u64 {
        let most = u64::from(options.last_names()) - 1;
        non_uniform(rng, LAST_NAME, self.last_name_loaded, 0, most)
    }

    /// The number of a last name, as terminals draw it.
    pub(super) fn last_name(&self, options: &Options, rng: &mut Rng) -> u64 {
        non_uniform(rng, LAST_NAME, self.last_name, 0, u64::from(options.last_names()) - 1)
    }

    pub(super) fn customer(&self, options: &Options, rng: &mut Rng) -> u32 {
        non_uniform(rng, CUSTOMER, self.customer, 1, options.customers.into()) as u32
    }

    pub(super) fn item(&self, options: &Options, rng: &mut Rng) -> u32 {
        non_uniform(rng, ITEM, self.item, 1, options.items.into()) as u32
    }
}

/// Clause 4.3.2.3: three syllables, one for each digit.
pub(super) fn last_name(number: u64) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let digits = [number / 100 % 10, number / 10 % 10, number % 10];
    digits.map(|digit| SYLLABLES[digit as usize]).concat()
}

/// Clause 4.3.2.2: letters and digits.
pub(super) fn text(rng: &mut Rng, shortest: u64, longest: u64) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let length = between(rng, shortest, longest);
    (0..length).map(|_| char::from(LETTERS[rng.below(62) as usize])).collect()
}

/// Clause 4.3.2.2: digits.
pub(super) fn digits(rng: &mut Rng, length: u64) -> String {
    (0..length).map(|_| char::from(b'0' + rng.below(10) as u8)).collect()
}

/// Clause 4.3.2.7: a post code.
pub(super) fn zip(rng: &mut Rng) -> String {
    digits(rng, 4) + "11111"
}

/// Clause 4.3.3.1: data of an item or of a stock, a tenth of it with the word somewhere in it.
pub(super) fn original(rng: &mut Rng) -> String {
    let mut data = text(rng, 26, 50);
    if percent(rng, 10) {
        let at = rng.below(data.len() as u64 - 7) as usize;
        data.replace_range(at..at + 8, ORIGINAL);
    }
    data
}

/// What marks a brand that is not generic.
pub(super) const ORIGINAL: &str = "ORIGINAL";

/// Puts `items` in a random order: Fisher and Yates.
pub(super) fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_uniform_numbers_stay_in_range_and_reach_its_ends() {
        let mut rng = Rng::new(1);
        for (a, c, low, high) in [(255, 130, 0, 999), (1023, 7, 1, 3_000), (255, 200, 0, 9)] {
            let drawn: Vec<_> =
                (0..400_000).map(|_| non_uniform(&mut rng, a, c, low, high)).collect();
            assert_eq!(drawn.iter().min(), Some(&low));
            assert_eq!(drawn.iter().max(), Some(&high));
        }
    }

    #[test]
    fn non_uniform_numbers_are_as_uneven_as_their_formula() {
        // Before C is added, a number's chance is that its low bits are the union of two draws: of
        // NURand(255, 0, 255), all bits are set with (3/4)^8.
        let mut rng = Rng::new(2);
        let all = (0..200_000).filter(|_| non_uniform(&mut rng, 255, 0, 0, 255) == 255).count();
        let (share, expected) = (all as f64 / 200_000.0, 0.75f64.powi(8));
        assert!((share / expected - 1.0).abs() < 0.03, "{share}; {expected} was expected");
        // C moves them round.
        let moved = (0..200_000).filter(|_| non_uniform(&mut rng, 255, 10, 0, 255) == 9).count();
        assert!((moved as f64 / 200_000.0 / expected - 1.0).abs() < 0.03);
    }

    #[test]
    fn constants_are_as_far_apart_as_they_must_be() {
        for seed in 0..2_000 {
            let constants = Constants::new(seed);
            let distance = constants.last_name - constants.last_name_loaded;
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
            assert!(constants.last_name <= LAST_NAME);
            assert!(constants.customer <= CUSTOMER && constants.item <= ITEM);
        }
    }

    #[test]
    fn last_names_are_three_syllables() {
        // The specification's own example.
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut rng = Rng::new(1);
        let data: Vec<_> = (0..20_000).map(|_| original(&mut rng)).collect();
        assert!(data.iter().all(|data| (26..=50).contains(&data.len())));
        let marked = data.iter().filter(|data| data.contains(ORIGINAL)).count();
        assert!((1_800..2_200).contains(&marked), "{marked}");
    }

    #[test]
    fn a_shuffle_keeps_all_and_favours_none() {
        let mut rng = Rng::new(1);
        let mut at_first = [0; 5];
        for _ in 0..50_000 {
            let mut items = [0, 1, 2, 3, 4];
            shuffle(&mut items, &mut rng);
            at_first[items[0]] += 1;
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2, 3, 4]);
        }
        assert!(at_first.iter().all(|count| (9_500..10_500).contains(count)), "{at_first:?}");
    }
}
