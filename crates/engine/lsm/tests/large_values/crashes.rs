//! A power loss, or a failed call, in every call while large values are written, replaced and deleted.

use crate::support::{large, problems, settings};
use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, SyncPolicy};
use esker_storage::fault::FaultKind;
use esker_storage::{FaultStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

const BYTES: usize = 300_000;

type Rows = BTreeMap<&'static str, Vec<u8>>;

/// What the writes that have returned left, and what it is if the one that has not is there.
#[derive(Default)]
struct Model {
    rows: Rows,
    attempted: Option<Rows>,
}

fn open(disk: &FaultStorage, sync: SyncPolicy) -> Db {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
    let log = Log::File { dir: None, sync };
    Db::open_with(env, settings().log(log).max_open_files(3)).unwrap()
}

fn run(db: &Db, model: &mut Model) -> Result<()> {
    let keyspace = db.keyspace("k", KeyspaceSettings::default())?;
    let mut change = |puts: &[(&'static str, Vec<u8>)], deletes: &[&'static str]| -> Result<()> {
        let mut rows = model.rows.clone();
        rows.extend(puts.iter().cloned());
        rows.retain(|key, _| !deletes.contains(key));
        model.attempted = Some(rows.clone());
        match (puts, deletes) {
            ([(key, value)], []) => keyspace.put_reader(key, &value[..]).map(|_| ())?,
            _ => {
                let mut batch = db.batch();
                puts.iter().for_each(|(key, value)| batch.put(&keyspace, key, value));
                deletes.iter().for_each(|key| batch.delete(&keyspace, key));
                db.write(&batch)?;
            }
        }
        (model.rows, model.attempted) = (rows, None);
        Ok(())
    };
    change(&[("small", b"1".to_vec())], &[])?;
    change(&[("a", large("a", BYTES))], &[])?;
    change(&[("small", b"2".to_vec())], &[])?;
    change(&[("a", large("again", BYTES))], &[])?;
    db.compact()?;
    change(&[("b", large("b", BYTES)), ("c", large("c", BYTES)), ("d", vec![4])], &["a", "small"])?;
    change(&[("b", b"now it is small".to_vec())], &[])?;
    db.compact()?;
    change(&[], &["c"])?;
    db.compact()
}

fn check(disk: &FaultStorage, model: &Model, call: u64, sync: SyncPolicy) {
    let db = open(disk, sync);
    let Ok(keyspace) = db.open_keyspace("k") else {
        assert!(model.rows.is_empty(), "call {call}");
        return;
    };
    let rows: Vec<_> = keyspace
        .iter()
        .map(|row| row.unwrap_or_else(|error| panic!("call {call}: {error}")))
        .map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value.to_vec()))
        .collect();
    let is = |expected: &Rows| {
        let expected = expected.iter().map(|(key, value)| (key.to_string(), value.clone()));
        rows == expected.collect::<Vec<_>>()
    };
    let keys = || rows.iter().map(|(key, value)| (key, value.len())).collect::<Vec<_>>();
    assert!(is(&model.rows) || model.attempted.as_ref().is_some_and(is), "{call}: {:?}", keys());
    let listed = db.levels().iter().map(|tree| tree.values.files).sum::<u64>();
    let names = disk.list().unwrap();
    let there = names.iter().filter(|name| name.ends_with(".values")).count() as u64;
    let left = names.iter().any(|name| name.ends_with(".ingest") || name.starts_with("lost"));
    assert!(there == listed && !left, "call {call}: {names:?}");
    // It goes on.
    keyspace.put_reader("later", &large("later", BYTES)[..]).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    assert_eq!(problems(&Arc::new(disk.clone())), [""; 0], "call {call}");
}

fn calls(sync: SyncPolicy) -> u64 {
    let disk = FaultStorage::new(Rng::new(1));
    let db = open(&disk, sync);
    let before = disk.operations();
    run(&db, &mut Model::default()).unwrap();
    disk.operations() - before
}

#[test]
fn a_power_loss_in_any_call_keeps_what_was_acknowledged_and_leaves_no_file() {
    let calls = calls(SyncPolicy::Always);
    assert!(calls > 100, "{calls}");
    for call in 0..calls {
        for seed in 0..2 {
            let disk = FaultStorage::new(Rng::new(call * 7 + seed));
            let db = open(&disk, SyncPolicy::Always);
            let mut model = Model::default();
            disk.crash_after(call);
            let _ = run(&db, &mut model);
            drop(db);
            check(&disk.crash(), &model, call, SyncPolicy::Always);
        }
    }
}

#[test]
fn a_failed_call_and_a_kill_keep_what_was_acknowledged_and_leave_no_file() {
    for sync in [SyncPolicy::Always, SyncPolicy::Os] {
        for call in 0..calls(sync) {
            let disk = FaultStorage::new(Rng::new(call));
            let db = open(&disk, sync);
            let mut model = Model::default();
            disk.fail_after(call, FaultKind::Io);
            let _ = run(&db, &mut model);
            let disk = disk.kill();
            drop(db);
            check(&disk, &model, call, sync);
        }
    }
}

/// Whatever the mode of the log: a large value and all before it survive.
#[test]
fn a_large_value_survives_a_power_loss_in_every_mode_of_the_log() {
    for sync in [SyncPolicy::Os, SyncPolicy::Always] {
        let disk = FaultStorage::new(Rng::new(5));
        let db = open(&disk, sync);
        let keyspace = db.default_keyspace();
        keyspace.put("before", b"1").unwrap();
        keyspace.put_reader("v", &large("v", BYTES)[..]).unwrap();
        let disk = disk.crash();
        drop((keyspace, db));
        let db = open(&disk, sync);
        assert_eq!(db.default_keyspace().get("before").unwrap().unwrap(), b"1");
        assert!(db.default_keyspace().get("v").unwrap().unwrap() == large("v", BYTES)[..]);
    }
}
