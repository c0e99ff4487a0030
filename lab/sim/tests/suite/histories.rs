//! Random histories with everything that can go wrong.

use esker_lsm::compaction::plan::CompactionReason;
use esker_sim::campaign;
use esker_sim::harness::Outcome;
use esker_sim::operations::History;

const SEEDS: u64 = 800;
const DEEP_SEEDS: u64 = 100;

fn run(seeds: u64, draw: fn(u64) -> History) -> Outcome {
    campaign::run_all(0..seeds, 2, draw).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn every_history_keeps_its_promises() {
    let total = run(SEEDS, History::draw);
    println!("{total:#?}");
    let by_hand = total.compactions_done.of(CompactionReason::Manual);
    assert!(by_hand.down > SEEDS && by_hand.in_place > 0, "{total:?}");
    assert!(total.large_values > SEEDS / 10, "{total:?}");
    assert!(total.ingests > SEEDS && total.failed_ingests_found > 0, "{total:?}");
    // The histories are worth running only if things happen in them.
    assert!(total.crashes > SEEDS && total.failed_logs > 0, "{total:?}");
    assert!(total.flushes > SEEDS && total.compactions > SEEDS, "{total:?}");
    assert!(total.excused > SEEDS, "{total:?}");
    assert!(total.cut_off > SEEDS / 10 && total.refused > 0, "{total:?}");
    assert!(total.pool_flushes > SEEDS && total.dram_hits > SEEDS, "{total:?}");
    assert!(total.separated_values > 10 * SEEDS, "{total:?}");
}

#[test]
fn deep_trees_keep_their_promises_and_see_every_kind_of_compaction() {
    let total = run(DEEP_SEEDS, History::draw_deep);
    println!("{total:#?}");
    for (reason, done) in total.compactions_done.iter() {
        // Nobody asks for any here.
        let is_none = done.down + done.in_place + done.dropped == 0;
        assert_eq!(is_none, reason == CompactionReason::Manual, "{reason}: {total:?}");
    }
    let deduplicated = total.compactions_done.of(CompactionReason::Duplicates);
    assert!(deduplicated.down > 0 && deduplicated.in_place > 0, "{total:?}");
    // A power loss before a deferred install is rarer than one in so many seeds. It leaves what one after any
    // output leaves: tables that no manifest lists.
    assert!(total.deferrals > 0, "{total:?}");
}

#[test]
fn one_seed_has_one_outcome() {
    for seed in 0..20 {
        let history = History::draw(seed);
        assert_eq!(campaign::run(&history).unwrap(), campaign::run(&history).unwrap());
    }
}
