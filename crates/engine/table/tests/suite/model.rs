//! Random tables agree with an ordered list of versions, however they are read.

use crate::support::*;
use esker_base::{EntryCursor, Kind, MAX_SEQNO, RangeTombstone};
use esker_table::{Compression, ReadPurpose, Table, TableOptions};
use proptest::prelude::*;
use std::sync::Arc;

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        // A small alphabet: shared prefixes, prefixes of each other, many versions.
        6 => prop::collection::vec(prop::sample::select(&[0u8, 1, 0x7f, 0xff][..]), 1..6),
        2 => (0u32..2000).prop_map(|n| format!("user{n:012}").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 1..300),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    let seqno = prop_oneof![6 => 0u64..20, 2 => 0u64..1 << 30, 1 => Just(MAX_SEQNO)];
    let value = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..40),
        2 => (any::<u8>(), 0usize..1500).prop_map(|(byte, len)| vec![byte; len]),
    ];
    let kind = prop_oneof![Just(Kind::Put), Just(Kind::Put), Just(Kind::Delete)];
    (key(), seqno, kind, value).prop_map(|(key, seqno, kind, value)| {
        (key, seqno, kind, if kind == Kind::Delete { vec![] } else { value })
    })
}

fn versions(max: usize) -> impl Strategy<Value = Vec<Version>> {
    prop::collection::vec(version(), 0..max).prop_map(|mut versions| {
        sort(&mut versions);
        versions
    })
}

fn table_options() -> impl Strategy<Value = TableOptions> {
    let compression =
        prop::sample::select(&[Compression::None, Compression::Lz4, Compression::Zstd][..]);
    let fingerprint_bits = prop::sample::select(&[0u8, 8, 11, 16, 32][..]);
    let parts = prop::sample::select(&[WHOLE, SMALL_PARTS][..]);
    (compression, fingerprint_bits, parts).prop_map(|(compression, fingerprint_bits, parts)| {
        TableOptions { compression, fingerprint_bits, parts, ..options() }
    })
}

/// Keys and seqnos to look for: those there are, their neighbours, and others.
fn targets(versions: &[Version]) -> Vec<(Vec<u8>, u64)> {
    let mut targets = vec![(vec![0], MAX_SEQNO), (vec![0xff; 301], 0), (b"user".to_vec(), 5)];
    for (key, seqno, ..) in versions {
        let longer = [&key[..], &[0]].concat();
        targets.extend([
            (key.clone(), *seqno),
            (key.clone(), seqno.saturating_sub(1)),
            (key.clone(), (seqno + 1).min(MAX_SEQNO)),
            (key.clone(), MAX_SEQNO),
            (longer, 3),
        ]);
        if key.len() > 1 {
            targets.push((key[..key.len() - 1].to_vec(), 0));
        }
    }
    targets
}

/// The position of the first version at or after a target.
fn position(versions: &[Version], key: &[u8], seqno: u64) -> usize {
    versions.partition_point(|(other, other_seqno, ..)| {
        (&other[..], std::cmp::Reverse(*other_seqno)) < (key, std::cmp::Reverse(seqno))
    })
}

fn check_gets(table: &Table, versions: &[Version]) {
    for (key, snapshot) in targets(versions) {
        let expected =
            versions.get(position(versions, &key, snapshot)).filter(|(other, ..)| *other == key);
        let found = get(table, &key, snapshot).unwrap();
        let found = found.map(|found| (found.seqno, found.kind, found.value.bytes().to_vec()));
        assert_eq!(
            found,
            expected.map(|(_, seqno, kind, value)| (*seqno, *kind, value.clone())),
            "{key:?} at {snapshot}"
        );
    }
}

fn check_cursor(table: &Arc<Table>, versions: &[Version], purpose: ReadPurpose) {
    assert_eq!(scan(table, purpose).unwrap(), versions);
    let mut cursor = table.cursor(purpose);
    let mut backward = Vec::new();
    cursor.seek_last().unwrap();
    while cursor.valid() {
        backward.push(version_at(&cursor));
        cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(backward, versions);
    let at = |cursor: &_| Some(version_at(cursor));
    for (key, seqno) in targets(versions) {
        let expected = position(versions, &key, seqno);
        cursor.seek(&key, seqno).unwrap();
        let found = if cursor.valid() { at(&cursor) } else { None };
        assert_eq!(found.as_ref(), versions.get(expected), "seek {key:?} {seqno}");
        cursor.seek_before(&key, seqno).unwrap();
        let found = if cursor.valid() { at(&cursor) } else { None };
        let before = expected.checked_sub(1).map(|before| &versions[before]);
        assert_eq!(found.as_ref(), before, "seek_before {key:?} {seqno}");
    }
}

fn check_walk(table: &Arc<Table>, versions: &[Version], steps: &[bool]) {
    let mut cursor = table.cursor(ReadPurpose::Read);
    let mut at = versions.len() / 2;
    let Some((key, seqno, ..)) = versions.get(at) else { return };
    cursor.seek(key, *seqno).unwrap();
    for &forward in steps {
        if forward && at + 1 < versions.len() {
            cursor.next().unwrap();
            at += 1;
        } else if !forward && at > 0 {
            cursor.prev().unwrap();
            at -= 1;
        }
        assert_eq!(version_at(&cursor), versions[at]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_reads_back_as_it_was_written(
        options in table_options(),
        versions in versions(300),
        steps in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let (table, info) = table(options, &versions, &[]);
        prop_assert_eq!(table.properties(), &info.properties);
        prop_assert_eq!(info.properties.entries, versions.len() as u64);
        check_gets(&table, &versions);
        check_cursor(&table, &versions, ReadPurpose::Read);
        check_cursor(&table, &versions, ReadPurpose::Compaction);
        check_walk(&table, &versions, &steps);
        prop_assert!(complaints(&table).is_empty(), "{:?}", complaints(&table));
    }

    #[test]
    fn versions_of_one_key_may_fill_many_blocks(
        count in 1u64..400,
        value_bytes in 0usize..200,
        compression in prop::sample::select(&[Compression::None, Compression::Lz4][..]),
        parts in prop::sample::select(&[WHOLE, SMALL_PARTS][..]),
    ) {
        let mut versions: Vec<Version> = (0..count)
            .map(|n| (b"hot".to_vec(), 3 * n, Kind::Put, vec![n as u8; value_bytes]))
            .chain([(b"ho".to_vec(), 5, Kind::Put, vec![]), (b"hou".to_vec(), 5, Kind::Put, vec![])])
            .collect();
        sort(&mut versions);
        let (table, info) = table(TableOptions { compression, parts, ..options() }, &versions, &[]);
        prop_assert_eq!(info.properties.keys, 3);
        check_gets(&table, &versions);
        check_cursor(&table, &versions, ReadPurpose::Read);
    }

    #[test]
    fn range_tombstones_come_back_and_widen_the_bounds(
        versions in versions(20),
        ranges in prop::collection::vec((key(), key(), 0u64..100), 0..10),
    ) {
        let tombstones: Vec<_> = ranges
            .into_iter()
            .map(|(start, end, seqno)| RangeTombstone { start, end, seqno })
            .collect();
        let (table, info) = table(options(), &versions, &tombstones);
        let expected = esker_base::FragmentedTombstones::new(tombstones.clone());
        prop_assert_eq!(&**table.tombstones(), &expected);
        let properties = &info.properties;
        let real = tombstones.iter().filter(|tombstone| tombstone.start < tombstone.end);
        let keys = versions.iter().map(|(key, ..)| key);
        let keys = keys.chain(real.clone().flat_map(|t| [&t.start, &t.end]));
        prop_assert_eq!(keys.clone().min(), Some(&properties.smallest).filter(|k| !k.is_empty()));
        prop_assert_eq!(keys.max(), Some(&properties.largest).filter(|k| !k.is_empty()));
        let deletes = versions.iter().filter(|version| version.2 == Kind::Delete);
        let deletes = deletes.map(|(_, seqno, ..)| *seqno).chain(real.clone().map(|t| t.seqno));
        prop_assert_eq!(deletes.min(), properties.oldest_delete);
        let seqnos = versions.iter().map(|(_, seqno, ..)| *seqno).chain(real.map(|t| t.seqno));
        prop_assert_eq!(seqnos.clone().min().unwrap_or(0), properties.smallest_seqno);
        prop_assert_eq!(seqnos.max().unwrap_or(0), properties.largest_seqno);
        prop_assert!(complaints(&table).is_empty());
    }
}
