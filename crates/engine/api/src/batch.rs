//! Batches of writes that are applied atomically.

use crate::{KeyRange, KeyspaceRef, StoreId};
use esker_base::{EXPIRY_BYTES, Entry, KeyspaceId, Kind, MAX_KEY_BYTES, is_edge_key, split_expiry};
use smallvec::SmallVec;
use std::ops::Bound;
use std::time::Duration;

/// An ordered list of writes that are applied atomically. Later writes win over earlier ones.
///
/// The batch holds the encoding of the log, so that a write copies it once.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_api::WriteBatch; pub use esker_base::KeyspaceId; }
/// use esker::{KeyspaceId, WriteBatch};
///
/// let mut batch = WriteBatch::new();
/// batch.put(KeyspaceId::DEFAULT, b"stock/42", b"3");
/// batch.delete(KeyspaceId::DEFAULT, b"cart/7");
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Clone, Default, Debug)]
#[must_use = "a batch writes nothing until it is written"]
pub struct WriteBatch {
    encoded: Vec<u8>,
    entries: u32,
    longest_key: usize,
    has_empty_key: bool,
    has_edge_keys: bool,
    longest_value: usize,
    /// Each keyspace as it first comes after another, so that a check of all is short.
    first_keyspace: Option<KeyspaceId>,
    more_keyspaces: SmallVec<[KeyspaceId; 4]>,
    has_empty_range: bool,
    range_deletes: u32,
    merges: u32,
    expiring: u32,
    /// The store that made the handles, if one of them says so.
    store: StoreId,
    /// The first handle that another store made.
    foreign: Option<KeyspaceRef>,
    sync: bool,
}

/// A position in a [`WriteBatch`]: see [`WriteBatch::mark`].
#[derive(Clone, Debug)]
pub struct BatchMark {
    bytes: usize,
    more_keyspaces: usize,
    /// The batch's other fields as they were.
    before: WriteBatch,
}

impl BatchMark {
    /// Returns the number of bytes of [`WriteBatch::encoded`] before the mark.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl WriteBatch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a copy that has capacity for `bytes` more bytes of encoded entries.
    pub fn clone_with_capacity(&self, bytes: usize) -> Self {
        let mut encoded = Vec::with_capacity(self.encoded.len() + bytes);
        encoded.extend_from_slice(&self.encoded);
        WriteBatch { encoded, more_keyspaces: self.more_keyspaces.clone(), ..*self }
    }

    /// Reserves memory for `bytes` more bytes of encoded entries.
    pub fn reserve(&mut self, bytes: usize) {
        self.encoded.reserve(bytes);
    }

    /// Adds a write that sets `key` to `value` in `keyspace`.
    ///
    /// Limits of keys, values and batches are checked when the batch is written.
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

    /// Adds a write that deletes `key` from `keyspace`, whether it exists or not.
    #[inline]
    pub fn delete(&mut self, keyspace: impl Into<KeyspaceRef>, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        let keyspace = self.own(keyspace.into());
        self.push_point(Entry { keyspace, kind: Kind::Delete, key, value: b"" });
    }

    /// Adds a write that merges `operand` into the value of `key`, by the merge operator of
    /// `keyspace`.
    ///
    /// Operands of one key in one batch are merged in their order.
    #[inline]
    pub fn merge(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) {
        let (key, value) = (key.as_ref(), operand.as_ref());
        self.merges += 1;
        let keyspace = self.own(keyspace.into());
        self.push_point(Entry { keyspace, kind: Kind::Merge, key, value });
    }

    /// Adds a write that sets `key` to `value` for the time `ttl`, which begins when the batch is
    /// written. Then the key has no value.
    ///
    /// A database rounds the time up to milliseconds. The encoded entry has the time, then the value.
    pub fn put_with_ttl(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) {
        let (key, value) = (key.as_ref(), value.as_ref());
        let millis = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let value = [&millis.to_le_bytes()[..], value].concat();
        self.expiring += 1;
        let keyspace = self.own(keyspace.into());
        self.push_point(Entry { keyspace, kind: Kind::ExpiringPut, key, value: &value });
    }

    /// Makes times of all times to live, which begin at `now`, in milliseconds since 1970-01-01.
    #[doc(hidden)]
    pub fn begin_ttls(&mut self, now: u64) {
        let encoded_bytes = self.encoded.len();
        let mut at = 0;
        while at < encoded_bytes {
            let mut rest = &self.encoded[at..];
            let Some(entry) = Entry::decode_unstored(&mut rest) else { return };
            let end = encoded_bytes - rest.len();
            if entry.kind == Kind::ExpiringPut
                && let Some((ttl, _)) = split_expiry(entry.value)
            {
                let time = end - entry.value.len();
                let expiry = now.saturating_add(ttl).to_le_bytes();
                self.encoded[time..time + EXPIRY_BYTES].copy_from_slice(&expiry);
            }
            at = end;
        }
    }

    /// Adds a write that deletes all keys in `range`: `b"a"..b"b"`, `key..`, `..=key`, `..`.
    ///
    /// A database accepts 1,024 range deletes per batch, and rejects a batch with an empty range.
    /// The encoded entry has the first deleted key and the first key after the range; the latter is
    /// empty if the range has no end.
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

    /// Adds a write that deletes all keys of `keyspace`.
    pub fn clear_keyspace(&mut self, keyspace: impl Into<KeyspaceRef>) {
        self.delete_range(keyspace, ..);
    }

    /// Adds an entry with a stored key, as a log has it.
    #[doc(hidden)]
    pub fn push_stored(&mut self, entry: Entry<'_>) {
        // A stored key may be a byte longer than the user's.
        self.longest_key = self.longest_key.max(entry.key.len().min(MAX_KEY_BYTES));
        self.longest_value = self.longest_value.max(entry.value.len());
        self.range_deletes += u32::from(entry.kind == Kind::RangeDelete);
        self.merges += u32::from(entry.kind == Kind::Merge);
        self.expiring += u32::from(entry.kind == Kind::ExpiringPut);
        self.push(entry);
    }

    /// Whether the batch survives power loss once the write returns, whatever the sync mode of the
    /// log. The default is `false`, and [`WriteBatch::clear`] restores it.
    pub fn set_sync(&mut self, sync: bool) -> &mut Self {
        self.sync = sync;
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

    /// Returns the current end of the batch, for [`WriteBatch::truncate`].
    pub fn mark(&self) -> BatchMark {
        BatchMark {
            bytes: self.encoded.len(),
            more_keyspaces: self.more_keyspaces.len(),
            before: WriteBatch { encoded: Vec::new(), more_keyspaces: SmallVec::new(), ..*self },
        }
    }

    /// Removes all writes since `mark`.
    ///
    /// The mark must be of this batch, and no write before it may have been removed since.
    ///
    /// # Panics
    /// If the mark is beyond the end of the batch.
    pub fn truncate(&mut self, mark: &BatchMark) {
        let mut encoded = std::mem::take(&mut self.encoded);
        let mut more_keyspaces = std::mem::take(&mut self.more_keyspaces);
        assert!(mark.bytes <= encoded.len(), "the mark is beyond the batch's end");
        encoded.truncate(mark.bytes);
        more_keyspaces.truncate(mark.more_keyspaces);
        *self = WriteBatch { encoded, more_keyspaces, sync: self.sync, ..mark.before };
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        *self = WriteBatch { encoded, ..Self::default() };
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// Whether the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the encoded entries, back to back: see [`Entry`].
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Iterates over the entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = &self.encoded[..];
        std::iter::from_fn(move || Entry::decode_unstored(&mut rest))
    }

    /// Iterates over the keyspaces that are written to. A keyspace may occur several times.
    pub fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> + '_ {
        self.first_keyspace.into_iter().chain(self.more_keyspaces.iter().copied())
    }

    /// Returns a handle in the batch that the store with the id `store` did not make, or `None`.
    ///
    /// A store rejects a batch with such a handle.
    #[inline]
    pub fn foreign_to(&self, store: StoreId) -> Option<KeyspaceRef> {
        if self.store != store && self.store != StoreId::ANY {
            let id = self.first_keyspace.unwrap_or(KeyspaceId::DEFAULT);
            return Some(KeyspaceRef { id, store: self.store });
        }
        self.foreign
    }

    /// Returns the length of the longest key in bytes, bounds of ranges included.
    pub fn longest_key(&self) -> usize {
        self.longest_key
    }

    /// Whether a put or a delete has the empty key. Hash stores reject such a batch.
    pub fn has_empty_key(&self) -> bool {
        self.has_empty_key
    }

    /// Whether a database stores a key or a bound under another key: see `esker_base::stored_key`.
    ///
    /// A range without a start or an end counts.
    pub fn has_edge_keys(&self) -> bool {
        self.has_edge_keys
    }

    /// Whether a range delete ends at or before its start. Databases reject such a batch.
    pub fn has_empty_range(&self) -> bool {
        self.has_empty_range
    }

    /// Whether the batch has a range delete.
    pub fn has_range_delete(&self) -> bool {
        self.range_deletes > 0
    }

    /// Returns the number of range deletes.
    pub fn range_deletes(&self) -> usize {
        self.range_deletes as usize
    }

    /// Whether the batch has a merge.
    #[inline]
    pub fn has_merges(&self) -> bool {
        self.merges > 0
    }

    /// Whether the batch has a put with a time to live.
    #[inline]
    pub fn has_ttl(&self) -> bool {
        self.expiring > 0
    }

    /// Returns the length of the longest value, in bytes.
    pub fn longest_value(&self) -> usize {
        self.longest_value
    }

    /// Whether [`WriteBatch::set_sync`] asked for durability.
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
    fn times_to_live_begin_once_and_change_nothing_else() {
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId(1), b"a", [7; 20]);
        assert!(!batch.has_ttl());
        batch.put_with_ttl(KeyspaceId(1), b"b", b"value", Duration::from_micros(4_001));
        batch.put_with_ttl(KeyspaceId(2), b"c", b"", Duration::MAX);
        assert!(batch.has_ttl());
        let found = |batch: &WriteBatch| -> Vec<(Vec<u8>, Kind, Vec<u8>)> {
            batch.iter().map(|it| (it.key.to_vec(), it.kind, it.value.to_vec())).collect()
        };
        let expected = |time: u64| {
            let put = (b"a".to_vec(), Kind::Put, vec![7; 20]);
            let b = [&time.to_le_bytes()[..], b"value"].concat();
            let c = u64::MAX.to_le_bytes().to_vec();
            [put, (b"b".to_vec(), Kind::ExpiringPut, b), (b"c".to_vec(), Kind::ExpiringPut, c)]
        };
        assert_eq!(found(&batch), expected(5), "in milliseconds, rounded up");
        batch.begin_ttls(1_000);
        assert_eq!(found(&batch), expected(1_005));
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
        batch.set_sync(true);
        batch.clear();
        assert!(batch.is_empty() && !batch.has_empty_range() && !batch.wants_sync());
        assert_eq!(batch.iter().count(), 0);
    }
}
