//! Statistics of a database.
//!
//! [`Stats`] is what a caller gets: figures of now, and counts since the open. `cumulative` and
//! `write_histories` count over the whole life of a database; the manifest keeps them. The other files
//! each measure one thing; `events` keeps what happened last, and `listener` is what is called for it. No
//! decision of the engine depends on a count, except on `write_histories` (the age of deletes) and
//! `disk_usage` (space limits).

pub(crate) mod call_watch;
pub(crate) mod compaction_counts;
pub(crate) mod cumulative;
pub(crate) mod disk_usage;
mod display;
pub mod events;
pub(crate) mod filter_stats;
pub(crate) mod follower;
mod latency;
mod listener;
pub(crate) mod live_status;
mod memory_use;
pub mod metric_table;
pub(crate) mod reclaim_accuracy;
pub(crate) mod table_reads;
pub(crate) mod write_histories;
pub mod write_history;

pub use call_watch::{CallHistograms, CallTimes};
pub use events::{CallKind, Event, EventKind, JobTimes, TimeHistogram};

pub use latency::LatencyHistogram;
pub use live_status::{CompactionStatus, LevelStatus, LiveStatus};
pub use memory_use::MemoryUse;

use crate::options::settings::KeyspaceSettings;
use crate::options::space_policy::Ratio;
use crate::user_keys::KeyFormat;
use crate::version::unreadable::UnreadableTable;
use crate::version::{KeyspaceVersion, ListedValueFile, TableMeta, Version};
use compaction_counts::CompactionCounts;
use cumulative::CumulativeStats;
use esker_base::{KeyspaceId, Seqno};
use esker_memtable::DramTableStats;
use esker_pmem::Domain;
use filter_stats::FilterStats;
use follower::FollowerStats;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use table_reads::{GetCounters, TableReadStats};

/// The statistics of a database.
///
/// Figures that say "now" are current values. All others are counted since the database was opened,
/// except those in [`Stats::account`].
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Entries written: puts, deletes and range deletes.
    pub writes: u64,
    /// Bytes of these entries: keys, values and a few bytes of header each.
    pub user_bytes: u64,
    /// The persistence domain of the pool that holds the log, or `None` if the log is not in a
    /// pool.
    pub pool_domain: Option<Domain>,
    /// Bytes appended to log files, or stored in the pool of persistent memory.
    pub log_bytes: u64,
    /// Appends to log files. One append may carry the frames of many writers.
    pub log_appends: u64,
    /// Syncs of log files.
    pub log_syncs: u64,
    /// Cache lines flushed to persistent memory.
    pub log_flushes: u64,
    /// Fences: one per write, and a few per segment.
    pub log_fences: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes that flushes wrote to tables.
    pub flush_bytes: u64,
    /// Compactions, without trivial moves.
    pub compactions: u64,
    /// Tables moved down a level without being rewritten.
    pub trivial_moves: u64,
    /// Compactions and trivial moves that were installed, by reason.
    pub compactions_done: CompactionCounts,
    /// Compactions whose installation was deferred, pending or installed by now.
    pub deferrals: u64,
    /// Compactions whose installation is pending now.
    ///
    /// Readers use the inputs until the storage is [quiescent](esker_storage::Storage::is_settled)
    /// the outputs.
    pub compactions_deferred: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes: u64,
    /// Bytes that compactions freed: bytes read minus bytes written.
    pub reclaimed_bytes: u64,
    /// Bytes that compactions were expected to free, estimated from samples of their keys.
    pub predicted_reclaim_bytes: u64,
    /// Compactions whose estimate was within 10% of the bytes they freed.
    pub reclaims_within_tenth: u64,
    /// Time that writers were throttled or stalled, summed over all writers.
    pub stalled: Duration,
    /// The most bytes per second that flushes and compactions may write now, or `None` if they are
    /// not limited: see [`Settings::background_write_rate`](crate::Settings::background_write_rate).
    pub background_write_rate: Option<u64>,
    /// Time that flushes and compactions waited for that limit, summed over both.
    pub background_write_waits: Duration,
    /// Calls that took as long as [`Settings::slow_call`](crate::Settings::slow_call) or longer.
    pub slow_calls: u64,
    /// How long flushes, compactions and stalls took.
    pub job_times: JobTimes,
    /// How long calls took while they were watched:
    /// [`Db::watched_stats`](crate::Db::watched_stats), [`Db::status`](crate::Db::status).
    pub call_times: CallHistograms,
    /// What compaction filters did since the database was opened.
    pub filters: FilterStats,
    /// The statistics of the DRAMTable.
    pub dram_table: DramTableStats,
    /// Hits of the block cache.
    pub cache_hits: u64,
    /// Misses of the block cache.
    pub cache_misses: u64,
    /// Bytes in the block cache now, including parts of indexes and filters.
    pub cache_bytes: u64,
    /// Bytes of these that are parts of the indexes and filters of large tables.
    pub cache_part_bytes: u64,
    /// The capacity of the block cache now, in bytes.
    pub cache_capacity_bytes: u64,
    /// Point reads that reached tables, and their cost there.
    pub table_gets: TableReadStats,
    /// Tables whose index and filter are in memory now.
    pub open_tables: u64,
    /// Table and value files that are open now. Databases that share memory and threads share these, too.
    pub open_files: u64,
    /// The most of these that are open at once:
    /// [`Settings::max_open_files`](crate::Settings::max_open_files).
    pub max_open_files: u64,
    /// How often one of these was opened.
    pub file_opens: u64,
    /// Bytes that open tables keep in memory now: indexes and filters of small tables, the tops of
    /// those of large ones, range tombstones and properties.
    pub table_memory_bytes: u64,
    /// Bytes of filters in memory now, those in the block cache included.
    pub filter_bytes: u64,
    /// Bytes of MemTables, segments and index, in memory now.
    pub memtable_bytes: u64,
    /// MemTables now, including the active one.
    pub memtables: u64,
    /// Tables now.
    pub tables: u64,
    /// Bytes of tables now.
    pub table_bytes: u64,
    /// Bytes of value files now.
    pub value_file_bytes: u64,
    /// Bytes of table and value files now, including unfinished files and obsolete files that are
    /// still being read.
    pub table_file_bytes: u64,
    /// The peak of `table_file_bytes`.
    pub table_file_bytes_peak: u64,
    /// Log segments now.
    pub logs: u64,
    /// Open snapshots now, including those of cursors.
    pub snapshots: u64,
    /// The sequence number of the last write that readers see now.
    pub visible_seqno: Seqno,
    /// The sequence number up to which every write is in tables now.
    pub flushed_seqno: Seqno,
    /// The tables that compaction skips now because a read of them failed.
    pub unreadable_tables: Vec<UnreadableTable>,
    /// The error that stops or limits background work now: see
    /// [`Db::background_error`](crate::Db::background_error).
    pub background_error: Option<String>,
    /// How far it is now, of a [follower](crate::Db::open_follower).
    pub follower: Option<FollowerStats>,
    /// Databases that share the memory and threads of this one now, including itself.
    pub databases: u64,
    /// The memory budget that these databases share, in bytes.
    pub memory_budget_bytes: u64,
    /// Bytes that these databases have charged to the budget now: MemTables, open tables,
    /// DRAMTables.
    ///
    /// The block cache uses the rest. `cache_bytes` and `cache_capacity_bytes` are those of all of
    /// them.
    pub memory_charged_bytes: u64,
    /// Bytes of these that this database has charged.
    pub memory_own_bytes: u64,
    /// Bytes in the block cache now that belong to this database.
    pub cache_own_bytes: u64,
    /// How the memory of this database is used now.
    pub memory_use: MemoryUse,
    /// Totals since the database was created, over all processes that had it open for writing.
    pub account: CumulativeStats,
}

impl Stats {
    /// Returns the bytes written to logs and tables per byte that users wrote; 0 before the first
    /// write.
    pub fn write_amplification(&self) -> f64 {
        let written = self.log_bytes + self.flush_bytes + self.compaction_bytes;
        if self.user_bytes == 0 { 0.0 } else { written as f64 / self.user_bytes as f64 }
    }
}

/// An estimate of what a full compaction would keep, from samples of keys. In bytes of table and value
/// files.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LiveData {
    /// Bytes of the newest versions of live keys.
    pub bytes: f64,
    /// Live keys.
    pub keys: f64,
    /// Bytes that only snapshots keep.
    pub pinned_bytes: f64,
}

/// What is live in `version` at `now`, in milliseconds since 1970-01-01; `None` if a table is not open.
pub(crate) fn live_data(version: &Version, snapshots: &[Seqno], now: u64) -> Option<LiveData> {
    version.keyspaces.values().try_fold(LiveData::default(), |live, keyspace| {
        let found = keyspace.estimate_at(snapshots, now)?;
        // As large a part of the values that tables refer to as of the tables.
        let table_bytes: u64 = keyspace.tables().map(|(_, _, table)| table.meta.bytes).sum();
        let values = version.values.sums_of(keyspace.id).live_bytes as f64;
        let values = |of: f64| values * (of / table_bytes.max(1) as f64).min(1.0);
        let (live_bytes, pinned_bytes) = (found.live_bytes, found.pinned_bytes());
        Some(LiveData {
            bytes: live.bytes + live_bytes + values(live_bytes),
            keys: live.keys + found.live_keys,
            pinned_bytes: live.pinned_bytes + pinned_bytes + values(pinned_bytes),
        })
    })
}

/// The space usage of a keyspace with a space-amplification limit. In bytes of table files.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SpaceAmpStatus {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The limit: bytes of table files per byte of live data.
    pub amp: Ratio,
    /// Bytes of live data, estimated from samples of keys. The lowest estimate, if samples and key
    /// counters disagree.
    pub live_bytes: f64,
    /// Bytes that only snapshots keep.
    pub pinned_bytes: f64,
    /// The most bytes that table files may use: `amp` times the live data, plus what is pinned,
    /// plus four segments.
    ///
    /// The segment size is that of the last process that had the database open for writing. `None`
    /// if it is not known.
    pub ceiling_bytes: Option<f64>,
    /// Bytes of table files, including obsolete files that are still being read, without unfinished
    /// files.
    pub bytes: u64,
}

/// The LSM tree of one keyspace.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KeyspaceLevels {
    /// The id of the keyspace.
    pub id: KeyspaceId,
    /// The name of the keyspace.
    pub name: String,
    /// The settings of the keyspace.
    pub settings: KeyspaceSettings,
    /// The levels that are not empty, from the top.
    pub levels: Vec<LevelInfo>,
    /// The value files of the keyspace.
    pub values: ValueFileSpace,
}

/// The value files of a keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ValueFileSpace {
    /// The number of files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Values that tables refer to.
    pub live_values: u64,
    /// Bytes of these values in the files.
    pub live_bytes: u64,
}

impl ValueFileSpace {
    fn of(version: &Version, keyspace: KeyspaceId) -> Self {
        let add = |sum: ValueFileSpace, listed: &ListedValueFile| ValueFileSpace {
            files: sum.files + 1,
            bytes: sum.bytes + listed.meta.bytes,
            live_values: sum.live_values + listed.live_values,
            live_bytes: sum.live_bytes + listed.live_bytes,
        };
        version.values.of(keyspace).fold(ValueFileSpace::default(), add)
    }
}

/// One level of an LSM tree.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelInfo {
    /// The number of the level. Flushes write to level 0.
    pub level: usize,
    /// The keys of all runs per distinct key; `None` if a table cannot be opened.
    pub duplicate_rate: Option<f64>,
    /// The runs, newest first.
    pub runs: Vec<RunInfo>,
}

/// One sorted run of a level.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RunInfo {
    /// The id of the run; higher is newer.
    pub id: u64,
    /// The tables, in key order. Their bounds are user keys.
    pub tables: Vec<TableMeta>,
}

impl SpaceAmpStatus {
    /// Returns the status of a keyspace with the limit `amp` and without data.
    pub fn new(keyspace: impl Into<String>, amp: Ratio) -> Self {
        SpaceAmpStatus {
            keyspace: keyspace.into(),
            amp,
            live_bytes: 0.0,
            pinned_bytes: 0.0,
            ceiling_bytes: None,
            bytes: 0,
        }
    }
}

impl KeyspaceLevels {
    /// Returns the tree of a keyspace with these levels, from the top.
    pub fn new(
        id: KeyspaceId,
        name: impl Into<String>,
        settings: KeyspaceSettings,
        levels: Vec<LevelInfo>,
    ) -> Self {
        let values = ValueFileSpace::default();
        KeyspaceLevels { id, name: name.into(), settings, levels, values }
    }
}

impl LevelInfo {
    /// Returns a level with these runs, newest first, whose duplicates are unknown.
    pub fn new(level: usize, runs: Vec<RunInfo>) -> Self {
        LevelInfo { level, duplicate_rate: None, runs }
    }
}

impl RunInfo {
    /// Returns the run with these tables, in key order.
    pub fn new(id: u64, tables: Vec<TableMeta>) -> Self {
        RunInfo { id, tables }
    }

    /// Returns the bytes of all tables of the run.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }
}

/// The trees of `version`.
pub(crate) fn levels(version: &Version, keys: KeyFormat) -> Vec<KeyspaceLevels> {
    let as_users_know_it = |table: &TableMeta| {
        let mut table = table.clone();
        keys.restore(&mut table.smallest);
        keys.restore(&mut table.largest);
        table
    };
    let of_keyspace = |keyspace: &KeyspaceVersion| KeyspaceLevels {
        id: keyspace.id,
        name: version.shown_name(keyspace),
        settings: keyspace.settings,
        values: ValueFileSpace::of(version, keyspace.id),
        levels: keyspace
            .levels
            .iter()
            .enumerate()
            .filter(|(_, level)| !level.is_empty())
            .map(|(level, runs)| LevelInfo {
                level,
                duplicate_rate: keyspace.duplicate_rate(level),
                runs: runs
                    .runs
                    .iter()
                    .map(|run| RunInfo {
                        id: run.id,
                        tables: run
                            .tables()
                            .iter()
                            .map(|table| as_users_know_it(&table.meta))
                            .collect(),
                    })
                    .collect(),
            })
            .collect(),
    };
    version.keyspaces.values().map(|keyspace| of_keyspace(keyspace)).collect()
}

/// What the engine counts as it works.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) flushes: Counter,
    pub(crate) flush_bytes: Counter,
    pub(crate) compactions: Counter,
    pub(crate) trivial_moves: Counter,
    pub(crate) compactions_done: Mutex<CompactionCounts>,
    pub(crate) deferrals: Counter,
    pub(crate) compaction_read_bytes: Counter,
    pub(crate) compaction_bytes: Counter,
    pub(crate) predicted_reclaim_bytes: Counter,
    pub(crate) reclaims_within_tenth: Counter,
    pub(crate) table_gets: GetCounters,
}

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
