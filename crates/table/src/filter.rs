//! The filter: whether a key may be in a table, from its hash, without reading a block.
//!
//! A binary fuse filter (Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor
//! Filters", 2022) of 8, 16 or 32-bit fingerprints: about 9, 18 or 36 bits a key, and one false
//! positive in 256, 65,536 or 4 billion absent keys. A probe mixes the hash with the filter's
//! seed, picks one place in each of three neighbouring segments, and asks whether the three
//! fingerprints there XOR to the hash's own.
//!
//! ```text
//! filter:  fingerprint bits u8 | seed u64 | segment_bits u8 | segments u32 | fingerprints
//! ```
//!
//! A hash starts in one of `segments` segments of `2^segment_bits` places; two more segments follow.

use esker_base::coding::{take_u8, take_u32, take_u64};
use xorf::{BinaryFuse8, BinaryFuse16, BinaryFuse32};

/// The longest segment the construction chooses.
const SEGMENT_BITS_MAX: u8 = 18;

/// A table's filter, in memory.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    seed: u64,
    segment_bits: u8,
    segments: u32,
    fingerprints: Fingerprints,
}

#[derive(Debug, Default)]
enum Fingerprints {
    /// No filter: every key may be there.
    #[default]
    None,
    Bits8(Box<[u8]>),
    Bits16(Box<[u16]>),
    Bits32(Box<[u32]>),
}

/// The fingerprint length for a wish of `filter_bits` bits a key; 0 is no filter.
pub(crate) fn fingerprint_bits(filter_bits: u8) -> u8 {
    match filter_bits {
        0 => 0,
        1..=9 => 8,
        10..=18 => 16,
        _ => 32,
    }
}

/// A guess of how many bytes a filter of so many keys takes.
pub(crate) fn estimated_bytes(fingerprint_bits: u8, keys: usize) -> usize {
    keys * usize::from(fingerprint_bits) / 8 * 9 / 8
}

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
            out.extend(filter.fingerprints.iter().flat_map(|print| print.to_le_bytes()));
            Some(out)
        }};
    }
    match fingerprint_bits {
        8 => encoded!(BinaryFuse8),
        16 => encoded!(BinaryFuse16),
        32 => encoded!(BinaryFuse32),
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
        if places > u64::from(u32::MAX) || input.len() as u64 != places * u64::from(bits / 8) {
            return None;
        }
        let fingerprints = match bits {
            8 => Fingerprints::Bits8(input.into()),
            16 => Fingerprints::Bits16(
                input.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect(),
            ),
            32 => Fingerprints::Bits32(
                input.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
            ),
            _ => return None,
        };
        Some(Filter { seed, segment_bits, segments, fingerprints })
    }

    /// Bits of a fingerprint, 0 without a filter.
    pub(crate) fn fingerprint_bits(&self) -> u8 {
        match self.fingerprints {
            Fingerprints::None => 0,
            Fingerprints::Bits8(_) => 8,
            Fingerprints::Bits16(_) => 16,
            Fingerprints::Bits32(_) => 32,
        }
    }

    /// Bytes of memory that the filter takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.fingerprints {
            Fingerprints::None => 0,
            Fingerprints::Bits8(all) => all.len(),
            Fingerprints::Bits16(all) => 2 * all.len(),
            Fingerprints::Bits32(all) => 4 * all.len(),
        }
    }

    /// Whether a key with this hash may be in the table. False is certain.
    #[inline]
    pub(crate) fn may_contain(&self, key_hash: u64) -> bool {
        let hash = mix(key_hash.wrapping_add(self.seed));
        let own = hash ^ (hash >> 32);
        let [a, b, c] = self.places(hash);
        match &self.fingerprints {
            Fingerprints::None => true,
            Fingerprints::Bits8(all) => own as u8 == all[a] ^ all[b] ^ all[c],
            Fingerprints::Bits16(all) => own as u16 == all[a] ^ all[b] ^ all[c],
            Fingerprints::Bits32(all) => own as u32 == all[a] ^ all[b] ^ all[c],
        }
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
        for bits in [8, 16, 32] {
            for count in (1..70).chain([127, 1000, 20_000]) {
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
        for (bits, expected_per_million) in [(8, 1e6 / 256.0), (16, 1e6 / 65_536.0), (32, 0.0)] {
            let filter = Filter::decode(&encode(bits, &mut hashes(50_000)).unwrap()).unwrap();
            let wrong = (0..1_000_000).filter(|_| filter.may_contain(rng.next_u64())).count();
            // Five standard deviations of a Poisson count.
            let slack = 5.0 * f64::sqrt(expected_per_million + 1.0);
            assert!((wrong as f64 - expected_per_million).abs() < slack, "{bits} bits: {wrong}");
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
        let good = encode(16, &mut hashes(20)).unwrap();
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
