//! A repair of a database whose manifest is lost, or whose tables are damaged.

mod interrupted;
mod known;
mod merges;
mod unfinished;

use crate::replaced_file::replace;
use crate::support::{Pairs, pairs, read};
use esker_api::KeyRange;
use esker_base::background::Stepped;
use esker_base::{FileKind, Rng, WriteHint};
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::{MissingLogPolicy, RepairReport};
use esker_lsm::manifest::manifest_file::read_current;
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings, Shape, SyncPolicy};
use esker_storage::{MemoryStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

fn settings() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(64 << 10).memory_bytes(4 << 20)
}

fn open(storage: &Arc<MemoryStorage>) -> esker_base::Result<Db> {
    let env = Env::over(storage.clone()).background(Arc::new(Stepped));
    Db::open_with(env, settings())
}

/// A copy of what is there now, as a process leaves it that is killed.
fn copy(storage: &dyn Storage) -> Arc<MemoryStorage> {
    let copy = Arc::new(MemoryStorage::new());
    for name in storage.list().unwrap() {
        let mut file = copy.create(&name, WriteHint::of(FileKind::Meta)).unwrap();
        file.append(&read(storage, &name)).unwrap();
        file.sync().unwrap();
    }
    copy
}

fn flip(storage: &dyn Storage, name: &str, at: usize) {
    let mut bytes = read(storage, name);
    bytes[at] ^= 0x10;
    replace(storage, name, &bytes);
}

fn inspector(storage: &Arc<MemoryStorage>) -> Inspector {
    Inspector::of(storage.clone(), storage.clone())
}

fn repair(storage: &Arc<MemoryStorage>) -> RepairReport {
    inspector(storage).repair(MissingLogPolicy::Refuse).unwrap()
}

fn tables(storage: &dyn Storage) -> Vec<String> {
    let mut names = storage.list().unwrap();
    names.retain(|name| name.ends_with(".tables"));
    names.sort();
    names
}

/// The keys in which two sets of entries differ.
fn different(found: &Pairs, expected: &Pairs) -> Vec<String> {
    let keys = found.keys().chain(expected.keys().filter(|key| !found.contains_key(*key)));
    let differing = keys.filter(|key| found.get(*key) != expected.get(*key));
    let text = |key: &Vec<u8>| {
        let (is_there, should_be) = (found.contains_key(key), expected.contains_key(key));
        format!("{:?}: found {is_there}, expected {should_be}", String::from_utf8_lossy(key))
    };
    differing.map(text).collect()
}

/// Puts, merges, deletes, range deletes, flushes and compactions at random, in two keyspaces.
fn random_work(storage: &Arc<MemoryStorage>, seed: u64, steps: u64) -> Db {
    let mut rng = Rng::new(seed);
    let db = open(storage).unwrap();
    let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 3 }).merge("append");
    let keyspaces = [db.default_keyspace(), db.keyspace("tiered", tiered).unwrap()];
    for step in 0..steps {
        let keyspace = &keyspaces[rng.below(2) as usize];
        let key = |rng: &mut Rng| (rng.below(200) as u32).to_be_bytes();
        match rng.below(40) {
            0..10 if keyspace.id() != db.default_keyspace().id() => {
                keyspace.merge(key(&mut rng), format!("{step} "))
            }
            0..24 => db.put(keyspace, key(&mut rng), format!("{step}").repeat(20).as_bytes()),
            24..32 => db.delete(keyspace, key(&mut rng)),
            32..35 => {
                let (from, to) = (rng.below(200) as u32, rng.below(30) as u32 + 1);
                db.delete_range(keyspace, from.to_be_bytes()..(from + to).to_be_bytes())
            }
            35..38 => db.flush(),
            38 => db.wait_for_compactions(),
            _ => db.compact_keyspace(keyspace).map(drop),
        }
        .unwrap();
    }
    db
}

#[test]
fn a_database_is_rebuilt_from_tables_and_logs() {
    for seed in 0..60 {
        let storage = Arc::new(MemoryStorage::new());
        let db = random_work(&storage, seed, 150 + seed * 10);
        let expected = pairs(&db);
        let killed = copy(&*storage);
        db.close().unwrap();
        for (storage, is_closed) in [(storage, true), (killed, false)] {
            let manifest = read_current(&*storage).unwrap();
            match seed % 3 {
                0 => flip(&*storage, &manifest, 40),
                1 => storage.remove(&manifest).unwrap(),
                _ => {
                    storage.remove(&manifest).unwrap();
                    storage.remove("CURRENT").unwrap();
                }
            }
            if tables(&*storage).is_empty() {
                continue;
            }
            let repaired = repair(&storage);
            assert!(!repaired.rebuilt.is_empty(), "seed {seed}");
            assert_eq!(repaired.lost_tables, [], "seed {seed}");
            let db = open(&storage).unwrap();
            let differs = different(&pairs(&db), &expected);
            assert_eq!(differs, [""; 0], "seed {seed}, closed {is_closed}: {repaired:?}");
            db.compact().unwrap();
            let differs = different(&pairs(&db), &expected);
            assert_eq!(differs, [""; 0], "seed {seed}, closed {is_closed}, compacted");
            let infos = db.keyspaces();
            let tiered = infos.iter().find(|info| info.name == "tiered");
            let shape = tiered.map(|info| info.settings.shape);
            // An empty keyspace is in no table, and its name is lost with the manifest.
            let is_known = seed % 3 == 0 || expected.keys().any(|key| key.starts_with(b"tiered/"));
            assert!(shape.is_some() || !is_known, "seed {seed}");
            assert!(shape.is_none_or(|shape| shape == Shape::Tiered { runs: 3 }), "seed {seed}");
            db.close().unwrap();
            inspector(&storage).check(&mut |problem| panic!("seed {seed}: {problem}")).unwrap();
        }
    }
}

/// A table that was compacted away long ago may still be there, and no table that is left names it. It was
/// written for level 0, above the level of the tables that are newer than it.
#[test]
fn a_table_of_a_higher_level_hides_no_newer_write() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let keyspace = db.default_keyspace();
    // Because of it, compaction keeps all seqnos.
    let snapshot = db.snapshot();
    db.put(&keyspace, b"key", b"old").unwrap();
    db.flush().unwrap();
    let old = tables(&*storage).remove(0);
    let bytes = read(&*storage, &old);
    for value in [&b"newer"[..], b"newest"] {
        db.put(&keyspace, b"key", value).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
    }
    drop(snapshot);
    db.close().unwrap();
    assert!(!tables(&*storage).contains(&old));
    let mut file = storage.create(&old, WriteHint::of(FileKind::Meta)).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    storage.remove(&read_current(&*storage).unwrap()).unwrap();
    repair(&storage);
    let db = open(&storage).unwrap();
    let value = db.get(&db.default_keyspace(), b"key").unwrap();
    assert_eq!(value.as_deref(), Some(&b"newest"[..]));
}

/// One table of many blocks, each key once.
fn many_blocks() -> (Arc<MemoryStorage>, String, Pairs) {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    for key in 0..400u32 {
        let value = format!("value {key} ").repeat(8);
        db.put(&db.default_keyspace(), key.to_be_bytes(), value.as_bytes()).unwrap();
    }
    db.compact().unwrap();
    let expected = pairs(&db);
    db.close().unwrap();
    let names = tables(&*storage);
    assert_eq!(names.len(), 1);
    (storage, names[0].clone(), expected)
}

#[test]
fn a_flipped_byte_anywhere_in_a_table_costs_a_block_at_most() {
    let (sound, name, expected) = many_blocks();
    let bytes = read(&*sound, &name).len();
    for at in (0..bytes).step_by(37) {
        let storage = copy(&*sound);
        flip(&*storage, &name, at);
        let repaired = repair(&storage);
        let [lost] = &repaired.lost_tables[..] else { panic!("byte {at}: {repaired:?}") };
        assert!(storage.exists(&format!("{name}.damaged")).unwrap(), "byte {at}");
        let db = open(&storage).unwrap();
        let found = pairs(&db);
        assert!(found.len() + 60 >= expected.len(), "byte {at}: {} are left", found.len());
        for (key, value) in &expected {
            let bare = &key[b"default/".len()..];
            let is_lost = lost.lost_keys.iter().any(|keys| {
                &keys.from[..] <= bare && keys.to.as_ref().is_none_or(|to| bare <= &to[..])
            });
            match found.get(key) {
                Some(found) => assert_eq!(found, value, "byte {at}"),
                None => assert!(is_lost, "byte {at}: {bare:?} is not in {:?}", lost.lost_keys),
            }
        }
        db.close().unwrap();
        inspector(&storage).check(&mut |problem| panic!("byte {at}: {problem}")).unwrap();
    }
}

#[test]
fn a_reading_around_damage_gives_the_rest_and_says_what_is_missing() {
    let (storage, name, expected) = many_blocks();
    flip(&*storage, &name, 5_000);
    let before = read(&*storage, &name);
    let (mut found, mut skipped) = (Pairs::new(), Vec::new());
    let visit = |key: &[u8], value: &[u8]| {
        found.insert([b"default/", key].concat(), value.to_vec());
        Ok::<_, esker_base::Error>(true)
    };
    let range = KeyRange::all();
    inspector(&storage)
        .read_around("default", &range, visit, &mut |skip| skipped.push(skip))
        .unwrap();
    assert!(found.len() < expected.len() && found.len() + 60 >= expected.len());
    assert!(found.iter().all(|(key, value)| expected.get(key) == Some(value)));
    let [skip] = &skipped[..] else { panic!("{skipped:?}") };
    assert!(skip.file.ends_with(&name) && skip.keys.error.contains("checksum"), "{skip:?}");
    assert_eq!(read(&*storage, &name), before);
}

#[test]
fn sound_tables_in_a_damaged_file_are_kept_whole() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
    for key in 0..100u32 {
        db.put(&db.default_keyspace(), key.to_be_bytes(), [1; 200]).unwrap();
        db.put(&other, key.to_be_bytes(), [2; 200]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let names = tables(&*storage);
    assert_eq!(names.len(), 1, "both are in one file");
    flip(&*storage, &names[0], 100);
    let repaired = repair(&storage);
    assert_eq!((repaired.tables, repaired.lost_tables.len()), (1, 1));
    assert_eq!(repaired.set_aside, names);
    let db = open(&storage).unwrap();
    let other = db.open_keyspace("other").unwrap();
    assert_eq!(db.range(&other, ..).count(), 100);
}

#[test]
fn lost_range_deletes_are_reported() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    db.put(&db.default_keyspace(), b"k", b"old").unwrap();
    db.flush().unwrap();
    db.delete_range(&db.default_keyspace(), b"a"..b"z").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let name = tables(&*storage).pop().unwrap();
    let bytes = read(&*storage, &name);
    // Behind the data blocks, of which there are none, and the filter, which is left out.
    assert!(bytes.len() < 1000);
    flip(&*storage, &name, 2);
    let repaired = repair(&storage);
    assert!(repaired.lost_tables[0].lost_range_deletes, "{repaired:?}");
}
