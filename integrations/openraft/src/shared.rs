//! What log and state machine share: the database, its keyspaces, and the directory of snapshots.

use crate::application::BATCH_BYTES_MAX;
use crate::codec;
use crate::error::{Error, Result};
use crate::purge::Purges;
use esker::api::{KeyspaceRef, StoreId};
use esker::{Db, Keyspace, KeyspaceSettings, Log, WriteBatch};
use openraft::LogId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, RwLock};
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

/// The files of snapshots.
pub struct Snapshots {
    pub dir: PathBuf,
    /// Whether this process has written the current one, or has read all of it.
    pub is_verified: bool,
}

pub struct Shared {
    pub db: Db,
    pub log: Keyspace,
    pub meta: Keyspace,
    /// Written by the install of a snapshot.
    pub state: RwLock<Generation>,
    /// Taken after all other locks.
    pub purges: Purges,
    /// Held while a snapshot is built or installed. Taken before `snapshots`.
    pub builds: Mutex<()>,
    /// Held while files of snapshots are replaced, and during an install.
    pub snapshots: Mutex<Snapshots>,
    _one: OneGroup,
}

const STATE: &str = "raft.state.";

impl Shared {
    /// `leftovers` are files of snapshots that an earlier process may have left unfinished.
    pub fn open(db: &Db, snapshots: &Path, leftovers: &[&str]) -> Result<Self> {
        check(db)?;
        let log = db.keyspace("raft.log", KeyspaceSettings::default())?;
        let meta = db.keyspace("raft.meta", KeyspaceSettings::default())?;
        let one = OneGroup::open(&meta)?;
        std::fs::create_dir_all(snapshots)?;
        for name in leftovers {
            remove_if_there(&snapshots.join(name))?;
        }
        let number = read(&meta, meta::GENERATION)?.unwrap_or(0);
        let name = state_name(number);
        if meta.contains_key(meta::APPLIED)? && db.keyspaces().iter().all(|it| it.name != name) {
            let text = format!(
                "the keyspace {name}, which has the state of this Raft group, is missing; restore a \
                 backup, or remove the node from the membership and add an empty one"
            );
            return Err(Error::Corrupted(text));
        }
        let keyspace = db.keyspace(&name, KeyspaceSettings::default())?;
        // An install that did not complete leaves one, and one that did may leave its predecessor.
        for other in db.keyspaces() {
            if other.name.starts_with(STATE) && other.name != keyspace.name() {
                db.drop_keyspace(&db.open_keyspace(&other.name)?)?;
            }
        }
        Ok(Shared {
            db: db.clone(),
            log,
            meta,
            state: RwLock::new(Generation { number, keyspace }),
            purges: Purges::default(),
            builds: Mutex::default(),
            snapshots: Mutex::new(Snapshots { dir: snapshots.to_owned(), is_verified: false }),
            _one: one,
        })
    }

    /// Adds to `batch` what deletes the entries of the log up to `through`.
    pub fn delete_through<NID: openraft::NodeId>(
        &self,
        batch: &mut WriteBatch,
        through: &LogId<NID>,
    ) -> Result<()> {
        batch.delete_range(&self.log, ..=codec::key(through.index));
        batch.put(&self.meta, meta::PURGED, codec::encode(through)?);
        Ok(())
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

/// The databases that have an open Raft group, by the ID of this open of theirs.
static OPEN: LazyLock<Mutex<HashSet<StoreId>>> = LazyLock::new(Mutex::default);

/// The only open group of its database. Two would overwrite each other's log.
struct OneGroup(StoreId);

impl OneGroup {
    fn open(meta: &Keyspace) -> Result<Self> {
        let store = KeyspaceRef::from(meta).store;
        match OPEN.lock().unwrap().insert(store) {
            true => Ok(OneGroup(store)),
            false => Err(Error::InUse),
        }
    }
}

impl Drop for OneGroup {
    fn drop(&mut self) {
        OPEN.lock().unwrap().remove(&self.0);
    }
}

/// Fails if the settings of `db` break a promise of this crate.
fn check(db: &Db) -> Result<()> {
    let settings = db.settings_at_open();
    if matches!(settings.log, Log::None) {
        let text = "the database has no log, so a power loss would lose entries that Raft counts on; \
                    open it with Log::File or Log::Pmem";
        return Err(Error::Settings(text.to_owned()));
    }
    let has_bytes = settings.max_entry_bytes();
    if has_bytes < BATCH_BYTES_MAX {
        let text = format!(
            "a log segment takes batches of {has_bytes} bytes, and commands need {BATCH_BYTES_MAX}; \
             set segment_bytes to {} or more, or make the pool larger",
            (4 * BATCH_BYTES_MAX).next_power_of_two(),
        );
        return Err(Error::Settings(text));
    }
    Ok(())
}

pub fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
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
