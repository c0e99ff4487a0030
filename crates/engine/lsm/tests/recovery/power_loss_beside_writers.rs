//! Power is lost at any time while several threads write, with background threads at work and
//! syncs of every length. What is recovered has every acknowledged write, whole batches only, and a
//! prefix: whatever a batch's writer knew of before it wrote is there if the batch is.

use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use esker_storage::{FaultStorage, FileSystemWrapper, LogFile, Storage};
use scopeguard::defer;
use std::array;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const WRITERS: usize = 4;
/// Each batch writes so many keys. They must have the same value at all times.
const KEYS: u8 = 3;
const IMAGES: u64 = 40;

/// A disk whose syncs of logs take long, before and after the device has the bytes.
struct SlowSyncs {
    disk: FaultStorage,
    rng: Arc<Mutex<Rng>>,
}

struct SlowLog {
    file: Arc<dyn LogFile>,
    rng: Arc<Mutex<Rng>>,
}

impl SlowLog {
    /// Lets other threads run for a random while.
    fn dawdle(&self) {
        let yields = self.rng.lock().unwrap().below(60);
        (0..yields).for_each(|_| std::thread::yield_now());
    }
}

impl LogFile for SlowLog {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        self.dawdle();
        self.file.sync()?;
        self.dawdle();
        Ok(())
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

impl SlowSyncs {
    fn slow(&self, file: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(SlowLog { file, rng: self.rng.clone() })
    }
}

impl FileSystemWrapper for SlowSyncs {
    fn below(&self) -> &dyn Storage {
        &self.disk
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        Ok(self.slow(self.disk.create_log(name, bytes)?))
    }
    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        Ok(self.disk.recycle_log(old, new, bytes)?.map(|file| self.slow(file)))
    }
}

fn settings(sync: SyncPolicy) -> Settings {
    Settings::default()
        .log(Log::File { dir: None, sync })
        .segment_bytes(256 << 10)
        .memory_bytes(8 << 20)
}

/// The number of the last batch of each writer.
type Numbers = [u64; WRITERS];

fn key(writer: usize, place: u8) -> Vec<u8> {
    vec![writer as u8, place]
}

/// A batch's number, and what its writer knew of all writers' batches before it wrote.
fn value(number: u64, known: &Numbers, padding: usize) -> Vec<u8> {
    let numbers = std::iter::once(&number).chain(known);
    let mut value: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
    value.resize(value.len() + padding, 7);
    value
}

fn parse(value: &[u8]) -> (u64, Numbers) {
    let number = |at: usize| u64::from_le_bytes(value[8 * at..8 * at + 8].try_into().unwrap());
    (number(0), array::from_fn(|writer| number(1 + writer)))
}

/// The last batch of `writer` that a reader sees.
fn seen(db: &Db, writer: usize) -> u64 {
    let found = db.get(&db.default_keyspace(), key(writer, 0)).unwrap();
    found.map_or(0, |value| parse(&value).0)
}

struct Run {
    disk: FaultStorage,
    db: Db,
    syncs_each: bool,
    /// The last batch of each writer that must survive.
    durable: [AtomicU64; WRITERS],
    over: AtomicBool,
}

impl Run {
    fn write(&self, writer: usize, seed: u64) {
        let mut rng = Rng::new(seed * 100 + writer as u64);
        let keyspace = self.db.default_keyspace();
        for number in 1.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let known: Numbers = array::from_fn(|other| match other == writer {
                true => number - 1,
                false => seen(&self.db, other),
            });
            let mut batch = self.db.batch();
            let padding = if rng.one_in(8) { 9_000 } else { rng.below(200) as usize };
            let value = value(number, &known, padding);
            (0..KEYS).for_each(|place| batch.put(&keyspace, key(writer, place), &value));
            let syncs = self.syncs_each && rng.one_in(4);
            if syncs {
                batch.set_sync(true);
            }
            self.db.write(&batch).unwrap();
            if !self.syncs_each || syncs {
                // Everything before it in order of seqnos survives as well.
                self.durable[writer].store(number, Ordering::SeqCst);
                for (other, known) in known.iter().enumerate().filter(|(it, _)| *it != writer) {
                    self.durable[other].fetch_max(*known, Ordering::SeqCst);
                }
            }
        }
    }

    /// Takes an image of the disk now and checks what is recovered from it.
    fn check_image(&self, seed: u64) {
        // Under `Always` a reader sees nothing that power loss could take back.
        let read: Numbers = match self.syncs_each {
            false => array::from_fn(|writer| seen(&self.db, writer)),
            true => [0; WRITERS],
        };
        let durable: Numbers =
            array::from_fn(|writer| self.durable[writer].load(Ordering::SeqCst).max(read[writer]));
        let image = self.disk.crash_image(Rng::new(seed));
        let env = Env::over(Arc::new(image)).background(Arc::new(Stepped));
        let db = Db::open_with(env, settings(SyncPolicy::Always)).unwrap();
        let keyspace = db.default_keyspace();
        let get = |writer, place| db.get(&keyspace, key(writer, place)).unwrap();
        let found: Numbers = array::from_fn(|writer| seen(&db, writer));
        for writer in 0..WRITERS {
            assert!(
                found[writer] >= durable[writer],
                "image {seed}: writer {writer} has batch {}, and {} was durable",
                found[writer],
                durable[writer]
            );
            let first = get(writer, 0);
            for place in 1..KEYS {
                assert_eq!(get(writer, place), first, "image {seed}: a batch is whole");
            }
            let Some(first) = first else { continue };
            let (_, known) = parse(&first);
            for (other, known) in known.iter().enumerate() {
                assert!(
                    found[other] >= *known,
                    "image {seed}: writer {writer} knew batch {known} of {other}, which has {}",
                    found[other]
                );
            }
        }
    }
}

fn run(sync: SyncPolicy, syncs_each: bool) {
    for seed in 0..2 {
        let disk = FaultStorage::new(Rng::new(seed));
        let rng = Arc::new(Mutex::new(Rng::new(seed)));
        let storage = Arc::new(SlowSyncs { disk: disk.clone(), rng });
        let db = Db::open_with(Env::over(storage), settings(sync)).unwrap();
        let (durable, over) = (Default::default(), AtomicBool::new(false));
        let run = Run { disk, db, syncs_each, durable, over };
        std::thread::scope(|scope| {
            let run = &run;
            defer! { run.over.store(true, Ordering::Relaxed) }
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || run.write(writer, seed))).collect();
            for image in 0..IMAGES {
                // Between two images every writer gets on.
                let before: Numbers = array::from_fn(|writer| seen(&run.db, writer));
                while (0..WRITERS).any(|writer| seen(&run.db, writer) <= before[writer])
                    && !writers.iter().any(|writer| writer.is_finished())
                {
                    std::thread::yield_now();
                }
                run.check_image(1000 * seed + image);
            }
        });
        let flushes = run.db.stats().flushes;
        assert!(flushes > 0, "segments were filled and flushed meanwhile");
    }
}

#[test]
fn every_acknowledged_write_survives_when_each_is_synced() {
    run(SyncPolicy::Always, false);
}

#[test]
fn a_synced_batch_survives_with_all_before_it_when_others_are_not_synced() {
    run(SyncPolicy::Os, true);
}
