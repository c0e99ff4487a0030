//! The bytes that a database uses on its device once it is idle.

use crate::clock::HandClock;
use esker_base::background::Stepped;
use esker_base::{Clock, Rng};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_storage::FaultStorage;
use esker_table::Compression;
use std::sync::Arc;
use std::time::Duration;

const SEGMENT_BYTES: u64 = 1 << 20;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const ENTRIES: u64 = 30_000;

/// A database whose background work, and whose time, are the test's.
struct World {
    disk: FaultStorage,
    clock: Arc<HandClock>,
    db: Db,
}

fn open(disk: &FaultStorage, clock: &Arc<HandClock>) -> Db {
    let env = Env::over(Arc::new(disk.clone()));
    let env = env.background(Arc::new(Stepped)).clock(clock.clone()).seed(1);
    let keyspace = KeyspaceSettings::default().compression(Compression::None);
    let settings = Settings::default()
        .log(Log::File { dir: None, sync: SyncPolicy::Always })
        .segment_bytes(SEGMENT_BYTES as usize)
        .memory_bytes(32 << 20)
        .default_keyspace(keyspace);
    Db::open_with(env, settings).unwrap()
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'k'; KEY_BYTES];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

impl World {
    fn new() -> World {
        let (disk, clock) = (FaultStorage::new(Rng::new(1)), HandClock::new());
        let db = open(&disk, &clock);
        World { disk, clock, db }
    }

    fn put(&self, numbers: impl Iterator<Item = u64>) {
        let mut value = [0; VALUE_BYTES];
        for number in numbers {
            Rng::new(number).fill(&mut value);
            self.db.put(&self.db.default_keyspace(), key(number), value).unwrap();
        }
    }

    /// Puts each key once, in no order.
    fn fill(&self) {
        for number in 0..ENTRIES {
            self.put(std::iter::once(number * 7_919 % ENTRIES));
            if number % 100 == 0 {
                self.work();
            }
        }
    }

    /// Does background work until there is none.
    fn work(&self) {
        const STEPS_MAX: usize = 1_000;
        let steps = (0..STEPS_MAX).take_while(|_| self.db.run_background_job()).count();
        assert!(steps < STEPS_MAX, "background work does not come to an end");
    }

    /// The bytes that are allocated to log files.
    fn log_bytes(&self) -> u64 {
        let others = self.disk.files().into_iter().filter(|name| !name.ends_with(".log"));
        let bytes = others.map(|name| self.disk.read_all(&name).unwrap().len() as u64);
        self.disk.used_bytes() - bytes.sum::<u64>()
    }
}

/// How many keys there are.
fn count(db: &Db) -> u64 {
    let entries: esker_base::Result<Vec<_>> = db.range(&db.default_keyspace(), ..).collect();
    entries.unwrap().len() as u64
}

/// The ceiling that `docs/internals/disk-space.md` states.
#[test]
fn an_idle_uncompressed_database_takes_at_most_1_12_times_its_bytes() {
    let world = World::new();
    world.fill();
    let entries_bytes = ENTRIES * (KEY_BYTES + VALUE_BYTES) as u64;
    let most = entries_bytes * 112 / 100;
    assert!(world.disk.used_bytes() > most, "while it was written to it had whole log files");
    world.db.wait_for_compactions().unwrap();
    let settled = world.disk.used_bytes();
    assert!(settled <= most, "{settled} bytes, at most {most}");
    world.db.flush().unwrap();
    world.db.wait_for_compactions().unwrap();
    let flushed = world.disk.used_bytes();
    // Little but the tables, which add their own share to each pair.
    assert!(flushed <= entries_bytes * 108 / 100, "{flushed} bytes");
    assert_eq!(count(&world.db), ENTRIES);
    world.db.close().unwrap();
    let logs = world.disk.files().into_iter().filter(|name| name.ends_with(".log"));
    assert_eq!(logs.count(), 0, "a closed database has no log");
}

#[test]
fn log_space_is_given_back_once_nothing_was_written_for_a_while() {
    let world = World::new();
    world.fill();
    world.work();
    let busy = world.log_bytes();
    world.clock.sleep(Duration::from_secs(9));
    world.put(0..1);
    world.work();
    world.clock.sleep(Duration::from_secs(9));
    world.work();
    assert!(world.log_bytes() >= busy, "it was written to 9 seconds ago");
    world.clock.sleep(Duration::from_secs(1));
    world.work();
    let idle = world.log_bytes();
    assert!(idle + SEGMENT_BYTES < busy, "{idle} bytes of {busy}");
    world.clock.sleep(Duration::from_secs(1_000));
    world.work();
    assert_eq!(world.log_bytes(), idle);

    // A write now and then needs no more.
    for number in 0..100 {
        world.put(number..number + 1);
        world.work();
        world.clock.sleep(Duration::from_secs(60));
        world.work();
    }
    let trickled = world.log_bytes();
    assert!(trickled <= idle + SEGMENT_BYTES / 16, "{trickled} bytes after {idle}");
    // A burst has the log grow, and an end of it has it shrink.
    world.put(0..3_000);
    world.work();
    let awake = world.log_bytes();
    assert!(awake > trickled + SEGMENT_BYTES / 4, "{awake} bytes after {trickled}");
    world.clock.sleep(Duration::from_secs(60));
    world.work();
    assert!(world.log_bytes() < awake);
}

/// The segment that a large batch has prepared is allocated as a whole.
#[test]
fn the_log_of_a_large_batch_gives_space_back() {
    let world = World::new();
    let mut batch = world.db.batch();
    for number in 0..8_000 {
        batch.put(&world.db.default_keyspace(), key(number), [7; VALUE_BYTES]);
    }
    world.db.write(&batch).unwrap();
    world.work();
    let busy = world.log_bytes();
    world.db.wait_for_compactions().unwrap();
    let idle = world.log_bytes();
    assert!(idle + SEGMENT_BYTES < busy, "{idle} bytes of {busy}");
}

/// Another thread writes while this one waits again and again: no write loses its place.
#[test]
fn writers_go_on_while_log_space_is_given_back() {
    const WRITES: u64 = 20_000;
    let place = tempfile::tempdir().unwrap();
    let settings = || Settings::default().segment_bytes(SEGMENT_BYTES as usize);
    {
        let db = Db::open(place.path(), settings()).unwrap();
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                for number in 0..WRITES {
                    db.put(&db.default_keyspace(), key(number), [7; VALUE_BYTES]).unwrap();
                }
            });
            while !writer.is_finished() {
                db.wait_for_compactions().unwrap();
            }
        });
        assert_eq!(count(&db), WRITES);
    }
    let db = Db::open(place.path(), settings()).unwrap();
    assert_eq!(count(&db), WRITES);
}

#[test]
fn writes_after_space_was_given_back_are_there_after_a_crash() {
    for (before, after) in [(false, false), (true, false), (false, true)] {
        let world = World::new();
        world.fill();
        if before {
            world.db.flush().unwrap();
        }
        world.db.wait_for_compactions().unwrap();
        if after {
            // The file of a segment that gave space back is not used again.
            world.db.flush().unwrap();
        }
        let idle = world.disk.used_bytes();
        world.put(ENTRIES..ENTRIES + 20_000);
        assert!(world.disk.used_bytes() > idle);
        let db = open(&world.disk.crash(), &world.clock);
        assert!(db.torn_tail().is_none());
        assert_eq!(count(&db), ENTRIES + 20_000, "flushed: {before}, {after}");
    }
}

/// What was given back is allocated again before a write is promised a place in it.
#[test]
fn a_full_disk_loses_no_write_after_space_was_given_back() {
    let world = World::new();
    world.fill();
    world.db.wait_for_compactions().unwrap();
    world.disk.set_space_limit(Some(world.disk.used_bytes() + 200_000));
    let (keyspace, mut written) = (world.db.default_keyspace(), ENTRIES);
    let error = loop {
        match world.db.put(&keyspace, key(written), [7; VALUE_BYTES]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 2 * ENTRIES, "it takes more than there is");
    };
    assert!(error.is_out_of_space(), "{error}");
    world.disk.set_space_limit(None);
    let db = open(&world.disk.crash(), &world.clock);
    let there = count(&db);
    assert!((written..=written + 1).contains(&there), "{there} of {written}");
}
