//! A table whose read fails: compaction goes around it, says so, and tries it again when that may help.

use esker_api::Cursor;
use esker_base::background::Stepped;
use esker_base::{Clock, Error, Result, WriteHint};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Shape};
use esker_storage::{FileSystemWrapper, MemoryStorage, ReadableFile, Storage, WritableFile};
use esker_table::Compression;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of a read that meets a bad place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A bit is another one.
    Flip,
    /// The device fails.
    Io,
}

/// A file, a place in it, and what reads of it meet.
type BadPlace = (String, u64, Fault);

/// A storage with bad places, and perhaps without space for new files.
#[derive(Clone, Default)]
struct Bad {
    below: MemoryStorage,
    places: Arc<Mutex<Vec<BadPlace>>>,
    is_full: Arc<Mutex<bool>>,
}

struct BadFile {
    file: Arc<dyn ReadableFile>,
    places: Arc<Mutex<Vec<BadPlace>>>,
}

impl FileSystemWrapper for Bad {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        match *self.is_full.lock().unwrap() && name.ends_with(".tables") && hint.level > 0 {
            true => Err(Error::io("create", name, ErrorKind::StorageFull.into())),
            false => self.below.create(name, hint),
        }
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(BadFile { file: self.below.open(name)?, places: self.places.clone() }))
    }
}

impl ReadableFile for BadFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(offset, out)?;
        for (file, place, fault) in self.places.lock().unwrap().iter() {
            let is_met = file == self.name() && (offset..offset + out.len() as u64).contains(place);
            match fault {
                _ if !is_met => {}
                Fault::Flip => out[(place - offset) as usize] ^= 0x40,
                Fault::Io => return Err(Error::io("read", file, ErrorKind::Other.into())),
            }
        }
        Ok(())
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

#[derive(Default)]
struct Hand(Mutex<Duration>);

impl Clock for Hand {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, duration: Duration) {
        *self.0.lock().unwrap() += duration;
    }
}

const KEYS: u32 = 2_000;

/// A database with 800 kB in about 13 tables on its last level, whose background work the test does.
struct World {
    storage: Bad,
    clock: Arc<Hand>,
    shape: Shape,
    db: Db,
    written: BTreeMap<u32, u8>,
}

impl World {
    fn new(shape: Shape) -> World {
        let (storage, clock) = (Bad::default(), Arc::new(Hand::default()));
        let db = open(&storage, &clock);
        let mut world = World { storage, clock, shape, db, written: BTreeMap::new() };
        world.put(0..KEYS, 0);
        world.db.compact().unwrap();
        world
    }

    fn keyspace(&self) -> Keyspace {
        let (shape, compression) = (self.shape, Compression::None);
        self.db
            .keyspace("k", KeyspaceSettings::default().shape(shape).compression(compression))
            .unwrap()
    }

    /// Closes the database and opens it again.
    fn reopen(&mut self) {
        let World { storage, clock, db, .. } = self;
        std::mem::replace(db, open(&Bad::default(), clock)).close().unwrap();
        *db = open(storage, clock);
    }

    fn put(&mut self, keys: impl Iterator<Item = u32>, value: u8) {
        let keyspace = self.keyspace();
        for key in keys {
            self.db.put(&keyspace, key.to_be_bytes(), [value; 400]).unwrap();
            self.written.insert(key, value);
        }
        self.db.flush().unwrap();
        self.work();
    }

    /// Does background work until there is none. A compaction that is chosen again each time it fails
    /// would go on forever.
    fn work(&self) {
        const STEPS_MAX: usize = 1_000;
        let steps = (0..STEPS_MAX).take_while(|_| self.db.run_background_job()).count();
        assert!(steps < STEPS_MAX, "background work does not come to an end");
    }

    /// Overwrites a part of all keys, every key after some rounds.
    fn update(&mut self, round: u8) {
        self.put((0..KEYS).filter(|key| key % 7 == u32::from(round) % 7), round);
    }

    /// The file of a table in the middle of the last level.
    fn victim(&self) -> String {
        let levels = &self.db.levels()[1].levels;
        let tables = &levels.last().unwrap().runs.last().unwrap().tables;
        esker_lsm::version::table_file_name(tables[tables.len() / 2].id.file)
    }

    /// Makes a block in the middle of a table bad.
    fn damage(&self, file: &str, fault: Fault) {
        let middle = self.storage.below.open(file).unwrap().len().unwrap() / 2;
        self.storage.places.lock().unwrap().push((file.to_owned(), middle, fault));
    }

    fn heal(&self) {
        self.storage.places.lock().unwrap().clear();
    }

    fn runs(&self) -> usize {
        self.db.levels()[1].levels.iter().map(|level| level.runs.len()).sum()
    }

    fn runs_in_level_0(&self) -> usize {
        let levels = &self.db.levels()[1].levels;
        levels.iter().find(|level| level.level == 0).map_or(0, |level| level.runs.len())
    }

    fn bytes_in_level_0(&self) -> u64 {
        let levels = &self.db.levels()[1].levels;
        let runs = levels.iter().filter(|level| level.level == 0).flat_map(|level| &level.runs);
        runs.map(|run| run.bytes()).sum()
    }

    /// The file of the newest table in level 0.
    fn newest_file(&self) -> String {
        let level_0 = &self.db.levels()[1].levels[0];
        assert_eq!(level_0.level, 0);
        esker_lsm::version::table_file_name(level_0.runs[0].tables[0].id.file)
    }

    fn check(&self) {
        let keyspace = self.keyspace();
        for (key, value) in &self.written {
            let found = self.db.get(&keyspace, key.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&[*value; 400][..]), "key {key}");
        }
    }

    /// Updates for many rounds. Returns the most runs of all levels, the most bytes in tables and the bytes compacted.
    fn load(&mut self) -> (usize, u64, u64) {
        let (mut runs, mut bytes) = (0, 0);
        for round in 1..=70 {
            self.update(round);
            runs = runs.max(self.runs());
            bytes = bytes.max(self.db.stats().table_bytes);
        }
        (runs, bytes, self.db.stats().compaction_bytes)
    }
}

fn open(storage: &Bad, clock: &Arc<Hand>) -> Db {
    let env =
        Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped)).clock(clock.clone());
    let (segment_bytes, memory_bytes) = (64 << 10, 8 << 20);
    let settings =
        Settings::default().log(Log::None).segment_bytes(segment_bytes).memory_bytes(memory_bytes);
    Db::open_with(env, settings).unwrap()
}

const SHAPES: [Shape; 2] = [Shape::Leveled { ratio: 10 }, Shape::Tiered { runs: 4 }];

#[test]
fn updates_beside_a_bad_block_take_little_more_space_and_work_than_without_it() {
    for shape in SHAPES {
        let mut sound = World::new(shape);
        let (runs, bytes, written) = sound.load();
        for fault in [Fault::Flip, Fault::Io] {
            let mut world = World::new(shape);
            world.reopen();
            world.damage(&world.victim(), fault);
            let (runs_beside, bytes_beside, written_beside) = world.load();
            let context = format!("{shape:?}, {fault:?}");
            assert!(runs_beside <= runs + 4, "{context}: {runs_beside} runs for {runs}");
            let share = bytes_beside as f64 / bytes as f64;
            assert!(share < 1.3, "{context}: {share} times the space");
            let share = written_beside as f64 / written as f64;
            assert!(share < 1.25, "{context}: {share} times the bytes written");
            world.check();
        }
    }
}

#[test]
fn a_scan_yields_what_is_before_a_damaged_block_and_then_says_where_the_damage_is() {
    for is_merged in [false, true] {
        let mut world = World::new(Shape::Leveled { ratio: 10 });
        if is_merged {
            world.put((0..KEYS).step_by(3), 1);
        }
        let victim = world.victim();
        world.reopen();
        world.damage(&victim, Fault::Flip);
        let mut cursor = world.db.cursor(&world.keyspace(), ..).unwrap();
        let mut expected = world.written.iter();
        let mut moved = cursor.seek_first();
        while moved.is_ok() {
            let (key, value) = cursor.current().expect("the damage comes first");
            let (number, byte) = expected.next().unwrap();
            assert_eq!((key, value), (&number.to_be_bytes()[..], &[*byte; 400][..]));
            moved = cursor.next();
        }
        assert_eq!(cursor.current(), None);
        let Err(Error::Corruption { file, offset, .. }) = moved else { panic!("{moved:?}") };
        let middle = world.storage.below.open(&victim).unwrap().len().unwrap() / 2;
        assert_eq!(file, victim);
        assert!((middle - 8192..=middle).contains(&offset), "{offset} is not near {middle}");
        // All before the block was yielded, and what is behind it can be read.
        let (first_lost, _) = expected.next().unwrap();
        assert!(cursor.seek(&first_lost.to_be_bytes()).unwrap_err().is_corruption());
        cursor.seek(&(first_lost + 20).to_be_bytes()).unwrap();
        assert_eq!(cursor.current().unwrap().0, (first_lost + 20).to_be_bytes());
    }
}

#[test]
fn the_table_and_its_keys_are_reported_and_the_lane_does_not_fail() {
    for shape in SHAPES {
        let mut world = World::new(shape);
        let victim = world.victim();
        world.reopen();
        world.damage(&victim, Fault::Flip);
        assert!(world.db.unreadable_tables().is_empty(), "nothing has read it");
        (1..=16).for_each(|round| world.update(round));
        world.db.wait_for_compactions().unwrap();
        let tables = world.db.unreadable_tables();
        let [table] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!((&table.file, &table.keyspace[..]), (&victim, "k"));
        assert!(table.smallest < table.largest && table.error.contains(&victim));
        assert_eq!(world.db.stats().unreadable_tables, tables);
        let error = world.db.background_error().unwrap();
        assert!(error.is_corruption(), "{error}");
        let text = error.to_string();
        let smallest = table.smallest.escape_ascii().to_string();
        assert!(text.contains(&victim) && text.contains(&smallest), "{text}");
        let error = world.db.compact().unwrap_err();
        assert!(matches!(error, Error::TableUnreadable { .. }), "{error}");
        world.check();
    }
}

#[test]
fn a_damaged_table_is_tried_again_after_a_restart() {
    for shape in SHAPES {
        let mut world = World::new(shape);
        world.reopen();
        world.damage(&world.victim(), Fault::Flip);
        (1..=16).for_each(|round| world.update(round));
        assert_eq!(world.db.unreadable_tables().len(), 1);
        world.heal();
        world.clock.sleep(Duration::from_secs(3600));
        world.work();
        assert_eq!(world.db.unreadable_tables().len(), 1, "damage does not pass by itself");
        world.reopen();
        world.db.compact().unwrap();
        assert!(world.db.background_error().is_none());
        assert_eq!(world.runs_in_level_0(), 0);
        world.check();
    }
}

#[test]
fn a_device_that_failed_for_a_while_is_tried_again_after_a_pause_and_by_a_caller_at_once() {
    for (shape, by_caller) in SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let mut world = World::new(shape);
        world.reopen();
        world.damage(&world.victim(), Fault::Io);
        (1..=8).for_each(|round| world.update(round));
        assert_eq!(world.db.unreadable_tables().len(), 1);
        assert!(world.db.compact().is_err(), "it fails still");
        world.heal();
        match by_caller {
            true => world.db.compact().unwrap(),
            false => {
                world.clock.sleep(Duration::from_secs(3600));
                world.work();
            }
        }
        assert!(world.db.unreadable_tables().is_empty() && world.db.background_error().is_none());
        world.db.compact().unwrap();
        world.check();
    }
}

#[test]
fn a_bad_block_in_level_0_keeps_only_its_own_keys_there() {
    for shape in SHAPES {
        let mut world = World::new(shape);
        // One or two runs older than the victim, too few to be merged, and some newer keys.
        world.put((0..KEYS).step_by(20), 1);
        world.put(500..560, 2);
        let victim = world.newest_file();
        world.reopen();
        world.damage(&victim, Fault::Io);
        for round in 0..40 {
            world.put((round % 20..KEYS + 10 * round).step_by(20), 3 + round as u8);
        }
        let context = format!("{shape:?}");
        assert_eq!(world.db.unreadable_tables().len(), 1, "{context}");
        assert!(world.runs_in_level_0() <= 8, "{context}: {}", world.runs_in_level_0());
        let bytes = world.bytes_in_level_0();
        assert!(bytes < 300_000, "{context}: {bytes} bytes of level 0");
        world.heal();
        world.clock.sleep(Duration::from_secs(3600));
        world.work();
        assert!(world.db.unreadable_tables().is_empty(), "{context}");
        world.check();
        world.reopen();
        world.db.compact().unwrap();
        assert_eq!(world.runs(), 1, "{context}");
        world.check();
    }
}

#[test]
fn deletes_over_a_damaged_table_are_kept_for_what_it_may_hold() {
    for shape in SHAPES {
        let mut world = World::new(shape);
        let victim = world.victim();
        world.reopen();
        world.damage(&victim, Fault::Flip);
        (1..=8).for_each(|round| world.update(round));
        let keyspace = world.keyspace();
        for key in (0..KEYS).filter(|key| key % 3 == 0) {
            world.db.delete(&keyspace, key.to_be_bytes()).unwrap();
            world.written.remove(&key);
        }
        let (from, to) = (KEYS / 2 - 40, KEYS / 2 + 40);
        world.db.delete_range(&keyspace, from.to_be_bytes()..to.to_be_bytes()).unwrap();
        world.written.retain(|key, _| !(from..to).contains(key));
        drop(keyspace);
        // Some keys come again, others stay deleted.
        (0..22).for_each(|round| world.update(7 * round + 1 + round % 3));
        world.written.retain(|key, _| !(from..to).contains(key));
        let keyspace = world.keyspace();
        world.db.delete_range(&keyspace, from.to_be_bytes()..to.to_be_bytes()).unwrap();
        drop(keyspace);
        world.db.flush().unwrap();
        world.work();
        assert!(world.db.compact().is_err());
        world.heal();
        world.reopen();
        for compacts in [false, true] {
            if compacts {
                world.db.compact().unwrap();
            }
            let keyspace = world.keyspace();
            for key in 0..KEYS {
                let found = world.db.get(&keyspace, key.to_be_bytes()).unwrap();
                let expected = world.written.get(&key).map(|value| vec![*value; 400]);
                assert_eq!(found.as_deref(), expected.as_deref(), "{shape:?}: key {key}");
            }
        }
    }
}

#[test]
fn a_full_disk_marks_no_table_and_the_compaction_is_tried_again() {
    let mut world = World::new(SHAPES[0]);
    *world.storage.is_full.lock().unwrap() = true;
    (1..=8).for_each(|round| world.update(round));
    assert!(world.db.background_error().is_some_and(|error| error.is_out_of_space()));
    assert!(world.db.unreadable_tables().is_empty());
    let before = world.db.stats().compactions;
    *world.storage.is_full.lock().unwrap() = false;
    world.work();
    assert!(world.db.stats().compactions > before && world.db.background_error().is_none());
    world.check();
}
