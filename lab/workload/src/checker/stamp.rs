//! Values that say where they come from: `checksum u64 | version u64 | filler`, little-endian.
//!
//! The checksum covers the key as well, so that a value under a wrong key is seen.

use super::Version;
use esker_base::{Rng, coding, hash64};

/// The shortest value that holds a stamp.
pub const MIN_VALUE_BYTES: usize = 16;

/// Fills `value`, at least [`MIN_VALUE_BYTES`] long, for the version `version` of `key`. The filler differs from
/// version to version and compresses to about half.
pub fn write_stamp(key: &[u8], version: Version, value: &mut [u8]) {
    let filler = &mut value[MIN_VALUE_BYTES..];
    let (random, copy) = filler.split_at_mut(filler.len().div_ceil(2));
    Rng::new(hash64(key) ^ version.0).fill(random);
    copy.copy_from_slice(&random[..copy.len()]);
    seal_stamp(key, version, value);
}

/// Makes `value`, at least [`MIN_VALUE_BYTES`] long, `version` of `key` with the filler it has.
pub fn seal_stamp(key: &[u8], version: Version, value: &mut [u8]) {
    value[8..MIN_VALUE_BYTES].copy_from_slice(&version.0.to_le_bytes());
    let checksum = checksum(key, &value[8..]);
    value[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The version of `key` that `value` is, or `None` if it is none: damaged, or of another key.
pub fn read_stamp(key: &[u8], value: &[u8]) -> Option<Version> {
    let mut rest = value;
    let stored = coding::take_u64(&mut rest)?;
    let body = rest;
    let version = coding::take_u64(&mut rest)?;
    (stored == checksum(key, body)).then_some(Version(version))
}

fn checksum(key: &[u8], body: &[u8]) -> u64 {
    // Turned, so that a body that equals the key does not cancel it out.
    hash64(body) ^ hash64(key).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(key: &[u8], version: u64, value_bytes: usize) -> Vec<u8> {
        let mut value = vec![0; value_bytes];
        write_stamp(key, Version(version), &mut value);
        value
    }

    #[test]
    fn a_stamp_gives_back_its_version() {
        for value_bytes in [16, 17, 24, 100, 4_096] {
            let value = stamped(b"key", 7, value_bytes);
            assert_eq!(read_stamp(b"key", &value), Some(Version(7)));
        }
    }

    #[test]
    fn a_value_under_another_key_is_refused() {
        assert_eq!(read_stamp(b"kez", &stamped(b"key", 7, 32)), None);
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_seen() {
        let good = stamped(b"key", 7, 40);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_stamp(b"key", &bad), None, "bit {bit}");
        }
        for len in 0..good.len() {
            assert_eq!(read_stamp(b"key", &good[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn versions_differ_beyond_their_number() {
        assert_ne!(stamped(b"key", 1, 64)[16..], stamped(b"key", 2, 64)[16..]);
    }
}
