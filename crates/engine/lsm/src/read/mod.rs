//! Reads: point gets, scans, and the question whether a key was written since.
//!
//! `get` looks a key up in MemTables, then in runs, newest first. A scan is a `cursor` over
//! `db_iter`, which folds versions into pairs, over [`merging_iter`], which merges MemTables and
//! [`level_iter`]s. `range` is the iterator that users see. `conflict_check` serves transactions.
//!
//! A read pins its view of the tree before it loads the newest visible seqno.

pub(crate) mod conflict_check;
pub(crate) mod cursor;
pub(crate) mod db_iter;
pub(crate) mod get;
pub mod level_iter;
pub mod merging_iter;
pub(crate) mod range;
