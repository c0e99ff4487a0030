//! Whatever happens to a table's bytes, a reader gets the right answer or a report, never a wrong
//! answer and never a panic.

use crate::support::*;
use esker_base::{Error, Kind, MAX_SEQNO, RangeTombstone};
use esker_table::format::{BlockKind, block_checksum};
use esker_table::{
    BlockCache, Compression, ReadPurpose, SalvagedTable, Table, TableInfo, TableOptions,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

fn versions(count: u64, value_bytes: usize) -> Vec<Version> {
    let mut versions: Vec<Version> = (0..count)
        .map(|n| {
            let kind = if n % 7 == 3 { Kind::Delete } else { Kind::Put };
            let value = if kind == Kind::Put { vec![n as u8; value_bytes] } else { vec![] };
            (format!("key{:04}", n / 2).into_bytes(), 1000 + n, kind, value)
        })
        .collect();
    sort(&mut versions);
    versions
}

fn tombstones() -> Vec<RangeTombstone> {
    let (start, end) = (b"key0003".to_vec(), b"key0007".to_vec());
    vec![RangeTombstone { start, end, seqno: 1011 }]
}

fn stored(compression: Compression, versions: &[Version]) -> (Vec<u8>, TableInfo) {
    let mut file = Growing::default();
    let options = TableOptions { compression, ..options() };
    let info = write_to(&mut file, options, versions, &tombstones());
    (file.0, info)
}

/// Reads everything there is to read from damaged bytes.
fn check_damaged(bytes: Vec<u8>, info: &TableInfo, versions: &[Version], what: &str) {
    let table = match open_bytes(bytes, info) {
        Ok(table) => table,
        Err(error) => return assert!(error.is_corruption(), "{what}: {error}"),
    };
    assert!(!complaints(&table).is_empty(), "{what}: nobody noticed");
    assert_eq!(table.properties(), &info.properties, "{what}");
    for (key, seqno, kind, value) in versions {
        match get(&table, key, *seqno) {
            Ok(found) => {
                let found =
                    found.map(|found| (found.seqno, found.kind, found.value.bytes().to_vec()));
                assert_eq!(found, Some((*seqno, *kind, value.clone())), "{what}");
            }
            Err(error) => assert!(error.is_corruption(), "{what}: {error}"),
        }
    }
    for purpose in [ReadPurpose::Read, ReadPurpose::Compaction] {
        let error = scan(&table, purpose).expect_err("a scan meets every data block");
        assert!(error.is_corruption(), "{what}: {error}");
    }
}

#[test]
fn every_flipped_bit_of_a_small_table_is_noticed() {
    let versions = versions(20, 12);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (good, info) = stored(compression, &versions);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            check_damaged(bad, &info, &versions, &format!("{compression}, bit {bit}"));
        }
    }
}

#[test]
fn every_wrong_byte_of_a_table_of_many_blocks_is_noticed() {
    let versions = versions(100, 150);
    let (good, info) = stored(Compression::None, &versions);
    assert!(info.properties.data_blocks > 3);
    for at in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[at] = !bad[at];
        check_damaged(bad, &info, &versions, &format!("byte {at}"));
    }
}

#[test]
fn every_truncation_is_corruption() {
    let (good, info) = stored(Compression::Lz4, &versions(20, 12));
    for len in 0..good.len() {
        let error = open_bytes(good[..len].to_vec(), &info).unwrap_err();
        assert!(error.is_corruption(), "{len} bytes of the file: {error}");
        let shorter = TableInfo { bytes: len as u64, ..info.clone() };
        let error = open_bytes(good.clone(), &shorter).unwrap_err();
        assert!(error.is_corruption(), "{len} bytes of the table: {error}");
    }
}

#[test]
fn a_table_is_refused_in_another_file_or_at_another_place() {
    let (good, info) = stored(Compression::None, &versions(20, 12));
    let open = |bytes: Vec<u8>, file_id, offset| {
        let file = Arc::new(Finished { bytes, ..Finished::default() });
        Table::open(file, file_id, offset, info.bytes, Arc::new(BlockCache::new(0)))
    };
    assert!(open(good.clone(), FILE_ID, 0).is_ok());
    assert!(open(good.clone(), FILE_ID + 1, 0).unwrap_err().is_corruption());
    let moved = [&[0; 8], &good[..]].concat();
    assert!(open(moved, FILE_ID, 8).unwrap_err().is_corruption());
    assert!(open(good, FILE_ID, u64::MAX).unwrap_err().is_corruption());
}

#[test]
fn an_intact_block_in_the_wrong_place_is_noticed() {
    let versions = versions(100, 150);
    let (good, info) = stored(Compression::None, &versions);
    let (other, _) = {
        let mut file = Growing::default();
        let options = TableOptions { file_id: FILE_ID + 1, ..options() };
        let info = write_to(&mut file, options, &versions, &tombstones());
        (file.0, info)
    };
    // The same versions in another file: the data blocks differ in nothing but their checksums.
    let data_bytes = info.properties.data_bytes as usize;
    let mixed = [&other[..data_bytes], &good[data_bytes..]].concat();
    check_damaged(mixed, &info, &versions, "data of another file");
}

#[test]
fn two_blocks_that_changed_places_are_noticed() {
    // Keys and values of one length, twenty a block, fill every block alike.
    let versions: Vec<Version> = (0..200u64)
        .map(|n| (format!("key{n:05}").into_bytes(), 1 << 20 | n, Kind::Put, vec![n as u8; 198]))
        .collect();
    let (good, info) = stored(Compression::None, &versions);
    let starts: Vec<usize> = (0..good.len() - 12)
        .filter(|&at| good[at..at + 12] == good[..12])
        .take_while(|&at| at < info.properties.data_bytes as usize)
        .collect();
    let (a, b, c) = (starts[0], starts[1], starts[2]);
    assert_eq!(b - a, c - b, "two blocks of one length");
    let swapped = [&good[b..c], &good[a..b], &good[c..]].concat();
    check_damaged(swapped, &info, &versions, "swapped");
}

#[test]
fn damage_is_reported_with_its_file_and_place() {
    let versions = versions(100, 150);
    let (mut bytes, info) = stored(Compression::None, &versions);
    bytes[5000] ^= 1;
    let table = open_bytes(bytes, &info).unwrap();
    let all = complaints(&table);
    let Error::Corruption { file, offset, .. } = &all[0] else { panic!("{all:?}") };
    assert_eq!((all.len(), &file[..]), (1, "memory"));
    assert!((1000..=5000).contains(offset), "the start of the block that holds the byte");
    let readable = versions.iter().filter(|(key, ..)| get(&table, key, MAX_SEQNO).is_ok()).count();
    assert!(readable > versions.len() / 2, "other blocks still answer");
}

/// The bytes of a table whose first value has, `at` bytes behind its start, the checksum of all before it, so that the block seems
/// to end there. `code` is the byte before, where a block has its compression.
fn with_a_false_end(versions: &mut [Version], at: usize, code: u8) -> (Vec<u8>, TableInfo) {
    versions[0].3[at - 1] = code;
    let (bytes, _) = stored(Compression::None, versions);
    let value = bytes.windows(at).position(|part| part == &versions[0].3[..at]).unwrap();
    let checksum = block_checksum(FILE_ID, 0, BlockKind::Data, &bytes[..value + at]);
    versions[0].3[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    stored(Compression::None, versions)
}

#[test]
fn a_checksum_within_a_block_does_not_end_it_for_a_table_without_a_footer() {
    // No compression, those that there are, and none that there is.
    for code in [0, 1, 2, 3, 0xff] {
        let mut versions: Vec<Version> = versions(60, 200);
        let (bytes, info) = with_a_false_end(&mut versions, 120, code);
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        for (bytes, is_damaged) in [(bytes, false), (damaged, true)] {
            let file = Arc::new(Finished { bytes, reads: AtomicU64::new(0) });
            let table = SalvagedTable::open(file, FILE_ID, info.offset, info.bytes).unwrap();
            let (mut cursor, mut found) = (table.cursor(), Vec::new());
            while cursor.advance().unwrap() {
                let key = cursor.key().to_vec();
                found.push((key, cursor.seqno(), cursor.kind(), cursor.value().to_vec()));
            }
            assert!(found == versions, "code {code}, damaged {is_damaged}: {}", found.len());
            assert!(cursor.lost().is_empty(), "{:?}", cursor.lost());
        }
    }
}
