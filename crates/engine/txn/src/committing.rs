//! Serializable commits on their way: tested, or being tested, and not visible in the store yet.
//!
//! A serializable transaction commits as if it ran, as a whole, at the instant when it **enters** here.
//! It enters its writes, and only then tests whether anything that it read was written meanwhile: by
//! one that entered before it and is still here, or by anybody, as far as the store shows it. It leaves
//! when its writes are visible. Why that is enough, for two that both commit:
//!
//! * *B overwrote what A read.* Then A entered first: had B entered before A, A would have found B here,
//!   or its write in the store.
//! * *B read what A wrote.* A's writes were visible at B's point in time, so A had entered long before.
//! * *B wrote over A's write.* B got the key's lock when A gave it up, after A had left.
//!
//! So all three kinds of dependency go from the earlier to the later entry, and there is no circle of
//! them. That holds for transactions that only read, too, which is why they are tested like all others.
//! Plain batches and transactions that only write need not enter. They take effect at the instant when
//! they become visible: an A that did not see B's write, neither at its point in time nor in its test, entered
//! before that instant, and one that saw it entered after.
//!
//! What is kept here is bounded by the commits in progress; what is visible, the store itself knows.
//! Nothing is locked while a commit is written.

use esker_api::{KeyRange, WriteBatch};
use esker_base::KeyspaceId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The keys that a transaction writes.
#[derive(Default)]
pub(crate) struct WriteFootprint {
    keys: BTreeMap<KeyspaceId, BTreeSet<Box<[u8]>>>,
}

impl WriteFootprint {
    pub(crate) fn of(batch: &WriteBatch) -> Self {
        let mut keys: BTreeMap<KeyspaceId, BTreeSet<Box<[u8]>>> = BTreeMap::new();
        for entry in batch.iter() {
            keys.entry(entry.keyspace).or_default().insert(entry.key.into());
        }
        WriteFootprint { keys }
    }

    pub(crate) fn has_key(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.keys.get(&keyspace).is_some_and(|keys| keys.contains(key))
    }

    pub(crate) fn has_key_in(&self, keyspace: KeyspaceId, range: &KeyRange) -> bool {
        let start = match &range.start {
            Bound::Included(key) => Bound::Included(&key[..]),
            Bound::Excluded(key) => Bound::Excluded(&key[..]),
            Bound::Unbounded => Bound::Unbounded,
        };
        let first = self
            .keys
            .get(&keyspace)
            .and_then(|keys| keys.range::<[u8], _>((start, Bound::Unbounded)).next());
        first.is_some_and(|key| !range.ends_before(key))
    }
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct CommittingSet {
    entered: Mutex<Vec<Arc<WriteFootprint>>>,
}

/// A commit on its way. It leaves when this is dropped.
pub(crate) struct CommitGuard<'a> {
    all: &'a CommittingSet,
    own: Arc<WriteFootprint>,
    /// Those that had entered before, and had not left.
    pub(crate) earlier: Vec<Arc<WriteFootprint>>,
    stays: bool,
}

impl CommittingSet {
    /// Enters a commit that writes `footprint`.
    pub(crate) fn enter(&self, footprint: WriteFootprint) -> CommitGuard<'_> {
        let own = Arc::new(footprint);
        let mut entered = self.entered.lock();
        let earlier = entered.clone();
        entered.push(own.clone());
        CommitGuard { all: self, own, earlier, stays: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.entered.lock().len()
    }

    /// Leaves, for a commit that stayed: see [`CommitGuard::keep`].
    pub(crate) fn leave(&self, own: Option<&Arc<WriteFootprint>>) {
        if let Some(own) = own {
            self.entered.lock().retain(|one| !Arc::ptr_eq(one, own));
        }
    }
}

impl CommitGuard<'_> {
    /// Stays beyond the guard: the commit is prepared, and is written later.
    pub(crate) fn keep(mut self) -> Arc<WriteFootprint> {
        self.stays = true;
        self.own.clone()
    }
}

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        if !self.stays {
            self.all.leave(Some(&self.own));
        }
    }
}
