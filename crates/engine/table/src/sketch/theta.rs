//! A sample of distinct hashes that can be joined: a theta sketch whose threshold is a power of two.
//!
//! At *level* `l` the sample holds every hash seen whose top `l` bits are zero, so one in `2^l`. It
//! starts at level 0 and goes a level up whenever it holds more than 16,384. When the table ends, it
//! goes up until it takes at most seven eighths of a bit for each distinct key, if it holds more than 1,024. A small
//! table that will be merged
//! with large ones goes up toward their level, which its writer is given (`sample_level`): what it had
//! below would only take space. But it keeps 32 hashes, if it has so many, for it may be merged with other
//! small tables first, and of those that have none nothing can be said. A merge of many tables is
//! judged by all their samples together. The level follows from the set and the given level alone, not from
//! the order of insertion.
//!
//! Of a hash the top 40 bits are kept, its *cell* of a grid. Of a thousand million keys one in a thousand
//! shares its cell with another and is taken for it: far less than the error of sampling. So a
//! sample takes some 25 bits in a table of 300,000 keys with values of one length (`rice_coding`), and 8 bytes of memory.
//!
//! Samples of different levels are compared at the higher one. A union is not cut to 16,384 again:
//! a level of many tables is known better than one table.
//!
//! ```text
//! 0x80 | level u8 | samples as bits        as it is written
//! level u8 | count varint | (gap to the next hash varint, bytes varint)...     as it was: whole hashes
//! ```

use super::rice_coding;
use esker_base::coding::{take_u8, take_varint32, take_varint64};

/// Bits of a hash that are kept.
pub(super) const GRID_BITS: u32 = 40;

/// Bits of a sample that record its size.
const SIZE_BITS: u32 = 64 - GRID_BITS;
/// Sizes from here on are recorded in units of so many bytes.
const SIZES_EXACT: u32 = 1 << (SIZE_BITS - 1);
const SIZE_UNIT_BITS: u32 = 12;

/// A table's sample holds at most this many hashes.
const SAMPLES_MAX: usize = 16_384;

/// A table's sample that holds more than this takes at most so many bits for each eight of its keys.
const SAMPLES_FEW: usize = 1024;
const BITS_FOR_EIGHT: u64 = 7;

/// Is before a sample that is written as bits. Levels are less.
const AS_BITS: u8 = 0x80;

/// A sample that is brought to the level of others keeps at least so many, if it has them.
const SAMPLES_LEAST: usize = 32;

/// New hashes wait unsorted until there are this many.
const WAITING_MAX: usize = 4096;

/// A hash that was kept, with the bytes of the key's newest version, key and value; 0 if that is a delete.
///
/// The cell above, the size below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample(u64);

impl Sample {
    pub(super) fn new(hash: u64, bytes: u32) -> Sample {
        let size = if bytes < SIZES_EXACT { bytes } else { SIZES_EXACT | bytes >> SIZE_UNIT_BITS };
        Sample(hash >> SIZE_BITS << SIZE_BITS | u64::from(size))
    }

    /// `None` if there is no such cell, or no such size.
    pub(super) fn from_parts(cell: u64, size_code: u64) -> Option<Sample> {
        let is_possible = cell >> GRID_BITS == 0 && size_code >> SIZE_BITS == 0;
        is_possible.then_some(Sample(cell << SIZE_BITS | size_code))
    }

    /// The hash, as far as it is kept.
    #[inline]
    pub fn hash(self) -> u64 {
        self.0 >> SIZE_BITS << SIZE_BITS
    }

    pub(super) fn cell(self) -> u64 {
        self.0 >> SIZE_BITS
    }

    pub(super) fn size_code(self) -> u64 {
        self.0 & ((1 << SIZE_BITS) - 1)
    }

    /// Bytes of the version: from 8 MiB on to the last 4 KiB.
    #[inline]
    pub fn bytes(self) -> u64 {
        let code = self.size_code();
        let exact = u64::from(SIZES_EXACT);
        if code < exact { code } else { (code ^ exact) << SIZE_UNIT_BITS }
    }
}

/// A mergeable sample of distinct hashes.
#[derive(Clone, Default)]
pub struct ThetaSample {
    level: u8,
    /// In order of hash, without repeats.
    samples: Vec<Sample>,
    /// Inserted since, in no order, perhaps repeated.
    waiting: Vec<Sample>,
}

impl PartialEq for ThetaSample {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.settled(), other.settled());
        a.level == b.level && a.samples == b.samples
    }
}

impl std::fmt::Debug for ThetaSample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ThetaSample(level {}, about {:.0})", self.level, self.distinct())
    }
}

impl ThetaSample {
    /// A sample of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a key's hash. If it was noted before, or another of its cell, the larger `bytes` are.
    #[inline]
    pub fn insert(&mut self, hash: u64, bytes: u32) {
        if keeps(self.level, hash) {
            self.waiting.push(Sample::new(hash, bytes));
            if self.waiting.len() >= WAITING_MAX {
                self.settle();
                self.shrink();
            }
        }
    }

    /// Makes this the sample of both sets. Of a hash in both, this sample's bytes are, so merge
    /// the older into the newer.
    pub fn merge(&mut self, older: &ThetaSample) {
        self.settle();
        self.raise_to(older.level);
        let (level, known) = (self.level, &self.samples);
        let is_known = |cell| known.binary_search_by_key(&cell, |sample| sample.cell()).is_ok();
        let added = older.all().filter(|sample| keeps(level, sample.hash()));
        let added = added.filter(|sample| !is_known(sample.cell()));
        self.waiting.extend(added);
        self.settle();
    }

    /// About how many distinct hashes were seen.
    pub fn distinct(&self) -> f64 {
        self.scale() * self.settled().samples.len() as f64
    }

    /// About how many bytes the newest versions of all distinct keys take.
    pub fn bytes(&self) -> f64 {
        let sampled: u64 = self.settled().samples.iter().map(|sample| sample.bytes()).sum();
        self.scale() * sampled as f64
    }

    /// The sample of what both sets have, with this sample's bytes.
    pub fn intersection(&self, other: &ThetaSample) -> ThetaSample {
        let (mut common, other) = (self.settled().into_owned(), other.settled());
        common.raise_to(other.level);
        let mut others = other.samples.iter().map(|sample| sample.cell()).peekable();
        common.samples.retain(|sample| {
            while others.next_if(|&cell| cell < sample.cell()).is_some() {}
            others.peek() == Some(&sample.cell())
        });
        common
    }

    /// The samples of a sealed or decoded sample that one of level `level`, no lower than its own,
    /// would hold.
    pub(crate) fn at_level(&self, level: u8) -> &[Sample] {
        debug_assert!(self.waiting.is_empty() && level >= self.level, "a sealed sample");
        &self.samples[..self.samples.partition_point(|sample| keeps(level, sample.hash()))]
    }

    /// One hash in `2^level` is kept.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Bytes of memory that the sample takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Sample>() * (self.samples.capacity() + self.waiting.capacity())
    }

    /// The sample as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let settled = self.settled();
        let mut out = vec![AS_BITS | settled.level];
        rice_coding::put(&mut out, &settled.samples);
        out
    }

    /// Reads what [`ThetaSample::encode`] writes or once wrote. `None` if the bytes are something else.
    pub fn decode(mut input: &[u8]) -> Option<ThetaSample> {
        let level = take_u8(&mut input)?;
        if level & AS_BITS == 0 {
            return Self::decode_whole(level, input);
        }
        let level = Some(level ^ AS_BITS).filter(|&level| u32::from(level) <= GRID_BITS)?;
        let samples = rice_coding::take(input)?;
        let is_kept = samples.last().is_none_or(|sample| keeps(level, sample.hash()));
        is_kept.then_some(ThetaSample { level, samples, waiting: Vec::new() })
    }

    /// Reads a sample of whole hashes, as they were written once.
    fn decode_whole(level: u8, mut input: &[u8]) -> Option<ThetaSample> {
        let level = Some(level).filter(|&level| u32::from(level) <= GRID_BITS)?;
        let count = usize::try_from(take_varint64(&mut input)?).ok()?;
        if count > input.len() / 2 {
            return None;
        }
        let mut samples = Vec::with_capacity(count);
        let mut expected = Some(0u64);
        for _ in 0..count {
            let hash = expected?.checked_add(take_varint64(&mut input)?)?;
            let bytes = take_varint32(&mut input)?;
            if !keeps(level, hash) {
                return None;
            }
            samples.push(Sample::new(hash, bytes));
            expected = hash.checked_add(1);
        }
        settle(&mut samples);
        input.is_empty().then_some(ThetaSample { level, samples, waiting: Vec::new() })
    }

    /// Brings the sample of one table, never merged, to its final level: no lower than `wanted`, unless too
    /// few hashes would be left.
    pub fn seal(&mut self, wanted: u8) {
        self.settle();
        self.shrink();
        let most_bits = BITS_FOR_EIGHT * ((self.samples.len() as u64) << self.level) / 8;
        while self.samples.len() > SAMPLES_FEW && rice_coding::bits(&self.samples) > most_bits {
            self.raise_to(self.level + 1);
        }
        while self.level < wanted && self.at_level(self.level + 1).len() >= SAMPLES_LEAST {
            self.raise_to(self.level + 1);
        }
        self.samples.shrink_to_fit();
    }

    /// Brings the sample of one table to `level`, which a writer chose, if it is no lower than it must
    /// be.
    pub(crate) fn seal_at(&mut self, level: u8) {
        self.settle();
        self.shrink();
        self.raise_to(level);
    }

    /// How many hashes one sample stands for.
    fn scale(&self) -> f64 {
        f64::from(self.level).exp2()
    }

    /// All samples, in no order.
    fn all(&self) -> impl Iterator<Item = Sample> {
        self.samples.iter().chain(&self.waiting).copied()
    }

    /// This sample without anything waiting.
    fn settled(&self) -> std::borrow::Cow<'_, ThetaSample> {
        if self.waiting.is_empty() {
            return std::borrow::Cow::Borrowed(self);
        }
        let mut settled = self.clone();
        settled.settle();
        std::borrow::Cow::Owned(settled)
    }

    /// Sorts what waits into the samples.
    fn settle(&mut self) {
        if !self.waiting.is_empty() {
            self.samples.append(&mut self.waiting);
            settle(&mut self.samples);
        }
    }

    /// Goes up until at most [`SAMPLES_MAX`] are left.
    fn shrink(&mut self) {
        while self.samples.len() > SAMPLES_MAX {
            self.raise_to(self.level + 1);
        }
    }

    fn raise_to(&mut self, level: u8) {
        if level > self.level {
            self.level = level;
            self.samples
                .truncate(self.samples.partition_point(|sample| keeps(level, sample.hash())));
        }
    }
}

/// Puts samples in order, one for each cell. Of several keys in a cell the largest is: two readers that inspect the same
/// keys finds the same samples, in whichever order they come.
fn settle(samples: &mut Vec<Sample>) {
    // What is sorted already is made use of.
    samples.sort_by_key(|sample| sample.0);
    samples.dedup_by(|next, kept| {
        let is_same = next.cell() == kept.cell();
        if is_same {
            *kept = *next;
        }
        is_same
    });
}

/// Whether a sample of this level holds such a hash.
#[inline]
fn keeps(level: u8, hash: u64) -> bool {
    hash.leading_zeros() >= u32::from(level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;
    use esker_base::coding::put_varint64;

    /// The sample of hashes `from..to` of one fixed sequence, with 100 bytes each.
    fn of(from: u64, to: u64) -> ThetaSample {
        let mut sample = ThetaSample::new();
        (from..to).for_each(|n| sample.insert(Rng::new(n).next_u64(), 100));
        sample
    }

    fn assert_about(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found}, not about {expected}");
    }

    #[test]
    fn small_sets_are_counted_exactly() {
        for count in [0, 1, 1000, 4096] {
            assert_eq!(of(0, count).distinct(), count as f64);
            assert_eq!(of(0, count).bytes(), 100.0 * count as f64);
        }
    }

    #[test]
    fn large_sets_are_counted_well_in_little_memory() {
        for count in [20_000, 100_000, 300_000, 2_000_000] {
            let mut sample = of(0, count);
            sample.seal(0);
            // Three standard deviations of a count of 512.
            assert_about(sample.distinct(), count as f64, 3.0 / 22.6);
            assert_about(sample.bytes(), 100.0 * count as f64, 3.0 / 22.6);
            let bytes = sample.encode().len();
            assert!(bytes <= (count as usize / 8).max(4 * SAMPLES_FEW), "{bytes} for {count}");
            assert!(bytes > count as usize / 100, "{bytes} for {count}: room is left");
        }
    }

    #[test]
    fn a_sample_is_no_finer_than_it_is_wanted() {
        let (mut fine, mut coarse, mut large) = (of(0, 500), of(0, 500), of(0, 200_000));
        fine.seal(0);
        coarse.seal(3);
        assert_eq!((fine.level(), coarse.level()), (0, 3));
        assert_eq!(coarse.samples, fine.at_level(3));
        large.seal(3);
        assert!(large.level() > 3, "a large table's own bound holds, too");
    }

    #[test]
    fn a_small_sample_keeps_some_hashes_however_coarse_others_are() {
        let (mut small, mut tiny) = (of(0, 300), of(0, 20));
        small.seal(20);
        tiny.seal(20);
        assert!(small.level() > 0 && small.samples.len() >= SAMPLES_LEAST, "{small:?}");
        assert!(small.at_level(small.level() + 1).len() < SAMPLES_LEAST, "{small:?}");
        assert_eq!((tiny.level(), tiny.samples.len()), (0, 20));
    }

    #[test]
    fn unions_and_intersections_of_different_levels_are_counted() {
        let (large, small) = (of(0, 200_000), of(190_000, 205_000));
        assert!(large.level() > small.level());
        let mut union = small.clone();
        union.merge(&large);
        assert_about(union.distinct(), 205_000.0, 0.08);
        assert_about(large.intersection(&small).distinct(), 10_000.0, 0.35);
        assert_eq!(large.intersection(&small), small.intersection(&large));
        assert_eq!(large.intersection(&large), large);
    }

    #[test]
    fn a_union_of_many_tables_is_better_known_than_one() {
        let mut union = ThetaSample::new();
        (0..20).for_each(|table| union.merge(&of(table * 50_000, table * 50_000 + 60_000)));
        assert_about(union.distinct(), 1_010_000.0, 0.03);
    }

    #[test]
    fn the_newer_bytes_of_a_key_stand() {
        let (mut newer, mut older) = (ThetaSample::new(), ThetaSample::new());
        newer.insert(5 << 40, 1);
        older.insert(5 << 40, 300);
        older.insert(6 << 40, 40);
        newer.merge(&older);
        assert_eq!((newer.distinct(), newer.bytes()), (2.0, 41.0));
    }

    #[test]
    fn keys_that_share_a_cell_are_sampled_alike_in_whichever_order_they_come() {
        let keys = [(1 << 40 | 9, 7), (1 << 40 | 2, 5), (3 << 40, 1)];
        let mut samples = [[0, 1, 2], [1, 0, 2], [2, 1, 0]].map(|order| {
            let mut sample = ThetaSample::new();
            order.map(|at| keys[at]).iter().for_each(|&(hash, bytes)| sample.insert(hash, bytes));
            sample.settle();
            sample
        });
        // And as who wrote whole hashes has them: in their order.
        let mut bytes = vec![0, 3];
        [1 << 40 | 2, 5, 6, 7, (3u64 << 40) - (1 << 40) - 10, 1]
            .into_iter()
            .for_each(|number| put_varint64(&mut bytes, number));
        let whole = ThetaSample::decode(&bytes).unwrap();
        samples.iter_mut().for_each(|sample| assert_eq!(sample.samples, whole.samples));
        assert_eq!((whole.distinct(), whole.bytes()), (2.0, 8.0));
    }

    #[test]
    fn bytes_round_trip() {
        let mut extremes = ThetaSample::new();
        extremes.insert(0, 0);
        extremes.insert(u64::MAX, u32::MAX);
        for sample in [ThetaSample::new(), extremes, of(0, 900), of(0, 50_000)] {
            assert_eq!(ThetaSample::decode(&sample.encode()), Some(sample));
        }
    }

    #[test]
    fn bytes_of_whole_hashes_are_read() {
        let mut sample = of(0, 60_000);
        sample.settle();
        let mut bytes = vec![sample.level()];
        put_varint64(&mut bytes, sample.samples.len() as u64);
        let mut expected = 0;
        for sample in &sample.samples {
            // What is not kept of a hash may be anything.
            let hash = sample.hash() | 12_345;
            put_varint64(&mut bytes, hash - expected);
            put_varint64(&mut bytes, sample.bytes());
            expected = hash + 1;
        }
        assert_eq!(ThetaSample::decode(&bytes), Some(sample));
    }

    #[test]
    fn sizes_are_kept_to_the_byte_or_to_a_small_part_of_them() {
        for bytes in [0, 1, 210, 1 << 20, (1 << 23) - 1] {
            assert_eq!(Sample::new(u64::MAX, bytes).bytes(), u64::from(bytes));
        }
        for bytes in [1 << 23, (1 << 23) + 4097, u32::MAX] {
            let lost = u64::from(bytes) - Sample::new(u64::MAX, bytes).bytes();
            assert!(lost < 4096, "{lost} of {bytes}");
        }
    }

    #[test]
    fn a_sample_that_its_level_does_not_hold_is_refused() {
        let mut sample = of(0, 300);
        sample.level = 3;
        assert_eq!(ThetaSample::decode(&sample.encode()), None);
    }

    #[test]
    fn truncated_bytes_are_refused_and_damaged_ones_never_panic() {
        let bytes = of(0, 50).encode();
        for len in 0..bytes.len() {
            assert_eq!(ThetaSample::decode(&bytes[..len]), None);
            let mut bad = bytes.clone();
            bad[len] ^= 0xff;
            if let Some(sample) = ThetaSample::decode(&bad) {
                assert_eq!(ThetaSample::decode(&sample.encode()), Some(sample));
            }
        }
    }
}
