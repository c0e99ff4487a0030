//! What a database says of itself.

pub(crate) mod compaction_counts;
pub(crate) mod cumulative;
pub(crate) mod disk_usage;
pub(crate) mod reclaim_accuracy;
pub(crate) mod table_reads;
pub(crate) mod write_histories;
pub mod write_history;

use crate::options::settings::KeyspaceSettings;
use crate::options::space_policy::Ratio;
use crate::user_keys::KeyFormat;
use crate::version::unreadable::UnreadableTable;
use crate::version::{KeyspaceVersion, TableMeta, Version};
use compaction_counts::CompactionsDone;
use cumulative::Account;
use esker_base::{KeyspaceId, Seqno};
use esker_memtable::DramTableStats;
use esker_pmem::Domain;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use table_reads::{GetCounters, TableGets};

/// Figures of a database, counted since it was opened unless they say "now".
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Entries written: puts, deletes, range deletes.
    pub writes: u64,
    /// Bytes of these entries: keys, values and a few bytes of header each.
    pub user_bytes: u64,
    /// What the memory of the pool promises that the log lies in, if it lies in one.
    pub pool_domain: Option<Domain>,
    /// Bytes appended to log files, or stored in the pool of persistent memory.
    pub log_bytes: u64,
    /// Appends to log files. One may carry many writers' frames.
    pub log_appends: u64,
    /// Syncs of log files.
    pub log_syncs: u64,
    /// Cache lines sent to persistent memory.
    pub log_flushes: u64,
    /// Fences: one a write, and a few for each segment.
    pub log_fences: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Bytes that flushes wrote to tables.
    pub flush_bytes: u64,
    /// Compactions done, trivial moves not counted.
    pub compactions: u64,
    /// Tables moved a level down without being rewritten.
    pub trivial_moves: u64,
    /// Compactions and moves that came into force, by their reason.
    pub compactions_done: CompactionsDone,
    /// Compactions that were not put in force when they were done, whether they are now or not.
    pub deferrals: u64,
    /// Those of the compactions that are not in force now: readers go on with what they merged until what they wrote is
    /// [settled](esker_storage::Storage::is_settled).
    pub compactions_deferred: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes: u64,
    /// Bytes that compactions made free: read less written.
    pub reclaimed_bytes: u64,
    /// Bytes that they were expected to make free, by the samples of their inputs' keys.
    pub predicted_reclaim_bytes: u64,
    /// Compactions that made free what was expected, give or take a tenth of it.
    pub reclaims_within_tenth: u64,
    /// Time that writers were held back, summed over writers.
    pub stalled: Duration,
    /// What the DRAMTable holds now, and did.
    pub dram_table: DramTableStats,
    /// Block cache hits.
    pub cache_hits: u64,
    /// Block cache misses.
    pub cache_misses: u64,
    /// Bytes in the block cache now.
    pub cache_bytes: u64,
    /// Bytes that the block cache may hold now.
    pub cache_capacity_bytes: u64,
    /// Point reads that came to tables, and what they cost there.
    pub table_gets: TableGets,
    /// Bytes of table indexes, filters and tombstones held now.
    pub table_memory_bytes: u64,
    /// Those of them that are filters.
    pub filter_bytes: u64,
    /// Bytes of MemTables, segments and index, held now.
    pub memtable_bytes: u64,
    /// MemTables now, the active one included.
    pub memtables: u64,
    /// Tables now.
    pub tables: u64,
    /// Bytes of tables now.
    pub table_bytes: u64,
    /// Bytes of table files now: also those in the making, and those that only readers still hold.
    pub table_file_bytes: u64,
    /// The most bytes of table files at any moment.
    pub table_file_bytes_peak: u64,
    /// Log segments now.
    pub logs: u64,
    /// Snapshots held now, cursors' own included.
    pub snapshots: u64,
    /// The last write that readers see now.
    pub visible_seqno: Seqno,
    /// Every write up to here is in tables now.
    pub flushed_seqno: Seqno,
    /// The tables that compaction leaves out now because a read of them failed.
    pub unreadable_tables: Vec<UnreadableTable>,
    /// Why flush or compaction stand still now, if they do; or why compaction leaves out a table.
    pub background_error: Option<String>,
    /// Databases that share the memory and the threads of this one now, itself included.
    pub databases: u64,
    /// The memory budget, which they share.
    pub memory_budget_bytes: u64,
    /// What they have charged to it now, in bytes: MemTables, open tables, DRAMTables. The block cache gets
    /// the rest: `cache_bytes` and `cache_capacity_bytes` are theirs together.
    pub memory_charged_bytes: u64,
    /// What this database has charged of that.
    pub memory_own_bytes: u64,
    /// Bytes in the block cache now that are this database's.
    pub cache_own_bytes: u64,
    /// What the database has cost since it was made, in all processes that had it open for writing.
    pub account: Account,
}

impl Stats {
    /// Bytes written to tables and logs for each byte that users wrote; 0 before the first write.
    pub fn write_amplification(&self) -> f64 {
        let written = self.log_bytes + self.flush_bytes + self.compaction_bytes;
        if self.user_bytes == 0 { 0.0 } else { written as f64 / self.user_bytes as f64 }
    }
}

/// What would stay of a database's tables if all were merged, judged by samples of their keys. In bytes
/// of files.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LiveData {
    /// The newest versions of live keys.
    pub bytes: f64,
    /// Live keys.
    pub keys: f64,
    /// What snapshots alone keep, in bytes.
    pub pinned_bytes: f64,
}

/// What is live in `version`; `None` if a table is not open.
pub(crate) fn live_data(version: &Version, snapshots: &[Seqno]) -> Option<LiveData> {
    version.keyspaces.values().try_fold(LiveData::default(), |live, keyspace| {
        let found = keyspace.estimate(snapshots)?;
        Some(LiveData {
            bytes: live.bytes + found.live_bytes,
            keys: live.keys + found.live_keys,
            pinned_bytes: live.pinned_bytes + found.pinned_bytes(),
        })
    })
}

/// How a keyspace stands to its goal for space. In bytes of files.
#[derive(Clone, PartialEq, Debug)]
pub struct GoalInfo {
    /// The keyspace's name.
    pub keyspace: String,
    /// The goal: tables may take so many times what is live.
    pub amp: Ratio,
    /// What is live, judged by samples of keys: the least that may be, where other counts contradict them.
    pub live_bytes: f64,
    /// What snapshots alone keep.
    pub pinned_bytes: f64,
    /// What table files may take: the goal times what is live, what is pinned, and four segments as large
    /// as those of the process that writes the database, or wrote it last. `None` if that is not known.
    pub ceiling_bytes: Option<f64>,
    /// What they take, those that only readers still hold included, those in the making not.
    pub bytes: u64,
}

/// The tree of one keyspace.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyspaceLevels {
    /// The keyspace's id.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: KeyspaceSettings,
    /// Its levels that hold anything, from the top.
    pub levels: Vec<LevelInfo>,
}

/// One level.
#[derive(Clone, PartialEq, Debug)]
pub struct LevelInfo {
    /// Its number; 0 is what flushes write to.
    pub level: usize,
    /// Its keys, counted in each run, for each distinct one; `None` if its tables can't be opened.
    pub duplicate_rate: Option<f64>,
    /// Its runs, newest first.
    pub runs: Vec<RunInfo>,
}

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunInfo {
    /// Its id; higher is newer.
    pub id: u64,
    /// Its tables, in key order.
    pub tables: Vec<TableMeta>,
}

impl RunInfo {
    /// The bytes of all tables.
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
        name: keyspace.name.clone(),
        settings: keyspace.settings,
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
    pub(crate) compactions_done: Mutex<CompactionsDone>,
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
