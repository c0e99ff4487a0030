//! The tiered picker: up to a number of runs a level; a full level becomes one run of the next.
//!
//! The new run is the newest of its level, for all that was there came from the same level before. A
//! full last level is merged in place. Shallow levels go first: they fill soonest and their merges
//! are the shortest.
//!
//! Where an unreadable table is in the way, the merge goes around it (`detour`), and runs that can't go on are merged with
//! each other where they are alike.

use super::alike::{has_unreadable, merge_alike, runs_alike, stuck_level_0};
use super::busy::Busy;
use super::detour::Detour;
use super::pick::Debt;
use super::plan::{Plan, PlanInput, Reason};
use super::sizes::Sizes;
use crate::version::{KeyspaceVersion, LEVELS, Run};
use std::sync::Arc;

pub(super) fn pick(
    keyspace: &KeyspaceVersion,
    runs: usize,
    busy: &Busy,
    sizes: Sizes,
) -> Option<Plan> {
    let mut plans = (0..LEVELS).filter_map(|level| merge_level(keyspace, level, runs, sizes));
    plans.find(|plan| busy.permits(plan))
}

/// Merges the runs of `level` if there are `most` that can go on, or those that are alike of as many that can't.
fn merge_level(
    keyspace: &KeyspaceVersion,
    level: usize,
    most: usize,
    sizes: Sizes,
) -> Option<Plan> {
    let detour = detour(keyspace, level);
    let runs = &keyspace.levels[level].runs;
    match detour.filter(|detour| detour.runs.len() >= most) {
        Some(detour) => go_on(keyspace, level, &detour, Reason::RunsFull, sizes),
        None => {
            let stuck = stuck(keyspace, level, most);
            let is_full = stuck.len() >= most && has_obstacle(runs);
            is_full.then(|| merge_alike(keyspace, level, stuck, Reason::RunsFull, sizes)).flatten()
        }
    }
}

/// Merges the runs of a detour into one of the next level, or of the last.
pub(super) fn go_on(
    keyspace: &KeyspaceVersion,
    level: usize,
    detour: &Detour<'_>,
    reason: Reason,
    sizes: Sizes,
) -> Option<Plan> {
    let inputs = detour.runs.iter().map(|run| PlanInput::whole(level, run)).collect();
    let output = ((level + 1).min(LEVELS - 1), detour.runs.first()?.id);
    Plan::holding_back(keyspace, inputs, output, detour.held_back.clone(), reason, sizes)
}

/// The runs of `level` that can go on to the next. In the last level, which is merged in place, no more than lie in a row.
pub(super) fn detour(keyspace: &KeyspaceVersion, level: usize) -> Option<Detour<'_>> {
    let runs = &keyspace.levels[level].runs;
    let detour = Detour::of(runs, &[]);
    detour.filter(|detour| level < LEVELS - 1 || detour.held_back.is_empty())
}

fn stuck(keyspace: &KeyspaceVersion, level: usize, least: usize) -> &[Arc<Run>] {
    let runs = &keyspace.levels[level].runs;
    Detour::stuck(detour(keyspace, level).as_ref(), runs, least)
}

/// Whether an unreadable table is in a level's way.
pub(super) fn has_obstacle(runs: &[Arc<Run>]) -> bool {
    runs.iter().any(|run| has_unreadable(run))
}

pub(super) fn debt(keyspace: &KeyspaceVersion, runs: usize) -> Debt {
    let mut bytes = 0;
    let mut arriving = (0, 0);
    let bytes_of = |runs: &[Arc<Run>]| runs.iter().map(|run| run.bytes()).sum::<u64>();
    for (at, level) in keyspace.levels.iter().enumerate() {
        let mut moving = &level.runs[..];
        if has_obstacle(&level.runs) {
            moving = detour(keyspace, at).map_or(&[], |detour| detour.runs);
            let stuck = stuck(keyspace, at, runs);
            let alike = runs_alike(stuck).filter(|_| stuck.len() >= runs);
            bytes += bytes_of(alike.unwrap_or_default());
        }
        let (count, held) = (moving.len() + arriving.0, bytes_of(moving) + arriving.1);
        arriving = (0, 0);
        if count >= runs {
            bytes += held;
            arriving = (1, held);
        }
    }
    let level_0_runs = match has_obstacle(&keyspace.levels[0].runs) {
        true => {
            let moving = detour(keyspace, 0).map_or(0, |detour| detour.runs.len());
            stuck_level_0(stuck(keyspace, 0, runs), runs).level_0_runs.max(moving)
        }
        false => keyspace.levels[0].runs.len(),
    };
    Debt { level_0_runs, level_0_trigger: runs, bytes }
}
