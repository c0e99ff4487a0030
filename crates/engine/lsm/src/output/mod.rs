//! Writing tables: what a flush and a compaction share.
//!
//! [`version_filter`] decides what becomes of each version, given [`snapshot_stripes`] and the deleted
//! ranges of [`range_del_aggregator`]. [`output_files`] writes what stays. `filter_allocation` gives
//! each run its share of filter memory, `io_throttle` lets reads and flushes go first, and
//! `job_context` is what a compaction's writers need from the engine.
//!
//! A version that a snapshot can see is never dropped.

pub(crate) mod filter_allocation;
pub(crate) mod io_throttle;
pub mod job_context;
pub mod output_files;
pub mod range_del_aggregator;
pub mod snapshot_stripes;
pub mod version_filter;
