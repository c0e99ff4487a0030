//! `esker prepared`: undecided transactions are listed, committed and rolled back.

use crate::Scratch;
use serde_json::json;

/// A database with transactions prepared under these ids, each with a put of its id.
fn with_prepared(ids: &[&[u8]]) -> Scratch {
    let scratch = Scratch::with_pairs(&[]);
    let db = scratch.open();
    for id in ids {
        let mut tx = db.transaction().unwrap();
        tx.put(&db.default_keyspace(), id, "1").unwrap();
        tx.prepare(id).unwrap();
    }
    scratch
}

#[test]
fn undecided_transactions_are_listed_and_decided() {
    let scratch = with_prepared(&[b"a", b"b"]);
    scratch.run(&["prepared", "db"]).expect(
        "a\t1 write, 6 B, 1 key locked\n\
         b\t1 write, 6 B, 1 key locked\n",
    );
    scratch.run(&["prepared", "db", "--commit", "a"]).expect("");
    scratch.run(&["prepared", "db", "--rollback", "b"]).expect("");
    scratch.run(&["prepared", "db"]).expect("");
    scratch.run(&["scan", "db"]).expect("a\t1\n");
    scratch.run(&["prepared", "db", "--commit", "a"]).expect_failure(2, "id a; it may have been");
    let keyspaces = scratch.run(&["keyspaces", "db"]).expect_status(0);
    assert!(!keyspaces.text().contains("prepared"), "{keyspaces:?}");
}

#[test]
fn ids_and_facts_are_json_and_hex_if_asked_for() {
    let scratch = with_prepared(&[b"\xff", b"b"]);
    let json = |arguments: &[&str]| {
        scratch.run(&[&["prepared", "db", "--json"], arguments].concat()).json()
    };
    let one = |name: &str, id: &str| {
        let damaged = false;
        json!({ name: id, "writes": 1, "bytes": 6, "locks": 1, "damaged": damaged })
    };
    assert_eq!(json(&[]), json!({ "prepared": [one("id", "b"), one("id_hex", "ff")] }));
    assert_eq!(json(&["--hex", "--rollback", "ff"]), json!({ "rolled_back_hex": "ff" }));
    assert_eq!(json(&["--commit", "b"]), json!({ "committed": "b" }));
    assert_eq!(json(&[]), json!({ "prepared": [] }));
}

#[test]
fn they_are_listed_while_another_process_writes() {
    let scratch = with_prepared(&[b"a"]);
    let _writer = scratch.open();
    scratch.run(&["prepared", "db"]).expect("a\t1 write, 6 B, 1 key locked\n");
    scratch.run(&["prepared", "db", "--commit", "a"]).expect_failure(2, "in use by process");
}
