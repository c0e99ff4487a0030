//! Tables whose index and filter are in parts: what is in memory, and what is read.

use crate::support::*;
use esker_base::{EntryCursor, Error, Kind, MAX_SEQNO, hash64};
use esker_storage::WideReader;
use esker_table::format::HAS_PARTS;
use esker_table::{BlockCache, PartLimits, Patience, ReadPurpose, Table, TableOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const KEYS: u64 = 40_000;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn versions() -> Vec<Version> {
    (0..KEYS).map(|n| (key(n), n + 1, Kind::Put, vec![n as u8; 100])).collect()
}

/// A table of 40,000 versions in six parts or so, its file and its cache.
fn large(
    options: TableOptions,
    cache_bytes: usize,
) -> (Arc<Table>, Arc<Finished>, Arc<BlockCache>) {
    let mut file = Growing::default();
    let info = write_to(&mut file, options, &versions(), &[]);
    let file = Arc::new(Finished { bytes: file.0, ..Finished::default() });
    let cache = Arc::new(BlockCache::new(cache_bytes));
    let table = Table::open(file.clone(), FILE_ID, 0, info.bytes, cache.clone()).unwrap();
    file.reads.store(0, Ordering::Relaxed);
    (Arc::new(table), file, cache)
}

fn features(file: &Growing) -> u32 {
    let at = file.0.len() - 28;
    u32::from_le_bytes(file.0[at..at + 4].try_into().unwrap())
}

#[test]
fn only_tables_with_a_large_index_and_filter_have_parts() {
    for (keys, has_parts) in [(0, false), (1, false), (9_000, false), (15_000, true)] {
        let mut file = Growing::default();
        write_to(&mut file, options(), &versions()[..keys], &[]);
        assert_eq!(features(&file) & HAS_PARTS != 0, has_parts, "{keys} keys");
    }
}

/// As a table may become too large for a whole index with any of its blocks, or at its end.
#[test]
fn a_table_reads_back_wherever_the_limit_is() {
    let versions = &versions()[..2_000];
    for whole_bytes_max in (0..6_000).step_by(150) {
        let parts = PartLimits { bytes: 500, blocks_min: 3, whole_bytes_max };
        let (table, info) = table(TableOptions { parts, ..options() }, versions, &[]);
        assert!(scan(&table, ReadPurpose::Read).unwrap() == versions);
        assert_eq!(table.properties(), &info.properties);
        assert!(complaints(&table).is_empty(), "{:?}", complaints(&table));
    }
}

#[test]
fn an_open_table_has_the_top_in_memory_and_the_cache_the_parts_that_are_used() {
    let (whole, ..) = large(TableOptions { parts: WHOLE, ..options() }, 4 << 20);
    let (table, file, cache) = large(options(), 4 << 20);
    assert!(table.memory_bytes() + 50_000 < whole.memory_bytes());
    assert_eq!((cache.part_bytes(), table.filter_bytes()), (0, 0));
    assert_eq!(get(&table, &key(7), MAX_SEQNO).unwrap().unwrap().seqno, 8);
    assert_eq!(file.reads.load(Ordering::Relaxed), 2, "a part and a data block");
    let one = cache.part_bytes();
    assert!((10_000..40_000).contains(&one), "{one}");
    assert!((5_000..one).contains(&table.filter_bytes()));
    get(&table, &key(8), MAX_SEQNO).unwrap();
    assert_eq!((file.reads.load(Ordering::Relaxed), cache.part_bytes()), (2, one));
    for n in 0..KEYS {
        assert_eq!(get(&table, &key(n), MAX_SEQNO).unwrap().unwrap().seqno, n + 1);
    }
    let all = cache.part_bytes();
    assert!(all > 3 * one && cache.used_bytes() > all && cache.used_bytes() <= 4 << 20);
    assert_eq!(cache.own_bytes(), cache.used_bytes());
    drop(table);
    assert_eq!(cache.part_bytes(), 0, "a closed table has none");
}

#[test]
fn a_cache_of_any_size_serves_and_stays_in_its_bytes() {
    for cache_bytes in [0, 1_000, 30_000, 60_000, 200_000] {
        let (table, _, cache) = large(options(), cache_bytes);
        for n in (0..KEYS).map(|n| n * 7_919 % KEYS).step_by(11) {
            assert_eq!(get(&table, &key(n), MAX_SEQNO).unwrap().unwrap().seqno, n + 1);
            assert!(cache.used_bytes() <= cache_bytes, "{cache:?}");
        }
        assert!(scan(&table, ReadPurpose::Read).unwrap() == versions());
        assert!(cache.used_bytes() <= cache_bytes, "{cache:?}");
    }
}

#[test]
fn the_cache_gives_the_bytes_of_parts_back_to_data_blocks() {
    let (table, _, cache) = large(options(), 400_000);
    let blocks = || cache.used_bytes() - cache.part_bytes();
    for n in (0..KEYS).step_by(20) {
        get(&table, &key(n), MAX_SEQNO).unwrap();
    }
    let beside_parts = blocks();
    assert!(
        cache.part_bytes() > 80_000 && beside_parts < 320_000,
        "{}, {beside_parts}",
        cache.part_bytes()
    );
    let mut bytes = Growing::default();
    let info = write_to(&mut bytes, TableOptions { parts: WHOLE, ..options() }, &versions(), &[]);
    let other = Arc::new(Finished { bytes: bytes.0, ..Finished::default() });
    let own = Arc::new(cache.for_another_owner(WideReader::without_threads()));
    let whole = Table::open(other, FILE_ID, 0, info.bytes, own).unwrap();
    drop(table);
    for n in (0..KEYS).step_by(20) {
        get(&whole, &key(n), MAX_SEQNO).unwrap();
    }
    assert!(blocks() > beside_parts + 50_000, "{} and {beside_parts}", blocks());
    assert!(cache.used_bytes() <= 400_000);
}

#[test]
fn lookups_from_memory_block_for_parts_that_are_not_there() {
    let (table, file, _) = large(options(), 4 << 20);
    let may = |n, patience| table.may_contain(&key(n), hash64(&key(n)), MAX_SEQNO, patience);
    assert!(matches!(may(5, Patience::FromMemory), Err(Error::WouldBlock)));
    assert!(matches!(table.try_find(&key(5), MAX_SEQNO), Err(Error::WouldBlock)));
    assert_eq!(file.reads.load(Ordering::Relaxed), 0);
    assert!(may(5, Patience::MayRead).unwrap() && may(5, Patience::FromMemory).unwrap());
    assert!(matches!(table.try_find(&key(5), MAX_SEQNO), Err(Error::WouldBlock)), "its block");
    get(&table, &key(5), MAX_SEQNO).unwrap();
    assert_eq!(table.try_find(&key(5), MAX_SEQNO).unwrap().unwrap().seqno, 6);
    let behind = b"zzz";
    let beyond = table.may_contain(behind, hash64(behind), MAX_SEQNO, Patience::FromMemory);
    assert!(!beyond.unwrap(), "the top tells");
}

#[test]
fn scans_and_compactions_leave_the_parts_of_lookups() {
    // Room for three parts or so.
    let (table, _, cache) = large(options(), 150_000);
    let is_there = |n| {
        let found = table.may_contain(&key(n), hash64(&key(n)), MAX_SEQNO, Patience::FromMemory);
        !matches!(found, Err(Error::WouldBlock))
    };
    for _ in 0..4 {
        get(&table, &key(10), MAX_SEQNO).unwrap();
    }
    let before = cache.part_bytes();
    scan(&table, ReadPurpose::Compaction).unwrap();
    assert_eq!(cache.part_bytes(), before);
    scan(&table, ReadPurpose::Read).unwrap();
    assert!(is_there(10));
}

#[test]
fn a_cursor_reads_a_part_once_for_all_of_its_blocks() {
    let (table, file, _) = large(options(), 0);
    let mut cursor = table.cursor(ReadPurpose::Read);
    cursor.seek(&key(100), MAX_SEQNO).unwrap();
    let first = file.reads.load(Ordering::Relaxed);
    assert_eq!(first, 2, "a part and a block");
    for _ in 0..500 {
        cursor.next().unwrap();
    }
    let blocks = 500 * 110 / 4096 + 1;
    let read = file.reads.load(Ordering::Relaxed) - first;
    assert!(read <= blocks + 3, "{read} reads for {blocks} blocks");
}

#[test]
fn the_bytes_of_a_range_are_estimated_by_parts_and_exact_where_these_are_in_memory() {
    let (whole, ..) = large(TableOptions { parts: WHOLE, ..options() }, 0);
    let (table, ..) = large(options(), 4 << 20);
    let all = table.properties().data_bytes;
    for (from, to) in [(0, KEYS / 2), (KEYS / 3, KEYS), (5, 5), (KEYS / 4, KEYS / 2)] {
        let within = |table: &Table| table.bytes_within(&key(from), &key(to));
        let (exact, about) = (within(&whole), within(&table));
        assert!(exact.abs_diff(about) < all / 5, "{from} to {to}: {about}, {exact}");
        for n in [from, to] {
            get(&table, &key(n), MAX_SEQNO).unwrap();
        }
        assert_eq!(within(&table), exact, "{from} to {to}");
    }
}
