//! A database of small segments in a directory, and its keys.

use esker_api::Value;
use esker_base::Result;
use esker_lsm::{Db, Settings};
use std::path::Path;

pub fn small() -> Settings {
    Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20)
}

pub fn open(dir: &Path) -> Db {
    Db::open(dir, small()).unwrap()
}

pub fn key(n: u64) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

pub fn copied(pair: Result<(Value, Value)>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = pair.unwrap();
    (key.into_vec(), value.into_vec())
}

pub fn pairs(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.range(&db.default_keyspace(), ..).map(copied).collect()
}
