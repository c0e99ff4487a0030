//! A locked key.

use super::key::{LockKey, TransactionId};
use esker_base::KeyspaceId;
use parking_lot::Condvar;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// Keys up to this length are in the entry itself. Most keys are.
const INLINE_BYTES: usize = 32;

/// A locked key: who has it, and who waits for it, longest first.
pub(super) struct Entry {
    pub(super) hash: u64,
    pub(super) owner: TransactionId,
    pub(super) keyspace: KeyspaceId,
    pub(super) key: SmallVec<[u8; INLINE_BYTES]>,
    /// Few keys are ever waited for.
    #[expect(
        clippy::box_collection,
        reason = "entries are small, so that a shard is in the cache"
    )]
    queue: Option<Box<VecDeque<Waiter>>>,
}

/// Who waits, and how to wake it.
struct Waiter {
    owner: TransactionId,
    wake: Arc<Condvar>,
}

impl Entry {
    #[inline]
    pub(super) fn new(owner: TransactionId, key: LockKey<'_>) -> Self {
        Entry {
            hash: key.hash,
            owner,
            keyspace: key.keyspace,
            key: SmallVec::from_slice(key.key),
            queue: None,
        }
    }

    #[inline]
    pub(super) fn is(&self, key: LockKey<'_>) -> bool {
        self.hash == key.hash && self.keyspace == key.keyspace && self.key[..] == *key.key
    }

    pub(super) fn as_key(&self) -> LockKey<'_> {
        LockKey { keyspace: self.keyspace, key: &self.key, hash: self.hash }
    }

    /// Puts `owner` at the queue's end.
    pub(super) fn enqueue(&mut self, owner: TransactionId, wake: Arc<Condvar>) {
        self.queue.get_or_insert_default().push_back(Waiter { owner, wake });
    }

    /// Takes `owner` out of the queue.
    pub(super) fn leave(&mut self, owner: TransactionId) {
        if let Some(queue) = &mut self.queue {
            queue.retain(|waiter| waiter.owner != owner);
        }
    }

    /// Makes the first waiter the owner, and wakes it. False if there is no waiter.
    #[inline]
    pub(super) fn grant_next(&mut self) -> bool {
        let first = self.queue.as_mut().and_then(|queue| queue.pop_front());
        let Some(first) = first else { return false };
        self.owner = first.owner;
        first.wake.notify_one();
        true
    }
}
