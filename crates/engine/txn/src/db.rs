//! A store with transactions.

use crate::locks::{HeldLocks, Locks};
use crate::manager::{LockStats, TransactionManager};
use esker_api::{
    BatchLimits, Cursor, KeyRange, KeyspaceRef, Keyspaces, Transaction, TransactionOptions,
    Transactional, Value, WriteBatch,
};
use esker_base::{Clock, Error, MAX_KEY_BYTES, Result, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// How long a plain batch waits for transactions that have its keys.
const PLAIN_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// A store with transactions over all of its keyspaces. Shared between threads.
///
/// A forked child must not use its parent's: its writes and transactions fail there with [`Error::Forked`],
/// and dropping a transaction does nothing.
///
/// All writes have to go through it: what is written to the store directly is seen by later tests for
/// conflicts, but waits for no lock.
pub struct TransactionDb<S> {
    store: S,
    manager: TransactionManager,
}

impl<S> std::fmt::Debug for TransactionDb<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionDb").finish_non_exhaustive()
    }
}

impl<S: Keyspaces> TransactionDb<S> {
    /// Transactions over `store`.
    pub fn new(store: S) -> Self {
        TransactionDb::with_clock(store, Arc::new(SystemClock::new()))
    }

    /// Transactions over `store`, in an environment where `clock` times waits for locks.
    pub fn with_clock(store: S, clock: Arc<dyn Clock>) -> Self {
        let manager = TransactionManager::new(store.batch_limits(), clock);
        TransactionDb { store, manager }
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// What live transactions and writes hold now.
    pub fn held(&self) -> LockStats {
        self.manager.held()
    }
}

impl<S: Keyspaces> Transactional for TransactionDb<S> {
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        self.store.keyspace(name)
    }

    fn get(&self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        self.store.get(self.store.resolve(keyspace)?, key)
    }

    fn cursor(&self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let keyspace = self.store.resolve(keyspace)?;
        Ok(self.store.cursor_at(keyspace, range, &self.store.snapshot())?)
    }

    /// See [`Transactional::write`]. A range delete waits for the transactions that hold a key in its
    /// range. Waits a second at most, and never fails with [`Error::Deadlock`].
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let locks = self.manager.locks();
        locks.check_process()?;
        let mut held = HeldLocks::new(locks);
        held.lock_batch(batch, std::iter::empty(), PLAIN_WRITE_TIMEOUT)?;
        self.store.write(batch)
    }

    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(self.manager.begin(&self.store, *options)?))
    }
}

/// Refuses keys that a store with these limits does not take.
#[inline]
pub(crate) fn check_key(key: &[u8], limits: &BatchLimits) -> Result<()> {
    match key.len() {
        0 if !limits.empty_key => Err(Error::EmptyKey),
        0..=MAX_KEY_BYTES => Ok(()),
        bytes => Err(Error::KeyTooLong { bytes }),
    }
}
