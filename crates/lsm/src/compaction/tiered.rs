//! The tiered picker: up to a number of runs a level; a full level becomes one run of the next.
//!
//! The new run is the newest of its level, for all that was there came from the same level before. A
//! full last level is merged in place. Shallow levels go first: they fill soonest and their merges
//! are the shortest.

use super::busy::Busy;
use super::pick::Debt;
use super::plan::{Plan, PlanInput, Reason};
use super::sizes::Sizes;
use crate::version::{KeyspaceVersion, LEVELS};

pub(super) fn pick(
    keyspace: &KeyspaceVersion,
    runs: usize,
    busy: &Busy,
    sizes: Sizes,
) -> Option<Plan> {
    let full = (0..LEVELS).filter(|&level| keyspace.levels[level].runs.len() >= runs);
    let mut plans = full.filter_map(|level| merge_level(keyspace, level, sizes));
    plans.find(|plan| busy.permits(plan))
}

fn merge_level(keyspace: &KeyspaceVersion, level: usize, sizes: Sizes) -> Option<Plan> {
    let runs = &keyspace.levels[level].runs;
    let inputs = runs.iter().map(|run| PlanInput::whole(level, run)).collect();
    let output_level = (level + 1).min(LEVELS - 1);
    Plan::new(keyspace, inputs, output_level, runs.first()?.id, Reason::RunsFull, sizes)
}

pub(super) fn debt(keyspace: &KeyspaceVersion, runs: usize) -> Debt {
    let mut bytes = 0;
    let mut arriving = (0, 0);
    for level in &keyspace.levels {
        let (count, held) = (level.runs.len() + arriving.0, level.bytes() + arriving.1);
        arriving = (0, 0);
        if count >= runs {
            bytes += held;
            arriving = (1, held);
        }
    }
    Debt { level_0_runs: keyspace.levels[0].runs.len(), level_0_trigger: runs, bytes }
}
