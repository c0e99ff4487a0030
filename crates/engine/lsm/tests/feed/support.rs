//! Databases in memory, and maps that a feed is replayed into.

use esker_base::background::Stepped;
use esker_base::{ChangesError, Error, Result, Rng, Seqno};
use esker_lsm::{
    ChangeEvent, Changes, Db, Env, KeyspaceSettings, Log, Operation, Settings, SyncPolicy,
};
use esker_storage::FaultStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const SEGMENT_BYTES: u64 = 64 << 10;

pub fn settings() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(SEGMENT_BYTES as usize).memory_bytes(8 << 20)
}

pub fn disk() -> FaultStorage {
    FaultStorage::new(Rng::new(1))
}

pub fn open_as(disk: &FaultStorage, settings: Settings) -> Result<Db> {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
    Db::open_with(env, settings)
}

pub fn open(disk: &FaultStorage) -> Db {
    open_as(disk, settings()).unwrap()
}

pub fn last_seqno(db: &Db) -> Seqno {
    esker_api::Snapshot::seqno(&db.snapshot())
}

/// Whose merges append.
pub fn appending() -> KeyspaceSettings {
    KeyspaceSettings::default().merge("append")
}

/// Keyspaces by name, with their entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mirror(pub BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>);

impl Mirror {
    /// Of an empty database.
    pub fn new() -> Mirror {
        Mirror([("default".to_owned(), BTreeMap::new())].into())
    }

    /// What `db` has now.
    pub fn of(db: &Db) -> Mirror {
        let mut all = Mirror::default();
        for info in db.keyspaces() {
            let keyspace = db.open_keyspace(&info.name).unwrap();
            let entries = keyspace.iter().map(|entry| {
                let (key, value) = entry.unwrap();
                (key.to_vec(), value.to_vec())
            });
            all.0.insert(info.name, entries.collect());
        }
        all
    }

    pub fn apply(&mut self, event: &ChangeEvent) {
        match event {
            ChangeEvent::KeyspaceCreated { name, .. } => {
                // After a restart, those at the acknowledged seqno come again.
                self.0.insert(name.to_string(), BTreeMap::new());
            }
            ChangeEvent::KeyspaceDropped { name, .. } => {
                self.0.remove(&**name);
            }
            ChangeEvent::Batch(batch) => {
                for change in batch.changes() {
                    let name = change.keyspace_name.expect("its name is known");
                    let entries = self.0.get_mut(name).unwrap_or_else(|| panic!("no {name}"));
                    operate(entries, change.operation);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    /// Applies all that `changes` has now. Returns the last seqno, or `from` if there is nothing.
    pub fn follow(&mut self, changes: &mut Changes, from: Seqno) -> Result<Seqno> {
        let mut last = from;
        while let Some(event) = changes.try_next()? {
            if let ChangeEvent::Batch(batch) = &event {
                assert_eq!(batch.first_seqno(), last + 1, "no gap, and nothing twice");
                last = batch.last_seqno();
            }
            self.apply(&event);
        }
        Ok(last)
    }
}

fn operate(entries: &mut BTreeMap<Vec<u8>, Vec<u8>>, operation: Operation<'_>) {
    match operation {
        Operation::Put { key, value } | Operation::PutExpiring { key, value, .. } => {
            entries.insert(key.into_owned(), value.to_vec());
        }
        Operation::Delete { key } => drop(entries.remove(&*key)),
        Operation::DeleteRange { start, end } => {
            let is_in = |key: &Vec<u8>| {
                key[..] >= start[..] && end.as_ref().is_none_or(|end| key[..] < end[..])
            };
            entries.retain(|key, _| !is_in(key));
        }
        Operation::Merge { key, operand } => {
            entries.entry(key.into_owned()).or_default().extend(operand);
        }
        other => panic!("{other:?}"),
    }
}

/// The oldest seqno that an error names.
pub fn oldest_in(error: &Error) -> Seqno {
    match error {
        Error::Changes(error) => match **error {
            ChangesError::Gone { oldest, .. } => oldest,
            ref other => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}
