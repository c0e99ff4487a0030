//! A repair that a kill, a power loss or a full disk interrupts loses nothing, and the next one completes it.

use super::*;
use esker_storage::FaultStorage;

type Files = BTreeMap<String, Vec<u8>>;

fn files(storage: &dyn Storage) -> Files {
    let names = storage.list().unwrap().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), read(storage, &name))).collect()
}

fn disk_of(files: &Files, seed: u64) -> FaultStorage {
    let disk = FaultStorage::new(Rng::new(seed));
    files.iter().for_each(|(name, bytes)| disk.write_all(name, bytes));
    disk
}

fn inspector_of(disk: &FaultStorage) -> Inspector {
    let disk: Arc<dyn Storage> = Arc::new(disk.clone());
    Inspector::of(disk.clone(), disk)
}

fn open_disk(disk: &FaultStorage) -> esker_base::Result<Db> {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
    Db::open_with(env, settings())
}

/// Three files of which two have a damaged table, and writes that are in the log alone.
fn damaged_tables() -> Files {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
    for round in 0..3u32 {
        for key in 0..100u32 {
            let key = (round * 1000 + key).to_be_bytes();
            db.put(&db.default_keyspace(), key, [1; 100]).unwrap();
            db.put(&other, key, [2; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    db.put(&other, b"key", b"in the log").unwrap();
    let storage = copy(&*storage);
    let names = tables(&*storage);
    assert_eq!(names.len(), 3);
    names[..2].iter().for_each(|name| flip(&*storage, name, 2_000));
    files(&*storage)
}

/// Interrupts a repair after each of its calls. What the next one leaves is what one leaves that is not
/// interrupted; so is what an open says in between, if it succeeds.
fn interrupt_everywhere(damaged: &Files, must_rebuild: bool) {
    let whole = disk_of(damaged, 1);
    inspector_of(&whole).repair(MissingLogPolicy::Refuse).unwrap();
    let calls = whole.operations();
    assert!(calls > 10);
    let db = open_disk(&whole).unwrap();
    let (expected, keyspaces) = (pairs(&db), db.keyspaces());
    for power_loss in [false, true] {
        for after in 0..calls {
            let disk = disk_of(damaged, after);
            disk.crash_after(after);
            inspector_of(&disk).repair(MissingLogPolicy::Refuse).unwrap_err();
            let left = disk.files();
            // What the system has seen outlives a process.
            let seen = left.iter().map(|name| (name.clone(), disk.read_all(name).unwrap()));
            let disk = if power_loss { disk.crash() } else { disk_of(&seen.collect(), after) };
            let context = format!("power loss {power_loss}, after {after} calls: {left:?}");
            let mut problems = Vec::new();
            inspector_of(&disk).check(&mut |problem| problems.push(problem.to_string())).unwrap();
            let is_loss = |problem: &String| problem.contains("edits are missing");
            assert!(!problems.iter().any(is_loss), "{context}: {problems:?}");
            let repaired = inspector_of(&disk).repair(MissingLogPolicy::Refuse).unwrap();
            assert!(must_rebuild || repaired.rebuilt.is_empty(), "{context}: {repaired:?}");
            for name in damaged.keys().filter(|name| name.ends_with(".tables")) {
                let names = [name.clone(), format!("{name}.damaged")];
                assert!(names.iter().any(|name| disk.read_all(name).is_some()), "{context}");
            }
            let db = open_disk(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(different(&pairs(&db), &expected), [""; 0], "{context}: {repaired:?}");
            assert_eq!(db.keyspaces(), keyspaces, "{context}");
            db.close().unwrap();
            inspector_of(&disk).check(&mut |problem| panic!("{context}: {problem}")).unwrap();
        }
    }
}

#[test]
fn an_interrupted_repair_of_tables_is_completed_by_the_next() {
    interrupt_everywhere(&damaged_tables(), false);
}

#[test]
fn an_interrupted_rebuild_knows_what_the_manifest_knew() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 3 });
    db.keyspace("empty", tiered).unwrap();
    let dropped = db.keyspace("dropped", KeyspaceSettings::default()).unwrap();
    for round in 0..2u32 {
        for key in 0..60u32 {
            db.put(&db.default_keyspace(), key.to_be_bytes(), [round as u8; 60]).unwrap();
        }
        db.put(&dropped, b"key", b"value").unwrap();
        db.flush().unwrap();
    }
    db.drop_keyspace(&dropped).unwrap();
    let at = inspector(&storage).manifest().unwrap().records.len();
    db.flush().unwrap();
    for key in 0..2u32 {
        db.put(&db.default_keyspace(), key.to_be_bytes(), b"newest").unwrap();
        db.flush().unwrap();
    }
    db.put(&db.default_keyspace(), b"key", b"in the log").unwrap();
    let storage = copy(&*storage);
    let manifest = inspector(&storage).manifest().unwrap();
    assert!(at + 1 < manifest.records.len());
    flip(&*storage, &manifest.name, manifest.records[at].offset as usize + 9);
    interrupt_everywhere(&files(&*storage), true);
}

#[test]
fn a_repair_that_finds_the_disk_full_changes_nothing() {
    let damaged = damaged_tables();
    let whole = disk_of(&damaged, 1);
    inspector_of(&whole).repair(MissingLogPolicy::Refuse).unwrap();
    let needed = whole.used_bytes() - disk_of(&damaged, 1).used_bytes();
    for space in (0..needed).step_by(needed as usize / 20) {
        let disk = disk_of(&damaged, 1);
        disk.set_space_limit(Some(disk.used_bytes() + space));
        inspector_of(&disk).repair(MissingLogPolicy::Refuse).unwrap_err();
        let mut left = files(&disk);
        left.remove("LOCK");
        assert_eq!(left.keys().collect::<Vec<_>>(), damaged.keys().collect::<Vec<_>>());
        assert!(left == damaged, "{space}");
    }
}
