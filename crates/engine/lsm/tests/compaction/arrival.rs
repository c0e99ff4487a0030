//! Level 0 of a leveled keyspace while flushes follow each other: one merge for many runs.

use esker_base::background::Stepped;
use esker_base::{Clock, Error, FileKind, Result, WriteHint};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A clock that stops until it is moved.
#[derive(Default)]
struct Told(AtomicU64);

impl Clock for Told {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
    fn sleep(&self, _: Duration) {}
}

/// A storage that makes no tables of level 0 when the test says so.
#[derive(Clone, Default)]
struct Bad {
    below: Arc<MemoryStorage>,
    refuses: Arc<AtomicBool>,
}

impl FileSystemWrapper for Bad {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let is_flush = hint.kind == FileKind::Table && hint.level == 0;
        if is_flush && self.refuses.load(Ordering::Relaxed) {
            let cause = std::io::Error::other("as it was told");
            return Err(Error::io("create", name, cause));
        }
        self.below.create(name, hint)
    }
}

/// A database whose last level is about ten times a segment, and which has no thread.
struct World {
    db: Db,
    keyspace: Keyspace,
    clock: Arc<Told>,
    storage: Bad,
}

const SEGMENT_BYTES: usize = 64 << 10;
const KEYS: u32 = 1_600;

impl World {
    fn new() -> World {
        let (clock, storage) = (Arc::new(Told::default()), Bad::default());
        let env =
            Env::over(Arc::new(storage.clone())).clock(clock.clone()).background(Arc::new(Stepped));
        let settings = Settings::default().log(Log::None).segment_bytes(SEGMENT_BYTES);
        let db = Db::open_with(env, settings).unwrap();
        let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
        let world = World { db, keyspace, clock, storage };
        (0..KEYS).for_each(|key| world.put(key));
        world.db.compact().unwrap();
        world
    }

    fn put(&self, key: u32) {
        let value: Vec<u8> = (0..400u32).map(|n| (key.wrapping_mul(n) >> 7) as u8).collect();
        self.db.put(&self.keyspace, key.to_be_bytes(), &value).unwrap();
    }

    /// A run that is over all others, of a twentieth of what is below.
    fn flush(&self) {
        (0..KEYS).step_by(20).for_each(|key| self.put(key));
        self.db.flush().unwrap();
    }

    fn runs(&self, name: &str) -> usize {
        let levels = self.db.levels();
        let keyspace = levels.iter().find(|keyspace| keyspace.name == name).unwrap();
        keyspace.levels.iter().find(|level| level.level == 0).map_or(0, |level| level.runs.len())
    }

    fn step(&self) {
        while self.db.run_background_job() {}
    }
}

#[test]
fn runs_that_come_one_after_another_are_merged_at_once() {
    let world = World::new();
    let before = world.db.stats().compactions;
    for run in 1..8 {
        world.flush();
        world.step();
        assert_eq!(world.runs("k"), run, "more may come");
    }
    world.clock.0.fetch_add(60, Ordering::Relaxed);
    world.step();
    assert_eq!((world.runs("k"), world.db.stats().compactions), (0, before + 1));
}

#[test]
fn they_are_merged_when_there_are_twelve_though_others_follow() {
    let world = World::new();
    let runs = |_| {
        world.flush();
        world.step();
        world.runs("k")
    };
    assert_eq!((0..30).map(runs).max(), Some(11));
}

#[test]
fn whoever_waits_for_all_merges_waits_for_no_run() {
    let world = World::new();
    (0..5).for_each(|_| world.flush());
    world.step();
    assert_eq!(world.runs("k"), 5);
    world.db.wait_for_compactions().unwrap();
    assert_eq!(world.runs("k"), 0);
}

#[test]
fn a_keyspace_waits_for_no_flush_that_has_nothing_for_it() {
    let world = World::new();
    (0..5).for_each(|_| world.flush());
    world.step();
    assert_eq!(world.runs("k"), 5);
    let other = world.db.keyspace("other", KeyspaceSettings::default()).unwrap();
    world.db.put(&other, b"k", b"v").unwrap();
    world.db.flush().unwrap();
    world.step();
    assert_eq!((world.runs("k"), world.runs("other")), (0, 1));
}

#[test]
fn nothing_waits_for_a_flush_that_fails() {
    let world = World::new();
    (0..5).for_each(|_| world.flush());
    world.storage.refuses.store(true, Ordering::Relaxed);
    (0..KEYS).step_by(20).for_each(|key| world.put(key));
    assert!(world.db.flush().is_err());
    world.step();
    assert_eq!(world.runs("k"), 0, "a merge may make the room that a flush lacks");
}
