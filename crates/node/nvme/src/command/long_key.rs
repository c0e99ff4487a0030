//! Keys of any length in a namespace of long keys (`docs/operations/storage-node.md`): commands carry a digest, and values begin with
//! the key.
//!
//! ```text
//! 0        2        4              4 + length
//! | length | 0 0    | key          | value …
//! ```

use super::kv::Key;
use crate::le_fields::u16_at;
use crate::limits::KEY_BYTES;
use sha2::{Digest, Sha256};

/// What comes before the key.
pub const HEAD_BYTES: usize = 4;

/// The longest key.
pub const LONG_KEY_BYTES: usize = u16::MAX as usize;

/// What commands call the key: the first half of its SHA-256.
pub fn digest(key: &[u8]) -> Key {
    let digest = Sha256::digest(key);
    Key::new(&digest[..KEY_BYTES]).expect("a key of the longest length")
}

/// Appends what a value is stored with in front of it; none if the key is empty or too long.
pub fn put_key(key: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let length = u16::try_from(key.len()).ok().filter(|&length| length > 0)?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(key);
    Some(())
}

/// The key and the value of what is stored; none if it is not as it must be.
pub fn split(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = stored.split_first_chunk::<HEAD_BYTES>()?;
    let length = usize::from(u16_at(head, 0));
    let is_sound = length > 0 && head[2..] == [0; 2];
    rest.split_at_checked(length).filter(|_| is_sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_in_front_of_its_value() {
        let mut stored = Vec::new();
        put_key(b"a key of some length", &mut stored).unwrap();
        stored.extend_from_slice(b"value");
        assert_eq!(split(&stored), Some((&b"a key of some length"[..], &b"value"[..])));
        assert_eq!(stored[..4], [20, 0, 0, 0]);
        assert!(put_key(b"", &mut stored).is_none());
        assert!(put_key(&[1; LONG_KEY_BYTES + 1], &mut stored).is_none());
    }

    #[test]
    fn what_is_not_as_it_must_be_is_none() {
        for stored in [&b""[..], b"\x01\0\0", b"\0\0\0\0k", b"\x02\0\0\0k", b"\x01\0\0\x01k"] {
            assert_eq!(split(stored), None, "{stored:?}");
        }
    }

    #[test]
    fn the_digest_is_half_of_sha_256() {
        // FIPS 180-4's example: SHA-256("abc").
        let expected = [
            0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae,
            0x22, 0x23,
        ];
        assert_eq!(digest(b"abc").as_bytes(), expected);
    }
}
