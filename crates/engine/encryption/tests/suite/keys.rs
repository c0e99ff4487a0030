//! Keys that are wrong, missing, not needed, or new.

use crate::{expect, keys, small, write};
use esker_base::{EncryptionError, Error, Result};
use esker_encryption::{Key, KeyUsage, keys_in_use};
use esker_lsm::inspect::{Inspector, MissingLogPolicy};
use esker_lsm::{Db, Log, Origin, Replica, Settings};
use esker_storage::{Encryption, MemoryStorage, PosixStorage, Storage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// All files of a directory.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name != "LOCK").then(|| (name, std::fs::read(entry.path()).unwrap()))
    };
    entries.filter_map(read).collect()
}

/// Opens the database in each way, and returns the errors, which must have changed nothing.
fn refusals(dir: &Path, settings: &Settings, encryption: Option<&Encryption>) -> Vec<Error> {
    let before = files(dir);
    let inspector = || {
        let inspector = Inspector::open(dir, None).unwrap();
        match encryption {
            Some(encryption) => inspector.encryption(encryption),
            None => inspector,
        }
    };
    let ways: [Result<()>; 5] = [
        Db::open(dir, settings.clone()).map(|_| ()),
        Db::open_existing(dir, settings.clone()).map(|_| ()),
        Db::open_read_only(dir, settings.clone()).map(|_| ()),
        inspector().check(&mut |_| {}).map(|_| ()),
        inspector().repair(MissingLogPolicy::Refuse).map(|_| ()),
    ];
    assert!(files(dir) == before, "something was changed");
    ways.into_iter().map(|way| way.expect_err("it is refused")).collect()
}

fn kind(error: &Error) -> &EncryptionError {
    match error {
        Error::Encryption(error) => error,
        other => panic!("{other}"),
    }
}

fn closed(dir: &Path, settings: Settings) {
    let db = Db::open(dir, settings).unwrap();
    write(&db, 0);
    db.flush().unwrap();
    write(&db, 1);
    db.close().unwrap();
}

#[test]
fn an_encrypted_database_is_not_opened_without_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    closed(dir, small().encryption(keys(&[1])));
    for error in refusals(dir, &small(), None) {
        assert!(
            matches!(kind(&error), EncryptionError::KeyNeeded { place } if Path::new(place) == dir)
        );
        let shown = error.to_string();
        assert!(shown.contains("ESKER_KEY") && shown.contains("--key-file"), "{shown}");
    }
    let other = Encryption::from(keys(&[2, 3]));
    for error in refusals(dir, &small().encryption(other.clone()), Some(&other)) {
        let EncryptionError::UnknownKey { file, key, given } = kind(&error) else {
            panic!("{error}")
        };
        assert!(Path::new(file).starts_with(dir), "{file}");
        assert_eq!(*key, Key::new([1; 32]).id().to_string());
        assert_eq!(given.split(", ").count(), 2);
    }
    let db = Db::open(dir, small().encryption(keys(&[1]))).unwrap();
    expect(&db, 1);
}

#[test]
fn a_database_that_is_not_encrypted_is_not_opened_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    closed(dir, small());
    let encryption = Encryption::from(keys(&[1]));
    for error in refusals(dir, &small().encryption(encryption.clone()), Some(&encryption)) {
        let EncryptionError::NotEncrypted { place } = kind(&error) else { panic!("{error}") };
        assert_eq!(Path::new(place), dir);
    }
    expect(&Db::open(dir, small()).unwrap(), 1);
}

#[test]
fn a_log_in_a_pool_is_refused() {
    let log = Log::Pmem { pool: "/dev/shm/none".into(), emulated: true };
    let error = small().log(log).encryption(keys(&[1])).validate().unwrap_err();
    assert!(error.to_string().contains("pool"), "{error}");
}

#[test]
fn files_that_are_not_encrypted_are_no_part_of_an_encrypted_database() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, encrypted) = (dir.path().join("plain"), dir.path().join("encrypted"));
    closed(&plain, small());
    closed(&encrypted, small().encryption(keys(&[1])));
    let tables = |dir: &Path| {
        let names = files(dir).into_keys().filter(|name| name.ends_with(".tables"));
        names.collect::<Vec<_>>()
    };
    let replaced =
        tables(&encrypted).into_iter().find(|name| tables(&plain).contains(name)).unwrap();
    std::fs::copy(plain.join(&replaced), encrypted.join(&replaced)).unwrap();
    let error = Db::open(&encrypted, small().encryption(keys(&[1]))).expect_err("it is damaged");
    assert!(error.is_corruption() && error.to_string().contains(&replaced), "{error}");
}

fn usage(dir: &Path) -> KeyUsage {
    keys_in_use(&PosixStorage::open(dir).unwrap()).unwrap()
}

#[test]
fn compaction_rotates_keys() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    closed(dir, small().encryption(keys(&[1])));
    let ids = |usage: KeyUsage| usage.files.into_keys().collect::<Vec<_>>();
    let [old, new] = [1, 2].map(|key| Key::new([key; 32]).id());
    assert_eq!(ids(usage(dir)), [old]);
    let settings = small().encryption(keys(&[2, 1]));
    let db = Db::open(dir, settings.clone()).unwrap();
    write(&db, 2);
    db.flush().unwrap();
    let mut both = vec![old, new];
    both.sort();
    assert_eq!(ids(usage(dir)), both);
    db.compact().unwrap();
    db.close().unwrap();
    // A file that a reader had until the end is removed by the next open.
    Db::open(dir, settings).unwrap().close().unwrap();
    assert_eq!(ids(usage(dir)), [new], "{:?}", usage(dir));
    // Without the old key.
    let db = Db::open(dir, small().encryption(keys(&[2]))).unwrap();
    expect(&db, 2);
    let written = db.stats().compaction_bytes;
    db.compact().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().compaction_bytes, written, "nothing is rewritten once all is new");
}

/// Values that are stored in value files, and of which a snapshot keeps older versions.
#[test]
fn compaction_rotates_the_keys_of_value_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let separated = |db: &Db| {
        db.keyspace("rows", Default::default()).unwrap();
        db.set(&"rows.separation_threshold=50".parse().unwrap()).unwrap();
    };
    let db = Db::open(dir, small().encryption(keys(&[1]))).unwrap();
    separated(&db);
    for round in 0..3 {
        write(&db, round);
        db.flush().unwrap();
    }
    db.close().unwrap();
    let values = |db: &Db| {
        let levels = db.levels();
        levels.iter().find(|tree| tree.name == "rows").unwrap().values
    };
    let [old, new] = [1, 2].map(|key| Key::new([key; 32]).id());
    let settings = small().encryption(keys(&[2, 1]));
    let db = Db::open(dir, settings.clone()).unwrap();
    assert!(values(&db).files > 0);
    db.compact().unwrap();
    assert!(values(&db).live_values >= 300, "they stay in value files");
    db.close().unwrap();
    Db::open(dir, settings).unwrap().close().unwrap();
    let left = usage(dir);
    assert!(!left.files.contains_key(&old) && left.files.contains_key(&new), "{left:?}");
    let db = Db::open(dir, small().encryption(keys(&[2]))).unwrap();
    expect(&db, 2);
    let written = db.stats().compaction_bytes;
    db.compact().unwrap();
    assert_eq!(db.stats().compaction_bytes, written, "nothing is rewritten once all is new");
}

/// A value that is larger than an entry of the log, in a file of its own.
#[test]
fn compaction_rotates_the_key_of_a_large_value() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let value: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
    let db = Db::open(dir, small().encryption(keys(&[1]))).unwrap();
    assert!(value.len() > small().max_entry_bytes());
    db.default_keyspace().put_reader("v", &value[..]).unwrap();
    write(&db, 0);
    db.close().unwrap();
    let has = |needle: &[u8]| {
        let files = files(dir);
        files.values().any(|bytes| bytes.windows(needle.len()).any(|found| found == needle))
    };
    assert!(!has(&value[1_000_000..1_000_032]), "it is not encrypted");
    let settings = small().encryption(keys(&[2, 1]));
    Db::open(dir, settings.clone()).unwrap().compact().unwrap();
    Db::open(dir, settings).unwrap().close().unwrap();
    let old = Key::new([1; 32]).id();
    assert!(!usage(dir).files.contains_key(&old), "{:?}", usage(dir));
    let db = Db::open(dir, small().encryption(keys(&[2]))).unwrap();
    assert!(db.default_keyspace().get("v").unwrap().unwrap() == value[..]);
    expect(&db, 0);
    let levels = db.levels();
    let values = levels.iter().find(|tree| tree.name == "default").unwrap().values;
    assert_eq!((values.files, values.live_values), (1, 1), "it stays in a file");
}

/// Compactions of the background carry the places of values, and write tables with the new key.
#[test]
fn value_files_with_an_old_key_are_rewritten_though_all_tables_have_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rows = |db: &Db| db.keyspace("rows", Default::default()).unwrap();
    let db = Db::open(dir, small().encryption(keys(&[1]))).unwrap();
    rows(&db);
    db.set(&"rows.separation_threshold=50".parse().unwrap()).unwrap();
    write(&db, 0);
    db.close().unwrap();
    let settings = small().encryption(keys(&[2, 1]));
    let db = Db::open(dir, settings.clone()).unwrap();
    for round in 0..4 {
        rows(&db).put(format!("{round}"), "short").unwrap();
        rows(&db).put(format!("{round}~"), "short").unwrap();
        db.flush().unwrap();
    }
    db.wait_for_compactions().unwrap();
    db.close().unwrap();
    let db = Db::open(dir, settings.clone()).unwrap();
    let old = Key::new([1; 32]).id();
    let left = usage(dir).files.remove(&old).unwrap_or_default();
    assert!(!left.is_empty() && left.iter().all(|name| name.ends_with(".values")), "{left:?}");
    db.compact().unwrap();
    db.close().unwrap();
    Db::open(dir, settings).unwrap().close().unwrap();
    assert!(!usage(dir).files.contains_key(&old), "{:?}", usage(dir));
    expect(&Db::open(dir, small().encryption(keys(&[2]))).unwrap(), 0);
}

#[test]
fn an_open_rotates_the_key_of_a_log_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (db, logs) = (dir.path().join("db"), dir.path().join("logs"));
    let log = Log::File { dir: Some(logs.clone()), sync: esker_lsm::SyncPolicy::Os };
    for numbers in [&[1][..], &[2, 1], &[2]] {
        closed(&db, small().log(log.clone()).encryption(keys(numbers)));
        let current = Key::new([numbers[0]; 32]).id();
        assert_eq!(usage(&logs).files.into_keys().collect::<Vec<_>>(), [current]);
        let settings = small().log(log.clone()).encryption(keys(numbers));
        Db::open(&db, settings.clone()).unwrap().compact().unwrap();
        expect(&Db::open(&db, settings).unwrap(), 1);
    }
}

/// What follows another database over a network is no database of its own.
#[test]
fn an_open_rotates_the_key_of_the_note_of_which_database_it_follows() {
    let dir = tempfile::tempdir().unwrap();
    let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
    let db = Db::open(&original, small().encryption(keys(&[1]))).unwrap();
    db.checkpoint(&copy).unwrap();
    let storage = crate::over(PosixStorage::open(&copy).unwrap());
    Origin::new(7, 5).write(&storage).unwrap();
    drop(storage);
    let noted_with = |number: u8| {
        let files = usage(&copy).files.remove(&Key::new([number; 32]).id());
        files.is_some_and(|files| files.iter().any(|name| name == "FOLLOWS"))
    };
    assert!(noted_with(1));
    Replica::open(&copy, small().encryption(keys(&[2, 1]))).unwrap();
    assert!(noted_with(2) && !noted_with(1));
}

/// Local followers of the original read that.
#[test]
fn an_open_rotates_the_key_of_the_note_of_which_database_it_is_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
    let db = Db::open(&original, small().encryption(keys(&[1]))).unwrap();
    db.checkpoint(&copy).unwrap();
    let noted_with = |number: u8| {
        let files = usage(&copy).files.remove(&Key::new([number; 32]).id());
        files.is_some_and(|files| files.iter().any(|name| name == "ORIGINAL"))
    };
    assert!(noted_with(1));
    Db::open(&copy, small().encryption(keys(&[2, 1]))).unwrap().close().unwrap();
    assert!(noted_with(2) && !noted_with(1));
}

#[test]
fn a_storage_that_is_encrypted_already_is_not_encrypted_twice() {
    let memory = MemoryStorage::new();
    let storage = crate::over(memory.clone());
    let env = esker_lsm::Env::over(Arc::new(storage));
    let db = Db::open_with(env, small().encryption(keys(&[1]))).unwrap();
    write(&db, 0);
    db.close().unwrap();
    assert!(memory.exists("CURRENT").unwrap());
    let env = esker_lsm::Env::over(Arc::new(memory));
    expect(&Db::open_with(env, small().encryption(keys(&[1]))).unwrap(), 0);
}
