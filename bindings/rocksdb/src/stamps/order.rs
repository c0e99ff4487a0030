//! How keys and timestamps are stored, so that bytes have the order of a comparator.

use crate::border::{Result, Status};
use esker::KeyRange;
use std::ops::Bound;

/// The length of a timestamp.
pub const STAMP_BYTES: usize = 8;

/// What follows all versions of a key: more than any timestamp.
pub(super) const BEHIND: [u8; STAMP_BYTES + 1] = [0xff; STAMP_BYTES + 1];

/// How a comparator sorts keys, and how a program writes timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Whether larger keys are first.
    pub is_reverse: bool,
    /// Whether the first byte of a timestamp is its highest.
    pub is_big_endian: bool,
}

impl Order {
    /// A timestamp as the program writes it.
    pub fn bytes_of(self, stamp: u64) -> [u8; STAMP_BYTES] {
        if self.is_big_endian { stamp.to_be_bytes() } else { stamp.to_le_bytes() }
    }

    /// A key with its timestamp, as the program sees both in one.
    pub fn with_stamp(self, key: &[u8], stamp: u64) -> Vec<u8> {
        [key, &self.bytes_of(stamp)].concat()
    }

    /// Reads a timestamp of the program.
    ///
    /// # Errors
    /// If it has another length.
    pub fn stamp(self, bytes: &[u8]) -> Result<u64> {
        let wrong = |_| {
            let length = bytes.len();
            Status::invalid(format!(
                "Timestamp sizes mismatch: expect {STAMP_BYTES}, {length} given"
            ))
        };
        let bytes = bytes.try_into().map_err(wrong)?;
        Ok(if self.is_big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// What the stored versions of `key` begin with. Stored keys sort by it as their keys do.
    pub fn prefix(self, key: &[u8]) -> Vec<u8> {
        let mut stored = Vec::with_capacity(key.len() + 2 + BEHIND.len());
        for &byte in key {
            stored.push(byte);
            if byte == 0 {
                stored.push(0xff);
            }
        }
        stored.extend([0, 1]);
        if self.is_reverse {
            stored.iter_mut().for_each(|byte| *byte = !*byte);
        }
        stored
    }

    /// The stored key of a version.
    pub fn version(self, key: &[u8], stamp: u64) -> Vec<u8> {
        let mut stored = self.prefix(key);
        stored.extend((!stamp).to_be_bytes());
        stored
    }

    /// The key of stored versions that begin with `prefix`.
    pub fn key(self, prefix: &[u8]) -> Vec<u8> {
        let invert = if self.is_reverse { 0xff } else { 0 };
        let mut key = Vec::with_capacity(prefix.len());
        let mut bytes = prefix.iter().map(|byte| byte ^ invert);
        while let Some(byte) = bytes.next() {
            // After a zero is the mark that it is one of the key, or the end.
            if byte == 0 && bytes.next() != Some(0xff) {
                break;
            }
            key.push(byte);
        }
        key
    }

    /// The stored keys of versions that bounds of an iterator allow. Keeps out what no version is.
    pub fn range(self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> KeyRange {
        KeyRange {
            start: Bound::Included(lower.map_or_else(|| vec![0], |key| self.prefix(key))),
            end: upper.map_or(Bound::Unbounded, |key| Bound::Excluded(self.prefix(key))),
        }
    }

    /// The stored versions of a key that are not newer than `at`.
    pub(super) fn versions(self, key: &[u8], at: u64) -> KeyRange {
        let end = [&self.prefix(key)[..], &BEHIND].concat();
        KeyRange { start: Bound::Included(self.version(key, at)), end: Bound::Excluded(end) }
    }
}

/// A stored key as the start of all versions of its key and its timestamp. `None` if it is no version.
pub fn parts(stored: &[u8]) -> Option<(&[u8], u64)> {
    let (prefix, stamp) = stored.split_last_chunk()?;
    (!prefix.is_empty()).then(|| (prefix, !u64::from_be_bytes(*stamp)))
}

/// The value of a stored one, or `None` if the version says deleted.
pub fn content(stored: &[u8]) -> Option<&[u8]> {
    stored.get(1..)
}

/// A value as it is stored.
pub fn stored_value(value: &[u8]) -> Vec<u8> {
    [&[1], value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [Order; 4] = [
        Order { is_reverse: false, is_big_endian: false },
        Order { is_reverse: false, is_big_endian: true },
        Order { is_reverse: true, is_big_endian: false },
        Order { is_reverse: true, is_big_endian: true },
    ];

    #[test]
    fn stored_keys_sort_as_keys_do_and_the_newest_version_is_first() {
        let bytes = [0, 1, b'a', 0xfe, 0xff];
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 1..4 {
            let longer = keys.iter().filter(|key| key.len() == length - 1).cloned();
            let longer: Vec<_> =
                longer.flat_map(|key| bytes.map(|byte| [&key[..], &[byte]].concat())).collect();
            keys.extend(longer);
        }
        for order in ORDERS {
            keys.sort();
            if order.is_reverse {
                keys.reverse();
            }
            let versions = |key: &Vec<u8>| [u64::MAX, 256, 1, 0].map(|it| order.version(key, it));
            let stored: Vec<_> = keys.iter().flat_map(versions).collect();
            assert!(stored.is_sorted_by(|one, other| one < other), "{order:?}");
            for key in &keys {
                let stored = order.version(key, 256);
                let (prefix, stamp) = parts(&stored).unwrap();
                assert_eq!((order.key(prefix), stamp), (key.clone(), 256));
                let behind = [prefix, &BEHIND].concat();
                assert!(
                    order.version(key, 0) < behind && prefix < &order.version(key, u64::MAX)[..]
                );
                // No other key is in between.
                let other = |it: &&Vec<u8>| *it != key;
                let is_between = |it: &Vec<u8>| it[..] > *prefix && *it < behind;
                assert!(!keys.iter().filter(other).flat_map(versions).any(|it| is_between(&it)));
            }
            assert!(order.version(b"", u64::MAX) > vec![0], "the range of all keys has it");
        }
    }

    #[test]
    fn timestamps_are_read_as_they_are_written() {
        for order in ORDERS {
            for stamp in [0, 1, 0x0102_0304_0506_0708, u64::MAX] {
                assert_eq!(order.stamp(&order.bytes_of(stamp)), Ok(stamp));
            }
            assert!(order.stamp(b"").is_err() && order.stamp(&[0; 9]).is_err());
        }
    }
}
