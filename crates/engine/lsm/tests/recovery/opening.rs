//! What an open inspects of the tables, what it leaves for later, and who is notified of what is wrong with them.

use esker_base::background::{Background, Body, Priority, Running, Stepped, Threads};
use esker_base::checksum::crc32c;
use esker_base::{Clock, Error, Result, SystemClock, WriteHint};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Shape};
use esker_storage::{MemoryStorage, Storage};
use esker_table::format::{FOOTER_BYTES, FOOTER_TAIL_BYTES};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Held = Arc<Mutex<Option<Body>>>;

/// Threads, but those that open tables begin when the test says so, or are waited for.
#[derive(Clone, Default)]
struct Waiting {
    held: Arc<Mutex<Vec<Held>>>,
    /// The names of all threads, in the order in which they were started.
    names: Arc<Mutex<Vec<String>>>,
}

struct Later(Held);

fn run(held: &Held) {
    let body = held.lock().unwrap().take();
    body.into_iter().for_each(|body| body());
}

impl Running for Later {
    fn join(self: Box<Self>) -> bool {
        run(&self.0);
        true
    }
}

impl Background for Waiting {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        self.names.lock().unwrap().push(name.to_owned());
        if !name.starts_with("esker-open") {
            return Threads.spawn(name, priority, body);
        }
        let held = Held::new(Mutex::new(Some(body)));
        self.held.lock().unwrap().push(held.clone());
        Ok(Some(Box::new(Later(held))))
    }
}

impl Waiting {
    fn begin(&self) {
        self.held.lock().unwrap().iter().for_each(run);
    }
}

fn try_open(storage: &MemoryStorage, background: Arc<dyn Background>) -> Result<Db> {
    let env = Env::over(Arc::new(storage.clone())).background(background);
    Db::open_with(env, Settings::default().log(Log::None))
}

fn open(storage: &MemoryStorage, background: Arc<dyn Background>) -> Db {
    try_open(storage, background).unwrap()
}

const KEYSPACES: [&str; 2] = ["one", "other"];

fn keyspace(db: &Db, name: &str) -> Keyspace {
    db.keyspace(name, Default::default()).unwrap()
}

/// The files that tables are in, the oldest first.
fn table_files(storage: &MemoryStorage) -> Vec<String> {
    let mut files = storage.list().unwrap();
    files.retain(|name| name.ends_with(".tables"));
    files.sort();
    files
}

/// A database with a table in each of two keyspaces, closed; and the tables' files.
fn two_tables() -> (MemoryStorage, [String; 2]) {
    let storage = MemoryStorage::new();
    let db = open(&storage, Arc::new(Stepped));
    for name in KEYSPACES {
        db.put(&keyspace(&db, name), b"key", name.as_bytes()).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let files = table_files(&storage).try_into().expect("each flush writes a file");
    (storage, files)
}

/// Changes a byte of the index of the last table in the file, or changes it back.
fn damage_index(storage: &MemoryStorage, name: &str) {
    rewrite(storage, name, |bytes| {
        let in_index = bytes.len() - FOOTER_BYTES - 8;
        bytes[in_index] ^= 1;
    });
}

/// Puts `change` of what is in a file into its place.
fn rewrite(storage: &MemoryStorage, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let file = storage.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    change(&mut bytes);
    storage.remove(name).unwrap();
    let mut file = storage.create(name, WriteHint::table(0)).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
}

fn assert_reads(db: &Db, name: &str) {
    let value = db.get(&keyspace(db, name), b"key").unwrap();
    assert_eq!(value.as_deref(), Some(name.as_bytes()));
}

fn table_memory(db: &Db) -> u64 {
    db.stats().table_memory_bytes
}

#[test]
fn a_read_opens_the_tables_that_it_needs_and_the_threads_open_the_rest() {
    let (storage, _) = two_tables();
    let threads = Waiting::default();
    let db = open(&storage, Arc::new(threads.clone()));
    assert_eq!(table_memory(&db), 0, "the open has opened none");
    assert_reads(&db, "other");
    let one = table_memory(&db);
    assert!(one > 0);
    assert_reads(&db, "other");
    assert_eq!(table_memory(&db), one, "it is open now");
    threads.begin();
    assert!(table_memory(&db) > one);
}

#[test]
fn without_threads_all_tables_are_open_when_the_open_returns() {
    let (storage, _) = two_tables();
    let db = open(&storage, Arc::new(Stepped));
    let all = table_memory(&db);
    KEYSPACES.iter().for_each(|name| assert_reads(&db, name));
    assert!(all > 0);
    assert_eq!(table_memory(&db), all);
}

#[test]
fn a_table_with_a_damaged_index_is_the_backgrounds_error_and_its_readers_and_no_others() {
    let (storage, files) = two_tables();
    damage_index(&storage, &files[0]);
    let threads = Waiting::default();
    let db = open(&storage, Arc::new(threads.clone()));
    threads.begin();
    let error = db.background_error().expect("a table can't be opened");
    assert!(error.is_corruption() && error.to_string().contains(&files[0]), "{error}");
    assert_reads(&db, "other");
    let error = db.get(&keyspace(&db, "one"), b"key").unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(&files[0]), "{error}");
}

/// The error of opening with a first table file that `change` was made to; nothing is written.
fn refused(change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let (storage, files) = two_tables();
    rewrite(&storage, &files[0], change);
    let before = storage.list().unwrap();
    let error = try_open(&storage, Arc::new(Threads)).expect_err("the open fails");
    assert_eq!(storage.list().unwrap(), before, "not even a manifest was written");
    error
}

#[test]
fn a_table_with_a_damaged_footer_is_found_by_the_open() {
    let error = refused(|bytes| {
        let in_footer = bytes.len() - FOOTER_BYTES + 1;
        bytes[in_footer] ^= 1;
    });
    assert!(error.is_corruption() && error.to_string().contains("footer"), "{error}");
}

#[test]
fn a_table_of_a_newer_format_is_found_by_the_open() {
    let error = refused(|bytes| {
        let (footer, fixed) = (bytes.len() - FOOTER_BYTES, bytes.len() - FOOTER_TAIL_BYTES);
        bytes[fixed + 4] += 1;
        let checksum = crc32c(&bytes[footer..fixed + 8]);
        bytes[fixed + 8..fixed + 12].copy_from_slice(&checksum.to_le_bytes());
    });
    assert!(matches!(error, Error::NewerVersion { .. }), "{error}");
}

#[test]
fn a_table_of_a_newer_format_with_a_longer_footer_is_found_by_the_open() {
    let error = refused(|bytes| {
        let longer = FOOTER_BYTES + 30;
        let (footer, fixed) = (bytes.len() - longer, bytes.len() - FOOTER_TAIL_BYTES);
        bytes[fixed..fixed + 4].copy_from_slice(&(longer as u32).to_le_bytes());
        bytes[fixed + 4] += 1;
        let checksum = crc32c(&bytes[footer..fixed + 8]);
        bytes[fixed + 8..fixed + 12].copy_from_slice(&checksum.to_le_bytes());
    });
    assert!(matches!(error, Error::NewerVersion { .. }), "{error}");
}

#[test]
fn a_file_that_is_cut_off_is_found_by_the_open() {
    let error = refused(|bytes| bytes.truncate(bytes.len() - 1));
    assert!(error.is_corruption() && error.to_string().contains("the file ends here"), "{error}");
}

#[test]
fn a_close_does_not_wait_for_tables_to_be_opened() {
    let (storage, _) = two_tables();
    // What it waits for begins only then.
    let db = open(&storage, Arc::new(Waiting::default()));
    db.clone().close().unwrap();
    assert_eq!(table_memory(&db), 0);
}

#[test]
fn a_close_that_has_something_to_flush_does_not_open_the_tables_that_are_left_either() {
    let (storage, _) = two_tables();
    let db = open(&storage, Arc::new(Waiting::default()));
    db.put(&keyspace(&db, "one"), b"new", b"value").unwrap();
    db.clone().close().unwrap();
    assert_eq!(table_files(&storage).len(), 3, "it was flushed");
    assert_eq!(table_memory(&db), 0);
}

#[test]
fn tables_that_are_flushed_while_others_are_being_opened_are_open_at_once() {
    let (storage, _) = two_tables();
    let threads = Waiting::default();
    let db = open(&storage, Arc::new(threads.clone()));
    db.put(&keyspace(&db, "one"), b"new", b"value").unwrap();
    db.flush().unwrap();
    // Who flushed it opens it once the MemTable has gone.
    let clock = SystemClock::new();
    while table_memory(&db) == 0 && clock.now() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    let flushed = table_memory(&db);
    assert!(flushed > 0, "it is open");
    threads.begin();
    assert!(table_memory(&db) > 2 * flushed, "the others were not");
}

#[test]
fn tables_are_known_to_be_opened_before_a_compaction_can_be_chosen() {
    let (storage, _) = two_tables();
    let threads = Waiting::default();
    let _db = open(&storage, Arc::new(threads.clone()));
    let names = threads.names.lock().unwrap();
    let first = |part: &str| names.iter().position(|name| name.starts_with(part)).unwrap();
    assert!(first("esker-open") < first("esker-compact"), "{names:?}");
}

#[test]
fn a_table_that_could_not_be_opened_is_no_error_of_the_background_once_a_read_has_opened_it() {
    let (storage, files) = two_tables();
    damage_index(&storage, &files[0]);
    let threads = Waiting::default();
    let db = open(&storage, Arc::new(threads.clone()));
    threads.begin();
    assert!(db.background_error().is_some());
    damage_index(&storage, &files[0]);
    assert_reads(&db, "one");
    assert!(db.background_error().is_none());
}

#[test]
fn a_table_that_cannot_be_opened_keeps_other_keyspaces_from_no_merge() {
    let storage = MemoryStorage::new();
    let settings = || KeyspaceSettings::default().shape(Shape::Tiered { runs: 2 });
    let db = open(&storage, Arc::new(Stepped));
    for name in KEYSPACES {
        let keyspace = db.keyspace(name, settings()).unwrap();
        for _ in 0..2 {
            db.put(&keyspace, b"key", name.as_bytes()).unwrap();
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    damage_index(&storage, &table_files(&storage)[0]);
    let db = open(&storage, Arc::new(Threads));
    db.wait_for_compactions().unwrap();
    assert_eq!(db.stats().compactions, 1);
    assert!(db.background_error().is_some_and(|error| error.is_corruption()));
    let keyspace = db.keyspace("other", settings()).unwrap();
    assert_eq!(db.get(&keyspace, b"key").unwrap().as_deref(), Some(&b"other"[..]));
}

#[test]
fn without_threads_an_open_that_finds_an_index_damaged_has_written_nothing() {
    let (storage, files) = two_tables();
    damage_index(&storage, &files[0]);
    let before = storage.list().unwrap();
    let error = try_open(&storage, Arc::new(Stepped)).expect_err("the open fails");
    assert!(error.is_corruption() && error.to_string().contains(&files[0]), "{error}");
    assert_eq!(storage.list().unwrap(), before);
}

#[test]
fn the_cache_leaves_the_memory_that_tables_will_take_when_they_are_open() {
    let storage = MemoryStorage::new();
    let db = open(&storage, Arc::new(Stepped));
    let capacity = |db: &Db| db.stats().cache_capacity_bytes;
    let without_tables = capacity(&db);
    let one = keyspace(&db, "one");
    (0..100_000u32).for_each(|n| db.put(&one, n.to_be_bytes(), b"value").unwrap());
    db.close().unwrap();
    let threads = Waiting::default();
    let db = open(&storage, Arc::new(threads.clone()));
    let before = without_tables - capacity(&db);
    assert_eq!(table_memory(&db), 0);
    threads.begin();
    let taken = table_memory(&db);
    assert!(before.abs_diff(taken) < taken / 4, "{before} for {taken}");
    let after = without_tables - capacity(&db);
    assert!(after.abs_diff(taken) < taken / 100, "{after} for {taken}");
}
