//! Damage to parts of indexes and filters: what is not damaged can be read, and no key is hidden.

use crate::support::*;
use esker_base::{Error, Kind, MAX_SEQNO, RangeTombstone};
use esker_table::format::HAS_PARTS;
use esker_table::{Compression, ReadPurpose, SalvagedTable, Table, TableInfo, TableOptions};
use std::sync::Arc;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// Several blocks, and a key whose versions are in two parts.
fn versions() -> Vec<Version> {
    let mut versions: Vec<Version> = (0..120)
        .map(|n| (key(n), 1_000 + n as u64, Kind::Put, vec![n as u8; 150]))
        .chain((0..40).map(|n| (key(60), 2_000 + n, Kind::Put, vec![n as u8; 200])))
        .collect();
    sort(&mut versions);
    versions
}

fn stored(versions: &[Version]) -> (Vec<u8>, TableInfo) {
    let mut file = Growing::default();
    let (compression, parts) = (Compression::None, SMALL_PARTS);
    let options = TableOptions { compression, parts, ..options() };
    let tombstone = RangeTombstone { start: key(3), end: key(4), seqno: 1 };
    let info = write_to(&mut file, options, versions, &[tombstone]);
    (file.0, info)
}

/// Where the parts are.
fn part_bytes(bytes: &[u8]) -> std::ops::Range<usize> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let footer = bytes.len() - 92;
    let features = u32::from_le_bytes(bytes[footer + 64..footer + 68].try_into().unwrap());
    assert_ne!(features & HAS_PARTS, 0);
    word(footer)..word(footer) + word(footer + 8)
}

/// How many versions can be read; others fail with a report of damage in the parts.
fn readable(table: &Table, versions: &[Version], parts: &std::ops::Range<usize>) -> usize {
    let mut found = 0;
    for (key, seqno, _, value) in versions {
        match get(table, key, *seqno) {
            Ok(version) => {
                let version = version.expect("a damaged filter hides no key");
                assert_eq!((version.seqno, version.value.bytes()), (*seqno, &value[..]));
                found += 1;
            }
            Err(Error::Corruption { file, offset, .. }) => {
                assert!(file == "memory" && parts.contains(&(offset as usize)), "{offset}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    found
}

#[test]
fn every_wrong_byte_of_the_parts_is_noticed_and_costs_one_part_at_most() {
    let versions = versions();
    let (good, info) = stored(&versions);
    let parts = part_bytes(&good);
    let (mut of_filters, mut of_indexes) = (0, 0);
    for at in parts.clone().step_by(2) {
        let mut bad = good.clone();
        bad[at] = !bad[at];
        let table = open_bytes(bad.clone(), &info).unwrap();
        let all = complaints(&table);
        let Error::Corruption { file, offset, what } = &all[0] else { panic!("{all:?}") };
        assert_eq!((all.len(), &file[..]), (1, "memory"), "byte {at}: {all:?}");
        assert!((parts.start..=at).contains(&(*offset as usize)), "byte {at}: {offset}");
        let found = readable(&table, &versions, &parts);
        let scanned = scan(&table, ReadPurpose::Read);
        if what.starts_with("part of the filter") {
            of_filters += 1;
            assert!(found == versions.len() && scanned.unwrap() == versions, "byte {at}");
        } else {
            of_indexes += 1;
            assert!(what.starts_with("part of the index"), "{what}");
            assert!(found < versions.len() && found > versions.len() / 2, "byte {at}: {found}");
            assert!(scanned.unwrap_err().is_corruption());
        }
        // Its blocks are intact, so that a repair finds them one by one.
        assert_eq!(salvaged(bad, &info), (versions.clone(), vec![]), "byte {at}");
    }
    assert!(of_filters > 100 && of_indexes > 40, "{of_filters}, {of_indexes}");
}

type Lost = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn salvaged(bytes: Vec<u8>, info: &TableInfo) -> (Vec<Version>, Lost) {
    let file = Arc::new(Finished { bytes, ..Finished::default() });
    let table = SalvagedTable::open(file, FILE_ID, info.offset, info.bytes).unwrap();
    let (mut cursor, mut found) = (table.cursor(), Vec::new());
    while cursor.advance().unwrap() {
        let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
        found.push((key, cursor.seqno(), cursor.kind(), value));
    }
    let lost = cursor.lost().iter().map(|lost| (lost.from.clone(), lost.to.clone()));
    (found, lost.collect())
}

/// The first data block of the part is found; the second one is damaged. The parts around it are intact.
#[test]
fn a_repair_around_a_damaged_part_and_block_names_the_keys_between_them() {
    let versions = versions();
    let (mut bytes, info) = stored(&versions);
    let parts = part_bytes(&bytes);
    let middle = parts.start + parts.len() / 2;
    // Whatever of the part: its index, its filter and both trailers.
    let table = open_bytes(bytes.clone(), &info).unwrap();
    let total = versions.len();
    bytes[middle..middle + parts.len() / 10].fill(0xee);
    let damaged = open_bytes(bytes.clone(), &info).unwrap();
    let of_part: Vec<&Version> =
        versions.iter().filter(|it| get(&damaged, &it.0, it.1).is_err()).collect();
    assert!(of_part.len() > 10 && get(&table, &of_part[0].0, MAX_SEQNO).is_ok());
    let value = &of_part[of_part.len() * 3 / 4].3;
    let at = bytes.windows(value.len()).position(|part| part == &value[..]).unwrap();
    bytes[at] ^= 1;
    let (found, lost) = salvaged(bytes, &info);
    assert!(found.len() > total / 2 && found.len() < total, "{} of {total}", found.len());
    let (from, to) = (&lost[0].0, lost[0].1.as_ref().unwrap());
    assert_eq!(lost.len(), 1, "{lost:?}");
    for version in versions.iter().filter(|version| !found.contains(version)) {
        assert!(from <= &version.0 && &version.0 <= to, "{version:?} in {lost:?}");
    }
}

#[test]
fn a_table_in_parts_without_a_footer_is_found_whole() {
    let versions = versions();
    let (mut bytes, info) = stored(&versions);
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(salvaged(bytes.clone(), &info), (versions.clone(), vec![]));
    let file = Arc::new(Finished { bytes, ..Finished::default() });
    let table = SalvagedTable::open(file, FILE_ID, info.offset, info.bytes).unwrap();
    assert_eq!(table.tombstones().unwrap().covering(&key(3), MAX_SEQNO), 1);
    assert_eq!(table.properties().unwrap().entries, versions.len() as u64);
}

#[test]
fn a_damaged_top_is_refused_and_salvaged() {
    let versions = versions();
    let (good, info) = stored(&versions);
    let top = good.len() - 92 - 20;
    let mut bad = good;
    bad[top] ^= 1;
    assert!(open_bytes(bad.clone(), &info).unwrap_err().is_corruption());
    assert_eq!(salvaged(bad, &info), (versions, vec![]));
}
