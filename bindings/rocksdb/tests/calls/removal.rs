//! Removal and restore: what is not a database of this library stays.

use crate::c::*;
use crate::{Store, path};
use std::ffi::CString;
use std::path::Path;

/// A directory as RocksDB leaves it, with writes in a log that no table has.
fn database_of_rocksdb(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    for (name, text) in [
        ("CURRENT", "MANIFEST-000005\n"),
        ("MANIFEST-000005", ""),
        ("000004.log", "writes"),
        ("LOCK", ""),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

fn files(dir: &Path) -> Vec<String> {
    let names = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn restore(backups: &Path, to: &CString) -> Result<(), String> {
    let (name, options, restore) =
        (path(backups), rocksdb_options_create(), rocksdb_restore_options_create());
    let open = |error| rocksdb_backup_engine_open(options, name.as_ptr(), error);
    let engine = with_error(open).unwrap();
    let (to, call) = (to.as_ptr(), rocksdb_backup_engine_restore_db_from_latest_backup);
    let restored = with_error(|error| call(engine, to, to, restore, error));
    rocksdb_backup_engine_close(engine);
    rocksdb_restore_options_destroy(restore);
    rocksdb_options_destroy(options);
    restored
}

/// A store with a backup that has "k" = "old", and "new" in the database.
fn backed_up() -> Store {
    let store = Store::new(|_| {});
    store.put(b"k", b"old");
    let name = path(&store.dir.path().join("backups"));
    let open = |error| rocksdb_backup_engine_open(store.options, name.as_ptr(), error);
    let engine = with_error(open).unwrap();
    with_error(|error| rocksdb_backup_engine_create_new_backup_flush(engine, store.db, 1, error))
        .unwrap();
    rocksdb_backup_engine_close(engine);
    store.put(b"k", b"new");
    store
}

#[test]
fn destroy_leaves_a_database_of_rocksdb_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    database_of_rocksdb(dir.path());
    let (options, name) = (rocksdb_options_create(), path(dir.path()));
    let error = with_error(|error| rocksdb_destroy_db(options, name.as_ptr(), error)).unwrap_err();
    assert!(error.contains("a database of RocksDB"), "{error}");
    assert_eq!(files(dir.path()), ["000004.log", "CURRENT", "LOCK", "MANIFEST-000005"]);
    rocksdb_options_destroy(options);
}

#[test]
fn destroy_leaves_the_files_of_the_program() {
    let mut store = Store::new(|_| {});
    store.close();
    let dir = store.dir.path().join("db");
    for name in ["app.log", "000004.log", "notes.manifest"] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    let name = store.path();
    with_error(|error| rocksdb_destroy_db(store.options, name.as_ptr(), error)).unwrap();
    assert_eq!(files(&dir), ["000004.log", "app.log", "notes.manifest"]);
}

#[test]
fn restore_leaves_a_database_of_rocksdb_as_it_is() {
    let store = backed_up();
    let other = store.dir.path().join("other");
    database_of_rocksdb(&other);
    let error = restore(&store.dir.path().join("backups"), &path(&other)).unwrap_err();
    assert!(error.contains("a database of RocksDB"), "{error}");
    assert_eq!(files(&other).len(), 4);
}

#[test]
fn restore_replaces_a_database_next_to_other_files() {
    let mut store = backed_up();
    store.close();
    let dir = store.dir.path().join("db");
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    restore(&store.dir.path().join("backups"), &store.path()).unwrap();
    assert_eq!(std::fs::read(dir.join("notes.txt")).unwrap(), b"mine");
    assert_eq!(files(store.dir.path()), ["backups", "db"]);
    store.reopen();
    assert_eq!(store.get(b"k"), Some(b"old".to_vec()));
}

#[test]
fn restore_over_an_open_database_changes_nothing() {
    let store = backed_up();
    let error = restore(&store.dir.path().join("backups"), &store.path()).unwrap_err();
    assert!(error.starts_with("IO error: lock "), "{error}");
    assert_eq!(store.get(b"k"), Some(b"new".to_vec()));
}

#[test]
fn the_directory_of_the_database_may_be_that_of_its_logs() {
    let dir = tempfile::tempdir().unwrap();
    let (options, name) = (rocksdb_options_create(), path(&dir.path().join("db")));
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_wal_dir(options, name.as_ptr());
    for _ in 0..2 {
        let open = |error| rocksdb_open(options, name.as_ptr(), error);
        rocksdb_close(with_error(open).unwrap());
    }
    rocksdb_options_destroy(options);
}

#[test]
fn destroy_removes_the_logs_in_another_directory() {
    let logs = tempfile::tempdir().unwrap();
    let name = path(&logs.path().join("wal"));
    let mut store = Store::new(|options| rocksdb_options_set_wal_dir(options, name.as_ptr()));
    store.close();
    let db = store.path();
    with_error(|error| rocksdb_destroy_db(store.options, db.as_ptr(), error)).unwrap();
    assert!(!logs.path().join("wal").exists());
    store.reopen();
}
