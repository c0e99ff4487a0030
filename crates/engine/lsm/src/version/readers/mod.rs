//! What readers hold of the tree, so that nothing that they read is removed.
//!
//! * [`super_version`]: the view that a read pins, with the MemTables and the version.
//! * [`snapshot_tracker`]: the snapshots whose versions compaction keeps.
//! * [`pin_registry`]: leases of views that a cursor uses from time to time.
//! * [`held_memory`]: what cursors and jobs hold, for the memory budget.
//! * [`known_empty`]: ranges of deleted keys that scans passed.

pub(crate) mod held_memory;
pub(crate) mod known_empty;
pub(crate) mod pin_registry;
pub(crate) mod snapshot_tracker;
pub(crate) mod super_version;
