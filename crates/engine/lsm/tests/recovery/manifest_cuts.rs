//! A manifest that is cut anywhere: all data is there, or the damage is reported, nothing is destroyed, and a repair
//! brings everything back.

use crate::support::{pairs, read};
use esker_api::KeyRange;
use esker_base::background::Stepped;
use esker_base::{Clock, Error, FileKind, WriteHint};
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_lsm::manifest::manifest_file::read_current;
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, Shape, SyncPolicy};
use esker_storage::{MemoryStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Files = BTreeMap<String, Vec<u8>>;

fn files(storage: &dyn Storage) -> Files {
    let names = storage.list().unwrap();
    names.into_iter().map(|name| (name.clone(), read(storage, &name))).collect()
}

fn storage_of(files: &Files) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    for (name, bytes) in files {
        let mut file = storage.create(name, WriteHint::of(FileKind::Meta)).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
    }
    storage
}

fn settings(log: Log) -> Settings {
    Settings::default().log(log).segment_bytes(64 << 10).memory_bytes(4 << 20)
}

fn logged() -> Settings {
    settings(Log::File { dir: None, sync: SyncPolicy::Always })
}

fn open(storage: &Arc<MemoryStorage>, settings: Settings) -> esker_base::Result<Db> {
    let env = Env::over(storage.clone()).background(Arc::new(Stepped));
    Db::open_with(env, settings)
}

/// Time in which no thread waits: a read-only open tries again for a while, as a writer may be at work.
struct Hurried;

impl Clock for Hurried {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

fn open_read_only(env: Env, settings: &Settings) -> esker_base::Result<Db> {
    let env = env.background(Arc::new(Stepped)).clock(Arc::new(Hurried));
    Db::open_read_only_with(env, settings.clone())
}

fn put(db: &Db, keys: std::ops::Range<u32>, round: u32) {
    for key in keys {
        let value = format!("{key} of round {round}").repeat(4);
        db.put(&db.default_keyspace(), key.to_be_bytes(), value.as_bytes()).unwrap();
    }
}

/// Two processes' writes: flushes, compactions, deletes, a second keyspace.
fn work(storage: &Arc<MemoryStorage>, settings: &Settings) -> Db {
    let db = open(storage, settings.clone()).unwrap();
    put(&db, 0..60, 1);
    db.flush().unwrap();
    put(&db, 30..90, 2);
    db.compact().unwrap();
    db.close().unwrap();
    let db = open(storage, settings.clone()).unwrap();
    let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 });
    let other = db.keyspace("other", tiered).unwrap();
    db.put(&other, b"key", b"value").unwrap();
    (0..10u32).for_each(|key| db.delete(&db.default_keyspace(), key.to_be_bytes()).unwrap());
    db.flush().unwrap();
    db.delete_range(&db.default_keyspace(), 70u32.to_be_bytes()..80u32.to_be_bytes()).unwrap();
    put(&db, 75..77, 3);
    db.flush().unwrap();
    db
}

/// Where the records of the manifest start.
fn boundaries(storage: &Arc<MemoryStorage>) -> Vec<u64> {
    let manifest = Inspector::of(storage.clone(), storage.clone()).manifest().unwrap();
    manifest.records.iter().map(|record| record.offset).collect()
}

/// Expects a reading around damage to fail, or to say that something is missing.
fn expect_skipped(inspector: &Inspector, length: usize) {
    let mut skipped = Vec::new();
    let visit = |_: &[u8], _: &[u8]| Ok::<_, Error>(true);
    let read =
        inspector.read_around("default", &KeyRange::all(), visit, &mut |skip| skipped.push(skip));
    assert!(read.is_err() || !skipped.is_empty(), "cut at {length}: read as if it were whole");
}

/// Cuts the manifest of a database at every byte. Gives how many cuts were reported, and how many did no harm.
fn cut_everywhere(files: &Files, settings: &Settings) -> (u64, u64) {
    let sound = storage_of(files);
    let current = read_current(&*sound).unwrap();
    let db = open(&sound, settings.clone()).unwrap();
    let expected = pairs(&db);
    db.close().unwrap();
    let (mut reported, mut harmless) = (0, 0);
    let boundaries = boundaries(&storage_of(files));
    for length in 0..files[&current].len() {
        let mut cut = files.clone();
        cut.get_mut(&current).unwrap().truncate(length);
        let storage = storage_of(&cut);
        let inspector = Inspector::of(storage.clone(), storage.clone());
        let mut problems = Vec::new();
        inspector.check(&mut |problem| problems.push(problem.to_string())).unwrap();
        match open(&storage, settings.clone()) {
            Ok(db) => {
                assert_eq!(pairs(&db), expected, "cut at {length}: data is missing, silently");
                db.close().unwrap();
                harmless += 1;
                continue;
            }
            Err(error) => {
                assert!(error.is_corruption(), "cut at {length}: {error}");
                assert!(!problems.is_empty(), "cut at {length}: check is happy, and open: {error}");
                if boundaries.contains(&(length as u64)) {
                    let opened = open_read_only(Env::over(storage.clone()), settings);
                    assert!(opened.is_err(), "cut at {length}");
                    expect_skipped(&inspector, length);
                }
            }
        }
        assert_eq!(self::files(&*storage), cut, "cut at {length}: a file is gone");
        reported += 1;
        let repaired = inspector.repair(MissingLogPolicy::Refuse);
        let repaired = repaired.or_else(|_| inspector.repair(MissingLogPolicy::GiveUp));
        let repaired = repaired.unwrap_or_else(|error| panic!("cut at {length}: {error}"));
        for name in cut.keys().filter(|name| name.ends_with(".tables")) {
            let is_there = |name: &str| storage.exists(name).unwrap();
            assert!(is_there(name) || is_there(&format!("{name}.damaged")), "cut at {length}");
        }
        let db = open(&storage, settings.clone()).unwrap();
        assert_eq!(pairs(&db), expected, "cut at {length}: {repaired:?}");
        db.close().unwrap();
    }
    (reported, harmless)
}

#[test]
fn a_closed_manifest_that_is_cut_is_always_reported() {
    let storage = Arc::new(MemoryStorage::new());
    work(&storage, &logged()).close().unwrap();
    let (reported, harmless) = cut_everywhere(&files(&*storage), &logged());
    assert!(reported > 100, "{reported}");
    assert_eq!(harmless, 0);
}

#[test]
fn without_a_log_a_closed_manifest_that_is_cut_is_always_reported() {
    let storage = Arc::new(MemoryStorage::new());
    work(&storage, &settings(Log::None)).close().unwrap();
    let (_, harmless) = cut_everywhere(&files(&*storage), &settings(Log::None));
    assert_eq!(harmless, 0);
}

/// The length is as it was when the database was closed, so only the missing closing record shows it.
#[test]
fn a_closed_manifest_whose_end_is_zeroed_is_always_reported() {
    for settings in [logged(), settings(Log::None)] {
        let storage = Arc::new(MemoryStorage::new());
        work(&storage, &settings).close().unwrap();
        let (files, boundaries) = (files(&*storage), boundaries(&storage));
        let db = open(&storage, settings.clone()).unwrap();
        let expected = pairs(&db);
        db.close().unwrap();
        let current = read_current(&*storage_of(&files)).unwrap();
        for offset in boundaries {
            let mut zeroed = files.clone();
            zeroed.get_mut(&current).unwrap()[offset as usize..].fill(0);
            let storage = storage_of(&zeroed);
            let inspector = Inspector::of(storage.clone(), storage.clone());
            let mut problems = Vec::new();
            inspector.check(&mut |problem| problems.push(problem.to_string())).unwrap();
            assert!(!problems.is_empty(), "zeros from {offset}");
            expect_skipped(&inspector, offset as usize);
            assert!(open_read_only(Env::over(storage.clone()), &settings).is_err());
            let opened = open(&storage, settings.clone());
            assert!(opened.is_err_and(|error| error.is_corruption()), "zeros from {offset}");
            let repaired = inspector.repair(MissingLogPolicy::GiveUp).unwrap();
            let db = open(&storage, settings.clone()).unwrap();
            assert_eq!(pairs(&db), expected, "zeros from {offset}: {repaired:?}");
            db.close().unwrap();
        }
    }
}

#[test]
fn a_manifest_that_was_not_closed_loses_nothing_by_a_cut() {
    let storage = Arc::new(MemoryStorage::new());
    let db = work(&storage, &logged());
    put(&db, 100..110, 4);
    let (reported, _) = cut_everywhere(&files(&*storage), &logged());
    assert!(reported > 100, "{reported}");
    db.close().unwrap();
}

#[test]
fn after_compactions_a_manifest_that_was_not_closed_loses_nothing_by_a_cut() {
    let storage = Arc::new(MemoryStorage::new());
    let db = work(&storage, &logged());
    db.compact().unwrap();
    put(&db, 5..8, 5);
    let (reported, _) = cut_everywhere(&files(&*storage), &logged());
    assert!(reported > 100, "{reported}");
    db.close().unwrap();
}

/// Logs in a directory of their own. A cut at the end of a record leaves no damaged byte.
#[test]
fn a_manifest_that_is_cut_between_records_is_reported_if_logs_are_elsewhere() {
    let (storage, logs) = (Arc::new(MemoryStorage::new()), Arc::new(MemoryStorage::new()));
    let env = |storage: &Arc<MemoryStorage>, logs: &Arc<MemoryStorage>| {
        let log_storage: Arc<dyn Storage> = logs.clone();
        let env = Env::over(storage.clone()).log_storage(log_storage);
        env.background(Arc::new(Stepped)).clock(Arc::new(Hurried))
    };
    let db = Db::open_with(env(&storage, &logs), logged()).unwrap();
    put(&db, 0..60, 1);
    db.flush().unwrap();
    put(&db, 30..90, 2);
    db.flush().unwrap();
    // Flushed already, but for the last writes.
    db.keyspace("other", KeyspaceSettings::default()).unwrap();
    put(&db, 100..110, 4);
    let expected = pairs(&db);
    let (files, log_files) = (files(&*storage), self::files(&*logs));
    let current = read_current(&*storage).unwrap();
    let (mut repaired, mut refused) = (0, 0);
    for length in boundaries(&storage) {
        let mut cut = files.clone();
        cut.get_mut(&current).unwrap().truncate(length as usize);
        let (storage, logs) = (storage_of(&cut), storage_of(&log_files));
        let inspector = Inspector::of(storage.clone(), logs.clone());
        let mut problems = Vec::new();
        let checked = inspector.check(&mut |problem| problems.push(problem.to_string()));
        if let Ok(db) = Db::open_with(env(&storage, &logs), logged()) {
            assert_eq!(pairs(&db), expected, "cut at {length}: data is missing, silently");
            continue;
        }
        assert!(checked.is_err() || !problems.is_empty(), "cut at {length}: check is happy");
        assert!(open_read_only(env(&storage, &logs), &logged()).is_err(), "cut at {length}");
        expect_skipped(&inspector, length as usize);
        match inspector.repair(MissingLogPolicy::Refuse) {
            Ok(_) => {
                let db = Db::open_with(env(&storage, &logs), logged()).unwrap();
                assert_eq!(pairs(&db), expected, "cut at {length}");
                repaired += 1;
            }
            // Nothing tells it from an older copy of the directory.
            Err(error) => {
                assert!(error.to_string().contains("older copy"), "cut at {length}: {error}");
                refused += 1;
            }
        }
    }
    assert!(repaired > 0, "{refused} were refused");
}

#[test]
fn a_table_whose_edit_was_not_durable_is_set_aside() {
    let storage = Arc::new(MemoryStorage::new());
    let db = work(&storage, &settings(Log::None));
    let before = files(&*storage);
    put(&db, 200..210, 6);
    db.flush().unwrap();
    let after = files(&*storage);
    db.close().unwrap();
    // The flush's table is durable, and its edit is not: so the process ended.
    let mut ended = before.clone();
    let table = after.keys().find(|name| !before.contains_key(*name)).unwrap();
    ended.insert(table.clone(), after[table].clone());
    let storage = storage_of(&ended);
    let inspector = Inspector::of(storage.clone(), storage.clone());
    let checked = inspector.check(&mut |problem| panic!("{problem}")).unwrap();
    assert_eq!(checked.unknown, std::slice::from_ref(table));
    let db = open(&storage, settings(Log::None)).unwrap();
    let lost = format!("lost-{table}");
    assert_eq!(db.set_aside(), std::slice::from_ref(&lost));
    assert_eq!(db.lost_files().unwrap(), [(lost.clone(), after[table].len() as u64)]);
    db.close().unwrap();
    assert_eq!(read(&*storage, &lost), after[table]);
    let checked = inspector.check(&mut |problem| panic!("{problem}")).unwrap();
    assert_eq!((checked.lost, checked.unknown.len()), (vec![lost], 0));
}

#[test]
fn a_current_file_that_is_older_than_the_database_is_reported() {
    let storage = Arc::new(MemoryStorage::new());
    let db = work(&storage, &logged());
    let older = files(&*storage);
    db.close().unwrap();
    let db = open(&storage, logged()).unwrap();
    put(&db, 300..301, 7);
    let mut mixed = files(&*storage);
    // The manifest of before and its pointer are there again, beside the one that was in force.
    let name = read_current(&*storage_of(&older)).unwrap();
    for name in [&name[..], "CURRENT"] {
        mixed.insert(name.into(), older[name].clone());
    }
    db.close().unwrap();
    let storage = storage_of(&mixed);
    let error = open(&storage, logged()).err().unwrap();
    assert!(error.is_corruption(), "{error}");
    assert_eq!(files(&*storage), mixed);
}
