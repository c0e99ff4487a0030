//! An index for its readers.

use super::build;
use super::rows::{IndexEntries, IndexRows};
use crate::engine::Engine;
use crate::index::format;
use crate::index::registry::{BuildState, IndexSlot};
use crate::index::settings::IndexStatus;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::KeyRange;
use esker_base::Result;
use std::sync::Arc;

/// A secondary index of a [`Keyspace`](crate::Keyspace): finds rows by keys that a function gives
/// them. [`Keyspace::index`](crate::Keyspace::index) registers one.
///
/// Reads fail with [`IndexError::NotReady`](esker_base::IndexError::NotReady) until the index has all
/// rows. Threads may share a handle. It does not keep its database open.
#[derive(Clone)]
pub struct Index {
    pub(super) engine: Arc<Engine>,
    pub(super) slot: Arc<IndexSlot>,
}

impl Index {
    pub(super) fn new(engine: &Arc<Engine>, slot: Arc<IndexSlot>) -> Self {
        Index { engine: engine.clone(), slot }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// Returns how far the index is.
    pub fn status(&self) -> IndexStatus {
        self.slot.status()
    }

    /// Whether the index has all rows.
    pub fn is_ready(&self) -> bool {
        self.slot.is_ready()
    }

    /// Waits until the index has all rows.
    ///
    /// # Errors
    /// [`Error::Index`](esker_base::Error::Index) with
    /// [`IndexError::BuildFailed`](esker_base::IndexError::BuildFailed) if the build failed: two rows have the
    /// same key in a unique index, a row cannot be read, or the database was closed.
    pub fn wait_ready(&self) -> Result<()> {
        self.engine.tree.check_usable()?;
        // The thread of the build may not have begun, or there may be none.
        if let Some(_turn) = self.slot.builder.try_lock() {
            build::build(&self.engine, &self.slot);
        }
        let mut state = self.slot.build.lock();
        while matches!(*state, BuildState::Running) {
            self.slot.build_ended.wait(&mut state);
        }
        drop(state);
        self.slot.check_ready()
    }

    /// Iterates over the rows with exactly `index_key`, in the order of their keys.
    pub fn get(&self, index_key: impl AsRef<[u8]>) -> IndexRows {
        self.range(index_key.as_ref()..=index_key.as_ref())
    }

    /// Iterates over the rows whose keys in the index are in `range`, in the order of these keys: `"a".."b"`,
    /// `key..`, `..=key`, `..`.
    ///
    /// A row with several keys in the range comes several times.
    pub fn range(&self, range: impl Into<KeyRange>) -> IndexRows {
        IndexRows::new(self.entries(range))
    }

    /// Iterates over the rows whose keys in the index start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> IndexRows {
        let range = format::prefix_range(prefix.as_ref());
        IndexRows::new(IndexEntries::new(&self.engine, &self.slot, range))
    }

    /// Iterates over the keys of the index in `range` with the keys of their rows. Reads no rows.
    pub fn entries(&self, range: impl Into<KeyRange>) -> IndexEntries {
        let range = format::entry_range(&range.into());
        IndexEntries::new(&self.engine, &self.slot, range)
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("name", &self.slot.name).finish_non_exhaustive()
    }
}

/// Reads of an index at the snapshot. One from before the index had all rows is rejected.
impl Snapshot {
    /// Iterates over the rows whose keys in `index` are in `range` at the snapshot, as [`Index::range`]
    /// does.
    pub fn index_range(&self, index: &Index, range: impl Into<KeyRange>) -> IndexRows {
        IndexRows::new(index.entries(range).at(self))
    }
}
