//! What a follower refuses.

use crate::support::*;
use esker_base::{ChangesError, Error};
use esker_lsm::{Db, Log};

fn is_read_only<T>(outcome: Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::ReadOnly))
}

#[test]
fn writes_are_refused() {
    let machine = Machine::new(1);
    let _writer = write(machine.clone());
    let follower = follow(machine);
    let keyspace = follower.default_keyspace();
    assert!(is_read_only(keyspace.put("a", "1")));
    assert!(is_read_only(follower.keyspace("new", appending())));
    assert!(is_read_only(follower.drop_keyspace(&keyspace)));
    assert!(is_read_only(follower.flush()));
    assert!(is_read_only(follower.compact()));
    assert!(is_read_only(follower.sync()));
    assert!(is_read_only(keyspace.ingest([("a", "1")])));
}

#[test]
fn changes_are_not_read_of_a_follower() {
    let machine = Machine::new(1);
    let _writer = write(machine.clone());
    let follower = follow(machine);
    let Err(Error::Changes(error)) = follower.changes(1) else { panic!() };
    assert!(matches!(*error, ChangesError::NotKept { .. }));
}

#[test]
fn a_database_that_was_opened_in_another_way_does_not_catch_up() {
    let machine = Machine::new(1);
    let writer = write(machine.clone());
    let Err(Error::Changes(error)) = writer.catch_up() else { panic!() };
    assert!(matches!(*error, ChangesError::NotAFollower));
    assert_eq!(writer.follower_stats(), None);
}

#[test]
fn a_closed_follower_does_not_catch_up() {
    let machine = Machine::new(1);
    let writer = write(machine.clone());
    let follower = follow(machine);
    let (other, keyspace) = (follower.clone(), follower.default_keyspace());
    follower.close().unwrap();
    writer.default_keyspace().put("a", "1").unwrap();
    assert!(matches!(other.catch_up(), Err(Error::Closed)));
    assert!(matches!(keyspace.get("a"), Err(Error::Closed)));
}

#[test]
fn nothing_is_followed_where_there_is_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for path in [dir.path(), &missing] {
        let error = Db::open_follower(path, settings(), None).unwrap_err();
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
    }
    assert!(!missing.exists());
}

#[test]
fn a_log_in_a_pool_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Log::Pmem { pool: dir.path().join("pool"), emulated: true };
    let error = Db::open_follower(dir.path(), settings().log(pool), None).unwrap_err();
    assert!(matches!(error, Error::PoolRefused { .. }), "{error}");
}

/// A damaged manifest or log: the follower shows what it had, says what is wrong, and goes on once it is not.
#[test]
fn damage_is_reported_and_what_was_shown_stays() {
    let machine = Machine::new(1);
    let writer = write(machine.clone());
    writer.default_keyspace().put("a", "1").unwrap();
    let follower = follow(machine.clone());
    let sound = machine.disk().read_all("CURRENT").unwrap();
    machine.disk().bit_flip("CURRENT", 3, 1);
    writer.default_keyspace().put("a", "2").unwrap();
    let error = follower.catch_up().unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(follower.background_error().is_some());
    assert_eq!(follower.default_keyspace().get("a").unwrap().as_deref(), Some(&b"1"[..]));
    machine.disk().write_all("CURRENT", &sound);
    follower.catch_up().unwrap();
    assert_eq!(follower.default_keyspace().get("a").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(follower.background_error().is_none());
}
