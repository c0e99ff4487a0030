//! A store whose commands put and delete keys.

// Each test uses a part.
#![allow(dead_code)]

use esker::{Db, Settings};
use esker_openraft::{
    Application, Error, LimitError, LogStore, SnapshotFile, StateMachine, Writes,
};
use openraft::storage::RaftLogStorageExt;
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId};
use serde::{Deserialize, Serialize};
use std::path::Path;

openraft::declare_raft_types!(
    /// Types of these tests.
    pub Config: D = Command, R = Option<Vec<u8>>, SnapshotData = SnapshotFile
);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    Put(String, Vec<u8>),
    Delete(String),
    /// Either all of them, or the answer is the error.
    All(Vec<Write>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Write {
    /// A key and the length of its value.
    Put(String, usize),
    Delete(String),
    DeleteRange(String, String),
}

/// A command with this key panics.
pub const PANICS: &str = "panics";

/// Answers with the value that was there.
pub struct Map;

impl Application<Config> for Map {
    fn apply(&self, command: &Command, writes: &mut Writes<'_>) -> Result<Option<Vec<u8>>, Error> {
        let (Command::Put(key, _) | Command::Delete(key)) = command else {
            return Ok(all(command, writes).err().map(|error| error.to_string().into_bytes()));
        };
        assert_ne!(key, PANICS, "as it must");
        let before = writes.get(key)?.map(|value| value.to_vec());
        match command {
            Command::Put(_, value) => writes.put(key, value)?,
            _ => writes.delete(key)?,
        }
        Ok(before)
    }

    fn no_command(&self) -> Option<Vec<u8>> {
        None
    }
}

fn all(command: &Command, writes: &mut Writes<'_>) -> Result<(), LimitError> {
    let Command::All(all) = command else { return Ok(()) };
    for write in all {
        let written = match write {
            Write::Put(key, length) => writes.put(key, vec![7; *length]),
            Write::Delete(key) => writes.delete(key),
            Write::DeleteRange(start, end) => writes.delete_range(start..end),
        };
        if written.is_err() {
            writes.undo();
            return written;
        }
    }
    Ok(())
}

pub type Log = LogStore<Config>;
pub type Machine = StateMachine<Config, Map>;

pub struct Store {
    pub db: Db,
    pub log: Log,
    pub machine: Machine,
}

impl Store {
    pub fn open(dir: &Path) -> Self {
        Self::of(Db::open(dir.join("data"), Settings::default()).unwrap(), dir)
    }

    /// The store that is there once this one is closed.
    pub fn reopen(self, dir: &Path) -> Self {
        let Store { db, log, machine } = self;
        db.close().unwrap();
        drop((log, machine));
        Self::open(dir)
    }

    /// A store in `db`, with snapshots below `dir`.
    pub fn of(db: Db, dir: &Path) -> Self {
        let (log, machine) = esker_openraft::open(&db, dir.join("snapshots"), Map).unwrap();
        Store { db, log, machine }
    }

    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.machine.state().get(key).unwrap().map(|value| value.to_vec())
    }

    pub async fn append(&mut self, entries: impl IntoIterator<Item = Entry<Config>>) {
        let entries: Vec<_> = entries.into_iter().collect();
        self.log.blocking_append(entries).await.unwrap();
    }
}

pub fn id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(1, 0), index)
}

pub fn put(index: u64, key: &str, value: &[u8]) -> Entry<Config> {
    let payload = EntryPayload::Normal(Command::Put(key.to_owned(), value.to_vec()));
    Entry { log_id: id(index), payload }
}

pub fn all_of(index: u64, writes: Vec<Write>) -> Entry<Config> {
    Entry { log_id: id(index), payload: EntryPayload::Normal(Command::All(writes)) }
}

pub fn delete(index: u64, key: &str) -> Entry<Config> {
    Entry { log_id: id(index), payload: EntryPayload::Normal(Command::Delete(key.to_owned())) }
}
