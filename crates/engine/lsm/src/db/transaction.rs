//! Transactions over all keyspaces of a database.

use super::Db;
use esker_api::{
    Cursor, KeyRange, KeyspaceRef, Keyspaces, Transaction as _, TransactionOptions, Value,
};
#[expect(unused_imports, reason = "links of the documentation, also where it is re-exported")]
use esker_base::Error;
use esker_base::Result;
use esker_txn::{StoreTransaction, TransactionManager};
use std::iter::FusedIterator;
use std::time::Duration;

impl Db {
    /// Begins a transaction with the default options: pessimistic, snapshot isolation.
    ///
    /// [`Db::transact`] also commits, and retries after a conflict.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path(), esker::Settings::default())?;
    /// let users = db.default_keyspace();
    /// let mut tx = db.transaction()?;
    /// tx.put(&users, "ada", "analyst")?;
    /// tx.set_savepoint()?;
    /// tx.put(&users, "eve", "auditor")?;
    /// tx.rollback_to_savepoint()?;
    /// assert!(tx.get(&users, "eve")?.is_none());
    /// tx.commit()?;
    /// assert!(users.contains_key("ada")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`] once the database is closed, [`Error::Forked`] in a forked child.
    pub fn transaction(&self) -> Result<Transaction> {
        self.transaction_with(TransactionOptions::default())
    }

    /// Begins a transaction with `options`.
    ///
    /// # Errors
    /// The errors of [`Db::transaction`].
    pub fn transaction_with(&self, options: TransactionOptions) -> Result<Transaction> {
        Ok(Transaction { inner: self.transactions()?.begin(self.clone(), options)? })
    }

    /// The manager of transactions, which has those that were prepared before this open.
    pub(super) fn transactions(&self) -> Result<&TransactionManager> {
        let inner = self.usable()?;
        if let Some(manager) = inner.transactions.get() {
            return Ok(manager);
        }
        let limits = Keyspaces::batch_limits(self);
        let manager = TransactionManager::new(limits, inner.tree.clock.clone());
        if let Some(records) = self.records() {
            manager.recover(self, records)?;
        }
        // If another thread was faster, this one is as if it had never been.
        Ok(inner.transactions.get_or_init(|| manager))
    }
}

/// Reads and writes over all keyspaces of a database that commit together, isolated from other
/// transactions, or not at all. [`Db::transaction`] begins one; dropping it rolls it back.
///
/// After an error for which [`Error::is_transient`] holds, roll back and run the whole transaction
/// again, or let [`Db::transact`] do it.
///
/// It borrows nothing, can be sent to another thread, and keeps the database open, unless
/// [`Db::close`] closes it. All transactions of a database share their locks, whichever clone of the
/// [`Db`] begins them. Plain writes, such as [`Db::put`](crate::Db::put), do not wait for these locks.
/// Conflict checks detect them if they return before the check.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, KeyspaceSettings, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let users = db.keyspace("users", KeyspaceSettings::default())?;
/// let mut tx = db.transaction()?;
/// tx.put(&users, "ada", "analyst")?;
/// assert_eq!(tx.get(&users, "ada")?.as_deref(), Some(&b"analyst"[..]));
/// assert_eq!(users.get("ada")?, None);
/// tx.commit()?;
/// assert!(users.contains_key("ada")?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction is rolled back when it is dropped"]
pub struct Transaction {
    pub(super) inner: StoreTransaction<Db>,
}

impl Transaction {
    /// Returns the number of the transaction, which no other of this open has.
    /// [`Error::Deadlock`] and [`Error::LockTimeout`] name transactions by it.
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// Lets writes, and reads for update, conflict with changes of others after `snapshot`. Keys that are
    /// locked already are not checked again.
    ///
    /// With snapshot isolation and beyond, the transaction reads at `snapshot`, too. Without this call, its
    /// first read takes a snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker::Db::open(dir.path(), esker::Settings::default())?;
    /// let snapshot = db.snapshot();
    /// db.default_keyspace().put("seat", "ada")?;
    /// let mut tx = db.transaction()?;
    /// tx.set_snapshot(&snapshot)?;
    /// let error = tx.put(&db.default_keyspace(), "seat", "eve").unwrap_err();
    /// assert!(error.is_transient());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if it reads at another snapshot already; the errors of
    /// [`Snapshot::get`](crate::Snapshot::get) if another database made the snapshot.
    pub fn set_snapshot(&mut self, snapshot: &crate::Snapshot) -> Result<()> {
        self.inner.store().usable()?.tree.resolve_snapshot(snapshot)?;
        self.inner.set_snapshot(snapshot.clone())
    }

    /// Returns the value of `key` as this transaction sees it, its own writes included.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
    pub fn get(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        self.inner.get(keyspace.into(), key.as_ref())
    }

    /// Like [`Transaction::get`], and excludes that others change `key` before this commits: a
    /// pessimistic transaction locks `key`, and the commit of an optimistic one fails after such a
    /// change.
    ///
    /// It reads what is committed once the lock is granted.
    ///
    /// # Errors
    /// [`Error::Conflict`] if that is newer than the transaction's snapshot, [`Error::Deadlock`] and
    /// [`Error::LockTimeout`] if the lock was not granted; the errors of [`Transaction::get`].
    pub fn get_for_update(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        self.inner.get_for_update(keyspace.into(), key.as_ref())
    }

    /// Whether `key` exists as this transaction sees it.
    ///
    /// # Errors
    /// The errors of [`Transaction::get`].
    pub fn contains_key(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
    ) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`] and [`Error::ValueTooLarge`] if the transaction would grow beyond the
    /// limits of a batch; it stays as it was. The errors of [`Transaction::get_for_update`].
    pub fn put(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner.put(keyspace.into(), key.as_ref(), value.as_ref())
    }

    /// Sets `key` to `value` if this transaction sees no value of it, and returns `None`. Otherwise
    /// returns the present value.
    ///
    /// It reads the key as [`Transaction::get_for_update`] does.
    ///
    /// # Errors
    /// The errors of [`Transaction::get_for_update`] and of [`Transaction::put`].
    pub fn put_if_absent(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        let (keyspace, key) = (keyspace.into(), key.as_ref());
        let present = self.get_for_update(keyspace, key)?;
        if present.is_none() {
            self.put(keyspace, key, value)?;
        }
        Ok(present)
    }

    /// Merges `operand` into the value of `key`, by the merge operator of the keyspace.
    ///
    /// A transaction reads the key, as [`Transaction::get_for_update`] does, and puts the result. So two
    /// transactions that merge into one key conflict. [`Keyspace::merge`](crate::Keyspace::merge) reads
    /// nothing.
    ///
    /// # Errors
    /// The errors of [`Keyspace::merge`](crate::Keyspace::merge), of [`Transaction::get_for_update`] and of
    /// [`Transaction::put`].
    pub fn merge(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner.merge(keyspace.into(), key.as_ref(), operand.as_ref())
    }

    /// Removes `key`, whether it exists or not.
    ///
    /// # Errors
    /// The errors of [`Transaction::put`].
    pub fn delete(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner.delete(keyspace.into(), key.as_ref())
    }

    /// Iterates over the entries with keys in `range` as this transaction sees them, its own writes
    /// included: `"a".."b"`, `key..`, `..=key`, `..`.
    pub fn range(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        range: impl Into<KeyRange>,
    ) -> TransactionRange<'_> {
        TransactionRange::over(self.cursor(keyspace, range))
    }

    /// Iterates over the entries whose keys start with `prefix`.
    pub fn prefix(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        prefix: impl AsRef<[u8]>,
    ) -> TransactionRange<'_> {
        self.range(keyspace, KeyRange::prefix(prefix))
    }

    /// Iterates over all entries of `keyspace` as this transaction sees them.
    pub fn iter(&mut self, keyspace: impl Into<KeyspaceRef>) -> TransactionRange<'_> {
        self.range(keyspace, ..)
    }

    /// Returns the entry with the smallest key as this transaction sees it, or `None`.
    ///
    /// # Errors
    /// The errors of [`Transaction::get`].
    pub fn first(&mut self, keyspace: impl Into<KeyspaceRef>) -> Result<Option<(Value, Value)>> {
        self.iter(keyspace).next().transpose()
    }

    /// Returns the entry with the largest key as this transaction sees it, or `None`.
    ///
    /// # Errors
    /// The errors of [`Transaction::get`].
    pub fn last(&mut self, keyspace: impl Into<KeyspaceRef>) -> Result<Option<(Value, Value)>> {
        self.iter(keyspace).next_back().transpose()
    }

    /// Returns a cursor over `range` as this transaction sees it, its own writes included.
    ///
    /// # Errors
    /// The errors of [`Transaction::get`].
    pub fn cursor(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        range: impl Into<KeyRange>,
    ) -> Result<Box<dyn Cursor + Send + '_>> {
        self.inner.cursor(keyspace.into(), range.into())
    }

    /// Sets `key` to `value` for the time `ttl`, which begins with the commit: see
    /// [`Keyspace::put_with_ttl`](crate::Keyspace::put_with_ttl). Until then, this transaction sees
    /// the value.
    ///
    /// # Errors
    /// The errors of [`Transaction::put`].
    pub fn put_with_ttl(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.inner.put_with_ttl(keyspace.into(), key.as_ref(), value.as_ref(), ttl)
    }

    /// Sets a savepoint to [roll back to](Transaction::rollback_to_savepoint). They nest.
    ///
    /// # Errors
    /// [`Error::Forked`] in a forked child.
    pub fn set_savepoint(&mut self) -> Result<()> {
        self.inner.set_savepoint()
    }

    /// Undoes all writes since the last savepoint, and removes it. Locks and reads since then stay.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`] if there is none.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.inner.rollback_to_savepoint()
    }

    /// Commits: makes all writes visible at once, as durable as any write of the database.
    ///
    /// # Errors
    /// [`Error::Conflict`] and the other transient errors if the commit check fails; the errors of
    /// [`Db::write`](crate::Db::write). Nothing is written, with the exceptions listed there.
    pub fn commit(mut self) -> Result<()> {
        self.inner.commit()
    }

    /// Discards all writes and ends the transaction. Dropping it does the same.
    pub fn rollback(self) {
        drop(self);
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

/// The entries of a range as a [`Transaction`] or an [`IndexedBatch`](crate::IndexedBatch) sees them:
/// an iterator from both ends. Ends after the first error.
#[must_use = "a range reads nothing until it is iterated"]
pub struct TransactionRange<'t> {
    /// `None` once the range has ended. An error is the only item.
    cursor: Option<Result<Box<dyn Cursor + Send + 't>>>,
    /// Which end moved the cursor last.
    moved: Option<End>,
    /// The last key that `next` returned.
    front: Option<Value>,
    /// The last key that `next_back` returned.
    back: Option<Value>,
}

/// An end of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl<'t> TransactionRange<'t> {
    pub(super) fn over(cursor: Result<Box<dyn Cursor + Send + 't>>) -> Self {
        TransactionRange { cursor: Some(cursor), moved: None, front: None, back: None }
    }

    /// The next entry from `end`, or `None` where the two ends meet.
    fn step(&mut self, end: End) -> Result<Option<(Value, Value)>> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let mut cursor = cursor?;
        let goes_on = self.moved.replace(end) == Some(end);
        let (own, other) = match end {
            End::Front => (&mut self.front, &self.back),
            End::Back => (&mut self.back, &self.front),
        };
        match (end, own.as_deref()) {
            (End::Front, None) => cursor.seek_first()?,
            (End::Back, None) => cursor.seek_last()?,
            (_, Some(last)) => {
                match end {
                    _ if goes_on => {}
                    End::Front => cursor.seek(last)?,
                    End::Back => cursor.seek_back(last)?,
                }
                // The transaction sees its snapshot and its own writes: the key is still there, unless
                // it has expired. Then it is passed already.
                let is_there = || goes_on || cursor.current().is_some_and(|(key, _)| key == last);
                match end {
                    _ if !is_there() => {}
                    End::Front => cursor.next()?,
                    End::Back => cursor.prev()?,
                }
            }
        }
        let Some((key, value)) = cursor.current() else { return Ok(None) };
        let has_met = other.as_deref().is_some_and(|other| match end {
            End::Front => key >= other,
            End::Back => key <= other,
        });
        if has_met {
            return Ok(None);
        }
        let (key, value) = (Value::copy_of(key), Value::copy_of(value));
        *own = Some(key.clone());
        self.cursor = Some(Ok(cursor));
        Ok(Some((key, value)))
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front).transpose()
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back).transpose()
    }
}

impl FusedIterator for TransactionRange<'_> {}

impl std::fmt::Debug for TransactionRange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionRange").finish_non_exhaustive()
    }
}
