//! A database whose background work the test does, with entries of at most 16 KiB in its log.

use esker_base::background::Stepped;
use esker_lsm::inspect::Inspector;
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Settings, ValueFileSpace};
use esker_storage::{MemoryStorage, Storage};
use std::io::Read;
use std::sync::Arc;

/// Blocks have so many bytes.
pub const BLOCK: usize = 256 << 10;

pub fn settings() -> Settings {
    Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20)
}

pub fn open(storage: &Arc<MemoryStorage>) -> Db {
    let env = Env::over(storage.clone()).background(Arc::new(Stepped));
    Db::open_with(env, settings()).unwrap()
}

/// So many bytes, which say what they are of and differ from block to block.
pub fn large(of: &str, bytes: usize) -> Vec<u8> {
    let words = (0..).flat_map(|n: u32| format!("{of}/{n}/").into_bytes());
    words.take(bytes).collect()
}

/// The end of a value, before which it calls something.
pub struct Between<F>(pub Option<F>);

impl<F: FnOnce()> Read for Between<F> {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        if let Some(call) = self.0.take() {
            call();
        }
        Ok(0)
    }
}

pub struct World {
    pub storage: Arc<MemoryStorage>,
    pub db: Db,
    pub keyspace: Keyspace,
}

impl World {
    pub fn new() -> World {
        World::with(KeyspaceSettings::default())
    }

    pub fn with(settings: KeyspaceSettings) -> World {
        let storage = Arc::new(MemoryStorage::new());
        let db = open(&storage);
        let keyspace = db.keyspace("k", settings).unwrap();
        World { storage, db, keyspace }
    }

    /// The same database, opened again.
    pub fn reopened(self) -> World {
        let World { storage, db, .. } = self;
        db.close().unwrap();
        let db = open(&storage);
        let keyspace = db.open_keyspace("k").unwrap();
        World { storage, db, keyspace }
    }

    pub fn put(&self, key: &str, value: &[u8]) {
        let put = self.keyspace.put_reader(key, value).unwrap();
        assert_eq!(put, value.len() as u64);
    }

    #[track_caller]
    pub fn expect(&self, key: &str, value: &[u8]) {
        assert!(self.keyspace.get(key).unwrap().as_deref() == Some(value), "{key}");
        let mut reader = self.keyspace.get_reader(key).unwrap().unwrap();
        assert_eq!(reader.len(), value.len() as u64);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == value, "{key}");
    }

    pub fn values(&self) -> ValueFileSpace {
        self.db.levels().iter().find(|tree| tree.name == "k").unwrap().values
    }

    /// The names of value files in the directory.
    pub fn value_files(&self) -> Vec<String> {
        names(&*self.storage, ".values")
    }

    /// Closes the database, and returns what a check finds.
    pub fn problems(self) -> Vec<String> {
        self.db.close().unwrap();
        problems(&self.storage)
    }
}

/// The problems of a database that is closed. It has no file that nothing names.
pub fn problems(storage: &Arc<impl Storage + 'static>) -> Vec<String> {
    let mut problems = Vec::new();
    let inspector = Inspector::of(storage.clone(), storage.clone());
    let checked = inspector.check(&mut |problem| problems.push(problem.to_string())).unwrap();
    assert_eq!((checked.strays, checked.unknown), (Vec::new(), Vec::new()));
    problems
}

/// The names in a directory that end like this.
pub fn names(storage: &dyn Storage, end: &str) -> Vec<String> {
    let mut names = storage.list().unwrap();
    names.retain(|name| name.ends_with(end));
    names.sort();
    names
}
