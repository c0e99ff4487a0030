//! Indexes and compaction filters under power losses: an index has the keys of the rows, and a filter
//! shows nothing but what it makes of the newest version.

use esker_sim::derived::{Outcome, run};
use esker_sim::settings::LogMode;

/// Power losses of each client.
const CRASHES: u64 = 40;
const CLIENTS: u64 = 6;

fn run_all(log: LogMode) {
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let run = |seed| move || run(seed, log, CRASHES).unwrap_or_else(|what| panic!("{what}"));
        let clients: Vec<_> = (0..CLIENTS).map(|seed| scope.spawn(run(seed))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let crashes = sum(|outcome| outcome.crashes);
    assert_eq!(crashes, CLIENTS * CRASHES);
    assert!(sum(|outcome| outcome.at_open) > crashes / 20, "{outcomes:?}");
    assert!(sum(|outcome| outcome.refused) > crashes / 4, "{outcomes:?}");
    assert!(sum(|outcome| outcome.dropped) > crashes / 4, "{outcomes:?}");
    assert!(sum(|outcome| outcome.compared) > crashes, "{outcomes:?}");
    assert!(sum(|outcome| outcome.unready) > crashes / 20, "{outcomes:?}");
    assert!(sum(|outcome| outcome.filtered_out) > crashes, "{outcomes:?}");
    assert!(sum(|outcome| outcome.replaced) > crashes, "{outcomes:?}");
    assert!(sum(|outcome| outcome.done) > 0, "{outcomes:?}");
    assert!(sum(|outcome| outcome.undone) > crashes / 50, "{outcomes:?}");
    assert!(sum(|outcome| outcome.flushes) > crashes, "{outcomes:?}");
    assert!(sum(|outcome| outcome.compactions) > crashes, "{outcomes:?}");
}

#[test]
fn with_a_synced_log_indexes_and_filters_keep_their_promises() {
    run_all(LogMode::Always);
}

#[test]
fn with_a_log_that_is_not_synced_indexes_and_filters_keep_their_promises() {
    run_all(LogMode::Os);
}

#[test]
fn with_a_log_in_persistent_memory_indexes_and_filters_keep_their_promises() {
    run_all(LogMode::Pmem);
}
