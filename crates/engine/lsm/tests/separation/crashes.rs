//! A power loss, or a failed call, in every call while value files are written, named, collected and
//! dropped.

use crate::support::{THRESHOLD, key, long, separating};
use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::inspect::Inspector;
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use esker_storage::fault::FaultKind;
use esker_storage::{FaultStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

const OTHER: &str = "other";

/// The version of each key whose put has returned, and the put that has not.
#[derive(Default)]
struct Model {
    versions: BTreeMap<u32, u32>,
    attempted: Option<(u32, u32)>,
    /// Whether the other keyspace has its value, or was dropped. `None` while that is not known.
    other: Option<bool>,
}

fn open(disk: &FaultStorage) -> Db {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    let settings = Settings::default().log(log).segment_bytes(64 << 10).memory_bytes(8 << 20);
    Db::open_with(env, settings.max_open_files(3)).unwrap()
}

/// Overwrites keys so that a compaction drops a file, another collects one, and some values move as
/// the setting changes. Then drops another keyspace with a file.
fn run(db: &Db, model: &mut Model) -> Result<()> {
    let keyspace = db.keyspace("k", separating())?;
    for version in 0..4 {
        let keys = if version == 2 { 0..5 } else { 0..8 };
        for n in keys {
            model.attempted = Some((n, version));
            db.put(&keyspace, key(n), long(&key(n), version))?;
            model.attempted = None;
            model.versions.insert(n, version);
        }
        if version == 3 {
            db.set(&"k.separation_threshold=none".parse().unwrap())?;
        }
        db.flush()?;
        if version > 0 {
            db.compact()?;
        }
    }
    let other = db.keyspace(OTHER, separating())?;
    db.put(&other, key(0), long(OTHER, 0))?;
    model.other = Some(true);
    db.flush()?;
    model.other = None;
    db.drop_keyspace(&other)?;
    model.other = Some(false);
    Ok(())
}

fn check(disk: &FaultStorage, model: &Model, call: u64) {
    let db = open(disk);
    let Ok(keyspace) = db.open_keyspace("k") else {
        assert!(model.versions.is_empty(), "call {call}");
        return;
    };
    for n in 0..8 {
        let found = db.get(&keyspace, key(n)).unwrap_or_else(|error| panic!("{call}: {error}"));
        let found = found.map(|value| value.to_vec());
        let version = model.versions.get(&n);
        let attempted = model.attempted.filter(|(of, _)| *of == n).map(|(_, version)| version);
        let is_right = found == version.map(|version| long(&key(n), *version))
            || attempted.is_some_and(|version| found == Some(long(&key(n), version)));
        assert!(is_right, "call {call}: key {n}");
    }
    let listed = db.levels().iter().map(|tree| tree.values.files).sum::<u64>();
    let names = disk.list().unwrap();
    let there = names.iter().filter(|name| name.ends_with(".values")).count() as u64;
    assert_eq!(there, listed, "call {call}: {names:?}");
    if let Some(is_there) = model.other {
        let other = db.open_keyspace(OTHER).ok();
        let found = other.map(|other| db.get(&other, key(0)).unwrap().unwrap().to_vec());
        assert_eq!(found, is_there.then(|| long(OTHER, 0)), "call {call}");
    }
    // It goes on.
    db.put(&keyspace, key(9), vec![9; THRESHOLD as usize]).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let storage = Arc::new(disk.clone());
    let mut problems = Vec::new();
    let inspector = Inspector::of(storage.clone(), storage);
    let checked = inspector.check(&mut |problem| problems.push(problem.to_string())).unwrap();
    assert_eq!((problems, checked.strays), (Vec::new(), Vec::new()), "call {call}");
}

fn calls() -> u64 {
    let disk = FaultStorage::new(Rng::new(1));
    let db = open(&disk);
    let before = disk.operations();
    run(&db, &mut Model::default()).unwrap();
    disk.operations() - before
}

#[test]
fn a_power_loss_in_any_call_keeps_what_was_acknowledged_and_leaves_no_file() {
    let calls = calls();
    assert!(calls > 100, "{calls}");
    for call in 0..calls {
        for seed in 0..2 {
            let disk = FaultStorage::new(Rng::new(call * 7 + seed));
            let db = open(&disk);
            let mut model = Model::default();
            disk.crash_after(call);
            let _ = run(&db, &mut model);
            drop(db);
            check(&disk.crash(), &model, call);
        }
    }
}

#[test]
fn a_failed_call_and_a_kill_keep_what_was_acknowledged_and_leave_no_file() {
    for call in 0..calls() {
        let disk = FaultStorage::new(Rng::new(call));
        let db = open(&disk);
        let mut model = Model::default();
        disk.fail_after(call, FaultKind::Io);
        let _ = run(&db, &mut model);
        let disk = disk.kill();
        drop(db);
        check(&disk, &model, call);
    }
}
