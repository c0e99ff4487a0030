//! Databases with more tables than files that may be open.

use esker_base::background::Stepped;
use esker_base::{Background, Result, Threads};
use esker_lsm::{
    Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Resources, Settings, Shape,
};
use esker_storage::{FileSystemWrapper, MemoryStorage, ReadableFile, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LIMIT: usize = 3;

/// How many table files are open, and the most that were.
#[derive(Clone, Default)]
struct Count {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// A storage that counts the table files that are open.
struct Counting {
    below: MemoryStorage,
    count: Count,
}

struct Counted {
    file: Arc<dyn ReadableFile>,
    count: Count,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReadableFile for Counted {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(offset, out)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

impl FileSystemWrapper for Counting {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let file = self.below.open(name)?;
        let now = self.count.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.count.most.fetch_max(now, Ordering::SeqCst);
        Ok(Arc::new(Counted { file, count: self.count.clone() }))
    }
}

struct World {
    storage: MemoryStorage,
    count: Count,
}

impl World {
    fn new() -> World {
        World { storage: MemoryStorage::new(), count: Count::default() }
    }

    fn open_with(&self, background: Arc<dyn Background>, settings: Settings) -> Db {
        let storage = Counting { below: self.storage.clone(), count: self.count.clone() };
        let env = Env::over(Arc::new(storage)).background(background);
        Db::open_with(env, settings.log(Log::None)).unwrap()
    }

    fn open(&self) -> Db {
        self.open_with(Arc::new(Stepped), Settings::default().max_open_files(LIMIT))
    }

    fn most(&self) -> usize {
        self.count.most.load(Ordering::SeqCst)
    }
}

fn named(db: &Db, number: usize) -> Keyspace {
    db.keyspace(&format!("keyspace {number}"), KeyspaceSettings::default()).unwrap()
}

/// Fills so many keyspaces, each with two keys in a table of its own.
fn fill(db: &Db, keyspaces: std::ops::Range<usize>) {
    for number in keyspaces {
        let keyspace = named(db, number);
        db.put(&keyspace, b"a", number.to_string()).unwrap();
        db.put(&keyspace, b"b", [7; 5000]).unwrap();
        db.flush().unwrap();
    }
}

#[track_caller]
fn assert_reads(db: &Db, number: usize) {
    let keyspace = named(db, number);
    assert_eq!(db.get(&keyspace, b"a").unwrap().unwrap(), number.to_string().as_bytes());
    assert_eq!(db.get(&keyspace, b"b").unwrap().unwrap(), &[7; 5000][..]);
}

#[test]
fn an_open_opens_none_of_many_tables_and_reads_open_theirs() {
    for background in [Arc::new(Stepped) as Arc<dyn Background>, Arc::new(Threads)] {
        let world = World::new();
        let db = world.open();
        fill(&db, 0..20);
        assert_eq!(db.stats().open_tables, 20, "a flush opens its table");
        db.close().unwrap();
        let settings = Settings::default().max_open_files(LIMIT);
        let db = world.open_with(background, settings);
        // Threads that open tables would be done when no compaction is due.
        db.wait_for_compactions().unwrap();
        assert_eq!((db.stats().tables, db.stats().open_tables), (20, 0));
        assert_reads(&db, 7);
        assert_eq!(db.stats().open_tables, 1);
        (0..20).for_each(|number| assert_reads(&db, number));
        let stats = db.stats();
        assert_eq!((stats.open_tables, stats.max_open_files), (20, LIMIT as u64));
        assert!(stats.open_files <= LIMIT as u64 && stats.file_opens >= 20, "{stats:?}");
        db.close().unwrap();
        // A background thread may have had one more.
        assert!(world.most() <= LIMIT + 1, "{}", world.most());
    }
}

#[test]
fn a_small_database_is_opened_whole() {
    let world = World::new();
    let db = world.open();
    fill(&db, 0..4);
    db.close().unwrap();
    let db = world.open();
    assert_eq!(db.stats().open_tables, 4);
}

#[test]
fn tables_that_decide_what_is_compacted_are_opened_with_the_database() {
    let world = World::new();
    let db = world.open();
    fill(&db, 0..10);
    db.delete(&named(&db, 3), b"a").unwrap();
    db.flush().unwrap();
    let goal = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 4 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) });
    let counted = db.keyspace("counted", goal).unwrap();
    for _ in 0..2 {
        db.put(&counted, b"a", b"value").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let db = world.open();
    let stats = db.stats();
    // That with the delete, and two of the keyspace with a limit.
    assert_eq!((stats.tables, stats.open_tables), (13, 3));
    assert_eq!(db.get(&named(&db, 3), b"a").unwrap(), None);
}

#[test]
fn cursors_and_snapshots_read_on_when_their_tables_are_closed_and_replaced() {
    let world = World::new();
    let db = world.open();
    let keyspace = db.default_keyspace();
    let key = |number: u32| number.to_be_bytes();
    for round in 0..8_u8 {
        (0..100)
            .for_each(|n| db.put(&keyspace, key(n * 8 + u32::from(round)), [round; 200]).unwrap());
        db.flush().unwrap();
    }
    fill(&db, 0..5);
    let snapshot = db.snapshot();
    let mut cursor = snapshot.range(&keyspace, ..);
    let expect = |number: u32, (found, value): (Vec<u8>, Vec<u8>)| {
        assert_eq!((&found[..], &value[..]), (&key(number)[..], &[(number % 8) as u8; 200][..]));
    };
    let mut next = || {
        let (key, value) = cursor.next().unwrap().unwrap();
        (key.to_vec(), value.to_vec())
    };
    (0..400).for_each(|number| expect(number, next()));
    db.delete_range(&keyspace, key(0)..key(700)).unwrap();
    db.compact().unwrap();
    fill(&db, 5..10);
    (400..800).for_each(|number| expect(number, next()));
    drop(cursor);
    assert!(world.most() <= LIMIT, "{}", world.most());
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(db.range(&keyspace, ..).count(), 100);
    drop(db);
    assert_eq!(world.count.now.load(Ordering::SeqCst), 0);
}

#[test]
fn databases_that_share_resources_share_the_limit() {
    let resources = Resources::new(64 << 20, 1).unwrap();
    resources.set_max_open_files(LIMIT).unwrap();
    assert!(resources.set_max_open_files(0).is_err());
    let count = Count::default();
    let worlds = [0, 1].map(|_| World { storage: MemoryStorage::new(), count: count.clone() });
    let settings = || Settings::default().segment_bytes(1 << 20).resources(resources.clone());
    let databases = worlds.each_ref().map(|it| it.open_with(Arc::new(Stepped), settings()));
    databases.iter().for_each(|db| fill(db, 0..5));
    for db in databases.iter().cycle().take(6) {
        (0..5).for_each(|number| assert_reads(db, number));
        assert_eq!(db.stats().max_open_files, LIMIT as u64);
    }
    assert!(worlds[0].most() <= LIMIT, "{}", worlds[0].most());
}

#[test]
fn a_limit_of_no_file_is_refused() {
    let settings = Settings::default().max_open_files(0);
    assert!(settings.validate().unwrap_err().to_string().contains("max_open_files"));
}
