//! How long deletes stay under a space goal.

use esker_base::Rng;
use esker_base::background::Stepped;
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use std::collections::VecDeque;
use std::sync::Arc;

const KEYS: u32 = 1000;

fn open(storage: &MemoryStorage) -> Db {
    let env = Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped));
    let settings = Settings::default().log(Log::None).segment_bytes(64 << 10).memory_bytes(4 << 20);
    Db::open_with(env, settings).unwrap()
}

/// A keyspace in which there is space for much obsolete data.
fn keyspace(db: &Db, name: &str) -> Keyspace {
    let settings = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 16 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(300) })
        .compression(Compression::None);
    db.keyspace(name, settings).unwrap()
}

fn put(db: &Db, keyspace: &Keyspace, keys: std::ops::Range<u32>) {
    keys.for_each(|n| db.put(keyspace, n.to_be_bytes(), [7; 400]).unwrap());
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
}

/// Deletes in tables of the keyspace called `name`.
fn deletes(db: &Db, name: &str) -> u64 {
    let levels = db.levels();
    let tree = levels.iter().find(|tree| tree.name == name).unwrap();
    let runs = tree.levels.iter().flat_map(|level| &level.runs);
    runs.flat_map(|run| &run.tables).map(|table| table.deletes).sum()
}

#[test]
fn what_other_keyspaces_write_makes_deletes_no_older() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let (quiet, busy) = (keyspace(&db, "quiet"), keyspace(&db, "busy"));
    put(&db, &quiet, 0..KEYS);
    (0..10u32).for_each(|n| db.delete(&quiet, n.to_be_bytes()).unwrap());
    db.flush().unwrap();
    for _ in 0..5 {
        put(&db, &busy, 0..KEYS);
        put(&db, &quiet, 20..21);
    }
    assert_eq!(deletes(&db, "quiet"), 10, "five times as much was written elsewhere");
    for _ in 0..2 {
        put(&db, &quiet, 100..KEYS);
    }
    assert_eq!(deletes(&db, "quiet"), 0);
}

#[test]
fn deletes_that_an_earlier_process_wrote_are_not_taken_for_young() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let (quiet, busy) = (keyspace(&db, "quiet"), keyspace(&db, "busy"));
    put(&db, &quiet, 0..KEYS);
    (0..10u32).for_each(|n| db.delete(&quiet, n.to_be_bytes()).unwrap());
    put(&db, &busy, 0..2 * KEYS);
    db.close().unwrap();
    let db = open(&storage);
    put(&db, &db.open_keyspace("quiet").unwrap(), 20..21);
    assert_eq!(deletes(&db, "quiet"), 0, "nobody knows whose the writes since were");
}

#[test]
fn deletes_that_a_held_snapshot_sees_go_though_newer_writes_lie_beside_them() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let quiet = keyspace(&db, "quiet");
    put(&db, &quiet, 0..KEYS);
    (0..10u32).for_each(|n| db.delete(&quiet, n.to_be_bytes()).unwrap());
    let snapshot = db.snapshot();
    (10..20u32).for_each(|n| db.delete(&quiet, n.to_be_bytes()).unwrap());
    put(&db, &quiet, 20..21);
    assert_eq!(deletes(&db, "quiet"), 20, "they are young");
    (0..3).for_each(|_| put(&db, &quiet, 100..KEYS));
    assert_eq!(deletes(&db, "quiet"), 10, "those that the snapshot does not see");
    let before = db.stats().compactions;
    (0..3).for_each(|_| put(&db, &quiet, 20..21));
    assert_eq!(db.stats().compactions, before, "what cannot go is not merged in vain");
    drop(snapshot);
    (0..3).for_each(|_| put(&db, &quiet, 100..KEYS));
    assert_eq!(deletes(&db, "quiet"), 0);
}

/// Each that goes lets the deletes go that the next one sees, everywhere.
#[test]
fn snapshots_that_follow_each_other_have_no_table_rewritten_for_each_of_them() {
    const HELD: usize = 60;
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let quiet = keyspace(&db, "quiet");
    put(&db, &quiet, 0..KEYS);
    let mut rng = Rng::new(5);
    let mut held = VecDeque::new();
    for _ in 0..400 {
        for _ in 0..20 {
            db.delete(&quiet, (rng.below(KEYS.into()) as u32).to_be_bytes()).unwrap();
            let n = rng.below(KEYS.into()) as u32;
            db.put(&quiet, n.to_be_bytes(), [7; 400]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
        held.push_back(db.snapshot());
        if held.len() > HELD {
            held.pop_front();
        }
    }
    let stats = db.stats();
    let writes = stats.compaction_bytes as f64 / stats.user_bytes as f64;
    println!("{writes:.2} written by merges for each byte, {} deletes", deletes(&db, "quiet"));
    assert!(writes < 5.0, "{writes:.2} written by merges for each byte");
}
