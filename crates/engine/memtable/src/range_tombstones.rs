//! The range deletes of a MemTable.
//!
//! Writers add to a list a keyspace. The fragmented, searchable form is made by the first
//! reader that finds it out of date, and published for the others. Most MemTables hold no
//! range delete, and a reader sees that from one atomic.

use arc_swap::ArcSwap;
use esker_base::{FragmentedTombstones, KeyspaceId, RangeTombstone};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The lists of one keyspace.
#[derive(Default)]
struct List {
    all: Vec<RangeTombstone>,
    /// All of them, fragmented; none if one was added since.
    fragmented: Option<Arc<FragmentedTombstones>>,
}

/// What readers see.
#[derive(Default)]
struct Published {
    /// How many tombstones it was made of.
    count: usize,
    lists: BTreeMap<KeyspaceId, Arc<FragmentedTombstones>>,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Tombstones {
    count: AtomicUsize,
    lists: Mutex<BTreeMap<KeyspaceId, List>>,
    published: ArcSwap<Published>,
}

impl Tombstones {
    /// Adds one.
    #[cold]
    pub fn add(&self, keyspace: KeyspaceId, tombstone: RangeTombstone) {
        let mut lists = self.lists.lock();
        let list = lists.entry(keyspace).or_default();
        list.all.push(tombstone);
        list.fragmented = None;
        self.count.fetch_add(1, Ordering::Release);
    }

    /// How many were added.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Those of `keyspace`, every one added before this call.
    #[inline]
    pub fn get(&self, keyspace: KeyspaceId) -> Option<Arc<FragmentedTombstones>> {
        let count = self.count.load(Ordering::Acquire);
        if count == 0 {
            return None;
        }
        self.fresh(count).lists.get(&keyspace).cloned()
    }

    /// Those of `keyspace` as they were added: where they overlap, far fewer than once they are cut.
    pub fn all(&self, keyspace: KeyspaceId) -> Vec<RangeTombstone> {
        self.lists.lock().get(&keyspace).map_or_else(Vec::new, |list| list.all.clone())
    }

    /// The keyspaces that have some, in order.
    pub fn keyspaces(&self) -> Vec<KeyspaceId> {
        self.lists.lock().keys().copied().collect()
    }

    /// The published form, made of `count` tombstones at least.
    #[cold]
    fn fresh(&self, count: usize) -> Arc<Published> {
        let published = self.published.load_full();
        if published.count >= count {
            return published;
        }
        let mut lists = self.lists.lock();
        let fresh = Arc::new(Published {
            count: self.count.load(Ordering::Relaxed),
            lists: lists.iter_mut().map(|(&keyspace, list)| (keyspace, list.fragment())).collect(),
        });
        self.published.store(fresh.clone());
        fresh
    }
}

impl List {
    fn fragment(&mut self) -> Arc<FragmentedTombstones> {
        let all = &self.all;
        let make = || Arc::new(FragmentedTombstones::new(all.iter().cloned()));
        self.fragmented.get_or_insert_with(make).clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn tombstone(seqno: u64) -> RangeTombstone {
        RangeTombstone { start: b"a".to_vec(), end: b"m".to_vec(), seqno }
    }

    #[test]
    fn nested_tombstones_are_given_as_they_were_added() {
        let tombstones = Tombstones::default();
        for (end, seqno) in (b'b'..=b'k').zip(1..) {
            let tombstone = RangeTombstone { start: b"a".to_vec(), end: vec![end], seqno };
            tombstones.add(KeyspaceId(1), tombstone);
        }
        assert_eq!(tombstones.all(KeyspaceId(1)).len(), 10);
        assert_eq!(tombstones.get(KeyspaceId(1)).unwrap().tombstones().count(), 55);
        assert!(tombstones.all(KeyspaceId(2)).is_empty());
    }

    #[test]
    fn a_reader_sees_every_tombstone_added_before() {
        let tombstones = Tombstones::default();
        assert!(tombstones.get(KeyspaceId(1)).is_none());
        for seqno in 1..10 {
            tombstones.add(KeyspaceId(1), tombstone(seqno));
            assert_eq!(tombstones.get(KeyspaceId(1)).unwrap().covering(b"b", 99), seqno);
            assert!(tombstones.get(KeyspaceId(2)).is_none());
        }
    }
}
