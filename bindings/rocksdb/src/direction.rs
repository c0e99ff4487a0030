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

    /// The bounds of a stored range delete, as [`Direction::range`] made it.
    pub fn deleted(self, start: &[u8], end: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
        // A bound that is included, or excluded below, is stored with a zero behind it.
        let without = |key: &[u8]| key.strip_suffix(&[0]).unwrap_or(key).to_vec();
        let longest = || vec![0xff; KEY_BYTES_MAX];
        match self.is_reverse {
            false => (start.to_vec(), end.map_or_else(longest, <[u8]>::to_vec)),
            true => (end.map_or_else(longest, without), without(start)),
        }
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
            let bounds = direction.deleted(stored.0, Some(stored.1));
            assert_eq!(bounds, (lower.to_vec(), upper.to_vec()));
            assert!(direction.precedes(lower, upper) && !direction.precedes(lower, lower));
        }
    }
}
