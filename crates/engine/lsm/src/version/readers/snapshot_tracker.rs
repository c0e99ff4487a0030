//! Snapshots: points in time at which reads are made, and whose versions compaction keeps.
//!
//! Registering a snapshot and listing the snapshots for a flush or a compaction share one lock. So
//! a snapshot either is in the list, or is newer than every write that the job sees.

use crate::primitives::Mutex;
use esker_api::StoreId;
use esker_base::Seqno;
use esker_pmem::OwnerProcess;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The snapshots in use, each with the number of its holders.
///
/// A forked child has a copy, whose lock a thread of the parent may hold permanently. So the child
/// leaves it alone, and its own snapshots are in no list. Reads at them fail anyway.
pub(crate) struct SnapshotTracker {
    owner: OwnerProcess,
    /// The open database that they are of.
    store: StoreId,
    held: Mutex<BTreeMap<Seqno, usize>>,
}

impl SnapshotTracker {
    /// None yet, of the open database `store`.
    pub(crate) fn new(store: StoreId) -> Self {
        SnapshotTracker { owner: OwnerProcess::current(), store, held: Mutex::default() }
    }

    /// Registers the present point in time, which `visible` says.
    pub(crate) fn take(self: &Arc<Self>, visible: impl FnOnce() -> Seqno) -> Snapshot {
        if !self.owner.is_current() {
            return Snapshot { seqno: visible(), registry: self.clone() };
        }
        let mut held = self.held.lock();
        let seqno = visible();
        *held.entry(seqno).or_default() += 1;
        Snapshot { seqno, registry: self.clone() }
    }

    /// Another holder of a snapshot that has a holder.
    pub(crate) fn join(self: &Arc<Self>, seqno: Seqno) -> Snapshot {
        if self.owner.is_current() {
            *self.held.lock().entry(seqno).or_default() += 1;
        }
        Snapshot { seqno, registry: self.clone() }
    }

    /// The seqnos in use, ascending.
    pub(crate) fn list(&self) -> Vec<Seqno> {
        self.held.lock().keys().copied().collect()
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.held.lock().values().sum()
    }
}

/// A consistent view of a database at one point in time.
///
/// A read at a snapshot sees every write that returned before the snapshot was taken, perhaps some that
/// were in progress then, and none that began later. Compaction keeps the versions that the snapshot
/// sees, so drop it when it is no longer needed. Clones are the same
/// snapshot.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let keyspace = db.default_keyspace();
/// keyspace.put("key", "old")?;
/// let snapshot = db.snapshot();
/// keyspace.put("key", "new")?;
/// assert_eq!(snapshot.get(&keyspace, "key")?.as_deref(), Some(&b"old"[..]));
/// assert_eq!(snapshot.count(&keyspace, ..)?, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a snapshot lasts until it is dropped"]
pub struct Snapshot {
    seqno: Seqno,
    registry: Arc<SnapshotTracker>,
}

impl Snapshot {
    /// Returns the sequence number of the last write that the snapshot sees.
    pub fn seqno(&self) -> Seqno {
        self.seqno
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.registry.join(self.seqno)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.registry.owner.is_current() {
            return;
        }
        let mut held = self.registry.held.lock();
        if let Some(holders) = held.get_mut(&self.seqno) {
            *holders -= 1;
            if *holders == 0 {
                held.remove(&self.seqno);
            }
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.seqno)
    }
}

impl esker_api::Snapshot for Snapshot {
    fn seqno(&self) -> Seqno {
        self.seqno
    }

    fn store(&self) -> StoreId {
        self.registry.store
    }
}

/// Every interleaving that loom explores:
/// `RUSTFLAGS="--cfg loom" cargo test -p esker-lsm --release --lib snapshot_tracker::loom_tests`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::primitives::{AtomicU64, Ordering};
    use loom::thread;

    /// A key has version 1, and a writer adds version 2. A flush that sees both then drops version 1,
    /// unless the list of snapshots says that it has a reader.
    #[test]
    fn a_flush_keeps_what_a_snapshot_taken_meanwhile_reads() {
        loom::model(|| {
            let visible = Arc::new(AtomicU64::new(1));
            let snapshots = Arc::new(SnapshotTracker::new(StoreId::ANY));
            let flush = {
                let (visible, snapshots) = (visible.clone(), snapshots.clone());
                thread::spawn(move || {
                    visible.store(2, Ordering::SeqCst);
                    snapshots.list().contains(&1)
                })
            };
            let snapshot = snapshots.take(|| visible.load(Ordering::SeqCst));
            let keeps_version_1 = flush.join().unwrap();
            assert!(snapshot.seqno() == 2 || keeps_version_1);
        });
    }
}
