//! Random batches, read back against an ordered map: at every snapshot, in every direction, before
//! and after sealing, recycling and recovery.
#![cfg(not(loom))]

use crate::common::*;
use esker_base::{EntryCursor, KeyspaceId, Kind, MAX_SEQNO};
use esker_memtable::{MemTable, scan};
use proptest::prelude::*;
use std::sync::Arc;

const CAPACITY: usize = 64 << 10;

/// Keys that share long prefixes, are prefixes of each other, differ in trailing zeros, repeat.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..3, 1..4),
        prop::collection::vec(0u8..2, 1..4)
            .prop_map(|tail| [b"a long common prefix", &tail[..]].concat()),
        prop::collection::vec(any::<u8>(), 1..20),
        (0usize..300).prop_map(|len| vec![7; len + 1]),
    ]
}

fn one_write() -> impl Strategy<Value = Write> {
    let keyspace = prop_oneof![4 => Just(0u32), 2 => Just(7), 1 => Just(300)];
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        Just(vec![9; 127]),
        Just(vec![9; 128]),
        Just(vec![9; 300]),
    ];
    (keyspace, 0..10, key(), key(), value).prop_map(
        |(keyspace, kind, key, end, value)| match kind {
            0 if key < end => Write { keyspace, kind: Kind::RangeDelete, key, value: end },
            0..=2 => Write { keyspace, kind: Kind::Delete, key, value: Vec::new() },
            _ => Write { keyspace, kind: Kind::Put, key, value },
        },
    )
}

fn batches() -> impl Strategy<Value = Vec<Vec<Write>>> {
    prop::collection::vec(prop::collection::vec(one_write(), 1..6), 1..40)
}

/// Writes as many of the batches as fit.
fn write_all(memtable: &MemTable, batches: &[Vec<Write>], first: u64) -> (Model, u64) {
    let mut tail = memtable.activate(first);
    let mut model = Model::default();
    let mut last = first - 1;
    for batch in batches {
        let Some(seqno) = write(memtable, &mut tail, batch) else { break };
        model.apply(batch, last + 1);
        last = seqno;
    }
    memtable.seal(tail);
    (model, last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_snapshot_reads_as_the_model(batches in batches(), alignment in prop::sample::select(vec![8u32, 64])) {
        let memtable = memtable(CAPACITY, alignment);
        let mut tail = memtable.activate(100);
        let mut model = Model::default();
        let mut last = 99;
        for batch in &batches {
            let Some(seqno) = write(&memtable, &mut tail, batch) else { break };
            model.apply(batch, last + 1);
            last = seqno;
            assert_agrees(&memtable, &model, last);
        }
        for snapshot in (98..=last).step_by(7) {
            assert_agrees(&memtable, &model, snapshot);
        }
        memtable.seal(tail);
        memtable.sort_through(last);
        assert!(!memtable.needs_sort(last));
        for snapshot in (98..=last + 1).step_by(5) {
            assert_agrees(&memtable, &model, snapshot);
        }
        prop_assert_eq!(memtable.keyspaces(), model.keyspaces());
        prop_assert_eq!((memtable.first_seqno(), memtable.last_seqno()), (100, last));
        memtable.verify("segment").unwrap();
    }

    #[test]
    fn seeks_land_where_the_model_says(
        batches in batches(),
        targets in prop::collection::vec((key(), 90u64..200), 1..20),
        sealed: bool,
    ) {
        let memtable = memtable(CAPACITY, 8);
        let mut tail = memtable.activate(100);
        let mut model = Model::default();
        let mut last = 99;
        for batch in &batches {
            let Some(seqno) = write(&memtable, &mut tail, batch) else { break };
            model.apply(batch, last + 1);
            last = seqno;
            // Opened on the way, so that several runs are left.
            memtable.cursor(KeyspaceId(0), last);
        }
        if sealed {
            memtable.seal(tail);
        }
        let rows = model.scan(0, last);
        let mut cursor = memtable.cursor(KeyspaceId(0), last);
        for (key, seqno) in targets.into_iter().chain([(vec![0xff; 30], MAX_SEQNO)]) {
            let after = rows.partition_point(|(row, version)| {
                (&row[..], u64::MAX - version.0) < (&key[..], u64::MAX - seqno)
            });
            cursor.seek(&key, seqno).unwrap();
            prop_assert_eq!(current(&cursor), rows.get(after).cloned());
            // A turn, and back again.
            if cursor.valid() {
                cursor.prev().unwrap();
                prop_assert_eq!(current(&cursor), after.checked_sub(1).map(|at| rows[at].clone()));
            }
            if cursor.valid() {
                cursor.next().unwrap();
                prop_assert_eq!(current(&cursor), rows.get(after).cloned());
            }
            cursor.seek_before(&key, seqno).unwrap();
            prop_assert_eq!(current(&cursor), after.checked_sub(1).map(|at| rows[at].clone()));
        }
    }

    #[test]
    fn a_recovered_memtable_reads_as_the_original(batches in batches(), alignment in prop::sample::select(vec![8u32, 64])) {
        let original = memtable(CAPACITY, alignment);
        let (model, last) = write_all(&original, &batches, 100);
        let file = file_of(&original);
        let found = scan(&file, original.header(), Some(100));
        prop_assert_eq!(found.end, original.bytes_used());
        let recovered = MemTable::recover(memory_with(&file), *original.header(), &found);
        prop_assert!(recovered.is_sealed());
        prop_assert_eq!((recovered.first_seqno(), recovered.last_seqno()), (100, last));
        prop_assert_eq!(recovered.entries(), original.entries());
        prop_assert_eq!(recovered.keyspaces(), model.keyspaces());
        recovered.verify("segment").unwrap();
        assert_agrees(&Arc::new(recovered), &model, last);
    }

    #[test]
    fn a_recycled_memtable_shows_nothing_of_its_past(past in batches(), present in batches()) {
        let memtable = memtable(CAPACITY, 8);
        write_all(&memtable, &past, 1);
        let memtable = Arc::into_inner(memtable).unwrap().recycle(header(CAPACITY, 8, 2));
        let memtable = Arc::new(memtable);
        let (model, last) = write_all(&memtable, &present, 1000);
        assert_agrees(&memtable, &model, last);
        prop_assert_eq!(memtable.keyspaces(), model.keyspaces());
    }
}
