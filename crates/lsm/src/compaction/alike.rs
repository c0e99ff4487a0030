//! Runs of one level that are merged with each other, and stay in it.
//!
//! That is what a level does that can't go on to the next yet, or, where a lost table is in the way, never will: its
//! runs stay few, and a merge of some more of them is all that it can be said to owe.

use super::pick::Debt;
use super::plan::{Plan, PlanInput, Reason};
use super::sizes::Sizes;
use crate::version::{KeyspaceVersion, Run};
use std::sync::Arc;

/// Whether a part of one of the run's tables is lost.
pub(super) fn is_lost(run: &Run) -> bool {
    run.tables().iter().any(|table| table.lost().is_some())
}

/// The newest runs in a row, none of them lost, that are no more than twice as large as all newer ones among them: so
/// merging them again and again writes each byte only a logarithmic number of times.
pub(super) fn runs_alike(runs: &[Arc<Run>]) -> Option<&[Arc<Run>]> {
    runs.split(|run| is_lost(run)).find_map(alike_in)
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

/// Merges the runs of `level` that are alike.
pub(super) fn merge_alike(
    keyspace: &KeyspaceVersion,
    level: usize,
    reason: Reason,
    sizes: Sizes,
) -> Option<Plan> {
    let alike = runs_alike(&keyspace.levels[level].runs)?;
    let inputs = alike.iter().map(|run| PlanInput::whole(level, run)).collect();
    Plan::new(keyspace, inputs, level, alike[0].id, reason, sizes)
}

/// What a level 0 owes that has `trigger` runs or more and can't go on: nobody is held back for runs that nothing takes.
pub(super) fn stuck_level_0(keyspace: &KeyspaceVersion, trigger: usize) -> Debt {
    let runs = &keyspace.levels[0].runs;
    let alike = runs_alike(runs).unwrap_or_default();
    let level_0_runs = runs.len().min(trigger + alike.len().saturating_sub(1));
    let bytes = alike.iter().map(|run| run.bytes()).sum();
    Debt { level_0_runs, level_0_trigger: trigger, bytes }
}
