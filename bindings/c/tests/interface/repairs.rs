//! A repair of a damaged database.

use crate::support::*;
use esker_c::database::*;
use esker_c::open::*;
use esker_c::repair::*;
use std::ptr::{null, null_mut};

#[test]
fn a_repair_keeps_what_is_intact() {
    let dir = tempfile::tempdir().unwrap();
    let at = c_path(dir.path());
    let db = open(dir.path());
    let outcome = call!(esker_repair, at.as_ptr(), null(), false, null_mut());
    assert_eq!(failure(outcome).0, ESKER_LOCKED);
    let users = keyspace(&db, "users");
    put(&users, "ada", "analyst").unwrap();
    call!(esker_flush, Some(&db)).unwrap();
    // No compression makes it short.
    let value: Vec<u8> = (1..5_000_u32).map(|at| (at.wrapping_pow(3) >> 5) as u8).collect();
    put(&users, "bob", value).unwrap();
    call!(esker_flush, Some(&db)).unwrap();
    call!(esker_close, Some(db)).unwrap();

    let report = take!(esker_repair, at.as_ptr(), null(), false).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["tables"], 2, "{report}");
    assert_eq!(report["lost_tables"].as_array().unwrap().len(), 0, "{report}");

    let files = dir.path().read_dir().unwrap().map(|file| file.unwrap().path());
    let mut tables: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "tables")).collect();
    tables.sort_by_key(|path| path.metadata().unwrap().len());
    let mut bytes = std::fs::read(&tables[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&tables[1], bytes).unwrap();
    let report = take!(esker_repair, at.as_ptr(), null(), false).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["lost_tables"].as_array().unwrap().len(), 1, "{report}");
    call!(esker_repair, at.as_ptr(), null(), true, null_mut()).unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    assert_eq!(get(&users, "ada").unwrap(), b"analyst");
    assert_eq!(status(get(&users, "bob")), ESKER_NOT_FOUND);
}

#[test]
fn a_repair_wants_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let at = c_path(dir.path());
    let outcome = take!(esker_repair, at.as_ptr(), at.as_ptr(), false);
    assert_eq!(failure(outcome).0, ESKER_NOT_A_DATABASE);
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "it makes nothing");
}
