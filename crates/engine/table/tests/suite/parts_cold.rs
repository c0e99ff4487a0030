//! Reads of tables in parts that no cache has: many keys at once.

use crate::support::*;
use esker_base::background::Stepped;
use esker_base::{EntryCursor, Error, Kind, MAX_SEQNO, hash64};
use esker_storage::WideReader;
use esker_table::{BlockCache, BlockReadStats, ReadPurpose, Table, WideLookup};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const KEYS: u64 = 20_000;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn cold(cache_bytes: usize) -> (Arc<Table>, Arc<Finished>, Arc<BlockCache>) {
    let versions: Vec<Version> =
        (0..KEYS).map(|n| (key(n), n + 1, Kind::Put, vec![n as u8; 100])).collect();
    let mut file = Growing::default();
    let info = write_to(&mut file, options(), &versions, &[]);
    let file = Arc::new(Finished { bytes: file.0, ..Finished::default() });
    let reader = WideReader::new(Arc::new(Stepped), 1 << 20);
    let cache = Arc::new(BlockCache::new(cache_bytes).for_another_owner(reader));
    let table = Table::open(file.clone(), FILE_ID, 0, info.bytes, cache.clone()).unwrap();
    file.reads.store(0, Ordering::Relaxed);
    (Arc::new(table), file, cache)
}

/// What a lookup of these keys finds, and in how many rounds of reads.
fn found(table: &Arc<Table>, cache: &BlockCache, keys: &[u64]) -> (Vec<Option<u64>>, usize) {
    let (mut lookup, mut stats) = (WideLookup::default(), BlockReadStats::default());
    let mut found = vec![None; keys.len()];
    let mut waiting: Vec<usize> = (0..keys.len()).collect();
    for round in 0..100 {
        waiting.retain(|&at| {
            let key = key(keys[at]);
            match lookup.may_contain(table, &key, hash64(&key), MAX_SEQNO) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(Error::WouldBlock) => return true,
                Err(error) => panic!("{error}"),
            }
            match lookup.find(table, &key, MAX_SEQNO, &mut stats) {
                Ok(version) => found[at] = version.map(|version| version.seqno),
                Err(Error::WouldBlock) => return true,
                Err(error) => panic!("{error}"),
            }
            false
        });
        if waiting.is_empty() {
            return (found, round);
        }
        assert!(lookup.has_noted());
        lookup.read(cache.reader());
    }
    panic!("the lookup does not end");
}

#[test]
fn a_scan_reads_ahead_from_part_to_part_both_ways() {
    let (table, file, _) = cold(1 << 20);
    let blocks = table.properties().data_blocks;
    for is_backward in [false, true] {
        let mut cursor = table.cursor(ReadPurpose::Read);
        cursor.set_start(Bound::Unbounded);
        let mut expected: Vec<u64> = (0..KEYS).collect();
        if is_backward {
            expected.reverse();
            cursor.seek_last().unwrap();
        } else {
            cursor.seek_first().unwrap();
        }
        for n in expected {
            assert_eq!(cursor.key(), key(n));
            if is_backward { cursor.prev().unwrap() } else { cursor.next().unwrap() }
        }
        assert!(!cursor.valid());
        let reads = file.reads.swap(0, Ordering::Relaxed);
        assert!(reads < blocks / 4, "{reads} reads of {blocks} blocks");
    }
}

#[test]
fn lookups_of_many_keys_read_the_parts_at_once_and_then_the_blocks() {
    let keys: Vec<u64> = (0..400).map(|n| n * 2_503 % (KEYS + 500)).collect();
    let expected: Vec<_> = keys.iter().map(|&n| (n < KEYS).then_some(n + 1)).collect();
    let (table, file, cache) = cold(4 << 20);
    assert_eq!(found(&table, &cache, &keys), (expected.clone(), 2));
    let reads = file.reads.load(Ordering::Relaxed);
    assert!(reads < 450, "{reads} reads");
    assert_eq!(found(&table, &cache, &keys), (expected.clone(), 0), "all is cached");
    assert_eq!(file.reads.load(Ordering::Relaxed), reads);
    // Nothing that is read stays.
    for cache_bytes in [0, 20_000] {
        let (table, _, cache) = cold(cache_bytes);
        assert_eq!(found(&table, &cache, &keys), (expected.clone(), 2));
    }
}
