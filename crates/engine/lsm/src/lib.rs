//! The LSM engine: MemTables over a log, tables in levels, and the jobs that move data between
//! them.
//!
//! The modules, in the order in which a byte travels:
//!
//! * `options`: settings; `stats`: statistics.
//! * `write` writes a batch to the log and a MemTable; `log` provides the segments.
//! * [`flush`](self) writes MemTables to tables; [`output`] is what it shares with a compaction.
//! * [`version`] is the set of tables that a read sees; [`manifest`] makes each change of it
//!   durable.
//! * `fold` says what the versions of a key add up to: the only place that does.
//! * `tree` is what reads and background jobs share: the view, the manifest, the block cache.
//! * [`compaction`] picks (`pick`, `space`) and executes (`execute`) compactions.
//! * [`read`] gets and scans.
//! * `scheduler` is the state of background work; `background` picks the jobs and runs them, on
//!   threads of `resources`.
//! * `recovery` opens and closes a database; [`inspect`] checks and repairs a closed one.
//! * `follow` reads what another process writes to a database, and shows it.
//! * `feed` yields committed batches in order; `history` keeps the logs that its readers need.
//! * `index` adds the entries of secondary indexes to batches.
//! * `engine` is an open database: the tree, the writers and the scheduler. `db` has the handles.

#![forbid(unsafe_code)]

mod background;
pub mod compaction;
mod db;
mod engine;
mod feed;
mod flush;
mod fold;
mod follow;
mod history;
mod index;
mod ingest;
pub mod inspect;
mod limits;
mod log;
pub mod manifest;
pub mod options;
pub mod output;
mod parallel;
mod primitives;
pub mod read;
mod recovery;
mod reserved;
mod resources;
mod scheduler;
pub mod stats;
mod tree;
mod user_keys;
pub mod version;
mod write;

pub use db::Db;
pub use db::cursor::DbCursor;
pub use db::index::check::{CheckedIndex, IndexCheck};
pub use db::index::handle::Index;
pub use db::index::rows::{IndexEntries, IndexRow, IndexRows};
pub use db::indexed_batch::IndexedBatch;
pub use db::keyspace::{Keyspace, KeyspaceInfo};
pub use db::kv_adapter::Store;
pub use db::large_values::ValueReader;
#[cfg(feature = "metrics")]
pub use db::metrics::MetricsPublisher;
pub use db::range::Range;
pub use db::replica::Replica;
pub use db::transaction::{Transaction, TransactionRange};
pub use esker_memtable::{DramTableStats, Forwarding};
pub use esker_pmem::Domain as PoolDomain;
pub use esker_txn::PreparedTransaction;
pub use feed::LogPiece;
pub use feed::batch::{Change, ChangeBatch, ChangeEvent, IngestedKeyspace, Operation};
pub use feed::changes::Changes;
pub use feed::consumer::{ChangeConsumer, ChangeConsumerInfo};
#[doc(hidden)]
pub use feed::received::fuzz_received;
pub use feed::shipping::LogPieces;
pub use fold::compaction_filters::CompactionFilters;
pub use fold::operators::{MergeOperators, OperatorName};
pub use history::lineage::{FOLLOWS, Lineage, Opening, Origin, promote};
pub use history::staged_copy::{RESTORING, StagedCopy, settle as settle_staged_copy};
pub use index::index_keys::IndexKeys;
pub use index::settings::{IndexInfo, IndexSettings, IndexStatus};
pub use ingest::{BulkLoader, Ingested, SortedWriter};
pub use log::torn_tail::{FramesBehind, TornTail};
pub use log::wal_files::{log_file_name, parse_log_file_name};
pub use manifest::original::note_original;

pub use options::change::{CurrentSetting, KeyspaceChange, SettingChange};
pub use options::settings::{
    DEFAULT_KEYSPACE, KeyspaceSettings, Log, Recovery, Settings, Shape, SyncPolicy,
};
pub use options::space_policy::{Dedup, Ratio};
#[doc(hidden)]
pub use options::table_limits::TableLimits;
pub use options::write_rate::BackgroundWriteRate;
#[doc(hidden)]
pub use read::fuzz_values::fuzz_value_file;
pub use recovery::checkpoint::live_files::LiveFiles;
pub use recovery::checkpoint::request::{
    Requested, request_change, request_checkpoint, request_log, request_status,
};
pub use recovery::env::Env;
pub use recovery::point_in_time::{CopyEnd, LogSegments};
pub use resources::Resources;
pub use stats::compaction_counts::{CompactionCounts, ReasonCount};
pub use stats::cumulative::{CumulativeStats, SpaceAmpSamples};
pub use stats::disk_usage::TableDiskUsage;
pub use stats::filter_stats::FilterStats;
pub use stats::follower::{CaughtUp, FollowerStats};
pub use stats::reclaim_accuracy::{RECLAIM_PERCENTS, ReclaimAccuracy};
pub use stats::table_reads::TableReadStats;
pub use stats::{
    KeyspaceLevels, LevelInfo, LiveData, RunInfo, SpaceAmpStatus, Stats, ValueFileSpace,
};
pub use user_keys::KeyFormat;
pub use version::readers::snapshot_tracker::Snapshot;
pub use version::unreadable::UnreadableTable;
