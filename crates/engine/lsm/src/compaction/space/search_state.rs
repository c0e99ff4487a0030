//! What a search for compactions under a space-amplification limit goes by.

use crate::compaction::in_progress::InProgressCompactions;
use crate::options::sizes::SizeTargets;
use crate::version::{KeyspaceVersion, LEVELS};
use esker_base::Seqno;

/// The level that everything is merged into in the end.
pub(in crate::compaction) const BASE: usize = LEVELS - 1;

/// A keyspace to search, and what limits the search.
pub(in crate::compaction) struct SpaceSearch<'a> {
    pub keyspace: &'a KeyspaceVersion,
    pub busy: &'a InProgressCompactions,
    pub sizes: SizeTargets,
    pub snapshots: &'a [Seqno],
    /// The time by which entries have expired, in milliseconds since 1970-01-01.
    pub now: u64,
}
