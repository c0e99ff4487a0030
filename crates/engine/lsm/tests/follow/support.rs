//! Writers and followers of databases in memory.

use esker_base::background::Stepped;
use esker_base::{Result, Rng, Seqno};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Snapshot, SyncPolicy};
use esker_storage::{FaultStorage, FileSystemWrapper, Storage};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const SEGMENT_BYTES: u64 = 64 << 10;

pub fn settings() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(SEGMENT_BYTES as usize).memory_bytes(8 << 20)
}

pub fn env_of(storage: Arc<dyn Storage>) -> Env {
    Env::over(storage).background(Arc::new(Stepped))
}

pub fn write(storage: Arc<dyn Storage>) -> Db {
    Db::open_with(env_of(storage), settings()).unwrap()
}

pub fn follow(storage: Arc<dyn Storage>) -> Db {
    Db::open_follower_with(env_of(storage), settings(), None).unwrap()
}

/// Whose merges append.
pub fn appending() -> KeyspaceSettings {
    KeyspaceSettings::default().merge("append")
}

pub fn last_seqno(db: &Db) -> Seqno {
    esker_api::Snapshot::seqno(&db.snapshot())
}

/// The disk of a machine whose writer is killed, or that loses power; followers go on.
pub struct Machine {
    disk: RwLock<&'static FaultStorage>,
}

impl Machine {
    pub fn new(seed: u64) -> Arc<Machine> {
        Arc::new(Machine { disk: RwLock::new(Self::keep(FaultStorage::new(Rng::new(seed)))) })
    }

    /// Permanently: a trait lends it without a lock.
    fn keep(disk: FaultStorage) -> &'static FaultStorage {
        Box::leak(Box::new(disk))
    }

    pub fn disk(&self) -> &'static FaultStorage {
        *self.disk.read()
    }

    pub fn lose_power(&self) {
        let after = self.disk().crash();
        *self.disk.write() = Self::keep(after);
    }

    pub fn kill_writer(&self) {
        let after = self.disk().kill();
        *self.disk.write() = Self::keep(after);
    }
}

impl FileSystemWrapper for Machine {
    fn below(&self) -> &dyn Storage {
        self.disk()
    }
}

pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keyspaces by name, with their entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mirror(pub BTreeMap<String, Entries>);

impl Mirror {
    /// What `db` has now.
    pub fn of(db: &Db) -> Mirror {
        Mirror::at(db, &db.snapshot())
    }

    /// What `db` has at `snapshot`, which was just taken.
    pub fn at(db: &Db, snapshot: &Snapshot) -> Mirror {
        let keyspaces = db.keyspaces().into_iter();
        let handles =
            keyspaces.map(|info| (info.name.clone(), db.open_keyspace(&info.name).unwrap()));
        Mirror(
            handles.map(|(name, keyspace)| (name, entries(&keyspace, snapshot).unwrap())).collect(),
        )
    }
}

/// The entries of `keyspace`, which gets and scans in both directions agree on.
pub fn entries(keyspace: &Keyspace, at: &Snapshot) -> Result<Entries> {
    let mut found = BTreeMap::new();
    for entry in at.iter(keyspace) {
        let (key, value) = entry?;
        assert_eq!(at.get(keyspace, &key)?.as_deref(), Some(&value[..]));
        found.insert(key.to_vec(), value.to_vec());
    }
    let back: Vec<_> = at.iter(keyspace).rev().collect::<Result<_>>()?;
    assert!(back.iter().rev().map(|(key, _)| &key[..]).eq(found.keys().map(|key| &key[..])));
    Ok(found)
}

/// Random changes of a database.
pub struct Changes {
    pub rng: Rng,
    number: u32,
}

impl Changes {
    pub fn new(seed: u64) -> Changes {
        Changes { rng: Rng::new(seed ^ 0xf0110), number: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(30) {
            0 => Vec::new(),
            1 => vec![0],
            2 => vec![0xff; 17],
            number => format!("key{number:02}").into_bytes(),
        }
    }

    pub fn batch(&mut self, db: &Db) -> Result<()> {
        let names: Vec<_> = db.keyspaces().into_iter().map(|info| info.name).collect();
        let name = &names[self.rng.below(names.len() as u64) as usize];
        let keyspace = db.open_keyspace(name)?;
        let mut batch = db.batch();
        // Some are of several frames, and some of these in two segments.
        let entries = if self.rng.one_in(25) { 600 } else { 1 + self.rng.below(4) };
        for _ in 0..entries {
            let (key, other) = (self.key(), self.key());
            self.number += 1;
            let mut value = vec![self.rng.below(256) as u8; self.rng.below(300) as usize];
            value.extend(self.number.to_be_bytes());
            match self.rng.below(12) {
                0 => batch.delete(&keyspace, key),
                1 if key < other && entries < 100 => batch.delete_range(&keyspace, key..other),
                2 if name != "default" => batch.merge(&keyspace, key, &value[..value.len() / 8]),
                3 => batch.put(&db.default_keyspace(), key, value),
                _ => batch.put(&keyspace, key, value),
            }
        }
        if batch.is_empty() { Ok(()) } else { db.write(&batch) }
    }

    pub fn keyspaces(&mut self, db: &Db) -> Result<()> {
        let name = format!("space{}", self.rng.below(3));
        match db.open_keyspace(&name) {
            Ok(keyspace) => db.drop_keyspace(&keyspace),
            Err(_) => db.keyspace(&name, appending()).map(drop),
        }
    }

    pub fn ingest(&mut self, db: &Db) -> Result<()> {
        self.number += 1;
        let value = self.number.to_be_bytes();
        let from = self.rng.below(25);
        let keys = (from..from + 1 + self.rng.below(9)).map(|key| format!("key{key:02}"));
        db.default_keyspace().ingest(keys.map(|key| (key, value))).map(drop)
    }

    /// Flushes, and does some of what is then to be done.
    pub fn flush(&mut self, db: &Db) -> Result<()> {
        db.flush()?;
        while self.rng.below(4) > 0 && db.run_background_job() {}
        Ok(())
    }

    pub fn any(&mut self, db: &Db) -> Result<()> {
        match self.rng.below(24) {
            0 => self.keyspaces(db),
            1 => self.ingest(db),
            2 | 3 => self.flush(db),
            4 if self.rng.one_in(3) => db.compact(),
            _ => self.batch(db),
        }
    }
}
