//! What a table does in addition to giving its versions back.

use crate::support::*;
use esker_base::{EntryCursor, Error, KeyspaceId, Kind, MAX_KEY_BYTES, MAX_SEQNO, RangeTombstone};
use esker_table::{
    BlockCache, BlockReadStats, Compression, ReadPurpose, Table, TableOptions, TableWriter,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn versions(prefix: &str, count: u64) -> Vec<Version> {
    (0..count)
        .map(|n| (format!("{prefix}{n:06}").into_bytes(), n, Kind::Put, vec![n as u8; 100]))
        .collect()
}

/// A table of 20,000 versions, its file and its cache.
fn large() -> (Arc<Table>, Arc<Finished>, Arc<BlockCache>) {
    let mut file = Growing::default();
    let options = TableOptions { parts: WHOLE, ..options() };
    let info = write_to(&mut file, options, &versions("key", 20_000), &[]);
    let file = Arc::new(Finished { bytes: file.0, ..Finished::default() });
    let cache = Arc::new(BlockCache::new(1 << 20));
    let table = Table::open(file.clone(), FILE_ID, 0, info.bytes, cache.clone()).unwrap();
    file.reads.store(0, Ordering::Relaxed);
    (Arc::new(table), file, cache)
}

#[test]
fn several_tables_share_one_file() {
    let mut file = Growing(b"something else first".to_vec());
    let infos: Vec<_> = (0..4)
        .map(|n| {
            let options = TableOptions { keyspace: KeyspaceId(n), ..options() };
            let versions = versions(&format!("table{n}/"), 50 * u64::from(n));
            write_to(&mut file, options, &versions, &[])
        })
        .collect();
    for (n, info) in infos.iter().enumerate() {
        let next = infos.get(n + 1).map_or(file.0.len() as u64, |next| next.offset);
        assert_eq!(info.offset + info.bytes, next, "back to back");
        let table = open_bytes(file.0.clone(), info).unwrap();
        assert_eq!(table.properties().keyspace, KeyspaceId(n as u32));
        let expected = versions(&format!("table{n}/"), 50 * n as u64);
        assert_eq!(scan(&table, ReadPurpose::Read).unwrap(), expected);
        assert!(complaints(&table).is_empty());
    }
}

#[test]
fn try_find_blocks_only_for_what_is_not_cached() {
    let (table, file, _) = large();
    let try_find = |key: &[u8]| table.try_find(key, MAX_SEQNO);
    assert!(matches!(try_find(b"key000100"), Err(Error::WouldBlock)));
    assert_eq!(file.reads.load(Ordering::Relaxed), 0);
    let found = get(&table, b"key000100", MAX_SEQNO).unwrap();
    assert_eq!(file.reads.load(Ordering::Relaxed), 1);
    assert_eq!(try_find(b"key000100").unwrap(), found);
    assert_eq!(try_find(b"zzz").unwrap(), None, "behind the last block");
    assert_eq!(file.reads.load(Ordering::Relaxed), 1);
}

#[test]
fn a_lookup_tells_what_it_read_of_the_file() {
    let (table, file, _) = large();
    let mut loaded = BlockReadStats::default();
    let mut find = |key: &[u8]| {
        table.find(key, MAX_SEQNO, &mut loaded).unwrap().unwrap();
        loaded
    };
    let first = find(b"key000100");
    let a_block = table.properties().data_bytes / table.properties().data_blocks;
    assert!(first.blocks == 1 && first.bytes.abs_diff(a_block) < a_block / 2, "{first:?}");
    assert_eq!(find(b"key000100"), first, "it is cached now");
    assert_eq!(find(b"key019999").blocks, 2);
    assert_eq!(file.reads.load(Ordering::Relaxed), 2);
}

#[test]
fn the_filter_spares_reads_of_absent_keys() {
    let (table, file, _) = large();
    let absent = (0..10_000).map(|n| format!("key{n:06}x").into_bytes());
    for key in absent {
        assert_eq!(get(&table, &key, MAX_SEQNO).unwrap(), None);
    }
    assert!(file.reads.load(Ordering::Relaxed) < 10, "one in 65,536 passes");
}

#[test]
fn the_cache_is_filled_by_readers_and_stays_bounded() {
    let (table, file, cache) = large();
    scan(&table, ReadPurpose::Read).unwrap();
    assert_eq!(file.reads.load(Ordering::Relaxed), table.properties().data_blocks);
    assert!(cache.used_bytes() > 500_000 && cache.used_bytes() <= 1 << 20);
    cache.set_capacity(8 << 20);
    scan(&table, ReadPurpose::Read).unwrap();
    file.reads.store(0, Ordering::Relaxed);
    scan(&table, ReadPurpose::Read).unwrap();
    assert_eq!(file.reads.load(Ordering::Relaxed), 0, "all of it fits now");
}

#[test]
fn compaction_reads_large_pieces_past_the_cache() {
    let (table, file, cache) = large();
    scan(&table, ReadPurpose::Compaction).unwrap();
    assert_eq!((cache.used_bytes(), cache.misses()), (0, 0));
    let pieces = table.properties().data_bytes.div_ceil(200 << 10);
    assert!(file.reads.load(Ordering::Relaxed) <= pieces);
}

#[test]
fn a_cursor_keeps_its_table_and_block() {
    let (table, _, cache) = large();
    let mut cursor = table.cursor(ReadPurpose::Read);
    cursor.seek(b"key000100", MAX_SEQNO).unwrap();
    drop(table);
    cache.set_capacity(0);
    let cursor = std::thread::scope(|scope| {
        let moved = scope.spawn(move || {
            cursor.next().unwrap();
            cursor
        });
        moved.join().unwrap()
    });
    assert_eq!(cursor.key(), b"key000101");
}

#[test]
fn tables_without_versions_or_without_anything_are_tables() {
    let tombstone = RangeTombstone { start: b"b".to_vec(), end: b"d".to_vec(), seqno: 9 };
    let (only_tombstones, info) = table(options(), &[], &[tombstone]);
    let properties = &info.properties;
    assert_eq!((&properties.smallest[..], &properties.largest[..]), (&b"b"[..], &b"d"[..]));
    assert_eq!((properties.smallest_seqno, properties.largest_seqno), (9, 9));
    assert_eq!(only_tombstones.tombstones().covering(b"c", MAX_SEQNO), 9);
    let (nothing, info) = table(options(), &[], &[]);
    assert_eq!((info.properties.smallest_seqno, info.properties.largest_seqno), (0, 0));
    for table in [only_tombstones, nothing] {
        assert_eq!(get(&table, b"c", MAX_SEQNO).unwrap(), None);
        assert_eq!(scan(&table, ReadPurpose::Compaction).unwrap(), []);
        let mut cursor = table.cursor(ReadPurpose::Read);
        cursor.seek_last().unwrap();
        assert!(!cursor.valid());
        assert!(complaints(&table).is_empty());
    }
}

#[test]
fn the_size_is_estimated_while_writing() {
    let mut file = Growing::default();
    let mut writer = TableWriter::new(&mut file, options());
    assert!(writer.is_empty());
    for (key, seqno, kind, value) in versions("key", 20_000) {
        writer.add(&key, seqno, kind, &value).unwrap();
    }
    assert!(!writer.is_empty());
    let estimate = writer.estimated_bytes() as f64;
    let bytes = writer.finish().unwrap().bytes as f64;
    assert!((estimate / bytes - 1.0).abs() < 0.03, "{estimate} estimated, {bytes} written");
}

#[test]
fn a_table_of_long_keys_that_are_alike_is_as_large_as_its_separators() {
    let mut file = Growing::default();
    let options = TableOptions { compression: Compression::Lz4, ..options() };
    let mut writer = TableWriter::new(&mut file, options);
    let prefix = vec![b'k'; MAX_KEY_BYTES - 8];
    for n in 0..200u64 {
        writer.add(&[&prefix, &n.to_be_bytes()[..]].concat(), 1, Kind::Put, b"").unwrap();
    }
    let estimate = writer.estimated_bytes();
    // Of the last block it is not known yet what comes after it.
    assert!(estimate >= 199 * prefix.len() as u64, "{estimate}");
    let bytes = writer.finish().unwrap().bytes;
    assert!(bytes < estimate / 20, "{bytes} bytes: keys that pack well are what this is about");
}

#[test]
fn sketches_count_the_keys_of_overlapping_tables() {
    let with_filter = versions("key", 20_000);
    let (a, _) = table(options(), &with_filter[..12_000], &[]);
    let (b, _) =
        table(TableOptions { fingerprint_bits: 0, ..options() }, &with_filter[8_000..], &[]);
    let mut union = (*a.properties().sketches).clone();
    union.hll.merge(&b.properties().sketches.hll);
    union.theta.merge(&b.properties().sketches.theta);
    assert!((union.hll.estimate() / 20_000.0 - 1.0).abs() < 0.06);
    assert!((union.theta.distinct() / 20_000.0 - 1.0).abs() < 3.0 / 16.0);
    assert!((union.theta.bytes() / (20_000.0 * 109.0) - 1.0).abs() < 3.0 / 16.0);
}

#[test]
fn a_block_is_closed_near_its_target() {
    for (value_bytes, in_each) in [(200, 20), (1024, 4), (2030, 2), (2500, 1), (5000, 1)] {
        let versions: Vec<Version> = (0..240)
            .map(|n| (format!("key{n:06}").into_bytes(), 0, Kind::Put, vec![1; value_bytes]))
            .collect();
        let mut file = Growing::default();
        let info = write_to(&mut file, options(), &versions, &[]);
        let blocks = open_bytes(file.0, &info).unwrap().properties().data_blocks;
        assert_eq!(blocks, 240 / in_each, "values of {value_bytes} bytes");
    }
}

#[test]
#[should_panic(expected = "in order")]
fn versions_out_of_order_are_refused() {
    let mut file = Growing::default();
    let mut writer = TableWriter::new(&mut file, options());
    writer.add(b"b", 1, Kind::Put, b"").unwrap();
    let _ = writer.add(b"b", 1, Kind::Put, b"");
}

#[test]
#[should_panic(expected = "tombstones")]
fn range_deletes_are_refused_among_versions() {
    let mut file = Growing::default();
    let mut writer = TableWriter::new(&mut file, options());
    let _ = writer.add(b"b", 1, Kind::RangeDelete, b"c");
}
