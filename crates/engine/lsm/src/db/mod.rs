//! The database: what users hold.

pub(crate) mod checkpoint_request;
pub(crate) mod keyspace;
pub(crate) mod keyspaces_adapter;
pub(crate) mod kv_adapter;
pub(crate) mod operations;

use crate::background;
use crate::compaction::space::budget;
use crate::compaction::space::budget::Surroundings;
use crate::engine::{Inner, table_memory};
use crate::log::torn_tail::TornLog;
use crate::manifest::version_edit::{Change, Edit};
use crate::options::settings::{DEFAULT_KEYSPACE, KeyspaceSettings, Log, Settings};
use crate::read::cursor::DbCursor;
use crate::read::get::Patience;
use crate::read::range::Range;
use crate::recovery::close::{Handle, Upkeep};
use crate::recovery::env::{Env, posix_env};
use crate::recovery::open::{Create, existing_directory};
use crate::stats;
use crate::stats::cumulative::Account;
use crate::stats::{GoalInfo, KeyspaceLevels, LiveData, Stats};
use crate::version::KeyspaceVersion;
use crate::version::snapshot_tracker::Snapshot;
use crate::version::unreadable::UnreadableTable;
use esker_api::{KeyRange, Value, WriteBatch};
use esker_base::{Error, KeyspaceId, Result};
use esker_memtable::{DramTable, DramTableStats};
use esker_storage::{PosixStorage, Storage};
use keyspace::{Keyspace, KeyspaceInfo, check_name};
use std::path::Path;
use std::sync::Arc;

/// An open database. Clones are handles to the same one; it closes when the last is dropped, or by
/// [`Db::close`], which reports errors.
///
/// # Forks
///
/// A database belongs to the process that opened it. In a forked child every call fails with
/// [`Error::Forked`], reads included, and dropping a handle does nothing: the background threads are
/// the parent's. Calls that return no error return nothing: no levels, empty statistics. A program
/// that becomes a daemon opens its databases after the fork. The child of a `Command` is not affected.
///
/// ```
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker_lsm::{Db, KeyspaceSettings, Settings};
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
    pub(crate) handle: Arc<Handle>,
}

impl Db {
    /// Opens the database in `dir`, and creates it if the directory is missing or empty. Recovers
    /// what the log holds, and prepares the first step of a log segment.
    ///
    /// Fails with [`Error::Locked`] if another process, or this one, has it open for writing, with
    /// [`Error::NotADatabase`] if the directory holds other files, and with [`Error::Corruption`] if
    /// the manifest, the log, or the end of a table is damaged, or a table's file is missing.
    /// Tables are opened in the background. [`Db::background_error`] and reads report damage there. If a
    /// keyspace has a goal for space, tables are opened first: then damage in their indexes and filters, too, fails the open.
    pub fn open(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let dir = dir.as_ref();
        let is_new = !dir.exists();
        let storage = Arc::new(PosixStorage::create(dir)?);
        let opened = posix_env(storage.clone(), &settings, true)
            .and_then(|env| Db::open_in(env, settings, Create::IfMissing));
        if is_new && opened.is_err() {
            // It stays if anything is in it.
            let _ = storage.remove_if_empty();
        }
        opened
    }

    /// Like [`Db::open`], but fails with [`Error::NotADatabase`] if there is no database in `dir`.
    pub fn open_existing(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = Arc::new(existing_directory(dir.as_ref())?);
        Db::open_in(posix_env(storage, &settings, true)?, settings, Create::Never)
    }

    /// Opens the database in `dir` for reading, as it is now, beside a process that may be writing
    /// to it. Later writes are not seen, and nothing is written.
    pub fn open_read_only(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = Arc::new(existing_directory(dir.as_ref())?);
        Db::open_read_only_in(posix_env(storage, &settings, false)?, settings)
    }

    /// Opens or creates a database with a custom [`Env`].
    pub fn open_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::open_in(env, settings, Create::IfMissing)
    }

    /// Like [`Db::open_existing`], with a custom [`Env`].
    pub fn open_existing_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::open_in(env, settings, Create::Never)
    }

    /// Like [`Db::open_read_only`], with a custom [`Env`].
    pub fn open_read_only_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::open_read_only_in(env, settings)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.handle.inner
    }

    /// The database, unless it is closed or this process is a forked child of the one that opened it.
    #[inline]
    pub(crate) fn usable(&self) -> Result<&Inner> {
        let inner = self.inner();
        inner.check_usable().map(|()| inner)
    }

    /// For calls that do I/O for upkeep: a close waits for them before it releases the lock.
    pub(crate) fn upkeep(&self) -> Result<Upkeep<'_>> {
        self.inner().begin_upkeep()
    }

    // Keyspaces.

    /// The keyspace called `name`, created with `settings` if there is none. An existing one keeps
    /// the settings that it was created with. Its creation is durable when this returns.
    pub fn keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        if let Ok(found) = self.existing_keyspace(name) {
            return Ok(found);
        }
        check_name(name)?;
        settings.validate()?;
        let inner = self.upkeep()?;
        inner.installer.install(
            &inner.view,
            |state| {
                if state.version.keyspace_named(name).is_some() {
                    return Ok(Edit::default());
                }
                Ok(Edit::of([Change::CreateKeyspace {
                    id: KeyspaceId(state.next_keyspace),
                    name: name.to_owned(),
                    settings,
                    retention_seqno: None,
                }]))
            },
            |_| {},
        )?;
        self.existing_keyspace(name)
    }

    /// The keyspace called `name`.
    pub fn existing_keyspace(&self, name: &str) -> Result<Keyspace> {
        let view = self.usable()?.view.pin();
        match view.version.keyspace_named(name) {
            Some(found) => Ok(self.handle_of(found.id, &found.name)),
            None => Err(Error::UnknownKeyspace { name: name.to_owned() }),
        }
    }

    /// The keyspace that every database has, called `default`.
    pub fn default_keyspace(&self) -> Keyspace {
        self.handle_of(KeyspaceId::DEFAULT, DEFAULT_KEYSPACE)
    }

    fn handle_of(&self, id: KeyspaceId, name: &str) -> Keyspace {
        Keyspace::new(&self.handle.inner, id, name)
    }

    /// All keyspaces, by id. None in a forked child, nor once the database is closed.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let Ok(inner) = self.usable() else { return Vec::new() };
        let info = |keyspace: &Arc<KeyspaceVersion>| KeyspaceInfo {
            name: keyspace.name.clone(),
            id: keyspace.id,
            settings: keyspace.settings,
        };
        inner.view.pin().version.keyspaces.values().map(info).collect()
    }

    /// Removes the keyspace called `name` and everything in it. Durable when this returns; the space
    /// is free once no cursor reads there any more. The default keyspace can't be dropped.
    ///
    /// After an error the keyspace is still there. If the manifest could not be restored either, the
    /// next open may find the keyspace dropped; until that is settled, writes to it try to restore the
    /// manifest again, and fail with [`Error::DropUndecided`] if they can't.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let inner = self.upkeep()?;
        let id = self.existing_keyspace(name)?.id();
        if id == KeyspaceId::DEFAULT {
            return Err(Error::BadKeyspaceName {
                name: name.to_owned(),
                reason: "the default keyspace can't be dropped; delete its keys instead",
            });
        }
        inner.install(
            Account::default(),
            |state| match state.version.keyspaces.contains_key(&id) {
                true => Ok(Edit::of([Change::DropKeyspace(id)])),
                false => Err(Error::UnknownKeyspace { name: name.to_owned() }),
            },
            |_| {},
        )?;
        if let Some(dram_table) = &inner.dram_table {
            dram_table.drop_keyspace(id);
        }
        Ok(())
    }

    // Reads.

    /// Returns the newest value of `key`, or `None`.
    ///
    /// Reads one block from the device if none is cached, rarely more.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if the keyspace was dropped, [`Error::ForeignHandle`] if another
    /// database made the handle, [`Error::Corruption`] and [`Error::Io`] if a table can't be read,
    /// [`Error::Closed`] once the database is closed.
    #[inline]
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner().get(keyspace, key.as_ref(), Patience::MayBlock)
    }

    /// Like [`Db::get`], but never waits for the device.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if the answer is not in memory; the errors of [`Db::get`].
    pub fn try_get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner().get(keyspace, key.as_ref(), Patience::MemoryOnly)
    }

    /// Returns the value of `key` at `snapshot`, or `None`.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`] if another database took the snapshot; the errors of [`Db::get`].
    pub fn get_at(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        snapshot: &Snapshot,
    ) -> Result<Option<Value>> {
        self.inner().get_at(keyspace, key.as_ref(), snapshot)
    }

    /// Returns the newest values of `keys` in their order, all from one consistent snapshot.
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

    /// Takes a consistent snapshot of the whole database, to read at later.
    ///
    /// Compaction keeps what the snapshot sees until it is dropped.
    #[must_use = "a snapshot lasts until it is dropped"]
    pub fn snapshot(&self) -> Snapshot {
        self.inner().take_snapshot()
    }

    /// Iterates over the entries with keys in `range`: `"a".."b"`, `key..`, `..=key`, `..`.
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker_lsm::Db::open(dir.path(), esker_lsm::Settings::default())?;
    /// # let fruit = db.default_keyspace();
    /// for name in ["apple", "banana", "cherry"] {
    ///     db.put(&fruit, name, "")?;
    /// }
    /// let mut keys = Vec::new();
    /// for pair in db.range(&fruit, "b"..).rev() {
    ///     let (key, _value) = pair?;
    ///     keys.push(key);
    /// }
    /// assert_eq!(keys, [b"cherry", b"banana"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Range {
        Range::new(&self.handle.inner, Some(self.clone()), keyspace.into(), range.into())
    }

    /// Iterates over the entries whose keys start with `prefix`.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        self.range(keyspace, KeyRange::prefix(prefix))
    }

    /// Iterates over all entries of `keyspace`.
    pub fn iter(&self, keyspace: &Keyspace) -> Range {
        self.range(keyspace, ..)
    }

    /// Returns a cursor over `range` at the present.
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
        let keyspace = self.inner().resolve(keyspace)?;
        DbCursor::new(&self.handle.inner, keyspace, range.into(), snapshot.clone())
    }

    // Writes.

    /// Sets `key` to `value`. See [`Db::write`] for durability and limits.
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

    /// Removes `key`, whether it exists or not.
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub fn delete(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner().delete(keyspace, key.as_ref())
    }

    /// Removes all keys in `range`: `"a".."b"`, `key..`, `..=key`, `..`. Costs as much as one put.
    ///
    /// # Errors
    /// [`Error::EmptyRange`] if the range ends before its start, or at it; the errors of
    /// [`Db::write`].
    pub fn delete_range(&self, keyspace: &Keyspace, range: impl Into<KeyRange>) -> Result<()> {
        self.inner().delete_range(keyspace, range.into())
    }

    /// Removes all keys of `keyspace`. Costs as much as one put. The keyspace stays.
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub fn clear(&self, keyspace: &Keyspace) -> Result<()> {
        self.delete_range(keyspace, ..)
    }

    /// Returns an empty batch, to fill and [write](Db::write).
    #[must_use = "a batch writes nothing until `Db::write`"]
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new()
    }

    /// Applies `batch` atomically, across keyspaces. When this returns, it is visible to every read
    /// and as durable as the log's [`Sync`](crate::Sync) mode promises.
    ///
    /// Writers who outrun flush and compaction wait in steps that grow, none longer than 20 ms. Where there
    /// is no room for another segment, in the pool or in memory, a write waits until a flush has made some,
    /// however long that takes.
    ///
    /// An error says that nothing was written, with two exceptions: after [`Error::LogFailed`] the
    /// batch may be found again, whole, when the database is opened next; and without a log a batch
    /// that asked to be synced is visible although the flush that should have kept it failed.
    #[inline]
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.inner().write(batch)
    }

    /// Makes every write acknowledged before this call survive power loss.
    pub fn sync(&self) -> Result<()> {
        let inner = self.upkeep()?;
        match inner.settings.log {
            // Without a log, tables are the only durable place.
            Log::None => inner.flush_all(),
            Log::File { .. } | Log::Pmem { .. } => inner.commit.sync(),
        }
    }

    // Upkeep.

    /// Writes everything acknowledged before this call to tables.
    pub fn flush(&self) -> Result<()> {
        self.upkeep()?.flush_all()
    }

    /// Merges every keyspace down to one run and drops what deletes and overwrites left behind.
    ///
    /// # Errors
    ///
    /// [`Error::TableUnreadable`] if a table can't be read: then all is merged that can be without it.
    pub fn compact(&self) -> Result<()> {
        let inner = self.upkeep()?;
        // A version held would keep all that is merged.
        let keyspaces: Vec<_> = inner.view.load().version.keyspaces.keys().copied().collect();
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

    /// As [`Db::compact`], of one keyspace.
    pub fn compact_keyspace(&self, keyspace: &Keyspace) -> Result<()> {
        let inner = self.upkeep()?;
        inner.compact_fully(inner.resolve(keyspace)?)
    }

    /// Waits until flush and compaction have nothing left to do, and the next segment is there for writers. What
    /// would take a table that can't be opened is left: [`Db::background_error`] tells of it.
    pub fn settle(&self) -> Result<()> {
        self.upkeep()?.settle()
    }

    /// Does one piece of background work in the calling thread; false if there is none, or it failed.
    /// For a database whose [`Background`](esker_base::Background) has no threads.
    pub fn step(&self) -> bool {
        self.upkeep().is_ok_and(|inner| background::step(&inner))
    }

    /// Why background work stands still, if it does: a full disk or a failed log. Or [`Error::TableUnreadable`] if
    /// compaction leaves out a table whose read failed; [`Db::unreadable_tables`] lists all of them.
    pub fn background_error(&self) -> Option<Error> {
        let inner = self.inner();
        if !inner.owner.is_current() {
            return inner.check_usable().err();
        }
        let of_tables = || inner.unreadable_error();
        inner.commit.failure().or_else(|| inner.schedule.error()).or_else(of_tables)
    }

    /// The tables that compaction leaves out because a read of them failed. Their other parts can be read. An open of the
    /// database tries them again, and so does compaction after an I/O error, from time to time. Empty in a forked child.
    pub fn unreadable_tables(&self) -> Vec<UnreadableTable> {
        let inner = self.inner();
        if !inner.owner.is_current() {
            return Vec::new();
        }
        inner.view.pin().version.unreadable_tables(inner.keys)
    }

    /// Figures.
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        if !inner.owner.is_current() {
            let background_error = self.background_error().map(|error| error.to_string());
            return Stats { background_error, ..Stats::default() };
        }
        // These wait for a sync of the manifest: before the view is taken, for merged files stay while it is held.
        let (logs, account) = (inner.installer.state().logs.len() as u64, inner.account());
        let background_error = self.background_error().map(|error| error.to_string());
        let resources = inner.share.resources();
        let cache_own_bytes = match resources.is_shared() {
            true => inner.cache.own_bytes(),
            false => inner.cache.used_bytes(),
        };
        let view = inner.view.load();
        let (user_bytes, writes) = inner.commit.written();
        let traffic = inner.commit.log_traffic();
        let pool = inner.logs.pool().map(|pool| pool.traffic()).unwrap_or_default();
        let (counters, space) = (&inner.counters, inner.table_space());
        let tables = || view.version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        let opened = || tables().filter_map(|(_, _, table)| table.opened());
        let (read, rewritten) =
            (counters.compaction_read_bytes.get(), counters.compaction_bytes.get());
        Stats {
            writes,
            user_bytes,
            pool_domain: inner.logs.pool().map(|pool| pool.domain()),
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
            cache_hits: inner.cache.hits(),
            cache_misses: inner.cache.misses(),
            cache_bytes: inner.cache.used_bytes() as u64,
            cache_capacity_bytes: inner.cache.capacity_bytes() as u64,
            table_gets: counters.table_gets.sum(),
            table_memory_bytes: table_memory(&view.version),
            filter_bytes: opened().map(|table| table.filter_bytes() as u64).sum(),
            memtable_bytes: view.memtables.iter().map(|m| m.memory_bytes() as u64).sum(),
            memtables: view.memtables.len() as u64,
            tables: tables().count() as u64,
            table_bytes: tables().map(|(_, _, table)| table.meta.bytes).sum(),
            table_file_bytes: space.bytes,
            table_file_bytes_peak: space.peak_bytes,
            logs,
            snapshots: inner.snapshots.len() as u64,
            visible_seqno: inner.commit.visible(),
            flushed_seqno: view.version.flushed_through,
            unreadable_tables: view.version.unreadable_tables(inner.keys),
            background_error,
            databases: resources.databases() as u64,
            memory_budget_bytes: resources.memory_bytes() as u64,
            memory_charged_bytes: resources.charged_bytes() as u64,
            memory_own_bytes: inner.share.charged_bytes() as u64,
            cache_own_bytes: cache_own_bytes as u64,
            account,
        }
    }

    /// Bytes of table files and of the log that MemTables are made of. Takes no lock that is held
    /// across I/O. 0 in a forked child.
    pub fn used_bytes(&self) -> u64 {
        let inner = self.inner();
        if !inner.owner.is_current() {
            return 0;
        }
        let in_memory: u64 = inner.view.load().memtables.iter().map(|m| m.bytes_used()).sum();
        inner.table_space().bytes + in_memory
    }

    /// What the DRAMTable holds, and did since the database was opened: a part of [`Db::stats`] that waits
    /// for nobody.
    pub fn dram_table(&self) -> DramTableStats {
        let inner = self.inner();
        let dram_table = inner.dram_table.as_ref().filter(|_| inner.owner.is_current());
        dram_table.map(DramTable::stats).unwrap_or_default()
    }

    /// What opening gave up where the log ends in a frame that does not hold: writes that were under way
    /// when a process ended, or not synced when power was lost, or a file damaged since. `None` if the log
    /// ended as it should. A database opened to be read tells only of an end behind which whole frames
    /// follow: its writer may just be writing any other.
    pub fn torn_log(&self) -> Option<&TornLog> {
        self.inner().torn_log.as_ref()
    }

    /// The files that opening set aside, under their new names, `lost-NAME`: the manifest does not list them, and
    /// they may hold writes that are nowhere else. After a crash these are writes that were not acknowledged as
    /// durable.
    pub fn set_aside(&self) -> &[String] {
        &self.inner().set_aside
    }

    /// All files that opens have set aside, and their lengths in bytes. Only a person removes them.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the directory cannot be listed. [`Error::Forked`] in a forked child, and
    /// [`Error::Closed`] once the database is closed.
    pub fn lost_files(&self) -> Result<Vec<(String, u64)>> {
        crate::recovery::unlisted_files::lost_files(&*self.usable()?.storage)
    }

    /// What of the tables is live, as far as samples of their keys tell. `None` if a table can't be
    /// opened.
    pub fn live_data(&self) -> Option<LiveData> {
        let inner = self.usable().ok()?;
        let snapshots = inner.snapshots.list();
        stats::live_data(&inner.opened_version(), &snapshots)
    }

    /// How the keyspaces that have a goal for space stand to it now.
    pub fn goals(&self) -> Vec<GoalInfo> {
        let Ok(inner) = self.usable() else { return Vec::new() };
        // All that waits for others comes before the version: merged files stay while it is held.
        let segment_bytes = inner.known_segment_bytes();
        let around = Surroundings {
            snapshots: inner.snapshots.list(),
            left_bytes: inner.installer.left_bytes(),
            ..Surroundings::default()
        };
        budget::goals(&inner.opened_version(), segment_bytes, &around)
    }

    /// Whether the empty key is a key: in every database but those that the first releases created.
    pub fn takes_empty_key(&self) -> bool {
        self.inner().keys.takes_empty_key()
    }

    /// The tree of every keyspace, with the keys of its tables as users know them.
    pub fn levels(&self) -> Vec<KeyspaceLevels> {
        // A flush that has just ended may not have come to opening its tables; one that can't be opened
        // leaves its level's figures out.
        let levels = |inner: &Inner| stats::levels(&inner.opened_version(), inner.keys);
        self.usable().map_or_else(|_| Vec::new(), levels)
    }

    /// Writes a consistent copy of the database into `dir`, which must be missing or empty. Tables
    /// are shared with the original by hard links where the file system can. Writers go on meanwhile;
    /// the copy holds everything acknowledged before the call, and nothing that was begun after it
    /// returned.
    ///
    /// # Errors
    ///
    /// [`Error::DatabaseExists`] if `dir` holds a database. A checkpoint that fails leaves nothing in `dir`, and removes
    /// it if it was missing.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.checkpoint_while(dir, &|| true)
    }

    /// Like [`Db::checkpoint`], as long as `goes_on` returns true. It is called before each table.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`] if `goes_on` returns false.
    pub fn checkpoint_while(
        &self,
        dir: impl AsRef<Path>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        // Before a directory is made for it.
        self.inner().check_writable()?;
        crate::recovery::checkpoint::checkpoint_into(&*self.upkeep()?, dir.as_ref(), goes_on)
    }

    /// Like [`Db::checkpoint`], into a storage.
    pub fn checkpoint_to(&self, target: &dyn Storage) -> Result<()> {
        crate::recovery::checkpoint::checkpoint(&*self.upkeep()?, target, &|| true)
    }

    /// Closes the database: ends background work, writes what is in memory to tables, and reports
    /// what goes wrong, which a mere drop can't. Then it gives up threads, files and locks, so that the
    /// database can be opened again, also if other handles remain: their calls, and the moves of
    /// cursors, fail with [`Error::Closed`] from then on. It waits for calls that other threads are at.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}
