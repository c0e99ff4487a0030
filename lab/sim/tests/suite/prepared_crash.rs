//! Two-phase commits under power losses: each transaction is prepared, with its locks, or decided as
//! a whole.

use esker_sim::prepared::{Outcome, run};
use esker_sim::settings::LogMode;

/// Power losses of each client.
const CRASHES: u64 = 60;

fn run_all(log: LogMode) {
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let run = |seed| move || run(seed, log, CRASHES).unwrap_or_else(|what| panic!("{what}"));
        let clients: Vec<_> = (0..8).map(|seed| scope.spawn(run(seed))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let crashes = sum(|outcome| outcome.crashes);
    assert_eq!(crashes, 8 * CRASHES);
    assert!(sum(|outcome| outcome.at_open) > crashes / 50, "{outcomes:?}");
    assert!(sum(|outcome| outcome.prepared) > crashes, "{outcomes:?}");
    assert!(sum(|outcome| outcome.decided) > crashes / 2, "{outcomes:?}");
    assert!(sum(|outcome| outcome.found) > crashes / 2, "{outcomes:?}");
    assert!(sum(|outcome| outcome.done) > crashes / 50, "{outcomes:?}");
    assert!(sum(|outcome| outcome.undone) > crashes / 20, "{outcomes:?}");
    assert!(sum(|outcome| outcome.flushes) > crashes / 10, "{outcomes:?}");
}

#[test]
fn with_a_synced_log_each_is_prepared_or_decided() {
    run_all(LogMode::Always);
}

/// Prepares and decisions are synced whatever the log's mode is.
#[test]
fn with_a_log_that_is_not_synced_each_is_prepared_or_decided() {
    run_all(LogMode::Os);
}

#[test]
fn with_a_log_in_persistent_memory_each_is_prepared_or_decided() {
    run_all(LogMode::Pmem);
}
