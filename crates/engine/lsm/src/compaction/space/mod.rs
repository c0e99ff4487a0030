//! Keeps a keyspace below its space-amplification limit: estimates, a budget, and the search for
//! compactions that pay.
//!
//! [`garbage_estimate`] and [`duplicate_rate`] predict from sketches what a compaction would keep,
//! and `sketch_crosscheck` detects estimates that are wrong. [`budget`] computes the free space,
//! `space_limit` bounds the read amplification, and `search` chooses among `candidates`.
//!
//! Nothing here reads a table or writes a byte.

pub mod budget;
pub(crate) mod candidates;
pub mod duplicate_rate;
pub mod garbage_estimate;
pub(crate) mod search;
pub(crate) mod search_state;
pub(crate) mod sketch_crosscheck;
pub(crate) mod space_limit;
