//! What all transactions over one store share.

use crate::committing::CommittingSet;
use crate::locks::{LockManager, Locks};
use crate::prepared::Registry;
use crate::transaction::StoreTransaction;
use esker_api::{BatchLimits, Keyspaces, TransactionOptions};
use esker_base::{Clock, Result};
use std::sync::Arc;

/// Begins transactions over one store and keeps their locks. Clones share them.
///
/// It does not own the store: each [`begin`](TransactionManager::begin) gets a handle to it, and a
/// store can keep its own manager.
#[derive(Clone)]
pub struct TransactionManager(Arc<Shared>);

struct Shared {
    limits: BatchLimits,
    locks: LockManager,
    in_flight: CommittingSet,
    prepared: Registry,
}

impl TransactionManager {
    /// Returns a manager for a store that takes batches up to `limits`. `clock` times the waits for
    /// locks.
    pub fn new(limits: BatchLimits, clock: Arc<dyn Clock>) -> Self {
        let locks = LockManager::new(clock);
        let (in_flight, prepared) = (CommittingSet::default(), Registry::default());
        TransactionManager(Arc::new(Shared { limits, locks, in_flight, prepared }))
    }

    /// Begins a transaction over `store`: a handle to the one store that this manager is for.
    ///
    /// # Errors
    /// [`Error::Forked`](esker_base::Error::Forked) in a forked child of the process that made the
    /// manager.
    pub fn begin<S: Keyspaces>(
        &self,
        store: S,
        options: TransactionOptions,
    ) -> Result<StoreTransaction<S>> {
        self.0.locks.check_process()?;
        Ok(StoreTransaction::new(store, self.clone(), options))
    }

    /// Returns what live transactions and writes hold now.
    pub fn held(&self) -> LockStats {
        LockStats {
            keys: self.0.locks.len(),
            ranges: self.0.locks.ranges_len(),
            commits: self.0.in_flight.len(),
        }
    }

    #[inline]
    pub(crate) fn limits(&self) -> &BatchLimits {
        &self.0.limits
    }

    pub(crate) fn in_flight(&self) -> &CommittingSet {
        &self.0.in_flight
    }

    pub(crate) fn prepared(&self) -> &Registry {
        &self.0.prepared
    }
}

impl Locks for TransactionManager {
    #[inline]
    fn locks(&self) -> &LockManager {
        &self.0.locks
    }
}

impl std::fmt::Debug for TransactionManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionManager").field("held", &self.held()).finish_non_exhaustive()
    }
}

/// What live transactions and writes hold: see [`TransactionDb::held`](crate::TransactionDb::held).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LockStats {
    /// Locked keys.
    pub keys: usize,
    /// Plain batches with range deletes in progress.
    pub ranges: usize,
    /// Serializable commits in progress.
    pub commits: usize,
}
