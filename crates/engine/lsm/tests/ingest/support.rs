//! Databases of small segments whose background work is stepped, and their content.

use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Env, Keyspace, Log, Settings, SyncPolicy};
use esker_storage::FaultStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn settings(log: Log) -> Settings {
    Settings::default().log(log).segment_bytes(64 << 10).memory_bytes(4 << 20)
}

pub fn logged() -> Settings {
    settings(Log::File { dir: None, sync: SyncPolicy::Always })
}

pub fn disk() -> FaultStorage {
    FaultStorage::new(Rng::new(1))
}

pub fn try_open(disk: &FaultStorage, settings: Settings) -> Result<Db> {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
    Db::open_with(env, settings)
}

pub fn open(disk: &FaultStorage, settings: Settings) -> Db {
    try_open(disk, settings).unwrap()
}

pub fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Entries that say where they come from.
pub fn entries(numbers: impl IntoIterator<Item = u32>, from: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entry = |number| (key(number), format!("{number} of {from}").into_bytes());
    numbers.into_iter().map(entry).collect()
}

/// Many enough bytes for several tables.
pub fn wide_entries(numbers: impl IntoIterator<Item = u32>, from: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    // Not to be compressed to nothing.
    let mut rng = Rng::new(7);
    let mut entry = |number| {
        let mut value = format!("{number} of {from}").into_bytes();
        value.extend((0..60).flat_map(|_| rng.next_u64().to_le_bytes()));
        (key(number), value)
    };
    numbers.into_iter().map(&mut entry).collect()
}

pub fn put_all(keyspace: &Keyspace, entries: &[(Vec<u8>, Vec<u8>)]) {
    entries.iter().for_each(|(key, value)| keyspace.put(key, value).unwrap());
}

pub fn content(keyspace: &Keyspace) -> Pairs {
    let pairs = keyspace.range(..).map(|pair| pair.unwrap());
    let pairs: Vec<_> = pairs.map(|(key, value)| (key.into_vec(), value.into_vec())).collect();
    let back = keyspace.range(..).rev().map(|pair| pair.unwrap());
    let back: Vec<_> = back.map(|(key, value)| (key.into_vec(), value.into_vec())).collect();
    assert!(pairs.iter().eq(back.iter().rev()), "backward as forward");
    for (key, value) in &pairs {
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&value[..]), "a get as a scan");
    }
    pairs.into_iter().collect()
}

pub fn value(keyspace: &Keyspace, number: u32) -> Option<String> {
    let value = keyspace.get(key(number)).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

/// Files of tables that are to be ingested.
pub fn unfinished(disk: &FaultStorage) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.ends_with(".ingest")).collect()
}

pub fn table_files(disk: &FaultStorage) -> usize {
    disk.files().iter().filter(|name| name.ends_with(".tables")).count()
}
