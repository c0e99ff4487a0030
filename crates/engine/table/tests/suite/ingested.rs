//! Tables whose entries are stored with seqno 0 and have the one that the manifest says.

use crate::support::{FILE_ID, Finished, Growing, get, options};
use esker_base::{EntryCursor, Kind, MAX_SEQNO, Seqno};
use esker_table::{BlockCache, ReadPurpose, SalvagedTable, Table, TableInfo, TableWriter};
use std::sync::Arc;

const AFTER: Seqno = 5;
const SEQNO: Seqno = 9;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Even keys, in several blocks.
fn written() -> (Vec<u8>, TableInfo) {
    let mut file = Growing::default();
    let mut writer = TableWriter::new(&mut file, options()).with_ingested_after(AFTER);
    for number in (0..1_000).step_by(2) {
        writer.add(&key(number), 0, Kind::Put, &[7; 50]).unwrap();
    }
    let info = writer.finish().unwrap();
    (file.0, info)
}

fn open() -> Table {
    let (bytes, info) = written();
    let file = Arc::new(Finished { bytes, ..Finished::default() });
    let cache = Arc::new(BlockCache::new(1 << 20));
    Table::open(file, FILE_ID, info.offset, info.bytes, cache).unwrap()
}

#[test]
fn the_manifest_and_the_table_must_agree_that_it_was_ingested() {
    assert!(open().ingested_at(None).is_err());
    assert!(open().ingested_at(Some(AFTER)).is_err(), "it was begun later");
    assert!(open().ingested_at(Some(AFTER + 1)).is_ok());
}

#[test]
fn an_entry_is_found_from_its_seqno_on() {
    let table = open().ingested_at(Some(SEQNO)).unwrap();
    for number in (0..1_000).step_by(2) {
        assert_eq!(get(&table, &key(number), SEQNO - 1).unwrap(), None);
        assert_eq!(get(&table, &key(number), SEQNO).unwrap().unwrap().seqno, SEQNO);
        assert_eq!(get(&table, &key(number + 1), MAX_SEQNO).unwrap(), None);
    }
}

/// A version with a lower seqno than another of its key comes after it.
#[test]
fn seeks_go_by_the_seqno_that_the_entries_have() {
    let table = Arc::new(open().ingested_at(Some(SEQNO)).unwrap());
    let mut cursor = table.cursor(ReadPurpose::Read);
    let at = |cursor: &dyn EntryCursor| cursor.valid().then(|| cursor.key().to_vec());
    let there = |number: u32| (number < 1_000).then(|| key(number));
    for number in (0..1_000).step_by(2) {
        for seqno in [0, SEQNO - 1, SEQNO, MAX_SEQNO] {
            let is_before = seqno < SEQNO;
            cursor.seek(&key(number), seqno).unwrap();
            assert_eq!(at(&cursor), there(number + 2 * u32::from(is_before)), "{number}, {seqno}");
            cursor.seek_before(&key(number), seqno).unwrap();
            let before = if is_before { Some(number) } else { number.checked_sub(2) };
            assert_eq!(at(&cursor), before.map(key), "{number}, {seqno}");
            cursor.seek(&key(number + 1), seqno).unwrap();
            assert_eq!(at(&cursor), there(number + 2));
            cursor.seek_before(&key(number + 1), seqno).unwrap();
            assert_eq!(at(&cursor), Some(key(number)));
            assert_eq!(cursor.seqno(), SEQNO);
        }
    }
}

#[test]
fn a_salvage_that_does_not_know_the_seqno_takes_the_lowest() {
    let (bytes, info) = written();
    let file = Arc::new(Finished { bytes, ..Finished::default() });
    for (known, expected) in [(Some(SEQNO), SEQNO), (None, AFTER + 1)] {
        let file = file.clone();
        let table = SalvagedTable::open_ingested(file, FILE_ID, info.offset, info.bytes, known);
        let mut cursor = table.unwrap().cursor();
        assert!(cursor.advance().unwrap());
        assert_eq!(cursor.seqno(), expected);
    }
}
