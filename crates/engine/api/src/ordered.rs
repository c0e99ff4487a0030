//! Ranges, cursors and snapshots.

use crate::{Kv, StoreId, WriteBatch};
use esker_base::{Result, Seqno, key::prefix_end};
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// An owned range of keys.
///
/// Every range of byte strings converts into one: `"a".."b"`, `key..`, `..=key`, `..`, or two
/// bounds.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_api::KeyRange; }
/// use esker::KeyRange;
///
/// let range = KeyRange::from("a"..="c");
/// assert!(range.contains(b"c") && !range.contains(b"ca"));
/// assert!(KeyRange::prefix("user/").contains(b"user/7"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// The lower bound.
    pub start: Bound<Vec<u8>>,
    /// The upper bound.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of all keys.
    pub fn all() -> Self {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// Returns the range of the keys within `bounds`: `b"a".as_slice()..b"b"`, `..`, and so on.
    pub fn of<K: AsRef<[u8]> + ?Sized>(bounds: impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        KeyRange { start: owned(bounds.start_bound()), end: owned(bounds.end_bound()) }
    }

    /// Returns the range of the keys that start with `prefix`.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref();
        KeyRange {
            start: Bound::Included(prefix.to_vec()),
            end: prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// Returns the range of an encoded range delete: from `start` up to, not including, `end`.
    ///
    /// An empty `end` is no upper bound.
    pub fn deleted(start: &[u8], end: &[u8]) -> Self {
        let end = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.to_vec()) };
        KeyRange { start: Bound::Included(start.to_vec()), end }
    }

    /// Whether `key` is above the upper bound.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key > &end[..],
            Bound::Excluded(end) => key >= &end[..],
            Bound::Unbounded => false,
        }
    }

    /// Whether `key` is below the lower bound.
    #[inline]
    pub fn starts_after(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Included(start) => key < &start[..],
            Bound::Excluded(start) => key <= &start[..],
            Bound::Unbounded => false,
        }
    }

    /// Whether `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.starts_after(key) && !self.ends_before(key)
    }
}

impl From<RangeFull> for KeyRange {
    fn from(_: RangeFull) -> Self {
        KeyRange::all()
    }
}

impl<K: AsRef<[u8]>> From<(Bound<K>, Bound<K>)> for KeyRange {
    fn from((start, end): (Bound<K>, Bound<K>)) -> Self {
        let owned = |bound: Bound<K>| bound.map(|key| key.as_ref().to_vec());
        KeyRange { start: owned(start), end: owned(end) }
    }
}

macro_rules! from_range {
    ($($range:ident),*) => {$(
        impl<K: AsRef<[u8]>> From<$range<K>> for KeyRange {
            fn from(range: $range<K>) -> Self {
                KeyRange::of::<K>(range)
            }
        }
    )*};
}

from_range!(Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive);

/// A consistent view of a store at one point in time. It lasts until the value is dropped.
pub trait Snapshot: Send + Sync {
    /// Returns the sequence number of the last write that the snapshot sees.
    fn seqno(&self) -> Seqno;

    /// Returns the id of the store that made the snapshot, or [`StoreId::ANY`].
    fn store(&self) -> StoreId {
        StoreId::ANY
    }
}

/// A position in the entries of a range, at one snapshot, movable in both directions.
///
/// A new cursor has no position: call a `seek` method first. After a move out of the range, and
/// after an error, it has none either, and [`Cursor::current`] returns `None`.
///
/// # Errors
///
/// Every move fails with the errors of a read, such as [`Error::Io`](esker_base::Error::Io) and
/// [`Error::Corruption`](esker_base::Error::Corruption).
pub trait Cursor {
    /// Moves to the first entry of the range.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry of the range.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the last entry at or before `key`.
    fn seek_back(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the next entry. A cursor without a position stays without one.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry. A cursor without a position stays without one.
    fn prev(&mut self) -> Result<()>;
    /// Returns the key and the value of the current entry, or `None`.
    fn current(&self) -> Option<(&[u8], &[u8])>;
}

/// One keyspace of an ordered store.
pub trait Ordered: Kv {
    /// Returns a cursor over `range` at a new snapshot.
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>>;

    /// Returns a cursor over `range` at `snapshot`, which this store made.
    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>>;

    /// Returns the value of `key` at `snapshot`, which this store made, or `None`.
    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<crate::Value>>;

    /// Takes a snapshot.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Deletes all keys in `range`.
    fn delete_range(&self, range: KeyRange) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(self.keyspace_ref(), range);
        self.write(&batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_range_holds_just_the_keys_with_the_prefix() {
        let range = KeyRange::prefix(b"ab");
        assert!(range.contains(b"ab") && range.contains(b"ab\xff\xff"));
        assert!(!range.contains(b"aa\xff") && !range.contains(b"ac"));
        assert!(KeyRange::prefix(b"\xff").contains(b"\xff\xff"));
    }

    #[test]
    fn bounds_are_kept_as_given() {
        let range = KeyRange::of::<[u8]>((Bound::Excluded(&b"a"[..]), Bound::Included(&b"c"[..])));
        assert!(!range.contains(b"a") && range.contains(b"b") && range.contains(b"c"));
        assert!(KeyRange::of::<[u8]>(..).contains(b"anything"));
    }
}
