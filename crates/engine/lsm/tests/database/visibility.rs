//! What readers see while, and after, the log's device has a sync in hand.

use esker_api::WriteBatch;
use esker_base::background::Stepped;
use esker_base::{Error, Result};
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use esker_storage::{FileSystemWrapper, LogFile, MemoryStorage, Pace, Storage};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, PartialEq)]
enum Gate {
    Open,
    Shut,
    /// Syncs fail.
    Broken,
}

/// Logs whose syncs wait before a gate.
#[derive(Clone)]
struct Gated {
    storage: MemoryStorage,
    gate: Arc<(Mutex<(Gate, usize)>, Condvar)>,
}

impl Gated {
    fn new() -> Self {
        let gate = Arc::new((Mutex::new((Gate::Open, 0)), Condvar::new()));
        Gated { storage: MemoryStorage::new(), gate }
    }

    fn set(&self, to: Gate) {
        self.gate.0.lock().0 = to;
        self.gate.1.notify_all();
    }

    /// Waits until a sync of frames is before the gate.
    fn wait_for_sync(&self) {
        let mut state = self.gate.0.lock();
        self.gate.1.wait_while(&mut state, |(_, waiting)| *waiting == 0);
    }

    fn gated(&self, log: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(GatedLog { log, gate: self.gate.clone(), has_frames: false.into() })
    }

    fn open(&self, sync: SyncPolicy) -> Db {
        self.open_in(Env::over(Arc::new(self.clone())), sync)
    }

    fn open_stepped(&self, sync: SyncPolicy) -> Db {
        let env = Env::over(Arc::new(self.clone())).background(Arc::new(Stepped));
        self.open_in(env, sync)
    }

    fn open_in(&self, env: Env, sync: SyncPolicy) -> Db {
        let log = Log::File { sync, dir: None };
        let settings = Settings::default().log(log).segment_bytes(256 << 10).memory_bytes(8 << 20);
        Db::open_with(env, settings).unwrap()
    }
}

impl FileSystemWrapper for Gated {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        Ok(self.gated(self.storage.create_log(name, bytes)?))
    }
    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        Ok(self.gated(self.storage.create_log_in_steps(name, bytes, prepared)?))
    }
}

struct GatedLog {
    log: Arc<dyn LogFile>,
    gate: Arc<(Mutex<(Gate, usize)>, Condvar)>,
    /// The sync of the header of a log that is prepared is nobody's write.
    has_frames: AtomicBool,
}

impl LogFile for GatedLog {
    fn prepare(&self, through: u64, pace: Pace) -> Result<()> {
        self.log.prepare(through, pace)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.has_frames.fetch_or(offset > 0, Ordering::Relaxed);
        self.log.write_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        let mut state = self.gate.0.lock();
        let waits = usize::from(self.has_frames.load(Ordering::Relaxed));
        state.1 += waits;
        self.gate.1.notify_all();
        self.gate.1.wait_while(&mut state, |(gate, _)| *gate == Gate::Shut);
        state.1 -= waits;
        match state.0 {
            Gate::Broken => Err(Error::io("sync", self.name(), std::io::ErrorKind::Other.into())),
            _ => self.log.sync(),
        }
    }
    fn name(&self) -> &str {
        self.log.name()
    }
}

fn synced(db: &Db, key: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(db.default_keyspace().id(), key, b"value");
    batch.set_sync(true);
    db.write(&batch)
}

#[test]
fn a_write_is_not_seen_before_its_sync_ends() {
    let storage = Gated::new();
    let db = storage.open(SyncPolicy::Always);
    let keyspace = db.default_keyspace();
    storage.set(Gate::Shut);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put(&keyspace, b"key", b"value"));
        storage.wait_for_sync();
        let snapshot = db.snapshot();
        let (got, walked) = (db.get(&keyspace, b"key"), db.range(&keyspace, ..).next());
        // Before anything is asserted: a writer that waits would keep a failed test from its end.
        storage.set(Gate::Open);
        assert_eq!(got.unwrap(), None);
        assert!(walked.is_none());
        writer.join().unwrap().unwrap();
        assert_eq!(db.get(&keyspace, b"key").unwrap().unwrap(), b"value"[..]);
        assert_eq!(snapshot.get(&keyspace, b"key").unwrap(), None);
    });
}

#[test]
fn a_write_whose_sync_failed_is_never_seen_in_any_mode() {
    for sync in [SyncPolicy::Always, SyncPolicy::Os] {
        let storage = Gated::new();
        let db = storage.open(sync);
        let keyspace = db.default_keyspace();
        synced(&db, b"before").unwrap();
        storage.set(Gate::Broken);
        assert!(matches!(synced(&db, b"failed"), Err(Error::LogFailed { .. })));
        assert_eq!(db.get(&keyspace, b"failed").unwrap(), None, "{sync:?}");
        assert!(db.get(&keyspace, b"before").unwrap().is_some());
    }
}

#[test]
fn after_the_log_failed_background_work_comes_to_rest() {
    for open in [Gated::open_stepped, Gated::open] {
        let storage = Gated::new();
        let db = open(&storage, SyncPolicy::Always);
        synced(&db, b"before").unwrap();
        storage.set(Gate::Broken);
        assert!(matches!(synced(&db, b"failed"), Err(Error::LogFailed { .. })));
        // It seals the MemTable, whose last write will never be seen.
        assert!(matches!(db.flush(), Err(Error::LogFailed { .. })));
        assert!(matches!(db.wait_for_compactions(), Err(Error::LogFailed { .. })));
        assert!((0..100).any(|_| !db.run_background_job()), "there is nothing that can be done");
    }
}

/// The keys may come from an iterator that reads and writes. The read begins after the last of them, so
/// that no MemTable stays meanwhile, and all values are of one time.
#[test]
fn a_multi_get_begins_after_the_last_of_its_keys() {
    let storage = Gated::new();
    for open in [Gated::open_stepped, Gated::open] {
        let db = open(&storage, SyncPolicy::Os);
        let keyspace = db.default_keyspace();
        let write_all = |mark: u8| {
            let mut batch = db.batch();
            (0..3u8).for_each(|key| batch.put(&keyspace, [key], [mark; 1_000]));
            db.write(&batch).unwrap();
        };
        write_all(1);
        let keys = (0..3u8).map(|key| {
            assert_eq!(db.get(&keyspace, [key]).unwrap().unwrap()[0], 1 + key);
            write_all(2 + key);
            // More than all segments hold.
            (0..1_000u32).for_each(|n| db.put(&keyspace, n.to_be_bytes(), [7; 2_000]).unwrap());
            db.compact().unwrap();
            [key]
        });
        let found = db.multi_get(&keyspace, keys).unwrap();
        let marks: Vec<u8> = found.into_iter().map(|value| value.unwrap()[0]).collect();
        assert_eq!(marks, [4; 3]);
        db.close().unwrap();
    }
}
