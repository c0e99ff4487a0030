//! Snapshots: points in time at which reads are made, and whose versions compaction keeps.
//!
//! Registering a snapshot and listing the snapshots for a flush or a compaction share one lock. So
//! a snapshot either is in the list, or is newer than every write that the job sees.
//!
//! A snapshot of the second kind sees what a compaction filter changes. So the installation of such a
//! change [excludes](SnapshotTracker::exclude_others) them: none exists, and none is taken before the
//! change is visible.
//!
//! A database that another process writes has no say in what that one keeps. So a snapshot of it keeps its
//! view, with all MemTables and open tables.

use super::super_version::SuperVersion;
use crate::primitives::{Condvar, Mutex};
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
    held: Mutex<Held>,
    /// Notified when an exclusion ends.
    included: Condvar,
}

#[derive(Default)]
struct Held {
    /// By seqno, how many holders.
    snapshots: BTreeMap<Seqno, usize>,
    /// The views of those that keep one. `None`: those at the seqno may have different ones.
    views: BTreeMap<Seqno, Option<Arc<SuperVersion>>>,
    /// How many installations exclude new snapshots.
    exclusions: usize,
}

impl SnapshotTracker {
    /// None yet, of the open database `store`.
    pub(crate) fn new(store: StoreId) -> Self {
        let (held, included) = (Mutex::default(), Condvar::new());
        SnapshotTracker { owner: OwnerProcess::current(), store, held, included }
    }

    /// Registers the present point in time, which `visible` says. Waits for the end of an exclusion, which
    /// takes about as long as one write to the manifest.
    pub(crate) fn take(self: &Arc<Self>, visible: impl FnOnce() -> Seqno) -> Snapshot {
        if !self.owner.is_current() {
            return self.at(visible());
        }
        let mut held = self.held.lock();
        while held.exclusions > 0 {
            self.included.wait(&mut held);
        }
        let seqno = visible();
        *held.snapshots.entry(seqno).or_default() += 1;
        self.at(seqno)
    }

    fn at(self: &Arc<Self>, seqno: Seqno) -> Snapshot {
        Snapshot { seqno, view: None, registry: self.clone() }
    }

    /// A snapshot at the end of `view`, which it keeps.
    pub(crate) fn keep(self: &Arc<Self>, view: Arc<SuperVersion>) -> Snapshot {
        let seqno = view.last_seqno();
        let before = self.owner.is_current().then(|| {
            let mut held = self.held.lock();
            *held.snapshots.entry(seqno).or_default() += 1;
            let known = held.views.entry(seqno).or_insert_with(|| Some(view.clone()));
            known.as_mut().map(|known| std::mem::replace(known, view.clone()))
        });
        // Not under the lock: it may close tables.
        drop(before);
        Snapshot { seqno, view: Some(view), registry: self.clone() }
    }

    /// Says that views from now on have other writes at the same seqnos.
    pub(crate) fn begin_anew(&self) {
        let mut held = self.held.lock();
        let Held { snapshots, views, .. } = &mut *held;
        let before: Vec<_> = snapshots.keys().map(|&seqno| views.insert(seqno, None)).collect();
        drop(held);
        drop(before);
    }

    /// Another holder of a snapshot that has a holder, with the view that it keeps if that is known.
    pub(crate) fn join(self: &Arc<Self>, seqno: Seqno) -> Snapshot {
        let mut view = None;
        if self.owner.is_current() {
            let mut held = self.held.lock();
            *held.snapshots.entry(seqno).or_default() += 1;
            view = held.views.get(&seqno).cloned().flatten();
        }
        Snapshot { seqno, view, registry: self.clone() }
    }

    /// The seqnos in use, ascending.
    pub(crate) fn list(&self) -> Vec<Seqno> {
        self.held.lock().snapshots.keys().copied().collect()
    }

    /// Excludes snapshots that are not in `listed`, until the result is dropped. `None` if there is one.
    pub(crate) fn exclude_others(&self, listed: &[Seqno]) -> Option<Exclusion<'_>> {
        let mut held = self.held.lock();
        let are_listed = held.snapshots.keys().all(|seqno| listed.contains(seqno));
        are_listed.then(|| {
            held.exclusions += 1;
            Exclusion { tracker: self }
        })
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.held.lock().snapshots.values().sum()
    }
}

/// As long as it exists, no snapshot is taken.
pub(crate) struct Exclusion<'a> {
    tracker: &'a SnapshotTracker,
}

impl Drop for Exclusion<'_> {
    fn drop(&mut self) {
        self.tracker.held.lock().exclusions -= 1;
        self.tracker.included.notify_all();
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
    /// The view to read, unless that is the current one.
    view: Option<Arc<SuperVersion>>,
    registry: Arc<SnapshotTracker>,
}

impl Snapshot {
    /// Returns the sequence number of the last write that the snapshot sees.
    pub fn seqno(&self) -> Seqno {
        self.seqno
    }

    /// The view to read, unless that is the current one.
    #[inline]
    pub(crate) fn view(&self) -> Option<&Arc<SuperVersion>> {
        self.view.as_ref()
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        let mut joined = self.registry.join(self.seqno);
        joined.view.clone_from(&self.view);
        joined
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.registry.owner.is_current() {
            return;
        }
        let mut held = self.registry.held.lock();
        if let Some(holders) = held.snapshots.get_mut(&self.seqno) {
            *holders -= 1;
            if *holders == 0 {
                held.snapshots.remove(&self.seqno);
                let view = held.views.remove(&self.seqno);
                // Not under the lock: it may close tables.
                drop(held);
                drop(view);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn an_exclusion_is_refused_while_there_is_an_unlisted_snapshot() {
        let snapshots = Arc::new(SnapshotTracker::new(StoreId::ANY));
        let (old, new) = (snapshots.take(|| 3), snapshots.take(|| 5));
        assert!(snapshots.exclude_others(&[3]).is_none());
        assert!(snapshots.exclude_others(&[3, 5]).is_some());
        drop(new);
        assert!(snapshots.exclude_others(&[3, 4]).is_some());
        drop(old);
        assert!(snapshots.exclude_others(&[]).is_some());
    }

    #[test]
    fn a_snapshot_waits_for_the_end_of_an_exclusion() {
        let snapshots = Arc::new(SnapshotTracker::new(StoreId::ANY));
        let (begins, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let excluded = snapshots.exclude_others(&[]).unwrap();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                begins.store(true, Ordering::SeqCst);
                let snapshot = snapshots.take(|| 7);
                assert!(is_over.load(Ordering::SeqCst));
                snapshot.seqno()
            });
            while !begins.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            (0..1_000).for_each(|_| std::thread::yield_now());
            is_over.store(true, Ordering::SeqCst);
            drop(excluded);
            assert_eq!(taker.join().unwrap(), 7);
        });
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

    /// A compaction filter drops a version. A snapshot that sees it once never misses it later.
    #[test]
    fn a_snapshot_never_sees_a_change_by_a_filter() {
        loom::model(|| {
            let is_there = Arc::new(AtomicU64::new(1));
            let snapshots = Arc::new(SnapshotTracker::new(StoreId::ANY));
            let compaction = {
                let (is_there, snapshots) = (is_there.clone(), snapshots.clone());
                thread::spawn(move || {
                    let listed = snapshots.list();
                    if listed.is_empty()
                        && let Some(_excluded) = snapshots.exclude_others(&listed)
                    {
                        is_there.store(0, Ordering::SeqCst);
                    }
                })
            };
            let snapshot = snapshots.take(|| 1);
            let first = is_there.load(Ordering::SeqCst);
            compaction.join().unwrap();
            assert_eq!(first, is_there.load(Ordering::SeqCst));
            drop(snapshot);
        });
    }
}
