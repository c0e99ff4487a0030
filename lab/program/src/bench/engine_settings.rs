//! What engines are set to, as values that a plan carries to its process.

use super::network::Network;
use super::pool::PoolSettings;
use clap::ValueEnum;
use esker::options::Forwarding;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What all engines of a run are given alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSettings {
    /// All memory that an engine may use: write buffers, indexes, filters, caches.
    pub memory_bytes: usize,
    /// A write buffer.
    pub segment_bytes: usize,
    /// Threads for flush and compaction.
    pub background_threads: usize,
    /// How blocks are compressed, by name.
    pub compression: String,
    /// Esker's DRAMTable, in bytes; `None` is its own choice.
    pub dram_table_bytes: Option<usize>,
    /// When writes reach it.
    pub forwarding: ForwardingName,
    /// The pool of an engine that has one.
    pub pool: PoolSettings,
    /// The directory on the device of engines that log to a disk; `None` is the store's own.
    pub log_dir: Option<PathBuf>,
    /// The node of an engine that has one.
    #[serde(default)]
    pub fabric: FabricSettings,
    /// What a store much larger than memory is set to.
    #[serde(default)]
    pub large_store: LargeStore,
}

/// Settings for stores much larger than memory. The defaults are those of all other stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeStore {
    /// Whether RocksDB has its indexes and filters in parts. Esker has those of large tables so.
    pub has_parts: bool,
    /// Values of so many bytes and more are stored outside the tree, by engines that can.
    pub separation_threshold: Option<u32>,
}

/// [`Forwarding`], by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
pub enum ForwardingName {
    /// When their MemTable is flushed
    #[default]
    OnFlush,
    /// At once
    Always,
    /// When they replace what is being read
    Adaptive,
}

impl From<ForwardingName> for Forwarding {
    fn from(name: ForwardingName) -> Forwarding {
        match name {
            ForwardingName::OnFlush => Forwarding::OnFlush,
            ForwardingName::Always => Forwarding::Always,
            ForwardingName::Adaptive => Forwarding::Adaptive,
        }
    }
}

/// How an engine and its node are set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricSettings {
    /// The size of the node's file.
    pub device_bytes: u64,
    /// Connections, each an I/O queue.
    pub connections: usize,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// What is between.
    pub network: Network,
}

/// What an acknowledged write survives, on both sides alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// No loss of power for certain, as in the paper: the node announces a volatile cache, direct writes are done and not flushed, and
    /// the logs of LSM engines are not synced. The end of such a log may be lost with its process, too: it is gathered in memory, where a file
    /// system would have a page cache.
    Paper,
    /// The loss of power: there is no volatile cache, and logs are synced at each write.
    PowerSafe,
}

impl Default for FabricSettings {
    fn default() -> Self {
        FabricSettings {
            device_bytes: 1 << 30,
            connections: 4,
            durability: Durability::PowerSafe,
            network: Network::Loopback,
        }
    }
}
