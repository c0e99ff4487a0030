//! Background work in which something goes wrong: what is reported, and that the rest goes on.

use crate::killed;
use esker_base::background::{Background, Body, Priority, Running, Stepped, Threads};
use esker_base::{Error, Result, Rng, WriteHint};
use esker_lsm::version::parse_table_file_name;
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::{
    FaultStorage, FileSystemWrapper, LogFile, MemoryStorage, PosixStorage, Storage, WritableFile,
};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A storage that loses table files or panics when the test says so.
#[derive(Clone, Default)]
struct Bad {
    files: Arc<MemoryStorage>,
    /// Table files made meanwhile are found under another name only.
    loses: Arc<AtomicBool>,
    panics_at_merges: Arc<AtomicBool>,
}

const LOST: &str = "lost.";

impl Bad {
    fn find_again(&self) {
        for name in self.files.list().unwrap() {
            if let Some(was) = name.strip_prefix(LOST) {
                self.files.rename(&name, was).unwrap();
            }
        }
    }
}

impl FileSystemWrapper for Bad {
    fn below(&self) -> &dyn Storage {
        &*self.files
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let is_table = parse_table_file_name(name).is_some();
        let is_merge = is_table && hint.level > 0;
        assert!(!(is_merge && self.panics_at_merges.load(Ordering::Relaxed)), "as it was told");
        match is_table && self.loses.load(Ordering::Relaxed) {
            true => self.files.create(&format!("{LOST}{name}"), hint),
            false => self.files.create(name, hint),
        }
    }
}

fn open(storage: &Bad, background: Arc<dyn Background>) -> Db {
    let env = Env::over(Arc::new(storage.clone())).background(background);
    Db::open_with(env, Settings::default().log(Log::None)).unwrap()
}

/// A keyspace in which two flushes make a merge due.
fn tiered(db: &Db, name: &str) -> Keyspace {
    let settings = KeyspaceSettings::default().shape(Shape::Tiered { runs: 2 });
    db.keyspace(name, settings).unwrap()
}

fn flush_to(db: &Db, keyspace: &Keyspace) {
    db.put(keyspace, b"key", b"value").unwrap();
    db.flush().unwrap();
}

#[test]
fn a_compaction_by_hand_does_not_wait_for_a_thread_that_panicked() {
    let storage = Bad::default();
    let db = open(&storage, Arc::new(Threads));
    let keyspace = tiered(&db, "k");
    storage.panics_at_merges.store(true, Ordering::Relaxed);
    flush_to(&db, &keyspace);
    flush_to(&db, &keyspace);
    assert!(matches!(db.wait_for_compactions(), Err(Error::Closed)));
    assert!(matches!(db.compact_keyspace(&keyspace), Err(Error::Closed)));
}

#[test]
fn a_keyspace_that_cannot_be_merged_does_not_keep_others_from_it() {
    let storage = Bad::default();
    let db = open(&storage, Arc::new(Stepped));
    let (lost, sound) = (tiered(&db, "lost"), tiered(&db, "sound"));
    storage.loses.store(true, Ordering::Relaxed);
    flush_to(&db, &lost);
    flush_to(&db, &lost);
    storage.loses.store(false, Ordering::Relaxed);
    flush_to(&db, &sound);
    flush_to(&db, &sound);
    // Each step tries one.
    for _ in 0..20 {
        db.run_background_job();
    }
    assert!(db.background_error().is_some(), "what is lost cannot be merged");
    assert_eq!(db.stats().compactions, 1);
}

#[test]
fn a_table_that_cannot_be_opened_is_reported_until_it_can_be_and_others_are_opened() {
    let storage = Bad::default();
    let db = open(&storage, Arc::new(Stepped));
    let (lost, sound) = (tiered(&db, "lost"), tiered(&db, "sound"));
    storage.loses.store(true, Ordering::Relaxed);
    flush_to(&db, &lost);
    storage.loses.store(false, Ordering::Relaxed);
    let error = db.background_error().expect("a table was lost").to_string();
    assert!(error.contains(".tables"), "{error}");
    assert_eq!(db.stats().table_memory_bytes, 0);
    flush_to(&db, &sound);
    assert!(db.stats().table_memory_bytes > 0, "the sound keyspace's is open");
    storage.find_again();
    flush_to(&db, &sound);
    assert!(db.background_error().is_none());
}

/// A storage with space for two logs.
#[derive(Default)]
struct Narrow(MemoryStorage);

impl FileSystemWrapper for Narrow {
    fn below(&self) -> &dyn Storage {
        &self.0
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        let names = self.0.list()?;
        match names.iter().filter(|name| name.ends_with(".log")).count() {
            0..2 => self.0.create_log(name, bytes),
            _ => Err(Error::io("create", name, ErrorKind::StorageFull.into())),
        }
    }
}

#[test]
fn a_writer_that_finds_no_room_for_a_segment_waits_for_the_flush_that_makes_some() {
    let backgrounds: [Arc<dyn Background>; 2] = [Arc::new(Stepped), Arc::new(Threads)];
    for background in backgrounds {
        let env = Env::over(Arc::new(Narrow::default())).background(background);
        let (segment_bytes, memory_bytes) = (64 << 10, 8 << 20);
        let settings = Settings::default().segment_bytes(segment_bytes).memory_bytes(memory_bytes);
        let db = Db::open_with(env, settings).unwrap();
        for number in 0..1_000u32 {
            db.put(&db.default_keyspace(), number.to_be_bytes(), [7; 1_000]).unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever waits for ever is left behind")]
fn a_database_settles_where_only_its_flush_makes_room_for_a_segment() {
    let env = Env::over(Arc::new(Narrow::default())).background(Arc::new(Stepped));
    let (segment_bytes, memory_bytes) = (64 << 10, 8 << 20);
    let db = Db::open_with(
        env,
        Settings::default().segment_bytes(segment_bytes).memory_bytes(memory_bytes),
    );
    let db = db.unwrap();
    // One is sealed, the next one begun.
    (0..100u32).for_each(|number| {
        db.put(&db.default_keyspace(), number.to_be_bytes(), [7; 1_000]).unwrap();
    });
    assert_eq!((db.stats().memtables, db.stats().flushes), (2, 0));
    let (done, settled) = std::sync::mpsc::channel();
    let settling = db.clone();
    std::thread::spawn(move || done.send(settling.wait_for_compactions()));
    let settled = settled.recv_timeout(Duration::from_secs(60));
    settled.expect("it does not wait for ever").unwrap();
    assert_eq!((db.stats().memtables, db.stats().flushes), (1, 1));
}

#[test]
fn a_manifest_that_finds_no_room_gives_back_what_it_took() {
    let storage = FaultStorage::new(Rng::new(1));
    let db = stepped(&storage, Log::None).unwrap();
    let used = storage.used_bytes();
    storage.set_space_limit(Some(used));
    db.keyspace("k", KeyspaceSettings::default()).unwrap_err();
    for _ in 0..3 {
        // The header fits, what follows does not.
        storage.set_space_limit(Some(storage.used_bytes() + 60));
        db.keyspace("k", KeyspaceSettings::default()).unwrap_err();
        assert_eq!(storage.used_bytes(), used);
    }
    storage.set_space_limit(None);
    db.keyspace("k", KeyspaceSettings::default()).unwrap();
}

#[test]
fn a_reader_that_is_stepped_writes_nothing() {
    let storage = Arc::new(MemoryStorage::new());
    let env = || Env::over(storage.clone()).background(Arc::new(Stepped));
    let db = Db::open_with(env(), Settings::default()).unwrap();
    db.put(&db.default_keyspace(), b"k", b"v").unwrap();
    let reader = Db::open_read_only_with(env(), Settings::default()).unwrap();
    let names = || storage.list().unwrap().into_iter().collect::<BTreeSet<_>>();
    let before = names();
    assert!(!reader.run_background_job());
    assert_eq!(names(), before);
}

/// A small database whose background work the test does.
fn stepped(storage: &FaultStorage, log: Log) -> Result<Db> {
    let env = Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped));
    let (segment_bytes, memory_bytes) = (64 << 10, 8 << 20);
    Db::open_with(
        env,
        Settings::default().log(log).segment_bytes(segment_bytes).memory_bytes(memory_bytes),
    )
}

/// Has one thread, and no second one.
struct OneThread(AtomicBool);

impl Background for OneThread {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        if self.0.swap(true, Ordering::Relaxed) {
            let source = std::io::ErrorKind::WouldBlock.into();
            return Err(Error::io("start", name, source));
        }
        Threads.spawn(name, priority, body)
    }
}

#[test]
fn an_open_that_cannot_start_all_its_threads_fails() {
    let small = || Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20);
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = Db::open(dir.path(), small()).unwrap();
    let goal = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) });
    let keyspace = db.keyspace("goal", goal).unwrap();
    db.put(&keyspace, b"k", b"v").unwrap();
    killed::rest(&db);
    killed::copy_files(dir.path(), copy.path());
    let storage = Arc::new(PosixStorage::open(copy.path()).unwrap());
    let background = Arc::new(OneThread(false.into()));
    let env = Env::over(storage).background(background);
    let refused = Db::open_with(env, small()).err().unwrap();
    assert!(refused.to_string().contains("could not start"), "{refused}");
    let db = Db::open(copy.path(), small()).unwrap();
    let keyspace = db.keyspace("goal", goal).unwrap();
    assert_eq!(db.get(&keyspace, b"k").unwrap().as_deref(), Some(&b"v"[..]));
}
