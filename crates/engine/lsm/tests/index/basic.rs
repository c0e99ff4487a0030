//! One write after another, and what reads return.

use crate::support::*;
use esker_lsm::{IndexSettings, IndexStatus};

#[test]
fn each_write_changes_the_index_with_the_row() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    users.put("a", "red green").unwrap();
    users.put("b", "green").unwrap();
    users.put("a", "red blue").unwrap();
    users.delete("b").unwrap();
    users.delete("never there").unwrap();
    users.put("", "green").unwrap();
    users.put([0xff; 20], "green").unwrap();
    verify(&db, &index, &rows(&users), words);
    let keys =
        |rows: esker_lsm::IndexRows| -> Vec<_> { rows.map(|row| row.unwrap().key).collect() };
    assert_eq!(keys(index.get("green")), [b"".as_slice(), &[0xff; 20]]);
    assert!(keys(index.get("gree")).is_empty());
    assert_eq!(keys(index.prefix("gree")).len(), 2);
    assert_eq!(keys(index.range("blue"..="green")).len(), 3);
    assert_eq!(keys(index.range("blue".."green")), [b"a"]);
}

#[test]
fn the_last_write_of_a_row_in_a_batch_counts() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    users.put("a", "old").unwrap();
    let mut batch = db.batch();
    batch.put(&users, "a", "between");
    batch.delete(&users, "a");
    batch.put(&users, "a", "new");
    batch.put(&users, "b", "b");
    batch.delete(&users, "b");
    db.write(&batch).unwrap();
    verify(&db, &index, &rows(&users), words);
    assert_eq!(index.entries(..).count(), 1);
}

#[test]
fn rows_from_before_are_found_once_the_index_is_ready() {
    let db = open(&disk());
    let users = users(&db);
    for number in 0..1_000 {
        users.put(format!("{number:04}"), format!("w{} all", number % 7)).unwrap();
    }
    let before = db.snapshot();
    let index = users.index("by_word", words).unwrap();
    assert!(matches!(index.status(), IndexStatus::Building { .. }));
    let error = index.get("all").next().unwrap().unwrap_err().to_string();
    assert!(error.contains("not ready"), "{error}");
    users.put("0500", "changed").unwrap();
    index.wait_ready().unwrap();
    assert!(matches!(index.status(), IndexStatus::Ready));
    verify(&db, &index, &rows(&users), words);
    let error = before.index_range(&index, ..).next().unwrap().unwrap_err().to_string();
    assert!(error.contains("older than its build"), "{error}");
}

#[test]
fn a_snapshot_sees_rows_and_entries_of_one_point_in_time() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    users.put("a", "old").unwrap();
    let before = db.snapshot();
    users.put("a", "new").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    let found: Vec<_> = before.index_range(&index, ..).map(|row| row.unwrap().value).collect();
    assert_eq!(found, [b"old"]);
    let found: Vec<_> = index.range(..).map(|row| row.unwrap().value).collect();
    assert_eq!(found, [b"new"]);
}

#[test]
fn both_ends_of_a_range_meet() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    (0..100_u8).for_each(|number| users.put([number], [b'a' + number % 20]).unwrap());
    for from_front in [0, 1, 3, 50, 99, 100] {
        let mut rows = index.range(..);
        let mut found: Vec<_> = rows.by_ref().take(from_front).map(|row| row.unwrap()).collect();
        let mut back: Vec<_> = rows.rev().map(|row| row.unwrap()).collect();
        back.reverse();
        found.extend(back);
        let all: Vec<_> = index.range(..).map(|row| row.unwrap()).collect();
        assert_eq!(all.len(), 100);
        assert_eq!(found, all);
        let mut turns = index.range(..);
        let mut count = 0;
        while turns.next().is_some() {
            count += 1 + usize::from(turns.next_back().is_some());
        }
        assert_eq!(count, 100);
    }
}

#[test]
fn a_unique_index_lets_one_row_have_a_key() {
    let db = open(&disk());
    let users = users(&db);
    let settings = IndexSettings::new("by_first").unique(true);
    let index = users.index(settings, first_word).unwrap();
    index.wait_ready().unwrap();
    users.put("a", "one").unwrap();
    users.put("b", "two").unwrap();
    users.put("a", "one again").unwrap();
    let error = users.put("c", "one").unwrap_err().to_string();
    assert!(error.contains("key one would be that of two rows, a and c"), "{error}");
    // Two rows may change places, and a key is free once its row is gone.
    let mut swap = db.batch();
    swap.put(&users, "a", "two");
    swap.put(&users, "b", "one");
    db.write(&swap).unwrap();
    verify(&db, &index, &rows(&users), first_word);
    let mut passed_on = db.batch();
    passed_on.put(&users, "c", "two");
    passed_on.delete(&users, "a");
    db.write(&passed_on).unwrap();
    verify(&db, &index, &rows(&users), first_word);
    let mut twice = db.batch();
    twice.put(&users, "x", "three");
    twice.put(&users, "y", "three");
    assert!(db.write(&twice).unwrap_err().to_string().contains("x and y"));
    assert_eq!(rows(&users).len(), 2);
    verify(&db, &index, &rows(&users), first_word);
}

#[test]
fn transactions_change_indexes_when_they_commit() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    let mut transaction = db.transaction().unwrap();
    transaction.put(&users, "a", "green").unwrap();
    assert_eq!(index.get("green").count(), 0);
    transaction.commit().unwrap();
    assert_eq!(index.get("green").count(), 1);
    verify(&db, &index, &rows(&users), words);
}

#[test]
fn indexes_are_no_keyspaces_of_users_and_go_with_theirs() {
    let db = open(&disk());
    let users = users(&db);
    users.index("by_word", words).unwrap().wait_ready().unwrap();
    let names: Vec<_> = db.keyspaces().into_iter().map(|keyspace| keyspace.name).collect();
    assert_eq!(names, ["default", "users"]);
    assert!(db.open_keyspace("\u{1}index/1/by_word").is_err());
    assert!(db.keyspace("\u{1}index/1/by_word", Default::default()).is_err());
    assert_eq!(db.levels().len(), 3);
    db.drop_keyspace(&users).unwrap();
    assert_eq!(db.levels().len(), 1);
}

#[test]
fn a_range_delete_deletes_the_entries_of_its_rows() {
    let db = open(&disk());
    let users = users(&db);
    let settings = IndexSettings::new("by_first").unique(true);
    let unique = users.index(settings, first_word).unwrap();
    let index = users.index("by_word", words).unwrap();
    unique.wait_ready().unwrap();
    index.wait_ready().unwrap();
    let check = || {
        verify(&db, &unique, &rows(&users), first_word);
        verify(&db, &index, &rows(&users), words);
    };
    (0..200_u8).for_each(|number| users.put([number], format!("id{number} all")).unwrap());
    users.delete_range([10]..[150]).unwrap();
    assert_eq!(rows(&users).len(), 60);
    check();
    // What a range delete frees, a later put of the batch may take.
    let mut batch = db.batch();
    batch.put(&users, [5], "id199 all");
    batch.delete_range(&users, [150]..);
    batch.put(&users, [160], "id150 all");
    db.write(&batch).unwrap();
    assert_eq!(rows(&users).len(), 11);
    check();
    let mut batch = db.batch();
    batch.put(&users, "a", "gone");
    batch.clear_keyspace(&users);
    batch.put(&users, "b", "id1 stays");
    db.write(&batch).unwrap();
    assert_eq!(rows(&users).len(), 1);
    check();
    users.clear().unwrap();
    check();
    assert_eq!(index.entries(..).count(), 0);
}

#[test]
fn a_range_delete_of_more_rows_than_a_batch_may_have_is_refused() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    let long = "w".repeat(1_000);
    for number in 0..1_500_u32 {
        users.put(number.to_be_bytes(), format!("{long}{number}")).unwrap();
    }
    let error = users.delete_range([0]..[1]).unwrap_err();
    assert!(matches!(error, esker_base::Error::BatchTooLarge { .. }), "{error}");
    verify(&db, &index, &rows(&users), words);
    users.clear().unwrap();
    verify(&db, &index, &rows(&users), words);
}

#[test]
fn a_large_batch_carries_the_entries_of_all_its_rows() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    let mut batch = db.batch();
    (0..1_000_u32)
        .for_each(|number| batch.put(&users, number.to_be_bytes(), format!("w{number} all")));
    db.write(&batch).unwrap();
    verify(&db, &index, &rows(&users), words);
}
