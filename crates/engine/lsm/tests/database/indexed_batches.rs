//! Batches that read their own writes over the database.

use esker_base::{Error, Result, Rng};
use esker_lsm::{Db, Env, IndexedBatch, Keyspace, KeyspaceSettings, Log, Settings};
use esker_storage::MemoryStorage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn memory_db() -> Db {
    let env = Env::over(Arc::new(MemoryStorage::new()));
    let appending = KeyspaceSettings::default().merge("append");
    let settings = Settings::default().log(Log::None).segment_bytes(256 << 10);
    let settings = settings.default_keyspace(appending);
    Db::open_with(env, settings.memory_bytes(8 << 20)).unwrap()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of one byte and of several, the empty one, and those that are stored with a byte more.
fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(30) {
        0 => Vec::new(),
        1 => vec![0; rng.below(3) as usize],
        2 => vec![0xff; 16 + rng.below(2) as usize],
        number => vec![number as u8; 1 + rng.below(2) as usize],
    }
}

/// Changes the model, and `batch` or else the database.
fn change(rng: &mut Rng, db: &Db, batch: Option<&mut IndexedBatch>, model: &mut Model) {
    let keyspace = db.default_keyspace();
    let mut own = db.indexed_batch();
    let to = match batch {
        Some(batch) => batch,
        None => &mut own,
    };
    let (one, other) = (key(rng), key(rng));
    match rng.below(11) {
        8..=10 => {
            let operand = [b'a' + rng.below(26) as u8];
            to.merge(&keyspace, &one, operand);
            model.entry(one).or_default().extend(operand);
        }
        0..=3 => {
            let value = rng.next_u64().to_be_bytes();
            match rng.one_in(3) {
                true => to.put_with_ttl(&keyspace, &one, value, Duration::MAX),
                false => to.put(&keyspace, &one, value),
            }
            model.insert(one, value.to_vec());
        }
        4..=5 => {
            to.delete(&keyspace, &one);
            model.remove(&one);
        }
        6 if one < other => {
            to.delete_range(&keyspace, &one[..]..&other[..]);
            model.retain(|key, _| *key < one || *key >= other);
        }
        7 if rng.one_in(3) => {
            to.delete_range(&keyspace, &one[..]..);
            model.retain(|key, _| *key < one);
        }
        7 if rng.one_in(3) => {
            to.delete_range(&keyspace, ..=&one[..]);
            model.retain(|key, _| *key > one);
        }
        _ => (),
    }
    own.write().unwrap();
}

fn pairs(model: &Model, from: &[u8], to: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inside = model.iter().filter(|(key, _)| from <= &key[..] && &key[..] < to);
    inside.map(|(key, value)| (key.clone(), value.clone())).collect()
}

type Entries = Result<Vec<(Vec<u8>, Vec<u8>)>>;

fn check(rng: &mut Rng, keyspace: &Keyspace, batch: &mut IndexedBatch, model: &Model) {
    for _ in 0..3 {
        let key = key(rng);
        let found = batch.get(keyspace, &key).unwrap();
        assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]), "{key:?}");
    }
    let (from, to) = (key(rng), key(rng));
    let expected = pairs(model, &from, &to);
    let owned = |entry: Result<(esker_api::Value, esker_api::Value)>| {
        entry.map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    let forward: Entries = batch.range(keyspace, &from[..]..&to[..]).map(owned).collect();
    assert_eq!(forward.unwrap(), expected);
    let mut back = batch.range(keyspace, &from[..]..&to[..]).rev().map(owned).collect::<Entries>();
    back.as_mut().unwrap().reverse();
    assert_eq!(back.unwrap(), expected);
    // A cursor that turns around.
    let all = pairs(model, &[], &[0xff; 20]);
    let mut cursor = batch.cursor(keyspace, ..).unwrap();
    let start = key(rng);
    cursor.seek(&start).unwrap();
    let mut at = all.iter().position(|(key, _)| *key >= start);
    for _ in 0..12 {
        let expected = at.map(|at| (&all[at].0[..], &all[at].1[..]));
        assert_eq!(cursor.current(), expected, "after a seek to {start:?}");
        let Some(stood) = at else { break };
        if rng.one_in(2) {
            cursor.next().unwrap();
            at = (stood + 1 < all.len()).then_some(stood + 1);
        } else {
            cursor.prev().unwrap();
            at = stood.checked_sub(1);
        }
    }
}

/// The batch reads as the database will read once it is written.
#[test]
fn a_batch_reads_as_the_database_will() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let db = memory_db();
        let keyspace = db.default_keyspace();
        let mut stored = Model::new();
        for _ in 0..rng.below(40) {
            change(&mut rng, &db, None, &mut stored);
        }
        if rng.one_in(2) {
            db.flush().unwrap();
        }
        let mut batch = db.indexed_batch();
        let mut model = stored.clone();
        let mut savepoints = Vec::new();
        for _ in 0..40 {
            change(&mut rng, &db, Some(&mut batch), &mut model);
            match rng.below(6) {
                0 => {
                    batch.set_savepoint();
                    savepoints.push(model.clone());
                }
                1 => match savepoints.pop() {
                    Some(before) => {
                        batch.rollback_to_savepoint().unwrap();
                        model = before;
                    }
                    None => {
                        let refused = batch.rollback_to_savepoint();
                        assert!(matches!(refused, Err(Error::NoSavepoint)));
                    }
                },
                _ => check(&mut rng, &keyspace, &mut batch, &model),
            }
        }
        let read = |db: &Db| -> Model {
            let entries = db.iter(&keyspace).map(|entry| entry.unwrap());
            entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
        };
        assert_eq!(read(&db), stored, "nothing is written yet");
        batch.write().unwrap();
        assert_eq!(read(&db), model);
    }
}

#[test]
fn a_batch_reads_the_newest_of_the_database() {
    let db = memory_db();
    let keyspace = db.default_keyspace();
    let mut batch = db.indexed_batch();
    batch.put(&keyspace, "a", "own");
    for value in ["1", "2"] {
        keyspace.put("a", value).unwrap();
        keyspace.put("b", value).unwrap();
        assert_eq!(batch.get(&keyspace, "a").unwrap().as_deref(), Some(&b"own"[..]));
        assert_eq!(batch.get(&keyspace, "b").unwrap().as_deref(), Some(value.as_bytes()));
        let all: Vec<_> = batch.iter(&keyspace).map(|entry| entry.unwrap().1).collect();
        assert_eq!(all, [b"own", value.as_bytes()]);
    }
    batch.clear();
    assert_eq!(batch.get(&keyspace, "a").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn keyspaces_are_apart_and_foreign_ones_are_refused() {
    let (db, other) = (memory_db(), memory_db());
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    let mut batch = db.indexed_batch();
    batch.put(&users, "a", "1");
    batch.delete_range(&db.default_keyspace(), ..);
    assert!(!batch.contains_key(&db.default_keyspace(), "a").unwrap());
    assert!(batch.contains_key(&users, "a").unwrap());
    let foreign = batch.get(&other.default_keyspace(), "a");
    assert!(matches!(foreign, Err(Error::ForeignHandle { .. })));
    batch.put(&other.default_keyspace(), "a", "1");
    assert!(matches!(batch.write(), Err(Error::ForeignHandle { .. })));
    assert!(users.is_empty().unwrap());
}

#[test]
fn a_time_to_live_begins_when_the_batch_is_written() {
    let db = memory_db();
    let keyspace = db.default_keyspace();
    let mut batch = db.indexed_batch();
    batch.put_with_ttl(&keyspace, "a", "1", Duration::ZERO);
    assert_eq!(batch.get(&keyspace, "a").unwrap().as_deref(), Some(&b"1"[..]));
    batch.write().unwrap();
    assert_eq!(keyspace.get("a").unwrap(), None);
}

#[test]
fn an_operand_that_the_operator_rejects_fails_the_reads_of_its_key_and_the_write() {
    let db = memory_db();
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).unwrap();
    let plain = db.keyspace("plain", KeyspaceSettings::default()).unwrap();
    let mut batch = db.indexed_batch();
    batch.put(&sums, "a", 1_i64.to_le_bytes());
    batch.merge(&sums, "b", "no integer");
    batch.merge(&plain, "a", "1");
    assert!(batch.contains_key(&sums, "a").unwrap());
    assert!(matches!(batch.get(&sums, "b"), Err(Error::MergeFailed { .. })));
    assert!(matches!(batch.get(&plain, "a"), Err(Error::NoMergeOperator { .. })));
    let mut entries = batch.iter(&sums);
    assert_eq!(&*entries.next().unwrap().unwrap().0, b"a");
    assert!(matches!(entries.next(), Some(Err(Error::MergeFailed { .. }))));
    drop(entries);
    assert!(batch.write().is_err());
    assert!(sums.is_empty().unwrap());
}
