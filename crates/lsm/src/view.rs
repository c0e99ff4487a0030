//! What a read looks at: the MemTables, newest first, and the version of the tables.
//!
//! A view never changes; a rotation, a flush or a compaction installs another. A read pins the view
//! and only then loads the visible seqno: in the other order, a compaction between the two could
//! drop the very versions that the seqno needs.

use crate::version::Version;
use arc_swap::ArcSwap;
use esker_base::Seqno;
use esker_memtable::MemTable;
use parking_lot::Mutex;
use std::sync::Arc;

/// See the file's head.
#[derive(Clone)]
pub(crate) struct View {
    /// Newest first. The first may still take writes.
    pub(crate) memtables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
}

impl View {
    /// The last write that the view can have: the newest MemTable's, as far as it has got.
    #[inline]
    pub(crate) fn last_seqno(&self) -> Seqno {
        match self.memtables.first() {
            Some(newest) => newest.last_seqno(),
            None => self.version.flushed_through,
        }
    }
}

/// The view in force.
pub(crate) struct ViewCell {
    current: ArcSwap<View>,
    /// Serializes changes. Reads never take it.
    changing: Mutex<()>,
}

impl ViewCell {
    pub(crate) fn new(view: View) -> Self {
        ViewCell { current: ArcSwap::from_pointee(view), changing: Mutex::new(()) }
    }

    /// The view in force, pinned for a short read.
    #[inline]
    pub(crate) fn pin(&self) -> arc_swap::Guard<Arc<View>> {
        self.current.load()
    }

    /// The view in force, pinned for as long as the caller likes.
    pub(crate) fn load(&self) -> Arc<View> {
        self.current.load_full()
    }

    /// Installs the view that `change` makes of the present one.
    pub(crate) fn change(&self, change: impl FnOnce(&mut View)) {
        let _serialized = self.changing.lock();
        let mut view = View::clone(&self.current.load());
        change(&mut view);
        self.current.store(Arc::new(view));
    }
}
