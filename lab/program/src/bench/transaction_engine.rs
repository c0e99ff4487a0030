//! RocksDB's transactions as the benchmark sees them.

use super::log_device::OpenLog;
use crate::failure::Outcome;
use esker::Result;
use esker::api::{Ordered, Transactional};
use esker_bench::accounting::{TableDiskUsage, disk_usage, table_usage};
use esker_bench::{Counters, Engine};
use esker_peers::{PeerLog, PeerSettings, TransactionalPeer, open_transactional};
use esker_workload::Model;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An open store with transactions.
pub struct TransactionEngine {
    name: String,
    dir: PathBuf,
    // Before the log, whose directory goes with it.
    peer: Box<dyn TransactionalPeer>,
    log: Option<OpenLog>,
    /// Loads of transactions inspect no single keyspace; this one is empty.
    no_keyspace: Model,
}

impl TransactionEngine {
    /// Opens the store in `dir`, or creates one there, its log on `log` or nowhere.
    pub fn open(
        name: &str,
        dir: &Path,
        settings: &PeerSettings,
        log: Option<OpenLog>,
    ) -> Outcome<Self> {
        let place = match &log {
            Some(log) => {
                PeerLog::Synced { dir: log.dir().to_owned(), device: log.device().clone() }
            }
            None => PeerLog::None,
        };
        let peer = open_transactional(dir, settings, &place)?;
        let (name, dir, no_keyspace) = (name.to_owned(), dir.to_owned(), Model::default());
        Ok(TransactionEngine { name, dir, peer, log, no_keyspace })
    }

    /// Where the log is.
    pub fn log(&self) -> Option<&OpenLog> {
        self.log.as_ref()
    }

    /// What was set, by name.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut named: BTreeMap<_, _> = self.peer.configuration().into_iter().collect();
        named.extend(self.log.iter().flat_map(OpenLog::named));
        named
    }

    /// Closes it, with all that was written in tables: the next log may be elsewhere.
    pub fn close(self) -> Outcome {
        Ok(self.peer.flush()?)
    }
}

impl Engine for TransactionEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn store(&self) -> &dyn Ordered {
        &self.no_keyspace
    }

    fn transactional(&self) -> Option<&dyn Transactional> {
        Some(self.peer.transactional())
    }

    fn counters(&self) -> Counters {
        let written = self.peer.written();
        Counters {
            user_bytes: written.user_bytes.unwrap_or(0),
            log_bytes: written.log_bytes,
            log_syncs: Some(self.log.as_ref().map_or(0, |log| log.device().syncs())),
            flush_bytes: written.flush_bytes,
            compaction_bytes: written.compaction_bytes,
            stall_us: written.stall_us,
            ..Counters::default()
        }
    }

    fn disk_bytes(&self) -> u64 {
        disk_usage(&self.dir)
    }

    fn table_space(&self) -> TableDiskUsage {
        TableDiskUsage { bytes: table_usage(&self.dir), peak_bytes: None }
    }

    fn flush(&self) -> Result<()> {
        self.peer.flush()
    }

    fn settle(&self) -> Result<()> {
        self.peer.settle()
    }
}
