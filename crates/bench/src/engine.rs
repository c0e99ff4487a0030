//! What a store's owner gives, so that the store can be measured.

use crate::Counters;
use esker_api::Ordered;
use esker_base::Result;

/// A store under measurement.
pub trait Engine: Sync {
    /// What to call it in the rows.
    fn name(&self) -> &str;

    /// The keyspace that the load goes to.
    fn store(&self) -> &dyn Ordered;

    /// What has been written since the store was opened.
    fn counters(&self) -> Counters;

    /// The space that the store takes on its devices now. Asked for ten times a second.
    fn disk_bytes(&self) -> u64;

    /// Writes everything in memory to tables, and waits for it.
    fn flush(&self) -> Result<()>;

    /// Waits until no background work is left to do.
    fn settle(&self) -> Result<()>;
}
