//! backup, backups, restore.

use crate::Scratch;
use esker::backup::Repository;
use esker::{Db, Settings};
use serde_json::json;

fn with_one_entry() -> Scratch {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "ada", "1815"]).expect("");
    scratch
}

#[test]
fn a_backup_is_listed_verified_and_restored() {
    let scratch = with_one_entry();
    let first = scratch.run(&["backup", "db", "repo", "--json"]).json();
    assert_eq!((&first["backup"], &first["removed"]), (&json!(1), &json!(null)));
    assert_eq!(first["files"], first["copied_files"]);
    scratch.run(&["put", "db", "ada", "1816"]).expect("");
    let second = scratch.run(&["backup", "db", "repo"]).expect_status(0);
    assert!(second.text().starts_with("backup 2: 4 files, "), "{second:?}");
    assert!(second.text().contains("copied 3 files, "), "{second:?}");

    let listed = scratch.run(&["backups", "repo", "--json"]).json();
    assert_eq!(listed["backups"].as_array().unwrap().len(), 2);
    assert_eq!(listed["backups"][1]["seqno"], 2);
    let text = scratch.run(&["backups", "repo"]).expect_status(0);
    assert!(text.text().starts_with("1\t20") && text.text().contains("Z\t3 files, "), "{text:?}");
    let verified = scratch.run(&["backups", "repo", "--verify"]).expect_status(0);
    assert!(verified.text().ends_with("2 backups intact\n"), "{verified:?}");

    scratch.run(&["restore", "repo", "old", "--backup", "1"]).expect_status(0);
    scratch.run(&["get", "old", "ada"]).expect("1815\n");
    let newest = scratch.run(&["restore", "repo", "new", "--json"]).json();
    assert_eq!((&newest["restored"], &newest["backup"]), (&json!("new"), &json!(2)));
    scratch.run(&["get", "new", "ada"]).expect("1816\n");
}

#[test]
fn only_so_many_backups_are_kept() {
    let scratch = with_one_entry();
    for round in 0..4 {
        scratch.run(&["put", "db", "round", &round.to_string()]).expect("");
        scratch.run(&["backup", "db", "repo"]).expect_status(0);
    }
    let kept = scratch.run(&["backup", "db", "repo", "--keep", "3", "--json"]).json();
    assert_eq!(kept["removed"], json!([1, 2]));
    let pruned = scratch.run(&["backups", "repo", "--keep", "1"]).expect_status(0);
    assert!(pruned.text().starts_with("removed 2 backups: "), "{pruned:?}");
    scratch.run(&["backups", "repo", "--keep", "0"]).expect_status(2);
    scratch.run(&["restore", "repo", "new", "--backup", "3"]).expect_failure(2, "it has 5");
    scratch.run(&["restore", "repo", "new"]).expect_status(0);
    scratch.run(&["get", "new", "round"]).expect("3\n");
}

#[test]
fn the_process_that_has_the_database_open_helps_with_a_backup() {
    let scratch = with_one_entry();
    scratch.run(&["backup", "db", "repo"]).expect_status(0);
    let db = Db::open(scratch.path("db"), Settings::default().answers_requests(true)).unwrap();
    db.put(&db.default_keyspace(), b"new", b"unflushed").unwrap();
    let report = scratch.run(&["backup", "db", "repo", "--json"]).json();
    assert_eq!((&report["files"], &report["copied_files"]), (&json!(4), &json!(3)));
    db.put(&db.default_keyspace(), b"later", b"").unwrap();
    scratch.run(&["restore", "repo", "new"]).expect_status(0);
    scratch.run(&["get", "new", "new"]).expect("unflushed\n");
    scratch.run(&["get", "new", "later"]).expect_failure(1, "not found");
    let left = std::fs::read_dir(scratch.path("")).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("esker-backup")), "{names:?}");
    db.close().unwrap();
}

#[test]
fn damage_in_a_repository_is_found_and_not_restored() {
    let scratch = with_one_entry();
    scratch.run(&["backup", "db", "repo"]).expect_status(0);
    let files = std::fs::read_dir(scratch.path("repo")).unwrap();
    let mut paths = files.map(|file| file.unwrap().path());
    let table = paths.find(|path| path.to_string_lossy().contains(".tables.")).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let verified = scratch.run(&["backups", "repo", "--verify", "--json"]).expect_status(1);
    let found: serde_json::Value = serde_json::from_slice(&verified.out).unwrap();
    assert_eq!((&found["intact"], &found["damaged"]), (&json!([]), &json!([1])));
    assert!(found["problems"][0].as_str().unwrap().contains(".tables."), "{found}");
    scratch.run(&["restore", "repo", "new"]).expect_failure(2, "its checksum does not match");
    assert!(!scratch.path("new").exists());
}

#[test]
fn wrong_places_are_refused_and_nothing_is_overwritten() {
    let scratch = with_one_entry();
    scratch.run(&["backup", "db", "repo"]).expect_status(0);
    scratch.run(&["restore", "repo", "db"]).expect_failure(2, "holds a database already");
    scratch.run(&["restore", "db", "new"]).expect_failure(2, "is not a backup repository");
    scratch.run(&["backup", "repo", "db"]).expect_status(2);
    scratch.run(&["backup", "missing", "other"]).expect_status(2);
    assert!(!scratch.path("other").exists() && !scratch.path("missing").exists());
    scratch.run(&["put", "--create", "db2", "k", "v"]).expect("");
    scratch.run(&["backup", "db2", "repo"]).expect_failure(2, "has backups of the database");
    scratch.run(&["backups", "missing"]).expect_failure(2, "there is no such directory");
    scratch.run(&["get", "db", "ada"]).expect("1815\n");
}

#[test]
fn a_point_in_time_is_restored_from_the_log_that_was_shipped() {
    let scratch = with_one_entry();
    let db = Db::open(scratch.path("db"), Settings::default()).unwrap();
    let repository = Repository::create(scratch.path("repo")).unwrap();
    repository.ship(&db, 1 << 30).unwrap();
    for year in ["1816", "1817"] {
        db.default_keyspace().put("ada", year).unwrap();
    }
    db.sync().unwrap();
    repository.ship(&db, 1 << 30).unwrap();
    scratch.run(&["restore", "repo", "then", "--to-seqno", "2"]).expect_status(0);
    scratch.run(&["get", "then", "ada"]).expect("1816\n");
    scratch.run(&["restore", "repo", "now", "--to", "2999-01-01 12:00"]).expect_status(0);
    scratch.run(&["get", "now", "ada"]).expect("1817\n");
    let early = ["restore", "repo", "no", "--to", "2001-01-01T00:00:00Z"];
    scratch.run(&early).expect_failure(2, "cannot restore 2001-01-01T00:00:00Z");
    scratch.run(&early).expect_failure(2, "Z and later");
    scratch.run(&["restore", "repo", "no", "--to-seqno", "9"]).expect_failure(2, "1 to 3");
    let listed = scratch.run(&["backups", "repo"]).expect_status(0);
    assert!(listed.text().contains("any point in time from seqno 1 to 3, 20"), "{listed:?}");
    let listed = scratch.run(&["backups", "repo", "--json"]).json();
    assert_eq!(listed["restorable"][0]["last_seqno"], 3);
    scratch.run(&["restore", "repo", "no", "--to", "soon"]).expect_failure(2, "not a time");
    assert!(!scratch.path("no").exists());
}

#[test]
fn a_url_needs_a_program_with_object_stores() {
    let scratch = with_one_entry();
    for args in [&["backup", "db", "s3://bucket/db"][..], &["backups", "s3://bucket/db"]] {
        let done = scratch.run(args).expect_status(2);
        let named = ["s3://bucket/db", "--features object-store"];
        assert!(named.iter().all(|text| done.err.contains(text)), "{done:?}");
    }
    // Nothing was made where a directory would be.
    assert!(!scratch.path("s3:").exists());
}
