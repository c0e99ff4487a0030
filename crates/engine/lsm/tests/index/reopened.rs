//! Indexes after an open: not registered, of another version, dropped, in a checkpoint.

use crate::support::*;
use esker_base::{Error, IndexError};
use esker_lsm::{Db, Env, IndexSettings, IndexStatus};

fn error_of(error: Error) -> IndexError {
    match error {
        Error::Index(error) => *error,
        other => panic!("{other}"),
    }
}

#[test]
fn a_keyspace_takes_no_writes_until_its_indexes_are_registered_or_dropped() {
    let disk = disk();
    let db = open(&disk);
    let index = users(&db).index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    users(&db).put("a", "green").unwrap();
    db.close().unwrap();

    let db = open(&disk);
    let users = users(&db);
    let info = users.indexes().unwrap().remove(0);
    assert_eq!((info.name.as_str(), info.version, info.is_unique), ("by_word", Some(1), false));
    assert!(matches!(info.status, IndexStatus::NotRegistered));
    let refused = users.put("b", "red").unwrap_err();
    assert!(refused.to_string().contains("drop it with `Keyspace::drop_index`"), "{refused}");
    assert!(matches!(error_of(refused), IndexError::NotRegistered { .. }));
    // Others are written, and reads go on.
    db.default_keyspace().put("b", "red").unwrap();
    assert!(users.contains_key("a").unwrap());
    let index = users.index("by_word", words).unwrap();
    assert!(index.is_ready(), "no build is needed");
    users.put("b", "red").unwrap();
    verify(&db, &index, &rows(&users), words);
    db.close().unwrap();

    let db = open(&disk);
    let users = crate::support::users(&db);
    users.drop_index("by_word").unwrap();
    users.put("c", "blue").unwrap();
    assert!(users.indexes().unwrap().is_empty());
    db.close().unwrap();
    assert!(crate::support::users(&open(&disk)).put("d", "").is_ok());
}

#[test]
fn another_version_is_rebuilt_or_rejected() {
    let disk = disk();
    let db = open(&disk);
    users(&db).index("index", words).unwrap().wait_ready().unwrap();
    users(&db).put("a", "one two").unwrap();
    db.close().unwrap();

    let db = open(&disk);
    let users = users(&db);
    let second = || IndexSettings::new("index").version(2);
    let error = users.index(second().rebuild(false), first_word).unwrap_err();
    assert!(
        error.to_string().contains("version 1, not unique, and version 2, not unique"),
        "{error}"
    );
    assert!(matches!(error_of(error), IndexError::Differs { .. }));
    let index = users.index(second(), first_word).unwrap();
    assert!(!index.is_ready());
    index.wait_ready().unwrap();
    verify(&db, &index, &rows(&users), first_word);
    // The same while the database is open; the handle of the old one has nothing to read.
    let unique = users.index(second().unique(true), first_word).unwrap();
    unique.wait_ready().unwrap();
    verify(&db, &unique, &rows(&users), first_word);
    assert!(index.get("one").next().unwrap().is_err());
    assert_eq!(users.indexes().unwrap().len(), 1);
    db.close().unwrap();

    let db = open(&disk);
    let info = crate::support::users(&db).indexes().unwrap().remove(0);
    assert_eq!((info.version, info.is_unique), (Some(2), true));
}

#[test]
fn a_registered_index_is_not_built_twice() {
    let db = open(&disk());
    let users = users(&db);
    let index = users.index("index", words).unwrap();
    index.wait_ready().unwrap();
    let again = users.index("index", |_, _, _| panic!("not called")).unwrap();
    assert!(again.is_ready());
    users.put("a", "green").unwrap();
    verify(&db, &again, &rows(&users), words);
}

#[test]
fn a_checkpoint_has_the_indexes() {
    let db = open(&disk());
    let users = users(&db);
    users.index("by_word", words).unwrap().wait_ready().unwrap();
    users.put("a", "green").unwrap();
    let copy = disk();
    db.checkpoint_to(&copy).unwrap();
    users.put("a", "red").unwrap();

    let db = open(&copy);
    let users = crate::support::users(&db);
    assert!(users.put("b", "blue").is_err());
    let index = users.index("by_word", words).unwrap();
    assert!(index.is_ready());
    users.put("b", "blue").unwrap();
    verify(&db, &index, &rows(&users), words);
    assert_eq!(index.get("green").count(), 1);
}

#[test]
fn a_read_only_database_reads_by_an_index_that_is_ready() {
    let disk = disk();
    let db = open(&disk);
    let users = users(&db);
    users.index("ready", words).unwrap().wait_ready().unwrap();
    users.put("a", "green").unwrap();
    users.index("building", words).unwrap();
    db.close().unwrap();
    let env = Env::over(std::sync::Arc::new(disk.clone()));
    let db = Db::open_read_only_with(env, settings()).unwrap();
    let users = db.open_keyspace("users").unwrap();
    let index = users.index("ready", words).unwrap();
    assert_eq!(index.get("green").count(), 1);
    assert!(matches!(users.index("building", words), Err(Error::ReadOnly)));
    assert!(matches!(users.index("new", words), Err(Error::ReadOnly)));
    assert!(matches!(users.drop_index("ready"), Err(Error::ReadOnly)));
}
