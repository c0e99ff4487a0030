//! A database, as the threads and the memory budget that several share see it.

use super::lanes::{JobClass, Urgency};
use std::time::Duration;

/// A database that shares threads and memory.
pub(crate) trait Served: Send + Sync {
    /// Does one job of `lane`, in a thread that serves it. False if there is none so urgent.
    fn visit(&self, lane: JobClass, urgency: Urgency) -> bool;

    /// The interval at which the log is synced, if it is synced on a timer.
    fn sync_interval(&self) -> Option<Duration>;

    /// Takes its part of the memory anew.
    fn share_memory(&self);

    /// Frees the MemTables that are kept for reuse.
    fn free_retired(&self);

    /// What a flush of the active MemTable would free, in bytes. 0 if it has not grown: the next
    /// one takes as much.
    fn relief_bytes(&self) -> usize;

    /// Has the active MemTable flushed.
    fn flush_active(&self);
}
