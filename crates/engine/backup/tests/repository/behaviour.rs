//! Backups and restores that end well, and those that are refused.

use crate::{Model, contents, database, in_memory, over, restored, small, write};
use esker_backup::Repository;
use esker_base::{BackupError, Error, FileKind, WriteHint};
use esker_lsm::{Db, Env, KeyspaceSettings, LiveFiles};
use esker_storage::{MemoryStorage, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn backup_error(error: Error) -> BackupError {
    match error {
        Error::Backup(error) => *error,
        other => panic!("{other}"),
    }
}

#[test]
fn each_backup_restores_the_database_of_its_moment() {
    let (db, mut model) = (database(), Model::new());
    let (_, repository) = in_memory();
    let mut models = Vec::new();
    for round in 0..5 {
        write(&db, &mut model, round);
        let report = repository.back_up(&db).unwrap();
        assert_eq!(report.number, round + 1);
        models.push(model.clone());
        if round == 2 {
            db.compact().unwrap();
        }
    }
    let backups = repository.backups().unwrap();
    assert_eq!(backups.len(), 5);
    for (backup, model) in backups.iter().zip(&models) {
        assert_eq!(contents(&restored(&repository, backup).unwrap()), *model);
    }
    assert!(backups.windows(2).all(|pair| pair[0].seqno < pair[1].seqno));
}

#[test]
fn a_backup_copies_only_what_no_earlier_one_has() {
    let (db, mut model) = (database(), Model::new());
    let (_, repository) = in_memory();
    write(&db, &mut model, 0);
    let first = repository.back_up(&db).unwrap();
    assert_eq!(first.copied_files, first.files);
    write(&db, &mut model, 1);
    let second = repository.back_up(&db).unwrap();
    // The one table of the last flush, the manifest and `CURRENT`.
    assert_eq!((second.files, second.copied_files), (first.files + 1, 3));
    let idle = repository.back_up(&db).unwrap();
    assert_eq!((idle.files, idle.copied_files), (second.files, 2));
}

#[test]
fn value_files_are_copied_once_and_restored() {
    let (db, mut model) = (database(), Model::new());
    let (_, repository) = in_memory();
    db.keyspace("rows", KeyspaceSettings::default()).unwrap();
    db.set(&"rows.separation_threshold=1".parse().unwrap()).unwrap();
    write(&db, &mut model, 0);
    let first = repository.back_up(&db).unwrap();
    write(&db, &mut model, 1);
    let second = repository.back_up(&db).unwrap();
    // A table and a value file, the manifest and `CURRENT`.
    assert_eq!((second.files, second.copied_files), (first.files + 2, 4));
    let levels = db.levels();
    let values = levels.iter().find(|tree| tree.name == "rows").unwrap().values;
    assert!(values.files >= 2 && values.live_values > 0, "{values:?}");
    let backups = repository.backups().unwrap();
    assert_eq!(contents(&restored(&repository, &backups[1]).unwrap()), model);
    let verified = repository.verify(&mut |error| panic!("{error}"), &mut |_| true).unwrap();
    assert_eq!(verified.intact, [1, 2]);
}

#[test]
fn a_restored_database_is_another_one_with_the_same_keyspaces() {
    let (db, mut model) = (database(), Model::new());
    write(&db, &mut model, 0);
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).unwrap();
    (0..3).for_each(|_| sums.merge("hits", 1_i64.to_le_bytes()).unwrap());
    let (_, repository) = in_memory();
    repository.back_up(&db).unwrap();
    let backup = repository.backups().unwrap().remove(0);
    let copy = restored(&repository, &backup).unwrap();
    let sums = copy.open_keyspace("sums").unwrap();
    assert_eq!(sums.get("hits").unwrap().as_deref(), Some(&3_i64.to_le_bytes()[..]));
    sums.merge("hits", 1_i64.to_le_bytes()).unwrap();
    let refused = backup_error(repository.back_up(&copy).unwrap_err());
    assert!(matches!(refused, BackupError::OtherDatabase { .. }), "{refused}");
    assert_eq!(repository.backups().unwrap().len(), 1);
}

#[test]
fn writes_go_on_while_a_backup_is_made_and_it_has_all_that_came_before() {
    let db = database();
    let rows = db.keyspace("rows", KeyspaceSettings::default()).unwrap();
    let (_, repository) = in_memory();
    let (is_done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let before_each = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut written = 0_u64;
            while !is_done.load(Ordering::Relaxed) {
                rows.put(written.to_be_bytes(), [7; 100]).unwrap();
                written += 1;
                acknowledged.store(written, Ordering::Release);
            }
        });
        let made = (1..=10).map(|round| {
            while acknowledged.load(Ordering::Acquire) < 100 * round {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::Acquire);
            repository.back_up(&db).map(|_| before)
        });
        let made: Result<Vec<u64>, Error> = made.collect();
        is_done.store(true, Ordering::Relaxed);
        made.unwrap()
    });
    for (backup, before) in repository.backups().unwrap().iter().zip(before_each) {
        let copy = restored(&repository, backup).unwrap();
        let entries: Vec<_> = copy.open_keyspace("rows").unwrap().iter().collect();
        // One writer: what is there is a prefix of what it wrote.
        assert!(entries.len() as u64 >= before);
        for (number, entry) in entries.into_iter().enumerate() {
            assert_eq!(&*entry.unwrap().0, &(number as u64).to_be_bytes());
        }
    }
}

#[test]
fn tables_that_are_compacted_away_meanwhile_are_still_backed_up() {
    let (db, mut model) = (database(), Model::new());
    for round in 0..3 {
        write(&db, &mut model, round);
        db.flush().unwrap();
    }
    let files = db.live_files().unwrap();
    let moment = model.clone();
    write(&db, &mut model, 3);
    db.compact().unwrap();
    let (_, repository) = in_memory();
    repository.back_up_files(&files, &mut |_| true).unwrap();
    let backup = repository.backups().unwrap().remove(0);
    assert_eq!(contents(&restored(&repository, &backup).unwrap()), moment);
}

#[test]
fn a_checkpoint_that_another_process_made_is_backed_up_as_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let (db, mut model) = (Db::open(dir.path().join("db"), small()).unwrap(), Model::new());
    write(&db, &mut model, 0);
    let repository = Repository::create(dir.path().join("backups")).unwrap();
    let first = repository.back_up(&db).unwrap();
    db.checkpoint(dir.path().join("copy")).unwrap();
    let database = repository.database().unwrap().unwrap();
    let files = LiveFiles::of_checkpoint(dir.path().join("copy"), database).unwrap();
    let second = repository.back_up_files(&files, &mut |_| true).unwrap();
    assert_eq!((second.files, second.copied_files), (first.files, 2), "tables keep their names");
    let report = repository.restore(None, dir.path().join("restored")).unwrap();
    assert_eq!(report.number, 2);
    let copy = Db::open(dir.path().join("restored"), small()).unwrap();
    assert_eq!(contents(&copy), model);
    let open = LiveFiles::of_checkpoint(dir.path().join("db"), database).unwrap_err();
    assert!(matches!(open, Error::NotADatabase { .. }), "{open}");
}

#[test]
fn a_prune_keeps_the_newest_and_removes_files_that_no_backup_uses() {
    let (db, mut model) = (database(), Model::new());
    let (storage, repository) = in_memory();
    let mut models = Vec::new();
    for round in 0..4 {
        write(&db, &mut model, round);
        db.compact().unwrap();
        repository.back_up(&db).unwrap();
        models.push(model.clone());
    }
    let files = storage.list().unwrap().len();
    let report = repository.prune(2).unwrap();
    assert_eq!((report.removed, report.kept), (vec![1, 2], vec![3, 4]));
    assert!(report.files >= 2 && report.bytes > 0);
    assert!(storage.list().unwrap().len() < files);
    let backups = repository.backups().unwrap();
    for (backup, model) in backups.iter().zip(&models[2..]) {
        assert_eq!(contents(&restored(&repository, backup).unwrap()), *model);
    }
    let again = repository.prune(2).unwrap();
    assert_eq!((again.removed.len(), again.files), (0, 0));
    assert!(matches!(repository.prune(0), Err(Error::InvalidSetting { .. })));
    // Numbers are not used again.
    assert_eq!(repository.back_up(&db).unwrap().number, 5);
}

#[test]
fn files_of_others_in_a_repository_stay() {
    let (db, mut model) = (database(), Model::new());
    let (storage, repository) = in_memory();
    write(&db, &mut model, 0);
    repository.back_up(&db).unwrap();
    let others = ["notes.txt", "film.partial", "old.backup", "00000001.log"];
    for name in others {
        storage.create(name, WriteHint::of(FileKind::Meta)).unwrap();
    }
    write(&db, &mut model, 1);
    db.compact().unwrap();
    repository.back_up(&db).unwrap();
    assert!(repository.prune(1).unwrap().files > 0);
    assert!(others.iter().all(|name| storage.exists(name).unwrap()));
    assert_eq!(repository.backups().unwrap().len(), 1);
}

/// Flips a bit in the middle of a file.
fn damage(storage: &MemoryStorage, name: &str) {
    let file = storage.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    storage.remove(name).unwrap();
    storage.create(name, WriteHint::of(FileKind::Meta)).unwrap().append(&bytes).unwrap();
}

#[test]
fn a_damaged_record_stops_no_backup_but_a_prune() {
    let (db, mut model) = (database(), Model::new());
    let (storage, repository) = in_memory();
    for round in 0..2 {
        write(&db, &mut model, round);
        repository.back_up(&db).unwrap();
    }
    for name in ["00000001.backup", "00000002.backup"] {
        damage(&storage, name);
    }
    write(&db, &mut model, 2);
    let report = repository.back_up(&db).unwrap();
    assert_eq!(report.number, 3, "no damaged record is written over");
    let backup = repository.backups().unwrap_err();
    assert!(backup.to_string().contains("00000001.backup"), "{backup}");
    assert!(matches!(backup_error(repository.prune(1).unwrap_err()), BackupError::Damaged { .. }));
    let mut problems = 0;
    let verified = repository.verify(&mut |_| problems += 1, &mut |_| true).unwrap();
    assert_eq!((verified.intact, verified.damaged, problems), (vec![3], vec![1, 2], 2));
    let dir = tempfile::tempdir().unwrap();
    repository.restore(Some(3), dir.path().join("new")).unwrap();
    let new = Db::open(dir.path().join("new"), small()).unwrap();
    assert_eq!(contents(&new), model);
}

#[test]
fn a_damaged_file_of_an_interrupted_backup_is_written_again() {
    let (db, mut model) = (database(), Model::new());
    let (storage, repository) = in_memory();
    write(&db, &mut model, 0);
    repository.back_up(&db).unwrap();
    // As if the backup had been interrupted before its record.
    storage.remove("00000001.backup").unwrap();
    let names = storage.list().unwrap();
    let tables: Vec<_> = names.iter().filter(|name| name.contains(".tables.")).collect();
    assert!(!tables.is_empty());
    for name in tables {
        damage(&storage, name);
    }
    repository.back_up(&db).unwrap();
    let backup = repository.backups().unwrap().remove(0);
    assert_eq!(contents(&restored(&repository, &backup).unwrap()), model);
}

#[test]
fn a_backup_that_is_cancelled_leaves_the_earlier_ones_and_the_next_goes_on() {
    let (db, mut model) = (database(), Model::new());
    let (_, repository) = in_memory();
    for round in 0..6 {
        write(&db, &mut model, round);
        db.flush().unwrap();
    }
    let files = db.live_files().unwrap();
    let mut calls = 0;
    let cancelled = repository.back_up_files(&files, &mut |progress| {
        assert!(progress.bytes <= progress.total);
        calls += 1;
        calls < 3
    });
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })));
    assert_eq!(repository.backups().unwrap(), []);
    let dir = tempfile::tempdir().unwrap();
    let no = backup_error(repository.restore(None, dir.path().join("new")).unwrap_err());
    assert!(matches!(no, BackupError::UnknownBackup { .. }), "{no}");
    let report = repository.back_up_files(&files, &mut |_| true).unwrap();
    assert!(report.copied_files < report.files, "a table that was copied is not copied again");
    let backup = repository.backups().unwrap().remove(0);
    assert_eq!(contents(&restored(&repository, &backup).unwrap()), model);
}

#[test]
fn a_directory_with_other_files_is_neither_a_repository_nor_a_target() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("letter.txt"), "dear").unwrap();
    let refused = backup_error(Repository::create(&other).unwrap_err());
    assert!(refused.to_string().contains("letter.txt"), "{refused}");
    for missing in [dir.path().join("missing"), other.clone()] {
        let refused = backup_error(Repository::open(missing).unwrap_err());
        assert!(matches!(refused, BackupError::NotARepository { .. }), "{refused}");
    }
    let (db, mut model) = (database(), Model::new());
    write(&db, &mut model, 0);
    let repository = Repository::create(dir.path().join("backups")).unwrap();
    repository.back_up(&db).unwrap();
    let refused = repository.restore(None, &other).unwrap_err();
    assert!(matches!(refused, Error::NotADatabase { .. }), "{refused}");
    let target = dir.path().join("target");
    repository.restore(None, &target).unwrap();
    let refused = repository.restore(None, &target).unwrap_err();
    assert!(matches!(refused, Error::DatabaseExists { .. }), "{refused}");
    assert_eq!(std::fs::read(other.join("letter.txt")).unwrap(), b"dear");
    let missing = repository.restore(Some(9), dir.path().join("new")).unwrap_err();
    assert!(missing.to_string().contains("no backup 9; it has 1"), "{missing}");
    assert!(!dir.path().join("new").exists());
}

#[test]
fn two_calls_that_change_a_repository_do_not_run_at_once() {
    let db = database();
    let (storage, repository) = in_memory();
    let lock = storage.lock().unwrap();
    assert!(matches!(repository.back_up(&db), Err(Error::Locked { .. })));
    assert!(matches!(repository.prune(1), Err(Error::Locked { .. })));
    drop(lock);
    repository.back_up(&db).unwrap();
}

#[test]
fn a_restore_that_is_cancelled_leaves_nothing() {
    let (db, mut model) = (database(), Model::new());
    write(&db, &mut model, 0);
    let (_, repository) = in_memory();
    repository.back_up(&db).unwrap();
    let backup = repository.backups().unwrap().remove(0);
    let target = MemoryStorage::new();
    let cancelled = repository.restore_into(&backup, &target, &mut |_| false);
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })));
    assert_eq!(target.list().unwrap(), Vec::<String>::new());
}

#[test]
fn a_directory_whose_restore_was_interrupted_says_so_when_it_is_opened() {
    let target = MemoryStorage::new();
    for name in [esker_lsm::RESTORING, "00000012.tables"] {
        target.create(name, WriteHint::of(FileKind::Meta)).unwrap();
    }
    let refused = Db::open_with(Env::over(Arc::new(target)), small()).unwrap_err();
    assert!(refused.to_string().contains("restore"), "{refused}");
}

#[test]
fn the_files_of_a_closed_database_cannot_be_had() {
    let db = over(Arc::new(MemoryStorage::new()));
    let other = db.clone();
    db.close().unwrap();
    assert!(matches!(other.live_files(), Err(Error::Closed)));
}
