//! A database whose background work the test does, and that separates long values.

use esker_base::background::Stepped;
use esker_lsm::options::SettingChange;
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Settings, ValueFileSpace};
use esker_storage::{MemoryStorage, Storage};
use esker_table::Compression;
use std::sync::Arc;

/// Values of so many bytes are separated.
pub const THRESHOLD: u32 = 100;

pub struct World {
    pub storage: Arc<MemoryStorage>,
    pub db: Db,
    pub keyspace: Keyspace,
}

/// What a keyspace has that separates values.
pub fn separating() -> KeyspaceSettings {
    KeyspaceSettings::default().compression(Compression::None).separation_threshold(THRESHOLD)
}

pub fn open(storage: &Arc<MemoryStorage>, settings: Settings) -> Db {
    let env = Env::over(storage.clone()).background(Arc::new(Stepped));
    Db::open_with(env, settings.segment_bytes(64 << 10).memory_bytes(8 << 20)).unwrap()
}

/// A value of 400 bytes that says what it is of.
pub fn long(key: &str, version: u32) -> Vec<u8> {
    format!("{key}/{version}/").repeat(400).into_bytes()[..400].to_vec()
}

impl World {
    pub fn new() -> World {
        World::with(separating(), Settings::default())
    }

    pub fn with(keyspace: KeyspaceSettings, settings: Settings) -> World {
        let storage = Arc::new(MemoryStorage::new());
        let db = open(&storage, settings);
        let keyspace = db.keyspace("k", keyspace).unwrap();
        World { storage, db, keyspace }
    }

    /// The same database, opened again.
    pub fn reopened(self) -> World {
        let World { storage, db, .. } = self;
        db.close().unwrap();
        let db = open(&storage, Settings::default());
        let keyspace = db.open_keyspace("k").unwrap();
        World { storage, db, keyspace }
    }

    pub fn put(&self, key: &str, version: u32) {
        self.db.put(&self.keyspace, key, long(key, version)).unwrap();
    }

    /// Puts a version of 50 keys, and flushes.
    pub fn fill(&self, version: u32) {
        (0..50).for_each(|n| self.put(&key(n), version));
        self.flush();
    }

    pub fn flush(&self) {
        self.db.flush().unwrap();
    }

    /// Flushes, and compacts all tables.
    pub fn compact(&self) {
        self.db.compact().unwrap();
    }

    pub fn set(&self, setting: &str) {
        self.db.set(&setting.parse::<SettingChange>().unwrap()).unwrap();
    }

    pub fn values(&self) -> ValueFileSpace {
        self.db.levels().iter().find(|tree| tree.name == "k").unwrap().values
    }

    /// The bytes of tables of the keyspace.
    pub fn table_bytes(&self) -> u64 {
        let levels = self.db.levels();
        let tree = levels.iter().find(|tree| tree.name == "k").unwrap();
        tree.levels.iter().flat_map(|level| &level.runs).map(|run| run.bytes()).sum()
    }

    /// The names of value files in the directory.
    pub fn value_files(&self) -> Vec<String> {
        let mut names = self.storage.list().unwrap();
        names.retain(|name| name.ends_with(".values"));
        names.sort();
        names
    }

    /// Checks that 50 keys have this version, in every way to read them.
    #[track_caller]
    pub fn expect(&self, version: u32) {
        let expected: Vec<_> = (0..50).map(|n| (key(n), long(&key(n), version))).collect();
        for (key, value) in &expected {
            assert_eq!(self.db.get(&self.keyspace, key).unwrap().unwrap(), &value[..], "{key}");
        }
        let keys = expected.iter().map(|(key, _)| key);
        let values = self.db.multi_get(&self.keyspace, keys).unwrap();
        let values: Vec<_> = values.into_iter().map(|value| value.unwrap().to_vec()).collect();
        assert_eq!(values, expected.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>());
        let pair = |entry: esker_base::Result<(esker_api::Value, esker_api::Value)>| {
            let (key, value) = entry.unwrap();
            (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())
        };
        let forward: Vec<_> = self.db.iter(&self.keyspace).map(pair).collect();
        assert!(forward == expected, "forward");
        let mut backward: Vec<_> = self.db.iter(&self.keyspace).rev().map(pair).collect();
        backward.reverse();
        assert!(backward == expected, "backward");
    }
}

pub fn key(n: u32) -> String {
    format!("key{n:03}")
}
