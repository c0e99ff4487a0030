//! A compaction that fails or is cancelled leaves nothing behind and harms nothing.

use super::store::{Store, Write, is_cancelled};
use crate::compaction::plan::CompactionPlan;
use crate::options::settings::Shape;
use esker_base::Rng;
use esker_storage::fault::{FaultKind, FaultStorage};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A store with a plan of several output tables.
fn store_with_plan(storage: &FaultStorage) -> (Store, CompactionPlan) {
    let mut store = Store::new(Arc::new(storage.clone()), Shape::Leveled { ratio: 10 }, 4000);
    let mut rng = Rng::new(3);
    for _ in 0..4 {
        for _ in 0..200 {
            let key = format!("key/{:05}", rng.below(1000)).into_bytes();
            store.history.push(Write::Put(key, vec![b'v'; 30]));
        }
        store.flush();
    }
    let plan = store.pick().expect("level 0 is full");
    (store, plan)
}

#[test]
fn a_failed_compaction_removes_its_files() {
    let mut failures = 0;
    for calls in 0.. {
        let storage = FaultStorage::new(Rng::new(1));
        let (mut store, plan) = store_with_plan(&storage);
        storage.fail_after(calls, FaultKind::NoSpace);
        let Err(error) = store.execute(&plan, 1) else { break };
        assert!(error.io_kind().is_some(), "{error}");
        store.check_files();
        failures += 1;
        store.run(&plan, 1);
        drop(plan);
        store.check_readers("after a retry");
        store.check_files();
    }
    assert!(failures > 10, "only {failures} calls were made to fail");
}

#[test]
fn a_cancelled_compaction_removes_its_files() {
    let storage = FaultStorage::new(Rng::new(1));
    let (mut store, plan) = store_with_plan(&storage);
    store.cancelled.store(true, Ordering::Relaxed);
    assert!(is_cancelled(&store.execute(&plan, 1)));
    store.check_files();
    store.cancelled.store(false, Ordering::Relaxed);
    store.run(&plan, 1);
    store.check_readers("after a retry");
}

#[test]
fn outputs_survive_power_loss_once_a_compaction_has_returned() {
    let storage = FaultStorage::new(Rng::new(1));
    let (store, plan) = store_with_plan(&storage);
    let outcome = store.execute(&plan, 1).unwrap();
    assert!(outcome.outputs.len() > 2);
    for seed in 0..20 {
        let image = storage.crash_image(Rng::new(seed));
        for meta in &outcome.outputs {
            let name = crate::version::table_file_name(meta.id.file);
            assert_eq!(image.read_all(&name), storage.read_all(&name), "seed {seed}");
        }
    }
}

#[test]
fn an_outcome_accounts_for_what_was_read_written_and_freed() {
    let storage = FaultStorage::new(Rng::new(1));
    let (store, plan) = store_with_plan(&storage);
    let outcome = store.execute(&plan, 1).unwrap();
    assert_eq!(outcome.read_bytes, plan.input_bytes());
    let written: u64 = outcome.outputs.iter().map(|meta| meta.bytes).sum();
    assert_eq!(outcome.written_bytes, written);
    let entries: u64 = plan.tables().map(|table| table.meta.entries).sum();
    assert_eq!(outcome.entries_in, entries);
    let distinct = store.expected(u64::MAX).len() as u64;
    assert_eq!(outcome.entries_out, distinct);
    let duplicates = 1.0 - distinct as f64 / entries as f64;
    let predicted = outcome.predicted_reclaim_bytes as f64 / outcome.read_bytes as f64;
    assert!((predicted - duplicates).abs() < 0.02, "{predicted} of {duplicates} was predicted");
    let in_parts = store.execute(&plan, 3).unwrap();
    assert_eq!((in_parts.entries_in, in_parts.entries_out), (entries, distinct));
    assert_eq!(in_parts.read_bytes, outcome.read_bytes);
}
