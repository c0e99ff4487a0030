//! The locks that one owner holds. Dropping it gives them back, so none is ever left behind.

use super::ranges::LockRange;
use super::wait::{Limit, Place, timed_out};
use super::{Got, LockKey, LockTable, Owner};
use esker_base::{Entry, Error, Kind, Result};
use smallvec::SmallVec;
use std::time::Duration;

/// See the file's head.
pub(crate) struct Held<'a> {
    table: &'a LockTable,
    owner: Owner,
    /// The hashes of the keys held.
    hashes: SmallVec<[u64; 16]>,
    has_ranges: bool,
}

/// Keys and ranges to lock together.
#[derive(Default)]
pub(crate) struct Wanted<'a> {
    keys: SmallVec<[LockKey<'a>; 16]>,
    ranges: Vec<LockRange>,
}

impl<'a> Wanted<'a> {
    /// What `entry` writes to.
    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry<'a>) {
        match entry.kind {
            Kind::Put | Kind::Delete => self.keys.push(LockKey::new(entry.keyspace, entry.key)),
            Kind::RangeDelete => self.ranges.push(LockRange {
                keyspace: entry.keyspace,
                start: entry.key.into(),
                end: entry.value.into(),
            }),
        }
    }

    /// Adds a key.
    pub(crate) fn add_key(&mut self, key: LockKey<'a>) {
        self.keys.push(key);
    }
}

impl<'a> Held<'a> {
    /// Nothing, held by `owner`.
    pub(crate) fn new(table: &'a LockTable, owner: Owner) -> Self {
        Held { table, owner, hashes: SmallVec::new(), has_ranges: false }
    }

    /// Locks `key`, waiting for others at most `timeout`.
    #[inline]
    pub(crate) fn lock(&mut self, key: LockKey<'_>, timeout: Duration) -> Result<Got> {
        let got = match self.table.try_lock(self.owner, key) {
            Some(got) => got,
            None => self.table.wait_for(self.owner, key, self.table.limit(timeout))?,
        };
        if got == Got::Now {
            self.hashes.push(key.hash);
        }
        Ok(got)
    }

    /// Gives back the lock got last.
    pub(crate) fn unlock_last(&mut self) {
        let hash = self.hashes.pop().expect("a lock was got");
        self.table.unlock(self.owner, hash);
    }

    /// Locks everything `wanted`, waiting for others at most `timeout` in all. Nothing may be held yet.
    ///
    /// Everybody who locks several keys by this does so in the same order, so two of them never wait
    /// for each other. If one and a transaction that locks keys as they come do, this one gives all back
    /// and begins again: it has not looked at anything yet.
    pub(crate) fn lock_all(&mut self, wanted: &mut Wanted<'_>, timeout: Duration) -> Result<()> {
        debug_assert!(self.hashes.is_empty() && !self.has_ranges);
        wanted.keys.sort_unstable_by_key(|key| key.hash);
        let mut limit = None;
        loop {
            match self.try_lock_all(wanted, timeout, &mut limit) {
                Err(Error::Deadlock { key, .. }) => {
                    self.release();
                    let limit = *limit.get_or_insert_with(|| self.table.limit(timeout));
                    if self.table.left(limit).is_zero() {
                        return Err(Error::LockTimeout { key, waited: timeout });
                    }
                }
                outcome => return outcome,
            }
        }
    }

    fn try_lock_all(
        &mut self,
        wanted: &Wanted<'_>,
        timeout: Duration,
        limit: &mut Option<Limit>,
    ) -> Result<()> {
        let (table, owner) = (self.table, self.owner);
        let mut limit = || *limit.get_or_insert_with(|| table.limit(timeout));
        if !wanted.ranges.is_empty() {
            self.lock_ranges(&wanted.ranges, limit())?;
        }
        for &key in &wanted.keys {
            let got = match table.try_lock(owner, key) {
                Some(got) => got,
                None => table.wait_for(owner, key, limit())?,
            };
            if got == Got::Now {
                self.hashes.push(key.hash);
            }
        }
        Ok(())
    }

    fn lock_ranges(&mut self, ranges: &[LockRange], limit: Limit) -> Result<()> {
        let (table, owner) = (self.table, self.owner);
        while let Err(other) = table.ranges.enter(owner, ranges) {
            let start = &ranges[0].start;
            table.begin_wait(owner, Place::Range(other.owner), start)?;
            let ended = other.wait_for_end(|| table.left(limit));
            table.end_wait(owner);
            if !ended {
                return Err(timed_out(start, limit));
            }
        }
        self.has_ranges = true;
        for (keyspace, key) in self.locked_in(ranges) {
            let key = LockKey::new(keyspace, &key);
            if table.wait_for(owner, key, limit)? == Got::Now {
                self.hashes.push(key.hash);
            }
        }
        Ok(())
    }

    /// The keys in `ranges` that anybody has.
    fn locked_in(&self, ranges: &[LockRange]) -> Vec<(esker_base::KeyspaceId, Box<[u8]>)> {
        let mut found = Vec::new();
        for shard in &self.table.shards {
            let shard = shard.0.lock();
            let inside = shard.iter().filter(|entry| {
                ranges.iter().any(|range| range.contains(entry.keyspace, &entry.key))
            });
            found.extend(inside.map(|entry| (entry.keyspace, entry.key[..].into())));
        }
        found
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self) {
        for hash in self.hashes.drain(..) {
            self.table.unlock(self.owner, hash);
        }
        if std::mem::take(&mut self.has_ranges) {
            self.table.ranges.leave(self.owner);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.release();
    }
}
