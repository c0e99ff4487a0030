//! The format of version 1 as it was first written. It never changes: a new format gets a new file.
//!
//! `ESKER_WRITE_GOLDEN=1 cargo test -p esker-memtable --test golden` writes the file of a new version.
#![cfg(not(loom))]

mod common;

use common::*;
use esker_base::Kind;
use esker_memtable::{MemTable, SegmentHeader, Stop, scan};
use std::sync::Arc;

const CAPACITY: usize = 1024;

fn batches() -> Vec<Vec<Write>> {
    let delete = |key: &[u8]| Write { kind: Kind::Delete, ..Write::put(0, key, b"") };
    let range = Write { kind: Kind::RangeDelete, ..Write::put(300, b"from", b"to") };
    vec![
        vec![Write::put(0, b"apple", b"red")],
        vec![Write::put(300, b"great", &[0xab; 200]), delete(b"apple"), range],
        vec![Write::put(0, b"pear", b"")],
    ]
}

fn written() -> (Arc<MemTable>, Model) {
    let memtable = memtable(CAPACITY, 8);
    let mut tail = memtable.activate(1000);
    let mut model = Model::default();
    for batch in batches() {
        model.apply(&batch, tail.next_seqno());
        write(&memtable, &mut tail, &batch).unwrap();
    }
    memtable.seal(tail);
    (memtable, model)
}

fn golden() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/segment-v1.bin");
    if std::env::var_os("ESKER_WRITE_GOLDEN").is_some() {
        std::fs::write(path, file_of(&written().0)).unwrap();
    }
    std::fs::read(path).unwrap()
}

#[test]
fn version_1_is_written_as_ever() {
    assert_eq!(file_of(&written().0), golden());
}

#[test]
fn version_1_is_read_as_ever() {
    let file = golden();
    let header = SegmentHeader::decode(&file, "segment-v1.bin").unwrap();
    let expected = SegmentHeader { epoch: 1, capacity: 1024, alignment: 8, key_id: 0 };
    assert_eq!(header, expected);
    let found = scan(&file, &header, Some(1000));
    assert_eq!((found.frames.len(), &found.stop, found.later), (3, &Stop::Blank, None));
    let memtable = Arc::new(MemTable::recover(memory_with(&file), header, &found));
    assert_agrees(&memtable, &written().1, 1004);
}
