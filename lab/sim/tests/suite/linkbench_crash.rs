//! LinkBench under power losses: counts are the numbers of visible links after each.

use esker_sim::linkbench::run;
use esker_sim::settings::LogMode;

/// Power losses of each graph.
const CRASHES: u64 = 25;

#[track_caller]
fn run_all(log: LogMode) {
    let outcomes: Vec<_> = (0..4)
        .map(|seed| run(seed, log, CRASHES).unwrap_or_else(|what| panic!("{what}")))
        .collect();
    let mid_call: u64 = outcomes.iter().map(|outcome| outcome.mid_call).sum();
    let commits: u64 = outcomes.iter().map(|outcome| outcome.acknowledged).sum();
    // Seven requests of ten write nothing, so that many processes end before their power loss.
    assert!(mid_call > CRASHES / 2 && commits > 4 * CRASHES, "{outcomes:?}");
}

#[test]
fn counts_are_right_after_power_losses_with_a_synced_log() {
    run_all(LogMode::Always);
}

#[test]
fn counts_are_right_after_power_losses_with_a_log_in_persistent_memory() {
    run_all(LogMode::Pmem);
}

#[test]
fn counts_are_right_even_where_the_last_transactions_are_lost() {
    run_all(LogMode::Os);
}
