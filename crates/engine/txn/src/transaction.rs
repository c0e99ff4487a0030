//! A transaction between its begin and its end.

use crate::cursor::TransactionCursor;
use crate::db::check_key;
use crate::locks::{Acquired, HeldLocks, LockKey, Locks};
use crate::manager::TransactionManager;
use crate::read_set::{ReadSet, ScannedRange};
use crate::write_set::WriteSet;
use esker_api::{
    Concurrency, Cursor, Isolation, KeyRange, KeyspaceRef, Keyspaces, Transaction,
    TransactionOptions, Value, WriteBatch,
};
use esker_base::{Entry, Error, KeyspaceId, Kind, Result};
use std::time::Duration;

/// A transaction over the store that `S` is, or is a handle to: see
/// [`TransactionManager::begin`](crate::TransactionManager::begin).
pub struct StoreTransaction<S: Keyspaces> {
    pub(crate) store: S,
    pub(crate) options: TransactionOptions,
    /// How it ended, if it did.
    ended: Option<&'static str>,
    /// What its reads see, from the first on; always `None` under read committed.
    pub(crate) moment: Option<S::Snapshot>,
    pub(crate) writes: WriteSet,
    pub(crate) held: HeldLocks<TransactionManager>,
    /// Of an optimistic one: keys that were read for update, and when.
    pub(crate) guarded: Vec<(KeyspaceId, Box<[u8]>, S::Snapshot)>,
    /// Of a serializable one.
    pub(crate) reads: ReadSet,
    /// A keyspace that is known to exist.
    known_keyspace: Option<KeyspaceId>,
    /// Why the last lock was not granted, or why its key could not be used.
    transient_error: Option<Box<Error>>,
}

impl<S: Keyspaces> StoreTransaction<S> {
    pub(crate) fn new(store: S, manager: TransactionManager, options: TransactionOptions) -> Self {
        StoreTransaction {
            store,
            options,
            ended: None,
            moment: None,
            writes: WriteSet::default(),
            held: HeldLocks::new(manager),
            guarded: Vec::new(),
            reads: ReadSet::default(),
            known_keyspace: None,
            transient_error: None,
        }
    }

    /// The last transient error of a read or write of this transaction. A new one may succeed.
    pub fn transient_error(&self) -> Option<&Error> {
        self.transient_error.as_deref()
    }

    /// Its number among the transactions of its manager.
    pub fn id(&self) -> u64 {
        self.held.owner().0
    }

    /// The store that it runs over.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Checks the keys that it locks, reads for update or commits from now on against `snapshot`, which
    /// the store made. Under read committed, reads stay as they are.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if the transaction reads at another snapshot already.
    pub fn set_snapshot(&mut self, snapshot: S::Snapshot) -> Result<()> {
        self.check_live()?;
        if self.uses_snapshot() && self.moment.is_some() {
            return Err(Error::InvalidSetting {
                setting: "snapshot of a transaction",
                value: "a second one".into(),
                reason: "the transaction has read at its first; set it before the first read"
                    .into(),
            });
        }
        self.moment = Some(snapshot);
        Ok(())
    }

    #[inline]
    pub(crate) fn check_live(&self) -> Result<()> {
        self.held.table().locks().check_process()?;
        match self.ended {
            None => Ok(()),
            Some(how) => Err(Error::TransactionEnded { how }),
        }
    }

    /// Refuses what can't be written, before anything is locked for it.
    #[inline]
    fn check_writable(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        self.check_live()?;
        check_key(key, self.held.table().limits())?;
        if self.known_keyspace != Some(keyspace) {
            self.store.check_keyspace(keyspace)?;
            self.known_keyspace = Some(keyspace);
        }
        Ok(())
    }

    /// The snapshot that reads see: a new one, if there was none.
    fn moment(&mut self) -> &S::Snapshot {
        self.moment.get_or_insert_with(|| self.store.snapshot())
    }

    fn uses_snapshot(&self) -> bool {
        self.options.isolation != Isolation::ReadCommitted
    }

    /// What is committed, as this transaction sees it.
    fn get_committed(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Value>> {
        if self.uses_snapshot() {
            let moment = self.moment.get_or_insert_with(|| self.store.snapshot());
            self.store.get_at(keyspace, key, moment)
        } else {
            self.store.get(keyspace, key)
        }
    }

    /// Locks a key, and checks that it has not changed since the snapshot, if there is one.
    #[inline]
    fn lock(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        self.try_lock(keyspace, key).inspect_err(|error| self.note_transient(error))
    }

    #[cold]
    fn note_transient(&mut self, error: &Error) {
        self.transient_error = error.is_transient().then(|| Box::new(error.clone()));
    }

    #[inline]
    fn try_lock(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        let lock = LockKey::new(keyspace, key);
        let got = self.held.lock(lock, self.options.lock_timeout)?;
        let (Some(moment), Acquired::Now) = (&self.moment, got) else { return Ok(()) };
        let changed = self.store.changed_since(keyspace, key, moment);
        if !matches!(changed, Ok(false)) {
            // The next try has to look again.
            self.held.unlock_last(lock);
        }
        if changed? { Err(conflict(key)) } else { Ok(()) }
    }

    #[inline]
    fn write(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.check_writable(entry.keyspace, entry.key)?;
        if self.options.concurrency == Concurrency::Pessimistic {
            self.lock(entry.keyspace, entry.key)?;
        }
        self.writes.push(entry, *self.held.table().limits())
    }

    /// Reads `key` at a snapshot that its guard remembers.
    fn get_tracked(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Value>> {
        let moment = match &self.moment {
            Some(moment) => moment.clone(),
            None if self.uses_snapshot() => self.moment().clone(),
            None => self.store.snapshot(),
        };
        let value = self.store.get_at(keyspace, key, &moment)?;
        self.guarded.push((keyspace, key.into(), moment));
        Ok(value)
    }

    pub(crate) fn end(&mut self, how: &'static str) {
        self.ended = Some(how);
        self.held.release();
        self.moment = None;
        self.guarded = Vec::new();
        self.reads = ReadSet::default();
        self.writes = WriteSet::default();
    }

    /// Sets `key` to its value with `operand` merged into it: reads it as
    /// [`Transaction::get_for_update`] does, and writes a put.
    ///
    /// # Errors
    /// Those of the store for a merge, of [`Transaction::get_for_update`] and of [`Transaction::put`].
    pub fn merge(&mut self, keyspace: KeyspaceRef, key: &[u8], operand: &[u8]) -> Result<()> {
        let base = self.get_for_update(keyspace, key)?;
        let id = self.store.resolve(keyspace)?;
        let value = self.store.merged(id, key, base.as_deref(), &[operand])?;
        self.put(keyspace, key, &value)
    }

    /// Sets `key` to `value` for the time `ttl`, which begins with the commit.
    ///
    /// # Errors
    /// Those of [`Transaction::put`].
    pub fn put_with_ttl(
        &mut self,
        keyspace: KeyspaceRef,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        let keyspace = self.store.resolve(keyspace)?;
        let mut one = WriteBatch::new();
        one.put_with_ttl(keyspace, key, value, ttl);
        one.iter().try_for_each(|entry| self.write(&entry))
    }

    /// As [`Transaction::cursor`], and the cursor can be sent to another thread.
    pub fn cursor(
        &mut self,
        keyspace: KeyspaceRef,
        range: KeyRange,
    ) -> Result<Box<dyn Cursor + Send + '_>> {
        self.check_live()?;
        let keyspace = self.store.resolve(keyspace)?;
        let uses_snapshot = self.uses_snapshot();
        let store = &self.store;
        let theirs = if uses_snapshot {
            let moment = self.moment.get_or_insert_with(|| store.snapshot());
            store.cursor_at(keyspace, range.clone(), moment)?
        } else {
            store.cursor_at(keyspace, range.clone(), &store.snapshot())?
        };
        let writes = self.writes.of(keyspace);
        let stretch = (self.options.isolation == Isolation::Serializable)
            .then(|| ScannedRange::new(&mut self.reads, keyspace, range.clone()));
        if writes.is_none() && stretch.is_none() {
            return Ok(theirs);
        }
        Ok(Box::new(TransactionCursor::new(theirs, writes, range, stretch)))
    }
}

impl<S: Keyspaces> Transaction for StoreTransaction<S> {
    fn get(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.check_live()?;
        let keyspace = self.store.resolve(keyspace)?;
        if let Some(own) = self.writes.get(keyspace, key) {
            return Ok(own.map(Value::from));
        }
        let value = self.get_committed(keyspace, key)?;
        if self.options.isolation == Isolation::Serializable {
            self.reads.add_key(keyspace, key);
        }
        Ok(value)
    }

    fn get_for_update(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        let keyspace = self.store.resolve(keyspace)?;
        self.check_writable(keyspace, key)?;
        let committed = match self.options.concurrency {
            Concurrency::Pessimistic => {
                self.lock(keyspace, key)?;
                self.get_committed(keyspace, key)?
            }
            Concurrency::Optimistic => self.get_tracked(keyspace, key)?,
        };
        match self.writes.get(keyspace, key) {
            Some(own) => Ok(own.map(Value::from)),
            None => Ok(committed),
        }
    }

    #[inline]
    fn put(&mut self, keyspace: KeyspaceRef, key: &[u8], value: &[u8]) -> Result<()> {
        let keyspace = self.store.resolve(keyspace)?;
        self.write(&Entry { keyspace, kind: Kind::Put, key, value })
    }

    fn delete(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<()> {
        let keyspace = self.store.resolve(keyspace)?;
        self.write(&Entry { keyspace, kind: Kind::Delete, key, value: b"" })
    }

    fn cursor(&mut self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(StoreTransaction::cursor(self, keyspace, range)?)
    }

    fn set_savepoint(&mut self) -> Result<()> {
        self.check_live()?;
        self.writes.set_savepoint();
        Ok(())
    }

    fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.check_live()?;
        self.writes.rollback_to_savepoint()
    }

    fn commit(&mut self) -> Result<()> {
        self.check_live()?;
        let committed = self.write_all();
        self.end(if committed.is_ok() { "committed" } else { "aborted when its commit failed" });
        committed
    }

    fn rollback(&mut self) -> Result<()> {
        self.check_live()?;
        self.end("rolled back");
        Ok(())
    }
}

impl<S: Keyspaces> std::fmt::Debug for StoreTransaction<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreTransaction")
            .field("options", &self.options)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// The error for a key that others have changed.
#[cold]
pub(crate) fn conflict(key: &[u8]) -> Error {
    Error::Conflict { key: key.escape_ascii().to_string() }
}
