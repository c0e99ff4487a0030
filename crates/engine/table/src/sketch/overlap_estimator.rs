//! What stays of several tables' keys when they are laid over each other, judged by their samples.
//!
//! The samples are brought to one level, so that they hold the same one key in `2^level`. Of a key
//! in several tables only the newest version counts; or, where snapshots distinguish versions, the
//! newest of each stripe. As every table is sampled alike, *shares* of bytes are known better than
//! bytes: what randomness adds to a key's sample it adds above and below the line.

use super::{Sample, ThetaSample};

/// A table's sample and where its versions are.
#[derive(Clone, Copy, Debug)]
pub struct TableSample<'a> {
    /// The table's sample.
    pub sample: &'a ThetaSample,
    /// The snapshot stripe of its versions; higher is newer.
    pub stripe: usize,
    /// Whether a newer range tombstone deletes all of it.
    pub deleted: bool,
}

/// See the file's head. Sums over the samples, not yet scaled to all keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OverlapEstimator {
    level: u8,
    keys: u64,
    total_bytes: u64,
    live_bytes: u64,
    kept_bytes: u64,
    /// Keys, live or not.
    distinct: u64,
    /// Versions of them, one a layer at most, and the sum of the squares of their number by key.
    versions: u64,
    squares: u64,
}

/// A share found by sampling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ByteShare {
    /// Between 0 and 1.
    pub value: f64,
    /// Its standard error, as a part of `value`.
    pub error: f64,
}

/// What is known of a key from the layers so far. 0 versions: a place for a key.
#[derive(Clone, Copy, Default)]
struct SampledKey {
    hash: u64,
    versions: u32,
    /// That of the last layer with it.
    stripe: u32,
}

/// The sampled keys by hash: open addressing with linear probing, at most half full.
struct SampledKeys {
    places: Vec<SampledKey>,
    shift: u32,
}

impl SampledKeys {
    fn with_room_for(keys: usize) -> Self {
        let places = (2 * keys).next_power_of_two().max(2);
        let shift = u64::BITS - places.trailing_zeros();
        SampledKeys { places: vec![SampledKey::default(); places], shift }
    }

    /// The key of this hash, added without versions if it is not there.
    #[inline]
    fn entry(&mut self, hash: u64) -> &mut SampledKey {
        // Sampled hashes have some bits in common: Fibonacci hashing (Knuth, 6.4) spreads the others.
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let last = self.places.len() - 1;
        let mut at = (hash.wrapping_mul(GOLDEN) >> self.shift) as usize;
        while self.places[at].versions > 0 && self.places[at].hash != hash {
            at = (at + 1) & last;
        }
        self.places[at].hash = hash;
        &mut self.places[at]
    }
}

impl OverlapEstimator {
    /// Lays `layers`, newest first, over each other. Inspects about `samples_max` samples at most, each once.
    pub fn of(layers: &[TableSample<'_>], samples_max: usize) -> OverlapEstimator {
        let level = common_level(layers, samples_max);
        let samples = layers.iter().map(|layer| layer.sample.at_level(level));
        let mut keys = SampledKeys::with_room_for(samples.clone().map(<[_]>::len).sum());
        let mut overlay = OverlapEstimator { level, ..OverlapEstimator::default() };
        for (layer, samples) in layers.iter().zip(samples) {
            for sample in samples {
                overlay.add(keys.entry(sample.hash()), sample, layer);
            }
        }
        overlay
    }

    /// Counts the version of `key` that is sampled in `layer`. Newer ones were counted before.
    #[inline]
    fn add(&mut self, key: &mut SampledKey, sample: &Sample, layer: &TableSample<'_>) {
        let (is_newest, stripe) = (key.versions == 0, layer.stripe as u32);
        let bytes = if layer.deleted { 0 } else { sample.bytes() };
        self.total_bytes += sample.bytes();
        self.versions += 1;
        self.squares += 2 * u64::from(key.versions) + 1;
        if is_newest {
            self.distinct += 1;
            self.live_bytes += bytes;
            self.keys += u64::from(bytes > 0);
        }
        if is_newest || key.stripe != stripe {
            self.kept_bytes += bytes;
        }
        (key.versions, key.stripe) = (key.versions + 1, stripe);
    }

    /// The share of all versions' bytes that are the newest of their keys, deletes and what they
    /// delete not counted. 1 if nothing was sampled.
    pub fn live_share(&self) -> f64 {
        self.share(self.live_bytes)
    }

    /// The share that stays for readers at present and at snapshots. At least the live share.
    pub fn kept_share(&self) -> f64 {
        self.share(self.kept_bytes)
    }

    /// About how many keys are live.
    pub fn live_keys(&self) -> f64 {
        self.keys as f64 * f64::from(self.level).exp2()
    }

    /// The share of all keys, counted in each layer, that are distinct: what a counter of distinct keys
    /// can be compared with. `None` if nothing was sampled.
    ///
    /// Keys are sampled, each with all its versions, so the share is the inverse of a mean over keys; its
    /// error is that mean's, and none where every key is in the sample.
    pub fn distinct_share(&self) -> Option<ByteShare> {
        let (keys, versions) = (self.distinct as f64, self.versions as f64);
        let left_out = 1.0 - f64::from(self.level).exp2().recip();
        let spread = (self.squares as f64 * keys / (versions * versions) - 1.0).max(0.0);
        let error = (left_out * spread / keys).sqrt();
        (self.distinct > 0).then_some(ByteShare { value: keys / versions, error })
    }

    fn share(&self, bytes: u64) -> f64 {
        if self.total_bytes == 0 { 1.0 } else { bytes as f64 / self.total_bytes as f64 }
    }
}

/// The lowest level that all layers can be brought to, with about `samples_max` samples in all.
fn common_level(layers: &[TableSample<'_>], samples_max: usize) -> u8 {
    let mut level = layers.iter().map(|layer| layer.sample.level()).max().unwrap_or(0);
    let count =
        |level| layers.iter().map(|layer| layer.sample.at_level(level).len()).sum::<usize>();
    while level < 63 && count(level) > samples_max {
        level += 1;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{Rng, hash64};

    fn sample(keys: impl IntoIterator<Item = u64>, bytes: u32) -> ThetaSample {
        let mut sample = ThetaSample::new();
        keys.into_iter().for_each(|key| sample.insert(hash64(&key.to_le_bytes()), bytes));
        sample.seal(0);
        sample
    }

    fn layer(sample: &ThetaSample, stripe: usize) -> TableSample<'_> {
        TableSample { sample, stripe, deleted: false }
    }

    #[test]
    fn only_the_newest_version_of_a_key_is_live() {
        let (newer, older) = (sample(0..100, 30), sample(50..200, 10));
        let overlay = OverlapEstimator::of(&[layer(&newer, 0), layer(&older, 0)], usize::MAX);
        let (live, total) = (100.0 * 30.0 + 100.0 * 10.0, 100.0 * 30.0 + 150.0 * 10.0);
        assert_eq!(overlay.live_share(), live / total);
        assert_eq!(overlay.kept_share(), live / total);
        assert_eq!(overlay.live_keys(), 200.0);
    }

    #[test]
    fn a_delete_is_not_live_and_hides_what_is_below() {
        let (deletes, older) = (sample(0..100, 0), sample(0..150, 10));
        let overlay = OverlapEstimator::of(&[layer(&deletes, 0), layer(&older, 0)], usize::MAX);
        assert_eq!((overlay.live_share(), overlay.live_keys()), (1.0 / 3.0, 50.0));
    }

    #[test]
    fn each_stripe_keeps_its_newest_version() {
        let (a, b, c) = (sample(0..100, 10), sample(0..100, 10), sample(0..100, 10));
        let overlay = OverlapEstimator::of(&[layer(&a, 1), layer(&b, 0), layer(&c, 0)], usize::MAX);
        assert_eq!((overlay.live_share(), overlay.kept_share()), (1.0 / 3.0, 2.0 / 3.0));
    }

    #[test]
    fn a_deleted_layer_counts_as_nothing_but_bytes() {
        let (a, b) = (sample(0..100, 10), sample(100..200, 10));
        let deleted = TableSample { deleted: true, ..layer(&b, 0) };
        let overlay = OverlapEstimator::of(&[layer(&a, 0), deleted], usize::MAX);
        assert_eq!((overlay.live_share(), overlay.kept_share()), (0.5, 0.5));
    }

    #[test]
    fn without_samples_everything_is_thought_to_stay() {
        assert_eq!(OverlapEstimator::of(&[], 10).kept_share(), 1.0);
    }

    #[test]
    fn the_share_of_distinct_keys_errs_by_what_it_says() {
        let mut rng = Rng::new(8);
        let (rounds, mut squares) = (60, 0.0);
        for _ in 0..rounds {
            // Other keys each time, 50,000 and half of them twice.
            let from = rng.next_u64() >> 1;
            let (newer, older) = (sample(from..from + 25_000, 9), sample(from..from + 50_000, 9));
            let overlay = OverlapEstimator::of(&[layer(&newer, 0), layer(&older, 0)], 1500);
            let share = overlay.distinct_share().unwrap();
            squares += ((share.value * 1.5 - 1.0) / share.error).powi(2);
        }
        let in_errors = (squares / f64::from(rounds)).sqrt();
        // A standard deviation from 60 draws is known to a tenth.
        assert!((0.7..1.3).contains(&in_errors), "off by {in_errors:.2} standard errors");
    }

    #[test]
    fn where_every_key_is_sampled_the_share_of_distinct_ones_is_exact() {
        let (newer, older) = (sample(0..100, 0), sample(50..200, 10));
        let overlay = OverlapEstimator::of(&[layer(&newer, 0), layer(&older, 0)], usize::MAX);
        let exact = ByteShare { value: 200.0 / 250.0, error: 0.0 };
        assert_eq!(overlay.distinct_share(), Some(exact));
        assert_eq!(OverlapEstimator::of(&[], 10).distinct_share(), None);
    }

    #[test]
    fn shares_are_known_well_from_few_samples() {
        let mut rng = Rng::new(5);
        for _ in 0..20 {
            let (keys, repeated) = (40_000 + rng.below(200_000), rng.below(100) as f64 / 100.0);
            let repeats = (keys as f64 * repeated) as u64;
            let (newer, older) = (sample(0..repeats, 100), sample(0..keys, 100));
            let overlay = OverlapEstimator::of(&[layer(&newer, 0), layer(&older, 0)], 4000);
            let exact = keys as f64 / (keys + repeats) as f64;
            let found = overlay.live_share();
            // Three standard deviations of a share found in about 2,000 samples.
            assert!((found - exact).abs() < 3.0 * 0.5 / 2000f64.sqrt(), "{found}, not {exact}");
            assert!((overlay.live_keys() / keys as f64 - 1.0).abs() < 0.15);
        }
    }
}
