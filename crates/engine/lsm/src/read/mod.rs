//! Reads: gets, scans, and the check whether a key was written since a snapshot.
//!
//! `get` searches MemTables, then runs, newest first. `multi_get` does so for many keys, and reads
//! the blocks that they wait for at once. A scan is a `db_iter`, which folds versions into entries,
//! over [`merging_iter`], which merges the `source`s of a view: MemTables and [`level_iter`]s.
//! `conflict_check` serves transactions. All take the `Tree`; the handles `DbCursor` and `Range`
//! are in `db`.
//!
//! A read pins its view of the tree before it loads the newest visible sequence number.

pub(crate) mod block_merge;
pub(crate) mod conflict_check;
pub(crate) mod db_iter;
pub(crate) mod expiring;
pub(crate) mod fuzz_values;
pub(crate) mod get;
pub mod level_iter;
pub(crate) mod lookup;
pub(crate) mod merged_get;
pub mod merging_iter;
pub(crate) mod multi_get;
pub(crate) mod separated;
mod skip;
pub(crate) mod source;
pub(crate) mod value_reader;
