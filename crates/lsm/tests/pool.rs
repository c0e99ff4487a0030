//! A database whose log is a pool of persistent memory.

use esker_base::Error;
use esker_lsm::{Db, Log, Settings, Sync};
use esker_pmem::{Accept, Pool};
use std::path::{Path, PathBuf};

const POOL_BYTES: u64 = 8 << 20;

/// A directory for tables, and one on tmpfs for the pool.
struct Place {
    tables: tempfile::TempDir,
    memory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let memory = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let place = Place { tables: tempfile::tempdir().unwrap(), memory };
        Pool::create(place.pool(), POOL_BYTES, Accept::Emulated).unwrap();
        place
    }

    fn pool(&self) -> PathBuf {
        self.memory.path().join("pool")
    }

    fn dir(&self) -> &Path {
        self.tables.path()
    }

    fn settings(&self) -> Settings {
        let log = Log::Pmem { pool: self.pool(), emulated: true };
        Settings { log, memory_bytes: 64 << 20, ..Settings::default() }
    }

    fn open(&self) -> esker_base::Result<Db> {
        Db::open(self.dir(), self.settings())
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{:08}", number.wrapping_mul(0x9e37_79b9) % 1_000_000).into_bytes()
}

fn put_all(db: &Db, numbers: std::ops::Range<u64>) {
    let keyspace = db.default_keyspace();
    for number in numbers {
        db.put(&keyspace, &key(number), &number.to_le_bytes().repeat(12)).unwrap();
    }
}

fn assert_all(db: &Db, numbers: std::ops::Range<u64>) {
    let keyspace = db.default_keyspace();
    for number in numbers {
        let found = db.get(&keyspace, &key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&number.to_le_bytes().repeat(12)[..]), "{number}");
    }
}

/// Ends the database as a killed process would: nothing is flushed, nothing is closed.
fn kill(db: Db) {
    // The copy of the pool is what the next process finds; the original stays mapped and locked.
    std::mem::forget(db);
}

#[test]
fn writes_are_read_back_through_flush_and_reopening() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..50_000);
    assert_all(&db, 0..50_000);
    assert!(db.stats().flushes > 0, "the pool is smaller than what was written");
    db.close().unwrap();
    let db = place.open().unwrap();
    assert_all(&db, 0..50_000);
}

#[test]
fn what_a_killed_process_wrote_is_recovered_from_the_pool_alone() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..2_000);
    // One segment is written to, one is prepared, and then nothing changes any more.
    while db.stats().logs < 2 {
        std::thread::yield_now();
    }
    let copy = place.memory.path().join("copy");
    std::fs::copy(place.pool(), &copy).unwrap();
    let tables = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(place.dir()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), tables.path().join(file.file_name())).unwrap();
    }
    kill(db);
    let log = Log::Pmem { pool: copy, emulated: true };
    let settings = Settings { log, ..place.settings() };
    let db = Db::open(tables.path(), settings.clone()).unwrap();
    assert_all(&db, 0..2_000);
    put_all(&db, 2_000..20_000);
    db.close().unwrap();
    let db = Db::open(tables.path(), settings).unwrap();
    assert_all(&db, 0..20_000);
}

#[test]
fn a_commit_takes_one_fence_and_stores_its_bytes_once() {
    let place = Place::new();
    let db = place.open().unwrap();
    let before = db.stats();
    put_all(&db, 0..1_000);
    let after = db.stats();
    assert_eq!(after.flushes, 0);
    // The next segment may have been prepared meanwhile: its header, its state word, two fences.
    let prepared = after.log_fences - before.log_fences - 1_000;
    assert!(prepared == 0 || prepared == 2, "{prepared} more fences than writes");
    // Header 32, entry 4 + 12 + 96: three lines.
    assert_eq!(after.log_bytes - before.log_bytes, 1_000 * 192 + prepared / 2 * 72);
    assert_eq!(after.log_flushes - before.log_flushes, 1_000 * 3 + prepared);
}

#[test]
fn a_pool_of_another_database_is_refused() {
    let place = Place::new();
    place.open().unwrap().close().unwrap();
    let other = tempfile::tempdir().unwrap();
    let refused = Db::open(other.path(), place.settings()).err().unwrap();
    assert!(matches!(refused, Error::PoolRefused { .. }), "{refused}");
    assert!(refused.to_string().contains("another database"), "{refused}");
}

#[test]
fn a_database_with_writes_in_its_pool_is_not_opened_without_it() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..10);
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(place.dir()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    drop(db);
    let settings = Settings { log: Log::File { dir: None, sync: Sync::Os }, ..Settings::default() };
    let error = Db::open(copy.path(), settings).err().unwrap();
    assert!(error.is_corruption() && error.to_string().contains("pool"), "{error}");

    let fresh = place.memory.path().join("fresh");
    Pool::create(&fresh, POOL_BYTES, Accept::Emulated).unwrap();
    let log = Log::Pmem { pool: fresh, emulated: true };
    let error = Db::open(copy.path(), Settings { log, ..place.settings() }).err().unwrap();
    assert!(matches!(error, Error::PoolRefused { .. }), "{error}");
}

#[test]
fn a_log_file_database_may_move_to_a_pool_and_back() {
    let place = Place::new();
    let files = Settings::default();
    let db = Db::open(place.dir(), files.clone()).unwrap();
    put_all(&db, 0..100);
    db.close().unwrap();
    let db = place.open().unwrap();
    assert_all(&db, 0..100);
    put_all(&db, 100..200);
    db.close().unwrap();
    let db = Db::open(place.dir(), files).unwrap();
    assert_all(&db, 0..200);
}

#[test]
fn a_live_database_is_looked_at_beside_its_writer() {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..1_000);
    let looking = Db::open_read_only(place.dir(), place.settings()).unwrap();
    assert_all(&looking, 0..1_000);
    put_all(&db, 1_000..40_000);
    assert_all(&looking, 0..1_000);
}

#[test]
fn many_writers_share_the_pool() {
    let place = Place::new();
    let db = place.open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || put_all(db, thread * 10_000..(thread + 1) * 10_000));
        }
    });
    assert_all(&db, 0..40_000);
}
