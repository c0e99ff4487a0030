//! The formats as they were first written. They never change: a new version gets a new file.
//!
//! `ESKER_WRITE_GOLDEN=1 cargo test -p esker-memtable --test suite golden::` writes the files.
#![cfg(not(loom))]

use crate::common::*;
use esker_base::Kind;
use esker_memtable::{
    FrameMode, GROUPS, HeapMemory, MemTable, ScanEnd, SegmentHeader, ZEROS_BEYOND, scan,
};
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

/// Version 1 is without a salt, version 2 with one, version 3 with a flag, too.
const VERSIONS: [(&str, SegmentHeader); 3] = [
    ("segment-v1.bin", header_with(0, 0)),
    ("segment-v2.bin", header_with(SALT, 0)),
    ("segment-v3.bin", header_with(SALT, ZEROS_BEYOND)),
];

const SALT: u64 = 0xfedc_ba98_7654_3210;

const fn header_with(salt: u64, flags: u32) -> SegmentHeader {
    SegmentHeader { epoch: 1, capacity: CAPACITY as u64, alignment: 8, key_id: 0, salt, flags }
}

fn written(header: SegmentHeader) -> (Arc<MemTable>, Model) {
    let memory = HeapMemory::new(CAPACITY);
    let memtable = Arc::new(MemTable::new(memory, header, FrameMode::Logged));
    let mut tail = memtable.activate(1000);
    let mut model = Model::default();
    for batch in batches() {
        model.apply(&batch, tail.next_seqno());
        write(&memtable, &mut tail, &batch).unwrap();
    }
    memtable.seal(tail);
    (memtable, model)
}

fn golden(name: &str, header: SegmentHeader) -> Vec<u8> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("ESKER_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, file_of(&written(header).0)).unwrap();
    }
    std::fs::read(path).unwrap()
}

/// A batch of two frames, and half of one: the segment goes on in another.
fn grouped() -> (SegmentHeader, Vec<u8>) {
    let header = header_with(SALT, ZEROS_BEYOND | GROUPS);
    let memory = HeapMemory::new(CAPACITY);
    let memtable = Arc::new(MemTable::new(memory, header, FrameMode::Logged));
    let mut tail = memtable.activate(1000);
    for (batch, continues) in batches().into_iter().zip([true, false, true]) {
        let (bytes, count) = (encode(&batch), batch.len() as u32);
        let continues = continues.then_some(tail.next_seqno());
        let part = memtable.reserve_part(&mut tail, bytes.len(), count, continues).unwrap();
        memtable.insert(&memtable.fill(part, 999, &bytes).fence());
    }
    memtable.seal(tail);
    assert!(memtable.ends_in_batch());
    (header, file_of(&memtable))
}

#[test]
fn frames_of_groups_are_written_and_read_as_ever() {
    let (header, file) = grouped();
    let path = format!("{}/tests/golden/segment-v3-groups.bin", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("ESKER_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &file).unwrap();
    }
    assert_eq!(file, std::fs::read(path).unwrap());
    let mut found = scan(&file, &header, Some(1000));
    let continues: Vec<_> = found.frames.iter().map(|frame| frame.continues).collect();
    assert_eq!((&continues[..], &found.stop), (&[true, false, true][..], &ScanEnd::Blank));
    assert_eq!(found.leave_out_unfinished(), Some(1004));
    assert_eq!(found.frames.last().unwrap().next_seqno(), 1004);
    let ungrouped = SegmentHeader { flags: ZEROS_BEYOND, ..header };
    assert!(scan(&file, &ungrouped, None).frames.is_empty(), "only where the header says so");
}

#[test]
fn each_version_is_written_as_ever() {
    for (name, header) in VERSIONS {
        assert_eq!(file_of(&written(header).0), golden(name, header), "{name}");
    }
}

#[test]
fn each_version_is_read_as_ever() {
    for (name, expected) in VERSIONS {
        let file = golden(name, expected);
        let header = SegmentHeader::decode(&file, name).unwrap();
        assert_eq!(header, expected, "{name}");
        let found = scan(&file, &header, Some(1000));
        assert_eq!((found.frames.len(), &found.stop, found.later), (3, &ScanEnd::Blank, None));
        let memtable = Arc::new(MemTable::recover(memory_with(&file), header, &found));
        assert_agrees(&memtable, &written(header).1, 1004);
    }
}
