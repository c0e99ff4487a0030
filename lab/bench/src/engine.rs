//! What a store's owner gives, so that the store can be measured.

use crate::Counters;
use crate::accounting::{Reclaim, TableDiskUsage};
use esker_api::{KeyRange, Ordered, Transactional};
use esker_base::Result;

/// A store under measurement.
pub trait Engine: Sync {
    /// What to call it in the rows.
    fn name(&self) -> &str;

    /// The keyspace that the load goes to.
    fn store(&self) -> &dyn Ordered;

    /// The whole store, for workloads of transactions, if it runs them.
    fn transactional(&self) -> Option<&dyn Transactional> {
        None
    }

    /// Whether it has an iterator in addition to its cursors.
    fn iterates(&self) -> bool {
        false
    }

    /// Reads the first entries of `range`, `most` at most, by that iterator. Returns how many it read.
    fn iterate(&self, _range: KeyRange, _most: usize) -> Result<u64> {
        unreachable!("asked of an engine that iterates")
    }

    /// What has been written since the store was opened.
    fn counters(&self) -> Counters;

    /// The space that the store takes on its devices now, persistent memory included. Asked for ten times
    /// a second.
    fn disk_bytes(&self) -> u64;

    /// What its tables take, those included that are being written or not yet removed. Asked for a
    /// hundred times a second, if that takes no time to speak of.
    fn table_space(&self) -> TableDiskUsage;

    /// What compactions were expected to free since the store was opened, and did, if it is known.
    fn reclaim(&self) -> Option<Reclaim> {
        None
    }

    /// What of its tables is live, with what tables add to keys and values, if it is known.
    fn live_table_bytes(&self) -> Option<f64> {
        None
    }

    /// Writes everything in memory to tables, and waits for it.
    fn flush(&self) -> Result<()>;

    /// Waits until no background work is left to do.
    fn settle(&self) -> Result<()>;
}
