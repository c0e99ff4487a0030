//! What log and state machine share: the database, its keyspaces, and the directory of snapshots.

use crate::codec;
use crate::error::{Error, Result};
use esker::{Db, Keyspace, KeyspaceSettings, WriteBatch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{block_in_place, spawn_blocking};

/// Keys of the keyspace `raft.meta`.
pub mod meta {
    pub const VOTE: &str = "vote";
    pub const COMMITTED: &str = "committed";
    pub const PURGED: &str = "purged";
    pub const APPLIED: &str = "applied";
    pub const MEMBERSHIP: &str = "membership";
    pub const GENERATION: &str = "generation";
}

/// The keyspace of the state. Each installed snapshot has one of its own.
pub struct Generation {
    pub number: u64,
    pub keyspace: Keyspace,
}

pub struct Shared {
    pub db: Db,
    pub log: Keyspace,
    pub meta: Keyspace,
    /// Written by the install of a snapshot.
    pub state: RwLock<Generation>,
    /// Held while a snapshot is built or installed. Taken before `snapshots`.
    pub builds: Mutex<()>,
    /// The directory of snapshots. Held while its files are replaced, and during an install.
    pub snapshots: Mutex<PathBuf>,
}

const STATE: &str = "raft.state.";

impl Shared {
    pub fn open(db: &Db, snapshots: &Path) -> Result<Self> {
        std::fs::create_dir_all(snapshots)?;
        let log = db.keyspace("raft.log", KeyspaceSettings::default())?;
        let meta = db.keyspace("raft.meta", KeyspaceSettings::default())?;
        let number = read(&meta, meta::GENERATION)?.unwrap_or(0);
        let keyspace = db.keyspace(&state_name(number), KeyspaceSettings::default())?;
        // An install that did not complete leaves one, and one that did may leave its predecessor.
        for other in db.keyspaces() {
            if other.name.starts_with(STATE) && other.name != keyspace.name() {
                db.drop_keyspace(&db.open_keyspace(&other.name)?)?;
            }
        }
        let state = RwLock::new(Generation { number, keyspace });
        let snapshots = Mutex::new(snapshots.to_owned());
        Ok(Shared { db: db.clone(), log, meta, state, builds: Mutex::default(), snapshots })
    }

    /// The empty keyspace of the next generation.
    pub fn next_generation(&self) -> Result<Generation> {
        let number = self.state.read().unwrap().number + 1;
        // A failed install may have filled it.
        if let Ok(keyspace) = self.db.open_keyspace(&state_name(number)) {
            self.db.drop_keyspace(&keyspace)?;
        }
        let keyspace = self.db.keyspace(&state_name(number), KeyspaceSettings::default())?;
        Ok(Generation { number, keyspace })
    }

    /// Writes one record of `raft.meta`.
    pub fn put(&self, key: &str, value: &impl Serialize, sync: bool) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(&self.meta, key, codec::encode(value)?);
        batch.set_sync(sync);
        Ok(self.db.write(&batch)?)
    }

    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        read(&self.meta, key)
    }
}

pub fn state_name(generation: u64) -> String {
    format!("{STATE}{generation}")
}

fn read<T: DeserializeOwned>(meta: &Keyspace, key: &str) -> Result<Option<T>> {
    meta.get(key)?.map(|value| codec::decode(&value)).transpose()
}

/// Runs `work`, which may wait for a disk.
///
/// A runtime with several threads runs it on this one, and hands what else this thread would do to
/// another. To hand over the work itself would have the task wait for two switches of threads, which
/// take as long as a sync of a fast device.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // A panic, which may be the application's, stops the node like any failure.
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => spawn_blocking(work).await.map_err(|_| Error::Panicked)?,
        _ => {
            block_in_place(|| catch_unwind(AssertUnwindSafe(work))).map_err(|_| Error::Panicked)?
        }
    }
}
