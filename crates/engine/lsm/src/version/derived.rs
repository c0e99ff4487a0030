//! Estimates derived from a version when they are first needed, and cached with it.

use super::{LEVELS, TableId};
use esker_base::Seqno;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// What is thought to become of tables that are merged. In bytes of files.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GarbageEstimate {
    /// The tables' own.
    pub bytes: f64,
    /// The newest versions of live keys.
    pub live_bytes: f64,
    /// What is written: live or pinned by snapshots, and deletes if older data is below or a
    /// snapshot does not see them.
    pub kept_bytes: f64,
    /// Live keys.
    pub live_keys: f64,
    /// Bytes of files for each byte of keys and values.
    pub(crate) proportion: f64,
    /// By what factor more of the keys are distinct by their counters than by the samples; 1 if they
    /// agree.
    pub(crate) second_count: f64,
}

/// A figure, and the snapshots that it counts with. `None` before it is asked for.
type AsOf<T> = Mutex<Option<(Vec<Seqno>, T)>>;

/// What is known of a version's duplicates, each figure worked out when it is first asked for.
#[derive(Debug, Default)]
pub struct Derived {
    pub(crate) rates: [OnceLock<f64>; LEVELS],
    /// Of the whole keyspace, at these snapshots.
    pub(crate) whole: AsOf<GarbageEstimate>,
    /// The tables that can be dropped, at these snapshots.
    deleted: AsOf<Arc<[TableId]>>,
    /// That no deletes are worth a compaction, at these snapshots.
    none_worthwhile: AsOf<()>,
    /// That no deletes up to this write are left, at these snapshots.
    none_through: AsOf<Seqno>,
}

impl Clone for Derived {
    /// A copy of a version is made to change it, so what was worked out does not go with it.
    fn clone(&self) -> Self {
        Derived::default()
    }
}

impl Derived {
    /// The tables that can be dropped with `snapshots`, by `find` if that is not known. It also returns
    /// whether these are all: if not, it is asked again.
    pub(crate) fn deleted(
        &self,
        snapshots: &[Seqno],
        find: impl FnOnce() -> (Vec<TableId>, bool),
    ) -> Arc<[TableId]> {
        let mut deleted = self.deleted.lock();
        if let Some((of, known)) = &*deleted
            && of == snapshots
        {
            return known.clone();
        }
        let (found, are_all) = find();
        let found: Arc<[TableId]> = found.into();
        *deleted = are_all.then(|| (snapshots.to_vec(), found.clone()));
        found
    }
}

impl Derived {
    /// Whether it is known that no deletes are worth a compaction with `snapshots`.
    pub(crate) fn has_none_worthwhile(&self, snapshots: &[Seqno]) -> bool {
        self.none_worthwhile.lock().as_ref().is_some_and(|(of, ())| of == snapshots)
    }

    pub(crate) fn note_none_worthwhile(&self, snapshots: &[Seqno]) {
        *self.none_worthwhile.lock() = Some((snapshots.to_vec(), ()));
    }

    /// Whether it is known that no deletes up to the write `through` can go on with `snapshots`.
    pub(crate) fn has_none_through(&self, through: Seqno, snapshots: &[Seqno]) -> bool {
        let known = self.none_through.lock();
        known.as_ref().is_some_and(|(of, known)| of == snapshots && through <= *known)
    }

    pub(crate) fn note_none_through(&self, through: Seqno, snapshots: &[Seqno]) {
        *self.none_through.lock() = Some((snapshots.to_vec(), through));
    }
}
