//! The filter: whether a key may be in a table, from its hash, without reading a block.
//!
//! A binary fuse filter (Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor
//! Filters", 2022) of fingerprints of `b` bits, 1 to 32: about 1.125 b bits a key, and one false
//! positive in 2^b absent keys. A probe mixes the hash with the filter's seed, picks one place in
//! each of three neighbouring segments, and asks whether the three fingerprints there XOR to the
//! hash's own.
//!
//! ```text
//! filter:  fingerprint bits u8 | seed u64 | segment_bits u8 | segments u32 | fingerprints
//! ```
//!
//! A hash starts in one of `segments` segments of `2^segment_bits` places; two more segments follow.
//! Fingerprints are bit by bit behind each other, low bits first. As they are only ever XORed, the
//! low bits of a filter of longer fingerprints are a filter of shorter ones: so there is any length.

use esker_base::coding::{take_u8, take_u32, take_u64};
use xorf::{BinaryFuse8, BinaryFuse16, BinaryFuse32};

/// The longest fingerprint, in bits.
pub const FINGERPRINT_BITS_MAX: u8 = 32;

/// Places for fingerprints in a filter for each key, if it has a million keys or more. It is up to 1.2
/// with a hundred thousand, and up to 1.5 with a thousand.
pub const FILTER_PLACES_PER_KEY: f64 = 1.125;

/// The longest segment the construction chooses.
const SEGMENT_BITS_MAX: u8 = 18;

/// A fingerprint is read as part of a word, which may reach so far beyond the last of them.
const PADDING_BYTES: usize = 7;

/// A table's filter, in memory.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    seed: u64,
    segment_bits: u8,
    segments: u32,
    /// 0 without a filter: then every key may be there.
    fingerprint_bits: u8,
    /// Packed as they are stored, and padded.
    fingerprints: Box<[u8]>,
}

/// An estimate of how many bytes a filter of so many keys takes.
pub(crate) fn estimated_bytes(fingerprint_bits: u8, keys: usize) -> usize {
    keys * usize::from(fingerprint_bits) / 8 * 9 / 8
}

/// About how many bytes a writer of a table holds for each entry when it builds the filter of the whole
/// table: its hash (8), and the queues and counts of the construction (24).
pub const WRITER_BYTES_AN_ENTRY: usize = 32;

/// Builds and encodes the filter of these key hashes, which it sorts. `None` if there are no keys,
/// or no filter is wanted, or, which is not to be expected, none was found.
pub(crate) fn encode(fingerprint_bits: u8, hashes: &mut Vec<u64>) -> Option<Vec<u8>> {
    // Equal hashes of different keys would keep the construction from ending.
    hashes.sort_unstable();
    hashes.dedup();
    if hashes.is_empty() {
        return None;
    }
    // The descriptor's type has no public name, so its fields are taken apart at each use.
    macro_rules! encoded {
        ($filter:ident) => {{
            let filter = $filter::try_from(&hashes[..]).ok()?;
            let shape = &filter.descriptor;
            let mut out = encode_shape(
                fingerprint_bits,
                shape.seed,
                shape.segment_length,
                shape.segment_count_length / shape.segment_length,
            );
            pack(fingerprint_bits, filter.fingerprints.iter().map(|&f| u64::from(f)), &mut out);
            Some(out)
        }};
    }
    match fingerprint_bits {
        1..=8 => encoded!(BinaryFuse8),
        9..=16 => encoded!(BinaryFuse16),
        17..=FINGERPRINT_BITS_MAX => encoded!(BinaryFuse32),
        _ => None,
    }
}

fn encode_shape(fingerprint_bits: u8, seed: u64, segment_length: u32, segments: u32) -> Vec<u8> {
    let mut out = vec![fingerprint_bits];
    out.extend_from_slice(&seed.to_le_bytes());
    out.push(segment_length.trailing_zeros() as u8);
    out.extend_from_slice(&segments.to_le_bytes());
    out
}

/// Appends the low bits of each fingerprint.
fn pack(fingerprint_bits: u8, fingerprints: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    let (mut open, mut open_bits) = (0u64, 0);
    for fingerprint in fingerprints {
        open |= (fingerprint & mask(fingerprint_bits)) << open_bits;
        open_bits += fingerprint_bits;
        while open_bits >= 8 {
            out.push(open as u8);
            open >>= 8;
            open_bits -= 8;
        }
    }
    if open_bits > 0 {
        out.push(open as u8);
    }
}

#[inline]
fn mask(fingerprint_bits: u8) -> u64 {
    (1 << fingerprint_bits) - 1
}

impl Filter {
    /// Reads an encoded filter. `None` if it is none.
    pub(crate) fn decode(mut input: &[u8]) -> Option<Filter> {
        let bits = take_u8(&mut input)?;
        let seed = take_u64(&mut input)?;
        let segment_bits = take_u8(&mut input)?;
        let segments = take_u32(&mut input)?;
        if segment_bits > SEGMENT_BITS_MAX || segments == 0 {
            return None;
        }
        let places = (u64::from(segments) + 2) << segment_bits;
        let bytes = (places * u64::from(bits)).div_ceil(8);
        let is_known = (1..=FINGERPRINT_BITS_MAX).contains(&bits);
        if !is_known || places > u64::from(u32::MAX) || input.len() as u64 != bytes {
            return None;
        }
        let fingerprints = [input, &[0; PADDING_BYTES]].concat().into();
        Some(Filter { seed, segment_bits, segments, fingerprint_bits: bits, fingerprints })
    }

    /// Bits of a fingerprint, 0 without a filter.
    #[inline]
    pub(crate) fn fingerprint_bits(&self) -> u8 {
        self.fingerprint_bits
    }

    /// Bytes of memory that the filter takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.fingerprints.len()
    }

    /// Whether a key with this hash may be in the table. False is certain.
    #[inline]
    pub(crate) fn may_contain(&self, key_hash: u64) -> bool {
        if self.fingerprint_bits == 0 {
            return true;
        }
        let hash = mix(key_hash.wrapping_add(self.seed));
        let own = hash ^ (hash >> 32);
        let places = self.places(hash);
        let [a, b, c] = match self.fingerprint_bits {
            // What most have; and a byte never lies in two cache lines, as a word may.
            8 => places.map(|place| u64::from(self.fingerprints[place])),
            _ => places.map(|place| self.word(place)),
        };
        (own ^ a ^ b ^ c) & mask(self.fingerprint_bits) == 0
    }

    /// A word whose low bits are the fingerprint at `place`.
    #[inline]
    fn word(&self, place: usize) -> u64 {
        let bit = place * usize::from(self.fingerprint_bits);
        let bytes = self.fingerprints[bit / 8..].first_chunk().expect("there is padding");
        u64::from_le_bytes(*bytes) >> (bit % 8)
    }

    /// One place in each of three neighbouring segments.
    #[inline]
    fn places(&self, hash: u64) -> [usize; 3] {
        let segment_length = 1u64 << self.segment_bits;
        let starts = u64::from(self.segments) << self.segment_bits;
        let first = ((u128::from(hash) * u128::from(starts)) >> 64) as u64;
        let mask = segment_length - 1;
        let second = (first + segment_length) ^ ((hash >> 18) & mask);
        let third = (first + 2 * segment_length) ^ (hash & mask);
        [first as usize, second as usize, third as usize]
    }
}

/// The finalizer of MurmurHash3: every bit of the input moves every bit of the output.
#[inline]
fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{Rng, hash64};

    fn hashes(count: u64) -> Vec<u64> {
        (0..count).map(|n| hash64(&n.to_le_bytes())).collect()
    }

    #[test]
    fn no_key_is_denied_at_any_size() {
        for bits in 1..=FINGERPRINT_BITS_MAX {
            for count in (1..70).chain([127, 1000, 5_000]) {
                let mut all = hashes(count);
                let filter = Filter::decode(&encode(bits, &mut all).unwrap()).unwrap();
                assert_eq!(filter.fingerprint_bits(), bits);
                assert!(all.iter().all(|&hash| filter.may_contain(hash)), "{bits} bits, {count}");
            }
        }
    }

    #[test]
    fn false_positives_are_as_rare_as_the_fingerprint_says() {
        let mut rng = Rng::new(11);
        for bits in 1..=FINGERPRINT_BITS_MAX {
            let expected_per_million = 1e6 / f64::powi(2.0, bits.into());
            let filter = Filter::decode(&encode(bits, &mut hashes(50_000)).unwrap()).unwrap();
            let wrong = (0..1_000_000).filter(|_| filter.may_contain(rng.next_u64())).count();
            // Five standard deviations of a Poisson count.
            let slack = 5.0 * f64::sqrt(expected_per_million + 1.0);
            assert!((wrong as f64 - expected_per_million).abs() < slack, "{bits} bits: {wrong}");
        }
    }

    #[test]
    fn a_filter_takes_about_the_bits_it_is_said_to() {
        for (keys, most) in [(1_000, 1.5), (100_000, 1.2), (1_000_000, 1.14)] {
            let bytes = encode(11, &mut hashes(keys)).unwrap().len() as f64;
            let places_per_key = bytes * 8.0 / 11.0 / keys as f64;
            assert!(places_per_key < most, "{places_per_key} places a key of {keys}");
            assert!(places_per_key >= FILTER_PLACES_PER_KEY);
        }
    }

    #[test]
    fn equal_and_zero_hashes_do_no_harm() {
        let mut all = vec![7, 7, 7, 0, u64::MAX, 0];
        let filter = Filter::decode(&encode(16, &mut all).unwrap()).unwrap();
        assert!([7, 0, u64::MAX].iter().all(|&hash| filter.may_contain(hash)));
    }

    #[test]
    fn without_a_filter_every_key_may_be_there() {
        assert!(Filter::default().may_contain(1));
        assert_eq!(encode(0, &mut hashes(9)), None);
        assert_eq!(encode(8, &mut Vec::new()), None);
    }

    #[test]
    fn damaged_bytes_never_panic_and_other_lengths_are_refused() {
        let good = encode(13, &mut hashes(20)).unwrap();
        for len in 0..good.len() {
            assert!(Filter::decode(&good[..len]).is_none());
        }
        for bit in 0..14 * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Some(filter) = Filter::decode(&bad) {
                (0..100).for_each(|hash| {
                    filter.may_contain(hash);
                });
            }
        }
    }
}
