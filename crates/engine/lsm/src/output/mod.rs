//! Writing tables: what a flush and a compaction share.
//!
//! [`version_filter`] decides whether each version is kept, given [`snapshot_stripes`] and the
//! deleted ranges of [`range_del_aggregator`]. [`output_files`] writes what is kept.
//! `operand_output` folds the operands of merges.
//! `filter_allocation` assigns filter memory to runs, `io_throttle` gives reads and flushes
//! priority, `write_limiter` limits the rate of writes in each `rate_limited_file`, and `job_context` is
//! what a compaction needs from the engine.
//!
//! `value_output` writes value files, and `large_value` the file of a large value.
//!
//! A version that a snapshot can see is never dropped.

pub(crate) mod filter_allocation;
pub(crate) mod io_throttle;
pub mod job_context;
pub(crate) mod large_value;
mod operand_output;
pub mod output_files;
pub mod range_del_aggregator;
pub(crate) mod rate_limited_file;
pub mod snapshot_stripes;
#[cfg(test)]
mod value_golden;
pub mod value_output;
pub mod version_filter;
pub(crate) mod write_limiter;
