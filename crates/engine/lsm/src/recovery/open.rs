//! Opens or creates a database.

use super::checkpoint::request;
use super::close::EngineHandle;
use super::env::Env;
use super::open_tables;
use super::replay;
use super::replay::{DirectoryState, RecoveredState};
use super::unlisted_files::file_names::name_before;
use super::unlisted_files::orphan_logs;
use super::unlisted_files::quarantine;
use super::unlisted_files::{Fate, Known, Strays, loss_in};
use crate::compaction::execute::l0_progress::L0CompactionProgress;
use crate::engine::Engine;
use crate::fold::Merges;
use crate::fold::expiry::ExpiryClock;
use crate::fold::filtering::Filters;
use crate::history::keyspaces::KeyspaceHistory;
use crate::history::lineage::{self, FOLLOWS};
use crate::index::registry::IndexRegistry;
use crate::log::pmem_wal;
use crate::log::segment_provider::{PoolLogs, SegmentProvider};
use crate::log::wal_files;
use crate::log::wal_files::WalFiles;
use crate::log::wal_reader::WalSource;
use crate::manifest::manifest_file::{Author, Manifest, parse_manifest_file_name};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::original;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::manifest::version_set::VersionSet;
use crate::options::memory::dram_table_bytes;
use crate::options::settings::DEFAULT_KEYSPACE;
use crate::options::settings::{KeyspaceSettings, Log, Recovery, Settings};
use crate::options::sizes::SizeTargets;
use crate::output::io_throttle::IoThrottle;
use crate::parallel;
use crate::resources::Share;
use crate::scheduler::Scheduler;
use crate::stats::Counters;
use crate::stats::call_watch::CallWatch;
use crate::stats::cumulative::UnpersistedStats;
use crate::stats::disk_usage::DiskUsageTracker;
use crate::stats::events::EventLog;
use crate::stats::write_histories::WriteHistories;
use crate::tree::{Tree, sync_interval_ns};
use crate::version::readers::pin_registry::PinRegistry;
use crate::version::readers::snapshot_tracker::SnapshotTracker;
use crate::version::readers::super_version::{SuperVersion, SuperVersionCell};
use crate::version::{Version, table_file_name};
use crate::write::CommitPipeline;
use crate::write::write_controller::WriteController;
use esker_api::StoreId;
use esker_base::{ChangesError, Clock, Error, KeyspaceId, MAX_SEQNO, Priority, Result};
use esker_memtable::DramTable;
use esker_pmem::OwnerProcess;
use esker_storage::{PosixStorage, Storage};
use parking_lot::{Mutex, RwLock};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What a caller of `open` accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateMode {
    IfMissing,
    Never,
    /// It must follow another database, whose writes are applied to it.
    Replica,
}

/// How often an open tries again to lock a directory, and how long it waits in between.
const LOCK_TRIES: u32 = 20;
const LOCK_TRIED_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Opens the database of `env`, or creates it if `create` says so.
pub(crate) fn open(env: Env, settings: Settings, create: CreateMode) -> Result<Arc<EngineHandle>> {
    let (env, settings) = env.fit(settings)?;
    // Before the lock: a directory that is not ours is not to be written to at all.
    let found = replay::look(&*env.storage)?;
    if matches!(found, DirectoryState::Nothing) {
        if create != CreateMode::IfMissing {
            return Err(nothing_there(&env.storage.describe()));
        }
        check_logs_unclaimed(&env)?;
    }
    let mut locks = vec![lock(&*env.storage, &*env.clock)?];
    if let Some(logs) = &env.log_storage {
        locks.push(lock(&**logs, &*env.clock)?);
    }
    let is_replica = check_follows(&*env.storage, create)?;
    let resources = settings.resources_or_own();
    let storage = Arc::new(resources.files().storage(env.storage));
    let meter = Arc::new(DiskUsageTracker::new(storage)?);
    let env = Env { storage: meter.clone(), ..env };
    let share = resources.share(env.wide_reader(&settings))?;
    // Again, now that nobody else changes it.
    let opened = match replay::look(&*env.storage)? {
        DirectoryState::Database(manifest) => reopen(&env, &manifest, &share, settings.recovery)?,
        DirectoryState::Nothing => create_new(&env, settings.default_keyspace)?,
    };
    lineage::note_opening(&*env.storage, env.draw(b"openings"), opened.recovered.last_seqno)?;
    lineage::renew(&*env.storage)?;
    original::renew(&*env.storage)?;
    let opened = OpenResult { is_replica, ..opened };
    let table_memory = opened.table_memory;
    let handle = assemble(env.clone(), settings, opened, share, locks, Some(meter));
    open_tables::start(&handle, &env, table_memory);
    start_threads(&handle, &env)?;
    match handle.inner.tree.logs.pool() {
        // So that a disk without room for a log shows now.
        None => handle.inner.await_first_segment(),
        // An extent is there or is not; but its pages, and the index, take a while.
        Some(_) => drop(handle.inner.ask_for_first_segment()),
    }
    Ok(handle)
}

/// Locks a directory. A requester takes the lock briefly, to see whether the database is closed. So
/// an open that finds it taken tries again for a while.
fn lock(storage: &dyn Storage, clock: &dyn Clock) -> Result<Box<dyn Send + Sync>> {
    for _ in 0..LOCK_TRIES {
        match storage.lock() {
            Err(Error::Locked { .. }) => clock.sleep(LOCK_TRIED_AGAIN_AFTER),
            locked => return locked,
        }
    }
    storage.lock()
}

/// Whether the database follows another one, if `create` allows that.
fn check_follows(storage: &dyn Storage, create: CreateMode) -> Result<bool> {
    let dir = || storage.describe();
    match (storage.exists(FOLLOWS)?, create) {
        (true, CreateMode::Replica) => Ok(true),
        (true, _) => Err(ChangesError::Follows { dir: dir() }.into()),
        (false, CreateMode::Replica) => Err(ChangesError::NoCopy { dir: dir() }.into()),
        (false, _) => Ok(false),
    }
}

/// Opens the database of `env` for reading. Another process may write to it meanwhile.
pub(crate) fn open_read_only(env: Env, settings: Settings) -> Result<Arc<EngineHandle>> {
    let (env, settings) = env.fit(settings)?;
    // A live writer may replace the manifest, or flush and recycle a log, between two reads of
    // ours. Then what we read does not fit together, and the next try sees the newer state.
    const TRIES: u32 = 20;
    // While it writes, one log may have been read before a frame was there that those behind it go on
    // from. A log that still ends like that is no error.
    const TRIES_OF_TORN: u32 = 4;
    let mut tries = 0;
    loop {
        tries += 1;
        match open_read_only_once(&env, &settings) {
            Ok(handle) if handle.inner.torn_log.is_some() && tries < TRIES_OF_TORN => {
                env.clock.sleep(Duration::from_millis(5));
            }
            Ok(handle) => return Ok(handle),
            Err(error) if tries == TRIES => return Err(error),
            Err(Error::NewerVersion { file, found, supported }) => {
                return Err(Error::NewerVersion { file, found, supported });
            }
            Err(error @ (Error::NotADatabase { .. } | Error::Encryption(_))) => return Err(error),
            Err(_) => env.clock.sleep(Duration::from_millis(5)),
        }
    }
}

pub(super) fn assemble(
    env: Env,
    settings: Settings,
    opened: OpenResult,
    share: Share,
    locks: Vec<Box<dyn Send + Sync>>,
    meter: Option<Arc<DiskUsageTracker>>,
) -> Arc<EngineHandle> {
    let OpenResult { installer, version, recovered, set_aside, follows, is_replica, .. } = opened;
    // What a follower sees, its views say.
    let visible = if follows { MAX_SEQNO } else { recovered.last_seqno };
    let salt = env.draw(b"segments");
    let log_storage = env.log_storage.clone().unwrap_or_else(|| env.storage.clone());
    let is_in_files = matches!(settings.log, Log::File { .. });
    let log_files = is_in_files.then(|| log_storage.clone());
    let logs = match (&settings.log, env.pool) {
        (Log::File { .. }, _) => {
            SegmentProvider::Files(WalFiles::new(log_storage, settings.segment_bytes))
        }
        (Log::Pmem { .. }, Some(pool)) => SegmentProvider::Pool(PoolLogs::new(pool)),
        _ => SegmentProvider::None { segment_bytes: settings.segment_bytes },
    };
    if let Some(meter) = meter.as_ref().filter(|meter| meter.freed_block_bytes().is_some()) {
        installer.find_left_tables(|file| meter.bytes_of(&table_file_name(file)));
    }
    let dram_table = match dram_table_bytes(&settings) {
        0 => None,
        bytes => Some(DramTable::new(bytes, settings.forwarding)),
    };
    let filters = Filters::new(settings.compaction_filters.clone(), installer.key_format());
    let filtered = version.keyspaces.values().filter(|it| it.settings.compaction_filter.is_some());
    filtered.for_each(|keyspace| filters.expect(keyspace.id));
    let history = installer.feed(|feed| KeyspaceHistory::new(feed, recovered.last_seqno));
    let indexes = IndexRegistry::new(env.background.clone(), &version);
    let histories = WriteHistories::new(version.flushed_through);
    let memtables = recovered.memtables;
    let view = SuperVersion { memtables, ..SuperVersion::of(Arc::new(version)) };
    let store_id = StoreId::next();
    let keys = installer.key_format();
    let time = ExpiryClock::new(env.clock.clone(), installer.expiry_mark());
    let tree = Tree {
        store_id,
        keys,
        sizes: SizeTargets { segment_bytes: settings.segment_bytes as u64 },
        storage: env.storage,
        owner: OwnerProcess::current(),
        logs,
        log_files,
        clock: env.clock,
        cache: share.cache.clone(),
        dram_table,
        read_only: meter.is_none(),
        is_replica,
        follows: follows.then(AtomicU64::default),
        meter,
        view: SuperVersionCell::new(view),
        installer,
        snapshots: Arc::new(SnapshotTracker::new(store_id)),
        leases: PinRegistry::default(),
        transient: Arc::default(),
        known_empty: Arc::default(),
        filters,
        merges: Arc::new(Merges::new(settings.merge_operators.clone(), keys)),
        time: Arc::new(time),
        counters: Counters::default(),
        unwritten: UnpersistedStats::default(),
        histories,
        events: EventLog::default(),
        closed: AtomicBool::new(false),
        sync_interval_ns: AtomicU64::new(match settings.log {
            Log::File { sync, .. } => sync_interval_ns(sync),
            Log::Pmem { .. } | Log::None => 0,
        }),
        settings,
    };
    let inner = Arc::new(Engine {
        commit: CommitPipeline::new(
            &tree.settings.log,
            visible,
            tree.known_empty.clone(),
            indexes.epoch(),
        ),
        gate: IoThrottle::new(tree.settings.background_write_rate),
        calls: CallWatch::new(tree.settings.slow_call),
        tree,
        salt,
        schedule: Scheduler::announcing(share.resources().crew().signal.clone()),
        share,
        torn_log: recovered.torn,
        set_aside,
        stall: WriteController::new(),
        under_way: L0CompactionProgress::default(),
        ingests: Mutex::default(),
        indexes,
        history,
        transactions: OnceLock::new(),
        locks: Mutex::new(locks),
        upkeep: RwLock::default(),
    });
    let (threads, member, follower) = Default::default();
    Arc::new(EngineHandle { inner, threads, member, follower })
}

fn start_threads(handle: &EngineHandle, env: &Env) -> Result<()> {
    let inner = &handle.inner;
    if inner.tree.settings.answers_requests {
        let answering = inner.clone();
        let body = Box::new(move || request::serve(&answering));
        let thread = env.background.spawn("esker-requests", Priority::Normal, body)?;
        handle.threads.lock().extend(thread);
    }
    let member = inner.share.resources().crew().join(inner.clone(), &*env.background)?;
    if member.is_some() {
        // Only now: if one can't be had, nobody may wait for what it would have done.
        inner.schedule.set_threaded();
    }
    *handle.member.lock() = member;
    inner.schedule.wake();
    inner.share.resources().share_again();
    Ok(())
}

/// What opening found or made.
pub(super) struct OpenResult {
    pub(super) installer: VersionSet,
    pub(super) version: Version,
    pub(super) recovered: RecoveredState,
    /// What the tables take of the memory once they are open, about.
    pub(super) table_memory: u64,
    /// Files of unknown content, under their new names.
    pub(super) set_aside: Vec<String>,
    /// Whether it follows another process that writes the database.
    pub(super) follows: bool,
    /// Whether the writes of another database are applied to it, and no others.
    pub(super) is_replica: bool,
}

fn author(env: &Env, database: u64) -> Author {
    Author { database, process: env.draw(b"manifest") as u32 }
}

fn create_new(env: &Env, default: KeyspaceSettings) -> Result<OpenResult> {
    let identity = env.draw(b"identity");
    check_logs_unclaimed(env)?;
    remove_beginnings(&*env.storage)?;
    let default = VersionChange::create(KeyspaceId::DEFAULT, DEFAULT_KEYSPACE, default);
    let mut state = ManifestState::default();
    let numbered = VersionChange::Numbered { edits: 1, first_file: 1 };
    let edit = VersionEdit::of([VersionChange::NextFile(2), numbered].into_iter().chain(default));
    state.apply(&edit, &env.storage).expect("the first edit fits an empty tree");
    let manifest = Manifest::create(&*env.storage, 1, author(env, identity), &state.snapshot())?;
    // Only now: a claim by a database that a crash left without a manifest would bar the next try.
    env.claim_logs(identity, false)?;
    let recovered = RecoveredState::nothing_after(0);
    let version = state.version.clone();
    let installer = VersionSet::new(env.storage.clone(), identity, Some(manifest), state);
    let set_aside = Vec::new();
    let (follows, is_replica) = (false, false);
    let table_memory = 0;
    Ok(OpenResult { installer, version, recovered, table_memory, set_aside, follows, is_replica })
}

/// Removes what an interrupted creation left: manifests that `CURRENT` never named.
fn remove_beginnings(storage: &dyn Storage) -> Result<()> {
    for name in storage.list()? {
        if name == "CURRENT.new" || parse_manifest_file_name(&name).is_some() {
            storage.remove(&name)?;
        }
    }
    Ok(())
}

/// Fails if what a new database is to keep its logs in is another's.
fn check_logs_unclaimed(env: &Env) -> Result<()> {
    match (&env.pool, &env.log_storage) {
        (Some(pool), _) => pmem_wal::check_unclaimed(pool),
        (None, Some(logs)) => wal_files::check_unclaimed(&**logs),
        (None, None) => Ok(()),
    }
}

fn reopen(env: &Env, manifest_name: &str, share: &Share, recovery: Recovery) -> Result<OpenResult> {
    let (identity, mut state) = replay::load_state(&env.storage, manifest_name)?;
    // Before anything is written: a table of a newer format shows here.
    let table_memory = replay::check_table_ends(&env.storage, &state, &*env.background)?;
    let table_memory = open_tables::leave_to_reads(&state.version, table_memory, share.resources());
    if state.version.has_space_goal() || !parallel::has_threads(&*env.background) {
        // What a flush waits for depends on what is in tables; and without threads nobody else does it.
        state.version.open_tables_at_once(&share.cache, &*env.background)?;
    }
    env.check_logs_place(&**env.logs(), &state)?;
    if env.pool.is_some() || env.log_storage.is_some() {
        // The process that created the database may have died, or failed, before the name CURRENT was
        // durable; a claim must not outlive it. Where the pool says its owner, the name was durable
        // before; the owner itself may not be, which `claim_logs` settles.
        if !env.owns_pool(identity) {
            env.storage.sync_names()?;
        }
        env.claim_logs(identity, !state.logs.is_empty())?;
    }
    let mut recovered = read_logs(env, env.log_source(), manifest_name, &state)?;
    if let Some(torn) = &recovered.torn {
        torn.accept(recovery)?;
    }
    // Before anything is written: they may show that the manifest is damaged.
    let strays = Strays::find(env, manifest_name, identity, &state, &recovered)?;
    // Each edit copies the state, and nothing else asks for them.
    state.removed_files.clear();
    let mut rejected = std::mem::take(&mut recovered.rejected);
    // Recovery renames a log if it accepts nothing of it. It copies the other logs, which takes space.
    let renamed = rejected.extract_if(.., |log| strays.sets_aside(&log.name));
    let renamed: Vec<String> = renamed.map(|log| log.name).collect();
    if let Some(torn) = &mut recovered.torn {
        torn.kept_in = quarantine::keep(&*env.storage, &rejected)?;
    }
    replay::sync_logs(&**env.logs(), &recovered)?;

    state.logs = recovered.logs.clone();
    state.feed.end_at(recovered.last_seqno);
    if recovered.memtables.is_empty() {
        // An ingest comes right after what is flushed: the next log goes on behind it.
        state.version.flushed_through = recovered.last_seqno;
    }
    state.next_file = state.next_file.max(replay::next_file_seen(&env.storages())?);
    let id = state.next_file;
    state.next_file += 1;
    state.first_file = Some(id);
    state.edits += 1;
    state.date_tables(&*env.clock);
    let manifest = Manifest::create(&*env.storage, id, author(env, identity), &state.snapshot())?;
    remove_replaced(&*env.storage, manifest_name);
    let set_aside = strays.dispose(env);
    if let Some(torn) = &mut recovered.torn {
        let is_of_log = |name: &&String| {
            name_before(name).is_some_and(|name| renamed.iter().any(|log| log == name))
        };
        torn.kept_in.extend(set_aside.iter().filter(is_of_log).cloned());
    }
    let version = state.version.clone();
    // The fresh manifest has no closing record.
    state.closed = false;
    let installer = VersionSet::new(env.storage.clone(), identity, Some(manifest), state);
    let (follows, is_replica) = (false, false);
    Ok(OpenResult { installer, version, recovered, table_memory, set_aside, follows, is_replica })
}

/// Reads the logs, unless they show that the manifest is not the one that belongs to them.
fn read_logs(
    env: &Env,
    source: WalSource<'_>,
    manifest_name: &str,
    state: &ManifestState,
) -> Result<RecoveredState> {
    let cut_off = replay::manifest_cut_off(&*env.storage, manifest_name)?;
    let dir = env.storage.describe();
    // Beside the tables such a log is a stray that shows that the manifest has lost edits: see `unlisted_files`.
    let is_elsewhere = env.log_storage.is_some();
    if cut_off.is_none() && is_elsewhere {
        orphan_logs::check_age(&source, env.pool.is_some(), state, &dir)?;
    }
    let recovered = replay::read_logs(&source, state)?;
    let Some(offset) = cut_off else {
        // What is beside the tables while logs are elsewhere is as much a stray, or not.
        if is_elsewhere {
            orphan_logs::check_age(&env.tables_source(), false, state, &dir)?;
        }
        return Ok(recovered);
    };
    let manifest = format!("{dir}/{manifest_name}");
    orphan_logs::check_edits(&source, state, recovered.last_seqno, &manifest, offset)?;
    if env.log_storage.is_some() {
        let tables = env.tables_source();
        orphan_logs::check_edits(&tables, state, recovered.last_seqno, &manifest, offset)?;
    }
    Ok(recovered)
}

/// Removes the previous manifest, which the current one repeats.
fn remove_replaced(storage: &dyn Storage, manifest: &str) {
    // If it can't be removed now, the next open does it.
    let _ = storage.remove(manifest);
}

fn open_read_only_once(env: &Env, settings: &Settings) -> Result<Arc<EngineHandle>> {
    // Before the manifest: beside a writer, whatever a table that is there says of edits, the manifest has.
    let names = env.storage.list()?;
    let (mut manifest_name, mut identity, mut state) = newest_state(env)?;
    let logs = env.logs_now()?;
    // Copied: the writer goes on with what is in the pool.
    let copied = WalSource { storage: &*logs, pool: None, background: &*env.background };
    let mut unlisted = orphan_logs::writes(&env.tables_source(), &state)?;
    if env.log_storage.is_some() {
        unlisted.extend(orphan_logs::writes(&copied, &state)?);
    }
    if !unlisted.is_empty() {
        // An edit lists a log before anything is written to it. So the manifest has that edit by now, unless
        // it was lost.
        (manifest_name, identity, state) = newest_state(env)?;
        unlisted.retain(|&(epoch, _)| !state.lists_log(epoch));
    }
    replay::check_table_files(&*env.storage, &state)?;
    if let Some(pool) = &env.pool {
        pool.belongs_to(identity)?;
    }
    // After the manifest: a log is where it can be read before the manifest lists it.
    let logs = env.logs_now()?;
    env.check_logs_place(&*logs, &state)?;
    let copied = WalSource { storage: &*logs, ..copied };
    let mut recovered = read_logs(env, copied, &manifest_name, &state)?;
    let last_seqno = recovered.last_seqno;
    let known = Known { identity, state: &state, manifest: &manifest_name, last_seqno };
    let path = format!("{}/{manifest_name}", env.storage.describe());
    let bytes = env.storage.open(&manifest_name)?.len()?;
    let mut fates: Vec<Fate> = known.fates(&*env.storage, &names)?.into_values().collect();
    let log_fate = |(epoch, last)| known.log_fate(&wal_files::log_file_name(epoch), epoch, last);
    fates.extend(unlisted.into_iter().map(log_fate));
    if let Some(loss) = loss_in(&fates, &path, bytes) {
        return Err(loss);
    }
    // Beside a writer, a last frame that does not hold is one that it is just writing.
    recovered.torn.take_if(|torn| torn.later.is_none());
    if let Some(torn) = &recovered.torn {
        torn.accept(settings.recovery)?;
    }
    let version = state.version.clone();
    let installer = VersionSet::new(env.storage.clone(), identity, None, state);
    let (table_memory, set_aside) = (0, Vec::new());
    let (follows, is_replica) = (false, false);
    let opened =
        OpenResult { installer, version, recovered, table_memory, set_aside, follows, is_replica };
    let share = settings.resources_or_own().share(env.wide_reader(settings))?;
    let handle = assemble(env.clone(), settings.clone(), opened, share, Vec::new(), None);
    let inner = &handle.inner;
    // Opened files can still be read after the writer has removed them.
    let version = inner.tree.view.load().version.clone();
    version.open_tables(&inner.tree.cache)?;
    version.values.open()?;
    inner.share_memory();
    Ok(handle)
}

/// The current manifest, the database's identity, and the state.
fn newest_state(env: &Env) -> Result<(String, u64, ManifestState)> {
    let name = match replay::look(&*env.storage)? {
        DirectoryState::Database(name) => name,
        DirectoryState::Nothing => return Err(nothing_there(&env.storage.describe())),
    };
    let (identity, state) = replay::load_state(&env.storage, &name)?;
    Ok((name, identity, state))
}

pub(crate) fn existing_directory(dir: &Path) -> Result<PosixStorage> {
    if !dir.is_dir() {
        return Err(nothing_there(&dir.display().to_string()));
    }
    PosixStorage::open(dir)
}

pub(crate) fn nothing_there(dir: &str) -> Error {
    Error::NotADatabase { dir: dir.to_owned(), reason: "there is no database in it".into() }
}
