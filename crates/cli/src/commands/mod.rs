//! One file a command.

pub mod bench;
pub mod check;
pub mod checkpoint;
pub mod compact;
pub mod completions;
pub mod count;
pub mod delete;
pub mod drop_keyspace;
pub mod dump;
pub mod export;
pub mod flash;
pub mod get;
pub mod hash;
pub mod import;
pub mod keyspaces;
pub mod levels;
pub mod man;
pub mod merge;
pub mod nvme;
pub mod pmem;
pub mod put;
pub mod repair;
pub mod scan;
pub mod serve;
pub mod shell;
pub mod stats;
