//! The duplicate rates of levels, which level deduplication goes by, across opens: they are worked out from
//! what tables record of themselves, so that a process that opens a database goes on as the one before would have.

use esker_base::Rng;
use esker_base::background::Stepped;
use esker_lsm::{Db, Dedup, Env, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::MemoryStorage;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A level of three runs is full.
const SHAPE: Shape = Shape::Tiered { runs: 3 };
const KEYS: u64 = 2000;

fn open(storage: &MemoryStorage) -> Db {
    let env = Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped));
    Db::open_with(env, Settings::default().log(Log::None)).unwrap()
}

/// Writes a run of `writes` keys at random, and gives them.
fn add_run(db: &Db, rng: &mut Rng, writes: u64) -> BTreeSet<u64> {
    let keyspace = db.open_keyspace("load").unwrap();
    let keys: BTreeSet<u64> = (0..writes).map(|_| rng.below(KEYS)).collect();
    for key in &keys {
        db.put(&keyspace, key.to_be_bytes(), [7; 50]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    keys
}

/// The keyspace's levels, by how many runs they have and their rate.
fn rates(db: &Db) -> Vec<(usize, f64)> {
    let tree = db.levels().into_iter().find(|tree| tree.name == "load").unwrap();
    tree.levels.iter().map(|it| (it.runs.len(), it.duplicate_rate.unwrap())).collect()
}

/// How many keys there are in `runs`, for each distinct one.
fn exact_rate(runs: [&BTreeSet<u64>; 2]) -> f64 {
    let [a, b] = runs;
    (a.len() + b.len()) as f64 / a.union(b).count() as f64
}

fn joined(runs: &[BTreeSet<u64>]) -> BTreeSet<u64> {
    runs.iter().flatten().copied().collect()
}

#[test]
fn levels_repeat_themselves_as_much_after_an_open_as_before_the_close() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let dedup = Dedup::PerLevel { threshold: Ratio::of_hundredths(180) };
    let settings = KeyspaceSettings::default().shape(SHAPE).dedup(dedup);
    db.keyspace("load", settings).unwrap();
    let mut rng = Rng::new(3);
    let runs: Vec<_> = (0..8).map(|_| add_run(&db, &mut rng, 900)).collect();
    let before = rates(&db);
    let expected =
        [exact_rate([&runs[7], &runs[6]]), exact_rate([&joined(&runs[3..6]), &joined(&runs[..3])])];
    assert_eq!(before.len(), 2, "{before:?}");
    for ((runs, rate), expected) in before.iter().zip(expected) {
        // Three standard errors of a counter of 4,096 registers.
        assert_eq!(*runs, 2);
        assert!((rate / expected - 1.0).abs() < 0.05, "{rate}, not {expected}");
    }
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(rates(&db), before);
}

/// Two runs alike reach the threshold, one of them written before the close.
#[test]
fn a_level_that_repeats_what_it_had_before_an_open_is_merged() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let dedup = Dedup::PerLevel { threshold: Ratio::of_hundredths(180) };
    let settings = KeyspaceSettings::default().shape(SHAPE).dedup(dedup);
    db.keyspace("load", settings).unwrap();
    let keys = add_run(&db, &mut Rng::new(3), 900);
    assert_eq!(rates(&db), [(1, 1.0)]);
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(add_run(&db, &mut Rng::new(3), 900), keys);
    assert_eq!((rates(&db), db.stats().compactions), (vec![(1, 1.0)], 1));
}
