//! The tables, MemTables and manifest of one open database, with what their readers need.
//!
//! Reads and background jobs share it. It knows no scheduler, no writer and no thread: a job gets
//! the tree, and what it may ask of those as arguments.

use crate::fold::Merges;
use crate::fold::expiry::ExpiryClock;
use crate::fold::filtering::Filters;
use crate::fold::merger::Merger;
use crate::log::segment_provider::SegmentProvider;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::manifest::version_set::{FailedInstall, VersionSet};
use crate::options::settings::{Settings, SyncPolicy};
use crate::options::sizes::SizeTargets;
use crate::stats::Counters;
use crate::stats::cumulative::{CumulativeStats, UnpersistedStats};
use crate::stats::disk_usage::{DiskUsageTracker, TableDiskUsage};
use crate::stats::events::{EventKind, EventLog};
use crate::stats::write_histories::WriteHistories;
use crate::user_keys::KeyFormat;
use crate::version::readers::held_memory::HeldSum;
use crate::version::readers::known_empty::KnownEmpty;
use crate::version::readers::pin_registry::PinRegistry;
use crate::version::readers::snapshot_tracker::SnapshotTracker;
use crate::version::readers::super_version::{SuperVersion, SuperVersionCell};
use crate::version::{KeyspaceVersion, Version};
use esker_api::{KeyspaceRef, StoreId, foreign};
use esker_base::{Clock, Error, KeyspaceId, Result, Seqno};
use esker_memtable::DramTable;
use esker_pmem::OwnerProcess;
use esker_storage::Storage;
use esker_table::{BlockCache, PartLimits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What reads and background jobs share: see the file's head.
pub(crate) struct Tree {
    // Constant after opening.
    /// What distinguishes handles of this open from others.
    pub(crate) store_id: StoreId,
    pub(crate) keys: KeyFormat,
    pub(crate) settings: Settings,
    pub(crate) sizes: SizeTargets,
    pub(crate) storage: Arc<dyn Storage>,
    /// The process that opened the database.
    pub(crate) owner: OwnerProcess,
    pub(crate) logs: SegmentProvider,
    /// Where log files are, if the log is in files.
    pub(crate) log_files: Option<Arc<dyn Storage>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) dram_table: Option<DramTable>,
    pub(crate) read_only: bool,
    /// Whether the writes of another database are applied, and users change nothing.
    pub(crate) is_replica: bool,
    /// Of a database that another process writes and this one follows: how often what was read before has
    /// ceased to count.
    pub(crate) follows: Option<AtomicU64>,
    /// The storage, as what knows how much its tables take. `None`: opened for reading.
    pub(crate) meter: Option<Arc<DiskUsageTracker>>,

    // Each protected by itself.
    pub(crate) view: SuperVersionCell,
    pub(crate) installer: VersionSet,
    pub(crate) snapshots: Arc<SnapshotTracker>,
    pub(crate) leases: PinRegistry,
    pub(crate) transient: Arc<HeldSum>,
    pub(crate) known_empty: Arc<KnownEmpty>,
    pub(crate) merges: Arc<Merges>,
    pub(crate) filters: Filters,
    pub(crate) time: Arc<ExpiryClock>,
    pub(crate) counters: Counters,
    pub(crate) unwritten: UnpersistedStats,
    pub(crate) histories: WriteHistories,
    pub(crate) events: EventLog,
    /// Nothing of the database can be used any more.
    pub(crate) closed: AtomicBool,
    /// See [`Tree::sync_interval`]; 0 if there is none.
    pub(crate) sync_interval_ns: AtomicU64,
}

impl Tree {
    /// Fails in a forked child, and once the database is closed.
    #[inline]
    pub(crate) fn check_usable(&self) -> Result<()> {
        match self.owner.is_current() && !self.closed.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(self.why_unusable()),
        }
    }

    #[cold]
    fn why_unusable(&self) -> Error {
        match self.owner.is_current() {
            true => Error::Closed,
            false => Error::Forked { what: self.storage.describe() },
        }
    }

    /// The error for a keyspace that a view does not have. A closed database's view has none.
    #[cold]
    pub(crate) fn unknown(&self, keyspace: KeyspaceId) -> Error {
        self.check_usable().err().unwrap_or_else(|| unknown_keyspace(keyspace))
    }

    /// The merge operator of `keyspace`.
    pub(crate) fn merger(&self, keyspace: &KeyspaceVersion) -> Merger {
        self.merges.merger(&keyspace.name, keyspace.settings.merge)
    }

    /// Notes in the manifest that the database has expiring entries, before its first.
    pub(crate) fn expect_expiring(&self) -> Result<()> {
        if self.time.is_used() { Ok(()) } else { self.write_expiry_mark(true) }
    }

    /// Writes a mark if one is needed: see [`expiry`](crate::fold::expiry).
    pub(crate) fn write_expiry_mark(&self, is_first: bool) -> Result<()> {
        self.time.write_mark(is_first, |mark| {
            let edit = VersionEdit::of([VersionChange::ExpiryMark(mark)]);
            self.installer.install(&self.view, |_| Ok(edit), |_| {})
        })
    }

    /// Returns the id of `keyspace`, unless another database or an earlier open made the handle.
    #[inline]
    pub(crate) fn resolve(&self, keyspace: impl Into<KeyspaceRef>) -> Result<KeyspaceId> {
        self.store_id.resolve(keyspace.into(), || self.storage.describe())
    }

    /// Returns the seqno of `snapshot`, unless another database or an earlier open made it.
    #[inline]
    pub(crate) fn resolve_snapshot(&self, snapshot: &dyn esker_api::Snapshot) -> Result<Seqno> {
        let seqno = snapshot.seqno();
        match snapshot.store() == self.store_id {
            true => Ok(seqno),
            false => Err(foreign(format!("the snapshot at {seqno}"), self.storage.describe())),
        }
    }

    /// Makes an edit that takes tables or MemTables away durable and installs it, as
    /// [`VersionSet::install`] does, and sees to it that no idle cursor holds on to what is gone. With it
    /// the manifest records the `cost` of what was done, and what else was counted.
    pub(crate) fn install(
        &self,
        cost: CumulativeStats,
        plan: impl FnOnce(&ManifestState) -> Result<VersionEdit>,
        change: impl FnOnce(&mut SuperVersion),
    ) -> Result<()> {
        self.try_install(cost, plan, change).map_err(|failed| failed.error)
    }

    /// The same. An error says whether the edit may be in the manifest file.
    pub(crate) fn try_install(
        &self,
        cost: CumulativeStats,
        plan: impl FnOnce(&ManifestState) -> Result<VersionEdit>,
        change: impl FnOnce(&mut SuperVersion),
    ) -> Result<(), FailedInstall> {
        let mut counted = CumulativeStats::default();
        let plan = |state: &ManifestState| {
            let mut edit = plan(state)?;
            counted = self.unwritten.take(self.counters.table_gets.sum());
            let mut account = state.account;
            account.add(counted);
            account.add(cost);
            account.segment_bytes = self.sizes.segment_bytes;
            edit.changes.push(VersionChange::Account(account));
            Ok(edit)
        };
        let installed = self.installer.try_install(&self.view, plan, change);
        installed.inspect_err(|_| self.unwritten.put_back(counted))?;
        self.leases.recall();
        Ok(())
    }

    /// What the database has cost up to now.
    pub(crate) fn account(&self) -> CumulativeStats {
        let mut account = self.installer.account();
        account.add(self.unwritten.peek(self.counters.table_gets.sum()));
        account
    }

    /// The current version, for a look that does no I/O: as soon as all of its tables are open, or one
    /// can't be opened.
    pub(crate) fn opened_version(&self) -> Arc<Version> {
        loop {
            let opened = self.open_unopened();
            let version = self.view.load().version.clone();
            // A merge may have ended meanwhile, whose tables are new.
            if opened.is_err() || version.is_open() {
                return version;
            }
        }
    }

    /// Opens the tables that are not open. Fails with the first error, after it has tried all.
    pub(crate) fn open_unopened(&self) -> Result<()> {
        // No version is held meanwhile: the files that merges are done with would stay.
        let tables = self.view.load().version.unopened();
        let opened = tables.into_iter().map(|table| table.reader(&self.cache).map(|_| ()));
        opened.fold(Ok(()), Result::and)
    }

    /// Why compaction leaves a table alone, if it leaves one.
    pub(crate) fn unreadable_error(&self) -> Option<Error> {
        self.view.pin().version.unreadable(self.keys)
    }

    /// What table files take.
    pub(crate) fn table_space(&self) -> TableDiskUsage {
        self.meter.as_ref().map_or_else(TableDiskUsage::default, |meter| meter.table_space())
    }

    /// When a table that is written now has parts.
    pub(crate) fn part_limits(&self) -> PartLimits {
        let cache_bytes = self.cache.capacity_bytes() as u64;
        self.settings.table_limits.parts(self.table_space().bytes, cache_bytes)
    }

    /// The segment size of the process that writes the database: the setting if that is this process,
    /// otherwise from its newest log, or from the manifest. `None` if it is unknown.
    pub(crate) fn known_segment_bytes(&self) -> Option<u64> {
        if !self.read_only {
            return Some(self.sizes.segment_bytes);
        }
        let newest = self.view.pin().memtables.first().map(|it| it.header().capacity);
        newest.or(Some(self.account().segment_bytes).filter(|&bytes| bytes > 0))
    }

    /// Notes what has happened.
    pub(crate) fn note_event(&self, kind: EventKind) {
        self.events.note(&*self.clock, kind);
    }

    /// The interval at which the log is synced, if it is synced on a timer.
    pub(crate) fn sync_interval(&self) -> Option<Duration> {
        let nanos = self.sync_interval_ns.load(Ordering::Relaxed);
        (nanos > 0).then_some(Duration::from_nanos(nanos))
    }

    /// Changes that interval.
    pub(crate) fn set_sync_interval(&self, sync: SyncPolicy) {
        self.sync_interval_ns.store(sync_interval_ns(sync), Ordering::Relaxed);
    }
}

/// The interval of `sync` in nanoseconds; 0 if there is none.
pub(crate) fn sync_interval_ns(sync: SyncPolicy) -> u64 {
    match sync {
        SyncPolicy::Every(interval) => interval.as_nanos() as u64,
        SyncPolicy::Always | SyncPolicy::Os => 0,
    }
}

/// The error for an id that no keyspace has: it was dropped.
pub(crate) fn unknown_keyspace(keyspace: KeyspaceId) -> Error {
    Error::UnknownKeyspace { name: format!("with id {keyspace}") }
}
