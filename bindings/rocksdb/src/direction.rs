//! Column families that are sorted in reverse. Their keys are stored as they are, and read backwards.

use esker::{Cursor, KeyRange, Result};
use std::ops::Bound;

/// The longest key of a database.
const KEY_BYTES_MAX: usize = 64 << 10;

/// The way in which a column family sorts keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Direction {
    /// Whether larger keys are first.
    pub is_reverse: bool,
}

/// A move of an iterator, in the order of its column family.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the first key that is not before this one.
    From(&'a [u8]),
    /// To the last key that is not after this one.
    To(&'a [u8]),
    /// To the next key.
    Next,
    /// To the key before.
    Prev,
}

/// The keys that a range delete deletes, in the order of their column family.
#[derive(PartialEq, Eq, Debug)]
pub struct DeletedRange {
    /// The first of them.
    pub start: Vec<u8>,
    /// What follows the last of them, or the last of them.
    pub end: Vec<u8>,
    /// The last of them, if `start` and `end` leave it out.
    pub last: Option<Vec<u8>>,
}

/// The key before `key` in the order of bytes.
fn predecessor(key: &[u8]) -> Vec<u8> {
    let mut before = key.to_vec();
    if let Some(last) = before.last_mut() {
        // Not zero: without it, the key is shorter.
        *last = last.saturating_sub(1);
        before.resize(KEY_BYTES_MAX, 0xff);
    }
    before
}

impl Direction {
    /// The stored keys from `lower` on, up to and without `upper`. `None` is no bound.
    pub fn range(self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> KeyRange {
        let included = |key: &[u8]| Bound::Included(key.to_vec());
        let excluded = |key: &[u8]| Bound::Excluded(key.to_vec());
        let (lower, upper) =
            (lower.map_or(Bound::Unbounded, included), upper.map_or(Bound::Unbounded, excluded));
        match self.is_reverse {
            false => KeyRange { start: lower, end: upper },
            true => KeyRange { start: upper, end: lower },
        }
    }

    /// A stored range delete, as [`Direction::range`] made it, in the order of the column family: from a key on,
    /// up to and without another one, and a third that is deleted, too.
    pub fn deleted(self, start: &[u8], end: Option<&[u8]>) -> DeletedRange {
        let longest = || vec![0xff; KEY_BYTES_MAX];
        if !self.is_reverse {
            let end = end.map_or_else(longest, <[u8]>::to_vec);
            return DeletedRange { start: start.to_vec(), end, last: None };
        }
        // A bound that is included, or excluded below, is stored with a zero behind it. Other programs of Esker
        // may have written other bounds.
        let (last, below) = match start.strip_suffix(&[0]) {
            Some(below) => (None, below),
            None => (Some(start.to_vec()), start),
        };
        let above = end.map_or_else(longest, |end| match end.strip_suffix(&[0]) {
            Some(above) => above.to_vec(),
            None => predecessor(end),
        });
        DeletedRange { start: above, end: below.to_vec(), last }
    }

    /// Whether `one` is sorted before `other`.
    pub fn precedes(self, one: &[u8], other: &[u8]) -> bool {
        if self.is_reverse { one > other } else { one < other }
    }

    /// Moves a cursor over stored keys.
    ///
    /// # Errors
    /// Those of the cursor.
    pub fn step(self, cursor: &mut dyn Cursor, step: Step<'_>) -> Result<()> {
        match (step, self.is_reverse) {
            (Step::First, false) | (Step::Last, true) => cursor.seek_first(),
            (Step::Last, false) | (Step::First, true) => cursor.seek_last(),
            (Step::From(key), false) | (Step::To(key), true) => cursor.seek(key),
            (Step::To(key), false) | (Step::From(key), true) => cursor.seek_back(key),
            (Step::Next, false) | (Step::Prev, true) => cursor.next(),
            (Step::Prev, false) | (Step::Next, true) => cursor.prev(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::WriteBatch;

    #[test]
    fn a_stored_range_has_the_bounds_that_it_was_given() {
        for is_reverse in [false, true] {
            let direction = Direction { is_reverse };
            let (lower, upper): (&[u8], &[u8]) = if is_reverse { (b"d", b"") } else { (b"", b"d") };
            let range = direction.range(Some(lower), Some(upper));
            let has = |key: &[u8]| range.contains(key);
            assert_eq!(
                [has(b""), has(b"a"), has(b"d"), has(b"d\0")],
                match is_reverse {
                    false => [true, true, false, false],
                    true => [false, true, true, false],
                }
            );
            let mut batch = WriteBatch::new();
            batch.delete_range(esker::KeyspaceId::DEFAULT, range);
            let stored = match is_reverse {
                false => (&b""[..], &b"d"[..]),
                true => (&b"\0"[..], &b"d\0"[..]),
            };
            let expected = DeletedRange { start: lower.to_vec(), end: upper.to_vec(), last: None };
            assert_eq!(direction.deleted(stored.0, Some(stored.1)), expected);
            assert!(direction.precedes(lower, upper) && !direction.precedes(lower, lower));
        }
    }

    #[test]
    fn each_stored_range_is_the_same_in_reverse() {
        let mut keys: Vec<&[u8]> =
            vec![b"", b"\0", b"a", b"a\0", b"a\0\0", b"a\xff", b"b", b"\xff"];
        let longest = [0xff; KEY_BYTES_MAX];
        keys.push(&longest);
        let ends = keys.iter().copied().map(Some).chain([None]);
        let bounds = ends.flat_map(|end| keys.iter().map(move |start| (*start, end)));
        for (start, end) in bounds.filter(|(start, end)| end.is_none_or(|end| *start < end)) {
            let deleted = Direction { is_reverse: true }.deleted(start, end);
            for key in &keys {
                let is_stored = *key >= start && end.is_none_or(|end| *key < end);
                let is_between = *key <= &deleted.start[..] && *key > &deleted.end[..];
                let is_last = deleted.last.as_deref() == Some(*key);
                assert_eq!(is_between || is_last, is_stored, "{key:?} of {start:?} to {end:?}");
            }
        }
    }
}
