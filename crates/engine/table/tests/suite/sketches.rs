//! What the sketches of keys promise: a union is the same whichever way it is made, and counts are as
//! good as theory says, whatever the size of the set and however skewed the stream.

use esker_base::{Rng, hash64};
use esker_table::{Hll, ThetaSample};
use proptest::prelude::*;
use std::collections::HashSet;
use std::ops::Range;

fn hash_of(seed: u64, key: u64) -> u64 {
    hash64(&(seed << 32 | key).to_le_bytes())
}

/// Keys from a small universe, so that sets overlap; few or so many that samples' levels differ.
fn keys() -> impl Strategy<Value = Range<u64>> {
    let count = prop_oneof![0..600u64, 600..9_000u64, 30_000..50_000u64];
    (0..40_000u64, count).prop_map(|(from, count)| from..from + count)
}

fn counter(keys: Range<u64>) -> Hll {
    let mut hll = Hll::new();
    keys.for_each(|key| hll.insert(hash_of(0, key)));
    hll
}

/// A table's sample. `bytes` distinguishes the tables that a key is in.
fn sample(keys: Range<u64>, bytes: u32) -> ThetaSample {
    let mut sample = ThetaSample::new();
    keys.for_each(|key| sample.insert(hash_of(0, key), bytes));
    sample.seal(0);
    sample
}

fn both(a: &Hll, b: &Hll) -> Hll {
    let mut union = a.clone();
    union.merge(b);
    union
}

fn over(newer: &ThetaSample, older: &ThetaSample) -> ThetaSample {
    let mut union = newer.clone();
    union.merge(older);
    union
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn counters_merge_in_any_order(a in keys(), b in keys(), c in keys()) {
        let (a, b, c) = (counter(a), counter(b), counter(c));
        prop_assert_eq!(both(&both(&a, &b), &c), both(&a, &both(&b, &c)));
        prop_assert_eq!(both(&a, &b), both(&b, &a));
    }

    #[test]
    fn samples_merge_pair_by_pair_as_they_lie(a in keys(), b in keys(), c in keys()) {
        let (a, b, c) = (sample(a, 1), sample(b, 2), sample(c, 3));
        prop_assert_eq!(over(&over(&a, &b), &c), over(&a, &over(&b, &c)));
    }

    #[test]
    fn samples_of_tables_that_agree_merge_in_any_order(a in keys(), b in keys()) {
        let (a, b) = (sample(a, 1), sample(b, 1));
        prop_assert_eq!(over(&a, &b), over(&b, &a));
    }
}

const SEEDS: u64 = 100;
/// The root of the mean of 100 squares is known to 7%.
const TOLERANCE: f64 = 1.2;

/// `count` distinct keys.
fn distinct(seed: u64, count: u64) -> Vec<u64> {
    (0..count).map(|key| hash_of(seed, key)).collect()
}

/// `count` draws from `keys` keys, in which the n-th is drawn with a probability of about 1 / n.
fn skewed(seed: u64, keys: u64, count: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut draw = || (rng.unit() * (keys as f64).ln()).exp();
    (0..count).map(|_| hash_of(seed, draw() as u64)).collect()
}

/// The streams that are counted: of each size and skew one a seed.
fn streams() -> impl Iterator<Item = (String, Vec<Vec<u64>>)> {
    let of_seeds = |stream: &dyn Fn(u64) -> Vec<u64>| (1..=SEEDS).map(stream).collect();
    let sizes = [100, 2_000, 50_000];
    let even =
        sizes.map(|count| (format!("{count} keys"), of_seeds(&|seed| distinct(seed, count))));
    let skews = [(1_000, 20_000), (50_000, 40_000)];
    let skewed = skews.map(|(keys, count)| {
        (format!("{count} draws of {keys}"), of_seeds(&|seed| skewed(seed, keys, count)))
    });
    even.into_iter().chain(skewed)
}

/// The root of the mean square of what `error` gives for each stream and its exact count.
fn rms(streams: &[Vec<u64>], error: impl Fn(&[u64], f64) -> f64) -> f64 {
    let squares = streams.iter().map(|stream| {
        let exact = stream.iter().collect::<HashSet<_>>().len() as f64;
        error(stream, exact).powi(2)
    });
    (squares.sum::<f64>() / streams.len() as f64).sqrt()
}

#[test]
fn counts_err_as_little_as_theory_says() {
    for (name, streams) in streams() {
        let counted = rms(&streams, |stream, exact| {
            let mut hll = Hll::new();
            stream.iter().for_each(|&hash| hll.insert(hash));
            (hll.estimate() / exact - 1.0) / (1.04 / 4096f64.sqrt())
        });
        assert!(counted <= TOLERANCE, "counters, {name}: {counted:.2} of theory's error");
        let sampled = rms(&streams, |stream, exact| {
            let mut sample = ThetaSample::new();
            stream.iter().for_each(|&hash| sample.insert(hash, 1));
            sample.seal(0);
            // One in 2^level is kept: so many are a binomial's draw.
            let one_in = f64::from(sample.level()).exp2();
            (sample.distinct() - exact) / (exact * one_in).sqrt()
        });
        assert!(sampled <= TOLERANCE, "samples, {name}: {sampled:.2} of theory's error");
        println!("{name}: counters {counted:.2}, samples {sampled:.2} of theory's error");
    }
}

/// The bytes of a key's version: thousandfold different, and few large ones are as much as many small ones.
fn skewed_bytes(hash: u64, version: u64) -> u32 {
    (20.0 / Rng::new(hash ^ version).unit().max(1e-3)) as u32
}

/// The mean error of samples of one in so many: each version stands for as many others as are its size.
fn theory_of_bytes(bytes: impl Iterator<Item = u32>, level: u8) -> f64 {
    (f64::from(level).exp2() * bytes.map(|it| f64::from(it).powi(2)).sum::<f64>()).sqrt()
}

#[test]
fn sums_of_skewed_sizes_err_as_little_as_theory_says() {
    for (name, streams) in streams() {
        let of_table = |stream: &[u64], version| {
            let mut sample = ThetaSample::new();
            stream.iter().for_each(|&hash| sample.insert(hash, skewed_bytes(hash, version)));
            sample.seal(0);
            sample
        };
        let one = rms(&streams, |stream, _| {
            let sample = of_table(stream, 1);
            let keys: HashSet<u64> = stream.iter().copied().collect();
            let bytes = || keys.iter().map(|&key| skewed_bytes(key, 1));
            let exact: f64 = bytes().map(f64::from).sum();
            (sample.bytes() - exact) / theory_of_bytes(bytes(), sample.level())
        });
        // The first half is written again, with other sizes.
        let merged = rms(&streams, |stream, _| {
            let half = &stream[..stream.len() / 2];
            let sample = over(&of_table(half, 2), &of_table(stream, 1));
            let newer: HashSet<u64> = half.iter().copied().collect();
            let keys: HashSet<u64> = stream.iter().copied().collect();
            let version = |key| if newer.contains(key) { 2 } else { 1 };
            let bytes = || keys.iter().map(|key| skewed_bytes(*key, version(key)));
            let exact: f64 = bytes().map(f64::from).sum();
            (sample.bytes() - exact) / theory_of_bytes(bytes(), sample.level())
        });
        println!("{name}: {one:.2} of theory's error, merged {merged:.2}");
        assert!(one <= TOLERANCE && merged <= TOLERANCE, "{name}: {one:.2}, merged {merged:.2}");
    }
}
