//! Operands that a repair finds more than once count once.

use super::{copy, different, flip, open, repair, tables};
use crate::support::{Pairs, pairs, read};
use esker_base::{FileKind, WriteHint};
use esker_lsm::manifest::manifest_file::read_current;
use esker_lsm::{Db, Keyspace, KeyspaceSettings};
use esker_storage::{MemoryStorage, Storage};
use std::sync::Arc;

fn texts(db: &Db) -> Keyspace {
    db.keyspace("texts", KeyspaceSettings::default().merge("append")).unwrap()
}

fn merge_all(texts: &Keyspace, part: &str) {
    for key in 0..40_u32 {
        for number in 0..key % 5 {
            texts.merge(key.to_be_bytes(), format!("{part}{number} ")).unwrap();
        }
    }
}

fn add(storage: &MemoryStorage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name, WriteHint::of(FileKind::Meta)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

/// What a repair makes of files without their manifest, of which those in `added` are damaged in turn
/// at many places.
#[track_caller]
fn check(files: &MemoryStorage, added: &[(String, Vec<u8>)], expected: &Pairs) {
    for (name, bytes) in added {
        for at in (0..bytes.len()).step_by(61) {
            let storage = copy(files);
            added.iter().for_each(|(name, bytes)| add(&storage, name, bytes));
            storage.remove(&read_current(&*storage).unwrap()).unwrap();
            flip(&*storage, name, at);
            repair(&storage);
            let db = open(&storage).unwrap();
            let differs = different(&pairs(&db), expected);
            assert_eq!(differs, [""; 0], "byte {at} of {name}");
            db.compact().unwrap();
            let differs = different(&pairs(&db), expected);
            assert_eq!(differs, [""; 0], "byte {at} of {name}, compacted");
        }
    }
}

fn new_tables(storage: &MemoryStorage, old: &[String]) -> Vec<(String, Vec<u8>)> {
    let new = tables(storage).into_iter().filter(|name| !old.contains(name));
    new.map(|name| (name.clone(), read(storage, &name))).collect()
}

/// The log has all that a flush combined, and the flush was interrupted.
#[test]
fn operands_of_an_interrupted_flush_count_once() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    let texts = texts(&db);
    texts.put(8_u32.to_be_bytes(), "base ").unwrap();
    // A sound table says which operator the keyspace has.
    db.flush().unwrap();
    merge_all(&texts, "a");
    let expected = pairs(&db);
    let (before, old) = (copy(&*storage), tables(&*storage));
    db.flush().unwrap();
    check(&before, &new_tables(&storage, &old), &expected);
}

/// The inputs of a compaction are still there, and its output is damaged.
#[test]
fn operands_of_a_damaged_output_and_its_inputs_count_once() {
    for keeps_snapshot in [false, true] {
        let storage = Arc::new(MemoryStorage::new());
        let db = open(&storage).unwrap();
        let texts = texts(&db);
        // The other keys have operands only, which become a value of their own.
        for key in (0..40_u32).step_by(2) {
            texts.put(key.to_be_bytes(), "base ").unwrap();
        }
        db.compact().unwrap();
        // Operands above a snapshot have no base, and are combined.
        let snapshot = keeps_snapshot.then(|| db.snapshot());
        for part in ["a", "b", "c"] {
            merge_all(&texts, part);
            db.flush().unwrap();
        }
        let expected = pairs(&db);
        let (before, old) = (copy(&*storage), tables(&*storage));
        db.compact().unwrap();
        check(&before, &new_tables(&storage, &old), &expected);
        drop(snapshot);
    }
}
