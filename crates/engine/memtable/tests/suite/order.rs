//! Orders of many entries, whose keys are made to be hard to distinguish.
#![cfg(not(loom))]

use crate::common::*;
use esker_base::{EntryCursor, KeyspaceId, MAX_SEQNO, Rng};
use esker_memtable::MemTable;
use std::sync::Arc;

const ENTRIES: u64 = 20_000;

type Shape = fn(&mut Rng) -> Vec<u8>;

/// Ways to make keys.
const SHAPES: [(&str, Shape); 7] = [
    ("random", |rng| rng.next_u64().to_be_bytes().to_vec()),
    ("one key", |_| b"the same".to_vec()),
    ("few keys", |rng| format!("user{:04}", rng.below(10)).into_bytes()),
    ("numbered, long common prefix", |rng| {
        format!("tenant/table/{:016}", rng.below(1 << 40)).into_bytes()
    }),
    ("two clusters that differ late", |rng| {
        let cluster = ["alpha-------------", "beta--------------"][rng.below(2) as usize];
        format!("{cluster}{:08}", rng.below(100_000)).into_bytes()
    }),
    ("zeros at the end", |rng| [&b"k"[..], &vec![0; rng.below(20) as usize]].concat()),
    ("prefixes of each other", |rng| vec![0xff; rng.below(40) as usize + 1]),
];

fn put(memtable: &MemTable, tail: &mut esker_memtable::SegmentWriter, key: &[u8]) -> u64 {
    write(memtable, tail, &[Write::put(0, key, &[])]).expect("it fits")
}

/// Keys and seqnos as a cursor yields them.
fn rows(memtable: &Arc<MemTable>, visible: u64) -> Vec<(Vec<u8>, u64)> {
    let mut cursor = memtable.cursor(KeyspaceId(0), visible);
    forward(&mut cursor).into_iter().map(|(key, version)| (key, version.0)).collect()
}

fn in_order(mut keys: Vec<(Vec<u8>, u64)>) -> Vec<(Vec<u8>, u64)> {
    keys.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    keys
}

/// Writes entries of a shape; calls `after` with what is visible after each.
fn write_shape(
    shape: Shape,
    mut after: impl FnMut(&Arc<MemTable>, u64),
) -> (Arc<MemTable>, Vec<(Vec<u8>, u64)>) {
    let memtable = memtable(4 << 20, 8);
    let mut tail = memtable.activate(1);
    let mut rng = Rng::new(1);
    let keys = (1..=ENTRIES)
        .map(|seqno| {
            let key = shape(&mut rng);
            assert_eq!(put(&memtable, &mut tail, &key), seqno);
            after(&memtable, seqno);
            (key, seqno)
        })
        .collect();
    memtable.seal(tail);
    (memtable, keys)
}

#[test]
fn one_sort_of_everything_is_in_order() {
    for (name, shape) in SHAPES {
        let (memtable, keys) = write_shape(shape, |_, _| ());
        memtable.sort_through(ENTRIES);
        assert!(!memtable.needs_sort(ENTRIES));
        assert!(rows(&memtable, ENTRIES) == in_order(keys), "{name}");
    }
}

#[test]
fn merged_runs_are_in_order() {
    for (name, shape) in SHAPES {
        let (memtable, keys) = write_shape(shape, |memtable, visible| {
            if memtable.needs_sort(visible) {
                memtable.sort_through(visible);
                assert!(!memtable.needs_sort(visible));
            }
            if visible % 333 == 0 {
                memtable.cursor(KeyspaceId(0), visible);
            }
        });
        // First as the runs are, then as one.
        let half = keys.iter().filter(|(_, seqno)| *seqno <= ENTRIES / 2).cloned().collect();
        assert!(rows(&memtable, ENTRIES / 2) == in_order(half), "{name}");
        assert!(rows(&memtable, ENTRIES) == in_order(keys), "{name}");
        assert!(!memtable.needs_sort(ENTRIES));
    }
}

#[test]
fn every_key_is_found_by_seeking_it() {
    for (name, shape) in SHAPES {
        let (memtable, keys) = write_shape(shape, |_, _| ());
        let sorted = in_order(keys);
        let mut cursor = memtable.cursor(KeyspaceId(0), ENTRIES);
        for (at, (key, seqno)) in sorted.iter().enumerate().step_by(37) {
            cursor.seek(key, *seqno).unwrap();
            assert_eq!((cursor.key(), cursor.seqno()), (&key[..], *seqno), "{name}");
            cursor.seek_before(key, *seqno).unwrap();
            assert_eq!(cursor.valid(), at > 0, "{name}");
            if at > 0 {
                assert_eq!(
                    (cursor.key(), cursor.seqno()),
                    (&sorted[at - 1].0[..], sorted[at - 1].1)
                );
            }
            cursor.seek(key, MAX_SEQNO).unwrap();
            assert_eq!(cursor.key(), key, "{name}");
        }
    }
}
