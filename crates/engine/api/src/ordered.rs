//! Ranges, cursors and snapshots.

use crate::{Kv, StoreId, WriteBatch};
use esker_base::{Result, Seqno, key::prefix_end};
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// An owned range of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// Where the range starts.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> Self {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// The keys within `bounds`: `b"a".as_slice()..b"b"`, `..`, and so on.
    pub fn of<K: AsRef<[u8]> + ?Sized>(bounds: impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        KeyRange { start: owned(bounds.start_bound()), end: owned(bounds.end_bound()) }
    }

    /// The keys that start with `prefix`.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref();
        KeyRange {
            start: Bound::Included(prefix.to_vec()),
            end: prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// The range of a range delete, as a batch has it: from `start` up to, not including, `end`, or
    /// to the last key if `end` is empty.
    pub fn deleted(start: &[u8], end: &[u8]) -> Self {
        let end = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.to_vec()) };
        KeyRange { start: Bound::Included(start.to_vec()), end }
    }

    /// Whether `key` is past the end.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key > &end[..],
            Bound::Excluded(end) => key >= &end[..],
            Bound::Unbounded => false,
        }
    }

    /// Whether `key` is before the start.
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

/// A moment of a store that reads can be made at. The moment lasts until the value is dropped.
pub trait Snapshot: Send + Sync {
    /// The last write that the snapshot sees.
    fn seqno(&self) -> Seqno;

    /// The store that made the snapshot, if it has an id.
    fn store(&self) -> StoreId {
        StoreId::ANY
    }
}

/// A position in the pairs of a range, as of one moment, in either direction.
///
/// A new cursor stands nowhere: seek first. Outside the range, and after an error, it is not valid.
pub trait Cursor {
    /// Goes to the first pair of the range.
    fn seek_first(&mut self) -> Result<()>;
    /// Goes to the last pair of the range.
    fn seek_last(&mut self) -> Result<()>;
    /// Goes to the first pair at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Goes to the last pair at or before `key`.
    fn seek_back(&mut self, key: &[u8]) -> Result<()>;
    /// Goes one pair on.
    fn next(&mut self) -> Result<()>;
    /// Goes one pair back.
    fn prev(&mut self) -> Result<()>;
    /// The pair that the cursor stands on, or `None`.
    fn current(&self) -> Option<(&[u8], &[u8])>;
}

/// One keyspace of an ordered store.
pub trait Ordered: Kv {
    /// A cursor over `range` as of now.
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>>;

    /// A cursor over `range` as of `snapshot`, which this store made.
    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>>;

    /// The value of `key` as of `snapshot`, which this store made.
    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<crate::Value>>;

    /// The present moment.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Removes all keys in `range`.
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
