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

/// A run joins a merge if it is at most so many times as large as all newer runs in it. Otherwise few
/// new bytes would rewrite many.
const ALIKE: u64 = 3;

/// What it is worth in bytes written to save so many runs: their number to the power of 2.5. So merges of several
/// runs of a size come before those of two, and each byte is written only a logarithmic number of times.
fn worth(runs_saved: usize) -> f64 {
    let saved = runs_saved as f64;
    // Unlike `powf`, the same on every platform.
    saved * saved * saved.sqrt()
}

/// The readable runs in a row that are alike and cheapest to merge for the number of runs that this saves.
pub(in crate::compaction) fn runs_alike(runs: &[Arc<Run>]) -> Option<&[Arc<Run>]> {
    let cheapest = runs.split(|run| run.has_unreadable()).filter_map(cheapest_in);
    cheapest.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, runs)| runs)
}

/// Finds the same among runs that are all readable. Returns its cost, too.
fn cheapest_in(runs: &[Arc<Run>]) -> Option<(f64, &[Arc<Run>])> {
    let mut cheapest: Option<(f64, &[Arc<Run>])> = None;
    for from in 0..runs.len() {
        let mut taken = runs[from].bytes();
        for to in from + 1..runs.len() {
            let bytes = runs[to].bytes();
            if bytes > ALIKE * taken {
                break;
            }
            taken += bytes;
            let cost = taken as f64 / worth(to - from);
            if cheapest.is_none_or(|(least, _)| cost < least) {
                cheapest = Some((cost, &runs[from..=to]));
            }
        }
    }
    cheapest
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
