//! Reads and writes of a database.

use super::Db;
use super::cursor::DbCursor;
use super::keyspace::Keyspace;
use super::range::Range;
use crate::options::settings::Log;
use crate::read::get::ReadTier;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{KeyRange, Value, WriteBatch};
#[expect(unused_imports, reason = "links of the documentation, also where it is re-exported")]
use esker_base::Error;
use esker_base::Result;
use std::time::Duration;

impl Db {
    /// Returns the newest value of `key`, or `None`.
    ///
    /// A get that memory cannot answer usually reads one block from the device.
    ///
    /// # Errors
    /// * [`Error::UnknownKeyspace`] if the keyspace was dropped.
    /// * [`Error::ForeignHandle`] if another database, or an earlier open, made the handle.
    /// * [`Error::Corruption`], [`Error::Lost`] or [`Error::Io`] if a table cannot be read.
    /// * [`Error::MergeFailed`] if the merge operator failed, [`Error::NoMergeOperator`] if the key has
    ///   operands and this open lacks the operator.
    /// * [`Error::Closed`] once the database is closed, [`Error::Forked`] in a forked child.
    #[inline]
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner().get(keyspace, key.as_ref(), ReadTier::MayBlock)
    }

    /// Returns the newest value of `key` if it is in memory, and never waits for the device.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if the answer is not in memory; otherwise the errors of [`Db::get`].
    pub fn try_get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner().get(keyspace, key.as_ref(), ReadTier::MemoryOnly)
    }

    /// Returns the newest values of `keys`, in their order, from one consistent snapshot.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.inner().multi_get(keyspace, keys, None)
    }

    /// Whether `keyspace` has `key`. Costs as much as [`Db::get`].
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// Takes a consistent snapshot of all keyspaces.
    ///
    /// Compaction keeps the versions that a snapshot sees until the snapshot is dropped.
    pub fn snapshot(&self) -> Snapshot {
        self.inner().take_snapshot()
    }

    /// Iterates over the entries with keys in `range`: `"a".."b"`, `key..`, `..=key`, `..`.
    ///
    /// The iterator yields the errors of [`Db::get`], and ends after one.
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
    /// let fruit = db.default_keyspace();
    /// for name in ["apple", "banana", "cherry"] {
    ///     db.put(&fruit, name, "")?;
    /// }
    /// let mut keys = Vec::new();
    /// for entry in db.range(&fruit, "b"..).rev() {
    ///     let (key, _value) = entry?;
    ///     keys.push(key);
    /// }
    /// assert_eq!(keys, [b"cherry", b"banana"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Range {
        Range::new(&self.handle.inner, Some(self.handle.clone()), keyspace.into(), range.into())
    }

    /// Iterates over the entries whose keys start with `prefix`.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        self.range(keyspace, KeyRange::prefix(prefix))
    }

    /// Iterates over all entries of `keyspace`.
    pub fn iter(&self, keyspace: &Keyspace) -> Range {
        self.range(keyspace, ..)
    }

    /// Returns a cursor over `range` at a new snapshot. [`Snapshot::cursor`] reads at an older one.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn cursor(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Result<DbCursor> {
        let keyspace = self.inner().tree.resolve(keyspace)?;
        DbCursor::new(&self.handle.inner, keyspace, range.into(), self.snapshot())
    }

    /// Sets `key` to `value`. [`Db::write`] describes durability and limits.
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    #[inline]
    pub fn put(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner().put(keyspace, key.as_ref(), value.as_ref())
    }

    /// Sets `key` to `value` for the time `ttl`: [`Keyspace::put_with_ttl`].
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub fn put_with_ttl(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.inner().put_with_ttl(keyspace, key.as_ref(), value.as_ref(), ttl)
    }

    /// Merges `operand` into the value of `key`: [`Keyspace::merge`].
    ///
    /// # Errors
    /// The errors of [`Keyspace::merge`].
    pub fn merge(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner().merge(keyspace, key.as_ref(), operand.as_ref())
    }

    /// Deletes `key`, whether it exists or not.
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub fn delete(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner().delete(keyspace, key.as_ref())
    }

    /// Deletes all keys in `range`: `"a".."b"`, `key..`, `..=key`, `..`. Costs as much as one put.
    ///
    /// # Errors
    /// [`Error::EmptyRange`] if the range ends at or before its start; otherwise the errors of
    /// [`Db::write`].
    pub fn delete_range(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Result<()> {
        self.inner().delete_range(keyspace, range.into())
    }

    /// Deletes all keys of `keyspace`, which continues to exist. Costs as much as one put.
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub fn clear(&self, keyspace: &Keyspace) -> Result<()> {
        self.delete_range(keyspace, ..)
    }

    /// Returns an empty batch, to be filled and passed to [`Db::write`].
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new()
    }

    /// Applies `batch` atomically, across keyspaces.
    ///
    /// When this returns, every read sees the batch, and it is as durable as the log's
    /// [`SyncPolicy`](crate::SyncPolicy) mode promises. An empty batch writes nothing.
    ///
    /// Writers faster than flush and compaction are throttled by at most 20 ms a write. If no further
    /// log segment fits the pool or the memory budget, a write waits until a flush frees one, however
    /// long that takes.
    ///
    /// # Errors
    /// * [`Error::KeyTooLong`], [`Error::ValueTooLarge`], [`Error::BatchTooLarge`],
    ///   [`Error::TooManyRangeDeletes`] if the batch exceeds a limit: see
    ///   [`Settings::max_entry_bytes`], [`Settings::max_batch_bytes`] and
    ///   [`Settings::max_batch_entries`]. A put of a single key may have a larger value, up to 4 GiB:
    ///   see [`Db::put_reader`]. [`Error::LargeValue`] if its keyspace, or the rest of the batch, does
    ///   not allow that. [`Error::EmptyKey`] and [`Error::OpenRangeTooLarge`]
    ///   occur only in databases that a pre-release build created.
    /// * [`Error::EmptyRange`] if a range delete ends at or before its start.
    /// * [`Error::NoMergeOperator`], [`Error::MergeFailed`] for a merge: see [`Keyspace::merge`].
    /// * [`Error::UnknownKeyspace`], [`Error::ForeignHandle`] if a keyspace is not of this
    ///   database.
    /// * [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`] if the handle cannot write.
    /// * [`Error::DropUndecided`] after a failed [`Db::drop_keyspace`].
    /// * [`Error::Io`] if no further log segment can be prepared, for example on a full disk.
    /// * [`Error::LogFailed`] if the log could not be written, now or earlier.
    ///
    /// After an error nothing was written, with two exceptions. After [`Error::LogFailed`], the
    /// next open may recover the whole batch. Without a log, a batch with [`WriteBatch::set_sync`] is
    /// visible even if its flush failed.
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
    /// let keyspace = db.default_keyspace();
    /// let mut batch = db.batch();
    /// batch.put(&keyspace, "stock/42", "3");
    /// batch.delete(&keyspace, "cart/7");
    /// batch.set_sync(true); // Survives power loss once `write` returns.
    /// db.write(&batch)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Settings::max_entry_bytes`]: crate::Settings::max_entry_bytes
    /// [`Settings::max_batch_bytes`]: crate::Settings::max_batch_bytes
    /// [`Settings::max_batch_entries`]: crate::Settings::max_batch_entries
    #[inline]
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.inner().write(batch)
    }

    /// Makes all acknowledged writes survive power loss. Without a log, this flushes all MemTables.
    ///
    /// # Errors
    /// [`Error::LogFailed`] if the log cannot be synced; [`Error::ReadOnly`], [`Error::Closed`],
    /// [`Error::Forked`] if the handle cannot write.
    pub fn sync(&self) -> Result<()> {
        let inner = self.upkeep()?;
        match inner.tree.settings.log {
            // Without a log, tables are the only durable place.
            Log::None => inner.flush_all(),
            Log::File { .. } | Log::Pmem { .. } => inner.commit.sync(),
        }
    }
}
