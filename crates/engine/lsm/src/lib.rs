//! The LSM engine: MemTables over a log, tables in levels, and the work that moves data between them.
//!
//! * A put: [`commit`](self) reserves, copies, makes durable, indexes, publishes.
//! * A get: `read`, over a `view` of MemTables and a [`version`] of tables.
//! * A scan: `cursor`, over a `merge` of MemTables and runs.
//! * In the background: `schedule` decides what is done when: `flush`, [`compaction`].
//! * After a crash: `recover`, from the [`manifest`] and the log files.

#![forbid(unsafe_code)]

mod account;
mod aside;
mod bounds;
mod changed;
mod checkpoint;
mod close;
mod commit;
mod compact;
pub mod compaction;
mod compactions_done;
mod cursor;
pub mod dates;
mod db;
pub mod dedup;
mod deferred;
mod env;
mod filter_share;
mod flush;
mod histories;
mod inner;
pub mod inspect;
mod install;
mod io;
mod keyspace;
mod keyspaces;
mod left;
pub mod lifetimes;
mod log_files;
mod log_read;
mod logs;
pub mod manifest;
pub mod merge;
mod misplaced;
mod open;
mod opening;
mod parallel;
mod parts;
mod pool_logs;
mod range;
mod read;
mod reclaim;
mod recover;
mod request;
mod resources;
pub mod run_cursor;
mod schedule;
pub mod settings;
mod snapshot;
mod stall;
mod stats;
mod store;
mod strays;
mod table_gets;
mod table_space;
mod torn;
mod undecided;
mod under_way;
mod unlisted;
mod unreadable;
mod user_keys;
pub mod version;
mod view;
mod wait;

pub use account::{Account, SpaceSeen};
pub use compactions_done::{CompactionsDone, DoneFor};
pub use cursor::DbCursor;
pub use db::Db;
pub use dedup::{Dedup, Ratio};
pub use env::Env;
pub use esker_memtable::{DramTableStats, Forwarding};
pub use esker_pmem::Domain as PoolDomain;
pub use keyspace::{DEFAULT_KEYSPACE, Keyspace, KeyspaceInfo};
pub use log_files::{log_file_name, parse_log_file_name};
pub use range::Range;
pub use reclaim::{RECLAIM_PERCENTS, ReclaimErrors};
pub use request::{Requested, request_checkpoint};
pub use resources::Resources;
pub use settings::{KeyspaceSettings, Log, Recovery, Settings, Shape, Sync};
pub use snapshot::Snapshot;
pub use stats::{GoalInfo, KeyspaceLevels, LevelInfo, LiveData, RunInfo, Stats};
pub use store::Store;
pub use table_gets::TableGets;
pub use table_space::TableSpace;
pub use torn::{FramesBehind, TornLog};
pub use unreadable::UnreadableTable;
pub use user_keys::KeyFormat;
