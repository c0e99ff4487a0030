//! What is kept of the past for readers of changes.
//!
//! * `retention` decides which logs are kept after their flush.
//! * `lineage` knows who has opened a database that is copied elsewhere, and what a copy follows.
//! * `staged_copy` is a copy that arrives next to an older one.
//! * `keyspaces` knows when keyspaces were created and dropped, which the log does not say.

pub(crate) mod keyspaces;
pub(crate) mod lineage;
pub(crate) mod retention;
pub(crate) mod staged_copy;
