//! What a transaction has written so far: a batch, ready to be committed, and an index over it, made
//! when the transaction first reads something and brought up to date by later reads. A transaction that
//! only writes has none.

use crate::deleted_ranges::DeletedRanges;
use esker_api::{BatchLimits, BatchMark, WriteBatch};
use esker_base::{EXPIRY_BYTES, Entry, Error, KeyspaceId, Kind, Result, is_edge_key, split_expiry};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Space that is reserved at the first write: what a dozen rows of 100 bytes use. Growing to it step by step
/// took a third of what ten puts in a transaction cost beyond a plain batch.
const FIRST_BYTES: usize = 2 << 10;

/// An edge key is stored with one byte more, and its length may take one byte more.
const EDGE_KEY_BYTES: usize = 2;

/// Where the newest write of a key is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A put: its value's place in the encoded batch.
    Put(Range<usize>),
    /// A delete.
    Deleted,
    /// Merges, the last of them after all puts and deletes of the key.
    Merged(Box<OwnMerges>),
}

/// The merges of a key.
#[derive(Clone, Debug)]
pub(crate) struct OwnMerges {
    base: MergeBase,
    /// The oldest first.
    operands: Vec<Range<usize>>,
}

/// What operands are merged into.
#[derive(Clone, Debug)]
enum MergeBase {
    /// The value of a put of the batch.
    Own(Range<usize>),
    /// Nothing: the batch deletes the key.
    Absent,
    /// What the store has.
    Stored,
}

impl OwnMerges {
    /// The value that `merge` makes of the base and the operands, which are in `encoded` or are what
    /// the store has.
    pub(crate) fn value<T>(
        &self,
        encoded: &[u8],
        stored: Option<&[u8]>,
        merge: impl FnOnce(Option<&[u8]>, &[&[u8]]) -> T,
    ) -> T {
        let base = match &self.base {
            MergeBase::Own(value) => Some(&encoded[value.clone()]),
            MergeBase::Absent => None,
            MergeBase::Stored => stored,
        };
        let operands: Vec<&[u8]> = self.operands.iter().map(|it| &encoded[it.clone()]).collect();
        merge(base, &operands)
    }
}

/// The newest write of each key of a keyspace.
pub(crate) type Keys = BTreeMap<Vec<u8>, Place>;

/// The writes to a keyspace.
#[derive(Default)]
struct Index {
    keys: Keys,
    /// They hide what the store has. Keys that were written before a range delete are not in `keys`.
    deleted: DeletedRanges,
}

impl Index {
    /// Adds an operand.
    fn merge(&mut self, key: &[u8], operand: Range<usize>) {
        let place = self.keys.get_mut(key);
        let base = match place {
            Some(Place::Merged(merges)) => return merges.operands.push(operand),
            Some(Place::Put(value)) => MergeBase::Own(value.clone()),
            Some(Place::Deleted) => MergeBase::Absent,
            None if self.deleted.covering(key).is_some() => MergeBase::Absent,
            None => MergeBase::Stored,
        };
        let merges = OwnMerges { base, operands: vec![operand] };
        self.keys.insert(key.to_vec(), Place::Merged(Box::new(merges)));
    }
}

/// The writes to a keyspace, for reads.
#[derive(Clone, Copy)]
pub(crate) struct OwnWrites<'t> {
    pub(crate) keys: &'t Keys,
    /// The bytes that the places of values are in.
    pub(crate) encoded: &'t [u8],
    pub(crate) deleted: &'t DeletedRanges,
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct WriteSet {
    batch: WriteBatch,
    index: BTreeMap<KeyspaceId, Index>,
    /// How much of the encoded batch the index covers.
    indexed_bytes: usize,
    /// What the store may add to the batch for its edge keys, in bytes.
    edge_bytes: usize,
    /// With the edge bytes of each.
    savepoints: Vec<(BatchMark, usize)>,
}

impl WriteSet {
    /// Adds a write, unless the batch would become larger than `limits`.
    #[inline]
    pub(crate) fn push(&mut self, entry: &Entry<'_>, limits: BatchLimits) -> Result<()> {
        let edge_bytes = self.edge_bytes + edge_bytes(entry);
        let bytes = self.batch.encoded().len() + entry.encoded_bytes() + edge_bytes;
        let is_too_long = bytes_at_most(entry) > limits.entry_bytes;
        if is_too_long || bytes > limits.bytes || self.batch.len() >= limits.entries {
            return Err(too_large(entry, bytes, self.batch.len() + 1, limits));
        }
        self.edge_bytes = edge_bytes;
        if self.batch.is_empty() {
            self.batch.reserve(FIRST_BYTES);
        }
        match entry.kind {
            Kind::Put => self.batch.put(entry.keyspace, entry.key, entry.value),
            Kind::Delete => self.batch.delete(entry.keyspace, entry.key),
            Kind::ExpiringPut => {
                let (ttl, value) = split_expiry(entry.value).unwrap_or_default();
                let ttl = Duration::from_millis(ttl);
                self.batch.put_with_ttl(entry.keyspace, entry.key, value, ttl);
            }
            Kind::RangeDelete | Kind::Merge | Kind::Combined | Kind::Separated => {
                unreachable!("transactions have puts and deletes only")
            }
        }
        Ok(())
    }

    pub(crate) fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// The writes, to add some without a check of limits.
    pub(crate) fn batch_mut(&mut self) -> &mut WriteBatch {
        &mut self.batch
    }

    /// Ends the set and returns its writes.
    pub(crate) fn take_batch(&mut self) -> WriteBatch {
        std::mem::take(self).batch
    }

    /// What was written to `key` without merges, if anything: a value, or that it is deleted.
    #[inline]
    pub(crate) fn get(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Option<Option<&[u8]>> {
        let (place, encoded) = self.find(keyspace, key)?;
        match place {
            Place::Put(value) => Some(Some(&encoded[value.clone()])),
            Place::Deleted => Some(None),
            Place::Merged(_) => None,
        }
    }

    /// What was written to `key`, if anything, and the bytes that it is in.
    #[inline]
    pub(crate) fn find(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Option<(&Place, &[u8])> {
        if self.batch.is_empty() {
            return None;
        }
        self.index_pending();
        let index = self.index.get(&keyspace)?;
        let place = match index.keys.get(key) {
            Some(place) => place,
            None => index.deleted.covering(key).map(|_| &Place::Deleted)?,
        };
        Some((place, self.batch.encoded()))
    }

    /// The writes to `keyspace`.
    pub(crate) fn of(&mut self, keyspace: KeyspaceId) -> Option<OwnWrites<'_>> {
        self.index_pending();
        let Index { keys, deleted } = self.index.get(&keyspace)?;
        Some(OwnWrites { keys, encoded: self.batch.encoded(), deleted })
    }

    fn index_pending(&mut self) {
        let encoded = self.batch.encoded();
        let mut rest = &encoded[self.indexed_bytes..];
        while let Some(Entry { keyspace, kind, key, value }) = Entry::decode_unstored(&mut rest) {
            let index = self.index.entry(keyspace).or_default();
            if kind == Kind::RangeDelete {
                let end = (!value.is_empty()).then_some(value);
                index.deleted.add(key, end);
                index.keys.retain(|written, _| {
                    &written[..] < key || end.is_some_and(|end| &written[..] >= end)
                });
                continue;
            }
            // An entry ends with its value.
            let end = encoded.len() - rest.len();
            let place = match kind {
                Kind::Put => Place::Put(end - value.len()..end),
                // It begins to expire when it is committed.
                Kind::ExpiringPut => Place::Put(end - value.len() + EXPIRY_BYTES..end),
                Kind::Merge => {
                    index.merge(key, end - value.len()..end);
                    continue;
                }
                Kind::Delete | Kind::RangeDelete | Kind::Combined | Kind::Separated => {
                    Place::Deleted
                }
            };
            match index.keys.get_mut(key) {
                Some(older) => *older = place,
                None => drop(index.keys.insert(key.to_vec(), place)),
            }
        }
        self.indexed_bytes = encoded.len();
    }

    pub(crate) fn set_savepoint(&mut self) {
        self.savepoints.push((self.batch.mark(), self.edge_bytes));
    }

    /// Forgets what was written since the last savepoint, and the savepoint.
    pub(crate) fn rollback_to_savepoint(&mut self) -> Result<()> {
        let (mark, edge_bytes) = self.savepoints.pop().ok_or(Error::NoSavepoint)?;
        if mark.bytes() < self.indexed_bytes {
            // What its keys had before is not known: the next read makes the index anew.
            self.index.clear();
            self.indexed_bytes = 0;
        }
        self.batch.truncate(&mark);
        self.edge_bytes = edge_bytes;
        Ok(())
    }
}

/// What the store may add for the entry's key, in bytes.
#[inline]
fn edge_bytes(entry: &Entry<'_>) -> usize {
    if is_edge_key(entry.key) { EDGE_KEY_BYTES } else { 0 }
}

/// What the entry takes as the store encodes it, in bytes, at most.
#[inline]
fn bytes_at_most(entry: &Entry<'_>) -> usize {
    entry.encoded_bytes() + edge_bytes(entry)
}

#[cold]
fn too_large(entry: &Entry<'_>, bytes: usize, entries: usize, limits: BatchLimits) -> Error {
    let entry_bytes = bytes_at_most(entry);
    if entry_bytes > limits.entry_bytes {
        let (bytes, key_bytes) = (entry.value.len(), entry.key.len());
        return Error::ValueTooLarge { bytes, key_bytes, entry_bytes, limit: limits.entry_bytes };
    }
    Error::BatchTooLarge { bytes, limit: limits.bytes, entries, entries_limit: limits.entries }
}
