//! Backups of encrypted databases.

use crate::{expect, keys, small, write};
use esker_backup::{PointInTime, Repository};
use esker_base::{EncryptionError, Error, Result, SystemClock};
use esker_encryption::{Key, keys_in_use};
use esker_lsm::Db;
use esker_storage::{Encryption, MemoryStorage, PosixStorage, Storage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn is_exposed(error: &Error) -> bool {
    matches!(error, Error::Encryption(error) if matches!(**error, EncryptionError::Exposed { .. }))
}

#[test]
fn a_repository_that_is_not_encrypted_takes_nothing_of_an_encrypted_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), small().encryption(keys(&[1]))).unwrap();
    write(&db, 0);
    let repository = Repository::create(dir.path().join("plain")).unwrap();
    assert!(is_exposed(&repository.back_up(&db).unwrap_err()));
    assert!(is_exposed(&repository.ship(&db, 1 << 30).unwrap_err()));
    assert_eq!(std::fs::read_dir(dir.path().join("plain")).unwrap().count(), 0);
}

#[test]
fn an_encrypted_repository_needs_its_key_and_restores_with_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Db::open(path("db"), small().encryption(keys(&[1]))).unwrap();
    write(&db, 0);
    let encryption = Encryption::from(keys(&[1]));
    let repository = Repository::create_with(path("repository"), Some(&encryption)).unwrap();
    repository.back_up(&db).unwrap();
    write(&db, 1);
    let through = repository.ship(&db, 1 << 30).unwrap().seqno;
    for opened in [Repository::open(path("repository")), Repository::create(path("repository"))] {
        let error = opened.expect_err("it is encrypted");
        assert!(matches!(error, Error::Encryption(_)), "{error}");
    }
    let rotated = Encryption::from(keys(&[2, 1]));
    let repository = Repository::open_with(path("repository"), Some(&rotated)).unwrap();
    repository.restore(Some(1), path("first")).unwrap();
    expect(&Db::open(path("first"), small().encryption(keys(&[2]))).unwrap(), 0);
    repository.restore_to(PointInTime::Seqno(through), path("last")).unwrap();
    expect(&Db::open(path("last"), small().encryption(keys(&[2]))).unwrap(), 1);
    let plain = esker_storage::MemoryStorage::new();
    let backup = repository.backups().unwrap().remove(0);
    let refused = repository.restore_into(&backup, &plain, &mut |_| true).unwrap_err();
    assert!(is_exposed(&refused), "{refused}");
}

fn files_of(storage: &dyn Storage) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let file = storage.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    storage.list().unwrap().into_iter().map(read).collect()
}

/// What each call on a repository of `db` in `storage` says if the keys are these. None of them changes anything.
fn refusals(storage: &Arc<MemoryStorage>, db: &Db, numbers: &[u8]) -> Vec<EncryptionError> {
    let below: Arc<dyn Storage> = storage.clone();
    let encrypted = Encryption::from(keys(numbers)).over(below);
    let repository = Repository::of(encrypted, Arc::new(SystemClock::new()));
    let (before, dir) = (files_of(&**storage), tempfile::tempdir().unwrap());
    let target = dir.path().join("target");
    let calls: Vec<Result<()>> = vec![
        repository.database().map(|_| ()),
        repository.backups().map(|_| ()),
        repository.shipments().map(|_| ()),
        repository.restorable().map(|_| ()),
        repository.shipped_through().map(|_| ()),
        repository.back_up(db).map(|_| ()),
        repository.ship(db, 1 << 30).map(|_| ()),
        repository.prune(1).map(|_| ()),
        repository.verify(&mut |error| panic!("{error}"), &mut |_| true).map(|_| ()),
        repository.restore(None, &target).map(|_| ()),
        repository.restore(Some(1), &target).map(|_| ()),
        repository.restore_to(PointInTime::Seqno(1), &target).map(|_| ()),
        repository.restore_to(PointInTime::Time(u64::MAX), &target).map(|_| ()),
    ];
    assert!(files_of(&**storage) == before, "something was changed");
    assert!(!target.exists());
    let refused = calls.into_iter().enumerate().map(|(call, result)| match result {
        Err(Error::Encryption(error)) => *error,
        other => panic!("call {call}: {other:?}"),
    });
    refused.collect()
}

/// A repository in memory with backups and shipments of `db`.
fn filled(db: &Db, encryption: Option<Encryption>) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    let below: Arc<dyn Storage> = storage.clone();
    let over = encryption.map_or(below.clone(), |encryption| encryption.over(below));
    let repository = Repository::of(over, Arc::new(SystemClock::new()));
    for round in 0..2 {
        write(db, round);
        repository.ship(db, 1 << 30).unwrap();
    }
    assert_eq!(repository.shipments().unwrap().len(), 1);
    storage
}

#[test]
fn a_wrong_key_of_a_repository_is_named_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small().encryption(keys(&[1]))).unwrap();
    let storage = filled(&db, Some(keys(&[1]).into()));
    let [key, other, another] = [1, 2, 3].map(|number| Key::new([number; 32]).id().to_string());
    for refused in refusals(&storage, &db, &[2, 3]) {
        let EncryptionError::UnknownKey { file, key: needed, given } = &refused else {
            panic!("{refused}")
        };
        assert!(storage.list().unwrap().iter().any(|name| file.ends_with(name)), "{file}");
        assert!(*needed == key && given.contains(&other) && given.contains(&another), "{refused}");
    }
}

#[test]
fn a_key_for_a_repository_that_is_not_encrypted_is_refused_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let storage = filled(&db, None);
    for refused in refusals(&storage, &db, &[1]) {
        assert!(matches!(refused, EncryptionError::NotEncrypted { .. }), "{refused}");
    }
}

#[test]
fn a_directory_with_a_repository_is_not_opened_with_a_wrong_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), small().encryption(keys(&[1]))).unwrap();
    write(&db, 0);
    let path = dir.path().join("repository");
    let open = |numbers: &[u8], open: fn(&Path, Option<&Encryption>) -> Result<Repository>| {
        open(&path, Some(&keys(numbers).into()))
    };
    open(&[1], |path, key| Repository::create_with(path, key)).unwrap().back_up(&db).unwrap();
    let storage = PosixStorage::open(&path).unwrap();
    let before = files_of(&storage);
    for refused in [
        open(&[2], |path, key| Repository::create_with(path, key)),
        open(&[2], |path, key| Repository::open_with(path, key)),
    ] {
        let error = refused.expect_err("the key is another one").to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("REPOSITORY"), "{error}");
    }
    assert!(files_of(&storage) == before, "something was changed");
}

#[test]
fn a_prune_of_the_backups_with_an_old_key_ends_the_need_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Db::open(path("db"), small().encryption(keys(&[1]))).unwrap();
    write(&db, 0);
    let old = Encryption::from(keys(&[1]));
    Repository::create_with(path("repository"), Some(&old)).unwrap().back_up(&db).unwrap();
    db.close().unwrap();
    let rotated = Encryption::from(keys(&[2, 1]));
    let db = Db::open(path("db"), small().encryption(keys(&[2, 1]))).unwrap();
    write(&db, 1);
    db.compact().unwrap();
    let repository = Repository::open_with(path("repository"), Some(&rotated)).unwrap();
    repository.back_up(&db).unwrap();
    repository.prune(1).unwrap();
    let in_use = keys_in_use(&PosixStorage::open(path("repository")).unwrap()).unwrap();
    assert!(!in_use.files.contains_key(&Key::new([1; 32]).id()), "{in_use:?}");
    let new = Encryption::from(keys(&[2]));
    let repository = Repository::open_with(path("repository"), Some(&new)).unwrap();
    repository.restore(None, path("restored")).unwrap();
    expect(&Db::open(path("restored"), small().encryption(keys(&[2]))).unwrap(), 1);
}
