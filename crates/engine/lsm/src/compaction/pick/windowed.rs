//! The picker of keyspaces with windows: tables of different windows are never merged.
//!
//! The levels above the last have the open window, and are tiered. The last level has the windows that are
//! over, a run each. A window is over when its oldest flush is as old as a window is long: then its
//! runs become one of the last level. There tables stay until everything in them has expired, and leave
//! without being read (`droppable_tables`). Only entries with a time to live of their own that expired too
//! long ago, and a full compaction for a compaction filter, rewrite a table, in its run.
//!
//! If the keyspace has a limit of bytes, no compaction makes a run of more than an eighth of it. So the
//! oldest run, which goes first, is small.
//!
//! Invariant: runs are newest first by their writes, because each plan takes runs in a row.

use super::tiered;
use crate::compaction::debt::CompactionDebt;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::options::sizes::SizeTargets;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableMeta};
use esker_base::Seqno;
use std::sync::Arc;

/// The most runs of a level of the open window.
const RUNS: usize = 8;

/// The level of windows that are over.
const CLOSED: usize = LEVELS - 1;

/// A run has at most such a part of the bytes that the keyspace may have.
const PARTS: u64 = 8;

/// The next compaction. Writes up to `over` were flushed a window ago.
pub(in crate::compaction) fn pick(
    keyspace: &KeyspaceVersion,
    over: Seqno,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let close = || {
        let oldest = open_runs(keyspace).last().map(|(_, run)| first_seqno(run))?;
        (oldest <= over).then(|| close(keyspace, CompactionReason::RunsFull, sizes)).flatten()
    };
    let merge = |level| merge_level(keyspace, level, sizes);
    let mut plans = std::iter::once_with(close).chain((0..CLOSED).map(merge)).flatten();
    plans.find(|plan| busy.permits(plan))
}

/// The next compaction of a full one: it ends the open window, and rewrites those tables of others that
/// `is_due` names.
pub(in crate::compaction) fn full(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    is_due: impl Fn(&TableMeta) -> bool,
) -> Option<CompactionPlan> {
    let reason = CompactionReason::Manual;
    close(keyspace, reason, sizes).or_else(|| {
        let mut closed = keyspace.levels[CLOSED].runs.iter().flat_map(|run| {
            let tables = run.tables().iter();
            tables.map(|table| (run.id, table))
        });
        let (run, table) = closed.find(|(_, it)| is_due(&it.meta) && !busy.holds(it))?;
        let input = CompactionInput { level: CLOSED, run, tables: vec![table.clone()] };
        CompactionPlan::new(keyspace, vec![input], CLOSED, run, reason, sizes)
    })
}

pub(in crate::compaction) fn debt(keyspace: &KeyspaceVersion) -> CompactionDebt {
    tiered::debt(keyspace, CLOSED, RUNS)
}

/// The last write that has to go so that the keyspace has no more bytes than it may have. 0 if none has to.
/// The newest run stays.
pub(crate) fn beyond_size(keyspace: &KeyspaceVersion) -> Seqno {
    let Some(most) = keyspace.max_bytes() else { return 0 };
    let expired_through = keyspace.aging.map_or(0, |aging| aging.expired_through);
    let runs = keyspace.levels.iter().flat_map(|level| &level.runs);
    let there: Vec<_> = runs.filter(|run| last_seqno(run) > expired_through).collect();
    let mut bytes: u64 = there.iter().map(|run| run.bytes()).sum();
    let mut through = 0;
    for run in there.iter().skip(1).rev() {
        if bytes <= most {
            break;
        }
        bytes -= run.bytes();
        through = through.max(last_seqno(run));
    }
    through
}

/// The runs of the open window, newest first.
fn open_runs(keyspace: &KeyspaceVersion) -> Vec<(usize, &Arc<Run>)> {
    let levels = keyspace.levels[..CLOSED].iter().enumerate();
    levels.flat_map(|(level, runs)| runs.runs.iter().map(move |run| (level, run))).collect()
}

/// Makes one run of the last level of the open window, or of the oldest part of it that may be one.
/// `None` while a table cannot be read: merges within the window go around it.
fn close(
    keyspace: &KeyspaceVersion,
    reason: CompactionReason,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let runs = open_runs(keyspace);
    let small = oldest_within(&runs, limit(keyspace), |(_, run)| run.bytes());
    let newest = small.first()?.1.id;
    let is_free = keyspace.levels[CLOSED].runs.first().is_none_or(|run| run.id < newest);
    if !is_free || runs.iter().any(|(_, run)| run.has_unreadable()) {
        return None;
    }
    let inputs = small.iter().map(|(level, run)| CompactionInput::whole(*level, run)).collect();
    CompactionPlan::new(keyspace, inputs, CLOSED, newest, reason, sizes)
}

/// Merges the oldest runs of a full level into one of the next.
fn merge_level(
    keyspace: &KeyspaceVersion,
    level: usize,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let runs = &keyspace.levels[level].runs;
    let next = &keyspace.levels[level + 1].runs;
    let small = oldest_within(runs, limit(keyspace), |run| run.bytes());
    let newest = small.first()?.id;
    let is_free = next.first().is_none_or(|run| run.id < newest);
    if !is_free || tiered::has_obstacle(runs) || tiered::has_obstacle(next) {
        return tiered::merge_level(keyspace, level, RUNS, sizes);
    }
    let inputs = || small.iter().map(|run| CompactionInput::whole(level, run)).collect();
    let reason = CompactionReason::RunsFull;
    (runs.len() >= RUNS)
        .then(|| CompactionPlan::new(keyspace, inputs(), level + 1, newest, reason, sizes))
        .flatten()
}

/// The most bytes of a run that a compaction makes of several.
fn limit(keyspace: &KeyspaceVersion) -> u64 {
    keyspace.max_bytes().map_or(u64::MAX, |most| most / PARTS)
}

/// The oldest of `runs` that have up to `most` bytes together, at least one.
fn oldest_within<R>(runs: &[R], most: u64, bytes: impl Fn(&R) -> u64) -> &[R] {
    let mut sum = 0;
    let fits = |run: &&R| {
        sum += bytes(run);
        sum <= most
    };
    let count = runs.iter().rev().take_while(fits).count();
    &runs[runs.len() - count.max(1).min(runs.len())..]
}

fn first_seqno(run: &Run) -> Seqno {
    run.tables().iter().map(|table| table.meta.min_seqno).min().unwrap_or(0)
}

fn last_seqno(run: &Run) -> Seqno {
    run.tables().iter().map(|table| table.meta.max_seqno).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::settings::KeyspaceSettings;
    use crate::version::aging::Aging;
    use crate::version::{TableHandle, TableId};
    use esker_base::KeyspaceId;
    use std::time::Duration;

    const SIZES: SizeTargets = SizeTargets { segment_bytes: 1 << 20 };
    const MIB: u64 = 1 << 20;

    /// A keyspace of runs of one table: level, number, bytes. The number is that of the run, and the
    /// table has its ten writes.
    fn keyspace(max_bytes: Option<u64>, runs: &[(usize, u64, u64)]) -> KeyspaceVersion {
        let settings = KeyspaceSettings::default().window(Duration::from_secs(60), max_bytes);
        let mut keyspace = KeyspaceVersion::new(KeyspaceId(1), "k".into(), settings);
        for &(level, number, bytes) in runs {
            let id = TableId { file: number, offset: 0 };
            let (min_seqno, max_seqno) = (number * 10, number * 10 + 9);
            let meta = TableMeta { bytes, min_seqno, max_seqno, ..TableMeta::new(id, "a", "z") };
            let run = Run::new(number, vec![TableHandle::detached(meta)]);
            keyspace.levels[level].runs.push(Arc::new(run));
        }
        keyspace
    }

    /// The runs that the next plan takes, and the level and run of its output.
    fn next(keyspace: &KeyspaceVersion, over: Seqno) -> Option<(Vec<u64>, usize, u64)> {
        let plan = pick(keyspace, over, &InProgressCompactions::default(), SIZES)?;
        let inputs = plan.inputs.iter().map(|input| input.run).collect();
        Some((inputs, plan.output_level, plan.output_run))
    }

    #[test]
    fn a_window_is_over_with_its_oldest_flush_and_then_becomes_one_run_next_to_others() {
        let runs = [(0, 9, MIB), (0, 8, MIB), (1, 7, MIB), (CLOSED, 5, MIB), (CLOSED, 3, MIB)];
        let keyspace = keyspace(None, &runs);
        assert_eq!(next(&keyspace, 69), None);
        assert_eq!(next(&keyspace, 70), Some((vec![9, 8, 7], CLOSED, 9)));
        let closed = self::keyspace(None, &runs[3..]);
        assert_eq!(next(&closed, 1_000), None, "it stays");
        assert_eq!(debt(&closed).bytes, 0);
    }

    #[test]
    fn many_runs_of_the_open_window_are_merged_before() {
        let runs: Vec<_> = (1..=8).rev().map(|number| (0, number, MIB)).collect();
        let full = keyspace(None, &runs);
        assert_eq!(next(&full, 9), Some(((1..=8).rev().collect(), 1, 8)));
        assert_eq!((debt(&full).bytes, debt(&full).level_0_runs), (8 * MIB, 8));
        assert_eq!(next(&keyspace(None, &runs[1..]), 9), None);
    }

    #[test]
    fn no_run_is_made_of_more_than_an_eighth_of_the_limit() {
        let runs: Vec<_> = (1..=8).rev().map(|number| (0, number, MIB)).collect();
        let limited = keyspace(Some(24 * MIB), &runs);
        assert_eq!(next(&limited, 9), Some((vec![3, 2, 1], 1, 3)));
        assert_eq!(next(&limited, 10), Some((vec![3, 2, 1], CLOSED, 3)), "the rest stays open");
        let narrow = keyspace(Some(8 * MIB), &runs);
        assert_eq!(
            next(&narrow, 9),
            Some((vec![1], 1, 1)),
            "a full level is merged, although its run is too large"
        );
    }

    #[test]
    fn the_oldest_runs_go_until_the_rest_fits() {
        let runs = [(0, 9, 3 * MIB), (1, 7, 2 * MIB), (CLOSED, 5, MIB), (CLOSED, 3, MIB)];
        let beyond = |mib: u64| beyond_size(&keyspace(Some(mib * MIB), &runs));
        assert_eq!([7, 6, 5, 4, 3, 1].map(beyond), [0, 39, 59, 79, 79, 79]);
        let mut expired = keyspace(Some(6 * MIB), &runs);
        expired.aging = Some(Aging { expired_through: 39, ..Aging::default() });
        assert_eq!(beyond_size(&expired), 0, "a snapshot keeps what has gone before");
        assert_eq!(beyond_size(&keyspace(None, &runs)), 0);
    }

    #[test]
    fn a_full_compaction_ends_the_window_and_rewrites_only_what_it_has_to() {
        let (idle, runs) = (InProgressCompactions::default(), [(1, 7, MIB), (CLOSED, 5, MIB)]);
        let plan = full(&keyspace(None, &runs), &idle, SIZES, |_| true).unwrap();
        assert_eq!((plan.inputs.len(), plan.output_level, plan.output_run), (1, CLOSED, 7));
        let closed = keyspace(None, &[(CLOSED, 7, MIB), (CLOSED, 5, MIB)]);
        let plan = full(&closed, &idle, SIZES, |meta| meta.id.file == 5).unwrap();
        assert_eq!((plan.inputs[0].run, plan.output_level, plan.output_run), (5, CLOSED, 5));
        assert!(!plan.is_trivial_move() && full(&closed, &idle, SIZES, |_| false).is_none());
    }
}
