//! Files of a directory that the writer removes, renames or writes again.

use crate::support::*;
use esker_api::Cursor;
use esker_lsm::{Db, Settings};
use std::sync::Arc;

fn with_fill(db: &Db, round: u8) {
    let keyspace = db.default_keyspace();
    for key in 0..100_u8 {
        keyspace.put([key], vec![round; 2_000]).unwrap();
    }
}

#[test]
fn tables_and_logs_that_the_writer_removes_are_read_by_those_who_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Db::open(dir.path(), settings()).unwrap();
    with_fill(&writer, 1);
    writer.flush().unwrap();
    let follower = Db::open_follower(dir.path(), settings(), None).unwrap();
    let keyspace = follower.default_keyspace();
    let (snapshot, mut cursor) = (follower.snapshot(), keyspace.cursor(..).unwrap());
    cursor.seek_first().unwrap();
    for round in 2..6 {
        with_fill(&writer, round);
        writer.compact().unwrap();
    }
    // It has not caught up, and reads removed files.
    assert_eq!(keyspace.get([7]).unwrap().as_deref(), Some(&[1; 2_000][..]));
    follower.catch_up().unwrap();
    assert_eq!(keyspace.get([7]).unwrap().as_deref(), Some(&[5; 2_000][..]));
    for key in 0..100_u8 {
        assert_eq!(cursor.current(), Some((&[key][..], &[1; 2_000][..])));
        assert_eq!(snapshot.get(&keyspace, [key]).unwrap().as_deref(), Some(&[1; 2_000][..]));
        cursor.next().unwrap();
    }
    assert_eq!(cursor.current(), None);
}

/// The writer has used the file of a log again that the follower is in the middle of.
#[test]
fn a_log_that_is_used_again_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Db::open(dir.path(), settings()).unwrap();
    let follower = Db::open_follower(dir.path(), settings(), None).unwrap();
    for round in 1..30 {
        writer.default_keyspace().put("first", [round]).unwrap();
        follower.catch_up().unwrap();
        with_fill(&writer, round);
        writer.flush().unwrap();
        writer.default_keyspace().put("last", [round]).unwrap();
        follower.catch_up().unwrap();
        assert_eq!(Mirror::of(&follower), Mirror::of(&writer), "round {round}");
    }
}

/// As many edits as the writer begins a new manifest for.
#[test]
fn a_manifest_that_the_writer_replaces_is_followed_without_a_new_beginning() {
    let machine = Machine::new(1);
    let writer = write(machine.clone());
    let follower = follow(machine.clone());
    writer.default_keyspace().put("a", "1").unwrap();
    follower.catch_up().unwrap();
    // An append that fails has the writer begin another manifest.
    machine.disk().fail_after(0, esker_storage::fault::FaultKind::Io);
    let _ = writer.keyspace("one", appending());
    let created = writer.keyspace("two", appending()).unwrap();
    created.put("b", "2").unwrap();
    writer.default_keyspace().put("a", "3").unwrap();
    assert!(!follower.catch_up().unwrap().began_anew);
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    writer.flush().unwrap();
    created.put("b", "4").unwrap();
    assert!(!follower.catch_up().unwrap().began_anew);
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
}

#[test]
fn logs_in_a_directory_of_their_own_are_followed() {
    let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = logs.path().to_path_buf();
    let settings = || -> Settings {
        let sync = esker_lsm::SyncPolicy::Os;
        settings().log(esker_lsm::Log::File { dir: Some(place.clone()), sync })
    };
    let writer = Db::open(dir.path(), settings()).unwrap();
    let follower = Db::open_follower(dir.path(), settings(), None).unwrap();
    writer.default_keyspace().put("a", "1").unwrap();
    follower.catch_up().unwrap();
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    // Without the directory it can't.
    Db::open_follower(dir.path(), crate::support::settings(), None).unwrap_err();
}

/// A follower leaves nothing in the directory and takes no lock.
#[test]
fn a_follower_writes_nothing() {
    let machine = Machine::new(1);
    let writer = write(machine.clone());
    writer.default_keyspace().put("a", "1").unwrap();
    let follower = follow(machine.clone());
    let before = machine.disk().operations();
    follower.catch_up().unwrap();
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    follower.close().unwrap();
    assert_eq!(machine.disk().operations(), before);
    let _: Arc<Machine> = machine;
}
