//! The handles of an open database.

pub(crate) mod checkpoint_request;
pub(crate) mod cursor;
pub(crate) mod keyspace;
pub(crate) mod keyspaces_adapter;
pub(crate) mod kv_adapter;
pub(crate) mod operations;
pub(crate) mod range;
mod snapshot_reads;
pub(crate) mod transaction;

use crate::background;
use crate::compaction::space::budget;
use crate::compaction::space::budget::PickerContext;
use crate::engine::Engine;
use crate::log::torn_tail::TornTail;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::{DEFAULT_KEYSPACE, KeyspaceSettings, Log, Settings};
use crate::read::get::ReadTier;
use crate::recovery::close::{EngineHandle, Upkeep};
use crate::recovery::env::{Env, posix_env};
use crate::recovery::open::{CreateMode, existing_directory};
use crate::stats;
use crate::stats::cumulative::CumulativeStats;
use crate::stats::{KeyspaceLevels, LiveData, SpaceAmpStatus, Stats};
use crate::version::KeyspaceVersion;
use crate::version::snapshot_tracker::Snapshot;
use crate::version::unreadable::UnreadableTable;
use cursor::DbCursor;
use esker_api::{KeyRange, Value, WriteBatch};
use esker_base::{Error, KeyspaceId, Result};
use esker_memtable::{DramTable, DramTableStats};
use esker_storage::{PosixStorage, Storage};
use keyspace::{Keyspace, KeyspaceInfo, check_name};
use range::Range;
use std::path::Path;
use std::sync::Arc;

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
    /// Opens the database in `dir`, or creates it if the directory is missing or empty.
    ///
    /// Recovers the writes in the log and prepares the first log segment. Tables are opened in the
    /// background, so damage in a table is reported later: by reads and by
    /// [`Db::background_error`]. The exception is a keyspace with a space-amplification limit. Then
    /// the open waits for the tables, and damage in their indexes and filters fails it.
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`] if a setting is out of range.
    /// * [`Error::Locked`] if the database is open for writing in another process, or in this one.
    /// * [`Error::NotADatabase`] if the directory holds other files.
    /// * [`Error::Corruption`] if the manifest, the log or the end of a table is damaged, or a
    ///   table file is missing.
    /// * [`Error::TornLog`] under [`Recovery::Strict`](crate::Recovery::Strict).
    /// * [`Error::NewerVersion`] or [`Error::UnknownFeatures`] if a newer release wrote the files.
    /// * [`Error::PoolRefused`] or [`Error::PoolDamaged`] if the pool of persistent memory cannot
    ///   be used.
    /// * [`Error::Forked`] if the settings share resources of a parent process.
    /// * [`Error::Io`] if the system fails an operation, such as the preparation of a log segment
    ///   on a full disk.
    pub fn open(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let dir = dir.as_ref();
        let is_new = !dir.exists();
        let storage = Arc::new(PosixStorage::create(dir)?);
        let opened = posix_env(storage.clone(), &settings, true)
            .and_then(|env| Db::open_in(env, settings, CreateMode::IfMissing));
        if is_new && opened.is_err() {
            // It stays if anything is in it.
            let _ = storage.remove_if_empty();
        }
        opened
    }

    /// Opens the database in `dir`, which must exist.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is no database in `dir`; otherwise the errors of
    /// [`Db::open`].
    pub fn open_existing(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = Arc::new(existing_directory(dir.as_ref())?);
        Db::open_in(posix_env(storage, &settings, true)?, settings, CreateMode::Never)
    }

    /// Opens the database in `dir` for reading, at its present state.
    ///
    /// Another process may write to the database at the same time. Its later writes are not visible
    /// here. Nothing is written to `dir`.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if there is no database in `dir`; otherwise the errors of
    /// [`Db::open`], except [`Error::Locked`]. Later calls that would change the database fail with
    /// [`Error::ReadOnly`].
    pub fn open_read_only(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = Arc::new(existing_directory(dir.as_ref())?);
        Db::open_read_only_in(posix_env(storage, &settings, false)?, settings)
    }

    /// Opens or creates a database with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Db::open`].
    pub fn open_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::open_in(env, settings, CreateMode::IfMissing)
    }

    /// Opens an existing database with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Db::open_existing`].
    pub fn open_existing_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::open_in(env, settings, CreateMode::Never)
    }

    /// Opens a database for reading with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Db::open_read_only`].
    pub fn open_read_only_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::open_read_only_in(env, settings)
    }

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
    /// same. [`Db::existing_keyspace`] opens a keyspace whatever its settings. The creation is durable
    /// when this returns.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, KeyspaceSettings, Settings, Shape};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 8 });
    /// db.keyspace("events", tiered)?;
    /// assert!(db.keyspace("events", tiered).is_ok());
    ///
    /// let error = db.keyspace("events", KeyspaceSettings::default()).unwrap_err();
    /// assert!(error.to_string().contains("shape is tiered:8, not leveled:10"));
    /// assert_eq!(db.existing_keyspace("events")?.settings()?, tiered);
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
        if let Ok(found) = self.existing_keyspace_with(name, &settings) {
            return found;
        }
        check_name(name)?;
        settings.validate()?;
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
        )?;
        // Another thread may have created it in the meantime, with its own settings.
        self.existing_keyspace_with(name, &settings)?
    }

    /// The keyspace `name`: an outer error if it does not exist, and an inner one if its settings
    /// differ from `settings`.
    fn existing_keyspace_with(
        &self,
        name: &str,
        settings: &KeyspaceSettings,
    ) -> Result<Result<Keyspace>> {
        let view = self.usable()?.tree.view.pin();
        let Some(found) = view.version.keyspace_named(name) else {
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
    pub fn existing_keyspace(&self, name: &str) -> Result<Keyspace> {
        let view = self.usable()?.tree.view.pin();
        match view.version.keyspace_named(name) {
            Some(found) => Ok(self.handle_of(found.id, &found.name)),
            None => Err(Error::UnknownKeyspace { name: name.to_owned() }),
        }
    }

    /// Returns the keyspace called `default`, which every database has.
    pub fn default_keyspace(&self) -> Keyspace {
        self.handle_of(KeyspaceId::DEFAULT, DEFAULT_KEYSPACE)
    }

    fn handle_of(&self, id: KeyspaceId, name: &str) -> Keyspace {
        Keyspace::new(&self.handle.inner, id, name)
    }

    /// Returns all keyspaces, ordered by id. Empty once the database is closed, and in a forked
    /// child.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let Ok(inner) = self.usable() else { return Vec::new() };
        let info = |keyspace: &Arc<KeyspaceVersion>| KeyspaceInfo {
            name: keyspace.name.clone(),
            id: keyspace.id,
            settings: keyspace.settings,
        };
        inner.tree.view.pin().version.keyspaces.values().map(info).collect()
    }

    /// Drops the keyspace called `name` with all its entries.
    ///
    /// The drop is durable when this returns. Disk space is freed once no cursor reads the
    /// keyspace. The default keyspace cannot be dropped.
    ///
    /// # Errors
    /// * [`Error::UnknownKeyspace`] if it does not exist.
    /// * [`Error::BadKeyspaceName`] for the default keyspace; [`Db::clear`] deletes its keys
    ///   instead.
    /// * [`Error::ReadOnly`] if the database is read-only.
    /// * [`Error::Io`] if the manifest cannot be written.
    ///
    /// After an error the keyspace still exists. If the manifest could not be restored either, the
    /// next open may find the keyspace dropped. Until it is restored, each write to the keyspace
    /// tries again, and fails with [`Error::DropUndecided`] if it cannot.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let inner = self.upkeep()?;
        let id = self.existing_keyspace(name)?.id();
        if id == KeyspaceId::DEFAULT {
            return Err(Error::BadKeyspaceName {
                name: name.to_owned(),
                reason: "the default keyspace can't be dropped; delete its keys instead",
            });
        }
        inner.tree.install(
            CumulativeStats::default(),
            |state| match state.version.keyspaces.contains_key(&id) {
                true => Ok(VersionEdit::of([VersionChange::DropKeyspace(id)])),
                false => Err(Error::UnknownKeyspace { name: name.to_owned() }),
            },
            |_| {},
        )?;
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

    /// Returns the value of `key` at `snapshot`, or `None`.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`] if another database took the snapshot; otherwise the errors of
    /// [`Db::get`].
    pub fn get_at(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        snapshot: &Snapshot,
    ) -> Result<Option<Value>> {
        self.inner().get_at(keyspace, key.as_ref(), snapshot)
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
        self.inner().multi_get(keyspace, keys)
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

    /// Returns a cursor over `range` at a new snapshot.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn cursor(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Result<DbCursor> {
        self.cursor_at(keyspace, range, &self.snapshot())
    }

    /// Returns a cursor over `range` at `snapshot`.
    ///
    /// # Errors
    /// The errors of [`Db::get_at`].
    pub fn cursor_at(
        &self,
        keyspace: &Keyspace,
        range: impl Into<KeyRange>,
        snapshot: &Snapshot,
    ) -> Result<DbCursor> {
        let keyspace = self.inner().tree.resolve(keyspace)?;
        DbCursor::new(&self.handle.inner, keyspace, range.into(), snapshot.clone())
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
    /// [`Sync`](crate::Sync) mode promises. An empty batch writes nothing.
    ///
    /// Writers faster than flush and compaction are throttled: each write waits, 20 ms at most. If
    /// no further log segment fits the pool or the memory budget, a write waits for a flush,
    /// without a limit.
    ///
    /// # Errors
    /// * [`Error::KeyTooLong`], [`Error::ValueTooLarge`], [`Error::BatchTooLarge`],
    ///   [`Error::TooManyRangeDeletes`] if the batch exceeds a limit: see
    ///   [`Settings::max_entry_bytes`], [`Settings::max_batch_bytes`] and
    ///   [`Settings::max_batch_entries`]. [`Error::EmptyKey`] and [`Error::OpenRangeTooLarge`]
    ///   occur only in databases that an early release created.
    /// * [`Error::EmptyRange`] if a range delete ends at or before its start.
    /// * [`Error::UnknownKeyspace`], [`Error::ForeignHandle`] if a keyspace is not of this
    ///   database.
    /// * [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`] if the handle cannot write.
    /// * [`Error::DropUndecided`] after a failed [`Db::drop_keyspace`].
    /// * [`Error::Io`] if no further log segment can be prepared, for example on a full disk.
    /// * [`Error::LogFailed`] if the log could not be written, now or earlier.
    ///
    /// After an error nothing was written, with two exceptions. After [`Error::LogFailed`], the
    /// next open may recover the whole batch. Without a log, a batch with [`WriteBatch::sync`] is
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
    /// batch.sync(); // Survives power loss once `write` returns.
    /// db.write(&batch)?;
    /// # Ok(())
    /// # }
    /// ```
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

    // Upkeep.

    /// Flushes all acknowledged writes to tables, and waits for it.
    ///
    /// # Errors
    /// The error of the flush, such as [`Error::Io`] on a full disk; [`Error::LogFailed`] after the
    /// log failed; [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`] if the handle cannot
    /// write.
    pub fn flush(&self) -> Result<()> {
        self.upkeep()?.flush_all()
    }

    /// Flushes, and compacts every keyspace into one run without obsolete data.
    ///
    /// Runs in the calling thread and rewrites all tables that hold obsolete data or overlap. What
    /// snapshots see is kept.
    ///
    /// # Errors
    /// [`Error::TableUnreadable`] if a table cannot be read; then everything that does not need the
    /// table is compacted. Otherwise the errors of [`Db::flush`].
    pub fn compact(&self) -> Result<()> {
        let inner = self.upkeep()?;
        // A version held would keep all that is merged.
        let keyspaces: Vec<_> = inner.tree.view.load().version.keyspaces.keys().copied().collect();
        let mut left_out = Ok(());
        for keyspace in keyspaces {
            match inner.compact_fully(keyspace) {
                // Dropped meanwhile.
                Err(Error::UnknownKeyspace { .. }) => {}
                Err(error @ Error::TableUnreadable { .. }) => left_out = left_out.and(Err(error)),
                done => done?,
            }
        }
        left_out
    }

    /// Compacts one keyspace as [`Db::compact`] does.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if the keyspace was dropped; otherwise the errors of
    /// [`Db::compact`].
    pub fn compact_keyspace(&self, keyspace: &Keyspace) -> Result<()> {
        let inner = self.upkeep()?;
        inner.compact_fully(inner.tree.resolve(keyspace)?)
    }

    /// Waits until flush and compaction have no work left and the next log segment is prepared.
    ///
    /// Work that needs a table that cannot be opened is left; [`Db::background_error`] reports it.
    ///
    /// # Errors
    /// The error of a flush or a compaction that failed; [`Error::ReadOnly`], [`Error::Closed`],
    /// [`Error::Forked`] if the handle cannot write.
    pub fn settle(&self) -> Result<()> {
        self.upkeep()?.settle()
    }

    /// Runs one background job in the calling thread. Returns false if there is none, or if it
    /// failed.
    ///
    /// This is for a database whose [`Background`](esker_base::Background) has no threads.
    pub fn step(&self) -> bool {
        self.upkeep().is_ok_and(|inner| background::step(&inner))
    }

    /// Returns the error that stops or limits background work now, or `None`.
    ///
    /// It is the failure of the log, of the flush or of a compaction, such as a full disk.
    /// Otherwise it is [`Error::TableUnreadable`] if compaction skips a table;
    /// [`Db::unreadable_tables`] lists all of these.
    pub fn background_error(&self) -> Option<Error> {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            return inner.tree.check_usable().err();
        }
        let of_tables = || inner.tree.unreadable_error();
        inner.commit.failure().or_else(|| inner.schedule.error()).or_else(of_tables)
    }

    /// Returns the tables that compaction skips because a read of them failed. Empty in a forked
    /// child.
    ///
    /// Reads still use the intact parts of such a table. After an I/O error, compaction tries the
    /// table again after a pause. The next open tries all tables again.
    pub fn unreadable_tables(&self) -> Vec<UnreadableTable> {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            return Vec::new();
        }
        inner.tree.view.pin().version.unreadable_tables(inner.tree.keys)
    }

    /// Returns the statistics of the database.
    ///
    /// May wait for a sync of the manifest. In a forked child, only `background_error` is set.
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            let background_error = self.background_error().map(|error| error.to_string());
            return Stats { background_error, ..Stats::default() };
        }
        // These wait for a sync of the manifest: before the view is taken, for merged files stay while it is held.
        let (logs, account) =
            (inner.tree.installer.state().logs.len() as u64, inner.tree.account());
        let background_error = self.background_error().map(|error| error.to_string());
        let resources = inner.share.resources();
        let cache_own_bytes = match resources.is_shared() {
            true => inner.tree.cache.own_bytes(),
            false => inner.tree.cache.used_bytes(),
        };
        let view = inner.tree.view.load();
        let (user_bytes, writes) = inner.commit.written();
        let traffic = inner.commit.log_traffic();
        let pool = inner.tree.logs.pool().map(|pool| pool.traffic()).unwrap_or_default();
        let (counters, space) = (&inner.tree.counters, inner.tree.table_space());
        let tables = || view.version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        let opened = || tables().filter_map(|(_, _, table)| table.opened());
        let (read, rewritten) =
            (counters.compaction_read_bytes.get(), counters.compaction_bytes.get());
        Stats {
            writes,
            user_bytes,
            pool_domain: inner.tree.logs.pool().map(|pool| pool.domain()),
            log_bytes: traffic.bytes + pool.bytes,
            log_appends: traffic.appends,
            log_syncs: traffic.syncs,
            log_flushes: pool.flushes,
            log_fences: pool.fences,
            flushes: counters.flushes.get(),
            flush_bytes: counters.flush_bytes.get(),
            compactions: counters.compactions.get(),
            trivial_moves: counters.trivial_moves.get(),
            compactions_done: *counters.compactions_done.lock(),
            deferrals: counters.deferrals.get(),
            compactions_deferred: inner.schedule.jobs.lock().deferred.len() as u64,
            compaction_read_bytes: read,
            compaction_bytes: rewritten,
            reclaimed_bytes: read.saturating_sub(rewritten),
            predicted_reclaim_bytes: counters.predicted_reclaim_bytes.get(),
            reclaims_within_tenth: counters.reclaims_within_tenth.get(),
            stalled: inner.stall.stalled(),
            dram_table: self.dram_table(),
            cache_hits: inner.tree.cache.hits(),
            cache_misses: inner.tree.cache.misses(),
            cache_bytes: inner.tree.cache.used_bytes() as u64,
            cache_capacity_bytes: inner.tree.cache.capacity_bytes() as u64,
            table_gets: counters.table_gets.sum(),
            table_memory_bytes: view.version.table_memory(),
            filter_bytes: opened().map(|table| table.filter_bytes() as u64).sum(),
            memtable_bytes: view.memtables.iter().map(|m| m.memory_bytes() as u64).sum(),
            memtables: view.memtables.len() as u64,
            tables: tables().count() as u64,
            table_bytes: tables().map(|(_, _, table)| table.meta.bytes).sum(),
            table_file_bytes: space.bytes,
            table_file_bytes_peak: space.peak_bytes,
            logs,
            snapshots: inner.tree.snapshots.len() as u64,
            visible_seqno: inner.commit.visible(),
            flushed_seqno: view.version.flushed_through,
            unreadable_tables: view.version.unreadable_tables(inner.tree.keys),
            background_error,
            databases: resources.databases() as u64,
            memory_budget_bytes: resources.memory_bytes() as u64,
            memory_charged_bytes: resources.charged_bytes() as u64,
            memory_own_bytes: inner.share.charged_bytes() as u64,
            cache_own_bytes: cache_own_bytes as u64,
            account,
        }
    }

    /// Returns the bytes that table files and the log segments of MemTables use. 0 in a forked
    /// child.
    ///
    /// Takes no lock that is held across I/O.
    pub fn used_bytes(&self) -> u64 {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            return 0;
        }
        let in_memory: u64 = inner.tree.view.load().memtables.iter().map(|m| m.bytes_used()).sum();
        inner.tree.table_space().bytes + in_memory
    }

    /// Returns the statistics of the DRAMTable without waiting: the field of [`Db::stats`] by
    /// itself.
    pub fn dram_table(&self) -> DramTableStats {
        let inner = self.inner();
        let dram_table = inner.tree.dram_table.as_ref().filter(|_| inner.tree.owner.is_current());
        dram_table.map(DramTable::stats).unwrap_or_default()
    }

    /// Returns what the open rejected at the end of the log, or `None` if the log ended cleanly.
    ///
    /// Causes are a crash during writes, power loss before a sync, or later damage to the file. A
    /// read-only database reports only an end with whole frames after it: an incomplete frame
    /// without any may be a write in progress.
    pub fn torn_log(&self) -> Option<&TornTail> {
        self.inner().torn_log.as_ref()
    }

    /// Returns the new names, `lost-NAME`, of the files that this open set aside.
    ///
    /// The manifest does not list these files, and they may hold writes that are nowhere else.
    /// After a crash, none of these writes was acknowledged as durable.
    pub fn set_aside(&self) -> &[String] {
        &self.inner().set_aside
    }

    /// Returns the names and the lengths in bytes of all files that this and earlier opens set
    /// aside.
    ///
    /// Esker never removes them; an operator does.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be listed, [`Error::Forked`] in a forked child,
    /// [`Error::Closed`] once the database is closed.
    pub fn lost_files(&self) -> Result<Vec<(String, u64)>> {
        crate::recovery::unlisted_files::lost_files(&*self.usable()?.tree.storage)
    }

    /// Estimates the live data in tables from samples of their keys. `None` if a table cannot be
    /// opened.
    pub fn live_data(&self) -> Option<LiveData> {
        let inner = self.usable().ok()?;
        let snapshots = inner.tree.snapshots.list();
        stats::live_data(&inner.tree.opened_version(), &snapshots)
    }

    /// Returns the space usage of each keyspace that has a space-amplification limit.
    pub fn goals(&self) -> Vec<SpaceAmpStatus> {
        let Ok(inner) = self.usable() else { return Vec::new() };
        // All that waits for others comes before the version: merged files stay while it is held.
        let segment_bytes = inner.tree.known_segment_bytes();
        let around = PickerContext {
            snapshots: inner.tree.snapshots.list(),
            zombie_bytes: inner.tree.installer.zombie_bytes(),
            ..PickerContext::default()
        };
        budget::goals(&inner.tree.opened_version(), segment_bytes, &around)
    }

    /// Whether the empty key is valid. True except in databases that the first releases created.
    pub fn takes_empty_key(&self) -> bool {
        self.inner().tree.keys.takes_empty_key()
    }

    /// Returns the levels, runs and tables of every keyspace. Empty once the database is closed.
    pub fn levels(&self) -> Vec<KeyspaceLevels> {
        // A flush that has just ended may not have come to opening its tables; one that can't be opened
        // leaves its level's figures out.
        let levels = |inner: &Engine| stats::levels(&inner.tree.opened_version(), inner.tree.keys);
        self.usable().map_or_else(|_| Vec::new(), levels)
    }

    /// Writes a consistent copy of the database into `dir`, which must be missing or empty.
    ///
    /// The copy has every write acknowledged before the call, and none that began after it
    /// returned. Writers proceed meanwhile. Tables are hard links where the file system can link
    /// them, and copies elsewhere.
    ///
    /// # Errors
    /// * [`Error::DatabaseExists`] if `dir` holds a database, [`Error::NotADatabase`] if it holds other
    ///   files.
    /// * [`Error::Io`] if a file cannot be linked, copied or written; the errors of [`Db::flush`].
    ///
    /// After an error nothing is left in `dir`, and `dir` is removed if it was missing.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_while(dir, &|| true)
    }

    /// Writes a checkpoint as [`Db::checkpoint`] does, as long as `goes_on` returns true.
    ///
    /// `goes_on` is called before each table.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `goes_on` returns false; otherwise the errors of [`Db::checkpoint`].
    pub fn checkpoint_while(
        &self,
        dir: impl AsRef<Path>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        // Before a directory is made for it.
        self.inner().check_writable()?;
        crate::recovery::checkpoint::checkpoint_into(&*self.upkeep()?, dir.as_ref(), goes_on)
    }

    /// Writes a checkpoint into a custom storage, which must be empty.
    ///
    /// # Errors
    /// The errors of [`Db::checkpoint`].
    pub fn checkpoint_to(&self, target: &dyn Storage) -> Result<()> {
        crate::recovery::checkpoint::checkpoint(&*self.upkeep()?, target, &|| true)
    }

    /// Closes the database: stops background work, flushes, and releases threads, files and locks.
    ///
    /// Waits for calls in other threads. Other handles may remain: their calls, and the moves of
    /// cursors, fail with [`Error::Closed`]. The database can be opened again at once.
    ///
    /// # Errors
    /// The error of the final flush or of the manifest. The database is closed all the same. The log,
    /// if there is one, keeps the writes that were not flushed.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}
