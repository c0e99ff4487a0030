//! Damage: in a database that is backed up, and in a repository.

use crate::{Model, contents, in_memory, over, restored, small, write};
use esker_base::background::Stepped;
use esker_base::{BackupError, Error, FileKind, Rng, WriteHint};
use esker_lsm::{Db, Env, KeyspaceSettings};
use esker_storage::{MemoryStorage, Storage};
use std::sync::Arc;

fn read(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn replace(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    storage.remove(name).unwrap();
    create(storage, name, bytes);
}

fn create(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name, WriteHint::of(FileKind::Table)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn flip(storage: &dyn Storage, name: &str, at: usize) {
    let mut bytes = read(storage, name);
    bytes[at] ^= 1;
    replace(storage, name, &bytes);
}

fn tables(storage: &dyn Storage) -> Vec<String> {
    let mut names = storage.list().unwrap();
    names.retain(|name| name.contains(".tables"));
    names.sort();
    names
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Backup(error) if matches!(**error, BackupError::Damaged { .. }))
        && error.is_corruption()
}

#[test]
fn a_damaged_table_is_not_backed_up_and_earlier_backups_stay() {
    let storage = MemoryStorage::new();
    let (db, mut model) = (over(Arc::new(storage.clone())), Model::new());
    let (_, repository) = in_memory();
    write(&db, &mut model, 0);
    repository.back_up(&db).unwrap();
    let before = model.clone();
    write(&db, &mut model, 1);
    db.flush().unwrap();
    let newest = tables(&storage).pop().unwrap();
    flip(&storage, &newest, 100);
    let error = repository.back_up(&db).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(&newest), "{error}");
    let backups = repository.backups().unwrap();
    assert_eq!(backups.len(), 1);
    assert_eq!(contents(&restored(&repository, &backups[0]).unwrap()), before);
}

#[test]
fn every_damaged_or_missing_file_of_a_repository_is_found_and_never_restored() {
    let (db, mut model) = (over(Arc::new(MemoryStorage::new())), Model::new());
    let (storage, repository) = in_memory();
    for round in 0..2 {
        write(&db, &mut model, round);
        repository.back_up(&db).unwrap();
    }
    let intact = repository.verify(&mut |error| panic!("{error}"), &mut |_| true).unwrap();
    assert_eq!((&intact.intact[..], &intact.damaged[..]), (&[1, 2][..], &[][..]));
    let backups = repository.backups().unwrap();
    let mut looked_at = 0;
    for name in storage.list().unwrap() {
        if name == "REPOSITORY" {
            continue;
        }
        let bytes = read(&storage, &name);
        for way in 0..4 {
            match way {
                0 => flip(&storage, &name, bytes.len() / 2),
                1 => replace(&storage, &name, &bytes[..bytes.len() - 1]),
                2 => replace(&storage, &name, &[&bytes[..], b"x"].concat()),
                _ => storage.remove(&name).unwrap(),
            }
            let mut problems = Vec::new();
            let found =
                repository.verify(&mut |error| problems.push(error), &mut |_| true).unwrap();
            let is_missing_record = name.ends_with(".backup") && way == 3;
            assert_eq!(problems.is_empty(), is_missing_record, "{name}, {way}: {problems:?}");
            assert!(problems.iter().all(is_damage), "{problems:?}");
            for backup in &backups {
                let uses = backup.files.iter().any(|file| file.stored_as == name);
                assert!(!(uses && found.intact.contains(&backup.number)));
                if uses {
                    assert!(is_damage(&restored(&repository, backup).unwrap_err()));
                }
            }
            looked_at += 1;
            if way < 3 {
                replace(&storage, &name, &bytes);
            }
        }
        let mut file = storage.create(&name, WriteHint::of(FileKind::Table)).unwrap();
        file.append(&bytes).unwrap();
    }
    assert!(looked_at >= 4 * 8, "{looked_at}");
}

#[test]
fn the_next_backup_writes_a_file_again_that_has_gone_from_the_repository() {
    let (db, mut model) = (over(Arc::new(MemoryStorage::new())), Model::new());
    let (storage, repository) = in_memory();
    write(&db, &mut model, 0);
    repository.back_up(&db).unwrap();
    storage.remove(&tables(&storage)[0]).unwrap();
    repository.back_up(&db).unwrap();
    for backup in repository.backups().unwrap() {
        assert_eq!(contents(&restored(&repository, &backup).unwrap()), model);
    }
}

#[test]
fn a_table_of_the_same_name_with_other_content_is_copied() {
    // As a restore of a single file by hand would make it.
    let source = MemoryStorage::new();
    let (db, mut model) = (over(Arc::new(source.clone())), Model::new());
    let (_, repository) = in_memory();
    write(&db, &mut model, 0);
    repository.back_up(&db).unwrap();
    let table = tables(&source).pop().unwrap();
    let bytes = read(&source, &table);
    let end = bytes.len() - 1;
    flip(&source, &table, end);
    assert!(repository.back_up(&db).unwrap_err().is_corruption());
    replace(&source, &table, &bytes);
    assert_eq!(repository.back_up(&db).unwrap().copied_files, 2);
}

/// A database whose files have the same IDs in each run.
fn stepped(storage: &MemoryStorage) -> Db {
    let env = Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped));
    Db::open_with(env, small()).unwrap()
}

/// Puts `value` to "a", and the same long values to other keys. They cannot be compressed, so the first value
/// is not in the end of a file.
fn put_rows(db: &Db, value: u8) {
    let rows = db.open_keyspace("rows").unwrap();
    rows.put("a", [value; 500]).unwrap();
    let mut rng = Rng::new(1);
    for key in ["m", "z"] {
        let long: Vec<u8> = (0..9000).map(|_| rng.below(256) as u8).collect();
        rows.put(key, long).unwrap();
    }
}

#[test]
fn a_database_that_went_on_from_an_old_copy_of_its_files_is_copied_anew() {
    for threshold in [None, Some(100)] {
        let (source, copy) = (MemoryStorage::new(), MemoryStorage::new());
        // A copy of the directory that is brought back later.
        let empty = stepped(&source);
        let settings = KeyspaceSettings::default().separation_threshold(threshold);
        empty.keyspace("rows", settings).unwrap();
        empty.close().unwrap();
        for name in source.list().unwrap() {
            create(&copy, &name, &read(&source, &name));
        }
        let (_, repository) = in_memory();
        let db = stepped(&source);
        put_rows(&db, 1);
        repository.back_up(&db).unwrap();
        let db = stepped(&copy);
        put_rows(&db, 2);
        let report = repository.back_up(&db).unwrap();
        assert_eq!(report.copied_files, report.files, "{threshold:?}: {report:?}");
        let backups = repository.backups().unwrap();
        let names = |at: usize| backups[at].files.iter().map(|file| (&file.name, file.bytes));
        let alike = names(1).filter(|file| names(0).any(|other| other == *file)).count();
        assert!(alike >= if threshold.is_some() { 2 } else { 1 }, "{threshold:?}: {backups:?}");
        for (backup, value) in backups.iter().zip([1, 2]) {
            let db = restored(&repository, backup).unwrap();
            let rows = db.open_keyspace("rows").unwrap();
            assert_eq!(rows.get("a").unwrap().as_deref(), Some(&[value; 500][..]), "{threshold:?}");
        }
    }
}

#[test]
fn a_damaged_record_stops_a_prune() {
    let (db, mut model) = (over(Arc::new(MemoryStorage::new())), Model::new());
    let (storage, repository) = in_memory();
    for round in 0..2 {
        write(&db, &mut model, round);
        repository.back_up(&db).unwrap();
    }
    let files = storage.list().unwrap().len();
    flip(&storage, "00000001.backup", 40);
    assert!(is_damage(&repository.prune(1).unwrap_err()));
    assert_eq!(storage.list().unwrap().len(), files);
    flip(&storage, "00000001.backup", 40);
    assert_eq!(repository.prune(1).unwrap().removed, [1]);
}
