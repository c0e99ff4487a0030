//! Locks on keys: exclusive, held by a transaction from when it gets them to its end.
//!
//! Locked keys are in a table of shards, each under a short mutex of its own; a key that is not locked
//! is not in it. A locked key has a queue of waiters, first come, first served: the owner that releases
//! it hands it to the first, and wakes that one only.
//!
//! **Deadlocks** are found when they arise. A transaction waits for one key at a time, and so for one
//! holder; the holder may be waiting in turn. Before it goes to sleep, a waiter follows that chain. If
//! the chain comes back to itself, the wait fails: the victim is the one that closed the cycle. New
//! waits begin one at a time (`waits`), so of two that close a cycle together one sees the other.
//! Waiters in front in a queue need not be followed: they wait for the same holder.
//!
//! **Ranges** are locked for range deletes, see [`ranges`].
//!
//! Lock order: `waits` → a shard → `ranges`. `prepared` is locked with nothing else.

mod deadlock;
mod entry;
mod held_locks;
mod key;
mod ranges;

#[cfg(test)]
mod tests;

pub(crate) use held_locks::{HeldLocks, Locks, ParkedLocks};
pub(crate) use key::LockKey;

use deadlock::WaitTarget;
use entry::Entry;
use esker_base::{Clock, Error, Result};
use esker_pmem::OwnerProcess;
use hashbrown::{HashMap, HashTable};
use key::{OwnerHasher, TransactionId};
use parking_lot::Mutex;
use ranges::Ranges;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Some times as many as threads run at once, so that two rarely meet at a shard; few enough that what
/// all of them take stays in a processor's first cache.
const SHARDS: usize = 32;

/// What came of asking for a lock that need not be waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acquired {
    /// It is held from now on.
    Now,
    /// It was held before.
    Before,
}

/// A shard's locked keys.
type Shard = HashTable<Entry>;

/// On two cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// See the file's head.
pub(crate) struct LockManager {
    shards: Box<[Padded]>,
    ranges: Ranges,
    /// What each waiting owner waits for. Held while a wait begins.
    waits: Mutex<HashMap<TransactionId, WaitTarget, BuildHasherDefault<OwnerHasher>>>,
    /// The ids of prepared transactions, by the owners of their locks.
    prepared: Mutex<HashMap<TransactionId, Box<[u8]>, BuildHasherDefault<OwnerHasher>>>,
    clock: Arc<dyn Clock>,
    next_owner: AtomicU64,
    /// A forked child has no part in them.
    process: OwnerProcess,
}

impl LockManager {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        LockManager {
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
            ranges: Ranges::default(),
            waits: Mutex::default(),
            prepared: Mutex::default(),
            clock,
            next_owner: AtomicU64::new(0),
            process: OwnerProcess::current(),
        }
    }

    /// Fails in a forked child of the process that made the table.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(Error::Forked { what: "a store with transactions".into() }),
        }
    }

    fn new_owner(&self) -> TransactionId {
        TransactionId(self.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The table within the shard goes by the lowest and the highest bits.
        &self.shards[(hash >> 32) as usize % SHARDS].0
    }

    /// Locks `key` for `owner` if no other has it, nor a range that it is in.
    #[inline]
    fn try_lock(&self, owner: TransactionId, key: LockKey<'_>) -> Option<Acquired> {
        let mut shard = self.shard(key.hash).lock();
        match self.may_take(&shard, owner, key) {
            true => take(&mut shard, owner, key),
            false => None,
        }
    }

    /// Whether no range of another owner is in the way. An owner that has a key already keeps it: the
    /// range waits for it.
    #[inline]
    fn may_take(&self, shard: &Shard, owner: TransactionId, key: LockKey<'_>) -> bool {
        // Under the shard's lock: see `ranges`.
        !self.ranges.any()
            || self.ranges.blocking(owner, key.keyspace, key.key).is_none()
            || holder(shard, key) == Some(owner)
    }

    /// Gives back a lock of `owner`'s on a key with `hash`. Of two such keys it does not matter which:
    /// it is for giving back all that `owner` has.
    #[inline]
    fn unlock(&self, owner: TransactionId, hash: u64) {
        self.unlock_if(hash, |entry| entry.hash == hash && entry.owner == owner);
    }

    /// Gives back `owner`'s lock on `key`.
    fn unlock_key(&self, owner: TransactionId, key: LockKey<'_>) {
        self.unlock_if(key.hash, |entry| entry.is(key) && entry.owner == owner);
    }

    /// Gives a lock back, and hands it to the first in its queue.
    #[inline]
    fn unlock_if(&self, hash: u64, is_it: impl FnMut(&Entry) -> bool) {
        let mut shard = self.shard(hash).lock();
        let Ok(mut found) = shard.find_entry(hash, is_it) else {
            unreachable!("a lock that is held is in the table")
        };
        if !found.get_mut().grant_next() {
            found.remove();
        }
    }

    /// How many keys are locked.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// How many ranges are locked.
    pub(crate) fn ranges_len(&self) -> usize {
        self.ranges.len()
    }

    /// How messages call `owner`.
    fn name(&self, owner: TransactionId) -> String {
        match self.prepared.lock().get(&owner) {
            Some(id) => format!("the prepared transaction {}", id.escape_ascii()),
            None => format!("transaction {}", owner.0),
        }
    }

    /// When a wait that begins now ends.
    fn deadline(&self, timeout: Duration) -> Duration {
        self.clock.now().saturating_add(timeout)
    }
}

fn holder(shard: &Shard, key: LockKey<'_>) -> Option<TransactionId> {
    shard.find(key.hash, |entry| entry.is(key)).map(|entry| entry.owner)
}

/// Locks `key` for `owner` unless another has it.
#[inline]
fn take(shard: &mut Shard, owner: TransactionId, key: LockKey<'_>) -> Option<Acquired> {
    match shard.find(key.hash, |entry| entry.is(key)) {
        Some(found) => (found.owner == owner).then_some(Acquired::Before),
        None => {
            shard.insert_unique(key.hash, Entry::new(owner, key), |entry| entry.hash);
            Some(Acquired::Now)
        }
    }
}
