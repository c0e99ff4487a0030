//! `esker indexes`: indexes are listed and dropped; statistics show their names.

use crate::Scratch;
use esker::KeyspaceSettings;
use esker::index::IndexSettings;
use serde_json::json;

/// A database with rows and two indexes.
fn with_indexes() -> Scratch {
    let scratch = Scratch::with_pairs(&[]);
    let db = scratch.open();
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    users.put("17", "ada").unwrap();
    let by_name = IndexSettings::new("by_name").unique(true).version(3);
    let by_name = users.index(by_name, |_, value, keys| keys.add(value)).unwrap();
    let by_initial = users.index("by_initial", |_, value, keys| keys.add(&value[..1])).unwrap();
    by_name.wait_ready().unwrap();
    by_initial.wait_ready().unwrap();
    db.flush().unwrap();
    scratch
}

#[test]
fn indexes_are_listed_and_dropped_so_that_the_program_can_write() {
    let scratch = with_indexes();
    let listed = "users\tby_name\tunique, version 3\nusers\tby_initial\tnot unique, version 1\n";
    scratch.run(&["indexes", "db"]).expect(listed);
    scratch.run(&["indexes", "db", "-k", "default"]).expect("");
    scratch.run(&["indexes", "db", "-k", "none"]).expect_failure(2, "no keyspace \"none\"");
    let put = ["put", "db", "-k", "users", "18", "grace"];
    scratch.run(&put).expect_failure(2, "by_name");
    scratch.run(&["indexes", "db", "--drop", "by_name"]).expect_failure(2, "by_name");
    scratch.run(&["indexes", "db", "-k", "users", "--drop", "by_name"]).expect("");
    let dropped = scratch.run(&["indexes", "db", "-k", "users", "--drop", "by_initial", "--json"]);
    assert_eq!(dropped.json(), json!({ "dropped": "by_initial" }));
    assert_eq!(scratch.run(&["indexes", "db", "--json"]).json(), json!({ "indexes": [] }));
    scratch.run(&put).expect_status(0);
    scratch.run(&["scan", "db", "-k", "users"]).expect("17\tada\n18\tgrace\n");
}

#[test]
fn statistics_name_indexes_without_control_characters() {
    let scratch = with_indexes();
    let levels = scratch.run(&["levels", "db"]).expect_status(0);
    assert!(levels.text().contains("index by_name of users"), "{levels:?}");
    assert!(!levels.text().contains('\u{1}'), "{levels:?}");
    scratch.run(&["levels", "db", "-k", "index by_name of users"]).expect_status(0);
    let stats = scratch.run(&["stats", "db"]).expect_status(0);
    assert!(!stats.text().contains('\u{1}'), "{stats:?}");
    let json = scratch.run(&["indexes", "db", "--json"]).json();
    let first = json!({ "keyspace": "users", "name": "by_name", "version": 3, "unique": true });
    assert_eq!(json["indexes"][0], first);
}

#[test]
fn a_check_looks_for_the_rows_of_index_entries() {
    let scratch = with_indexes();
    let checked = scratch.run(&["check", "db"]).expect_status(0);
    assert!(checked.text().contains("looked for the rows of 2 keys in indexes"), "{checked:?}");
    let json = scratch.run(&["check", "db", "--json"]).json();
    assert_eq!((&json["indexes"], &json["index_entries"]), (&json!(2), &json!(2)));
}
