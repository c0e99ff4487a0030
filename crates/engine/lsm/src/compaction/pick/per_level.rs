//! Level deduplication compaction, as described for PlexDB: a tiered tree whose levels are also
//! compacted when their duplicate rate is too high.
//!
//! Full levels go first, as in any tiered tree. Then a level whose duplicate rate has reached the
//! threshold is compacted. If more than half of its run slots are empty, the output stays as its
//! first run. Otherwise it moves to the next level, like that of a full level:
//!
//! ```text
//!            few runs: rewritten in place            many: on to the next level
//!   level i    [a][b] _ _ _ _   ──►  [ab] _ _ _ _ _     [a][b][c] _ _ _   ──►   _ _ _ _ _ _
//!   level i+1                                           [d] _ _ _ _ _           [d][abc] _ _ _ _
//! ```

use super::tiered;
use crate::compaction::debt::CompactionDebt;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::Ratio;
use crate::version::{KeyspaceVersion, LEVELS};

pub(in crate::compaction) fn pick(
    keyspace: &KeyspaceVersion,
    runs: usize,
    threshold: Ratio,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let full = tiered::pick(keyspace, runs, busy, sizes);
    full.or_else(|| {
        let due = (0..LEVELS).filter(|&level| repeats(keyspace, level, threshold));
        let mut plans = due.filter_map(|level| deduplicate(keyspace, level, runs, sizes));
        plans.find(|plan| busy.permits(plan))
    })
}

fn repeats(keyspace: &KeyspaceVersion, level: usize, threshold: Ratio) -> bool {
    let rate = keyspace.duplicate_rate(level);
    rate.is_some_and(|rate| rate >= threshold.get())
        && !tiered::has_obstacle(&keyspace.levels[level].runs)
}

fn deduplicate(
    keyspace: &KeyspaceVersion,
    level: usize,
    runs: usize,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let held = &keyspace.levels[level].runs;
    let empty = runs.saturating_sub(held.len());
    let stays = 2 * empty > runs || level == LEVELS - 1;
    if !stays {
        let detour = tiered::detour(keyspace, level, runs)?;
        return tiered::go_on(keyspace, level, &detour, CompactionReason::Duplicates, sizes);
    }
    let inputs = held.iter().map(|run| CompactionInput::whole(level, run)).collect();
    CompactionPlan::new(
        keyspace,
        inputs,
        level,
        held.first()?.id,
        CompactionReason::Duplicates,
        sizes,
    )
}

/// What is due by size, and the levels that repeat themselves.
pub(in crate::compaction) fn debt(
    keyspace: &KeyspaceVersion,
    runs: usize,
    threshold: Ratio,
) -> CompactionDebt {
    let by_size = tiered::debt(keyspace, LEVELS, runs);
    let repeating = (0..LEVELS).filter(|&level| {
        keyspace.levels[level].runs.len() < runs && repeats(keyspace, level, threshold)
    });
    let bytes: u64 = repeating.map(|level| keyspace.levels[level].bytes()).sum();
    CompactionDebt { bytes: by_size.bytes + bytes, ..by_size }
}
