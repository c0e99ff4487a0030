//! Keyspaces that the next open may find dropped.
//!
//! If the sync of an edit fails, the edit may be in the manifest file nevertheless. A new manifest,
//! made from the state before the edit, decides that it was not installed. If that fails as well,
//! the edit is undecided: the next open may find it or not.
//!
//! Most undecided edits can wait, because nothing depends on them: the files that they add and the
//! files that they remove both stay, and logs that they list are not written to. A drop is
//! different. Writes to the keyspace would be acknowledged and then be lost, so they are rejected
//! until a new manifest is durable.

use super::version_edit::{VersionChange, VersionEdit};
use esker_base::KeyspaceId;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module's text.
#[derive(Default)]
pub(crate) struct Undecided {
    /// Whether `dropped` holds any, for the write path.
    any: AtomicBool,
    dropped: Mutex<Vec<KeyspaceId>>,
}

impl Undecided {
    /// Notes what `edit`, whose fate is unknown, would drop.
    pub(crate) fn note(&self, edit: &VersionEdit) {
        let mut dropped = self.dropped.lock();
        dropped.extend(edit.changes.iter().filter_map(|change| match change {
            VersionChange::DropKeyspace(id) => Some(*id),
            _ => None,
        }));
        self.any.store(!dropped.is_empty(), Ordering::Release);
    }

    /// Says that no edit is undecided any more.
    pub(crate) fn settle(&self) {
        self.dropped.lock().clear();
        self.any.store(false, Ordering::Release);
    }

    /// Whether there may be such a keyspace.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The first of `keyspaces` that may be dropped.
    pub(crate) fn first_of(
        &self,
        mut keyspaces: impl Iterator<Item = KeyspaceId>,
    ) -> Option<KeyspaceId> {
        let dropped = self.dropped.lock();
        keyspaces.find(|keyspace| dropped.contains(keyspace))
    }
}
