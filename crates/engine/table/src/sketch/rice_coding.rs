//! Samples as bits: each is its distance from the one before, and by how much its size differs.
//!
//! Both numbers are Golomb-Rice coded (Rice and Plaunt, *Adaptive Variable-Length Coding for Efficient
//! Compression of Spacecraft Television Data*, 1971): with a parameter `k`, `v >> k` ones and a zero, then the
//! low `k` bits of `v`. Distances between hashes are geometrically distributed, for which this is within
//! a few hundredths of a bit of the best there is; and where all values are of one length, a size takes one
//! bit. [`ONES_MAX`] ones are before a number as it is, so that an outlier is not long.
//!
//! ```text
//! count varint | k of distances u8 | k of sizes u8 | distance, size, distance, size...   low bits first
//! ```

use super::theta::{GRID_BITS, Sample};
use esker_base::coding::{put_varint64, take_u8, take_varint64};

/// So many ones say that the number follows in [`GRID_BITS`] bits.
const ONES_MAX: u32 = 24;

/// The numbers that stand for `samples`, which are in order and without repeats.
fn numbers(samples: &[Sample]) -> impl Iterator<Item = (u64, u64)> {
    let (mut expected, mut before) = (0, 0);
    samples.iter().map(move |sample| {
        let distance = sample.cell() - expected;
        expected = sample.cell() + 1;
        let change =
            sample.size_code() as i64 - std::mem::replace(&mut before, sample.size_code()) as i64;
        (distance, zigzag(change))
    })
}

fn zigzag(change: i64) -> u64 {
    (change << 1 ^ change >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// The parameter under which numbers of this mean take fewest bits, or nearly.
fn parameter(sum: u64, count: usize) -> u32 {
    let mean = sum as f64 / count.max(1) as f64;
    (mean * std::f64::consts::LN_2).max(1.0).log2() as u32
}

fn parameters(samples: &[Sample]) -> [u32; 2] {
    let sums = numbers(samples).fold((0, 0), |sums, next| (sums.0 + next.0, sums.1 + next.1));
    [sums.0, sums.1].map(|sum| parameter(sum, samples.len()))
}

fn bits_of(number: u64, k: u32) -> u64 {
    match number >> k {
        ones if ones < u64::from(ONES_MAX) => ones + 1 + u64::from(k),
        _ => u64::from(ONES_MAX + GRID_BITS),
    }
}

/// The bits that `samples` take, without what is before them.
pub(super) fn bits(samples: &[Sample]) -> u64 {
    let [distances, sizes] = parameters(samples);
    numbers(samples).map(|next| bits_of(next.0, distances) + bits_of(next.1, sizes)).sum()
}

/// Appends `samples`.
pub(super) fn put(out: &mut Vec<u8>, samples: &[Sample]) {
    let [distances, sizes] = parameters(samples);
    put_varint64(out, samples.len() as u64);
    out.extend([distances as u8, sizes as u8]);
    let mut bits = BitWriter { out, pending: 0, len: 0 };
    for (distance, change) in numbers(samples) {
        bits.put_rice(distance, distances);
        bits.put_rice(change, sizes);
    }
    bits.finish();
}

/// Reads all of `input` as samples. `None` if it is something else.
pub(super) fn take(mut input: &[u8]) -> Option<Vec<Sample>> {
    let count = usize::try_from(take_varint64(&mut input)?).ok()?;
    let distances = take_u8(&mut input).map(u32::from).filter(|&k| k < GRID_BITS)?;
    let sizes = take_u8(&mut input).map(u32::from).filter(|&k| k < GRID_BITS)?;
    // Each number has a bit at least.
    if count > input.len() * 4 {
        return None;
    }
    let mut bits = BitReader { input, pending: 0, len: 0 };
    let mut samples = Vec::with_capacity(count);
    let (mut expected, mut size) = (0u64, 0i64);
    for _ in 0..count {
        let cell = expected + bits.take_rice(distances)?;
        size += unzigzag(bits.take_rice(sizes)?);
        samples.push(Sample::from_parts(cell, u64::try_from(size).ok()?)?);
        expected = cell + 1;
    }
    bits.is_at_end().then_some(samples)
}

/// Bits into bytes, low bits first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    /// Bits of `pending`, below 8 between calls.
    len: u32,
}

impl BitWriter<'_> {
    fn put_rice(&mut self, number: u64, k: u32) {
        match number >> k {
            ones if ones < u64::from(ONES_MAX) => {
                self.put((1 << ones) - 1, ones as u32 + 1);
                self.put(number & ((1 << k) - 1), k);
            }
            _ => {
                self.put((1 << ONES_MAX) - 1, ONES_MAX);
                self.put(number, GRID_BITS);
            }
        }
    }

    fn put(&mut self, bits: u64, len: u32) {
        self.pending |= bits << self.len;
        self.len += len;
        while self.len >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.len -= 8;
        }
    }

    fn finish(self) {
        if self.len > 0 {
            self.out.push(self.pending as u8);
        }
    }
}

/// Bits out of bytes.
struct BitReader<'a> {
    input: &'a [u8],
    pending: u64,
    len: u32,
}

impl BitReader<'_> {
    fn take_rice(&mut self, k: u32) -> Option<u64> {
        let mut ones = 0;
        while ones < ONES_MAX && self.take(1)? == 1 {
            ones += 1;
        }
        if ones == ONES_MAX {
            return self.take(GRID_BITS);
        }
        Some(u64::from(ones) << k | self.take(k)?)
    }

    fn take(&mut self, len: u32) -> Option<u64> {
        while self.len < len {
            self.pending |= u64::from(take_u8(&mut self.input)?) << self.len;
            self.len += 8;
        }
        let bits = self.pending & ((1 << len) - 1);
        self.pending >>= len;
        self.len -= len;
        Some(bits)
    }

    /// Whether nothing is left but the zeros that fill the last byte.
    fn is_at_end(&self) -> bool {
        self.input.is_empty() && self.len < 8 && self.pending == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(cells: impl IntoIterator<Item = (u64, u32)>) -> Vec<Sample> {
        cells
            .into_iter()
            .map(|(cell, bytes)| Sample::new(cell << (64 - GRID_BITS), bytes))
            .collect()
    }

    proptest! {
        #[test]
        fn samples_round_trip_and_take_the_bits_foretold(
            cells in prop::collection::btree_map(
                prop_oneof![0..100u64, 0..1u64 << GRID_BITS],
                prop_oneof![Just(0u32), 100..110u32, any::<u32>()],
                0..200,
            ),
        ) {
            let samples = samples(cells);
            let mut out = Vec::new();
            put(&mut out, &samples);
            let before = esker_base::coding::varint_bytes(samples.len() as u64) + 2;
            prop_assert_eq!(out.len() - before, bits(&samples).div_ceil(8) as usize);
            prop_assert_eq!(take(&out), Some(samples));
        }

        #[test]
        fn any_bytes_are_samples_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(samples) = take(&bytes) {
                prop_assert!(samples.windows(2).all(|pair| pair[0].cell() < pair[1].cell()));
            }
        }
    }

    #[test]
    fn of_keys_with_values_of_one_length_a_sample_takes_little_more_than_its_distance() {
        // One key in 2^20 of the grid.
        let mut rng = esker_base::Rng::new(3);
        let mut cell = 0;
        let samples = samples((0..1000).map(|_| {
            cell += rng.below(2 << 20);
            cell += 1;
            (cell, 210)
        }));
        let a_sample = bits(&samples) as f64 / 1000.0;
        assert!((21.0..23.0).contains(&a_sample), "{a_sample}");
    }

    #[test]
    fn what_is_missing_or_left_over_is_noticed() {
        let samples = samples((0..50).map(|n| (n * n * 1000, 7)));
        let mut out = Vec::new();
        put(&mut out, &samples);
        (0..out.len()).for_each(|len| assert_eq!(take(&out[..len]), None, "{len}"));
        out.push(0);
        assert_eq!(take(&out), None);
    }
}
