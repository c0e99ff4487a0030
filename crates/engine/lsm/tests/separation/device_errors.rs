//! Reads of value files that fail, though the files are not damaged.

use crate::support::{key, long, separating};
use esker_api::{CompactionFilter, FilterDecision, FilterError};
use esker_base::background::Stepped;
use esker_base::{Clock, Error, Result};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Settings};
use esker_storage::{FileSystemWrapper, MemoryStorage, ReadableFile, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A storage of which some reads of value files fail.
#[derive(Default)]
struct Failing {
    below: MemoryStorage,
    device: Arc<Device>,
}

#[derive(Default)]
struct Device {
    fails: AtomicBool,
    failed: AtomicU64,
}

struct FailingFile {
    file: Arc<dyn ReadableFile>,
    device: Arc<Device>,
}

impl ReadableFile for FailingFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if self.device.fails.load(Ordering::SeqCst) {
            self.device.failed.fetch_add(1, Ordering::SeqCst);
            let error = std::io::Error::other("a bad sector");
            return Err(Error::io("read", self.name(), error));
        }
        self.file.read_exact_at(offset, out)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

impl FileSystemWrapper for Failing {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let file = self.below.open(name)?;
        Ok(match name.ends_with(".values") {
            true => Arc::new(FailingFile { file, device: self.device.clone() }),
            false => file,
        })
    }
}

/// No time passes, so nothing is tried again unless it is asked for.
struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

struct World {
    storage: Arc<Failing>,
    db: Db,
    keyspace: Keyspace,
}

impl World {
    fn with(keyspace: KeyspaceSettings, settings: Settings) -> World {
        let storage = Arc::new(Failing::default());
        let env = Env::over(storage.clone()).background(Arc::new(Stepped));
        let env = env.clock(Arc::new(StandingClock));
        let db = Db::open_with(env, settings.segment_bytes(64 << 10).memory_bytes(8 << 20));
        let db = db.unwrap();
        let keyspace = db.keyspace("k", keyspace).unwrap();
        World { storage, db, keyspace }
    }

    fn put(&self, keys: impl Iterator<Item = u32>, version: u32) {
        keys.for_each(|n| self.db.put(&self.keyspace, key(n), long(&key(n), version)).unwrap());
        self.db.flush().unwrap();
    }

    fn fails(&self, fails: bool) {
        self.storage.device.fails.store(fails, Ordering::SeqCst);
    }

    /// How many reads of value files have failed.
    fn failed(&self) -> u64 {
        self.storage.device.failed.load(Ordering::SeqCst)
    }

    fn value_files(&self) -> Vec<String> {
        let mut names = self.storage.list().unwrap();
        names.retain(|name| name.ends_with(".values"));
        names.sort();
        names
    }

    fn expect(&self, n: u32, version: u32) {
        let found = self.db.get(&self.keyspace, key(n)).unwrap().unwrap();
        assert_eq!(found, &long(&key(n), version)[..]);
    }
}

#[test]
fn a_bad_sector_in_a_value_file_stops_no_compaction() {
    let world = World::with(separating(), Settings::default());
    let other = world.db.keyspace("other", KeyspaceSettings::default()).unwrap();
    world.put(0..50, 1);
    let first = world.value_files().remove(0);
    world.put(0..40, 2);
    world.db.compact().unwrap();
    world.fails(true);
    for round in 0..5_u8 {
        world.db.put(&other, "a", [round]).unwrap();
        world.db.put(&world.keyspace, "b", [round]).unwrap();
        world.db.compact().unwrap();
        while world.db.run_background_job() {}
    }
    assert!(world.failed() > 0, "no compaction has tried to collect it");
    assert!(world.failed() <= 10, "{} reads of a file that fails", world.failed());
    for tree in world.db.levels() {
        let runs = tree.levels.iter().map(|level| level.runs.len()).sum::<usize>();
        assert!(runs <= 1, "{}: {runs}", tree.name);
    }
    assert!(world.db.get(&world.keyspace, key(45)).is_err());
    assert!(world.value_files().contains(&first));
    // It is collected once it can be read.
    world.fails(false);
    world.db.put(&world.keyspace, key(45), long(&key(45), 2)).unwrap();
    world.db.compact().unwrap();
    assert!(!world.value_files().contains(&first), "{:?}", world.value_files());
    world.expect(41, 1);
    world.expect(45, 2);
}

/// Drops everything.
struct DropAll;

impl CompactionFilter for DropAll {
    fn name(&self) -> &str {
        "drop_all"
    }
    fn filter(&self, _: &[u8], _: &[u8]) -> Result<FilterDecision, FilterError> {
        Ok(FilterDecision::Drop)
    }
}

#[test]
fn a_value_that_cannot_be_read_is_kept_from_the_filter() {
    let settings = Settings::default().compaction_filter(DropAll);
    let world = World::with(separating().compaction_filter("drop_all"), settings);
    world.put(0..5, 1);
    world.fails(true);
    world.db.compact().unwrap();
    world.fails(false);
    (0..5).for_each(|n| world.expect(n, 1));
    world.db.put(&world.keyspace, "z", b"short").unwrap();
    world.db.compact().unwrap();
    assert_eq!(world.db.iter(&world.keyspace).count(), 0);
}

#[test]
fn operands_stay_above_a_value_that_cannot_be_read() {
    let world = World::with(separating().merge("append"), Settings::default());
    world.put(0..1, 1);
    world.db.merge(&world.keyspace, key(0), b"tail").unwrap();
    world.fails(true);
    world.db.compact().unwrap();
    world.fails(false);
    let expected = [&long(&key(0), 1)[..], b"tail"].concat();
    assert_eq!(world.db.get(&world.keyspace, key(0)).unwrap().unwrap(), &expected[..]);
    world.db.put(&world.keyspace, "z", b"short").unwrap();
    world.db.compact().unwrap();
    assert_eq!(world.db.get(&world.keyspace, key(0)).unwrap().unwrap(), &expected[..]);
}
