//! Peers that run transactions.

use crate::Written;
use crate::settings::PeerSettings;
use esker_api::Transactional;
use esker_base::Result;
use esker_storage::Device;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the log of a peer that runs transactions is.
#[derive(Clone)]
pub enum PeerLog {
    /// Nowhere.
    None,
    /// In a directory, on a device, synced at every commit.
    Synced {
        /// The directory, which must be there.
        dir: PathBuf,
        /// The device, which the log's syncs take the time of.
        device: Arc<Device>,
    },
}

/// Another engine's transactional store under measurement. It is closed when it is dropped; without a
/// log, what was not flushed by then may be gone.
pub trait TransactionalPeer: Send + Sync {
    /// The store.
    fn transactional(&self) -> &dyn Transactional;

    /// Writes everything in memory to tables, and waits for it.
    fn flush(&self) -> Result<()>;

    /// Waits until no flush and no compaction is running or due.
    fn settle(&self) -> Result<()>;

    /// What was written since the store was opened.
    fn written(&self) -> Written;

    /// Every option that was set, its value, why, and where its documentation says so.
    fn configuration(&self) -> Vec<(String, String)>;
}

/// Opens RocksDB's TransactionDB in the directory `dir`, or creates one there.
pub fn open_transactional(
    dir: &Path,
    settings: &PeerSettings,
    log: &PeerLog,
) -> Result<Box<dyn TransactionalPeer>> {
    check_transactional(settings)?;
    #[cfg(feature = "rocksdb")]
    return crate::rocksdb::open_transactional(dir, settings, log);
    #[cfg(not(feature = "rocksdb"))]
    unreachable!("{} {:?}: it was checked", dir.display(), matches!(log, PeerLog::None))
}

/// Whether [`open_transactional`] can open a store with `settings`. Does nothing else.
pub fn check_transactional(settings: &PeerSettings) -> Result<()> {
    crate::check("rocksdb-nolog")?;
    settings.validate()
}
