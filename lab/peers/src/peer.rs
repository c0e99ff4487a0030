//! What a peer offers in addition to the traits that all stores have.

use esker_api::Ordered;
use esker_base::Result;

/// Another engine's store under measurement. It is closed when it is dropped.
pub trait Peer: Ordered {
    /// Its name, one of [`NAMES`](crate::NAMES).
    fn name(&self) -> &str;

    /// Writes everything in memory to tables, and waits for it.
    fn flush(&self) -> Result<()>;

    /// Waits until no flush and no compaction is running or due. Many peers have no such work.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// What was written since the store was opened.
    fn written(&self) -> Written;

    /// Every option that was set, its value, why, and where its documentation says so.
    fn configuration(&self) -> Vec<(String, String)>;
}

/// Totals since a store was opened. They only grow. What a peer does not report, and what can't be
/// known otherwise, is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Bytes that users wrote, as a [`WriteBatch`](esker_api::WriteBatch) encodes them: keys, values
    /// and a few bytes for each write. Counted here, on the way in, as Esker counts its own.
    pub user_bytes: Option<u64>,
    /// Bytes written to the log.
    pub log_bytes: Option<u64>,
    /// Bytes written to tables by flushes.
    pub flush_bytes: Option<u64>,
    /// Bytes written to tables by compactions.
    pub compaction_bytes: Option<u64>,
    /// Time that writers were throttled, summed over them, in microseconds.
    pub stall_us: Option<u64>,
}
