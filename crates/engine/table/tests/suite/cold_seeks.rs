//! What cursors remember of their seeks, and what the next seek reads: the cache has none of it.

use crate::cold::{Cold, KEYS, key};
use crate::support::*;
use esker_base::{EntryCursor, MAX_SEQNO};
use esker_table::{ReadPurpose, TableIter};
use std::ops::Bound;

/// Seeks to key `n`, and the `steps` after it.
fn walk(cursor: &mut TableIter, n: u64, steps: u64) {
    cursor.seek(&key(n), MAX_SEQNO).unwrap();
    (0..steps).for_each(|_| cursor.next().unwrap());
}

#[test]
fn a_cursor_reads_at_once_what_its_walks_usually_take() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    walk(&mut cursor, 0, 350);
    assert_eq!(cold.sizes().len(), 3, "a block, and pieces that grow");
    (1..20).for_each(|n| walk(&mut cursor, n * 500, 350));
    cold.reads();
    for n in 10..20 {
        walk(&mut cursor, n * 1_000, 350);
        let used = cold.block_of(&key(n * 1_000)).start..cold.block_of(&key(n * 1_000 + 350)).end;
        let reads = cold.reads();
        assert_eq!((reads.len(), reads[0].start), (1, used.start), "{reads:?}");
        let more = reads[0].end.checked_sub(used.end).expect("one read for all");
        assert!(more <= 3 * 4_200, "{reads:?}, and {used:?} is used");
    }
    // The cursor of another table of the run goes on with what this one remembers, after a rest, too.
    for rests in [false, true] {
        if rests {
            cursor.rest();
        }
        let mut other = cold.table.cursor(ReadPurpose::Read);
        other.remember_walks_of(&cursor);
        walk(&mut other, 300, 350);
        assert_eq!(cold.reads().len(), 1);
    }
}

#[test]
fn a_cursor_that_no_longer_walks_reads_single_blocks_again() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    (0..10).for_each(|n| walk(&mut cursor, n * 1_000, 350));
    (0..30).for_each(|n| walk(&mut cursor, n * 500, 0));
    cold.reads();
    walk(&mut cursor, 17_000, 0);
    assert_eq!(cold.reads(), [cold.block_of(&key(17_000))]);
}

#[test]
fn one_long_scan_makes_no_long_first_pieces() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    walk(&mut cursor, 0, KEYS - 1);
    cold.reads();
    walk(&mut cursor, 10, 0);
    let first = cold.sizes()[0];
    assert!(first <= 40 << 10, "{first}");
}

#[test]
fn walks_backward_do_not_lengthen_the_first_piece_of_those_forward() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    cursor.set_start(Bound::Unbounded);
    for n in 1..10 {
        cursor.seek_before(&key(n * 2_000), MAX_SEQNO).unwrap();
        (0..350).for_each(|_| cursor.prev().unwrap());
    }
    cold.reads();
    walk(&mut cursor, 11_000, 0);
    assert_eq!(cold.reads(), [cold.block_of(&key(11_000))]);
}

#[test]
fn a_first_piece_ends_with_the_block_that_has_the_end() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    (0..10).for_each(|n| walk(&mut cursor, n * 1_000, 350));
    cold.reads();
    cursor.set_end(Bound::Excluded(&key(12_040)));
    walk(&mut cursor, 12_000, 0);
    let reads = cold.reads();
    assert_eq!(reads.len(), 1);
    assert_eq!(reads[0].end, cold.block_of(&key(12_040)).end);
}

#[test]
fn a_seek_that_was_begun_reads_what_was_begun_and_nothing_else() {
    let cold = Cold::new(1 << 20, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    for (n, steps) in [(5_000, 0), (6_000, 350), (7_000, 350), (8_000, 350), (9_000, 350)] {
        cursor.begin_seek(&key(n), MAX_SEQNO);
        assert_eq!(cold.reads(), []);
        let begun = std::mem::take(&mut *cold.file.ahead.lock().unwrap());
        assert_eq!(begun[0].start, cold.block_of(&key(n)).start);
        walk(&mut cursor, n, steps);
        assert_eq!((begun.len(), &begun[0]), (1, &cold.reads()[0]));
    }
    // The cursor is in the block, then the cache has it.
    for n in [9_350, 9_000] {
        cursor.begin_seek(&key(n), MAX_SEQNO);
        cursor.seek(&key(n), MAX_SEQNO).unwrap();
        assert_eq!(cursor.key(), key(n));
        assert_eq!((&cold.reads()[..], &cold.file.ahead.lock().unwrap()[..]), (&[][..], &[][..]));
    }
    // Another target than the one that was begun.
    cursor.begin_seek(&key(100), MAX_SEQNO);
    walk(&mut cursor, 15_000, 0);
    let read = &cold.reads()[0];
    assert_eq!(read.start, cold.block_of(&key(15_000)).start);
    assert!(read.end - read.start > 30 << 10, "{read:?}");
}

#[test]
fn a_cursor_says_whether_its_seeks_miss_the_cache() {
    let cold = Cold::new(1 << 20, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    (0..10).for_each(|n| walk(&mut cursor, n * 1_000, 0));
    assert!(cursor.misses_seeks());
    let mut other = cold.table.cursor(ReadPurpose::Read);
    other.remember_walks_of(&cursor);
    assert!(other.misses_seeks());
    // Most are in the cache by now.
    (0..10).for_each(|n| walk(&mut cursor, n * 1_000, 0));
    assert!(!cursor.misses_seeks());
}

#[test]
fn a_scan_backward_from_a_seek_begins_pieces_of_its_own() {
    let cold = Cold::new(0, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    cursor.set_start(Bound::Unbounded);
    (0..10).for_each(|n| walk(&mut cursor, n * 1_000, 350));
    walk(&mut cursor, 12_000, 0);
    cold.reads();
    (0..3_000).for_each(|_| cursor.prev().unwrap());
    let reads = cold.reads();
    assert!(reads.windows(2).all(|pair| pair[0].start == pair[1].end), "{reads:?}");
    assert!(reads.len() < 8, "{reads:?}");
}

#[test]
fn a_read_that_was_begun_and_is_not_needed_is_given_up() {
    let cold = Cold::new(1 << 20, 16 << 20);
    let mut cursor = cold.table.cursor(ReadPurpose::Read);
    (0..10).for_each(|n| walk(&mut cursor, n * 1_000, 0));
    cursor.begin_seek(&key(15_000), MAX_SEQNO);
    get(&cold.table, &key(15_000), MAX_SEQNO).unwrap();
    cursor.seek(&key(15_000), MAX_SEQNO).unwrap();
    assert!(format!("{:?}", cold.cache.reader()).contains(", 0 of"), "no buffer is held");
}
