//! Capacity of a segment, in bytes and entries.

use crate::loom_shim::AtomicU32;

/// How much of a segment there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes, from the segment's start.
    pub bytes: u32,
    /// Entries.
    pub entries: u32,
}

impl Room {
    /// Whether there is as much of both as in `other`.
    pub fn holds(self, other: Room) -> bool {
        self.bytes >= other.bytes && self.entries >= other.entries
    }

    /// The less of each.
    pub fn and(self, other: Room) -> Room {
        Room { bytes: self.bytes.min(other.bytes), entries: self.entries.min(other.entries) }
    }

    /// The more of each.
    pub fn or(self, other: Room) -> Room {
        Room { bytes: self.bytes.max(other.bytes), entries: self.entries.max(other.entries) }
    }
}

/// Atomics of a [`Room`].
pub(super) struct Limit {
    pub offset: AtomicU32,
    pub entries: AtomicU32,
}
