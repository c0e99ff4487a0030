//! Esker, an embedded key-value storage engine.
//!
//! A [`Db`] is a directory of ordered keyspaces. Keys and values are bytes; keys sort bytewise.
//! Batches are atomic, and a snapshot is a consistent view of all keyspaces.
//!
//! ```
//! use esker::{Db, KeyspaceSettings, Settings};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("data");
//! let db = Db::open(&dir, Settings::default())?;
//! let users = db.keyspace("users", KeyspaceSettings::default())?;
//!
//! users.put("ada", "analyst")?;
//! assert_eq!(users.get("ada")?.as_deref(), Some(&b"analyst"[..]));
//!
//! // A batch is atomic, also across keyspaces.
//! let mut batch = db.batch();
//! batch.put(&users, "grace", "admiral");
//! batch.delete(&users, "ada");
//! db.write(&batch)?;
//!
//! // A snapshot is a consistent view.
//! let before = db.snapshot();
//! users.put("linus", "maintainer")?;
//! assert_eq!(before.get(&users, "linus")?, None);
//!
//! // Ranges are read in both directions.
//! let names: Result<Vec<_>, _> =
//!     users.range("a".."z").rev().map(|entry| entry.map(|(key, _)| key)).collect();
//! assert_eq!(names?, [b"linus".to_vec(), b"grace".to_vec()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What an acknowledged write survives
//!
//! Once a write returns, every later read sees it. [`Settings::log`] decides what it survives:
//!
//! | log | process crash | power loss |
//! |---|---|---|
//! | `Log::File`, [`SyncPolicy::Always`] | no loss | no loss |
//! | `Log::File`, [`SyncPolicy::Every`] | no loss | at most about one interval of the latest writes is lost |
//! | `Log::File`, [`SyncPolicy::Os`] (default) | no loss | the latest writes may be lost |
//! | `Log::Pmem` | no loss | no loss, unless the pool is emulated in DRAM |
//! | [`Log::None`] | writes that were not flushed are lost | the same |
//!
//! Recovery keeps all writes up to some point. [`WriteBatch::set_sync`] makes one batch durable
//! before [`Db::write`] returns. [`Db::sync`] makes everything written so far durable.
//!
//! # Transactions
//!
//! A [`Transaction`] reads and writes all keyspaces of a database. It is pessimistic or optimistic,
//! under read committed, snapshot isolation or serializability: see [`TransactionOptions`].
//! `docs/guide/transactions.md` lists the anomalies that each level allows. [`Db::transact`] commits,
//! and runs the closure again after a conflict; [`Db::transaction`] leaves both to the caller.
//! [`Db::try_transact`] lets the closure fail with an error of the application.
//! [`Transaction::prepare`] is the first phase of a two-phase commit.
//!
//! ```
//! use esker::{Db, KeyspaceSettings, Settings};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("data");
//! let db = Db::open(&dir, Settings::default())?;
//! let accounts = db.keyspace("accounts", KeyspaceSettings::default())?;
//! accounts.put("ada", [100])?;
//!
//! db.transact(|tx| {
//!     let ada = tx.get_for_update(&accounts, "ada")?.map_or(0, |value| value[0]);
//!     let bob = tx.get_for_update(&accounts, "bob")?.map_or(0, |value| value[0]);
//!     tx.put(&accounts, "ada", [ada - 30])?;
//!     tx.put(&accounts, "bob", [bob + 30])
//! })?;
//! assert_eq!(accounts.get("bob")?.as_deref(), Some(&[30][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Secondary indexes
//!
//! [`Keyspace::index`] registers a function that gives rows keys by which an
//! [`Index`](index::Index) finds them. Every write changes rows and indexes atomically.
//! `docs/guide/indexes.md` has the details.
//!
//! # Changes
//!
//! [`Db::changes`] yields the committed batches in order, and [`Db::change_consumer`] registers who reads
//! them, also across restarts. `docs/guide/changes.md` has the details.
//!
//! # Followers
//!
//! [`Db::open_follower`] shows what another process writes to the same files.
//! `docs/guide/followers.md` has the details.
//!
//! # Other writes
//!
//! * [`Keyspace::merge`] merges an operand into a value without a read: see [`mod@merge`].
//! * [`Keyspace::put_with_ttl`] puts an entry that expires.
//! * [`Db::put_if_absent`] puts a key that does not exist.
//! * [`Db::ingest`] and [`Db::bulk_loader`] add many entries at once.
//!
//! # Keys of several parts
//!
//! [`mod@tuple`] encodes tuples so that their byte order is the tuples' order. With the feature
//! `typed`, `esker::typed` has keyspaces whose keys are tuples and whose values have a type.
//!
//! # Features
//!
//! None is on by default.
//!
//! * `encryption`: encryption at rest, `esker::encryption`.
//! * `metrics`: statistics for the recorder of the crate `metrics`, `esker::stats::metrics`.
//! * `serde`: [`Settings`] and [`KeyspaceSettings`] serialize and deserialize; [`Stats`] and reports
//!   serialize.
//! * `tracing`: what [`Db::events`] lists are also events of the crate `tracing`.
//! * `typed`: typed keyspaces.

#![forbid(unsafe_code)]

pub mod checkpoint;
mod prometheus;
pub mod tuple;
#[cfg(feature = "typed")]
pub mod typed;

/// The traits that workloads and servers use instead of the concrete types, and their
/// implementations: see [`Store`](api::Store) and [`TransactionDb`](api::TransactionDb).
pub mod api {
    pub use esker_api::{
        BatchLimits, BatchMark, Cursor, KeyRange, KeyspaceRef, Keyspaces, Kv, Ordered, Snapshot,
        StoreId, Transaction, TransactionOptions, Transactional, Value, WriteBatch,
    };
    pub use esker_base::{Entry, Kind, Seqno};
    pub use esker_lsm::Store;
    pub use esker_txn::{LockStats, TransactionDb};
}

/// The environment of a database, for tests and for storage that is not a directory: see
/// [`Env`](env::Env).
pub mod env {
    pub use esker_base::background::{Body, Running};
    pub use esker_base::{
        Background, Clock, FileKind, Priority, SystemClock, Threads, WriteHint, seed_from_os,
    };
    pub use esker_lsm::Env;
    pub use esker_storage::{
        LogFile, MemoryStorage, Pace, PosixStorage, ReadPath, ReadableFile, Storage, WritableFile,
        check_name, copy_durably,
    };
}

/// The feed of committed changes, and its named consumers: see [`Db::changes`].
pub mod changes {
    pub use esker_base::ChangesError;
    pub use esker_lsm::{
        Change, ChangeBatch, ChangeConsumer, ChangeConsumerInfo, ChangeEvent, Changes,
        IngestedKeyspace, Operation,
    };
}

/// Following a database that another process writes: see [`Db::open_follower`]; and, for the crate
/// `esker-replication`, copies of a database to which its writes are applied.
pub mod follower {
    pub use esker_lsm::{CaughtUp, FollowerStats, Lineage, Opening, Origin, Replica, promote};
}

/// Incremental backups in a repository, and restores: see [`Repository`](backup::Repository).
pub mod backup {
    pub use esker_backup::{
        Backup, BackupError, BackupFile, BackupReport, Piece, PointInTime, Progress, PruneReport,
        Repository, Restorable, RestoreReport, ShipReport, Shipment, VerifyReport,
    };
    pub use esker_lsm::LiveFiles;
}

/// Encryption at rest: see [`Keys`](encryption::Keys) and [`Settings::encryption`]. It needs the feature
/// `encryption`.
///
/// # Examples
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::encryption::{EncryptionError, Key, Keys, SystemEntropy};
/// use esker::{Db, Error, Settings};
///
/// let key = Key::random(&SystemEntropy)?;
/// let encrypted = Settings::default().encryption(Keys::new([key])?);
///
/// let db = Db::open(dir.path(), encrypted.clone())?;
/// db.put(&db.default_keyspace(), "ada", "analyst")?;
/// db.close()?;
///
/// // Without the key the database does not open.
/// match Db::open(dir.path(), Settings::default()) {
///     Err(Error::Encryption(error)) => {
///         assert!(matches!(*error, EncryptionError::KeyNeeded { .. }));
///     }
///     _ => panic!("it is encrypted"),
/// }
///
/// let db = Db::open(dir.path(), encrypted)?;
/// assert_eq!(db.get(&db.default_keyspace(), "ada")?.as_deref(), Some(&b"analyst"[..]));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "encryption")]
pub mod encryption {
    pub use esker_base::{EncryptionError, Entropy, SystemEntropy};
    pub use esker_encryption::{
        EncryptedStorage, Key, KeyId, KeyProvider, KeyUsage, Keys, keys_in_use,
    };
    pub use esker_storage::{Encrypt, Encryption};
}

/// Inspects and repairs the files of a database that is not open: see [`inspect::Inspector`].
pub mod inspect {
    pub use esker_base::EntryCursor;
    pub use esker_lsm::KeyFormat;
    pub use esker_lsm::inspect::check::CheckReport;
    pub use esker_lsm::inspect::logs::LogDump;
    pub use esker_lsm::inspect::read_around::Skipped;
    pub use esker_lsm::inspect::{DroppedTable, MissingLogPolicy, RepairReport};
    pub use esker_lsm::inspect::{Inspector, LostKeys, ManifestDump, TablePlace};
    pub use esker_lsm::manifest::feed_changes::{
        ConsumerRecord, FeedChange, KeptLog, KeyspaceEvent,
    };
    pub use esker_lsm::manifest::manifest_file::Record;
    pub use esker_lsm::manifest::version_edit::{LogEnd, VersionChange, VersionEdit};
    pub use esker_lsm::version::dates::{Dates, Mark};
    pub use esker_lsm::version::table_lifetimes::{LifetimeEstimator, TableBirth};
    pub use esker_lsm::version::{TableId, TableMeta};
    pub use esker_memtable::{FrameInfo, FramesPastGap, ScanEnd, ScanResult, SegmentHeader};
    pub use esker_table::{Expiring, Origin, Properties, ReadPurpose, Table, TableIter};
}

/// Pools of persistent memory, which can hold the log: see [`Log::Pmem`].
pub mod pmem {
    pub use esker_pmem::{Accept, Domain, Pool};
}

/// Secondary indexes: see [`Keyspace::index`].
pub mod index {
    pub use esker_base::IndexError;
    pub use esker_lsm::{
        CheckedIndex, Index, IndexCheck, IndexEntries, IndexInfo, IndexKeys, IndexRow, IndexRows,
        IndexSettings, IndexStatus,
    };
}

/// Writers of many entries at once: see [`Db::ingest`].
pub mod ingest {
    pub use esker_lsm::{BulkLoader, Ingested, SortedWriter};
}

/// Values that are larger than a log entry: see [`Db::put_reader`].
pub mod large_value {
    pub use esker_base::LargeValueError;
    pub use esker_lsm::ValueReader;
}

/// Types of the fields of [`Settings`] and [`KeyspaceSettings`], and changes of them.
pub mod options {
    pub use esker_lsm::{
        BackgroundWriteRate, CurrentSetting, Dedup, Forwarding, KeyspaceChange, Ratio, Recovery,
        Resources, SettingChange, Shape,
    };
    pub use esker_table::Compression;
}

/// Statistics and reports of an open database: the types in [`Stats`] and in the answers of [`Db`].
///
/// # Examples
///
/// [`OperationCost`](stats::OperationCost) is what single calls cost:
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::stats::OperationCost;
/// use esker::{Db, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let keyspace = db.default_keyspace();
/// keyspace.put("ada", "analyst")?;
/// let (value, cost) = OperationCost::measure(|| keyspace.get("ada"));
/// assert!(value?.is_some());
/// // The MemTable had it: no table was searched, and no block was read.
/// assert_eq!((cost.memtables, cost.runs, cost.blocks_read), (1, 0, 0));
/// # Ok(())
/// # }
/// ```
pub mod stats {
    /// Statistics as a page for Prometheus.
    pub mod prometheus {
        pub use crate::prometheus::{METRICS, Metric, MetricValue, page};
    }
    /// Statistics for the recorder of the crate `metrics`. It needs the feature `metrics`.
    #[cfg(feature = "metrics")]
    pub mod metrics {
        pub use esker_lsm::MetricsPublisher;
    }
    pub use esker_base::OperationCost;
    pub use esker_lsm::compaction::plan::CompactionReason;
    pub use esker_lsm::stats::{
        CallHistograms, CallKind, CallTimes, CompactionStatus, Event, EventKind, JobTimes,
        LatencyHistogram, LevelStatus, LiveStatus, MemoryUse, TimeHistogram,
    };
    pub use esker_lsm::version::{TableId, TableMeta};
    pub use esker_lsm::{
        CompactionCounts, CumulativeStats, DramTableStats, FilterStats, FramesBehind,
        KeyspaceLevels, LevelInfo, LiveData, RECLAIM_PERCENTS, ReasonCount, ReclaimAccuracy,
        RunInfo, SpaceAmpSamples, SpaceAmpStatus, TableReadStats, TornTail, UnreadableTable,
    };
    pub use esker_table::Expiring;
}

/// Options, iterators and errors of transactions: see [`Transaction`].
pub mod transaction {
    pub use esker_api::{Concurrency, Isolation};
    pub use esker_base::{LockWait, PreparedError};
    pub use esker_lsm::{PreparedTransaction, TransactionRange};
}

/// Compaction filters: see [`CompactionFilter`](filter::CompactionFilter).
pub mod filter {
    pub use esker_api::{CompactionFilter, FilterDecision, FilterError};
    pub use esker_lsm::CompactionFilters;
}

/// Merge operators: the built-in ones, and the encodings of their values. See
/// [`MergeOperator`](merge::MergeOperator).
pub mod merge {
    pub use esker_api::{
        AddI64, Append, HyperLogLog, Max, MergeError, MergeOperator, Min, SetUnion,
        built_in_operators, decode_i64, distinct_estimate, set_elements, set_of, sketch_of,
    };
    pub use esker_lsm::{MergeOperators, OperatorName};
}

pub use esker_api::{Cursor, KeyRange, TransactionOptions, Value, WriteBatch};
pub use esker_base::{Error, KeyspaceId, Result};
pub use esker_lsm::{
    DEFAULT_KEYSPACE, Db, DbCursor, IndexedBatch, Keyspace, KeyspaceInfo, KeyspaceSettings, Log,
    Range, Settings, Snapshot, Stats, SyncPolicy, Transaction,
};
