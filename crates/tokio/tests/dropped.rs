//! Futures and scans that are dropped: a write that has begun is done as a whole, nothing is left behind, and no
//! thread of the runtime does I/O for it.

use esker::env::Env;
use esker::{Db, Error, Log, Result, Settings, SyncPolicy, TransactionOptions};
use esker_base::WriteHint;
use esker_storage::{
    FileSystemWrapper, LogFile, MemoryStorage, Pace, ReadableFile, Storage, WritableFile,
};
use esker_tokio::AsyncDb;
use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Whether syncs of logs go through.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Gate {
    #[default]
    Open,
    Shut,
    Fails,
}

/// What the storage does, and what it has seen.
#[derive(Default)]
struct State {
    gate: Gate,
    /// Syncs that have come to a gate that is shut.
    waiting: usize,
    /// The threads that called it, or dropped a file of it.
    threads: HashSet<ThreadId>,
}

#[derive(Clone, Default)]
struct Watch(Arc<(Mutex<State>, Condvar)>);

impl Watch {
    fn set(&self, gate: Gate) {
        self.0.0.lock().unwrap().gate = gate;
        self.0.1.notify_all();
    }

    fn wait_until_a_sync_waits(&self) {
        let state = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(state, |state| state.waiting == 0).unwrap());
    }

    /// Notes the thread that calls.
    fn note(&self) {
        self.0.0.lock().unwrap().threads.insert(thread::current().id());
    }

    fn threads(&self) -> HashSet<ThreadId> {
        self.0.0.lock().unwrap().threads.clone()
    }

    fn forget_threads(&self) {
        self.0.0.lock().unwrap().threads.clear();
    }

    /// Waits at a gate that is shut. Fails if it fails.
    fn pass(&self, name: &str) -> Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.threads.insert(thread::current().id());
        state.waiting += 1;
        self.0.1.notify_all();
        let mut state = self.0.1.wait_while(state, |state| state.gate == Gate::Shut).unwrap();
        state.waiting -= 1;
        match state.gate {
            Gate::Fails => Err(Error::io("sync", name, std::io::ErrorKind::Other.into())),
            _ => Ok(()),
        }
    }
}

/// A storage that is watched, and says when it is dropped.
struct Watched {
    below: MemoryStorage,
    watch: Watch,
    dropped: Option<Sender<()>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            let _ = dropped.send(());
        }
    }
}

impl FileSystemWrapper for Watched {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        self.watch.note();
        self.below.create(name, hint)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.watch.note();
        Ok(Arc::new(WatchedFile { file: self.below.open(name)?, watch: self.watch.clone() }))
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        self.watch.note();
        Ok(Arc::new(WatchedLog {
            log: self.below.create_log(name, bytes)?,
            watch: self.watch.clone(),
            has_frames: AtomicBool::new(false),
        }))
    }
    fn create_log_in_steps(&self, name: &str, bytes: u64, _: u64) -> Result<Arc<dyn LogFile>> {
        FileSystemWrapper::create_log(self, name, bytes)
    }
    fn recycle_log(&self, _: &str, _: &str, _: u64) -> Result<Option<Arc<dyn LogFile>>> {
        Ok(None)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.watch.note();
        self.below.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.watch.note();
        self.below.rename(from, to)
    }
}

/// A file whose close is noted, too.
struct WatchedFile {
    file: Arc<dyn ReadableFile>,
    watch: Watch,
}

impl Drop for WatchedFile {
    fn drop(&mut self) {
        self.watch.note();
    }
}

impl ReadableFile for WatchedFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.watch.note();
        self.file.read_exact_at(offset, out)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
}

struct WatchedLog {
    log: Arc<dyn LogFile>,
    watch: Watch,
    /// The sync of the header of a log that is prepared is no write of a user.
    has_frames: AtomicBool,
}

impl LogFile for WatchedLog {
    fn prepare(&self, through: u64, pace: Pace) -> Result<()> {
        self.log.prepare(through, pace)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.watch.note();
        self.has_frames.fetch_or(offset > 0, Ordering::Relaxed);
        self.log.write_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        if self.has_frames.load(Ordering::Relaxed) {
            self.watch.pass(self.name())?;
        }
        self.log.sync()
    }
    fn name(&self) -> &str {
        self.log.name()
    }
}

/// Files that outlive the databases on them.
#[derive(Default)]
struct Place {
    files: MemoryStorage,
    watch: Watch,
}

fn settings() -> Settings {
    Settings::default().log(Log::File { dir: None, sync: SyncPolicy::Always })
}

impl Place {
    fn env(&self, dropped: Option<Sender<()>>) -> Env {
        let (below, watch) = (self.files.clone(), self.watch.clone());
        Env::over(Arc::new(Watched { below, watch, dropped }))
    }

    /// A database of which one call at a time may block.
    fn open(&self) -> AsyncDb {
        AsyncDb::with_threads(Db::open_with(self.env(None), settings()).unwrap(), 1)
    }

    /// What a database that is opened anew has.
    fn keys_after_an_open(&self) -> Vec<Vec<u8>> {
        let db = Db::open_with(self.env(None), settings()).unwrap();
        keys(&db)
    }
}

fn keys(db: &Db) -> Vec<Vec<u8>> {
    db.default_keyspace().iter().map(|entry| entry.unwrap().0.to_vec()).collect()
}

fn batch(db: &AsyncDb, keys: u8) -> esker::WriteBatch {
    let mut batch = db.db().batch();
    (0..keys).for_each(|key| batch.put(&db.db().default_keyspace(), [key], [key; 100]));
    batch
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Begins a write of 50 keys and drops its future while the log is synced.
fn drop_a_write_that_has_begun(db: &AsyncDb, watch: &Watch) {
    watch.set(Gate::Shut);
    let mut write = Box::pin(db.write(batch(db, 50)));
    assert!(poll_once(write.as_mut()).is_pending());
    watch.wait_until_a_sync_waits();
}

#[tokio::test]
async fn a_write_that_is_dropped_after_it_began_is_done_as_a_whole() {
    let place = Place::default();
    let db = place.open();
    drop_a_write_that_has_begun(&db, &place.watch);
    place.watch.set(Gate::Open);
    // It has the only turn until it is done.
    db.default_keyspace().put("next", "v").await.unwrap();
    assert_eq!(keys(db.db()).len(), 51);
    assert_eq!(db.db().stats().snapshots, 0);
    db.close().await.unwrap();
    assert_eq!(place.keys_after_an_open().len(), 51);
}

#[tokio::test]
async fn a_write_that_is_dropped_after_it_began_and_fails_is_there_whole_or_not_at_all() {
    let place = Place::default();
    let db = place.open();
    drop_a_write_that_has_begun(&db, &place.watch);
    place.watch.set(Gate::Fails);
    // Nobody hears its error: the next call does.
    let next = db.default_keyspace().put("next", "v").await;
    assert!(matches!(next, Err(Error::LogFailed { .. })), "{next:?}");
    assert_eq!(keys(db.db()).len(), 0, "what is not durable is not seen");
    let _ = db.close().await;
    place.watch.set(Gate::Open);
    let found = place.keys_after_an_open().len();
    assert!([0, 50].contains(&found), "{found}");
}

#[tokio::test]
async fn a_commit_that_is_dropped_after_it_began_gives_its_locks_back() {
    let place = Place::default();
    let db = place.open();
    let keyspace = db.default_keyspace().keyspace().clone();
    let options = TransactionOptions::default().lock_timeout(Duration::from_secs(60));
    let mut first = db.db().transaction_with(options).unwrap();
    first.put(&keyspace, "k", "first").unwrap();
    place.watch.set(Gate::Shut);
    {
        let mut commit = Box::pin(db.commit(first));
        assert!(poll_once(commit.as_mut()).is_pending());
        place.watch.wait_until_a_sync_waits();
    }
    place.watch.set(Gate::Open);
    let seen = db.transact(move |tx| {
        let seen = tx.get_for_update(&keyspace, "k")?;
        tx.put(&keyspace, "k", "second")?;
        Ok(seen)
    });
    assert_eq!(seen.await.unwrap().as_deref(), Some(&b"first"[..]));
}

/// The write keeps the database open until it is done, and no longer.
#[tokio::test]
async fn a_database_whose_handles_are_dropped_during_a_write_is_closed_after_it() {
    let place = Place::default();
    let (send, dropped) = channel();
    let db = Db::open_with(place.env(Some(send)), settings()).unwrap();
    let db = AsyncDb::with_threads(db, 1);
    drop_a_write_that_has_begun(&db, &place.watch);
    drop(db);
    assert!(dropped.try_recv().is_err(), "the write is not done");
    place.watch.set(Gate::Open);
    dropped.recv_timeout(Duration::from_secs(300)).expect("it is closed");
    assert_eq!(place.keys_after_an_open().len(), 50);
}

/// A follower's scan reads tables that the follower has otherwise let go of: its end closes them.
#[tokio::test(flavor = "current_thread")]
async fn a_scan_that_is_dropped_in_a_task_closes_no_file_there() {
    for is_reading in [false, true] {
        let place = Place::default();
        let writer = Db::open_with(place.env(None), settings()).unwrap();
        let keyspace = writer.default_keyspace();
        (0..100_u8).for_each(|key| keyspace.put([key], [key; 100]).unwrap());
        writer.flush().unwrap();
        let env = place.env(None);
        let follower = Db::open_follower_with(env, Settings::default(), None).unwrap();
        let follower = AsyncDb::new(follower);
        let mut scan = follower.default_keyspace().range(..);
        // The first part has 16 entries.
        for _ in 0..16 {
            scan.next().await.unwrap().unwrap();
        }
        let _ = is_reading.then(|| poll_once(scan.next()));
        writer.compact().unwrap();
        (0..100_u8).for_each(|key| keyspace.put([key], "new").unwrap());
        writer.compact().unwrap();
        follower.blocking(Db::catch_up).await.unwrap();
        place.watch.forget_threads();
        drop(scan);
        follower.close().await.unwrap();
        assert!(!place.watch.threads().contains(&thread::current().id()), "{is_reading}");
    }
}
