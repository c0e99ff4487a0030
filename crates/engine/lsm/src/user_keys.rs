//! The border between user keys and stored keys.
//!
//! All keys and bounds from callers are mapped here, and all keys returned to callers are mapped
//! back. Behind this border keys are never empty, and every range delete has an end.
//! `esker_base::stored_key` defines the map and explains why it preserves order.

use esker_api::{KeyRange, WriteBatch};
use esker_base::stored_key::{EDGE_BYTES, MAX_STORED_KEY_BYTES};
use esker_base::{
    ABOVE_STORED_KEYS, Kind, is_edge_key, restore_user_key, split_expiry, stored_key, user_key,
};
use std::borrow::Cow;
use std::ops::Bound;
use std::time::Duration;

/// How a database stores keys, fixed when the database is created.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum KeyFormat {
    /// Unchanged. The empty key is not valid. Databases of pre-release builds use this format.
    AsGiven,
    /// Mapped, so that the empty key is valid: see `esker_base::stored_key`.
    #[default]
    Mapped,
}

/// The first stored key of a database, whatever its format.
const FIRST: &[u8] = &[0];
/// Above every key that is stored as it is given.
static ABOVE_GIVEN_KEYS: [u8; MAX_STORED_KEY_BYTES] = [0xff; MAX_STORED_KEY_BYTES];

impl KeyFormat {
    /// Returns the stored key of the user key `key`.
    #[inline]
    pub fn stored<'a>(self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            KeyFormat::Mapped => stored_key(key),
            KeyFormat::AsGiven => Cow::Borrowed(key),
        }
    }

    /// Returns the user key of the stored key `stored`.
    #[inline]
    pub fn user<'a>(self, stored: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            KeyFormat::Mapped => user_key(stored),
            KeyFormat::AsGiven => Cow::Borrowed(stored),
        }
    }

    /// Does in place what [`KeyFormat::user`] does.
    #[inline]
    pub(crate) fn restore(self, stored: &mut Vec<u8>) {
        if self == KeyFormat::Mapped {
            restore_user_key(stored);
        }
    }

    /// Returns the range of the stored keys of the keys in `range`.
    pub(crate) fn range(self, range: KeyRange) -> KeyRange {
        let stored = |bound: Bound<Vec<u8>>| {
            bound.map(|key| if is_edge_key(&key) { self.stored(&key).into_owned() } else { key })
        };
        KeyRange { start: stored(range.start), end: stored(range.end) }
    }

    /// Whether a user may store the empty key.
    pub(crate) fn takes_empty_key(self) -> bool {
        self == KeyFormat::Mapped
    }

    /// The first of the highest stored keys that differ from their user keys, or `None`.
    pub(crate) fn high_edge(self) -> Option<&'static [u8]> {
        (self == KeyFormat::Mapped).then_some(&ABOVE_STORED_KEYS[..EDGE_BYTES])
    }

    /// Whether the stored key `stored` differs from its user key.
    pub(crate) fn is_edge(self, stored: &[u8]) -> bool {
        self == KeyFormat::Mapped && is_edge_key(stored)
    }

    /// The end of a range delete that has no end.
    fn end_of_keys(self) -> &'static [u8] {
        match self {
            KeyFormat::Mapped => ABOVE_STORED_KEYS,
            KeyFormat::AsGiven => &ABOVE_GIVEN_KEYS,
        }
    }

    /// Whether a stored range delete from `start` to `end` deletes all keys.
    pub(crate) fn is_all(self, start: &[u8], end: &[u8]) -> bool {
        start <= FIRST && self.is_end_of_keys(end)
    }

    /// Whether a range delete that ends at `key` has no end for users.
    pub(crate) fn is_end_of_keys(self, key: &[u8]) -> bool {
        key == self.end_of_keys()
    }

    /// Returns `batch` with stored keys: the batch itself, unless one of its keys is stored
    /// differently or one of its ranges is open.
    #[inline]
    pub(crate) fn batch(self, batch: &WriteBatch) -> Cow<'_, WriteBatch> {
        if batch.has_edge_keys() { Cow::Owned(self.mapped(batch)) } else { Cow::Borrowed(batch) }
    }

    #[cold]
    fn mapped(self, batch: &WriteBatch) -> WriteBatch {
        let mut mapped = WriteBatch::new();
        mapped.reserve(batch.encoded().len() + 2 * batch.len());
        for entry in batch.iter() {
            let key = self.stored(entry.key);
            match entry.kind {
                Kind::Put => mapped.put(entry.keyspace, &key, entry.value),
                Kind::Delete => mapped.delete(entry.keyspace, &key),
                Kind::ExpiringPut => {
                    let (ttl, value) = split_expiry(entry.value).unwrap_or_default();
                    let ttl = Duration::from_millis(ttl);
                    mapped.put_with_ttl(entry.keyspace, &key, value, ttl);
                }
                Kind::Merge => mapped.merge(entry.keyspace, &key, entry.value),
                Kind::Combined | Kind::Separated => unreachable!("only tables have such entries"),
                Kind::RangeDelete => {
                    let start = if key.is_empty() { FIRST } else { &key[..] };
                    let end = match entry.value {
                        [] => Cow::Borrowed(self.end_of_keys()),
                        end => self.stored(end),
                    };
                    mapped.delete_range(entry.keyspace, start..&end[..]);
                }
            }
        }
        if batch.wants_sync() {
            mapped.set_sync(true);
        }
        mapped
    }
}
