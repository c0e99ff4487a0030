//! The handles of an open database: what users call.
//!
//! [`Db`] and [`Transaction`](crate::Transaction) keep a database open.
//! [`Keyspace`], cursors, ranges and snapshots do not: once it is closed, they fail. Both handles share
//! `operations`; `keyspaces_adapter` and `kv_adapter` implement the traits of `esker-api` by them.
//!
//! A handle of another database, or of an earlier open, is rejected before it does anything.

pub(crate) mod cursor;
pub(crate) mod index;
pub(crate) mod indexed_batch;
mod ingest;
mod introspection;
pub(crate) mod keyspace;
pub(crate) mod keyspaces_adapter;
pub(crate) mod kv_adapter;
mod open;
pub(crate) mod operations;
mod prepared;
pub(crate) mod range;
mod snapshot_reads;
mod transact;
pub(crate) mod transaction;
mod upkeep;

use crate::engine::Engine;
use crate::limits::is_reserved;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::{DEFAULT_KEYSPACE, KeyspaceSettings, Log};
use crate::read::get::ReadTier;
use crate::recovery::close::{EngineHandle, Upkeep};
use crate::version::KeyspaceVersion;
use crate::version::readers::snapshot_tracker::Snapshot;
use cursor::DbCursor;
use esker_api::{KeyRange, Value, WriteBatch};
use esker_base::{Error, KeyspaceId, Result};
use keyspace::{Keyspace, KeyspaceInfo, check_name};
use range::Range;
use std::sync::Arc;
use std::time::Duration;

/// An open database.
///
/// Clones are handles to the same database, and all calls may be made from several threads. The
/// database closes when the last handle is dropped. [`Db::close`] closes it at once and reports
/// errors, which a drop cannot do.
///
/// Call [`Db::keyspace`] for a handle that reads and writes one keyspace. The methods here that
/// take a `&Keyspace` do the same.
///
/// # Forks
///
/// A database belongs to the process that opened it, because a forked child has no background
/// threads. In a child every call fails with [`Error::Forked`], and calls without a `Result` return
/// empty answers. Dropping a handle there does nothing. A daemon opens its databases after its last
/// fork. The child of a `Command` is not affected.
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
/// db.put(&users, b"ada", b"1815")?;
/// assert_eq!(db.get(&users, b"ada")?.as_deref(), Some(&b"1815"[..]));
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) handle: Arc<EngineHandle>,
}

impl Db {
    pub(crate) fn inner(&self) -> &Engine {
        &self.handle.inner
    }

    /// The database, unless it is closed or this process is a forked child of the one that opened it.
    #[inline]
    pub(crate) fn usable(&self) -> Result<&Engine> {
        let inner = self.inner();
        inner.tree.check_usable().map(|()| inner)
    }

    /// For calls that do I/O for upkeep: a close waits for them before it releases the lock.
    pub(crate) fn upkeep(&self) -> Result<Upkeep<'_>> {
        self.inner().begin_upkeep()
    }

    // Keyspaces.

    /// Returns the keyspace called `name`, and creates it with `settings` if it does not exist.
    ///
    /// Settings are fixed when a keyspace is created, so those of an existing keyspace must be the
    /// same. [`Db::open_keyspace`] opens a keyspace whatever its settings. The creation is durable
    /// when this returns.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::options::Shape;
    /// use esker::{Db, KeyspaceSettings, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 8 });
    /// db.keyspace("events", tiered)?;
    /// assert!(db.keyspace("events", tiered).is_ok());
    ///
    /// let error = db.keyspace("events", KeyspaceSettings::default()).unwrap_err();
    /// assert!(error.to_string().contains("shape is tiered:8, not leveled:10"));
    /// assert_eq!(db.open_keyspace("events")?.settings()?, tiered);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::KeyspaceSettingsDiffer`] if the keyspace exists with other settings.
    /// * [`Error::BadKeyspaceName`] if no keyspace may have this name: see
    ///   [`Keyspace::check_name`].
    /// * [`Error::InvalidSetting`] if the keyspace does not exist and a setting is out of range.
    /// * [`Error::ReadOnly`] if it does not exist and the database is read-only.
    /// * [`Error::Io`] if the manifest cannot be written; [`Error::Closed`] and [`Error::Forked`]
    ///   as for every call.
    pub fn keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        if let Ok(found) = self.open_keyspace_with(name, &settings) {
            return found;
        }
        check_name(name)?;
        settings.validate()?;
        self.create_keyspace(name, settings)?;
        // Another thread may have created it in the meantime, with its own settings.
        self.open_keyspace_with(name, &settings)?
    }

    /// Creates the keyspace `name`, unless it exists.
    fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<()> {
        let inner = self.upkeep()?;
        inner.tree.installer.install(
            &inner.tree.view,
            |state| {
                if state.version.keyspace_named(name).is_some() {
                    return Ok(VersionEdit::default());
                }
                Ok(VersionEdit::of([VersionChange::CreateKeyspace {
                    id: KeyspaceId(state.next_keyspace),
                    name: name.to_owned(),
                    settings,
                    retention_seqno: None,
                }]))
            },
            |_| {},
        )
    }

    /// The keyspace `name`: an outer error if it does not exist, and an inner one if its settings
    /// differ from `settings`.
    fn open_keyspace_with(
        &self,
        name: &str,
        settings: &KeyspaceSettings,
    ) -> Result<Result<Keyspace>> {
        let view = self.usable()?.tree.view.pin();
        let found = view.version.keyspace_named(name).filter(|_| !is_reserved(name));
        let Some(found) = found else {
            return Err(Error::UnknownKeyspace { name: name.to_owned() });
        };
        Ok(match settings.difference_from(&found.settings) {
            None => Ok(self.handle_of(found.id, &found.name)),
            Some(difference) => {
                Err(Error::KeyspaceSettingsDiffer { name: name.to_owned(), difference })
            }
        })
    }

    /// Returns the keyspace called `name`.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if it does not exist, [`Error::Closed`] once the database is
    /// closed.
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        let view = self.usable()?.tree.view.pin();
        match view.version.keyspace_named(name) {
            Some(found) if !is_reserved(name) => Ok(self.handle_of(found.id, &found.name)),
            _ => Err(Error::UnknownKeyspace { name: name.to_owned() }),
        }
    }

    /// Returns the keyspace called `default`, which every database has.
    pub fn default_keyspace(&self) -> Keyspace {
        self.handle_of(KeyspaceId::DEFAULT, DEFAULT_KEYSPACE)
    }

    fn handle_of(&self, id: KeyspaceId, name: &str) -> Keyspace {
        Keyspace::new(&self.handle.inner, id, name)
    }

    /// Returns all keyspaces, ordered by id, except those of the engine itself, such as the entries of
    /// indexes. Empty once the database is closed, and in a forked child.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let Ok(inner) = self.usable() else { return Vec::new() };
        let info = |keyspace: &Arc<KeyspaceVersion>| KeyspaceInfo {
            name: keyspace.name.clone(),
            id: keyspace.id,
            settings: keyspace.settings,
        };
        let view = inner.tree.view.pin();
        let keyspaces = view.version.keyspaces.values();
        keyspaces.filter(|keyspace| !is_reserved(&keyspace.name)).map(info).collect()
    }

    /// Drops `keyspace` with all its entries and indexes.
    ///
    /// The drop is durable when this returns. Disk space is freed once no cursor reads the
    /// keyspace. Its handles are useless from then on, also after a keyspace of the same name is
    /// created. The default keyspace cannot be dropped.
    ///
    /// # Errors
    /// * [`Error::UnknownKeyspace`] if it was dropped.
    /// * [`Error::ForeignHandle`] if another database made the handle.
    /// * [`Error::BadKeyspaceName`] for the default keyspace; [`Db::clear`] deletes its keys
    ///   instead.
    /// * [`Error::ReadOnly`] if the database is read-only.
    /// * [`Error::Io`] if the manifest cannot be written.
    ///
    /// After an error the keyspace still exists. If the manifest could not be restored either, the
    /// next open may find the keyspace dropped. Until it is restored, each write to the keyspace
    /// tries again, and fails with [`Error::DropUndecided`] if it cannot.
    pub fn drop_keyspace(&self, keyspace: &Keyspace) -> Result<()> {
        let inner = self.upkeep()?;
        let id = inner.tree.resolve(keyspace)?;
        let name = || keyspace.name().to_owned();
        if id == KeyspaceId::DEFAULT {
            return Err(Error::BadKeyspaceName {
                name: name(),
                reason: "the default keyspace can't be dropped; delete its keys instead",
            });
        }
        inner.drop_with_indexes(id, keyspace.name())?;
        if let Some(dram_table) = &inner.tree.dram_table {
            dram_table.drop_keyspace(id);
        }
        Ok(())
    }

    // Reads.

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

    // Writes.

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
    ///   [`Settings::max_batch_entries`]. [`Error::EmptyKey`] and [`Error::OpenRangeTooLarge`]
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

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}
