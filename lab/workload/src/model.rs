//! An ordered map with snapshots: the plainest store that keeps every promise of `esker_api`.
//!
//! All versions of all keys stay in one `BTreeMap`, ordered by key and then newest first; nothing is
//! ever collected. A snapshot is a seqno. Slow on purpose: it is what faster stores are held against.

mod cursor;
#[cfg(test)]
pub(crate) mod interrupted;
mod transactional;
mod versions;

pub use transactional::TransactionalModel;

use cursor::ModelCursor;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Error, Kind, MAX_KEY_BYTES, MAX_SEQNO, Result, Seqno};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use versions::{Pair, Versions};

/// One keyspace, the default one, in an ordered map. Merges append, as the operator `append` does.
#[derive(Debug, Default)]
pub struct Model {
    versions: RwLock<Versions>,
}

impl Model {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// All live entries, in order.
    pub fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let versions = self.read();
        let mut pairs: Vec<Pair> = Vec::new();
        let mut seen: Option<&[u8]> = None;
        for ((key, _), value) in &versions.map {
            if seen != Some(&key[..]) {
                pairs.extend(value.as_ref().map(|value| (key.clone(), value.clone())));
            }
            seen = Some(key);
        }
        pairs
    }

    /// The number of writes ever applied.
    pub fn writes(&self) -> u64 {
        self.read().newest
    }

    fn read(&self) -> RwLockReadGuard<'_, Versions> {
        // A panic elsewhere can't leave the map half changed: batches are checked beforehand.
        self.versions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, batch: &WriteBatch) -> Result<()> {
        if batch.longest_key() > MAX_KEY_BYTES {
            return Err(Error::KeyTooLong { bytes: batch.longest_key() });
        }
        if batch.has_empty_range() {
            return Err(Error::EmptyRange);
        }
        if batch.has_ttl() {
            let (store, instead) = ("the model", "put without a time to live");
            return Err(Error::NotOffered { store, what: "put values that expire", instead });
        }
        match batch.iter().find(|entry| entry.keyspace != self.keyspace_ref().id) {
            Some(entry) => Err(Error::UnknownKeyspace { name: entry.keyspace.to_string() }),
            None => Ok(()),
        }
    }
}

impl Kv for Model {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.read().get(key, MAX_SEQNO).map(Value::from))
    }

    fn try_get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get(key)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.check(batch)?;
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        for entry in batch.iter() {
            versions.newest += 1;
            match entry.kind {
                Kind::Put => versions.set(entry.key, Some(entry.value)),
                Kind::Delete => versions.set(entry.key, None),
                Kind::Merge => {
                    let base = versions.get(entry.key, MAX_SEQNO).unwrap_or_default();
                    let value = [base, entry.value].concat();
                    versions.set(entry.key, Some(&value));
                }
                Kind::Combined | Kind::Separated => unreachable!("only tables have such entries"),
                Kind::ExpiringPut => unreachable!("they are refused"),
                Kind::RangeDelete => {
                    let mut start = Bound::Included(entry.key.to_vec());
                    let end = match entry.value {
                        [] => Bound::Unbounded,
                        end => Bound::Excluded(end),
                    };
                    while let Some((key, _)) =
                        versions.first((start.as_ref().map(|key| &key[..]), end), MAX_SEQNO)
                    {
                        versions.set(&key, None);
                        start = Bound::Excluded(key);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Ordered for Model {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let at = self.read().newest;
        Ok(Box::new(ModelCursor { model: self, range, at, current: None }))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(ModelCursor { model: self, range, at: snapshot.seqno(), current: None }))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        Ok(self.read().get(key, snapshot.seqno()).map(Value::from))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(Moment(self.read().newest)))
    }
}

struct Moment(Seqno);

impl Snapshot for Moment {
    fn seqno(&self) -> Seqno {
        self.0
    }
}

#[cfg(test)]
mod tests;
