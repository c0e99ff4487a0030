//! Random histories with everything that can go wrong.

use esker_sim::campaign;
use esker_sim::operations::History;

const SEEDS: u64 = 2000;

#[test]
fn every_history_keeps_its_promises() {
    let total =
        campaign::run_all(0..SEEDS, 2, History::draw).unwrap_or_else(|report| panic!("{report}"));
    // The histories are worth running only if things happen in them.
    assert!(total.crashes > SEEDS && total.failed_logs > 0, "{total:?}");
    assert!(total.flushes > SEEDS && total.compactions > SEEDS, "{total:?}");
    assert!(total.excused > SEEDS, "{total:?}");
    assert!(total.cut_off > SEEDS / 10 && total.refused > 0, "{total:?}");
    assert!(total.pool_flushes > SEEDS && total.dram_hits > SEEDS, "{total:?}");
}

#[test]
fn one_seed_has_one_outcome() {
    for seed in 0..20 {
        let history = History::draw(seed);
        assert_eq!(campaign::run(&history).unwrap(), campaign::run(&history).unwrap());
    }
}
