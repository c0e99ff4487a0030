//! A batch that reads its own writes over the database.

use super::Db;
use super::transaction::TransactionRange;
use esker_api::{Cursor, KeyRange, KeyspaceRef, Value, WriteBatch};
use esker_base::Result;
use esker_txn::StoreBatch;
use std::time::Duration;

impl Db {
    /// Returns an empty batch that reads its own writes over the database.
    ///
    /// [`Db::batch`] is faster if nothing is read before the batch is written.
    pub fn indexed_batch(&self) -> IndexedBatch {
        IndexedBatch { inner: StoreBatch::new(self.clone()) }
    }
}

/// A batch of writes that reads see before it is written: gets, ranges and cursors, in both
/// directions.
///
/// A read sees the writes of the batch over the newest data of the database. It is not a
/// transaction: it locks nothing, and a write by others between a read and [`IndexedBatch::write`]
/// is not detected. Use it where one thread writes the keys, and reads back what it changes.
///
/// It is applied atomically, like a [`WriteBatch`]. Limits of keys, values and batches are checked
/// when it is written. It keeps the database open. The first read of a keyspace builds an index in
/// memory; later reads extend it.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let stock = db.default_keyspace();
/// stock.put("apples", "3")?;
/// stock.put("pears", "5")?;
///
/// let mut batch = db.indexed_batch();
/// batch.put(&stock, "lemons", "8");
/// batch.delete(&stock, "apples");
/// assert_eq!(batch.get(&stock, "lemons")?.as_deref(), Some(&b"8"[..]));
/// let keys = batch.iter(&stock).rev().map(|entry| entry.map(|(key, _)| key));
/// assert_eq!(keys.collect::<Result<Vec<_>, _>>()?, [&b"pears"[..], b"lemons"]);
/// assert!(stock.contains_key("apples")?, "nothing is written yet");
/// batch.write()?;
/// assert!(!stock.contains_key("apples")?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch writes nothing until it is written"]
pub struct IndexedBatch {
    inner: StoreBatch<Db>,
}

impl IndexedBatch {
    /// Adds a write that sets `key` to `value` in `keyspace`.
    pub fn put(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        self.inner.add(|batch| batch.put(keyspace, key, value));
    }

    /// Adds a write that sets `key` to `value` for the time `ttl`, which begins when the batch is written.
    pub fn put_with_ttl(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) {
        self.inner.add(|batch| batch.put_with_ttl(keyspace, key, value, ttl));
    }

    /// Adds a merge of `operand` into `key`. Reads of the batch fold it. See [`WriteBatch::merge`].
    pub fn merge(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) {
        self.inner.add(|batch| batch.merge(keyspace, key, operand));
    }

    /// Adds a write that deletes `key` from `keyspace`, whether it exists or not.
    pub fn delete(&mut self, keyspace: impl Into<KeyspaceRef>, key: impl AsRef<[u8]>) {
        self.inner.add(|batch| batch.delete(keyspace, key));
    }

    /// Adds a write that deletes all keys in `range`. See [`WriteBatch::delete_range`].
    pub fn delete_range(&mut self, keyspace: impl Into<KeyspaceRef>, range: impl Into<KeyRange>) {
        self.inner.add(|batch| batch.delete_range(keyspace, range));
    }

    /// Whether the batch survives power loss once the write returns. See [`WriteBatch::set_sync`].
    pub fn set_sync(&mut self, sync: bool) -> &mut Self {
        self.inner.add(|batch| _ = batch.set_sync(sync));
        self
    }

    /// Returns the value of `key`: that of the batch, or the newest of the database.
    ///
    /// # Errors
    /// The errors of [`Db::get`], and for a key with merges those of [`Db::merge`].
    pub fn get(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        self.inner.get(keyspace.into(), key.as_ref())
    }

    /// Whether `key` exists, in the batch or in the database.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn contains_key(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
    ) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// Iterates over the entries with keys in `range`, at a new snapshot, with the writes of the
    /// batch: `"a".."b"`, `key..`, `..=key`, `..`.
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

    /// Iterates over all entries of `keyspace`.
    pub fn iter(&mut self, keyspace: impl Into<KeyspaceRef>) -> TransactionRange<'_> {
        self.range(keyspace, ..)
    }

    /// Returns a cursor over `range` at a new snapshot, with the writes of the batch.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn cursor(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        range: impl Into<KeyRange>,
    ) -> Result<Box<dyn Cursor + Send + '_>> {
        self.inner.cursor(keyspace.into(), range.into())
    }

    /// Sets a savepoint to [roll back to](IndexedBatch::rollback_to_savepoint). They nest.
    pub fn set_savepoint(&mut self) {
        self.inner.set_savepoint();
    }

    /// Removes all writes since the last savepoint, and the savepoint.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`](esker_base::Error::NoSavepoint) if there is none.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.inner.rollback_to_savepoint()
    }

    /// Returns the writes.
    pub fn as_batch(&self) -> &WriteBatch {
        self.inner.batch()
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.as_batch().len()
    }

    /// Whether the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.as_batch().is_empty()
    }

    /// Removes all writes and savepoints.
    pub fn clear(&mut self) {
        self.inner.clear();
    }

    /// Applies the batch atomically, like [`Db::write`].
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub fn write(self) -> Result<()> {
        self.inner.store().write(self.inner.batch())
    }
}

impl std::fmt::Debug for IndexedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexedBatch").field("writes", &self.len()).finish_non_exhaustive()
    }
}
