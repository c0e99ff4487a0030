//! How long commits take, by themselves: a store with transactions that times them and passes all else on.
//!
//! A request of a workload of transactions reads, waits for locks, writes to memory, and commits. What a
//! log adds, it adds to the commit; so [`CommitTimes`] is between the workload and the store, and the
//! workload is bound to it. A plain write is a commit as well.

use crate::Latencies;
use esker_api::{
    Cursor, KeyRange, KeyspaceRef, Transaction, TransactionOptions, Transactional, Value,
    WriteBatch,
};
use esker_base::{Clock, Result};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Sets of latencies to fill, in turn: so many that clients seldom meet at one.
const SHARDS: usize = 16;

/// A store whose commits are timed.
pub struct CommitTimes<'a> {
    store: &'a dyn Transactional,
    clock: &'a dyn Clock,
    shards: [Shard; SHARDS],
    next: AtomicUsize,
}

/// On a cache line (and its prefetched neighbour) of its own.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Latencies>);

impl<'a> CommitTimes<'a> {
    /// Times the commits of `store` from now on.
    pub fn new(store: &'a dyn Transactional, clock: &'a dyn Clock) -> Self {
        let shards = std::array::from_fn(|_| Shard::default());
        CommitTimes { store, clock, shards, next: AtomicUsize::new(0) }
    }

    /// The latencies of the commits that succeeded since the last call, or the beginning.
    pub fn take(&self) -> Latencies {
        let mut all = Latencies::new();
        for shard in &self.shards {
            all.merge(&std::mem::take(&mut shard.0.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        all
    }

    fn timed(&self, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = self.clock.now();
        commit()?;
        let latency = self.clock.now().saturating_sub(start);
        let shard = &self.shards[self.next.fetch_add(1, Relaxed) % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner).record(latency);
        Ok(())
    }
}

impl Transactional for CommitTimes<'_> {
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        self.store.keyspace(name)
    }

    fn get(&self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.store.get(keyspace, key)
    }

    fn cursor(&self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.store.cursor(keyspace, range)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.timed(|| self.store.write(batch))
    }

    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction + '_>> {
        let transaction = self.store.begin(options)?;
        Ok(Box::new(Timed { times: self, transaction, writes: false }))
    }
}

struct Timed<'a> {
    times: &'a CommitTimes<'a>,
    transaction: Box<dyn Transaction + 'a>,
    /// One that wrote nothing commits nothing.
    writes: bool,
}

impl Transaction for Timed<'_> {
    fn get(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.transaction.get(keyspace, key)
    }

    fn get_for_update(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.transaction.get_for_update(keyspace, key)
    }

    fn put(&mut self, keyspace: KeyspaceRef, key: &[u8], value: &[u8]) -> Result<()> {
        self.writes = true;
        self.transaction.put(keyspace, key, value)
    }

    fn delete(&mut self, keyspace: KeyspaceRef, key: &[u8]) -> Result<()> {
        self.writes = true;
        self.transaction.delete(keyspace, key)
    }

    fn cursor(&mut self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.transaction.cursor(keyspace, range)
    }

    fn set_savepoint(&mut self) -> Result<()> {
        self.transaction.set_savepoint()
    }

    fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.transaction.rollback_to_savepoint()
    }

    fn commit(&mut self) -> Result<()> {
        if !self.writes {
            return self.transaction.commit();
        }
        self.times.timed(|| self.transaction.commit())
    }

    fn rollback(&mut self) -> Result<()> {
        self.transaction.rollback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Ticking;
    use esker_workload::model::TransactionalModel;

    #[test]
    fn commits_that_succeed_are_timed_once() {
        let model = TransactionalModel::new();
        let times = CommitTimes::new(&model, &Ticking);
        let keyspace = times.keyspace("k").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(keyspace, b"a", b"1");
        times.write(&batch).unwrap();
        let begin = || times.begin(&TransactionOptions::default()).unwrap();
        let (mut wins, mut loses, mut reads) = (begin(), begin(), begin());
        wins.put(keyspace, b"a", b"2").unwrap();
        loses.put(keyspace, b"a", b"3").unwrap();
        reads.get(keyspace, b"a").unwrap();
        wins.commit().unwrap();
        loses.commit().unwrap_err();
        reads.commit().unwrap();
        let taken = times.take();
        assert_eq!((taken.count(), taken.mean_us()), (2, 1_000.0), "a look takes a millisecond");
        assert_eq!(times.take().count(), 0);
        assert_eq!(times.get(keyspace, b"a").unwrap().unwrap(), b"2");
    }
}
