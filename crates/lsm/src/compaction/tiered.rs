//! The tiered picker: up to a number of runs a level; a full level becomes one run of the next.
//!
//! The new run is the newest of its level, for all that was there came from the same level before. A
//! full last level is merged in place. Shallow levels go first: they fill soonest and their merges
//! are the shortest.
//!
//! A level with a lost table is where its runs end: it can't be merged whole, and nothing may pass that table. Its other
//! runs are merged with each other, where they are alike.

use super::alike::{is_lost, merge_alike, runs_alike, stuck_level_0};
use super::busy::Busy;
use super::pick::Debt;
use super::plan::{Plan, PlanInput, Reason};
use super::sizes::Sizes;
use crate::version::{KeyspaceVersion, LEVELS, Level};

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
    if is_stuck(&keyspace.levels[level]) {
        return merge_alike(keyspace, level, Reason::RunsFull, sizes);
    }
    let runs = &keyspace.levels[level].runs;
    let inputs = runs.iter().map(|run| PlanInput::whole(level, run)).collect();
    let output_level = (level + 1).min(LEVELS - 1);
    Plan::new(keyspace, inputs, output_level, runs.first()?.id, Reason::RunsFull, sizes)
}

/// Whether a lost table keeps the level from being merged whole.
pub(super) fn is_stuck(level: &Level) -> bool {
    level.runs.iter().any(|run| is_lost(run))
}

pub(super) fn debt(keyspace: &KeyspaceVersion, runs: usize) -> Debt {
    let mut bytes = 0;
    let mut arriving = (0, 0);
    for level in &keyspace.levels {
        if is_stuck(level) {
            let alike = runs_alike(&level.runs).filter(|_| level.runs.len() >= runs);
            bytes += alike.unwrap_or_default().iter().map(|run| run.bytes()).sum::<u64>();
            arriving = (0, 0);
            continue;
        }
        let (count, held) = (level.runs.len() + arriving.0, level.bytes() + arriving.1);
        arriving = (0, 0);
        if count >= runs {
            bytes += held;
            arriving = (1, held);
        }
    }
    let level_0 = &keyspace.levels[0];
    let level_0_runs = match is_stuck(level_0) {
        true => stuck_level_0(keyspace, runs).level_0_runs,
        false => level_0.runs.len(),
    };
    Debt { level_0_runs, level_0_trigger: runs, bytes }
}
