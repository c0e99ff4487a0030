//! Keeping a keyspace below its limit of space: estimates, a budget, and the search for compactions
//! that pay.
//!
//! [`garbage_estimate`] and [`duplicate_rate`] predict from sketches what a merge would keep, and
//! `sketch_crosscheck` tells when not to believe them. [`budget`] says what may still be taken,
//! `space_limit` how tall the stack of runs may be, and `search` chooses among `candidates`.
//!
//! Nothing here reads a table or writes a byte.

pub mod budget;
pub(crate) mod candidates;
pub mod duplicate_rate;
pub mod garbage_estimate;
pub(crate) mod search;
pub(crate) mod sketch_crosscheck;
pub(crate) mod space_limit;
