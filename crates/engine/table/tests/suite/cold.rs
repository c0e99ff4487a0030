//! Reads of blocks that no cache has: many at once, and ahead of a cursor.

use crate::support::*;
use esker_base::background::Stepped;
use esker_base::{EntryCursor, Error, Kind, MAX_SEQNO, Result, Rng};
use esker_storage::{ReadableFile, WideReader};
use esker_table::{BlockCache, BlockReadStats, ReadPurpose, Table, TableOptions, WideLookup};
use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, OnceLock};

pub(crate) const KEYS: u64 = 20_000;

/// A file that notes what is read of it, at once and ahead, and has bad places.
#[derive(Default)]
pub(crate) struct Watched {
    bytes: Vec<u8>,
    reads: Mutex<Vec<Range<u64>>>,
    pub(crate) ahead: Mutex<Vec<Range<u64>>>,
    bad: Mutex<Vec<u64>>,
}

impl ReadableFile for Watched {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset + out.len() as u64;
        self.reads.lock().unwrap().push(range.clone());
        if self.bad.lock().unwrap().iter().any(|bad| range.contains(bad)) {
            let place = format!("watched at offset {offset}");
            return Err(Error::io("read", place, std::io::Error::other("bad")));
        }
        out.copy_from_slice(&self.bytes[offset as usize..][..out.len()]);
        Ok(())
    }
    fn len(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn name(&self) -> &str {
        "watched"
    }
    fn read_ahead(&self, offset: u64, bytes: u64) {
        self.ahead.lock().unwrap().push(offset..offset + bytes);
    }
}

pub(crate) struct Cold {
    pub(crate) file: Arc<Watched>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) table: Arc<Table>,
    versions: Vec<Version>,
}

impl Cold {
    /// A table that is not cached, and a cache of `cache_bytes` bytes.
    pub(crate) fn new(cache_bytes: usize, limit_bytes: usize) -> Cold {
        let versions: Vec<Version> =
            (0..KEYS).map(|n| (key(n), n, Kind::Put, vec![n as u8; 100])).collect();
        let mut file = Growing::default();
        let options = TableOptions { parts: WHOLE, ..options() };
        let info = write_to(&mut file, options, &versions, &[]);
        let file = Arc::new(Watched { bytes: file.0, ..Watched::default() });
        let reader = WideReader::new(Arc::new(Stepped), limit_bytes);
        let cache = Arc::new(BlockCache::new(cache_bytes).for_another_owner(reader));
        let table = Table::open(file.clone(), FILE_ID, 0, info.bytes, cache.clone()).unwrap();
        file.reads.lock().unwrap().clear();
        Cold { file, cache, table: Arc::new(table), versions }
    }

    pub(crate) fn reads(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.file.reads.lock().unwrap())
    }

    /// The bytes of each read.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        self.reads().iter().map(|read| read.end - read.start).collect()
    }

    /// Where the block with a key is.
    pub(crate) fn block_of(&self, key: &[u8]) -> Range<u64> {
        static BLOCKS: OnceLock<Vec<Range<u64>>> = OnceLock::new();
        let blocks = BLOCKS.get_or_init(|| {
            let alone = Cold::new(0, 0);
            let read = |n| {
                get(&alone.table, &crate::cold::key(n), MAX_SEQNO).unwrap().unwrap();
                alone.reads().pop().unwrap()
            };
            (0..KEYS).map(read).collect()
        });
        let number: usize = std::str::from_utf8(&key[3..9]).unwrap().parse().unwrap();
        blocks[number].clone()
    }

    fn data_end(&self) -> u64 {
        self.block_of(&key(KEYS - 1)).end
    }
}

pub(crate) fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// What a cursor yields from its place on, and how that ends.
fn rest(cursor: &mut impl EntryCursor) -> (Vec<Version>, Result<()>) {
    let mut found = Vec::new();
    while cursor.valid() {
        found.push(version_at(cursor));
        if let Err(error) = cursor.next() {
            return (found, Err(error));
        }
    }
    (found, Ok(()))
}

#[test]
fn a_scan_reads_every_block_once_in_pieces_that_grow() {
    let cold = Cold::new(1 << 20, 16 << 20);
    assert_eq!(scan(&cold.table, ReadPurpose::Read).unwrap(), cold.versions);
    let reads = cold.reads();
    let bytes: Vec<u64> = reads.iter().map(|read| read.end - read.start).collect();
    assert!(reads.windows(2).all(|pair| pair[0].end == pair[1].start), "{reads:?}");
    assert_eq!((reads[0].start, reads[reads.len() - 1].end), (0, cold.data_end()));
    assert!(bytes[1] > 2 * bytes[0], "the second block in a row starts it: {bytes:?}");
    let pieces = &bytes[1..bytes.len() - 1];
    assert!(pieces.is_sorted() && bytes.len() < 12, "{bytes:?}");
    assert!(bytes.iter().all(|&bytes| bytes <= 1 << 20), "{bytes:?}");
}

#[test]
fn a_scan_reads_ahead_over_blocks_that_are_cached() {
    let cold = Cold::new(1 << 20, 16 << 20);
    (0..KEYS).step_by(400).for_each(|n| drop(get(&cold.table, &key(n), MAX_SEQNO).unwrap()));
    assert!(cold.reads().len() > 40);
    assert_eq!(scan(&cold.table, ReadPurpose::Read).unwrap(), cold.versions);
    let reads = cold.reads();
    assert!(reads.len() < 12, "{reads:?}");
}

#[test]
fn a_scan_reads_nothing_behind_the_block_with_its_end() {
    let cold = Cold::new(0, 16 << 20);
    for (from, to) in [(0, 500), (100, 5_000), (7_000, 19_999), (3, 4), (0, 40)] {
        let last = cold.block_of(&key(to));
        for end in [Bound::Excluded(key(to)), Bound::Included(key(to))] {
            let mut cursor = cold.table.cursor(ReadPurpose::Read);
            cursor.set_end(end.as_ref().map(|key| &key[..]));
            cursor.seek(&key(from), MAX_SEQNO).unwrap();
            while cursor.valid() && cursor.key() < &key(to)[..] {
                cursor.next().unwrap();
            }
            drop(cursor);
            let reads = cold.reads();
            let furthest = reads.iter().map(|read| read.end).max().unwrap();
            assert!(furthest <= last.end, "{from}..{to}: {reads:?}, and {last:?} is the last");
        }
    }
}

#[test]
fn seeks_read_single_blocks() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    for n in [5_000, 100, 15_000, 4_000] {
        cursor.seek(&key(n), MAX_SEQNO).unwrap();
        assert_eq!(cold.reads(), [cold.block_of(&key(n))]);
    }
}

#[test]
fn no_small_piece_is_read_before_the_walk_reaches_it() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    cursor.seek(&key(5_000), MAX_SEQNO).unwrap();
    (0..1_000).for_each(|_| cursor.next().unwrap());
    let last = cold.block_of(cursor.key());
    let reads = cold.reads();
    let before: u64 = reads.iter().rev().skip(1).map(|read| read.end - read.start).sum();
    assert_eq!(*cold.file.ahead.lock().unwrap(), []);
    assert!(last.end <= reads[reads.len() - 1].end && before > 60 << 10, "{reads:?}");
    // A scan that went so far reads the next piece while it walks over the one in memory.
    rest(&mut cursor).1.unwrap();
    assert_ne!(*cold.file.ahead.lock().unwrap(), []);
}

/// What a cursor yields from the last version before `key` on, backward.
fn backward(cold: &Cold, key: &[u8], start: Option<Bound<&[u8]>>) -> Vec<Version> {
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    start.into_iter().for_each(|start| cursor.set_start(start));
    cursor.seek_before(key, MAX_SEQNO).unwrap();
    let mut found = Vec::new();
    while cursor.valid() {
        let is_within = match start {
            Some(Bound::Included(start)) => cursor.key() >= start,
            Some(Bound::Excluded(start)) => cursor.key() > start,
            _ => true,
        };
        if !is_within {
            break;
        }
        found.push(version_at(&cursor));
        cursor.prev().unwrap();
    }
    found.reverse();
    found
}

#[test]
fn a_scan_backward_reads_every_block_once_in_pieces_that_grow() {
    let cold = Cold::new(1 << 20, 16 << 20);
    assert_eq!(backward(&cold, b"z", Some(Bound::Unbounded)), cold.versions);
    let reads = cold.reads();
    let bytes: Vec<u64> = reads.iter().map(|read| read.end - read.start).collect();
    assert!(reads.windows(2).all(|pair| pair[0].start == pair[1].end), "{reads:?}");
    assert_eq!((reads[0].end, reads[reads.len() - 1].start), (cold.data_end(), 0));
    assert!(bytes[1] > 2 * bytes[0], "the second block in a row starts it: {bytes:?}");
    let pieces = &bytes[1..bytes.len() - 1];
    assert!(pieces.is_sorted() && bytes.len() < 12, "{bytes:?}");
}

#[test]
fn a_scan_backward_reads_nothing_before_the_block_with_its_start() {
    let cold = Cold::new(0, 16 << 20);
    for (start, from) in [(0, 500), (100, 5_000), (7_000, 19_999), (3, 4), (0, 40)] {
        let (start, from) = (key(start), key(from));
        let first = cold.block_of(&start);
        for start in [Bound::Included(&start[..]), Bound::Excluded(&start[..])] {
            backward(&cold, &from, Some(start));
            let reads = cold.reads();
            let furthest = reads.iter().map(|read| read.start).min().unwrap();
            assert!(furthest >= first.start, "{start:?}: {reads:?}, and {first:?} is the first");
        }
    }
}

#[test]
fn a_cursor_that_does_not_know_its_start_steps_backward_by_single_blocks() {
    let cold = Cold::new(0, 16 << 20);
    assert_eq!(backward(&cold, b"z", None), cold.versions);
    assert_eq!(cold.reads().len() as u64, cold.table.properties().data_blocks);
}

#[test]
fn a_scan_that_turns_round_begins_its_pieces_anew() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    cursor.set_start(Bound::Unbounded);
    cursor.seek(&key(10_000), MAX_SEQNO).unwrap();
    (0..3_000).for_each(|_| cursor.next().unwrap());
    assert!(cold.reads().len() < 12);
    for n in (2_000..13_000).rev() {
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), key(n));
    }
    let reads = cold.reads();
    let bytes: Vec<u64> = reads.iter().map(|read| read.end - read.start).collect();
    assert!(reads.windows(2).all(|pair| pair[0].start == pair[1].end), "{reads:?}");
    assert!(bytes[0] < 5_000 && bytes.len() < 12, "{bytes:?}");
}

/// As a walk backward does at each key that has operands.
#[test]
fn a_scan_backward_that_looks_back_at_each_key_goes_on_reading_ahead() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    cursor.set_start(Bound::Unbounded);
    for n in (10_000..KEYS).rev() {
        cursor.seek_before(&key(n), MAX_SEQNO).unwrap();
        cursor.begin_seek(&key(n), MAX_SEQNO);
        cursor.seek(&key(n), MAX_SEQNO).unwrap();
        assert_eq!(cursor.key(), key(n));
        cursor.seek_before(&key(n), MAX_SEQNO).unwrap();
        assert_eq!(cursor.key(), key(n - 1));
    }
    let reads = cold.reads();
    assert!(reads.len() < 60, "{} reads", reads.len());
}

#[test]
fn a_scan_that_seeks_each_key_goes_on_reading_ahead() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    for n in 0..KEYS {
        cursor.begin_seek(&key(n), MAX_SEQNO);
        cursor.seek(&key(n), MAX_SEQNO).unwrap();
    }
    let reads = cold.reads();
    assert!(reads.windows(2).all(|pair| pair[0].end == pair[1].start), "{reads:?}");
    assert!(reads.len() < 12, "{reads:?}");
}

#[test]
fn a_scan_goes_on_reading_ahead_in_the_table_next_to_its_own() {
    let cold = Cold::new(0, 16 << 20);
    let (mut first, mut next) =
        (cold.table.cursor(ReadPurpose::Read), cold.table.cursor(ReadPurpose::Read));
    first.seek_first().unwrap();
    rest(&mut first).1.unwrap();
    cold.reads();
    next.go_on_from(&first);
    next.seek_first().unwrap();
    assert!(cold.reads()[0].end > 1 << 19, "a piece as large as the last one");

    first.set_start(Bound::Unbounded);
    next.set_start(Bound::Unbounded);
    first.seek_last().unwrap();
    while first.valid() {
        first.prev().unwrap();
    }
    cold.reads();
    next.go_back_from(&first);
    next.seek_last().unwrap();
    let last = &cold.reads()[0];
    assert_eq!(last.end, cold.data_end());
    assert!(last.end - last.start > 1 << 19, "a piece as large as the last one");
}

#[test]
fn a_cursor_at_rest_holds_no_buffer() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    cursor.seek_first().unwrap();
    (0..2_000).for_each(|_| cursor.next().unwrap());
    let holds_buffers = || !format!("{:?}", cold.cache.reader()).contains(", 0 of");
    assert!(holds_buffers());
    cursor.rest();
    assert!(!holds_buffers());
}

#[test]
fn without_memory_for_buffers_a_scan_reads_block_by_block() {
    let cold = Cold::new(0, 0);
    assert_eq!(scan(&cold.table, ReadPurpose::Read).unwrap(), cold.versions);
    assert_eq!(cold.reads().len() as u64, cold.table.properties().data_blocks);
}

#[test]
fn a_scan_yields_what_comes_before_a_block_that_cannot_be_read() {
    for n in [0, 60, 3_000, 11_111, KEYS - 1] {
        let cold = Cold::new(0, 16 << 20);
        let block = cold.block_of(&key(n));
        cold.file.bad.lock().unwrap().push(block.start + 5);
        let mut cursor = cold.table.cursor(ReadPurpose::Read);
        let begun = cursor.seek_first();
        let (found, end) = rest(&mut cursor);
        let error = begun.and(end).unwrap_err().to_string();
        assert!(error.contains(&format!("watched at offset {}", block.start)), "{error}");
        assert_eq!(found, cold.versions[..found.len()]);
        let next = &cold.versions[found.len()].0;
        assert_eq!(cold.block_of(next), block, "all before the bad block, and nothing of it");
        if let Some((before, ..)) = found.last() {
            assert_ne!(cold.block_of(before), block);
        }
        cold.file.bad.lock().unwrap().clear();
        assert_eq!(scan(&cold.table, ReadPurpose::Read).unwrap(), cold.versions);
    }
}

#[test]
fn a_compaction_leaves_the_cache_as_it_is() {
    let cold = Cold::new(64 << 10, 16 << 20);
    let hot: Vec<_> = (0..5).map(|n| key(n * 3_000)).collect();
    hot.iter().for_each(|key| drop(get(&cold.table, key, MAX_SEQNO).unwrap()));
    let used = cold.cache.used_bytes();
    assert_eq!(scan(&cold.table, ReadPurpose::Compaction).unwrap(), cold.versions);
    assert_eq!(cold.cache.used_bytes(), used);
    cold.reads();
    hot.iter().for_each(|key| drop(get(&cold.table, key, MAX_SEQNO).unwrap()));
    assert_eq!(cold.reads(), [], "the blocks of a reader are still cached");
}

#[test]
fn a_compaction_reads_every_block_once_in_pieces_of_one_size() {
    for limit_bytes in [0, 16 << 20] {
        let cold = Cold::new(0, limit_bytes);
        assert_eq!(scan(&cold.table, ReadPurpose::Compaction).unwrap(), cold.versions);
        let reads = cold.reads();
        assert!(reads.windows(2).all(|pair| pair[0].end == pair[1].start), "{reads:?}");
        assert_eq!((reads[0].start, reads[reads.len() - 1].end), (0, cold.data_end()));
        let pieces = &reads[..reads.len() - 1];
        assert!(pieces.len() > 3, "{reads:?}");
        let is_whole =
            |read: &Range<u64>| (240 << 10..=256 << 10).contains(&(read.end - read.start));
        assert!(pieces.iter().all(is_whole), "{reads:?}");
    }
}

#[test]
fn a_compaction_gets_to_the_block_that_cannot_be_read() {
    let cold = Cold::new(0, 16 << 20);
    let block = cold.block_of(&key(11_111));
    cold.file.bad.lock().unwrap().push(block.start + 5);
    let mut cursor = cold.table.cursor(ReadPurpose::Compaction);
    cursor.seek_first().unwrap();
    let (found, end) = rest(&mut cursor);
    let error = end.unwrap_err().to_string();
    assert!(error.contains(&format!("watched at offset {}", block.start)), "{error}");
    assert_eq!(found, cold.versions[..found.len()]);
    assert_eq!(cold.block_of(&cold.versions[found.len()].0), block);
}

/// Looks for all keys until none waits for a block. Returns what is found, and the reads' number.
fn find_all(
    cold: &Cold,
    keys: &[Vec<u8>],
    stats: &mut BlockReadStats,
) -> Vec<Result<Option<Vec<u8>>>> {
    let mut lookup = WideLookup::default();
    let mut found: Vec<Option<Result<Option<Vec<u8>>>>> = keys.iter().map(|_| None).collect();
    loop {
        for (key, found) in keys.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            match lookup.find(&cold.table, key, MAX_SEQNO, stats) {
                Err(Error::WouldBlock) => {}
                other => *found = Some(other.map(|it| it.map(|it| it.value.bytes().to_vec()))),
            }
        }
        if found.iter().all(Option::is_some) {
            return found.into_iter().flatten().collect();
        }
        assert!(lookup.has_noted());
        lookup.read(cold.cache.reader());
    }
}

#[test]
fn many_lookups_read_each_block_once_and_neighbours_together() {
    let cold = Cold::new(0, 16 << 20);
    let mut rng = Rng::new(1);
    let mut keys: Vec<_> = (0..300).map(|_| key(rng.below(KEYS))).collect();
    keys.extend((1_000..1_300).map(key));
    keys.push(b"key000100x".to_vec());
    let blocks: BTreeSet<_> =
        keys.iter().map(|key| cold.block_of(&key[..9])).map(|it| (it.start, it.end)).collect();
    let mut stats = BlockReadStats::default();
    let found = find_all(&cold, &keys, &mut stats);
    let wide = cold.reads();
    for (key, found) in keys.iter().zip(found) {
        let expected = get(&cold.table, key, MAX_SEQNO).unwrap();
        assert_eq!(found.unwrap(), expected.map(|it| it.value.bytes().to_vec()));
    }
    assert!(
        wide.windows(2).all(|pair| pair[0].end < pair[1].start),
        "sorted, and no neighbours: {wide:?}"
    );
    let bytes: u64 = blocks.iter().map(|(start, end)| end - start).sum();
    assert_eq!(wide.iter().map(|read| read.end - read.start).sum::<u64>(), bytes);
    assert_eq!(stats, BlockReadStats { blocks: blocks.len() as u64, bytes });
}

#[test]
fn a_block_that_cannot_be_read_is_an_error_of_its_own_keys_alone() {
    let cold = Cold::new(0, 16 << 20);
    let keys: Vec<_> = (0..KEYS).step_by(10).map(key).collect();
    let block = cold.block_of(&key(5_000));
    cold.file.bad.lock().unwrap().push(block.start);
    let mut failed = 0;
    for (key, found) in keys.iter().zip(find_all(&cold, &keys, &mut BlockReadStats::default())) {
        match found {
            Ok(found) => assert!(found.is_some()),
            Err(error) => {
                assert_eq!(cold.block_of(key), block);
                let place = format!("watched at offset {}", block.start);
                assert!(error.to_string().contains(&place), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 0 && failed < 10, "{failed} keys are in the bad block");
}
