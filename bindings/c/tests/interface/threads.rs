//! What threads may share.

use crate::support::*;
use esker_c::batch::esker_batch;
use esker_c::cursor::esker_cursor;
use esker_c::database::*;
use esker_c::error::esker_error;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::settings::*;
use esker_c::snapshot::*;
use esker_c::transaction::*;

/// The types keep what the header promises.
#[test]
fn handles_are_shared_or_moved_as_the_header_says() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<esker_db>();
    shared::<esker_keyspace>();
    shared::<esker_snapshot>();
    shared::<esker_error>();
    shared::<esker_settings>();
    shared::<esker_keyspace_settings>();
    moved::<esker_batch>();
    moved::<esker_cursor>();
    moved::<esker_transaction>();
}

#[test]
fn threads_write_and_read_one_keyspace() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let (db, users) = (&*db, &*users);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in 0..200 {
                    let key = format!("{thread}/{number}");
                    put(users, &key, &key).unwrap();
                    assert_eq!(get(users, &key).unwrap(), key.as_bytes());
                    let snapshot = make!(esker_snapshot_new, Some(db)).unwrap();
                    esker_snapshot_free(Some(snapshot));
                }
                call!(esker_flush, Some(db)).unwrap();
            });
        }
    });
    for thread in 0..4 {
        for number in 0..200 {
            let key = format!("{thread}/{number}");
            assert_eq!(get(users, &key).unwrap(), key.as_bytes());
        }
    }
}

/// Calls by other handles run while the database is closed: each is done or refused.
#[test]
fn a_close_while_others_read_refuses_them() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    put(&users, "ada", "analyst").unwrap();
    let users = &*users;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                loop {
                    match get(users, "ada") {
                        Ok(value) => assert_eq!(value, b"analyst"),
                        Err((status, _)) => {
                            assert_eq!(status, ESKER_CLOSED);
                            break;
                        }
                    }
                }
            });
        }
        call!(esker_close, Some(db)).unwrap();
    });
}
