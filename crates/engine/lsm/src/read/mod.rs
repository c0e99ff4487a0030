//! Reads: gets, scans, and the check whether a key was written since a snapshot.
//!
//! `get` searches MemTables, then runs, newest first. A scan is a `cursor` over `db_iter`, which
//! folds versions into entries, over [`merging_iter`], which merges MemTables and [`level_iter`]s.
//! `range` is the public iterator. `conflict_check` serves transactions.
//!
//! A read pins its view of the tree before it loads the newest visible sequence number.

pub(crate) mod block_merge;
pub(crate) mod conflict_check;
pub(crate) mod cursor;
pub(crate) mod db_iter;
pub(crate) mod get;
pub mod level_iter;
pub mod merging_iter;
pub(crate) mod range;
