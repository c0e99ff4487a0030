//! What a serializable transaction has read, to be tested at its commit: keys, and the ranges that its
//! cursors went over, whether anything was in them or not.

use esker_api::KeyRange;
use esker_base::KeyspaceId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// See the file's head.
#[derive(Default)]
pub(crate) struct ReadSet {
    keys: BTreeMap<KeyspaceId, BTreeSet<Vec<u8>>>,
    ranges: Vec<(KeyspaceId, KeyRange)>,
}

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// Adds a key, whether it was there or not.
    pub(crate) fn add_key(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        let keys = self.keys.entry(keyspace).or_default();
        if !keys.contains(key) {
            keys.insert(key.to_vec());
        }
    }

    /// Adds all keys in `range`.
    pub(crate) fn add_range(&mut self, keyspace: KeyspaceId, range: KeyRange) {
        match (&range.start, &range.end) {
            (Bound::Included(first), Bound::Included(last)) if first == last => {
                self.add_key(keyspace, first);
            }
            _ => self.ranges.push((keyspace, range)),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (KeyspaceId, &[u8])> {
        self.keys.iter().flat_map(|(&id, keys)| keys.iter().map(move |key| (id, &key[..])))
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (KeyspaceId, &KeyRange)> {
        self.ranges.iter().map(|(id, range)| (*id, range))
    }
}

/// The range that a cursor has gone over since it was last sent somewhere.
pub(crate) struct ScannedRange<'a> {
    reads: &'a mut ReadSet,
    keyspace: KeyspaceId,
    range: KeyRange,
    seen: Option<KeyRange>,
}

impl<'a> ScannedRange<'a> {
    pub(crate) fn new(reads: &'a mut ReadSet, keyspace: KeyspaceId, range: KeyRange) -> Self {
        ScannedRange { reads, keyspace, range, seen: None }
    }

    /// The cursor looked for the first entry from `key` on, or from the range's start, and landed.
    pub(crate) fn sought(&mut self, key: Option<&[u8]>, landed: Option<&[u8]>) {
        let start = match key {
            Some(key) if !self.range.starts_after(key) => Bound::Included(key.to_vec()),
            _ => self.range.start.clone(),
        };
        self.begin(KeyRange { start, end: bound(landed, &self.range.end) });
    }

    /// The cursor looked for the last entry up to `key`, or up to the range's end, and landed.
    pub(crate) fn sought_back(&mut self, key: Option<&[u8]>, landed: Option<&[u8]>) {
        let end = match key {
            Some(key) if !self.range.ends_before(key) => Bound::Included(key.to_vec()),
            _ => self.range.end.clone(),
        };
        self.begin(KeyRange { start: bound(landed, &self.range.start), end });
    }

    /// The cursor went on and landed.
    pub(crate) fn record_next(&mut self, landed: Option<&[u8]>) {
        let Some(seen) = &mut self.seen else { return };
        if landed.is_none_or(|key| seen.ends_before(key)) {
            seen.end = bound(landed, &self.range.end);
        }
    }

    /// The cursor went back and landed.
    pub(crate) fn went_back(&mut self, landed: Option<&[u8]>) {
        let Some(seen) = &mut self.seen else { return };
        if landed.is_none_or(|key| seen.starts_after(key)) {
            seen.start = bound(landed, &self.range.start);
        }
    }

    fn begin(&mut self, seen: KeyRange) {
        self.finish();
        self.seen = Some(seen);
    }

    fn finish(&mut self) {
        if let Some(seen) = self.seen.take() {
            self.reads.add_range(self.keyspace, seen);
        }
    }
}

impl Drop for ScannedRange<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

fn bound(landed: Option<&[u8]>, otherwise: &Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match landed {
        Some(key) => Bound::Included(key.to_vec()),
        None => otherwise.clone(),
    }
}
