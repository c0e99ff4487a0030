//! The skiplist, in DRAM and in an extent.

use super::pool_in;
use crate::key::KeyWords;
use crate::list::{Found, List, Scratch, SkipList};
use crate::memory::{Blocks, Memory};
use crate::node::Version;
use esker_base::{Kind, Rng, Seqno};
use esker_pmem::Arena;
use std::collections::BTreeMap;

/// A version's seqno, and its value if it has one.
type Written = (Seqno, Option<Vec<u8>>);

/// Lists of both kinds hold the newest of each key, in order, and versions at any seqno.
fn check_list(memory: impl Memory) {
    let list = SkipList::new(memory);
    let (mut rng, mut scratch) = (Rng::new(8), Scratch::new(9));
    let mut versions = BTreeMap::<Vec<u8>, Vec<Written>>::new();
    for seqno in 1..=1_500 {
        let mut key = vec![b'k'; 1 + rng.below(20) as usize];
        *key.last_mut().unwrap() = rng.below(200) as u8;
        let value = vec![seqno as u8; rng.below(300) as usize];
        let kind = if rng.one_in(5) { Kind::Delete } else { Kind::Put };
        list.insert(&Version { key: &key, seqno, kind, value: &value }, &mut scratch);
        versions.entry(key).or_default().push((seqno, (kind == Kind::Put).then_some(value)));
    }
    for (key, of_key) in &versions {
        let words = KeyWords::new(key);
        assert_eq!(list.get(&words, of_key[0].0 - 1), None);
        for (seqno, value) in of_key {
            let expected = value.clone().map_or(Found::Deleted, Found::Value);
            assert_eq!(list.get(&words, *seqno), Some(expected));
        }
    }
    let mut newest = versions.into_iter();
    list.for_each_newest(&mut |key, kind, value| {
        let (expected, of_key) = newest.next().unwrap();
        let found = (kind == Kind::Put).then(|| value.to_vec());
        assert_eq!((key, &found), (&expected[..], &of_key.last().unwrap().1));
        Ok(())
    })
    .unwrap();
    assert!(newest.next().is_none());
}

#[test]
fn a_list_is_ordered_wherever_it_lies() {
    check_list(Blocks::new(1 << 20, 1).take());
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool_in(&dir, 18 << 20);
    check_list(Arena::new(pool.acquire(1, &[]).unwrap().unwrap(), 0));
}

#[test]
fn a_put_into_persistent_memory_takes_two_fences() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool_in(&dir, 18 << 20);
    let list = SkipList::new(Arena::new(pool.acquire(1, &[]).unwrap().unwrap(), 0));
    let (mut rng, mut scratch) = (Rng::new(1), Scratch::new(2));
    let before = pool.traffic();
    let puts = 2_000;
    for seqno in 1..=puts {
        let key = rng.next_u64().to_be_bytes();
        list.insert(&Version { key: &key, seqno, kind: Kind::Put, value: &[7; 100] }, &mut scratch);
    }
    let traffic = pool.traffic() - before;
    assert_eq!(traffic.fences, 2 * puts);
    // A node of this size lies in two to four lines, and has a link at each of its levels.
    assert!((3 * puts..6 * puts).contains(&traffic.flushes), "{traffic:?}");
    assert!(traffic.bytes >= puts * (8 + 16 + 8 + 104 + 8), "{traffic:?}");
}
