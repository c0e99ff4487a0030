//! Esker, a key-value storage engine.
//!
//! A [`Db`] is a directory of ordered keyspaces. Keys and values are bytes; keys are compared
//! bytewise. Writes go in batches that happen together or not at all; reads see one moment.
//!
//! ```
//! use esker::{Db, KeyspaceSettings, Settings};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("data");
//! let db = Db::open(&dir, Settings::default())?;
//! let users = db.keyspace("users", KeyspaceSettings::default())?;
//!
//! db.put(&users, b"ada", b"analyst")?;
//! assert_eq!(db.get(&users, b"ada")?.as_deref(), Some(&b"analyst"[..]));
//!
//! // A batch is atomic, across keyspaces too.
//! let mut batch = db.batch();
//! batch.put(&users, b"grace", b"admiral");
//! batch.delete(&users, b"ada");
//! db.write(&batch)?;
//!
//! // A snapshot is a moment to read at.
//! let before = db.snapshot();
//! db.put(&users, b"linus", b"maintainer")?;
//! assert_eq!(db.get_at(&users, b"linus", &before)?, None);
//!
//! // Ranges run forward and backward.
//! let names: Result<Vec<_>, _> =
//!     db.range(&users, b"a".as_slice()..b"z").rev().map(|pair| pair.map(|(key, _)| key)).collect();
//! assert_eq!(names?, [b"linus".to_vec(), b"grace".to_vec()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What an acknowledged write survives
//!
//! When a write returns, it is visible to every later read. What it survives depends on
//! [`Settings::log`]:
//!
//! | log | the process ends | power is lost |
//! |---|---|---|
//! | `Log::File`, [`Sync::Always`] | kept | kept |
//! | `Log::File`, [`Sync::Every`] | kept | a prefix of the writes is kept, which misses about one interval at most |
//! | `Log::File`, [`Sync::Os`] | kept | a prefix of the writes is kept |
//! | `Log::Pmem` | kept | kept, unless the pool is emulated in DRAM |
//! | [`Log::None`] | what was flushed is kept | what was flushed is kept |
//!
//! `WriteBatch::sync` asks for one batch what `Sync::Always` asks for all, and `Db::sync` for
//! everything written so far.
//!
//! # Transactions
//!
//! A [`TransactionDb`] runs transactions over all keyspaces of a database, pessimistic or optimistic,
//! under read committed, snapshot isolation or serializability: see [`TransactionOptions`], and
//! `docs/guide/transactions.md` for what each level allows and excludes.
//!
//! ```
//! use esker::{Db, Settings, TransactionDb, TransactionOptions, Transactional};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("data");
//! let store = TransactionDb::new(Db::open(&dir, Settings::default())?);
//! let accounts = store.keyspace("accounts")?;
//!
//! let mut setup = store.begin(&TransactionOptions::default())?;
//! setup.put(accounts, b"ada", &[100])?;
//! setup.put(accounts, b"bob", &[0])?;
//! setup.commit()?;
//!
//! // Whoever fails with an error that is transient was in another's way, and starts over.
//! let transfer = || {
//!     let mut transfer = store.begin(&TransactionOptions::default())?;
//!     let ada = transfer.get_for_update(accounts, b"ada")?.map_or(0, |value| value[0]);
//!     let bob = transfer.get_for_update(accounts, b"bob")?.map_or(0, |value| value[0]);
//!     transfer.put(accounts, b"ada", &[ada - 30])?;
//!     transfer.put(accounts, b"bob", &[bob + 30])?;
//!     transfer.commit()
//! };
//! while let Err(error) = transfer() {
//!     if !error.is_transient() {
//!         return Err(error.into());
//!     }
//! }
//! assert_eq!(store.get(accounts, b"bob")?.as_deref(), Some(&[30][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Keys of several parts
//!
//! [`mod@tuple`] encodes tuples so that their byte order is the tuples' order.

#![forbid(unsafe_code)]

pub mod tuple;

/// Looking into the files of a database that is not open: see [`inspect::Inspector`].
pub mod inspect {
    pub use esker_lsm::KeyFormat;
    pub use esker_lsm::inspect::check::Checked;
    pub use esker_lsm::inspect::logs::LogDump;
    pub use esker_lsm::inspect::read_around::Skipped;
    pub use esker_lsm::inspect::repair::{LostTable, MissingLogs, Repaired};
    pub use esker_lsm::inspect::{Inspector, LostKeys, ManifestDump, TablePlace};
    pub use esker_lsm::manifest::manifest_file::Record;
    pub use esker_lsm::manifest::version_edit::{Change, Edit, LogEnd};
    pub use esker_lsm::version::dates::Dates;
    pub use esker_lsm::version::{TableId, TableMeta};
    pub use esker_memtable::{FrameInfo, Later, Scan, SegmentHeader, Stop};
    pub use esker_table::{CursorPurpose, Properties, Table};
}

/// Pools of persistent memory, which can hold the log: see [`Log::Pmem`].
pub mod pmem {
    pub use esker_pmem::{Accept, Domain, Pool};
}

pub use esker_api::{
    self as api, Concurrency, Cursor, Isolation, KeyRange, Transaction, TransactionOptions,
    Transactional, Value, WriteBatch,
};
pub use esker_base::{Error, KeyspaceId, Result};
pub use esker_lsm::UnreadableTable;
pub use esker_lsm::compaction::plan::Reason as CompactionReason;
pub use esker_lsm::version::{TableId, TableMeta};
pub use esker_lsm::{
    Account, CompactionsDone, DEFAULT_KEYSPACE, Db, DbCursor, Dedup, DoneFor, DramTableStats, Env,
    Forwarding, GoalInfo, Keyspace, KeyspaceInfo, KeyspaceLevels, KeyspaceSettings, LevelInfo,
    LiveData, Log, PoolDomain, RECLAIM_PERCENTS, Range, Ratio, ReclaimErrors, Recovery, Requested,
    Resources, RunInfo, Settings, Shape, Snapshot, SpaceSeen, Stats, Store, Sync, TableGets,
    TornLog, request_checkpoint,
};
pub use esker_table::Compression;
pub use esker_txn::TransactionDb;
