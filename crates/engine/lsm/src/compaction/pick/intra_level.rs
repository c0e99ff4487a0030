//! Compacts runs of one level with each other, within the level.
//!
//! This is used while the level's data cannot move to the next level, temporarily or because an
//! unreadable table blocks it. It keeps the number of runs low, and is the only compaction debt of
//! such a level.

use crate::compaction::debt::CompactionDebt;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::options::sizes::SizeTargets;
use crate::version::{KeyspaceVersion, Run};
use std::sync::Arc;

/// The newest readable runs in a row that are no more than twice as large as all newer ones among
/// them: so merging them again and again writes each byte only a logarithmic number of times.
pub(in crate::compaction) fn runs_alike(runs: &[Arc<Run>]) -> Option<&[Arc<Run>]> {
    runs.split(|run| run.has_unreadable()).find_map(alike_in)
}

fn alike_in(runs: &[Arc<Run>]) -> Option<&[Arc<Run>]> {
    (0..runs.len()).find_map(|from| {
        let mut taken = runs[from].bytes();
        let more = runs[from + 1..].iter().take_while(|run| {
            let alike = run.bytes() <= 2 * taken;
            taken += if alike { run.bytes() } else { 0 };
            alike
        });
        let to = from + 1 + more.count();
        (to - from >= 2).then(|| &runs[from..to])
    })
}

/// Merges those of `runs`, of `level`, that are alike.
pub(in crate::compaction) fn merge_alike(
    keyspace: &KeyspaceVersion,
    level: usize,
    runs: &[Arc<Run>],
    reason: CompactionReason,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let alike = runs_alike(runs)?;
    let inputs = alike.iter().map(|run| CompactionInput::whole(level, run)).collect();
    CompactionPlan::new(keyspace, inputs, level, alike[0].id, reason, sizes)
}

/// The compaction debt of `runs` that can't go on, as if they were of level 0. A merge is due from `trigger`
/// runs on. Runs that no merge takes throttle no writer.
pub(in crate::compaction) fn stuck_debt(runs: &[Arc<Run>], trigger: usize) -> CompactionDebt {
    let alike = match runs.len() >= trigger {
        true => runs_alike(runs).unwrap_or_default(),
        false => &[],
    };
    let level_0_runs = runs.len().min(trigger + alike.len().saturating_sub(1));
    let bytes = alike.iter().map(|run| run.bytes()).sum();
    CompactionDebt { level_0_runs, level_0_trigger: trigger, bytes }
}
