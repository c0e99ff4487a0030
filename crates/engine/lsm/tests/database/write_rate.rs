//! The limit of the rate at which flushes and compactions write, on a simulated clock.

use crate::support::small;
use esker_base::background::Stepped;
use esker_base::{Clock, Result, Rng, WriteHint};
use esker_lsm::options::BackgroundWriteRate;
use esker_lsm::{Db, Env, KeyspaceSettings};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use esker_table::Compression;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time passes as it is slept.
#[derive(Default)]
struct Slept(Mutex<Duration>);

impl Clock for Slept {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, duration: Duration) {
        *self.0.lock().unwrap() += duration;
    }
}

type Appends = Arc<Mutex<Vec<(Duration, u64)>>>;

/// Notes what is appended to table files, and when.
struct Recording {
    below: MemoryStorage,
    clock: Arc<Slept>,
    appends: Appends,
}

impl FileSystemWrapper for Recording {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let below = self.below.create(name, hint)?;
        if !name.ends_with(".tables") {
            return Ok(below);
        }
        let (clock, appends) = (self.clock.clone(), self.appends.clone());
        Ok(Box::new(RecordedFile { below, clock, appends }))
    }
}

struct RecordedFile {
    below: Box<dyn WritableFile>,
    clock: Arc<Slept>,
    appends: Appends,
}

impl WritableFile for RecordedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.appends.lock().unwrap().push((self.clock.now(), bytes.len() as u64));
        self.below.append(bytes)
    }
    fn len(&self) -> u64 {
        self.below.len()
    }
    fn sync(&mut self) -> Result<()> {
        self.below.sync()
    }
}

struct Place {
    db: Db,
    clock: Arc<Slept>,
    appends: Appends,
}

impl Place {
    fn limited(rate: BackgroundWriteRate) -> Self {
        let (clock, appends) = (Arc::new(Slept::default()), Appends::default());
        let below = MemoryStorage::new();
        let storage = Recording { below, clock: clock.clone(), appends: appends.clone() };
        let env = Env::over(Arc::new(storage)).background(Arc::new(Stepped)).clock(clock.clone());
        let keyspace = KeyspaceSettings::default().compression(Compression::None);
        let settings = small().background_write_rate(rate).default_keyspace(keyspace);
        Place { db: Db::open_with(env, settings).unwrap(), clock, appends }
    }

    /// Writes random keys, `kib` KiB in all.
    fn write(&self, kib: u64) {
        let mut rng = Rng::new(7);
        let keyspace = self.db.default_keyspace();
        for _ in 0..kib {
            self.db.put(&keyspace, rng.below(4_000).to_be_bytes(), [7; 1000]).unwrap();
        }
    }

    fn bytes(&self) -> u64 {
        self.appends.lock().unwrap().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The most that was appended in any second that ends with an append.
    fn most_in_a_second(&self) -> u64 {
        let appends = self.appends.lock().unwrap();
        let (mut start, mut within, mut most) = (0, 0, 0);
        for (at, bytes) in &*appends {
            within += bytes;
            while appends[start].0 + Duration::from_secs(1) <= *at {
                within -= appends[start].1;
                start += 1;
            }
            most = most.max(within);
        }
        most
    }
}

#[test]
fn flushes_and_compactions_together_keep_the_rate_in_any_second() {
    const RATE: u64 = 2_000_000;
    let place = Place::limited(BackgroundWriteRate::Fixed(RATE));
    place.write(8 << 10);
    place.db.flush().unwrap();
    place.db.compact().unwrap();
    let (stats, bytes) = (place.db.stats(), place.bytes());
    assert!(stats.flush_bytes > 4 << 20 && stats.compaction_bytes > 2 << 20, "{stats}");
    assert_eq!(stats.flush_bytes + stats.compaction_bytes, bytes, "all of it was limited");
    let most = place.most_in_a_second();
    assert!(most <= RATE + RATE / 10, "{most}");
    let least = Duration::from_secs_f64(bytes as f64 / RATE as f64).mul_f64(0.9);
    assert!(place.clock.now() >= least, "{:?}", place.clock.now());
    assert_eq!(stats.background_write_rate, Some(RATE));
    assert!(stats.background_write_waits > least / 2, "{:?}", stats.background_write_waits);
}

#[test]
fn a_write_takes_nothing_of_the_rate() {
    let place = Place::limited(BackgroundWriteRate::Fixed(BackgroundWriteRate::LEAST));
    place.write(100);
    assert_eq!(place.clock.now(), Duration::ZERO);
    place.db.flush().unwrap();
    let flushed = place.clock.now();
    assert!(flushed > Duration::from_secs(1), "{flushed:?}");
    place.write(10);
    assert_eq!(place.clock.now(), flushed);
}

#[test]
fn a_close_does_not_wait_for_the_rate() {
    let place = Place::limited(BackgroundWriteRate::Fixed(BackgroundWriteRate::LEAST));
    place.write(200);
    place.db.clone().close().unwrap();
    assert!(place.bytes() > 100 << 10);
    assert_eq!(place.clock.now(), Duration::ZERO);
}

#[test]
fn a_rate_with_bounds_is_the_least_without_a_backlog_and_more_with_one() {
    let least = BackgroundWriteRate::LEAST;
    let place = Place::limited(BackgroundWriteRate::Auto { least, most: 64 * least });
    place.write(10);
    assert_eq!(place.db.stats().background_write_rate, Some(least));
    place.db.flush().unwrap();
    let alone = place.bytes() as f64 / place.clock.now().as_secs_f64().max(0.01);
    assert_eq!(place.db.stats().background_write_rate, Some(least), "the backlog is gone");
    let (begun, before) = (place.clock.now(), place.bytes());
    place.write(4 << 10);
    let mean = (place.bytes() - before) as f64 / (place.clock.now() - begun).as_secs_f64();
    assert!(mean > 4.0 * least as f64, "{mean} while writers make a backlog, {alone} before");
}
