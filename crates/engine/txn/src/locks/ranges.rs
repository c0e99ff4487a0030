//! Locks on ranges of keys, for range deletes.
//!
//! An owner that wants a range first enters it here, and then locks every key in it that another has at
//! that time, which is to wait for the transactions that have them. An owner that wants a key looks here
//! while it has the key's shard locked; an owner that wants a range looks into the shards after it has
//! entered the range. So one of the two sees the other, and waits.
//!
//! Ranges are entered all at once, and wait for those that overlap them before they are entered.

use super::key::TransactionId;
use esker_base::KeyspaceId;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The keys of a keyspace from `start` up to, not including, `end`, or up to the last one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LockRange {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) start: Box<[u8]>,
    pub(crate) end: Option<Box<[u8]>>,
}

impl LockRange {
    pub(super) fn contains(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.keyspace == keyspace && &self.start[..] <= key && self.ends_after(key)
    }

    fn overlaps(&self, other: &LockRange) -> bool {
        self.keyspace == other.keyspace
            && other.ends_after(&self.start)
            && self.ends_after(&other.start)
    }

    fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < &end[..])
    }
}

/// The ranges of one owner.
pub(super) struct RangeLockGuard {
    pub(super) owner: TransactionId,
    ranges: Vec<LockRange>,
    over: Mutex<bool>,
    ended: Condvar,
}

impl RangeLockGuard {
    /// Waits until the ranges are given back. False if no time is left before that.
    pub(super) fn wait_for_end(&self, left: impl Fn() -> Duration) -> bool {
        let mut over = self.over.lock();
        while !*over {
            let left = left();
            if left.is_zero() {
                return false;
            }
            self.ended.wait_for(&mut over, left);
        }
        true
    }
}

/// All ranges that are locked. See the file's head.
#[derive(Default)]
pub(super) struct Ranges {
    entered: Mutex<Vec<Arc<RangeLockGuard>>>,
    /// How many there are: nearly always none, and then no thread takes the lock.
    count: AtomicUsize,
}

impl Ranges {
    /// Whether there is any. Under a shard's lock, this sees the range of all owners that have looked into
    /// the shard before.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    pub(super) fn len(&self) -> usize {
        self.entered.lock().len()
    }

    /// Another owner whose range `key` is in.
    #[cold]
    pub(super) fn blocking(
        &self,
        owner: TransactionId,
        keyspace: KeyspaceId,
        key: &[u8],
    ) -> Option<Arc<RangeLockGuard>> {
        let entered = self.entered.lock();
        let blocks = |other: &&Arc<RangeLockGuard>| {
            other.owner != owner && other.ranges.iter().any(|range| range.contains(keyspace, key))
        };
        entered.iter().find(blocks).cloned()
    }

    /// Enters the ranges of `owner`, or says whose ranges overlap them.
    pub(super) fn enter(
        &self,
        owner: TransactionId,
        ranges: &[LockRange],
    ) -> Result<(), Arc<RangeLockGuard>> {
        let mut entered = self.entered.lock();
        let overlap = |other: &&Arc<RangeLockGuard>| {
            other.ranges.iter().any(|theirs| ranges.iter().any(|range| range.overlaps(theirs)))
        };
        if let Some(other) = entered.iter().find(overlap) {
            return Err(other.clone());
        }
        let ranges = ranges.to_vec();
        let (over, ended) = (Mutex::new(false), Condvar::new());
        entered.push(Arc::new(RangeLockGuard { owner, ranges, over, ended }));
        self.count.store(entered.len(), Ordering::Release);
        Ok(())
    }

    /// Gives the ranges of `owner` back.
    pub(super) fn leave(&self, owner: TransactionId) {
        let mut entered = self.entered.lock();
        let at = entered.iter().position(|one| one.owner == owner);
        let one = entered.swap_remove(at.expect("a range that is held is entered"));
        self.count.store(entered.len(), Ordering::Release);
        drop(entered);
        *one.over.lock() = true;
        one.ended.notify_all();
    }
}
