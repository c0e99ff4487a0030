//! Copies of databases, readers of another's files, statistics.

use crate::support::*;
use esker_c::backup::*;
use esker_c::database::*;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::stats::*;
use std::path::Path;
use std::ptr::null_mut;

fn value_in(dir: &Path) -> Outcome<Vec<u8>> {
    let dir = c_path(dir);
    let db = make!(esker_open_existing, dir.as_ptr(), Some(&small()))?;
    let users = make!(esker_keyspace_open, Some(&db), c"users".as_ptr())?;
    get(&users, "ada")
}

#[test]
fn a_checkpoint_is_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let users = keyspace(&db, "users");
    put(&users, "ada", "analyst").unwrap();
    let copy = dir.path().join("copy");
    let copy_path = c_path(&copy);
    call!(esker_checkpoint, Some(&db), copy_path.as_ptr()).unwrap();
    put(&users, "ada", "admiral").unwrap();
    assert_eq!(value_in(&copy).unwrap(), b"analyst");
    let outcome = call!(esker_checkpoint, Some(&db), copy_path.as_ptr());
    assert_eq!(failure(outcome).0, ESKER_DATABASE_EXISTS);
}

#[test]
fn a_backup_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let users = keyspace(&db, "users");
    let repository = c_path(&dir.path().join("backups"));
    let mut numbers = Vec::new();
    for value in ["analyst", "admiral", "author"] {
        put(&users, "ada", value).unwrap();
        let mut number = 0;
        call!(esker_backup_create, Some(&db), repository.as_ptr(), &mut number).unwrap();
        numbers.push(number);
    }
    let list =
        || String::from_utf8(take!(esker_backup_list, repository.as_ptr()).unwrap()).unwrap();
    let listed = |text: String| -> Vec<u64> {
        text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(listed(list()), numbers);
    for (number, value) in [(0, "author"), (numbers[0], "analyst"), (numbers[1], "admiral")] {
        let target = dir.path().join(value);
        let path = c_path(&target);
        call!(esker_backup_restore, repository.as_ptr(), number, path.as_ptr()).unwrap();
        assert_eq!(value_in(&target).unwrap(), value.as_bytes());
        let outcome = call!(esker_backup_restore, repository.as_ptr(), number, path.as_ptr());
        assert_eq!(failure(outcome).0, ESKER_DATABASE_EXISTS);
    }
    call!(esker_backup_prune, repository.as_ptr(), 1).unwrap();
    assert_eq!(listed(list()), numbers[2..]);
    let target = c_path(&dir.path().join("new"));
    let outcome = call!(esker_backup_restore, repository.as_ptr(), numbers[0], target.as_ptr());
    assert_eq!(failure(outcome).0, ESKER_BACKUP);
    let outcome = call!(esker_backup_prune, repository.as_ptr(), 0);
    assert_eq!(failure(outcome).0, ESKER_INVALID_SETTING);
    let missing = c_path(&dir.path().join("missing"));
    assert_eq!(failure(take!(esker_backup_list, missing.as_ptr())).0, ESKER_BACKUP);
    let other = open(&dir.path().join("other"));
    let outcome = call!(esker_backup_create, Some(&other), repository.as_ptr(), null_mut());
    assert_eq!(failure(outcome).0, ESKER_BACKUP);
}

#[test]
fn a_follower_catches_up() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let path = c_path(dir.path());
    let follower = make!(esker_open_follower, path.as_ptr(), Some(&small()), 0).unwrap();
    put(&users, "ada", "analyst").unwrap();
    let mut through = 0;
    call!(esker_catch_up, Some(&follower), &mut through).unwrap();
    assert!(through > 0);
    let followed = make!(esker_keyspace_open, Some(&follower), c"users".as_ptr()).unwrap();
    assert_eq!(get(&followed, "ada").unwrap(), b"analyst");
    assert_eq!(failure(put(&followed, "ada", "")).0, ESKER_READ_ONLY);
    call!(esker_close, Some(follower)).unwrap();
    assert_eq!(failure(get(&followed, "ada")).0, ESKER_CLOSED);
}

#[test]
fn statistics_come_as_text_json_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    put(&keyspace(&db, "users"), "ada", "analyst").unwrap();
    let text = String::from_utf8(take!(esker_stats_text, Some(&db)).unwrap()).unwrap();
    assert!(text.starts_with("writes: 1 "), "{text}");
    let json = take!(esker_stats_json, Some(&db)).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["writes"], 1);
    let page = take!(esker_stats_prometheus, Some(&db), c"a \"name\"".as_ptr()).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("esker_writes_total{database=\"a \\\"name\\\"\"} 1\n"), "{page}");
    let mut found = null_mut();
    call!(esker_background_error, Some(&db), &mut found).unwrap();
    assert!(found.is_null());
}
