//! Tables of which a storage says that a part is permanently lost: the database opens without them, and reports them.

use esker_base::background::{Background, Stepped, Threads};
use esker_base::{Error, Result, WriteHint};
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::{FileSystemWrapper, MemoryStorage, ReadableFile, Storage, WritableFile};
use esker_table::Compression;
use esker_table::format::FOOTER_BYTES;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What becomes of a read that meets a part of a file.
type Failure = fn(&str, u64) -> Error;

fn lost(file: &str, offset: u64) -> Error {
    Error::Lost { file: file.to_owned(), offset, what: "the chunk has gone bad".to_owned() }
}

fn failed(file: &str, _: u64) -> Error {
    Error::io("read", file, std::io::Error::other("the cable is loose"))
}

/// A part of a file that can't be read.
struct Hole {
    file: String,
    part: Range<u64>,
    failure: Failure,
}

/// A storage of which parts of files can't be read.
#[derive(Clone, Default)]
struct Losing {
    below: MemoryStorage,
    holes: Arc<Mutex<Vec<Hole>>>,
    /// Reads that met a hole, and files that were made.
    met: Arc<AtomicU64>,
    made: Arc<AtomicU64>,
}

struct Holed {
    file: Arc<dyn ReadableFile>,
    storage: Losing,
}

impl FileSystemWrapper for Losing {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.below.create(name, hint)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(Holed { file: self.below.open(name)?, storage: self.clone() }))
    }
}

impl ReadableFile for Holed {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let read = offset..offset + out.len() as u64;
        let holes = self.storage.holes.lock().unwrap();
        for Hole { file, part, failure } in holes.iter() {
            let meets = part.start < read.end && read.start < part.end;
            if file == self.name() && meets {
                self.storage.met.fetch_add(1, Ordering::Relaxed);
                return Err(failure(file, part.start.max(offset)));
            }
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

impl Losing {
    /// The files that tables are in, the oldest first.
    fn table_files(&self) -> Vec<String> {
        let mut files = self.list().unwrap();
        files.retain(|name| name.ends_with(".tables"));
        files.sort();
        files
    }

    fn lose(&self, name: &str, part: Range<u64>, failure: Failure) {
        self.holes.lock().unwrap().push(Hole { file: name.to_owned(), part, failure });
    }

    fn lose_end(&self, name: &str, failure: Failure) {
        let len = self.below.open(name).unwrap().len().unwrap();
        self.lose(name, len - FOOTER_BYTES as u64..len, failure);
    }

    fn env(&self, background: Arc<dyn Background>) -> Env {
        Env::over(Arc::new(self.clone())).background(background)
    }

    fn try_open(&self, background: Arc<dyn Background>) -> Result<Db> {
        Db::open_with(self.env(background), settings())
    }

    fn open(&self, background: Arc<dyn Background>) -> Db {
        self.try_open(background).unwrap()
    }
}

fn settings() -> Settings {
    Settings::default().log(Log::None)
}

/// Two runs in level 0 are due to be merged.
fn tiered() -> KeyspaceSettings {
    let (shape, compression) = (Shape::Tiered { runs: 2 }, Compression::None);
    KeyspaceSettings::default().shape(shape).compression(compression)
}

fn keyspace(db: &Db, settings: KeyspaceSettings) -> Keyspace {
    db.keyspace("one", settings).unwrap()
}

fn key(table: u8, number: u8) -> [u8; 2] {
    [table, number]
}

/// A storage with a database of tables with disjoint ranges, of 100 keys each in some blocks, and the tables' files.
fn tables<const N: usize>(settings: KeyspaceSettings) -> (Losing, [String; N]) {
    let storage = Losing::default();
    let db = storage.open(Arc::new(Stepped));
    let one = keyspace(&db, settings);
    for table in 0..N as u8 {
        (0..100).for_each(|number| db.put(&one, key(table, number), [table; 400]).unwrap());
        db.flush().unwrap();
    }
    drop(one);
    db.close().unwrap();
    let files = storage.table_files().try_into().expect("each flush writes a file");
    (storage, files)
}

fn read(db: &Db, settings: KeyspaceSettings, table: u8, number: u8) -> Result<Option<Vec<u8>>> {
    let value = db.get(&keyspace(db, settings), key(table, number))?;
    Ok(value.map(|value| value.to_vec()))
}

fn assert_lost<T>(outcome: Result<T>, file: &str) {
    let error = outcome.err().expect("nobody can know what was there");
    assert!(error.is_lost() && error.to_string().contains(file), "{error}");
}

fn leveled() -> KeyspaceSettings {
    KeyspaceSettings::default().compression(Compression::None)
}

fn assert_serves_all_but_the_first(storage: &Losing, file: &str, settings: KeyspaceSettings) {
    for background in [Arc::new(Stepped) as Arc<dyn Background>, Arc::new(Threads)] {
        let db = storage.open(background);
        db.wait_for_compactions().unwrap();
        assert_lost(db.background_error().map_or(Ok(()), Err), file);
        assert!(db.stats().background_error.is_some_and(|error| error.contains(file)));
        assert_eq!(read(&db, settings, 1, 7).unwrap(), Some(vec![1; 400]));
        assert_lost(read(&db, settings, 0, 7), file);
        db.close().unwrap();
    }
}

#[test]
fn a_database_opens_of_which_the_end_of_a_table_is_lost_and_serves_all_that_needs_other_tables() {
    let (storage, files) = tables::<2>(leveled());
    storage.lose_end(&files[0], lost);
    assert_serves_all_but_the_first(&storage, &files[0], leveled());
}

#[test]
fn so_does_one_with_a_goal_for_space() {
    let goal = leveled()
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) })
        .shape(Shape::Tiered { runs: 8 });
    let (storage, files) = tables::<2>(goal);
    storage.lose_end(&files[0], lost);
    assert_serves_all_but_the_first(&storage, &files[0], goal);
}

#[test]
fn so_does_one_that_is_opened_to_be_read() {
    let (storage, files) = tables::<2>(leveled());
    storage.lose_end(&files[0], lost);
    let db = Db::open_read_only_with(storage.env(Arc::new(Stepped)), settings()).unwrap();
    assert_lost(db.background_error().map_or(Ok(()), Err), &files[0]);
    let one = db.open_keyspace("one").unwrap();
    assert_lost(db.get(&one, key(0, 7)), &files[0]);
    assert_eq!(db.get(&one, key(1, 7)).unwrap().as_deref(), Some(&[1; 400][..]));
}

/// The number of entries in `range`, the same in both directions.
fn scan(db: &Db, range: Range<[u8; 2]>) -> Result<usize> {
    let one = keyspace(db, leveled());
    let pairs = || db.range(&one, &range.start[..]..&range.end[..]);
    let count = |sum: usize, pair: Result<_>| pair.map(|_| sum + 1);
    let (there, back) = (pairs().try_fold(0, count), pairs().rev().try_fold(0, count));
    assert_eq!(there.as_ref().ok(), back.as_ref().ok(), "{there:?}, {back:?}");
    there
}

#[test]
fn a_scan_beside_a_lost_table_is_answered_and_one_of_its_keys_is_an_error() {
    let (storage, files) = tables::<3>(leveled());
    storage.lose_end(&files[1], lost);
    let db = storage.open(Arc::new(Stepped));
    assert_eq!(scan(&db, key(0, 0)..key(1, 0)).unwrap(), 100);
    assert_eq!(scan(&db, key(1, 100)..key(3, 0)).unwrap(), 100);
    assert_lost(scan(&db, key(0, 0)..key(3, 0)), &files[1]);
    assert_lost(scan(&db, key(1, 0)..key(1, 1)), &files[1]);
}

#[test]
fn so_is_one_beside_a_lost_table_with_range_deletes_and_one_of_what_they_delete_is_an_error() {
    let (storage, _) = tables::<3>(leveled());
    let db = storage.open(Arc::new(Stepped));
    db.delete_range(&keyspace(&db, leveled()), key(1, 50)..key(2, 10)).unwrap();
    db.close().unwrap();
    let [.., file] = &storage.table_files()[..] else { panic!("the close writes a table") };
    storage.lose_end(file, lost);
    let db = storage.open(Arc::new(Stepped));
    assert_eq!(scan(&db, key(0, 0)..key(1, 50)).unwrap(), 150);
    assert_eq!(scan(&db, key(2, 10)..key(3, 0)).unwrap(), 90);
    assert_lost(scan(&db, key(1, 99)..key(2, 0)), file);
    assert_lost(scan(&db, key(2, 9)..key(3, 0)), file);
    assert_lost(scan(&db, key(0, 0)..key(1, 51)), file);
}

#[test]
fn a_read_of_the_end_that_fails_otherwise_fails_the_open_and_nothing_is_written() {
    let (storage, files) = tables::<2>(leveled());
    storage.lose_end(&files[0], failed);
    let before = storage.list().unwrap();
    let error = storage.try_open(Arc::new(Threads)).expect_err("it may be read another time");
    assert!(error.to_string().contains("the cable is loose"), "{error}");
    assert_eq!(storage.list().unwrap(), before);
}

/// A file that no edit lists, as a crash leaves it.
#[test]
fn an_orphan_that_cannot_be_read_is_set_aside() {
    let (sound, files) = tables::<1>(leveled());
    let mut bytes = vec![0; sound.below.open(&files[0]).unwrap().len().unwrap() as usize];
    sound.below.open(&files[0]).unwrap().read_exact_at(0, &mut bytes).unwrap();
    let damages: [fn(&Losing, &str, &mut Vec<u8>); 4] = [
        |storage, name, bytes| storage.lose(name, 0..bytes.len() as u64, failed),
        |storage, name, bytes| storage.lose(name, 0..bytes.len() as u64, lost),
        |_, _, bytes| *bytes.last_mut().unwrap() ^= 1,
        |_, _, bytes| {
            let end = bytes.len();
            bytes[end - FOOTER_BYTES] ^= 1;
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let name = format!("0000090{number}.tables");
        let mut bytes = bytes.clone();
        damage(&sound, &name, &mut bytes);
        sound.below.create(&name, WriteHint::table(0)).unwrap().append(&bytes).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(sound.clone());
        let inspector = Inspector::of(storage.clone(), storage);
        let checked = inspector.check(&mut |problem| panic!("{number}: {problem}")).unwrap();
        assert_eq!(checked.unknown, std::slice::from_ref(&name));
        assert_eq!(inspector.repair(MissingLogPolicy::Refuse).unwrap().set_aside, [""; 0]);
        let db = sound.open(Arc::new(Stepped));
        assert_eq!(db.set_aside(), [format!("lost-{name}")]);
        db.close().unwrap();
    }
}

#[test]
fn no_merge_takes_a_table_whose_end_is_lost_and_nothing_is_lost_but_it() {
    let (storage, files) = tables::<2>(tiered());
    storage.lose_end(&files[0], lost);
    let db = storage.open(Arc::new(Stepped));
    let made = || storage.made.load(Ordering::Relaxed);
    let before = made();
    (0..20).for_each(|_| _ = db.run_background_job());
    assert_eq!(made(), before, "nothing is begun");
    assert_lost(db.compact_keyspace(&keyspace(&db, tiered())), &files[0]);
    assert!(storage.table_files().contains(&files[0]));
    assert_eq!(read(&db, tiered(), 1, 7).unwrap(), Some(vec![1; 400]));
    db.close().unwrap();
    let db = storage.open(Arc::new(Threads));
    db.wait_for_compactions().expect("nothing is left that could be done");
    db.close().unwrap();
    // Had it been lost for a while only, all would be there.
    storage.holes.lock().unwrap().clear();
    let db = storage.open(Arc::new(Stepped));
    assert_eq!(read(&db, tiered(), 0, 7).unwrap(), Some(vec![0; 400]));
}

#[test]
fn a_merge_that_meets_a_lost_part_fails_once_and_loses_nothing_and_other_parts_are_read() {
    let (storage, files) = tables::<2>(tiered());
    // In the first data block.
    storage.lose(&files[0], 10..20, lost);
    let db = storage.open(Arc::new(Stepped));
    assert!(db.background_error().is_none(), "nobody has read it");
    (0..20).for_each(|_| _ = db.run_background_job());
    assert_eq!(db.stats().compactions, 0);
    assert_lost(db.background_error().map_or(Ok(()), Err), &files[0]);
    let counts = || [&storage.met, &storage.made].map(|count| count.load(Ordering::Relaxed));
    let before = counts();
    (0..20).for_each(|_| _ = db.run_background_job());
    assert_eq!(counts(), before, "it is not tried again");
    assert_eq!(storage.table_files(), files);
    assert_lost(read(&db, tiered(), 0, 0), &files[0]);
    assert_eq!(read(&db, tiered(), 0, 99).unwrap(), Some(vec![0; 400]));
    assert_eq!(read(&db, tiered(), 1, 7).unwrap(), Some(vec![1; 400]));
}

#[test]
fn what_a_merge_met_is_told_by_the_table_alone_and_goes_with_it() {
    let (storage, files) = tables::<2>(tiered());
    storage.lose(&files[0], 10..20, lost);
    let db = storage.open(Arc::new(Stepped));
    let is_told = || db.background_error().is_some();
    assert!(
        (0..20).any(|_| db.run_background_job() && is_told()),
        "a merge is due, and its lane does not fail"
    );
    db.drop_keyspace(&db.open_keyspace("one").unwrap()).unwrap();
    assert!(!is_told(), "{:?}", db.background_error());
}

#[test]
fn background_work_comes_to_rest_beside_a_lost_part_that_a_merge_meets() {
    for background in [Arc::new(Stepped) as Arc<dyn Background>, Arc::new(Threads)] {
        let (storage, files) = tables::<2>(tiered());
        storage.lose(&files[0], 10..20, lost);
        let db = storage.open(background);
        db.wait_for_compactions().expect("what is left can't be done");
        assert_lost(db.background_error().map_or(Ok(()), Err), &files[0]);
    }
}

#[test]
fn a_compaction_that_is_asked_for_merges_what_needs_no_lost_table_and_then_names_it() {
    for settings in [leveled(), tiered()] {
        let (storage, files) = tables::<4>(settings);
        storage.lose_end(&files[1], lost);
        let db = storage.open(Arc::new(Stepped));
        let one = keyspace(&db, settings);
        assert_lost(db.compact_keyspace(&one), &files[1]);
        let is_left = |file: &&String| storage.table_files().contains(file);
        assert_eq!(files.iter().filter(is_left).collect::<Vec<_>>(), [&files[1]]);
        for table in [0, 2, 3] {
            assert_eq!(read(&db, settings, table, 7).unwrap(), Some(vec![table; 400]));
        }
        let made = storage.made.load(Ordering::Relaxed);
        assert_lost(db.compact_keyspace(&one), &files[1]);
        assert_eq!(storage.made.load(Ordering::Relaxed), made, "all was merged before");
    }
}

#[test]
fn a_compaction_that_meets_a_lost_part_goes_on_with_what_needs_it_not() {
    let (storage, files) = tables::<4>(tiered());
    storage.lose(&files[1], 10..20, lost);
    let db = storage.open(Arc::new(Stepped));
    assert_lost(db.compact_keyspace(&keyspace(&db, tiered())), &files[1]);
    let left = storage.table_files();
    assert!(left.contains(&files[1]) && !left.contains(&files[3]), "{left:?}");
}

#[test]
fn one_of_all_keyspaces_merges_those_behind_one_with_a_lost_table() {
    let (storage, files) = tables::<1>(leveled());
    let db = storage.open(Arc::new(Stepped));
    let two = db.keyspace("two", leveled()).unwrap();
    for _ in 0..2 {
        db.put(&two, b"key", b"value").unwrap();
        db.flush().unwrap();
    }
    drop(two);
    db.close().unwrap();
    storage.lose_end(&files[0], lost);
    let before = storage.table_files();
    let db = storage.open(Arc::new(Stepped));
    assert_lost(db.compact(), &files[0]);
    let left = storage.table_files();
    assert_eq!(before.iter().filter(|file| left.contains(file)).collect::<Vec<_>>(), [&files[0]]);
}

#[test]
fn many_flushes_over_all_keys_of_a_lost_table_end_in_few_runs() {
    for settings in [leveled(), tiered()] {
        let (storage, files) = tables::<1>(settings);
        storage.lose_end(&files[0], lost);
        let db = storage.open(Arc::new(Stepped));
        let one = keyspace(&db, settings);
        for round in 0..50 {
            (0..100).for_each(|number| db.put(&one, key(0, number), [round; 400]).unwrap());
            db.flush().unwrap();
            db.wait_for_compactions().unwrap();
        }
        let left = storage.table_files();
        assert!(left.contains(&files[0]) && left.len() <= 8, "{left:?}");
        assert_eq!(read(&db, settings, 0, 7).unwrap(), Some(vec![49; 400]));
    }
}
