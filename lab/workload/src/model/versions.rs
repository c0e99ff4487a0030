//! All versions of all keys, and lookups at a snapshot.

use esker_base::{MAX_SEQNO, Seqno};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Ordered by key, then newest first.
type VersionKey = (Vec<u8>, Reverse<Seqno>);

/// Every version of every key.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// What each write left: a value, or nothing for a delete.
    pub(super) map: BTreeMap<VersionKey, Option<Vec<u8>>>,
    /// The seqno of the last write.
    pub(super) newest: Seqno,
}

impl Versions {
    /// Adds a version of `key` at the newest seqno.
    pub(super) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.map.insert((key.to_vec(), Reverse(self.newest)), value.map(<[u8]>::to_vec));
    }

    /// The value of `key` at `at`.
    pub(super) fn get(&self, key: &[u8], at: Seqno) -> Option<&[u8]> {
        let newest_first = (key.to_vec(), Reverse(at))..=(key.to_vec(), Reverse(0));
        self.map.range(newest_first).next()?.1.as_deref()
    }

    /// The first live entry whose key is within `bounds`.
    pub(super) fn first(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), at: Seqno) -> Option<Pair> {
        let mut start = bounds.0.map(<[u8]>::to_vec);
        loop {
            let from = match start {
                Bound::Included(key) => Bound::Included((key, Reverse(MAX_SEQNO))),
                Bound::Excluded(key) => Bound::Excluded((key, Reverse(0))),
                Bound::Unbounded => Bound::Unbounded,
            };
            let key = &self.map.range((from, Bound::Unbounded)).next()?.0.0;
            if is_past(key, bounds.1) {
                return None;
            }
            if let Some(value) = self.get(key, at) {
                return Some((key.clone(), value.to_vec()));
            }
            start = Bound::Excluded(key.clone());
        }
    }

    /// The last live entry whose key is within `bounds`.
    pub(super) fn last(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), at: Seqno) -> Option<Pair> {
        let mut end = bounds.1.map(<[u8]>::to_vec);
        loop {
            let to = match end {
                Bound::Included(key) => Bound::Included((key, Reverse(0))),
                Bound::Excluded(key) => Bound::Excluded((key, Reverse(MAX_SEQNO))),
                Bound::Unbounded => Bound::Unbounded,
            };
            let key = &self.map.range((Bound::Unbounded, to)).next_back()?.0.0;
            if is_before(key, bounds.0) {
                return None;
            }
            if let Some(value) = self.get(key, at) {
                return Some((key.clone(), value.to_vec()));
            }
            end = Bound::Excluded(key.clone());
        }
    }
}

fn is_past(key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

fn is_before(key: &[u8], start: Bound<&[u8]>) -> bool {
    match start {
        Bound::Included(start) => key < start,
        Bound::Excluded(start) => key <= start,
        Bound::Unbounded => false,
    }
}
