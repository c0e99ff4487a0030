//! Ingests of a database that others read and write meanwhile.

use crate::support::{disk, entries, key, settings, unfinished, wide_entries};
use esker_base::background::{Background, Body, CountedThreads, Running, Threads};
use esker_base::{Error, Priority, Result};
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn open(dir: &tempfile::TempDir) -> Db {
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    let settings = Settings::default().log(log).segment_bytes(64 << 10).memory_bytes(8 << 20);
    Db::open(dir.path(), settings).unwrap()
}

/// Every reader finds all keys from one ingest, and never an older one again.
#[test]
fn readers_find_an_ingest_whole() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let keyspace = db.default_keyspace();
    let round = |value: &[u8]| -> u32 {
        let text = std::str::from_utf8(value).unwrap();
        text.rsplit(' ').next().unwrap().parse().unwrap()
    };
    keyspace.ingest(entries(0..200, "0")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = scopeguard::guard((), |()| is_over.store(true, Ordering::Relaxed));
        for reader in 0..2 {
            let (db, keyspace, is_over) = (&db, &keyspace, &is_over);
            scope.spawn(move || {
                let mut last = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let rounds: Vec<u32> = match reader {
                        0 => {
                            let pairs = db.range(keyspace, ..key(200)).map(|pair| pair.unwrap());
                            pairs.map(|(_, value)| round(&value)).collect()
                        }
                        _ => {
                            let keys = (0..200).map(key);
                            let values = db.multi_get(keyspace, keys).unwrap();
                            values.into_iter().map(|value| round(&value.unwrap())).collect()
                        }
                    };
                    assert_eq!(rounds.len(), 200);
                    assert!(rounds.iter().all(|one| *one == rounds[0]), "{rounds:?}");
                    assert!(rounds[0] >= last);
                    last = rounds[0];
                }
            });
        }
        let writer = scope.spawn(|| {
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return number;
                }
                keyspace.put(key(1_000 + number % 500), vec![7; 300]).unwrap();
            }
            0
        });
        for number in 1..60 {
            keyspace.ingest(entries(0..200, &number.to_string())).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0);
    });
    db.close().unwrap();
}

/// Each thread's own key is what it wrote last, by a put or by an ingest.
#[test]
fn writers_and_ingests_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let keyspace = db.default_keyspace();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                let own = |round: u32| format!("{thread} of {round}");
                for round in 0..60 {
                    match (round + thread) % 3 {
                        0 => _ = keyspace.ingest([(key(thread), own(round))]).unwrap(),
                        _ => keyspace.put(key(thread), own(round)).unwrap(),
                    }
                    let found = keyspace.get(key(thread)).unwrap().unwrap();
                    assert_eq!(&found[..], own(round).as_bytes());
                }
            });
        }
    });
    db.compact().unwrap();
    for thread in 0..4 {
        let found = keyspace.get(key(thread)).unwrap().unwrap();
        assert_eq!(&found[..], format!("{thread} of 59").as_bytes());
    }
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!(db.default_keyspace().count(..).unwrap(), 4);
}

#[test]
fn a_close_beside_an_ingest_leaves_all_of_it_or_nothing() {
    for round in 0..20_u32 {
        let dir = tempfile::tempdir().unwrap();
        let db = open(&dir);
        let other = db.clone();
        let done = std::thread::scope(|scope| {
            let ingest = scope.spawn(move || {
                let keyspace = other.default_keyspace();
                let mut done = 0;
                loop {
                    let numbers = done * 50..(done + 1) * 50;
                    match keyspace.ingest(entries(numbers, "ingest")) {
                        Ok(_) => done += 1,
                        Err(Error::Closed) => return done,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            for number in 0..round * 10 {
                db.default_keyspace().put(key(900_000 + number), "").unwrap();
            }
            db.close().unwrap();
            ingest.join().unwrap()
        });
        let db = open(&dir);
        let found = db.default_keyspace().range(..key(800_000)).count() as u32;
        assert!(found == done * 50 || found == (done + 1) * 50, "{found}, {done}");
        let names = std::fs::read_dir(dir.path()).unwrap();
        let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().ends_with(".ingest")));
    }
}

/// Where the thread that writes the files fails depends on how far it is behind.
#[test]
fn a_full_disk_fails_an_ingest_that_writes_behind_and_leaves_nothing() {
    let (disk, threads) = (disk(), Arc::new(CountedThreads::new("esker-ingest")));
    let env = Env::over(Arc::new(disk.clone())).background(threads.clone());
    // No log: only tables need space.
    let db = Db::open_with(env, settings(Log::None)).unwrap();
    let keyspace = db.default_keyspace();
    let all = wide_entries(0..3_000, "ingest");
    let ingest = || keyspace.ingest(all.iter().map(|(key, value)| (key, value)));
    let bytes: usize = all.iter().map(|(key, value)| key.len() + value.len()).sum();
    for sixteenths in [7, 11, 15] {
        disk.set_space_limit(Some(disk.used_bytes() + bytes as u64 * sixteenths / 16));
        let before = threads.started();
        let error = ingest().unwrap_err();
        assert!(error.is_out_of_space(), "{error}");
        assert!(threads.started() > before, "it wrote behind");
        assert_eq!(unfinished(&disk), [] as [String; 0]);
        assert_eq!(keyspace.count(..).unwrap(), 0);
        disk.set_space_limit(None);
    }
    let ingested = ingest().unwrap();
    assert!(ingested.entries == 3_000 && ingested.tables > 3, "{ingested:?}");
    assert_eq!(keyspace.count(..).unwrap(), 3_000);
    db.close().unwrap();
}

/// Threads, but for ingests: as if the system had no more of them.
#[derive(Default)]
struct NoneForIngests(AtomicUsize);

impl Background for NoneForIngests {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        if name != "esker-ingest" {
            return Threads.spawn(name, priority, body);
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        let source = Arc::new(std::io::ErrorKind::WouldBlock.into());
        Err(Error::Io { action: "start a thread", path: name.to_owned(), source })
    }
}

#[test]
fn an_ingest_without_a_thread_to_write_behind_writes_by_itself() {
    let background = Arc::new(NoneForIngests::default());
    let env = Env::over(Arc::new(disk())).background(background.clone());
    let db = Db::open_with(env, settings(Log::None)).unwrap();
    let keyspace = db.default_keyspace();
    let ingested = keyspace.ingest(wide_entries(0..1_000, "ingest")).unwrap();
    assert!(ingested.tables > 1 && background.0.load(Ordering::Relaxed) > 0, "{ingested:?}");
    assert_eq!(keyspace.count(..).unwrap(), 1_000);
    db.close().unwrap();
}
