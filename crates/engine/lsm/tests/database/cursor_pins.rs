//! What a cursor keeps of a database while it rests, and what it sees after that has gone.

use crate::support::{key, open};
use esker_api::{Cursor, KeyRange};
use esker_lsm::{Db, KeyspaceSettings};
use std::path::Path;

#[test]
fn a_cursor_that_rests_holds_neither_memory_nor_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    let write = |round: u64| {
        for n in 0..2_000 {
            db.put(&keyspace, key(n), round.to_le_bytes()).unwrap();
        }
    };
    write(0);
    db.flush().unwrap();
    write(1);
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    cursor.seek(&key(1_000)).unwrap();
    for round in 2..6 {
        write(round);
        db.flush().unwrap();
        db.compact().unwrap();
        db.wait_for_compactions().unwrap();
        // A lane that was just at work may hold an old view for a moment longer.
        while table_files(dir.path()) != files_of_the_tree(&db) {
            std::thread::yield_now();
        }
        // Where it stood, in what it saw.
        let stands = 1_000 + round - 2;
        assert_eq!(cursor.current(), Some((&key(stands)[..], &1u64.to_le_bytes()[..])));
        cursor.next().unwrap();
    }
    let mut left = 0;
    while let Some((_, value)) = cursor.current() {
        assert_eq!(value, 1u64.to_le_bytes());
        cursor.next().unwrap();
        left += 1;
    }
    assert_eq!(left, 996);
}

#[test]
fn a_cursor_turns_round_after_its_tables_have_gone() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..500 {
        db.put(&keyspace, key(n), b"old").unwrap();
    }
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    let mut expected = 250;
    cursor.seek(&key(expected)).unwrap();
    for forward in [true, false, false, true, true, false] {
        for n in 0..500 {
            db.put(&keyspace, key(n), b"new").unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        if forward { cursor.next() } else { cursor.prev() }.unwrap();
        expected = if forward { expected + 1 } else { expected - 1 };
        assert_eq!(cursor.current(), Some((&key(expected)[..], &b"old"[..])));
    }
}

#[test]
fn a_cursor_over_a_dropped_keyspace_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.keyspace("gone", KeyspaceSettings::default()).unwrap();
    db.put(&keyspace, b"a", b"1").unwrap();
    db.put(&keyspace, b"b", b"2").unwrap();
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    cursor.seek_first().unwrap();
    db.drop_keyspace(&keyspace).unwrap();
    assert!(matches!(cursor.next(), Err(esker_base::Error::UnknownKeyspace { .. })));
    assert_eq!(cursor.current(), None);
}

fn table_files(dir: &Path) -> Vec<String> {
    let names = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".tables"));
    names.sort();
    names
}

fn files_of_the_tree(db: &Db) -> Vec<String> {
    let levels = db.levels().into_iter().flat_map(|keyspace| keyspace.levels);
    let tables = levels.flat_map(|level| level.runs).flat_map(|run| run.tables);
    let mut names: Vec<_> = tables.map(|table| format!("{:08}.tables", table.id.file)).collect();
    names.sort();
    names.dedup();
    names
}
