//! A MemTable made of what a scan found is the one that wrote it.
#![cfg(not(loom))]

use crate::common::*;
use esker_base::{KeyspaceId, Kind, hash64};
use esker_memtable::{MemTable, scan};
use std::sync::Arc;

/// `batches` in a MemTable, from seqno 100 on, and in one recovered from its bytes.
fn written_and_recovered(batches: &[Vec<Write>]) -> (Arc<MemTable>, MemTable) {
    let written = memtable(1 << 16, 8);
    let mut tail = written.activate(100);
    for batch in batches {
        write(&written, &mut tail, batch).unwrap();
    }
    written.seal(tail);
    let file = file_of(&written);
    let found = scan(&file, written.header(), Some(100));
    let recovered = MemTable::recover(memory_with(&file), *written.header(), &found);
    (written, recovered)
}

#[test]
fn every_version_is_found_however_few_or_many_entries_there_are() {
    for entries in [1, 2, 15, 16, 17, 31, 32, 33, 100] {
        let batches: Vec<_> = (0..entries).map(|n| vec![Write::put(0, b"key", &[n])]).collect();
        let (_, recovered) = written_and_recovered(&batches);
        for n in 0..entries {
            let seqno = 100 + u64::from(n);
            let found = recovered.get(KeyspaceId(0), b"key", hash64(b"key"), seqno);
            let found = found.unwrap_or_else(|| panic!("entry {n} of {entries} is missing"));
            assert_eq!((found.seqno, found.value), (seqno, &[n][..]));
        }
    }
}

#[test]
fn what_each_keyspace_takes_is_known_from_the_start() {
    let range = Write { kind: Kind::RangeDelete, ..Write::put(9, b"from", b"to") };
    let batches = [
        vec![Write::put(3, b"a", &[1; 500]), Write::put(9, b"a", b"short")],
        vec![range],
        vec![Write::put(3, b"b", &[2; 300])],
    ];
    for batches in [&batches[..], &batches[2..], &[]] {
        let (written, recovered) = written_and_recovered(batches);
        assert!(recovered.keyspace_sizes().is_some(), "nobody need weigh them");
        written.compute_keyspace_sizes();
        assert_eq!(recovered.keyspace_sizes(), written.keyspace_sizes());
    }
}
