//! The LSM engine: MemTables over a log, tables in levels, and the work that moves data between them.

#![forbid(unsafe_code)]

pub mod compaction;
pub mod settings;
pub mod version;

pub use settings::{KeyspaceSettings, Log, Settings, Shape, Sync};
