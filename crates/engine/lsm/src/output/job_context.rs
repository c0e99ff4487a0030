//! What a compaction needs from the engine to write tables.

use crate::fold::filtering::ValueFilter;
use crate::fold::merger::Merger;
use crate::options::settings::KeyspaceSettings;
use crate::version::ValueFiles;
use crate::version::aging::Expired;
use esker_base::Seqno;
use esker_storage::Storage;
use esker_table::{BlockCache, Origin, PartLimits};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a compaction needs from the engine around it.
pub struct JobContext<'a> {
    /// Where tables are.
    pub storage: Arc<dyn Storage>,
    /// For opening inputs. Their blocks pass it by.
    pub cache: Arc<BlockCache>,
    /// Gives a file id never given before.
    pub next_file_id: &'a (dyn Fn() -> u64 + Sync),
    /// The registered snapshots, read after the plan was made.
    pub snapshots: Vec<Seqno>,
    /// The keyspace's settings.
    pub settings: KeyspaceSettings,
    /// Its merge operator, if it has one.
    pub merger: Option<Merger>,
    /// Its compaction filter, if it has one and the open was given it.
    pub filter: Option<ValueFilter>,
    /// What has expired by then is deleted. In milliseconds since 1970-01-01.
    pub now: u64,
    /// What has expired by its age.
    pub expired: Expired,
    /// Makes the compaction end soon with [`Error::Closed`](esker_base::Error::Closed).
    pub cancelled: &'a AtomicBool,
    /// Called before so many bytes are written; may wait. Returns how many of them may be written now.
    pub throttle: &'a (dyn Fn(u64) -> u64 + Sync),
    /// The size at which an output table ends.
    pub table_bytes: u64,
    /// Bits of the output tables' filter fingerprints.
    pub fingerprint_bits: u8,
    /// The level that is wanted of the samples of their keys.
    pub sample_level: u8,
    /// When their indexes and filters are cut into parts.
    pub part_limits: PartLimits,
    /// How much the database is expected to write while they live, if that is known.
    pub expected_lifetime: Option<u64>,
    /// The value files that inputs refer to.
    pub values: ValueFiles,
    /// Those of them whose live values are written anew.
    pub collected: BTreeSet<u64>,
    /// What they say of where they come from.
    pub origin: Option<Arc<Origin>>,
}
