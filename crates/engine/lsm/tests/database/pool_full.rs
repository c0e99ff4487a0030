//! Writers that fill a pool faster than flushes empty it.

use crate::pool_place::{assert_all, put_all};
use esker_base::background::Stepped;
use esker_base::{Background, Clock, FileKind, Result, Threads, WriteHint};
use esker_lsm::{Db, Env, Log, Settings};
use esker_pmem::{Accept, Pool};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Sixteen segments of 64 KiB.
const POOL_BYTES: u64 = (1 << 20) + (8 << 10);
/// More than three times what the pool has space for, at 192 bytes each.
const PUTS: u64 = 18_000;

/// A clock that goes on only while a thread sleeps by it, and then at once.
#[derive(Default)]
struct Sleeps(AtomicU64);

impl Clock for Sleeps {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A flush takes so long for a segment, by that clock: 10 MB/s.
const FLUSH: Duration = Duration::from_micros(6_550);

/// Tables take time.
struct Timed {
    storage: MemoryStorage,
    clock: Arc<Sleeps>,
}

impl FileSystemWrapper for Timed {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        if hint.kind == FileKind::Table {
            self.clock.sleep(FLUSH);
        }
        self.storage.create(name, hint)
    }
}

fn open(
    path: &Path,
    pool: &Arc<Pool>,
    storage: Arc<dyn Storage>,
    clock: Arc<Sleeps>,
    background: Arc<dyn Background>,
) -> Db {
    let env = Env::over(storage).clock(clock).background(background).pool(pool.clone());
    let log = Log::Pmem { pool: path.to_owned(), emulated: true };
    Db::open_with(env, Settings::default().log(log)).unwrap()
}

#[test]
fn puts_wait_in_growing_steps_before_the_pool_is_full() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = memory.path().join("pool");
    let pool = Pool::create(&path, POOL_BYTES, Accept::Emulated).unwrap();
    let clock = Arc::new(Sleeps::default());
    let storage = Timed { storage: MemoryStorage::new(), clock: clock.clone() };
    let db = open(&path, &pool, Arc::new(storage), clock, Arc::new(Stepped));
    // Before one was measured, no flush slows writers.
    put_all(&db, 0..340);
    db.flush().unwrap();
    // Nobody flushes before the writer must do so by itself: then the pool is full.
    let mut waits: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
    let mut written = 0;
    loop {
        let before = db.stats();
        put_all(&db, written..written + 1);
        written += 1;
        let after = db.stats();
        if after.flushes > 1 {
            break;
        }
        // The active one is not sealed.
        let sealed = after.memtables - 1;
        waits.entry(sealed).or_default().push(after.stalled - before.stalled);
    }
    assert_eq!(pool.extents(), 16);
    let per_put = |waits: &Vec<Duration>| waits.iter().sum::<Duration>() / waits.len() as u32;
    let waits: Vec<_> = waits.values().map(per_put).collect();
    // Half of what may wait for a flush is free, and so are the first milliseconds of waits: the two segments after.
    let free = waits.iter().take_while(|wait| wait.is_zero()).count();
    assert!(free <= 10 && waits.len() >= 14, "{waits:?}");
    // At the limit and beyond, writers have the same least rate.
    let rising = &waits[free..waits.len() - 1];
    assert!(rising.is_sorted_by(|one, next| one < next), "{waits:?}");
    // From here on it flushes by itself whenever the pool is full.
    put_all(&db, written..PUTS);
    assert_all(&db, 0..PUTS);
}

/// No flush begins a table before the pool is full, until the test says so.
struct Slowed {
    storage: Timed,
    pool: Arc<Pool>,
    is_over: Arc<AtomicBool>,
}

impl FileSystemWrapper for Slowed {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let is_of_flush = hint.kind == FileKind::Table && hint.level == 0;
        while is_of_flush && self.pool.free() > 0 && !self.is_over.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        FileSystemWrapper::create(&self.storage, name, hint)
    }
}

#[test]
fn writers_that_outrun_a_slowed_flush_lose_nothing() {
    const WRITERS: u64 = 4;
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = memory.path().join("pool");
    let pool = Pool::create(&path, POOL_BYTES, Accept::Emulated).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let clock = Arc::new(Sleeps::default());
    let storage = Timed { storage: MemoryStorage::new(), clock: clock.clone() };
    let storage = Slowed { storage, pool: pool.clone(), is_over: is_over.clone() };
    let db = open(&path, &pool, Arc::new(storage), clock, Arc::new(Threads));
    // A test that fails closes the database, which waits for the flush.
    let _ends = scopeguard::guard(is_over.clone(), |over| over.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, each) = (&db, PUTS / WRITERS);
            scope.spawn(move || put_all(db, writer * each..(writer + 1) * each));
        }
    });
    let stats = db.stats();
    let emptied = PUTS * 192 / pool.extent_bytes() as u64 - pool.extents() as u64;
    assert!(stats.flushes >= emptied, "{} flushes", stats.flushes);
    assert!(stats.stalled > Duration::ZERO, "the clock goes on in puts that wait alone");
    assert_all(&db, 0..PUTS);
    is_over.store(true, Ordering::Relaxed);
    db.flush().unwrap();
    let (stalled, stored) = (db.stats().stalled, db.stats().account.stalled_us);
    assert_eq!(u128::from(stored), stalled.as_micros(), "the flush stores how long writers waited");
    assert_all(&db, 0..PUTS);
}
