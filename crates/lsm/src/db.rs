//! The database: what users hold, and how it is opened and closed.

use crate::commit::Commit;
use crate::compaction::Sizes;
use crate::cursor::DbCursor;
use crate::install::Installer;
use crate::io::IoGate;
use crate::keyspace::{DEFAULT_KEYSPACE, Keyspace, KeyspaceInfo, check_name};
use crate::log_files::{self, LogFiles};
use crate::manifest::{Change, Edit, Manifest, State};
use crate::range::Range;
use crate::read::{self, Patience};
use crate::recover::{self, Found, Recovered};
use crate::schedule::{self, Lane, Schedule};
use crate::settings::{KeyspaceSettings, Log, Settings, Sync};
use crate::snapshot::{Snapshot, Snapshots};
use crate::stall::Stall;
use crate::stats::{self, Counters, KeyspaceLevels, Stats};
use crate::version::{KeyspaceVersion, Version};
use crate::view::{View, ViewCell};
use esker_api::{KeyRange, Value, WriteBatch};
use esker_base::background::Running;
use esker_base::{
    Background, Clock, Error, KeyspaceId, MAX_KEY_BYTES, Result, SystemClock, Threads,
};
use esker_memtable::MemTable;
use esker_storage::{PosixStorage, Storage};
use esker_table::BlockCache;
use parking_lot::Mutex;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a database takes from the world around it. [`Db::open`] takes the operating system's; a
/// simulation brings its own.
#[derive(Clone)]
pub struct Env {
    /// Where tables and manifest are kept, and the logs if they have no storage of their own.
    pub storage: Arc<dyn Storage>,
    /// Where the logs are kept, if elsewhere.
    pub log_storage: Option<Arc<dyn Storage>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub background: Arc<dyn Background>,
    /// Chance, for the identity of a new database.
    pub seed: u64,
}

/// What the handles and the background threads of one open database share.
pub(crate) struct Inner {
    // Constant after opening.
    pub(crate) settings: Settings,
    pub(crate) sizes: Sizes,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) log_files: Option<LogFiles>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) read_only: bool,

    // Each protected by itself.
    pub(crate) commit: Commit,
    pub(crate) view: ViewCell,
    pub(crate) installer: Installer,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) schedule: Schedule,
    pub(crate) stall: Stall,
    pub(crate) gate: IoGate,
    pub(crate) counters: Counters,

    _locks: Vec<Box<dyn Send + std::marker::Sync>>,
}

/// An open database. Clones are handles to the same one; it closes when the last is dropped, or by
/// [`Db::close`], which reports errors.
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
    handle: Arc<Handle>,
}

/// Closes the database when the last [`Db`] goes.
struct Handle {
    inner: Arc<Inner>,
    threads: Mutex<Vec<Box<dyn Running>>>,
}

/// What a caller of `open` accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Create {
    IfMissing,
    Never,
}

impl Db {
    /// Opens the database in `dir`, and creates it if the directory is missing or empty. Recovers
    /// what the log holds.
    ///
    /// Fails with [`Error::Locked`] if another process has it open for writing, with
    /// [`Error::NotADatabase`] if the directory holds other files, and with [`Error::Corruption`] if
    /// what was acknowledged is damaged.
    pub fn open(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = PosixStorage::create(dir.as_ref())?;
        Db::open_in(posix_env(storage, &settings)?, settings, Create::IfMissing)
    }

    /// Like [`Db::open`], but fails with [`Error::NotADatabase`] if there is no database in `dir`.
    pub fn open_existing(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = existing_directory(dir.as_ref())?;
        Db::open_in(posix_env(storage, &settings)?, settings, Create::Never)
    }

    /// Opens the database in `dir` for reading, as it is now, beside a process that may be writing
    /// to it. Later writes are not seen, and nothing is written.
    pub fn open_read_only(dir: impl AsRef<Path>, settings: Settings) -> Result<Db> {
        settings.validate()?;
        let storage = existing_directory(dir.as_ref())?;
        Db::open_read_only_in(posix_env(storage, &settings)?, settings)
    }

    /// Opens, or creates, a database in a world of the caller's making.
    pub fn open_with(env: Env, settings: Settings) -> Result<Db> {
        settings.validate()?;
        Db::open_in(env, settings, Create::IfMissing)
    }

    fn open_in(env: Env, settings: Settings, create: Create) -> Result<Db> {
        // Before the lock: a directory that is not ours is not to be written to at all.
        let found = recover::look(&*env.storage)?;
        if create == Create::Never && matches!(found, Found::Nothing) {
            return Err(nothing_there(&env.storage.describe()));
        }
        let mut locks = vec![env.storage.lock()?];
        if let Some(logs) = &env.log_storage {
            locks.push(logs.lock()?);
        }
        // Again, now that nobody else changes it.
        let opened = match recover::look(&*env.storage)? {
            Found::Database(manifest) => reopen(&env, &manifest)?,
            Found::Nothing => create_new(&env)?,
        };
        let db = Db::assemble(env.clone(), settings, opened, locks, false);
        db.start_threads(&env)?;
        Ok(db)
    }

    fn open_read_only_in(env: Env, settings: Settings) -> Result<Db> {
        // A live writer may replace the manifest, or flush and recycle a log, between two reads of
        // ours. Then what we read does not fit together, and the next try sees the newer state.
        const TRIES: u32 = 20;
        let mut tries = 0;
        loop {
            tries += 1;
            match open_read_only_once(&env, &settings) {
                Ok(db) => return Ok(db),
                Err(error) if tries == TRIES => return Err(error),
                Err(Error::NewerVersion { file, found, supported }) => {
                    return Err(Error::NewerVersion { file, found, supported });
                }
                Err(error @ Error::NotADatabase { .. }) => return Err(error),
                Err(_) => env.clock.sleep(Duration::from_millis(5)),
            }
        }
    }

    fn assemble(
        env: Env,
        settings: Settings,
        opened: Opened,
        locks: Vec<Box<dyn Send + std::marker::Sync>>,
        read_only: bool,
    ) -> Db {
        let Opened { installer, version, recovered } = opened;
        let cache = BlockCache::new(cache_bytes(&settings, 0));
        let log_storage = env.log_storage.clone().unwrap_or_else(|| env.storage.clone());
        let log_files = match settings.log {
            Log::File { .. } => Some(LogFiles::new(log_storage, settings.segment_bytes)),
            Log::None => None,
        };
        let view = View { memtables: recovered.memtables, version: Arc::new(version) };
        let inner = Arc::new(Inner {
            sizes: Sizes { segment_bytes: settings.segment_bytes as u64 },
            commit: Commit::new(&settings.log, recovered.last_seqno),
            settings,
            storage: env.storage,
            log_files,
            clock: env.clock,
            cache: Arc::new(cache),
            read_only,
            view: ViewCell::new(view),
            installer,
            snapshots: Arc::default(),
            schedule: Schedule::default(),
            stall: Stall::new(),
            gate: IoGate::default(),
            counters: Counters::default(),
            _locks: locks,
        });
        Db { handle: Arc::new(Handle { inner, threads: Mutex::default() }) }
    }

    fn start_threads(&self, env: &Env) -> Result<()> {
        let lanes = std::iter::once((Lane::Write, "esker-write".to_owned())).chain(
            (0..self.inner().settings.background_threads)
                .map(|number| (Lane::Compaction, format!("esker-compact-{number}"))),
        );
        let mut threads = self.handle.threads.lock();
        for (lane, name) in lanes {
            let inner = self.handle.inner.clone();
            let body = Box::new(move || schedule::serve(&inner, lane));
            if let Some(thread) = env.background.spawn(&name, body)? {
                self.inner().schedule.set_threaded();
                threads.push(thread);
            }
        }
        Ok(())
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.handle.inner
    }

    fn writable(&self) -> Result<&Inner> {
        if self.inner().read_only { Err(Error::ReadOnly) } else { Ok(self.inner()) }
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
        let inner = self.writable()?;
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
        let view = self.inner().view.pin();
        match view.version.keyspace_named(name) {
            Some(found) => Ok(Keyspace { id: found.id, name: found.name.as_str().into() }),
            None => Err(Error::UnknownKeyspace { name: name.to_owned() }),
        }
    }

    /// The keyspace that every database has, called `default`.
    pub fn default_keyspace(&self) -> Keyspace {
        Keyspace { id: KeyspaceId::DEFAULT, name: DEFAULT_KEYSPACE.into() }
    }

    /// All keyspaces, by id.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let info = |keyspace: &Arc<KeyspaceVersion>| KeyspaceInfo {
            name: keyspace.name.clone(),
            id: keyspace.id,
            settings: keyspace.settings,
        };
        self.inner().view.pin().version.keyspaces.values().map(info).collect()
    }

    /// Removes the keyspace called `name` and everything in it. Durable when this returns; the space
    /// is free once no cursor reads there any more. The default keyspace can't be dropped.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let inner = self.writable()?;
        let id = self.existing_keyspace(name)?.id;
        if id == KeyspaceId::DEFAULT {
            return Err(Error::BadKeyspaceName {
                name: name.to_owned(),
                reason: "the default keyspace can't be dropped; delete its keys instead",
            });
        }
        inner.installer.install(
            &inner.view,
            |state| match state.version.keyspaces.contains_key(&id) {
                true => Ok(Edit::of([Change::DropKeyspace(id)])),
                false => Err(Error::UnknownKeyspace { name: name.to_owned() }),
            },
            |_| {},
        )
    }

    // Reads.

    /// The newest value of `key`. One block is read if none is cached, rarely more.
    #[inline]
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        let inner = self.inner();
        // The view first, then the moment: see `view.rs`.
        let view = inner.view.pin();
        let visible = inner.commit.visible();
        read::get(&view, &inner.cache, keyspace.id, key, visible, Patience::MayBlock)
    }

    /// Like [`Db::get`], but never waits for the device: fails with [`Error::WouldBlock`] if the
    /// answer is not in memory.
    pub fn try_get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        let inner = self.inner();
        let view = inner.view.pin();
        let visible = inner.commit.visible();
        read::get(&view, &inner.cache, keyspace.id, key, visible, Patience::MemoryOnly)
    }

    /// The value of `key` at `snapshot`.
    pub fn get_at(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        snapshot: &Snapshot,
    ) -> Result<Option<Value>> {
        let inner = self.inner();
        let view = inner.view.pin();
        read::get(&view, &inner.cache, keyspace.id, key, snapshot.seqno(), Patience::MayBlock)
    }

    /// The newest values of `keys`, all as of one moment.
    pub fn multi_get(&self, keyspace: &Keyspace, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let inner = self.inner();
        let view = inner.view.pin();
        let visible = inner.commit.visible();
        keys.iter()
            .map(|key| {
                read::get(&view, &inner.cache, keyspace.id, key, visible, Patience::MayBlock)
            })
            .collect()
    }

    /// The present moment, to read at later.
    pub fn snapshot(&self) -> Snapshot {
        self.inner().snapshots.take(&self.inner().commit)
    }

    /// The pairs with keys within `bounds`, to iterate over:
    ///
    /// ```
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = esker_lsm::Db::open(dir.path(), esker_lsm::Settings::default())?;
    /// # let fruit = db.default_keyspace();
    /// for name in ["apple", "banana", "cherry"] {
    ///     db.put(&fruit, name.as_bytes(), b"")?;
    /// }
    /// let mut keys = Vec::new();
    /// for pair in db.range(&fruit, b"b".as_slice()..).rev() {
    ///     let (key, _value) = pair?;
    ///     keys.push(key);
    /// }
    /// assert_eq!(keys, [b"cherry", b"banana"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<K: AsRef<[u8]> + ?Sized>(
        &self,
        keyspace: &Keyspace,
        bounds: impl RangeBounds<K>,
    ) -> Range {
        Range::new(self.clone(), keyspace.clone(), KeyRange::of(bounds))
    }

    /// The pairs whose keys start with `prefix`, to iterate over.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Range {
        Range::new(self.clone(), keyspace.clone(), KeyRange::prefix(prefix))
    }

    /// A cursor over `range` as of now.
    pub fn cursor(&self, keyspace: &Keyspace, range: KeyRange) -> Result<DbCursor> {
        self.cursor_at(keyspace, range, &self.snapshot())
    }

    /// A cursor over `range` at `snapshot`.
    pub fn cursor_at(
        &self,
        keyspace: &Keyspace,
        range: KeyRange,
        snapshot: &Snapshot,
    ) -> Result<DbCursor> {
        DbCursor::new(self.inner(), keyspace.id, range, snapshot.clone())
    }

    // Writes.

    /// Sets `key` to `value`.
    #[inline]
    pub fn put(&self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = self.batch();
        batch.put(keyspace, key, value);
        self.write(&batch)
    }

    /// Removes `key`, whether it is there or not.
    pub fn delete(&self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        let mut batch = self.batch();
        batch.delete(keyspace, key);
        self.write(&batch)
    }

    /// Removes all keys from `start` up to, not including, `end`. As cheap as one put.
    pub fn delete_range(&self, keyspace: &Keyspace, start: &[u8], end: &[u8]) -> Result<()> {
        let mut batch = self.batch();
        batch.delete_range(keyspace, start, end);
        self.write(&batch)
    }

    /// An empty batch, to fill and [write](Db::write).
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new()
    }

    /// Applies `batch` atomically, across keyspaces. When this returns, it is visible to every read
    /// and as durable as the log's [`Sync`] mode promises.
    #[inline]
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        let inner = self.writable()?;
        if batch.is_empty() {
            return Ok(());
        }
        inner.check(batch)?;
        inner.stall.before_write(batch.encoded().len(), &*inner.clock);
        inner.commit.write(batch, inner)
    }

    /// Makes every write acknowledged before this call survive power loss.
    pub fn sync(&self) -> Result<()> {
        let inner = self.writable()?;
        match inner.settings.log {
            // Without a log, tables are the only durable place.
            Log::None => inner.flush_all(),
            Log::File { .. } => inner.commit.sync(),
        }
    }

    // Upkeep.

    /// Writes everything acknowledged before this call to tables.
    pub fn flush(&self) -> Result<()> {
        self.writable()?.flush_all()
    }

    /// Merges every keyspace down to one run and drops what deletes and overwrites left behind.
    pub fn compact(&self) -> Result<()> {
        let inner = self.writable()?;
        let version = inner.view.load().version.clone();
        version.keyspaces.keys().try_for_each(|&keyspace| match inner.compact_fully(keyspace) {
            // Dropped meanwhile.
            Err(Error::UnknownKeyspace { .. }) => Ok(()),
            done => done,
        })
    }

    /// Merges `keyspace` down to one run and drops what deletes and overwrites left behind.
    pub fn compact_keyspace(&self, keyspace: &Keyspace) -> Result<()> {
        self.writable()?.compact_fully(keyspace.id)
    }

    /// Waits until flush and compaction have nothing left to do.
    pub fn settle(&self) -> Result<()> {
        self.writable()?.settle()
    }

    /// Does one piece of background work in the calling thread; false if there is none, or it failed.
    /// For a database whose [`Background`] has no threads.
    pub fn step(&self) -> bool {
        schedule::step(self.inner())
    }

    /// Why background work stands still, if it does: a full disk, damage, or a failed log.
    pub fn background_error(&self) -> Option<Error> {
        let inner = self.inner();
        inner.commit.failure().or_else(|| inner.schedule.error())
    }

    /// Figures.
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        let view = inner.view.load();
        let (user_bytes, writes) = inner.commit.written();
        let traffic = inner.commit.log_traffic();
        let counters = &inner.counters;
        let tables = || view.version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        let (read, rewritten) =
            (counters.compaction_read_bytes.get(), counters.compaction_bytes.get());
        Stats {
            writes,
            user_bytes,
            log_bytes: traffic.bytes,
            log_appends: traffic.appends,
            log_syncs: traffic.syncs,
            flushes: counters.flushes.get(),
            flush_bytes: counters.flush_bytes.get(),
            compactions: counters.compactions.get(),
            trivial_moves: counters.trivial_moves.get(),
            compaction_read_bytes: read,
            compaction_bytes: rewritten,
            reclaimed_bytes: read.saturating_sub(rewritten),
            stalled: inner.stall.stalled(),
            cache_hits: inner.cache.hits(),
            cache_misses: inner.cache.misses(),
            cache_bytes: inner.cache.used_bytes() as u64,
            cache_capacity_bytes: inner.cache.capacity_bytes() as u64,
            table_memory_bytes: table_memory(&view.version),
            memtable_bytes: view.memtables.iter().map(|m| m.memory_bytes() as u64).sum(),
            memtables: view.memtables.len() as u64,
            tables: tables().count() as u64,
            table_bytes: tables().map(|(_, _, table)| table.meta.bytes).sum(),
            logs: inner.installer.state().logs.len() as u64,
            snapshots: inner.snapshots.len() as u64,
            visible_seqno: inner.commit.visible(),
            flushed_seqno: view.version.flushed_through,
            background_error: self.background_error().map(|error| error.to_string()),
        }
    }

    /// The tree of every keyspace.
    pub fn levels(&self) -> Vec<KeyspaceLevels> {
        stats::levels(&self.inner().view.pin().version)
    }

    /// Writes a consistent copy of the database into `dir`, which must be missing or empty. Tables
    /// are shared with the original by hard links where the file system can. Writers go on meanwhile;
    /// the copy holds everything acknowledged before the call, and nothing that was begun after it
    /// returned.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let target = PosixStorage::create(dir.as_ref())?;
        self.checkpoint_to(&target)
    }

    /// Like [`Db::checkpoint`], into a storage.
    pub fn checkpoint_to(&self, target: &dyn Storage) -> Result<()> {
        crate::checkpoint::checkpoint(self.writable()?, target)
    }

    /// Closes the database: ends background work, writes what is in memory to tables, and reports
    /// what goes wrong, which a mere drop can't. Other handles, cursors and snapshots must be gone, or
    /// their calls fail with [`Error::Closed`] from now on.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

impl Handle {
    fn close(&self) -> Result<()> {
        let inner = &self.inner;
        if inner.read_only {
            return Ok(());
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        inner.gate.cancel();
        inner.schedule.close();
        let mut sound = true;
        for thread in threads {
            sound &= thread.join();
        }
        if !inner.begin_close() {
            return Ok(());
        }
        if !sound {
            return Err(Error::Closed);
        }
        inner.finish_close()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A drop can't report. What matters is in the log.
        let _ = self.close();
    }
}

impl Inner {
    /// Refuses batches that can't be written.
    #[inline]
    fn check(&self, batch: &WriteBatch) -> Result<()> {
        let bytes = batch.encoded().len();
        let fits = MemTable::fits_ever(self.settings.segment_bytes, bytes, batch.len() as u32);
        if batch.has_empty_key() || batch.longest_key() > MAX_KEY_BYTES || !fits
            || batch.has_empty_range()
        {
            return Err(self.refuse(batch));
        }
        let view = self.view.pin();
        let mut known = None;
        for entry in batch.keyspaces() {
            if known != Some(entry) {
                if !view.version.keyspaces.contains_key(&entry) {
                    return Err(read::unknown(entry));
                }
                known = Some(entry);
            }
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, batch: &WriteBatch) -> Error {
        let limit = MemTable::max_batch_bytes(self.settings.segment_bytes);
        if batch.has_empty_key() {
            Error::EmptyKey
        } else if batch.longest_key() > MAX_KEY_BYTES {
            Error::KeyTooLong { bytes: batch.longest_key() }
        } else if batch.has_empty_range() {
            Error::EmptyRange
        } else if batch.longest_value() >= limit || batch.len() == 1 {
            Error::ValueTooLarge { bytes: batch.longest_value(), limit }
        } else {
            Error::BatchTooLarge { bytes: batch.encoded().len(), limit }
        }
    }

    /// The interval at which the log is synced, if it is synced by the clock.
    pub(crate) fn sync_interval(&self) -> Option<Duration> {
        match self.settings.log {
            Log::File { sync: Sync::Every(interval), .. } => Some(interval),
            _ => None,
        }
    }

    /// Opens the readers of new tables, so that no get has to, and gives the cache what is left of
    /// the memory budget.
    pub(crate) fn open_new_tables(&self) -> Result<()> {
        let view = self.view.load();
        for keyspace in view.version.keyspaces.values() {
            for (_, _, table) in keyspace.tables() {
                table.reader(&self.cache)?;
            }
        }
        let held = table_memory(&view.version) as usize;
        self.cache.set_capacity(cache_bytes(&self.settings, held));
        Ok(())
    }

    /// Whether this is the first call.
    fn begin_close(&self) -> bool {
        self.schedule.begin_close()
    }

    /// After the threads are gone: flushes, and says in the manifest that all is well.
    fn finish_close(&self) -> Result<()> {
        self.commit.lock_tail().seal();
        self.schedule.release();
        if let Some(cause) = self.commit.failure() {
            return Err(Error::LogFailed { cause: Arc::new(cause) });
        }
        loop {
            let view = self.view.load();
            let Some(memtable) = view.memtables.last().cloned() else { break };
            drop(view);
            if memtable.entries() == 0 {
                self.view.change(|view| view.memtables.retain(|m| !Arc::ptr_eq(m, &memtable)));
                continue;
            }
            crate::flush::flush(self, &memtable)?;
        }
        // Logs that were prepared and not used.
        let mut unused = Vec::new();
        self.installer.install(
            &self.view,
            |state| {
                unused.extend(state.logs.keys().copied());
                let gone = unused.iter().map(|&epoch| Change::RemoveLog(epoch));
                Ok(Edit::of(gone.chain([Change::Closed])))
            },
            |_| {},
        )?;
        if let Some(logs) = &self.log_files {
            unused.into_iter().for_each(|epoch| logs.retire(epoch));
            logs.remove_retired();
        }
        Ok(())
    }
}

/// The bytes that table indexes, filters and tombstones hold.
fn table_memory(version: &Version) -> u64 {
    let tables = version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
    tables.filter_map(|(_, _, table)| table.opened()).map(|t| t.memory_bytes() as u64).sum()
}

/// The block cache's share of the memory budget: what segments and open tables leave.
fn cache_bytes(settings: &Settings, table_memory: usize) -> usize {
    // The active segment, the sealed ones and a prepared one, each with about a third of its size in
    // index; but never more than half of the budget, most of which is idle memory at rest.
    let segments = settings.segment_bytes / 3 * 4 * (settings.sealed_segments + 2);
    let left = settings.memory_bytes - segments.min(settings.memory_bytes / 2);
    // A cache too small to hold a few blocks would make every scan read twice.
    left.saturating_sub(table_memory).max(1 << 20)
}

/// What opening found or made.
struct Opened {
    installer: Installer,
    version: Version,
    recovered: Recovered,
}

fn create_new(env: &Env) -> Result<Opened> {
    let identity = esker_base::Rng::new(env.seed).next_u64();
    if let Some(logs) = &env.log_storage {
        log_files::claim_directory(&**logs, identity)?;
    }
    remove_strays(env, &State::default(), "");
    let default = Change::CreateKeyspace {
        id: KeyspaceId::DEFAULT,
        name: DEFAULT_KEYSPACE.into(),
        settings: KeyspaceSettings::default(),
        retention_seqno: None,
    };
    let mut state = State::default();
    let edit = Edit::of([Change::NextFile(2), default]);
    state.apply(&edit, &env.storage).expect("the first edit fits an empty tree");
    let manifest = Manifest::create(&*env.storage, 1, identity, &state.snapshot())?;
    let recovered = Recovered { memtables: vec![], logs: Default::default(), last_seqno: 0 };
    let version = state.version.clone();
    let installer = Installer::new(env.storage.clone(), identity, manifest, state);
    Ok(Opened { installer, version, recovered })
}

fn reopen(env: &Env, manifest_name: &str) -> Result<Opened> {
    let (identity, mut state) = recover::load_state(&env.storage, manifest_name)?;
    recover::check_table_files(&*env.storage, &state)?;
    let log_storage = env.log_storage.as_ref().unwrap_or(&env.storage);
    if let Some(logs) = &env.log_storage {
        log_files::claim_directory(&**logs, identity)?;
    }
    let recovered = recover::read_logs(&**log_storage, &state)?;
    recover::sync_logs(&**log_storage, &recovered)?;

    state.logs = recovered.logs.clone();
    state.next_file = state.next_file.max(recover::next_file_seen(env)?);
    let id = state.next_file;
    state.next_file += 1;
    let manifest = Manifest::create(&*env.storage, id, identity, &state.snapshot())?;
    remove_strays(env, &state, manifest.name());
    let version = state.version.clone();
    let installer = Installer::new(env.storage.clone(), identity, manifest, state);
    Ok(Opened { installer, version, recovered })
}

/// Removes what a crash left: files that nothing refers to. Called once everything that is referred
/// to was found. What can't be removed is tried again at the next open.
fn remove_strays(env: &Env, state: &State, manifest: &str) {
    use crate::manifest::parse_manifest_file_name;
    use crate::version::parse_table_file_name;
    let files = state.files();
    let stray = |name: &str| {
        name == "CURRENT.new"
            || parse_table_file_name(name).is_some_and(|id| !files.contains(&id))
            || log_files::parse_log_file_name(name)
                .is_some_and(|epoch| !state.logs.contains_key(&epoch))
            || (parse_manifest_file_name(name).is_some() && name != manifest)
    };
    let storages = std::iter::once(&env.storage).chain(&env.log_storage);
    for storage in storages {
        for name in storage.list().unwrap_or_default().iter().filter(|name| stray(name)) {
            let _ = storage.remove(name);
        }
    }
}

fn open_read_only_once(env: &Env, settings: &Settings) -> Result<Db> {
    let manifest_name = match recover::look(&*env.storage)? {
        Found::Database(name) => name,
        Found::Nothing => return Err(nothing_there(&env.storage.describe())),
    };
    let (identity, state) = recover::load_state(&env.storage, &manifest_name)?;
    recover::check_table_files(&*env.storage, &state)?;
    let log_storage = env.log_storage.as_ref().unwrap_or(&env.storage);
    let recovered = recover::read_logs(&**log_storage, &state)?;
    let version = state.version.clone();
    let installer = Installer::read_only(env.storage.clone(), identity, state);
    let opened = Opened { installer, version, recovered };
    let db = Db::assemble(env.clone(), settings.clone(), opened, Vec::new(), true);
    // Opened files can still be read after the writer has removed them.
    db.inner().open_new_tables()?;
    Ok(db)
}

fn existing_directory(dir: &Path) -> Result<PosixStorage> {
    if !dir.is_dir() {
        return Err(nothing_there(&dir.display().to_string()));
    }
    PosixStorage::open(dir)
}

fn nothing_there(dir: &str) -> Error {
    Error::NotADatabase { dir: dir.to_owned(), reason: "there is no database in it".into() }
}

fn posix_env(storage: PosixStorage, settings: &Settings) -> Result<Env> {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let log_storage: Option<Arc<dyn Storage>> = match &settings.log {
        Log::File { dir: Some(dir), .. } => Some(Arc::new(PosixStorage::create(dir)?)),
        _ => None,
    };
    Ok(Env {
        storage: Arc::new(storage),
        log_storage,
        clock: Arc::new(SystemClock::new()),
        background: Arc::new(Threads),
        seed: RandomState::new().build_hasher().finish(),
    })
}
