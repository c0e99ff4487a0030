//! A repository in an object store works as one in a directory does.

use esker::backup::{PointInTime, Repository};
use esker::env::SystemClock;
use esker::{Db, Error, Settings};
use esker_object_store::{ObjectStorage, ObjectStore};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use std::path::Path;
use std::sync::Arc;

fn repository(store: &Arc<dyn ObjectStore>) -> Repository {
    let storage = ObjectStorage::with(store.clone(), "team/backups", "objects").unwrap();
    Repository::of(Arc::new(storage), Arc::new(SystemClock::new()))
}

fn put(db: &Db, from: u32, to: u32) {
    for key in from..to {
        db.default_keyspace().put(key.to_be_bytes(), format!("value {key}")).unwrap();
    }
}

fn keys(dir: &Path) -> usize {
    let db = Db::open(dir, Settings::default()).unwrap();
    db.default_keyspace().range(..).count()
}

/// Backs up twice, ships, verifies, prunes and restores.
fn whole_life(store: Arc<dyn ObjectStore>) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    let repository = repository(&store);

    put(&db, 0, 1000);
    let first = repository.back_up(&db).unwrap();
    put(&db, 1000, 1500);
    let second = repository.back_up(&db).unwrap();
    assert!(second.copied_files < second.files, "the second backup is incremental");

    repository.ship(&db, 64 << 20).unwrap();
    put(&db, 1500, 1700);
    // By default, what is not flushed may not survive a power loss, and is not shipped.
    db.flush().unwrap();
    let shipped = repository.ship(&db, 64 << 20).unwrap();

    let verified = repository.verify(&mut |problem| panic!("{problem}"), &mut |_| true).unwrap();
    assert!(verified.damaged.is_empty() && verified.intact.len() >= 2);

    for (backup, expected) in [(first.number, 1000), (second.number, 1500)] {
        let restored = dir.path().join(format!("restored {backup}"));
        repository.restore(Some(backup), &restored).unwrap();
        assert_eq!(keys(&restored), expected);
    }
    let restored = dir.path().join("restored to a point in time");
    repository.restore_to(PointInTime::Seqno(shipped.seqno - 100), &restored).unwrap();
    assert_eq!(keys(&restored), 1600);

    repository.prune(1).unwrap();
    assert_eq!(repository.backups().unwrap().len(), 1);
    let restored = dir.path().join("restored after the prune");
    repository.restore_to(PointInTime::Seqno(shipped.seqno), &restored).unwrap();
    assert_eq!(keys(&restored), 1700);
}

#[test]
fn a_repository_in_memory_backs_up_ships_and_restores() {
    whole_life(Arc::new(InMemory::new()));
}

#[test]
fn a_repository_in_files_backs_up_ships_and_restores() {
    let dir = tempfile::tempdir().unwrap();
    whole_life(Arc::new(LocalFileSystem::new_with_prefix(dir.path()).unwrap()));
}

#[test]
fn a_damaged_object_is_reported_and_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let objects = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> =
        Arc::new(LocalFileSystem::new_with_prefix(objects.path()).unwrap());
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    put(&db, 0, 1000);
    let repository = repository(&store);
    repository.back_up(&db).unwrap();

    let below = objects.path().join("team/backups");
    let tables = std::fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
    let table = tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).unwrap();

    let mut problems = Vec::new();
    let verified = repository.verify(&mut |problem| problems.push(problem), &mut |_| true).unwrap();
    assert_eq!((verified.damaged.len(), problems.len()), (1, 1));
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    assert!(problems[0].to_string().contains(&name), "{}", problems[0]);
    repository.restore(None, dir.path().join("restored")).unwrap_err();
}

#[test]
fn two_callers_do_not_change_a_repository_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    put(&db, 0, 10);
    let (first, second) = (repository(&store), repository(&store));
    let files = db.live_files().unwrap();
    let mut refused = 0;
    first
        .back_up_files(&files, &mut |_| {
            assert!(matches!(second.back_up(&db), Err(Error::Locked { .. })));
            refused += 1;
            true
        })
        .unwrap();
    assert!(refused > 0);
    second.back_up(&db).unwrap();
}

#[test]
fn objects_beside_the_prefix_are_not_part_of_the_repository() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for prefix in ["team/backups/of another", "team/backups2", "team"] {
        let other = ObjectStorage::with(store.clone(), prefix, "other").unwrap();
        let repository = Repository::of(Arc::new(other), Arc::new(SystemClock::new()));
        let db = Db::open(dir.path().join(prefix.replace('/', "-")), Settings::default()).unwrap();
        repository.back_up(&db).unwrap();
    }
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    assert_eq!(repository(&store).back_up(&db).unwrap().number, 1);
}
