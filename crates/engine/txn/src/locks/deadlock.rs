//! Waits for a lock, and detects a wait that would never end.

use super::key::{LockKey, OwnerHasher, TransactionId};
use super::{Acquired, LockManager, Shard, holder, take};
use esker_base::{Error, KeyspaceId, LockWait, Result};
use hashbrown::HashMap;
use parking_lot::{Condvar, MutexGuard};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Duration;

/// What an owner waits for.
pub(super) enum WaitTarget {
    /// The holder of this key.
    Key(WaitedKey),
    /// The owner of a range.
    Range(TransactionId),
}

/// A key, owned.
pub(super) struct WaitedKey {
    keyspace: KeyspaceId,
    key: Box<[u8]>,
    hash: u64,
}

impl WaitedKey {
    pub(super) fn new(key: LockKey<'_>) -> Self {
        WaitedKey { keyspace: key.keyspace, key: key.key.into(), hash: key.hash }
    }

    pub(super) fn borrow(&self) -> LockKey<'_> {
        LockKey { keyspace: self.keyspace, key: &self.key, hash: self.hash }
    }
}

type Waits = HashMap<TransactionId, WaitTarget, BuildHasherDefault<OwnerHasher>>;

/// Until when to wait, and how long that is in all.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    deadline: Duration,
    timeout: Duration,
}

impl LockManager {
    /// A limit of `timeout` from now.
    pub(super) fn limit(&self, timeout: Duration) -> Deadline {
        Deadline { deadline: self.deadline(timeout), timeout }
    }

    /// Locks `key` for `owner`, waiting for others who have it, or a range that it is in.
    #[cold]
    pub(super) fn wait_for(
        &self,
        owner: TransactionId,
        key: LockKey<'_>,
        limit: Deadline,
    ) -> Result<Acquired> {
        loop {
            if let Some(got) = self.try_lock(owner, key) {
                return Ok(got);
            }
            if let Some(range) = self.ranges.blocking(owner, key.keyspace, key.key) {
                self.begin_wait(owner, WaitTarget::Range(range.owner), key.key)?;
                let ended = range.wait_for_end(|| self.left(limit));
                self.end_wait(owner);
                if !ended {
                    return Err(timed_out(key.key, self.name(range.owner), limit));
                }
            } else if self.wait_in_queue(owner, key, limit)? {
                return Ok(Acquired::Now);
            }
        }
    }

    /// Queues up for `key` and waits until it is handed over. False if it is worth another try: a
    /// range came in between, or there is no transaction to wait for any more.
    fn wait_in_queue(
        &self,
        owner: TransactionId,
        key: LockKey<'_>,
        limit: Deadline,
    ) -> Result<bool> {
        let wake = Arc::new(Condvar::new());
        {
            let mut waits = self.waits.lock();
            {
                let mut shard = self.shard(key.hash).lock();
                if !self.may_take(&shard, owner, key) {
                    return Ok(false);
                }
                let Some(entry) = shard.find_mut(key.hash, |entry| entry.is(key)) else {
                    return Ok(take(&mut shard, owner, key) == Some(Acquired::Now));
                };
                entry.enqueue(owner, wake.clone());
            }
            waits.insert(owner, WaitTarget::Key(WaitedKey::new(key)));
            if let Some(cycle) = self.find_cycle(&waits, owner) {
                let error = deadlock(&waits, &cycle, key.key);
                waits.remove(&owner);
                let mut shard = self.shard(key.hash).lock();
                return match self.give_up(&mut shard, owner, key) {
                    true => Err(error),
                    // Somebody of the circle ran out of time just now.
                    false => Ok(true),
                };
            }
        }
        let got = self.sleep(owner, key, &wake, limit);
        self.end_wait(owner);
        match got {
            Ok(()) => Ok(true),
            Err(holder) => Err(timed_out(key.key, self.name(holder), limit)),
        }
    }

    /// Sleeps until `owner` has `key`, or its time is up: then it has left the queue. The error is who
    /// has the key.
    fn sleep(
        &self,
        owner: TransactionId,
        key: LockKey<'_>,
        wake: &Condvar,
        limit: Deadline,
    ) -> std::result::Result<(), TransactionId> {
        let mut shard = self.shard(key.hash).lock();
        loop {
            let holder = holder(&shard, key).expect("a key that is waited for is in the table");
            if holder == owner {
                return Ok(());
            }
            let left = self.left(limit);
            if left.is_zero() {
                self.give_up(&mut shard, owner, key);
                return Err(holder);
            }
            wake.wait_for(&mut shard, left);
        }
    }

    /// Takes `owner` out of the queue for `key`. False if it was handed the key before.
    fn give_up(
        &self,
        shard: &mut MutexGuard<'_, Shard>,
        owner: TransactionId,
        key: LockKey<'_>,
    ) -> bool {
        let entry = shard.find_mut(key.hash, |entry| entry.is(key));
        let entry = entry.expect("a key that is waited for is in the table");
        entry.leave(owner);
        entry.owner != owner
    }

    /// Notes that `owner`, which asks for `key`, is about to wait, unless that would close a circle.
    pub(super) fn begin_wait(
        &self,
        owner: TransactionId,
        place: WaitTarget,
        key: &[u8],
    ) -> Result<()> {
        let mut waits = self.waits.lock();
        waits.insert(owner, place);
        match self.find_cycle(&waits, owner) {
            None => Ok(()),
            Some(cycle) => {
                let error = deadlock(&waits, &cycle, key);
                waits.remove(&owner);
                Err(error)
            }
        }
    }

    /// Notes that `owner` waits no more.
    pub(super) fn end_wait(&self, owner: TransactionId) {
        self.waits.lock().remove(&owner);
    }

    /// The owners that wait for each other in a circle, from `start` on, if there is one.
    ///
    /// A link that was seen stays while those before it in the chain wait, unless one of them runs out
    /// of time. So a circle that is seen link by link was there as a whole, or breaks up by itself.
    fn find_cycle(&self, waits: &Waits, start: TransactionId) -> Option<Vec<TransactionId>> {
        let (mut at, mut chain) = (start, Vec::new());
        // A chain is no longer than there are waiters; one that does not come back to `start` ends, as
        // older circles do not exist.
        for _ in 0..waits.len() {
            chain.push(at);
            at = match waits.get(&at)? {
                WaitTarget::Range(owner) => *owner,
                WaitTarget::Key(key) => {
                    let key = key.borrow();
                    let holder = holder(&self.shard(key.hash).lock(), key)?;
                    // It has just been handed the key, and waits no more.
                    (holder != at).then_some(holder)?
                }
            };
            if at == start {
                return Some(chain);
            }
        }
        None
    }

    /// The time left until the limit.
    pub(super) fn left(&self, limit: Deadline) -> Duration {
        limit.deadline.saturating_sub(self.clock.now())
    }
}

pub(super) fn timed_out(key: &[u8], holder: String, limit: Deadline) -> Error {
    Error::LockTimeout { key: key.escape_ascii().to_string(), holder, waited: limit.timeout }
}

/// The error of the one that asked for `key`, and so closed the circle.
fn deadlock(waits: &Waits, cycle: &[TransactionId], key: &[u8]) -> Error {
    let wait = |owner: &TransactionId| {
        let key = match &waits[owner] {
            WaitTarget::Key(key) => key.key.escape_ascii().to_string(),
            WaitTarget::Range(_) => String::new(),
        };
        LockWait::new(owner.0, key)
    };
    let waits = cycle.iter().map(wait).collect();
    Error::Deadlock { key: key.escape_ascii().to_string(), waits }
}
