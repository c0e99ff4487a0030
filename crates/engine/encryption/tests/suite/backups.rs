//! Backups of encrypted databases.

use crate::{expect, keys, small, write};
use esker_backup::{PointInTime, Repository};
use esker_base::{EncryptionError, Error};
use esker_lsm::Db;
use esker_storage::Encryption;

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
