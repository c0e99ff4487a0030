//! Real processes, killed while they write.

use esker_sim::kill::{self, Place};
use std::path::Path;

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_esker-sim"));
    let place = Place { dir: &dir.path().join("db"), pool: None };
    let seen = kill::run(program, place, 8, 3).unwrap();
    assert_eq!(seen.rounds, 8);
    assert!(seen.batches > 0, "{seen:?}");
}

#[test]
fn what_a_killed_process_acknowledged_is_in_its_pool() {
    let dir = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_esker-sim"));
    let pool = memory.path().join("pool");
    let place = Place { dir: &dir.path().join("db"), pool: Some(&pool) };
    let seen = kill::run(program, place, 12, 4).unwrap();
    assert_eq!(seen.rounds, 12);
    assert!(seen.batches > 1000, "{seen:?}");
}
