//! The tiered picker: a level may have several runs; a full level becomes one run of the next.
//!
//! The new run is the newest of its level, since all earlier ones came from the same level before.
//! A full last level is compacted in place. Shallow levels go first: they fill soonest and their
//! compactions are the shortest.
//!
//! If an unreadable table is in the way, the compaction goes around it (`detour`). Blocked runs of
//! similar size are compacted with each other.

use super::intra_level::{merge_alike, stuck_debt};
use crate::compaction::debt::CompactionDebt;
use crate::compaction::detour::Detour;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::options::sizes::SizeTargets;
use crate::version::{KeyspaceVersion, LEVELS, Run};
use std::sync::Arc;

pub(in crate::compaction) fn pick(
    keyspace: &KeyspaceVersion,
    runs: usize,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let mut plans = (0..LEVELS).filter_map(|level| merge_level(keyspace, level, runs, sizes));
    plans.find(|plan| busy.permits(plan))
}

/// Merges the runs of `level` that can go on, if there are `most` of them or of those that wait for
/// them. Else merges those that are alike of as many that can't.
pub(in crate::compaction) fn merge_level(
    keyspace: &KeyspaceVersion,
    level: usize,
    most: usize,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let runs = &keyspace.levels[level].runs;
    let detour = detour(keyspace, level, most);
    let stuck = Detour::stuck(detour.as_ref(), runs);
    match detour.filter(|detour| detour.runs.len() >= most || detour.from >= most) {
        Some(detour) => go_on(keyspace, level, &detour, CompactionReason::RunsFull, sizes),
        None => {
            let is_full = stuck.len() >= most && has_obstacle(runs);
            is_full
                .then(|| merge_alike(keyspace, level, stuck, CompactionReason::RunsFull, sizes))
                .flatten()
        }
    }
}

/// Merges the runs of a detour into one of the next level, or of the last.
pub(in crate::compaction) fn go_on(
    keyspace: &KeyspaceVersion,
    level: usize,
    detour: &Detour<'_>,
    reason: CompactionReason,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let mut inputs: Vec<_> =
        detour.runs.iter().map(|run| CompactionInput::whole(level, run)).collect();
    let output_level = (level + 1).min(LEVELS - 1);
    let newest = detour.runs.first()?.id;
    let joined = joined(keyspace, level, newest);
    inputs.extend(joined.and_then(|run| detour.joined(output_level, run)));
    let output = (output_level, joined.map_or(newest, |run| run.id));
    CompactionPlan::holding_back(keyspace, inputs, output, detour.held_back.clone(), reason, sizes)
}

/// The run of the next level that runs of `level`, the newest of which is `newest`, join. There is
/// one if some of their keys were retained when others, or newer runs, went on.
fn joined(keyspace: &KeyspaceVersion, level: usize, newest: u64) -> Option<&Run> {
    let next = keyspace.levels.get(level + 1)?;
    next.runs.first().filter(|run| run.id >= newest).map(|run| &**run)
}

/// The runs of `level` that can go on to the next. The last level is merged in place, so there it
/// needs `most` runs in a row.
pub(in crate::compaction) fn detour(
    keyspace: &KeyspaceVersion,
    level: usize,
    most: usize,
) -> Option<Detour<'_>> {
    let runs = &keyspace.levels[level].runs;
    let below = |run| joined(keyspace, level, run).map_or(&[][..], Run::tables);
    let in_place = |it: &Detour<'_>| it.held_back.is_empty() && it.runs.len() >= most;
    Detour::of(runs, below).filter(|detour| level < LEVELS - 1 || in_place(detour))
}

/// Whether an unreadable table is in a level's way.
pub(in crate::compaction) fn has_obstacle(runs: &[Arc<Run>]) -> bool {
    runs.iter().any(|run| run.has_unreadable())
}

/// The compaction debt of the first `levels` levels.
pub(in crate::compaction) fn debt(
    keyspace: &KeyspaceVersion,
    levels: usize,
    runs: usize,
) -> CompactionDebt {
    let mut bytes = 0;
    let mut arriving = (0, 0);
    let mut level_0_runs = keyspace.levels[0].runs.len();
    let bytes_of = |runs: &[Arc<Run>]| runs.iter().map(|run| run.bytes()).sum::<u64>();
    for (at, level) in keyspace.levels[..levels].iter().enumerate() {
        let mut moving = &level.runs[..];
        let mut waiting = 0;
        if has_obstacle(&level.runs) {
            let detour = detour(keyspace, at, runs);
            moving = detour.as_ref().map_or(&[], |detour| detour.runs);
            let newer = Detour::waiting(detour.as_ref(), &level.runs);
            waiting = newer.len();
            let stuck = stuck_debt(Detour::stuck(detour.as_ref(), &level.runs), runs);
            bytes += stuck.bytes;
            if at == 0 {
                let held_up = stuck.level_0_runs.max(stuck_debt(newer, runs).level_0_runs);
                level_0_runs = held_up.max(moving.len());
            }
        }
        let (count, held) = (moving.len() + arriving.0, bytes_of(moving) + arriving.1);
        arriving = (0, 0);
        if count >= runs || waiting >= runs {
            bytes += held;
            arriving = (1, held);
        }
    }
    CompactionDebt { level_0_runs, level_0_trigger: runs, bytes }
}
