//! Backups: what they hold, what they copy, and what is left after a failure or a power loss.

mod behaviour;
mod crashes;
mod damage;
mod followed;
mod shipping;

use esker_backup::{Backup, Repository};
use esker_base::{Result, SystemClock};
use esker_lsm::{Db, Env, KeyspaceSettings, Settings};
use esker_storage::{MemoryStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a keyspace of the test holds.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn small() -> Settings {
    Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20)
}

fn database() -> Db {
    over(Arc::new(MemoryStorage::new()))
}

fn over(storage: Arc<dyn Storage>) -> Db {
    Db::open_with(Env::over(storage), small()).unwrap()
}

fn repository(storage: Arc<dyn Storage>) -> Repository {
    Repository::of(storage, Arc::new(SystemClock::new()))
}

fn in_memory() -> (MemoryStorage, Repository) {
    let storage = MemoryStorage::new();
    (storage.clone(), repository(Arc::new(storage)))
}

/// Writes entries that differ by `round`, deletes some, and notes them in `model`.
fn write(db: &Db, model: &mut Model, round: u64) {
    let rows = db.keyspace("rows", KeyspaceSettings::default()).unwrap();
    for number in 0..200 {
        let key = format!("{:05}", (round * 131 + number * 7) % 1000).into_bytes();
        let value = format!("{round} {number} {}", "x".repeat(100)).into_bytes();
        rows.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    let gone = format!("{:05}", (round * 131) % 1000).into_bytes();
    rows.delete(&gone).unwrap();
    model.remove(&gone);
}

/// All entries of the database.
fn contents(db: &Db) -> Model {
    let rows = db.open_keyspace("rows").unwrap();
    rows.iter()
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_>>()
        .unwrap()
}

/// The database that `backup` restores.
fn restored(repository: &Repository, backup: &Backup) -> Result<Db> {
    let target = MemoryStorage::new();
    let report = repository.restore_into(backup, &target, &mut |_| true)?;
    assert_eq!(report.number, backup.number);
    Ok(over(Arc::new(target)))
}
