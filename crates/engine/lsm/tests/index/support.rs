//! Rows whose values are words, and what indexes over them must have.

use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Env, Index, IndexKeys, Keyspace, KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_storage::FaultStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn settings() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(64 << 10).memory_bytes(4 << 20)
}

pub fn disk() -> FaultStorage {
    FaultStorage::new(Rng::new(1))
}

pub fn try_open(disk: &FaultStorage) -> Result<Db> {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
    Db::open_with(env, settings())
}

pub fn open(disk: &FaultStorage) -> Db {
    try_open(disk).unwrap()
}

pub fn users(db: &Db) -> Keyspace {
    db.keyspace("users", KeyspaceSettings::default()).unwrap()
}

/// A key for each word of a row.
pub fn words(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.split(|&byte| byte == b' ').for_each(|word| keys.add(word));
}

/// The first word of a row, unless it has none.
pub fn first_word(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    let first = value.split(|&byte| byte == b' ').next().unwrap_or_default();
    if !first.is_empty() {
        keys.add(first);
    }
}

pub type Function = fn(&[u8], &[u8], &mut IndexKeys);

/// The keys that `function` gives a row.
pub fn keys_of(function: Function, key: &[u8], value: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    if std::ptr::fn_addr_eq(function, words as Function) {
        keys.extend(value.split(|&byte| byte == b' ').map(<[u8]>::to_vec));
    } else if std::ptr::fn_addr_eq(function, first_word as Function) {
        keys.extend(value.split(|&byte| byte == b' ').next().map(<[u8]>::to_vec));
        keys.retain(|key| !key.is_empty());
    } else {
        panic!("no function of these tests, for {key:?}");
    }
    keys.sort();
    keys.dedup();
    keys
}

/// The rows of `keyspace`.
pub fn rows(keyspace: &Keyspace) -> Rows {
    let rows = keyspace.iter().map(|row| row.unwrap());
    rows.map(|(key, value)| (key.into_vec(), value.into_vec())).collect()
}

/// Fails unless `index` has exactly the entries of `rows`.
#[track_caller]
pub fn verify(db: &Db, index: &Index, rows: &Rows, function: Function) {
    let of_row = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let keys = keys_of(function, key, value);
        let (key, value) = (key.clone(), value.clone());
        keys.into_iter().map(move |index_key| (index_key, key.clone(), value.clone()))
    };
    let mut expected: Vec<_> = rows.iter().flat_map(of_row).collect();
    expected.sort();
    let plain = |row: Result<esker_lsm::IndexRow>| {
        let row = row.unwrap();
        (row.index_key.into_vec(), row.key.into_vec(), row.value.into_vec())
    };
    let found: Vec<_> = index.range(..).map(plain).collect();
    assert!(found == expected, "{found:?}\nis not\n{expected:?}");
    let mut back: Vec<_> = index.range(..).rev().map(plain).collect();
    back.reverse();
    assert!(back == expected, "backward: {back:?}\nis not\n{expected:?}");
    let checked = db.check_index(index).unwrap();
    assert!(checked.is_sound(), "{checked:?}");
    assert_eq!((checked.rows, checked.entries), (rows.len() as u64, expected.len() as u64));
}

/// Some words, few enough that rows share them.
pub fn random_value(rng: &mut Rng) -> Vec<u8> {
    let count = rng.below(4) as usize;
    let word = |rng: &mut Rng| match rng.below(12) {
        0 => "\0".to_owned(),
        1 => "\0\u{1}".to_owned(),
        number => format!("word{number}"),
    };
    let words: Vec<_> = (0..count).map(|_| word(rng)).collect();
    words.join(" ").into_bytes()
}
