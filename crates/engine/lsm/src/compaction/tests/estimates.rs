//! Compares what compactions are expected to free with what they free.

use super::store::{Store, Write};
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason, Cutting};
use crate::options::settings::Shape;
use esker_base::Rng;
use esker_storage::fault::FaultStorage;
use std::sync::Arc;

/// So many runs of so many keys, none of them twice, and the plan to merge them where they are, above an older
/// one: at the bottom seqnos go, too.
fn distinct_keys(runs: usize, keys: u64, cutting: Option<Cutting>) -> (Store, CompactionPlan) {
    let storage = Arc::new(FaultStorage::new(Rng::new(1)));
    let mut store = Store::new(storage, Shape::Tiered { runs: 32 }, 1 << 20);
    let mut rng = Rng::new(5);
    let ends = [vec![0], vec![0xff; 11]];
    store.history.extend(ends.map(|key| Write::Put(key, Vec::new())));
    store.flush();
    for _ in 0..runs {
        for _ in 0..keys {
            let mut key = vec![0; 10];
            rng.fill(&mut key);
            store.history.push(Write::Put(key, vec![b'v'; 200]));
        }
        store.flush();
    }
    let keyspace = store.keyspace();
    let inputs: Vec<_> =
        keyspace.levels[0].runs[..runs].iter().map(|run| CompactionInput::whole(0, run)).collect();
    let oldest = inputs[runs - 1].run;
    let plan = CompactionPlan::new(
        keyspace,
        inputs,
        0,
        oldest,
        CompactionReason::OverlappingRuns,
        store.sizes,
    );
    let mut plan = plan.expect("there are inputs");
    plan.cutting = cutting;
    (store, plan)
}

#[test]
fn without_garbage_a_merge_is_expected_to_free_what_fewer_tables_have_beside_keys() {
    let one_table = Cutting { keys: Vec::new(), least_bytes: 0, most_bytes: u64::MAX };
    let (store, plan) = distinct_keys(12, 400, Some(one_table));
    let outcome = store.execute(&plan, 1).unwrap();
    assert_eq!(outcome.entries_out, outcome.entries_in);
    let (expected, freed) = (outcome.predicted_reclaim_bytes, outcome.freed_bytes());
    assert!(freed > 10_000, "{freed}");
    assert!(expected.abs_diff(freed) * 5 < freed, "{expected} of {freed} B were expected");
}

#[test]
fn cuts_say_how_many_tables_to_expect() {
    let cutting = |cuts: usize, least_bytes, most_bytes| Cutting {
        keys: vec![vec![0]; cuts],
        least_bytes,
        most_bytes,
    };
    let tables = |cuts, least, most| cutting(cuts, least, most).expected_tables(1200.0);
    assert_eq!(tables(0, 0, u64::MAX), 1.0);
    assert_eq!(tables(3, 0, u64::MAX), 4.0, "one from each cut to the next");
    assert_eq!(tables(11, 250, 1000), 4.0, "three pieces are large enough to end");
    assert_eq!(tables(3, 0, 100), 12.0, "larger ones are cut between keys");
    assert_eq!(tables(3, 5000, u64::MAX), 1.0, "never less than one");
    assert_eq!(cutting(3, 100, 200).expected_tables(0.0), 1.0);
}
