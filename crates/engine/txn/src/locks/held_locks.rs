//! The locks that one owner holds. Dropping it gives them back, so none is ever left behind.

use super::deadlock::{Deadline, WaitTarget, WaitedKey, timed_out};
use super::key::{LockKey, TransactionId};
use super::ranges::LockRange;
use super::{Acquired, LockManager};
use esker_api::WriteBatch;
use esker_base::{Entry, Error, KeyspaceId, Kind, Result};
use smallvec::SmallVec;
use std::time::Duration;

/// Leads to a table of locks: a reference to one, or what keeps it alive.
pub(crate) trait Locks {
    /// The table.
    fn locks(&self) -> &LockManager;
}

impl Locks for &LockManager {
    #[inline]
    fn locks(&self) -> &LockManager {
        self
    }
}

/// See the file's head.
pub(crate) struct HeldLocks<T: Locks> {
    table: T,
    owner: TransactionId,
    /// The hashes of the keys held.
    hashes: SmallVec<[u64; 16]>,
    has_ranges: bool,
}

/// Locks that outlast the transaction that got them. Dropping it does not give them back.
pub(crate) struct ParkedLocks {
    owner: TransactionId,
    hashes: SmallVec<[u64; 16]>,
}

impl ParkedLocks {
    /// How many keys are locked.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }
}

impl LockManager {
    /// Gives back what [`HeldLocks::park`] took.
    pub(crate) fn release_parked(&self, parked: ParkedLocks) {
        parked.hashes.iter().for_each(|&hash| self.unlock(parked.owner, hash));
        self.prepared.lock().remove(&parked.owner);
    }
}

/// Keys and ranges to lock together.
#[derive(Default)]
pub(super) struct LockRequest<'a> {
    pub(super) keys: SmallVec<[LockKey<'a>; 16]>,
    pub(super) ranges: Vec<LockRange>,
}

/// Why not all that is wanted was got, and at which key, if it was at one.
type Stuck = (Error, Option<WaitedKey>);

impl<'a> LockRequest<'a> {
    /// What `entry` writes to.
    pub(super) fn add(&mut self, entry: &Entry<'a>) {
        match entry.kind {
            Kind::Put
            | Kind::Delete
            | Kind::Merge
            | Kind::Combined
            | Kind::Separated
            | Kind::ExpiringPut => self.keys.push(LockKey::new(entry.keyspace, entry.key)),
            Kind::RangeDelete => self.ranges.push(LockRange {
                keyspace: entry.keyspace,
                start: entry.key.into(),
                end: (!entry.value.is_empty()).then(|| entry.value.into()),
            }),
        }
    }
}

impl<T: Locks> HeldLocks<T> {
    /// No locks yet, of a new owner.
    pub(crate) fn new(table: T) -> Self {
        let owner = table.locks().new_owner();
        HeldLocks { table, owner, hashes: SmallVec::new(), has_ranges: false }
    }

    /// Who holds the locks.
    pub(crate) fn owner(&self) -> TransactionId {
        self.owner
    }

    /// What leads to the table.
    #[inline]
    pub(crate) fn table(&self) -> &T {
        &self.table
    }

    /// Locks `key`, waiting for others at most `timeout`.
    #[inline]
    pub(crate) fn lock(&mut self, key: LockKey<'_>, timeout: Duration) -> Result<Acquired> {
        let got = match self.table.locks().try_lock(self.owner, key) {
            Some(got) => got,
            None => {
                self.table.locks().wait_for(self.owner, key, self.table.locks().limit(timeout))?
            }
        };
        self.note(key, got);
        Ok(got)
    }

    #[inline]
    fn note(&mut self, key: LockKey<'_>, got: Acquired) {
        if got == Acquired::Now {
            self.hashes.push(key.hash);
        }
    }

    /// Gives back the lock on `key`, which is the one got last.
    pub(crate) fn unlock_last(&mut self, key: LockKey<'_>) {
        let last = self.hashes.pop();
        debug_assert_eq!(last, Some(key.hash), "the lock that was got last");
        self.table.locks().unlock_key(self.owner, key);
    }

    /// Locks all that `batch` writes to, and `more` keys, waiting for others at most `timeout` in all.
    /// Nothing may be held yet.
    ///
    /// Mostly no lock is in the way, and then the order does not matter.
    pub(crate) fn lock_batch<'k>(
        &mut self,
        batch: &'k WriteBatch,
        more: impl Iterator<Item = LockKey<'k>> + Clone,
        timeout: Duration,
    ) -> Result<()> {
        let keys = batch.iter().map(|entry| LockKey::new(entry.keyspace, entry.key));
        if !batch.has_range_delete() && self.try_lock_keys(keys.chain(more.clone())) {
            return Ok(());
        }
        let mut wanted = LockRequest::default();
        batch.iter().for_each(|entry| wanted.add(&entry));
        wanted.keys.extend(more);
        self.lock_all(&mut wanted, timeout)
    }

    /// Locks `keys` if none of them is locked. Otherwise it locks none.
    #[inline]
    fn try_lock_keys<'k>(&mut self, keys: impl Iterator<Item = LockKey<'k>>) -> bool {
        for key in keys {
            let Some(got) = self.table.locks().try_lock(self.owner, key) else {
                self.release();
                return false;
            };
            self.note(key, got);
        }
        true
    }

    /// Locks everything `wanted`, waiting for others at most `timeout` in all. Nothing may be held yet.
    ///
    /// All that wait for several keys by this do so in the same order, so two of them never
    /// wait for each other. If one and a transaction that locks keys as they come do, this one releases
    /// all locks, as it has read nothing yet. Then, without locks, it waits for the key at
    /// which it was stuck, so that the other proceeds, and begins again.
    #[cold]
    pub(super) fn lock_all(
        &mut self,
        wanted: &mut LockRequest<'_>,
        timeout: Duration,
    ) -> Result<()> {
        debug_assert!(self.hashes.is_empty() && !self.has_ranges);
        wanted.keys.sort_unstable_by_key(|key| key.hash);
        let limit = self.table.locks().limit(timeout);
        let mut stuck_at = None;
        loop {
            match self.lock_in_order(stuck_at.as_ref(), wanted, limit) {
                Err((Error::Deadlock { key, .. }, at)) => {
                    self.release();
                    // Whoever still waits for the old one is awake, and is to be no part of a circle.
                    self.owner = self.table.locks().new_owner();
                    if self.table.locks().left(limit).is_zero() {
                        let holder = "other transactions".to_owned();
                        return Err(Error::LockTimeout { key, holder, waited: timeout });
                    }
                    stuck_at = at;
                }
                outcome => return outcome.map_err(|(error, _)| error),
            }
        }
    }

    fn lock_in_order(
        &mut self,
        first: Option<&WaitedKey>,
        wanted: &LockRequest<'_>,
        limit: Deadline,
    ) -> Result<(), Stuck> {
        if let Some(first) = first {
            self.lock_until(first.borrow(), limit)?;
        }
        if !wanted.ranges.is_empty() {
            self.register_ranges(&wanted.ranges, limit).map_err(|error| (error, None))?;
            for key in self.locked_in(&wanted.ranges) {
                self.lock_until(key.borrow(), limit)?;
            }
        }
        wanted.keys.iter().try_for_each(|&key| self.lock_until(key, limit))
    }

    fn lock_until(&mut self, key: LockKey<'_>, limit: Deadline) -> Result<(), Stuck> {
        let got = self.table.locks().wait_for(self.owner, key, limit);
        let got = got.map_err(|error| (error, Some(WaitedKey::new(key))))?;
        self.note(key, got);
        Ok(())
    }

    fn register_ranges(&mut self, ranges: &[LockRange], limit: Deadline) -> Result<()> {
        let (table, owner) = (self.table.locks(), self.owner);
        while let Err(other) = table.ranges.enter(owner, ranges) {
            let start = &ranges[0].start;
            table.begin_wait(owner, WaitTarget::Range(other.owner), start)?;
            let ended = other.wait_for_end(|| table.left(limit));
            table.end_wait(owner);
            if !ended {
                return Err(timed_out(start, table.name(other.owner), limit));
            }
        }
        self.has_ranges = true;
        Ok(())
    }

    /// The keys in `ranges` that anybody has.
    fn locked_in(&self, ranges: &[LockRange]) -> Vec<WaitedKey> {
        let mut found = Vec::new();
        for shard in &self.table.locks().shards {
            let shard = shard.0.lock();
            let inside = shard.iter().filter(|entry| {
                ranges.iter().any(|range| range.contains(entry.keyspace, &entry.key))
            });
            found.extend(inside.map(|entry| WaitedKey::new(entry.as_key())));
        }
        found
    }

    /// The keys that are locked.
    pub(crate) fn locked_keys(&self) -> Vec<(KeyspaceId, Box<[u8]>)> {
        let mut hashes = self.hashes.to_vec();
        hashes.sort_unstable();
        hashes.dedup();
        let mut keys = Vec::with_capacity(self.hashes.len());
        for hash in hashes {
            let shard = self.table.locks().shard(hash).lock();
            let own = shard.iter_hash(hash).filter(|it| it.hash == hash && it.owner == self.owner);
            keys.extend(own.map(|entry| (entry.keyspace, entry.key[..].into())));
        }
        keys
    }

    /// Takes the locks away, for the transaction prepared under `id`: they are held until
    /// [`LockManager::release_parked`], whatever becomes of this.
    pub(crate) fn park(&mut self, id: &[u8]) -> ParkedLocks {
        debug_assert!(!self.has_ranges, "transactions lock no ranges");
        let owner = std::mem::replace(&mut self.owner, self.table.locks().new_owner());
        self.table.locks().prepared.lock().insert(owner, id.into());
        ParkedLocks { owner, hashes: std::mem::take(&mut self.hashes) }
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self) {
        for hash in self.hashes.drain(..) {
            self.table.locks().unlock(self.owner, hash);
        }
        if std::mem::take(&mut self.has_ranges) {
            self.table.locks().ranges.leave(self.owner);
        }
    }
}

impl<T: Locks> Drop for HeldLocks<T> {
    fn drop(&mut self) {
        // A forked child has a copy of the table, and another thread of the parent may have had it locked.
        if self.table.locks().check_process().is_ok() {
            self.release();
        }
    }
}
