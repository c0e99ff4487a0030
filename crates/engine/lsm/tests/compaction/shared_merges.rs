//! Merges that several threads do together.

use esker_base::{Clock, Error, Result, Rng, SystemClock, WriteHint};
use esker_lsm::{Db, Env, Log, Settings};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

/// How long one thread waits for another: long enough for a busy machine, and only if what is tested fails.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq)]
enum Creating {
    Free,
    /// Files are made once so many threads have come to make one.
    Together(usize),
    /// So many files are made yet, and no more.
    Failing(usize),
}

struct State {
    creating: Creating,
    came: HashSet<ThreadId>,
}

/// Files in memory, whose creation is watched.
#[derive(Clone)]
struct Watched {
    storage: MemoryStorage,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Watched {
    fn new() -> Self {
        let state = State { creating: Creating::Free, came: HashSet::new() };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        Watched { storage: MemoryStorage::new(), state }
    }

    fn set(&self, creating: Creating) {
        *self.state.0.lock() = State { creating, came: HashSet::new() };
    }

    fn came(&self) -> usize {
        self.state.0.lock().came.len()
    }

    fn open(&self) -> Db {
        let env = Env::over(Arc::new(self.clone()));
        let settings = Settings::default()
            .log(Log::None)
            .segment_bytes(64 << 10)
            .memory_bytes(8 << 20)
            .background_threads(2);
        Db::open_with(env, settings).unwrap()
    }

    fn tables_there(&self) -> usize {
        let names = self.storage.list().unwrap();
        names.iter().filter(|name| name.ends_with(".tables")).count()
    }
}

impl FileSystemWrapper for Watched {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let (state, came) = &*self.state;
        let mut state = state.lock();
        match &mut state.creating {
            Creating::Free => {}
            Creating::Together(threads) => {
                let threads = *threads;
                state.came.insert(std::thread::current().id());
                came.notify_all();
                came.wait_while_for(&mut state, |state| state.came.len() < threads, PATIENCE);
            }
            Creating::Failing(0) => {
                return Err(Error::io("create", name, std::io::ErrorKind::Other.into()));
            }
            Creating::Failing(left) => *left -= 1,
        }
        drop(state);
        self.storage.create(name, hint)
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

/// A database whose next full merge is of many tables, and what is in it.
fn fill(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let keyspace = db.default_keyspace();
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(1);
    for round in 0u64..3 {
        for n in (0..40_000).filter(|n| round == 0 || n % (round + 2) == 0) {
            let mut value = vec![0; 80];
            rng.fill(&mut value);
            db.put(&keyspace, key(n), &value).unwrap();
            model.insert(key(n), value);
        }
        // Across the end of a part, wherever that is: there are four.
        let (from, to) = (key(round * 9_000), key(round * 9_000 + 11_000));
        db.delete_range(&keyspace, &from..&to).unwrap();
        model.retain(|key, _| *key < from || to <= *key);
    }
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    model
}

fn pairs(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs = db.range(&db.default_keyspace(), ..).map(|pair| pair.unwrap());
    pairs.map(|(key, value)| (key.into_vec(), value.into_vec())).collect()
}

fn tables_listed(db: &Db) -> usize {
    let levels = db.levels();
    let levels = levels.iter().flat_map(|keyspace| &keyspace.levels);
    levels.flat_map(|level| &level.runs).map(|run| run.tables.len()).sum()
}

/// Waits for the files of tables that are not in the tree any more to go: another thread may just let go of
/// the version that it had.
fn expect_no_other_tables(storage: &Watched, db: &Db) {
    let clock = SystemClock::new();
    let end = clock.now() + PATIENCE;
    while storage.tables_there() != tables_listed(db) && clock.now() < end {
        std::thread::yield_now();
    }
    assert_eq!(storage.tables_there(), tables_listed(db));
}

#[test]
fn idle_threads_help_and_what_should_be_kept_is() {
    let storage = Watched::new();
    let db = storage.open();
    let model = fill(&db);
    storage.set(Creating::Together(2));
    db.compact().unwrap();
    assert!(storage.came() >= 2, "the caller's thread was alone");
    assert_eq!(pairs(&db), model);
    expect_no_other_tables(&storage, &db);
}

#[test]
fn of_a_merge_that_fails_in_one_part_nothing_is_left() {
    let storage = Watched::new();
    let db = storage.open();
    let mut model = fill(&db);
    let mut failed = 0;
    for files in 0..6 {
        // Something to merge, whatever idle threads have merged before.
        db.put(&db.default_keyspace(), key(files as u64), b"again").unwrap();
        model.insert(key(files as u64), b"again".to_vec());
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
        storage.set(Creating::Failing(files));
        let merged = db.compact();
        storage.set(Creating::Free);
        if merged.is_ok() {
            continue;
        }
        failed += 1;
        expect_no_other_tables(&storage, &db);
        assert_eq!(pairs(&db), model);
    }
    assert!(failed > 0, "no merge needed a file");
    db.compact().unwrap();
    assert_eq!(pairs(&db), model);
}
