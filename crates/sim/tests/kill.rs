//! Real processes, killed while they write.

use esker_sim::kill;
use std::path::Path;

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_esker-sim"));
    let seen = kill::run(program, &dir.path().join("db"), 8, 3).unwrap();
    assert_eq!(seen.rounds, 8);
    assert!(seen.batches > 0, "{seen:?}");
}
