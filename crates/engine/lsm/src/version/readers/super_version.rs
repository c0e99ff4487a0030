//! The view of a read: the MemTables, newest first, and the version of the tables.
//!
//! A view never changes; a rotation, a flush or a compaction installs a new one. A read pins the
//! view and only then loads the visible sequence number. In the other order, a compaction between
//! the two could drop versions that the sequence number needs.

use crate::version::Version;
use arc_swap::ArcSwap;
use esker_base::Seqno;
use esker_memtable::MemTable;
use parking_lot::Mutex;
use std::sync::Arc;

/// See the file's head.
#[derive(Clone)]
pub(crate) struct SuperVersion {
    /// Newest first. The first may still take writes.
    pub(crate) memtables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
    /// The seqno of an ingest whose tables the version does not have yet. Readers of the view see
    /// nothing from there on.
    pub(crate) ingesting: Option<Seqno>,
    /// The last seqno that readers see, of a database that another process writes.
    pub(crate) shown_through: Option<Seqno>,
}

impl SuperVersion {
    /// A view of tables alone.
    pub(crate) fn of(version: Arc<Version>) -> Self {
        SuperVersion { memtables: Vec::new(), version, ingesting: None, shown_through: None }
    }

    /// The last write that the view can have: the newest MemTable's, as far as it has got. Always the end of a
    /// batch: where one goes on in a MemTable that is not in the view, the write before that batch.
    #[inline]
    pub(crate) fn last_seqno(&self) -> Seqno {
        if let Some(shown) = self.shown_through {
            return shown;
        }
        let last = match self.memtables.first() {
            Some(newest) => newest.last_whole_seqno(),
            None => self.version.tables_through,
        };
        self.ingesting.map_or(last, |ingest| last.min(ingest - 1))
    }

    /// The MemTables that the next flush takes, oldest first: the oldest one, and those after it as long as
    /// a batch goes on from one to the next.
    pub(crate) fn next_to_flush(&self) -> Vec<Arc<MemTable>> {
        let mut memtables = Vec::new();
        for memtable in self.memtables.iter().rev() {
            memtables.push(memtable.clone());
            if !memtable.ends_in_batch() {
                break;
            }
        }
        memtables
    }
}

/// What a read at present inspects: the view first, then the point in time.
#[inline]
pub(crate) fn pin_present<V>(
    pin: impl FnOnce() -> V,
    visible: impl FnOnce() -> Seqno,
) -> (V, Seqno) {
    let view = pin();
    let visible = visible();
    (view, visible)
}

/// The current view.
pub(crate) struct SuperVersionCell {
    current: ArcSwap<SuperVersion>,
    /// Serializes changes. Reads never take it.
    changing: Mutex<()>,
}

impl SuperVersionCell {
    pub(crate) fn new(view: SuperVersion) -> Self {
        SuperVersionCell { current: ArcSwap::from_pointee(view), changing: Mutex::new(()) }
    }

    /// The current view, pinned for a short read.
    #[inline]
    pub(crate) fn pin(&self) -> arc_swap::Guard<Arc<SuperVersion>> {
        self.current.load()
    }

    /// The current view, pinned for as long as the caller likes.
    pub(crate) fn load(&self) -> Arc<SuperVersion> {
        self.current.load_full()
    }

    /// Installs the view that `change` makes of the present one.
    pub(crate) fn change(&self, change: impl FnOnce(&mut SuperVersion)) {
        let _serialized = self.changing.lock();
        let mut view = SuperVersion::clone(&self.current.load());
        change(&mut view);
        self.current.store(Arc::new(view));
    }
}

/// Every interleaving that loom explores:
/// `RUSTFLAGS="--cfg loom" cargo test -p esker-lsm --release --lib super_version::loom_tests`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::primitives::{AtomicU64, Ordering};
    use loom::thread;

    /// The view of a key's versions 1 and 2, and the view after a compaction that dropped version 1,
    /// which it may: no snapshot reads it and version 2 is visible.
    #[test]
    fn a_read_at_present_finds_a_version_beside_a_compaction() {
        loom::model(|| {
            let oldest_in_view = Arc::new(AtomicU64::new(1));
            let visible = Arc::new(AtomicU64::new(1));
            let compaction = {
                let (oldest_in_view, visible) = (oldest_in_view.clone(), visible.clone());
                thread::spawn(move || {
                    visible.store(2, Ordering::SeqCst);
                    oldest_in_view.store(2, Ordering::SeqCst);
                })
            };
            let (oldest, seqno) = pin_present(
                || oldest_in_view.load(Ordering::SeqCst),
                || visible.load(Ordering::SeqCst),
            );
            assert!(oldest <= seqno, "the read finds no version at {seqno}");
            compaction.join().unwrap();
        });
    }
}
