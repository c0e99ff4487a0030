//! Reads of many blocks at once: the same answers as from reads one by one, also from a disk that fails.

use crate::support::{copied, key};
use esker_api::Cursor;
use esker_base::background::{Body, CountedThreads, Running, Stepped};
use esker_base::{Background, Priority, Result, Rng, Threads, skipped};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Shape};
use esker_storage::{
    FaultStorage, FileSystemWrapper, MemoryStorage, PosixStorage, ReadPath, ReadableFile, Storage,
};
use esker_table::Compression;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// As little memory as there may be, so that most blocks are not cached.
fn settings() -> Settings {
    let stored = KeyspaceSettings::default().compression(Compression::None);
    let settings = Settings::default().segment_bytes(512 << 10).memory_bytes(2 << 20);
    settings.dram_table_bytes(0).default_keyspace(stored)
}

/// Writes several runs of tables with deletes and a range delete, and something into the MemTable.
fn fill(db: &Db, keyspace: &Keyspace, rng: &mut Rng) -> Model {
    let mut model = Model::new();
    for round in 0..6 {
        for _ in 0..1_500 {
            let key = key(rng.below(4_000));
            if rng.one_in(5) {
                keyspace.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = vec![round; 40 + rng.below(1_600) as usize];
                keyspace.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            while db.run_background_job() {}
        }
        let (from, to) = (key(round as u64 * 500), key(round as u64 * 500 + 60));
        keyspace.delete_range(from.as_slice()..to.as_slice()).unwrap();
        model.retain(|key, _| *key < from || *key >= to);
        if round < 5 {
            db.flush().unwrap();
        }
    }
    model
}

/// Some keys: most of them exist, some several times, and edge keys.
fn some_keys(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..count).map(|_| key(rng.below(4_400))).collect();
    keys.extend([Vec::new(), key(1), key(1), b"zzz".to_vec()]);
    keys
}

fn expect(found: Vec<Option<esker_api::Value>>, keys: &[Vec<u8>], model: &Model) {
    assert_eq!(found.len(), keys.len());
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(
            found.as_deref(),
            model.get(key).map(|value| &value[..]),
            "{}",
            key.escape_ascii()
        );
    }
}

fn expect_all(db: &Db, keyspace: &Keyspace, model: &Model, rng: &mut Rng) {
    for count in [0, 1, 2, 5, 100, 1_500] {
        let keys = some_keys(rng, count);
        expect(db.multi_get(keyspace, &keys).unwrap(), &keys, model);
    }
    let found: Vec<_> = db.range(keyspace, ..).map(copied).collect();
    assert!(found.iter().map(|(key, value)| (key, value)).eq(model), "a full scan");
    let (from, to) = (key(700), key(2_900));
    let found: Vec<_> = db.range(keyspace, from.as_slice()..to.as_slice()).map(copied).collect();
    assert!(
        found.iter().map(|(key, value)| (key, value)).eq(model.range(from.clone()..to.clone())),
        "a scan"
    );
    let found: Vec<_> = db.range(keyspace, ..).rev().map(copied).collect();
    assert!(found.iter().map(|(key, value)| (key, value)).eq(model.iter().rev()), "backward");
    let within = from.as_slice()..to.as_slice();
    let found: Vec<_> = db.range(keyspace, within).rev().map(copied).collect();
    let expected = model.range(from..to).rev();
    assert!(found.iter().map(|(key, value)| (key, value)).eq(expected), "a part, backward");
}

#[test]
fn many_gets_at_once_and_scans_find_what_single_gets_find() {
    let directory = tempfile::tempdir().unwrap();
    let direct = PosixStorage::open(directory.path()).unwrap().with_direct_reads(true);
    let plain = tempfile::tempdir().unwrap();
    let storages: [Arc<dyn Storage>; 4] = [
        Arc::new(MemoryStorage::new()),
        Arc::new(FaultStorage::new(Rng::new(1))),
        Arc::new(direct),
        Arc::new(PosixStorage::open(plain.path()).unwrap()),
    ];
    for (storage, seed) in storages.into_iter().zip(1..) {
        for background in [Arc::new(Stepped) as Arc<dyn Background>, Arc::new(Threads)] {
            let env = Env::over(storage.clone()).background(background);
            let db = Db::open_with(env, settings()).unwrap();
            let (keyspace, mut rng) = (db.default_keyspace(), Rng::new(seed));
            let kept: Vec<_> = db.range(&keyspace, ..).map(copied).collect();
            for (key, _) in kept {
                keyspace.delete(key).unwrap();
            }
            let model = fill(&db, &keyspace, &mut rng);
            expect_all(&db, &keyspace, &model, &mut rng);
            while db.run_background_job() {}
            expect_all(&db, &keyspace, &model, &mut rng);
            db.close().unwrap();
        }
    }
}

#[test]
fn a_read_that_fails_gives_an_error_with_its_place_or_is_made_good() {
    let storage = FaultStorage::new(Rng::new(1));
    let env = Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped));
    let db = Db::open_with(env, settings()).unwrap();
    let (keyspace, mut rng) = (db.default_keyspace(), Rng::new(1));
    let model = fill(&db, &keyspace, &mut rng);
    let (mut failures, mut scans_cut) = (0, 0);
    for failing in (0..60).chain([200, 500]) {
        let keys = some_keys(&mut rng, 300);
        storage.fail_read_after(failing);
        match db.multi_get(&keyspace, &keys) {
            Ok(found) => expect(found, &keys, &model),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(".tables at offset "), "{text}");
                failures += 1;
            }
        }
        storage.fail_read_after(failing);
        let mut expected = model.iter();
        for pair in db.range(&keyspace, ..) {
            match pair {
                Ok((key, value)) => {
                    let (model_key, model_value) = expected.next().unwrap();
                    assert_eq!((&key[..], &value[..]), (&model_key[..], &model_value[..]));
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(".tables at offset "), "{text}");
                    scans_cut += 1;
                    break;
                }
            }
        }
    }
    // What is still planned strikes now.
    for _ in 0..5 {
        let _ = db.range(&keyspace, ..).count();
    }
    expect_all(&db, &keyspace, &model, &mut rng);
    assert!(failures > 10, "{failures} of the gets failed");
    assert!(scans_cut < 62, "a piece that cannot be read is read block by block: {scans_cut}");
}

/// Threads but those that open tables: an open opens them itself, so what they take is charged after it.
struct OpensTablesFirst(Arc<CountedThreads>);

impl Background for OpensTablesFirst {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        match name.starts_with("esker-open") {
            true => Ok(None),
            false => self.0.spawn(name, priority, body),
        }
    }
}

#[test]
fn the_thread_and_the_memory_of_wide_reads_are_taken_when_they_are_needed() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap().with_direct_reads(true);
    let storage = Arc::new(storage);
    let settings = settings().memory_bytes(64 << 20).log(Log::None);
    let db = Db::open_with(Env::over(storage.clone()), settings.clone()).unwrap();
    let model = fill(&db, &db.default_keyspace(), &mut Rng::new(3));
    // Compactions need the thread, too.
    db.compact().unwrap();
    db.close().unwrap();
    let background = Arc::new(CountedThreads::new("esker-reads"));
    let env = Env::over(storage).background(Arc::new(OpensTablesFirst(background.clone())));
    let db = Db::open_with(env, settings.clone()).unwrap();
    let keyspace = db.default_keyspace();
    for (key, value) in model.iter().take(100) {
        assert_eq!(db.get(&keyspace, key).unwrap().as_deref(), Some(&value[..]));
    }
    // The tables are open.
    let before = db.stats();
    let keys: Vec<_> = model.keys().take(3).collect();
    db.multi_get(&keyspace, keys).unwrap();
    assert_eq!((background.started(), db.wide_reads()), (0, ReadPath::Callers));
    assert_eq!(db.stats().memory_charged_bytes, before.memory_charged_bytes);
    let keys: Vec<_> = model.keys().step_by(40).collect();
    db.multi_get(&keyspace, keys).unwrap();
    if db.wide_reads() == ReadPath::Callers {
        return skipped("the thread of wide reads", "no direct I/O for temporary files");
    }
    assert_eq!(background.started(), 1);
    let charged = db.stats().memory_charged_bytes - before.memory_charged_bytes;
    assert_eq!(charged, (64 << 20) / 16);
    db.close().unwrap();
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Noted {
    Ahead,
    Read,
}

type Notes = Arc<Mutex<Vec<Noted>>>;

/// Notes the reads of files that are opened for caching, those ahead, too.
struct Noting {
    storage: MemoryStorage,
    notes: Notes,
}

struct NotingFile(Arc<dyn ReadableFile>, Notes);

impl FileSystemWrapper for Noting {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let file = self.storage.open_for_caching(name)?;
        Ok(Arc::new(NotingFile(file, self.notes.clone())))
    }
}

impl ReadableFile for NotingFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.1.lock().unwrap().push(Noted::Read);
        self.0.read_exact_at(offset, out)
    }
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn read_ahead(&self, _: u64, _: u64) {
        self.1.lock().unwrap().push(Noted::Ahead);
    }
}

#[test]
fn a_seek_begins_the_reads_of_all_runs_before_it_waits_for_one() {
    const RUNS: usize = 4;
    let notes = Notes::default();
    let storage = Arc::new(Noting { storage: MemoryStorage::new(), notes: notes.clone() });
    let env = || Env::over(storage.clone()).background(Arc::new(Stepped));
    let runs = KeyspaceSettings::default().compression(Compression::None);
    let settings = settings().default_keyspace(runs.shape(Shape::Tiered { runs: 32 }));
    let db = Db::open_with(env(), settings.clone()).unwrap();
    for _ in 0..RUNS {
        (0..1_000).for_each(|n| db.default_keyspace().put(key(n), [7; 400]).unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    let db = Db::open_with(env(), settings).unwrap();
    let keyspace = db.default_keyspace();
    let seek = |n| {
        notes.lock().unwrap().clear();
        let mut cursor = db.cursor(&keyspace, ..).unwrap();
        cursor.seek(&key(n)).unwrap();
        assert_eq!(cursor.current().unwrap().0, key(n));
        std::mem::take(&mut *notes.lock().unwrap())
    };
    // The first ones find out that the blocks are not in the cache, also for the cursors that come later.
    (0..10).for_each(|n| drop(seek(n * 50)));
    for n in 10..20 {
        let noted = seek(n * 50);
        let of = |what| noted.iter().filter(|noted| **noted == what).count();
        assert_eq!((of(Noted::Ahead), of(Noted::Read)), (RUNS, RUNS), "{noted:?}");
        assert!(noted.is_sorted(), "{noted:?}");
    }
    // What the cache has is not read again, even though other seeks have missed it.
    assert_eq!(seek(950), []);
}

#[test]
fn separated_values_are_read_ahead_of_a_reader_that_goes_from_one_to_the_next() {
    let notes = Notes::default();
    let storage = Arc::new(Noting { storage: MemoryStorage::new(), notes: notes.clone() });
    let env = Env::over(storage).background(Arc::new(Stepped));
    let separated = KeyspaceSettings::default().separation_threshold(4 << 10);
    let db = Db::open_with(env, settings().default_keyspace(separated)).unwrap();
    let keyspace = db.default_keyspace();
    (0..40).for_each(|n| keyspace.put(key(n), [7; 8 << 10]).unwrap());
    db.flush().unwrap();
    let count = |what| notes.lock().unwrap().iter().filter(|noted| **noted == what).count();
    for n in (0..40).rev() {
        assert!(keyspace.get(key(n)).unwrap().is_some());
    }
    assert!(count(Noted::Read) >= 40);
    assert_eq!(count(Noted::Ahead), 0, "backward");
    assert_eq!(db.range(&keyspace, ..).count(), 40);
    assert!(count(Noted::Ahead) >= 39, "forward");
}
