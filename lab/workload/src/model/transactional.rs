//! Transactions over ordered maps: the simplest store that keeps every guarantee of
//! [`Transactional`].
//!
//! All versions of all keys are under one lock. A transaction buffers its writes, and is optimistic
//! whatever its options say. No transaction waits; of two that write one key, one fails with
//! [`Error::Conflict`]. No lock can therefore be leaked, and workloads exercise the retries that
//! they need. [`Isolation::Serializable`] is rejected: reads are not validated at commit.

use super::versions::{Pair, Versions};
use esker_api::{
    Cursor, Isolation, KeyRange, KeyspaceRef, Transaction, TransactionOptions, Transactional,
    Value, WriteBatch,
};
use esker_base::{Error, KeyspaceId, Kind, MAX_SEQNO, Result, Seqno};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A store of many keyspaces in ordered maps.
#[derive(Debug, Default)]
pub struct TransactionalModel {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: Vec<String>,
    keyspaces: Vec<Versions>,
    /// The number of the last commit.
    newest: Seqno,
}

/// What a transaction has written and not yet committed.
type Writes = BTreeMap<(KeyspaceId, Vec<u8>), Option<Vec<u8>>>;

impl State {
    fn keyspace(&self, id: KeyspaceId) -> Result<&Versions> {
        let unknown = || Error::UnknownKeyspace { name: id.to_string() };
        self.keyspaces.get(id.0 as usize).ok_or_else(unknown)
    }

    fn get(&self, keyspace: KeyspaceId, key: &[u8], at: Seqno) -> Result<Option<Value>> {
        Ok(self.keyspace(keyspace)?.get(key, at).map(Value::from))
    }

    /// When `key` was last changed; zero if never.
    fn changed(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Seqno> {
        let versions = self.keyspace(keyspace)?;
        let all =
            (key.to_vec(), std::cmp::Reverse(MAX_SEQNO))..=(key.to_vec(), std::cmp::Reverse(0));
        Ok(versions.map.range(all).next().map_or(0, |((_, seqno), _)| seqno.0))
    }

    /// The entries of `range` at a snapshot, without those that are deleted.
    fn pairs(&self, keyspace: KeyspaceId, range: &KeyRange, at: Seqno) -> Result<Vec<Pair>> {
        let versions = self.keyspace(keyspace)?;
        let start = range.start.as_ref().map(|key| match range.start {
            Bound::Excluded(_) => (key.clone(), std::cmp::Reverse(0)),
            _ => (key.clone(), std::cmp::Reverse(MAX_SEQNO)),
        });
        let mut pairs: Vec<Pair> = Vec::new();
        let mut decided: Option<&[u8]> = None;
        for ((key, seqno), value) in versions.map.range((start, Bound::Unbounded)) {
            if range.ends_before(key) {
                break;
            }
            if seqno.0 <= at && decided != Some(key) {
                decided = Some(key);
                pairs.extend(value.as_ref().map(|value| (key.clone(), value.clone())));
            }
        }
        Ok(pairs)
    }

    fn apply(&mut self, writes: Writes) {
        self.newest += 1;
        for ((keyspace, key), value) in writes {
            let versions = &mut self.keyspaces[keyspace.0 as usize];
            versions.newest = self.newest;
            versions.set(&key, value.as_deref());
        }
    }
}

impl TransactionalModel {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// All entries of a keyspace, in order.
    pub fn pairs(&self, keyspace: impl Into<KeyspaceRef>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.lock().pairs(keyspace.into().id, &KeyRange::all(), MAX_SEQNO)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere can't leave the maps half changed: writes are checked beforehand.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transactional for TransactionalModel {
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        let mut state = self.lock();
        let at = state.names.iter().position(|known| known == name).unwrap_or_else(|| {
            state.names.push(name.to_owned());
            state.keyspaces.push(Versions::default());
            state.names.len() - 1
        });
        Ok(KeyspaceId(at as u32).into())
    }

    fn get(&self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.lock().get(keyspace.id, key, MAX_SEQNO)
    }

    fn cursor(&self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let pairs = self.lock().pairs(keyspace.id, &range, MAX_SEQNO)?;
        Ok(Box::new(PairCursor { pairs, at: None }))
    }

    /// Puts and deletes; range deletes are refused.
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let mut state = self.lock();
        let mut writes = Writes::new();
        for entry in batch.iter() {
            state.keyspace(entry.keyspace)?;
            let value = match entry.kind {
                Kind::Put => Some(entry.value.to_vec()),
                Kind::Delete => None,
                Kind::RangeDelete
                | Kind::Merge
                | Kind::Combined
                | Kind::Separated
                | Kind::ExpiringPut => {
                    return Err(Error::InvalidSetting {
                        setting: "the batch",
                        value: "a range delete, a merge, or a time to live".into(),
                        reason: "the model of transactions takes puts and deletes".into(),
                    });
                }
            };
            writes.insert((entry.keyspace, entry.key.to_vec()), value);
        }
        state.apply(writes);
        Ok(())
    }

    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction + '_>> {
        if options.isolation == Isolation::Serializable {
            return Err(Error::InvalidSetting {
                setting: "isolation",
                value: options.isolation.to_string(),
                reason: "the model of transactions knows read-committed and snapshot".into(),
            });
        }
        Ok(Box::new(ModelTransaction {
            model: self,
            moment: self.lock().newest,
            isolation: options.isolation,
            read_for_update: BTreeMap::new(),
            writes: Writes::new(),
            savepoints: Vec::new(),
            ended: None,
        }))
    }
}

struct ModelTransaction<'a> {
    model: &'a TransactionalModel,
    moment: Seqno,
    isolation: Isolation,
    /// Keys that must not have changed after that snapshot when this commits.
    read_for_update: BTreeMap<(KeyspaceId, Vec<u8>), Seqno>,
    writes: Writes,
    savepoints: Vec<Writes>,
    ended: Option<&'static str>,
}

impl ModelTransaction<'_> {
    fn check(&self) -> Result<()> {
        self.ended.map_or(Ok(()), |how| Err(Error::TransactionEnded { how }))
    }

    /// What this transaction sees of others now.
    fn sees(&self) -> Seqno {
        if self.isolation == Isolation::ReadCommitted { MAX_SEQNO } else { self.moment }
    }

    /// Notes that `key` must not change until the commit, as it must not have before.
    fn guard(&mut self, state: &State, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        let changed = state.changed(keyspace, key)?;
        if self.isolation != Isolation::ReadCommitted && changed > self.moment {
            return Err(Error::Conflict { key: key.escape_ascii().to_string() });
        }
        self.read_for_update.entry((keyspace, key.to_vec())).or_insert(changed);
        Ok(())
    }

    fn write(&mut self, keyspace: KeyspaceId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check()?;
        self.guard(&self.model.lock(), keyspace, key)?;
        self.writes.insert((keyspace, key.to_vec()), value.map(<[u8]>::to_vec));
        Ok(())
    }
}

impl Transaction for ModelTransaction<'_> {
    fn get(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.check()?;
        match self.writes.get(&(keyspace.id, key.to_vec())) {
            Some(own) => Ok(own.as_deref().map(Value::from)),
            None => self.model.lock().get(keyspace.id, key, self.sees()),
        }
    }

    fn get_for_update(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.check()?;
        let state = self.model.lock();
        self.guard(&state, keyspace.id, key)?;
        match self.writes.get(&(keyspace.id, key.to_vec())) {
            Some(own) => Ok(own.as_deref().map(Value::from)),
            None => state.get(keyspace.id, key, MAX_SEQNO),
        }
    }

    fn put(&mut self, keyspace: KeyspaceRef, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(keyspace.id, key, Some(value))
    }

    fn delete(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<()> {
        self.write(keyspace.id, key, None)
    }

    fn cursor(&mut self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.check()?;
        let pairs = self.model.lock().pairs(keyspace.id, &range, self.sees())?;
        let mut pairs: BTreeMap<_, _> = pairs.into_iter().collect();
        for ((_, key), value) in self.writes.iter().filter(|((of, _), _)| *of == keyspace.id) {
            match value {
                Some(value) if range.contains(key) => pairs.insert(key.clone(), value.clone()),
                _ => pairs.remove(key),
            };
        }
        Ok(Box::new(PairCursor { pairs: pairs.into_iter().collect(), at: None }))
    }

    fn set_savepoint(&mut self) -> Result<()> {
        self.check()?;
        self.savepoints.push(self.writes.clone());
        Ok(())
    }

    fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.check()?;
        self.writes = self.savepoints.pop().ok_or(Error::NoSavepoint)?;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.check()?;
        let mut state = self.model.lock();
        for ((keyspace, key), seen) in &self.read_for_update {
            if state.changed(*keyspace, key)? > *seen {
                self.ended = Some("given up");
                return Err(Error::Conflict { key: key.escape_ascii().to_string() });
            }
        }
        if !self.writes.is_empty() {
            state.apply(std::mem::take(&mut self.writes));
        }
        self.ended = Some("committed");
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        self.check()?;
        self.ended = Some("rolled back");
        Ok(())
    }
}

/// A cursor over entries that are all in memory.
struct PairCursor {
    pairs: Vec<Pair>,
    at: Option<usize>,
}

impl PairCursor {
    fn stand(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&at| at < self.pairs.len());
        Ok(())
    }
}

impl Cursor for PairCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand(Some(0))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.stand(self.pairs.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.stand(Some(self.pairs.partition_point(|pair| &pair.0[..] < key)))
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.stand(self.pairs.partition_point(|pair| &pair.0[..] <= key).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        self.stand(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        self.stand(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        self.at.map(|at| (&self.pairs[at].0[..], &self.pairs[at].1[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(isolation: Isolation) -> TransactionOptions {
        TransactionOptions::default().isolation(isolation)
    }

    fn store() -> (TransactionalModel, KeyspaceRef) {
        let model = TransactionalModel::new();
        let keyspace = model.keyspace("k").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(keyspace, b"a", b"1");
        batch.put(keyspace, b"b", b"1");
        model.write(&batch).unwrap();
        (model, keyspace)
    }

    #[test]
    fn a_transaction_sees_its_moment_and_its_own_writes() {
        let (model, keyspace) = store();
        let mut one = model.begin(&options(Isolation::Snapshot)).unwrap();
        let mut two = model.begin(&options(Isolation::ReadCommitted)).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(keyspace, b"a", b"2");
        model.write(&batch).unwrap();
        assert_eq!(one.get(keyspace, b"a").unwrap().unwrap(), b"1");
        assert_eq!(two.get(keyspace, b"a").unwrap().unwrap(), b"2");
        one.delete(keyspace, b"b").unwrap();
        one.put(keyspace, b"c", b"3").unwrap();
        let mut cursor = one.cursor(keyspace, KeyRange::all()).unwrap();
        cursor.seek_last().unwrap();
        assert_eq!(cursor.current(), Some((&b"c"[..], &b"3"[..])));
        cursor.prev().unwrap();
        assert_eq!(cursor.current(), Some((&b"a"[..], &b"1"[..])));
        drop(cursor);
        assert_eq!(model.pairs(keyspace).unwrap().len(), 2);
        one.commit().unwrap();
        assert!(matches!(one.get(keyspace, b"a"), Err(Error::TransactionEnded { .. })));
        let keys: Vec<_> = model.pairs(keyspace).unwrap().into_iter().map(|pair| pair.0).collect();
        assert_eq!(keys, [b"a", b"c"]);
    }

    #[test]
    fn of_two_that_update_a_key_one_fails() {
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
            let (model, keyspace) = store();
            let mut one = model.begin(&options(isolation)).unwrap();
            let mut two = model.begin(&options(isolation)).unwrap();
            for transaction in [&mut one, &mut two] {
                transaction.get_for_update(keyspace, b"a").unwrap();
                transaction.put(keyspace, b"a", b"2").unwrap();
            }
            one.commit().unwrap();
            assert!(two.commit().unwrap_err().is_transient(), "{isolation}");
        }
    }

    #[test]
    fn what_follows_a_savepoint_can_be_undone() {
        let (model, keyspace) = store();
        let mut one = model.begin(&options(Isolation::Snapshot)).unwrap();
        one.put(keyspace, b"a", b"2").unwrap();
        one.set_savepoint().unwrap();
        one.put(keyspace, b"a", b"3").unwrap();
        one.rollback_to_savepoint().unwrap();
        assert!(matches!(one.rollback_to_savepoint(), Err(Error::NoSavepoint)));
        one.commit().unwrap();
        assert_eq!(model.get(keyspace, b"a").unwrap().unwrap(), b"2");
    }
}
