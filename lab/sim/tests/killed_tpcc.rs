//! TPC-C in real processes, killed while their clients trade.

use esker_sim::kill::Place;
use esker_sim::killed_tpcc;
use std::path::Path;

/// Kills so few that the test stays short; `esker-sim kill --tpcc` does more.
const ROUNDS: u64 = 4;

#[track_caller]
fn survives(pool: Option<&Path>) {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_esker-sim"));
    let place = Place { dir: &dir.path().join("db"), pool };
    let seen = killed_tpcc::run(program, place, ROUNDS, 5).unwrap();
    assert_eq!(seen.rounds, ROUNDS);
    assert!(seen.acknowledged > 100, "{seen:?}");
}

#[test]
fn conditions_hold_and_nothing_acknowledged_is_missing_from_a_synced_log() {
    survives(None);
}

#[test]
fn conditions_hold_and_nothing_acknowledged_is_missing_from_a_pool() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    survives(Some(&memory.path().join("pool")));
}
