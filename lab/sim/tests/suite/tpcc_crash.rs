//! TPC-C under power losses: the specification's conditions hold after each, and nothing that was
//! acknowledged is missing.

use esker_sim::settings::LogMode;
use esker_sim::tpcc::{Outcome, run};

/// Power losses of each company.
const CRASHES: u64 = 25;

fn run_all(log: LogMode, seeds: u64) -> Vec<Outcome> {
    std::thread::scope(|scope| {
        let run = |seed| move || run(seed, log, CRASHES).unwrap_or_else(|what| panic!("{what}"));
        let companies: Vec<_> = (0..seeds).map(|seed| scope.spawn(run(seed))).collect();
        companies.into_iter().map(|company| company.join().unwrap()).collect()
    })
}

#[track_caller]
fn expect_worth_it(outcomes: &[Outcome]) {
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let crashes = sum(|outcome| outcome.crashes);
    assert_eq!(crashes, CRASHES * outcomes.len() as u64);
    assert!(sum(|outcome| outcome.mid_call) > crashes / 3, "{outcomes:?}");
    assert!(sum(|outcome| outcome.at_open) > crashes / 50, "{outcomes:?}");
    assert!(sum(|outcome| outcome.acknowledged) > 5 * crashes, "{outcomes:?}");
    assert!(sum(|outcome| outcome.flushes) > crashes / 10, "{outcomes:?}");
}

#[test]
fn two_hundred_power_losses_with_a_synced_log_cost_nothing_acknowledged() {
    expect_worth_it(&run_all(LogMode::Always, 8));
}

#[test]
fn two_hundred_power_losses_with_a_log_in_persistent_memory_cost_nothing_acknowledged() {
    expect_worth_it(&run_all(LogMode::Pmem, 8));
}

#[test]
fn one_seed_has_one_outcome() {
    let twice = [(); 2].map(|()| run(3, LogMode::Always, 5).unwrap());
    assert_eq!(twice[0], twice[1]);
}

#[test]
fn what_a_log_that_is_not_synced_loses_is_found_missing() {
    // Whole transactions go, from the newest on: so the conditions hold, and transactions are missed.
    let what = (0..4).find_map(|seed| run(seed, LogMode::Os, CRASHES).err()).unwrap();
    assert!(what.contains("was acknowledged and is missing"), "{what}");
    assert!(!what.contains("condition"), "{what}");
}
