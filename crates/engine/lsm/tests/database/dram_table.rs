//! The DRAMTable of a database over a small pool, under writers and readers on many threads, next to
//! flush and compaction.
//!
//! Each key has one writer, so what a read may give is known: no version older than the last that was
//! acknowledged when it began, and none newer than the last that had begun when it ended. What is read at
//! a snapshot stays what it was, and is what a scan finds there: scans do without the DRAMTable.

use esker_api::{Cursor, KeyRange};
use esker_base::Rng;
use esker_lsm::{Db, Env, Forwarding, Log, Settings, Snapshot};
use esker_pmem::{Accept, Pool};
use esker_storage::MemoryStorage;
use parking_lot::Mutex;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sixteen segments of 64 KiB.
const POOL_BYTES: u64 = (1 << 20) + (8 << 10);
/// Space for about a quarter of the values.
const DRAM_TABLE_BYTES: usize = 32 << 10;
const WRITERS: usize = 2;
const READERS: u64 = 2;
const KEYS_A_WRITER: usize = 400;
const WRITES: u64 = 60_000;
/// Of each reader, which may get no processor before the writers are done.
const READS_LEAST: u64 = 50_000;
const COMPACT_EVERY: u64 = 10_000;
const DELETED_TOGETHER_MOST: u64 = 6;
/// Keys that are read at one snapshot, and snapshots that a reader keeps.
const STRETCH: usize = 4;
const SNAPSHOTS_KEPT: usize = 8;

/// What the versions of a key are. The first is what it is before anybody writes it.
struct Versions {
    /// Whether each leaves the key without a value, those in progress included.
    begun: Mutex<Vec<bool>>,
    acknowledged: AtomicUsize,
}

impl Versions {
    fn new() -> Self {
        Versions { begun: Mutex::new(vec![true]), acknowledged: AtomicUsize::new(0) }
    }

    /// By the key's only writer.
    fn begin(&self, is_gone: bool) -> usize {
        let mut begun = self.begun.lock();
        begun.push(is_gone);
        begun.len() - 1
    }

    fn acknowledge(&self, version: usize) {
        self.acknowledged.store(version, Ordering::Release);
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    fn begun(&self) -> usize {
        self.begun.lock().len()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:04}").into_bytes()
}

/// What only this version of this key has as its value.
fn value(number: usize, version: usize) -> Vec<u8> {
    let words = [number as u64, version as u64].map(u64::to_le_bytes).concat();
    words.repeat(1 + version % 10)
}

struct World {
    db: Db,
    keys: Vec<Versions>,
    writers_left: AtomicUsize,
}

impl World {
    fn get(&self, number: usize, at: Option<&Snapshot>) -> Option<Vec<u8>> {
        let keyspace = self.db.default_keyspace();
        let found = match at {
            None => self.db.get(&keyspace, key(number)),
            Some(snapshot) => snapshot.get(&keyspace, key(number)),
        };
        found.unwrap().map(|value| value.to_vec())
    }

    /// Which of the versions in `may_be` was found; the earliest, if several leave no value.
    fn version_of(&self, number: usize, found: Option<&[u8]>, may_be: Range<usize>) -> usize {
        let begun = self.keys[number].begun.lock();
        let is_found = |version: &usize| match found {
            None => begun[*version],
            Some(found) => !begun[*version] && value(number, *version) == found,
        };
        may_be.clone().find(is_found).unwrap_or_else(|| {
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes[8..16].try_into().unwrap());
            panic!("key {number} has version {:?}, not one of {may_be:?}", found.map(word))
        })
    }

    fn write(&self, writer: usize, mut rng: Rng) {
        let keyspace = self.db.default_keyspace();
        let own = writer * KEYS_A_WRITER..(writer + 1) * KEYS_A_WRITER;
        for round in 0..WRITES {
            // Some are written often, and others lie in tables for long.
            let number = own.start + (rng.below(20) * rng.below(20)) as usize;
            let until = match rng.below(24) {
                0 => own.end.min(number + 2 + rng.below(DELETED_TOGETHER_MOST) as usize),
                _ => number + 1,
            };
            let is_gone = until > number + 1 || rng.one_in(8);
            let versions: Vec<usize> =
                self.keys[number..until].iter().map(|key| key.begin(is_gone)).collect();
            let written = match is_gone {
                _ if until > number + 1 => self.db.delete_range(&keyspace, key(number)..key(until)),
                true => self.db.delete(&keyspace, key(number)),
                false => self.db.put(&keyspace, key(number), value(number, versions[0])),
            };
            written.unwrap();
            for (key, version) in self.keys[number..until].iter().zip(versions) {
                key.acknowledge(version);
            }
            if writer == 0 && (round + 1).is_multiple_of(COMPACT_EVERY) {
                self.db.compact().unwrap();
            }
        }
        self.writers_left.fetch_sub(1, Ordering::Release);
    }

    fn read(&self, mut rng: Rng) {
        // No reader sees a key go back.
        let mut seen = vec![0; self.keys.len()];
        let mut moments: Vec<Moment> = Vec::new();
        for round in 0.. {
            if round >= READS_LEAST && self.writers_left.load(Ordering::Acquire) == 0 {
                break;
            }
            let number = rng.below(self.keys.len() as u64) as usize;
            let from = seen[number].max(self.keys[number].acknowledged());
            let found = self.get(number, None);
            let may_be = from..self.keys[number].begun();
            seen[number] = self.version_of(number, found.as_deref(), may_be);
            if rng.one_in(16) {
                let first = number.min(self.keys.len() - STRETCH);
                if moments.len() == SNAPSHOTS_KEPT {
                    moments.swap_remove(rng.below(SNAPSHOTS_KEPT as u64) as usize);
                }
                moments.push(Moment::take(self, first));
            }
            if rng.one_in(8) && !moments.is_empty() {
                moments[rng.below(moments.len() as u64) as usize].check(self);
            }
        }
    }
}

/// What some keys are at a snapshot.
struct Moment {
    snapshot: Snapshot,
    first: usize,
    values: Vec<Option<Vec<u8>>>,
}

impl Moment {
    fn take(world: &World, first: usize) -> Self {
        let keys = || world.keys[first..first + STRETCH].iter();
        let from: Vec<usize> = keys().map(Versions::acknowledged).collect();
        let snapshot = world.db.snapshot();
        let until: Vec<usize> = keys().map(Versions::begun).collect();
        let get = |number| world.get(number, Some(&snapshot));
        let values: Vec<_> = (first..first + STRETCH).map(get).collect();
        for at in 0..STRETCH {
            world.version_of(first + at, values[at].as_deref(), from[at]..until[at]);
        }
        Moment { snapshot, first, values }
    }

    fn check(&self, world: &World) {
        let numbers = self.first..self.first + STRETCH;
        let read: Vec<_> =
            numbers.clone().map(|number| world.get(number, Some(&self.snapshot))).collect();
        assert_eq!(read, self.values, "keys from {} on at {:?}", self.first, self.snapshot);
        let range = KeyRange::of(key(numbers.start)..key(numbers.end));
        let keyspace = world.db.default_keyspace();
        let mut cursor = self.snapshot.cursor(&keyspace, range).unwrap();
        let mut scanned = vec![None; STRETCH];
        cursor.seek_first().unwrap();
        while let Some((found, value)) = cursor.current() {
            let number = numbers.clone().find(|&number| key(number) == found).unwrap();
            scanned[number - self.first] = Some(value.to_vec());
            cursor.next().unwrap();
        }
        assert_eq!(scanned, self.values, "a scan from {} on at {:?}", self.first, self.snapshot);
    }
}

/// A database with a small pool in `memory`, a directory on tmpfs.
fn open(memory: &Path, forwarding: Forwarding) -> Db {
    let path = memory.join("pool");
    let pool = Pool::create(&path, POOL_BYTES, Accept::Emulated).unwrap();
    let env = Env::over(Arc::new(MemoryStorage::new())).pool(pool);
    let settings = Settings::default()
        .log(Log::Pmem { pool: path, emulated: true })
        .dram_table_bytes(DRAM_TABLE_BYTES)
        .forwarding(forwarding);
    Db::open_with(env, settings).unwrap()
}

fn reads_are_right_under(forwarding: Forwarding) {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let db = open(memory.path(), forwarding);
    let keys = (0..WRITERS * KEYS_A_WRITER).map(|_| Versions::new()).collect();
    let world = World { db, keys, writers_left: AtomicUsize::new(WRITERS) };
    std::thread::scope(|scope| {
        let world = &world;
        for writer in 0..WRITERS {
            scope.spawn(move || world.write(writer, Rng::new(writer as u64)));
        }
        for reader in 0..READERS {
            scope.spawn(move || world.read(Rng::new(100 + reader)));
        }
    });
    let stats = world.db.stats();
    println!("{forwarding:?}: {} flushes, {:?}", stats.flushes, stats.dram_table);
    assert!(stats.flushes > 16 && stats.compactions > 0, "segments are used again");
    let table = stats.dram_table;
    assert!(table.hits > 0 && table.exact_hits > 0, "{table:?}");
    assert!(table.forwards > 0 && table.fills > 0, "{table:?}");
    assert!(table.evictions > 0 && table.invalidations > 0 && table.collected > 0, "{table:?}");
}

#[test]
fn every_read_is_right_while_every_put_is_forwarded() {
    reads_are_right_under(Forwarding::Always);
}

#[test]
fn every_read_is_right_while_puts_are_forwarded_that_are_read() {
    reads_are_right_under(Forwarding::Adaptive);
}

#[test]
fn a_value_that_expires_is_not_read_from_a_copy() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let db = open(memory.path(), Forwarding::Always);
    let keyspace = db.default_keyspace();
    let ttl = std::time::Duration::from_secs(3_600);
    db.put_with_ttl(&keyspace, key(1), value(1, 1), ttl).unwrap();
    assert_eq!(keyspace.get(key(1)).unwrap().as_deref(), Some(&value(1, 1)[..]));
    let table = db.stats().dram_table;
    assert_eq!((table.forwards, table.exact_hits), (0, 0));
}

#[test]
fn each_put_of_a_batch_that_is_forwarded_is_read_from_its_copy() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let db = open(memory.path(), Forwarding::Always);
    let keyspace = db.default_keyspace();
    let mut batch = db.batch();
    (0..10).for_each(|number| batch.put(&keyspace, key(number), value(number, 1)));
    db.write(&batch).unwrap();
    for number in 0..10 {
        let found = db.get(&keyspace, key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number, 1)[..]));
    }
    let table = db.stats().dram_table;
    assert_eq!((table.forwards, table.exact_hits, table.exact_misses), (10, 10, 0));
}
