//! Writes that happen together or not at all.

use crate::{KeyRange, KeyspaceRef, StoreId};
use esker_base::{Entry, KeyspaceId, Kind, is_edge_key};
use std::ops::Bound;

/// An ordered list of writes, applied atomically. Later writes win over earlier ones.
///
/// The writes are kept in the encoding that the log uses, so committing a batch is one copy.
///
/// ```
/// use esker_api::WriteBatch;
/// use esker_base::KeyspaceId;
///
/// let mut batch = WriteBatch::new();
/// batch.put(KeyspaceId::DEFAULT, b"stock/42", b"3");
/// batch.delete(KeyspaceId::DEFAULT, b"cart/7");
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Clone, Default, Debug)]
pub struct WriteBatch {
    encoded: Vec<u8>,
    entries: u32,
    longest_key: usize,
    has_empty_key: bool,
    has_edge_keys: bool,
    longest_value: usize,
    /// Each keyspace as it first comes after another, so that a check of all is short.
    first_keyspace: Option<KeyspaceId>,
    more_keyspaces: Vec<KeyspaceId>,
    has_empty_range: bool,
    range_deletes: u32,
    /// The store that made the handles, if one of them says so.
    store: StoreId,
    /// The first handle that another store made.
    foreign: Option<KeyspaceRef>,
    sync: bool,
}

/// A place in a [`WriteBatch`]: see [`WriteBatch::mark`].
#[derive(Clone, Debug)]
pub struct BatchMark {
    bytes: usize,
    more_keyspaces: usize,
    /// The batch's other fields as they were.
    before: WriteBatch,
}

impl BatchMark {
    /// How many bytes of [`WriteBatch::encoded`] lie before the mark.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for `bytes` more of encoded entries, so that filling them in allocates nothing.
    pub fn reserve(&mut self, bytes: usize) {
        self.encoded.reserve(bytes);
    }

    /// Sets `key` to `value` in `keyspace`.
    #[inline]
    pub fn put(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        let (key, value) = (key.as_ref(), value.as_ref());
        let keyspace = self.own(keyspace.into());
        self.push_point(Entry { keyspace, kind: Kind::Put, key, value });
    }

    /// Removes `key` from `keyspace`, whether it is there or not.
    #[inline]
    pub fn delete(&mut self, keyspace: impl Into<KeyspaceRef>, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        let keyspace = self.own(keyspace.into());
        self.push_point(Entry { keyspace, kind: Kind::Delete, key, value: b"" });
    }

    /// Removes all keys in `range`: `b"a"..b"b"`, `key..`, `..=key`, `..`. A database takes 1,024 of
    /// these in a batch.
    ///
    /// The encoded entry has the first key removed, and the first key after the range or nothing if
    /// the range has no end.
    pub fn delete_range(&mut self, keyspace: impl Into<KeyspaceRef>, range: impl Into<KeyRange>) {
        let KeyRange { start, end } = range.into();
        for bound in [&start, &end] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                self.longest_key = self.longest_key.max(key.len());
            }
        }
        let after = |mut key: Vec<u8>| {
            key.push(0);
            key
        };
        let start = match start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key,
            Bound::Excluded(key) => after(key),
        };
        let end = match end {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key),
        };
        self.has_empty_range |= end.as_ref().is_some_and(|end| *end <= start);
        let end = end.unwrap_or_default();
        self.has_edge_keys |= is_edge_key(&start) || is_edge_key(&end);
        self.range_deletes += 1;
        let keyspace = self.own(keyspace.into());
        self.push(Entry { keyspace, kind: Kind::RangeDelete, key: &start, value: &end });
    }

    /// Removes all keys of `keyspace`.
    pub fn clear_keyspace(&mut self, keyspace: impl Into<KeyspaceRef>) {
        self.delete_range(keyspace, ..);
    }

    /// Asks that this batch survives power loss once it is acknowledged, whatever the log's mode.
    pub fn sync(&mut self) -> &mut Self {
        self.sync = true;
        self
    }

    /// Notes which store made the handle.
    #[inline]
    fn own(&mut self, keyspace: KeyspaceRef) -> KeyspaceId {
        if keyspace.store != self.store && keyspace.store != StoreId::ANY {
            if self.store == StoreId::ANY {
                self.store = keyspace.store;
            } else {
                self.foreign.get_or_insert(keyspace);
            }
        }
        keyspace.id
    }

    #[inline]
    fn push_point(&mut self, entry: Entry<'_>) {
        self.longest_key = self.longest_key.max(entry.key.len());
        self.longest_value = self.longest_value.max(entry.value.len());
        if is_edge_key(entry.key) {
            self.has_edge_keys = true;
            self.has_empty_key |= entry.key.is_empty();
        }
        self.push(entry);
    }

    #[inline]
    fn push(&mut self, entry: Entry<'_>) {
        let last = self.more_keyspaces.last().copied().or(self.first_keyspace);
        if last != Some(entry.keyspace) {
            match self.first_keyspace {
                None => self.first_keyspace = Some(entry.keyspace),
                Some(_) => self.more_keyspaces.push(entry.keyspace),
            }
        }
        entry.encode(&mut self.encoded);
        self.entries += 1;
    }

    /// The present end of the batch, to go back to.
    pub fn mark(&self) -> BatchMark {
        BatchMark {
            bytes: self.encoded.len(),
            more_keyspaces: self.more_keyspaces.len(),
            before: WriteBatch { encoded: Vec::new(), more_keyspaces: Vec::new(), ..*self },
        }
    }

    /// Forgets all writes since `mark`, which is of this batch, and before which nothing was
    /// forgotten since.
    pub fn truncate(&mut self, mark: &BatchMark) {
        let mut encoded = std::mem::take(&mut self.encoded);
        let mut more_keyspaces = std::mem::take(&mut self.more_keyspaces);
        assert!(mark.bytes <= encoded.len(), "the mark is beyond the batch's end");
        encoded.truncate(mark.bytes);
        more_keyspaces.truncate(mark.more_keyspaces);
        *self = WriteBatch { encoded, more_keyspaces, sync: self.sync, ..mark.before };
    }

    /// Forgets all writes, and keeps the memory.
    pub fn clear(&mut self) {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        *self = WriteBatch { encoded, ..Self::default() };
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// Whether there is no write.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The encoded entries, back to back: see [`Entry`].
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = &self.encoded[..];
        std::iter::from_fn(move || Entry::decode_unstored(&mut rest))
    }

    /// The keyspaces written to. One comes again if others come between.
    pub fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> + '_ {
        self.first_keyspace.into_iter().chain(self.more_keyspaces.iter().copied())
    }

    /// Returns a handle that was used in the batch and that the store with the id `store` did not
    /// make, or `None`. A store refuses the batch if there is one.
    #[inline]
    pub fn foreign_to(&self, store: StoreId) -> Option<KeyspaceRef> {
        if self.store != store && self.store != StoreId::ANY {
            let id = self.first_keyspace.unwrap_or(KeyspaceId::DEFAULT);
            return Some(KeyspaceRef { id, store: self.store });
        }
        self.foreign
    }

    /// The length of the longest key, range ends included.
    pub fn longest_key(&self) -> usize {
        self.longest_key
    }

    /// Whether a put or a delete has the empty key. Only databases take such a batch.
    pub fn has_empty_key(&self) -> bool {
        self.has_empty_key
    }

    /// Whether a key or a bound is one that a database stores as another: see
    /// `esker_base::stored_key`. A range without a start or an end counts.
    pub fn has_edge_keys(&self) -> bool {
        self.has_edge_keys
    }

    /// Whether some range ends at or before its start. Such a batch is refused.
    pub fn has_empty_range(&self) -> bool {
        self.has_empty_range
    }

    /// Whether there is a range delete.
    pub fn has_range_delete(&self) -> bool {
        self.range_deletes > 0
    }

    /// How many range deletes there are.
    pub fn range_deletes(&self) -> usize {
        self.range_deletes as usize
    }

    /// The length of the longest value.
    pub fn longest_value(&self) -> usize {
        self.longest_value
    }

    /// Whether [`WriteBatch::sync`] was asked for.
    pub fn wants_sync(&self) -> bool {
        self.sync
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_the_order_they_went_in() {
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId(1), b"a", b"1");
        batch.delete(KeyspaceId(2), b"b");
        batch.delete_range(KeyspaceId(1), b"c"..b"d");
        let kinds: Vec<_> = batch.iter().map(|entry| (entry.keyspace.0, entry.kind)).collect();
        assert_eq!(kinds, [(1, Kind::Put), (2, Kind::Delete), (1, Kind::RangeDelete)]);
        let keyspaces: Vec<_> = batch.keyspaces().map(|id| id.0).collect();
        assert_eq!(keyspaces, [1, 2, 1]);
    }

    #[test]
    fn a_truncated_batch_is_as_it_was_at_the_mark() {
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId(1), b"a", b"1");
        batch.delete(KeyspaceId(2), b"b");
        let (mark, before) = (batch.mark(), format!("{batch:?}"));
        batch.put(KeyspaceId(3), b"a long key", b"a long value");
        batch.delete_range(KeyspaceId(2), b"z"..b"a");
        batch.truncate(&mark);
        assert_eq!(format!("{batch:?}"), before);
    }

    #[test]
    fn a_batch_knows_the_handles_that_a_store_did_not_make() {
        let (own, other) = (StoreId::next(), StoreId::next());
        let of = |store| KeyspaceRef { id: KeyspaceId(1), store };
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId(1), b"a", b"");
        assert_eq!(batch.foreign_to(own), None, "a bare id is not checked");
        batch.put(of(own), b"b", b"");
        let mark = batch.mark();
        batch.delete(KeyspaceId(1), b"c");
        assert_eq!(batch.foreign_to(own), None);
        assert_eq!(batch.foreign_to(other), Some(of(own)));
        batch.delete(of(other), b"d");
        assert_eq!(batch.foreign_to(own), Some(of(other)));
        batch.put(of(own), b"e", b"");
        assert_eq!(batch.foreign_to(own), Some(of(other)));
        batch.truncate(&mark);
        assert_eq!(batch.foreign_to(own), None);
        batch.clear();
        assert_eq!(batch.foreign_to(other), None);
    }

    #[test]
    fn every_form_of_a_range_says_which_keys_it_removes() {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let bounds = |range: KeyRange| {
            let mut batch = WriteBatch::new();
            batch.delete_range(KeyspaceId(1), range);
            let entry = batch.iter().next().unwrap();
            let found = (entry.key.to_vec(), entry.value.to_vec());
            (found, batch.has_empty_range(), batch.has_edge_keys())
        };
        let of = |start: &[u8], end: &[u8]| (start.to_vec(), end.to_vec());
        assert_eq!(bounds((b"a"..b"c").into()), (of(b"a", b"c"), false, false));
        assert_eq!(bounds((b"a"..=b"c").into()), (of(b"a", b"c\0"), false, false));
        let range = KeyRange { start: Excluded(b"a".to_vec()), end: Excluded(b"c".to_vec()) };
        assert_eq!(bounds(range), (of(b"a\0", b"c"), false, false));
        assert_eq!(bounds((b"a"..).into()), (of(b"a", b""), false, true));
        assert_eq!(bounds((..b"c").into()), (of(b"", b"c"), false, true));
        assert_eq!(bounds(KeyRange::all()), (of(b"", b""), false, true));
        assert!(bounds((b"c"..b"c").into()).1);
        assert!(bounds(KeyRange { start: Unbounded, end: Excluded(Vec::new()) }).1);
        assert!(!bounds(KeyRange { start: Unbounded, end: Included(Vec::new()) }).1);
    }

    #[test]
    fn a_cleared_batch_is_as_new() {
        let mut batch = WriteBatch::new();
        batch.delete_range(KeyspaceId(1), b"z"..b"a");
        batch.sync();
        batch.clear();
        assert!(batch.is_empty() && !batch.has_empty_range() && !batch.wants_sync());
        assert_eq!(batch.iter().count(), 0);
    }
}
