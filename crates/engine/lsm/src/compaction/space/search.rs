//! Finds the most effective compaction for a space-amplification limit, among those that may run
//! now.
//!
//! Candidates (`candidates`) are ranked by their tables' sizes. The first few become plans and are
//! judged by their tables' samples (`garbage_estimate`), which takes longer.

use super::candidates::Candidate;
use super::garbage_estimate::{estimate_plan, is_split};
use super::search_state::{BASE, SpaceSearch};
use crate::compaction::input_expansion::{InputExpansion, down_from};
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason, Cutting};
use crate::stats::write_history::WriteHistory;
use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, Run, TableHandle};
use esker_base::Seqno;
use std::sync::Arc;

/// The run that the first merges into the base make, however many there are at a time. No file, and so
/// no run of level 0, has this ID. The base keeps it when it is emptied and filled again.
const FIRST_BASE: u64 = 0;

/// So many candidates, the best by their sizes, are judged by their samples: the schedule waits for it.
const JUDGED: usize = 24;
/// Of so many of these that pay, the best is taken.
const PAYING: usize = 6;

/// The number of runs of level 0 that are over a table.
pub(in crate::compaction) fn height(keyspace: &KeyspaceVersion, table: &TableHandle) -> usize {
    let span = KeyBounds::of_table(&table.meta);
    keyspace.levels[0].runs.iter().filter(|run| !span.tables_of(run).is_empty()).count()
}

/// What a plan frees for each byte it writes.
pub(in crate::compaction) fn yields(plan: &CompactionPlan) -> f64 {
    plan.expected_freed as f64 / plan.expected_bytes.max(1) as f64
}

/// Whether a plan frees enough: for less, the error of the estimates would cause plans without end.
fn pays(plan: &CompactionPlan) -> bool {
    yields(plan) > 0.02
}

impl<'a> SpaceSearch<'a> {
    /// Whether nothing runs that could make space in the keyspace.
    pub fn is_idle(&self) -> bool {
        self.busy.is_idle(self.keyspace.id)
    }

    /// A merge of the newest runs where too many are over each other. It writes no more than `room`, if
    /// two runs fit into that.
    pub fn tall_stack(&self, runs_max: usize, room: f64) -> Option<CompactionPlan> {
        let newest = self.keyspace.levels[0].runs.iter().take(2);
        let tables = newest.flat_map(|run| run.tables());
        let tall = tables.filter(|table| height(self.keyspace, table) > runs_max);
        tall.filter_map(|table| self.merge_over(table, room)).find(|plan| self.busy.permits(plan))
    }

    /// Merges the newest runs over `table` up to the first that is larger than all newer ones.
    fn merge_over(&self, table: &Arc<TableHandle>, room: f64) -> Option<CompactionPlan> {
        let span = KeyBounds::of_table(&table.meta);
        let runs = &self.keyspace.levels[0].runs;
        let bytes_of = |run: &Run| span.tables_of(run).iter().map(|t| t.meta.bytes).sum::<u64>();
        let mut stack = runs.iter().map(|run| (run, bytes_of(run))).filter(|(_, bytes)| *bytes > 0);
        let (_, mut taken) = stack.next()?;
        let mut oldest = None;
        for (run, bytes) in stack {
            if oldest.is_some() && (bytes > taken || (taken + bytes) as f64 > room) {
                break;
            }
            taken += bytes;
            oldest = Some(run.id);
        }
        let taken = runs.iter().filter(|run| Some(run.id) >= oldest).map(|run| (0, &**run));
        let inputs = InputExpansion::of(std::slice::from_ref(table)).inputs(taken);
        let plan = CompactionPlan::new(
            self.keyspace,
            inputs,
            0,
            oldest?,
            CompactionReason::OverlappingRuns,
            self.sizes,
        )?;
        Some(self.judged(self.cut_finely(plan)))
    }

    /// The merge that frees most bytes for each byte it writes, among those that write no more than
    /// `room`. If what does not fit promises far more, that is first cut so that parts of it will. If
    /// nothing fits, and nothing else runs that could make space, the one that writes least. If `left` bytes
    /// of files are held by nothing but readers, who may be done soon, what would fit without those waits
    /// for them, unless it frees a good part of what it writes. What would not fit even then need not wait: the
    /// goal is missed either way, and by more the longer nothing is freed.
    pub fn garbage(&self, room: f64, left: f64) -> Option<CompactionPlan> {
        /// Cutting costs a rewrite of what is above the base.
        const FAR_MORE: f64 = 2.0;
        const GOOD: f64 = 0.2;
        let candidates = self.candidates();
        let unpinned = self.unpinned();
        let has_room = |plan: &CompactionPlan| plan.expected_bytes as f64 <= room;
        let fits = |candidate: &&Candidate<'_>| candidate.least_written() <= room;
        let from_above = candidates.iter().find(fits).map_or(0.0, |candidate| candidate.promise);
        let promised = unpinned.as_ref().filter(|it| has_room(it)).map_or(0.0, yields);
        let promised = promised.max(from_above);
        let better = candidates.iter().filter(|it| it.promise > FAR_MORE * promised);
        if let Some(plan) = better.filter(|it| !fits(it)).find_map(|it| self.narrowing(it, room)) {
            return Some(plan);
        }
        let best = self.paying(candidates.iter().filter(fits)).into_iter().chain(unpinned.clone());
        let best = best.filter(has_room).max_by(|a, b| yields(a).total_cmp(&yields(b)));
        let parts = || candidates.iter().find_map(|it| self.narrowing(it, room));
        best.or_else(parts).or_else(|| {
            let mut by_bytes: Vec<_> = candidates.iter().filter(|_| self.is_idle()).collect();
            by_bytes.sort_by(|a, b| a.least_written().total_cmp(&b.least_written()));
            let unpinned = unpinned.filter(|_| self.is_idle());
            let paying = self.paying(by_bytes.into_iter()).into_iter().chain(unpinned);
            let waits =
                |plan: &CompactionPlan| left > 0.0 && plan.expected_bytes as f64 <= room + left;
            let good = paying.filter(|plan| !waits(plan) || yields(plan) >= GOOD);
            good.min_by_key(|plan| plan.expected_bytes)
        })
    }

    /// Which share of a table has expired.
    pub fn expired_share(&self, table: &TableHandle) -> f64 {
        self.keyspace.expired().share(&table.meta, self.now)
    }

    /// The rewrite of a table of the base that frees most bytes for each byte it writes, of versions
    /// that were kept for a snapshot which has gone, or that have expired. Nothing need ever come from above to take
    /// them along.
    fn unpinned(&self) -> Option<CompactionPlan> {
        let base = self.keyspace.levels[BASE].runs.iter();
        let tables = base.flat_map(|run| run.tables().iter().map(|table| (run.id, table)));
        let share = |table: &TableHandle| {
            let is_pinned = table.repeats() == 0 || is_split(&table.meta, self.snapshots);
            let repeats = if is_pinned { 0 } else { table.repeats() };
            repeats as f64 / table.meta.entries.max(1) as f64 + self.expired_share(table)
        };
        let shares = tables.map(|(run, table)| (share(table), run, table));
        let mut tables: Vec<_> = shares.filter(|(share, ..)| *share > 0.0).collect();
        tables.sort_by(|a, b| b.0.total_cmp(&a.0));
        let plans = tables.into_iter().filter_map(|(_, run, table)| {
            let inputs = down_from(self.keyspace, BASE, run, std::slice::from_ref(table));
            self.plan_into_base(inputs, CompactionReason::ObsoleteData)
        });
        let permitted = plans.filter(|plan| self.busy.permits(plan)).take(PAYING);
        permitted.map(|plan| self.judged(plan)).find(pays)
    }

    /// The first few candidates as plans that free something worth their while.
    fn paying<'c>(&self, candidates: impl Iterator<Item = &'c Candidate<'a>>) -> Vec<CompactionPlan>
    where
        'a: 'c,
    {
        self.first_judged(candidates, CompactionReason::ObsoleteData)
            .filter(pays)
            .take(PAYING)
            .collect()
    }

    /// The first few candidates that may run, as plans that are judged by their tables' samples.
    fn first_judged<'c>(
        &self,
        candidates: impl Iterator<Item = &'c Candidate<'a>>,
        reason: CompactionReason,
    ) -> impl Iterator<Item = CompactionPlan>
    where
        'a: 'c,
    {
        let plans = candidates.filter_map(move |it| self.to_plan(it, reason));
        let permitted = plans.filter(|plan| self.busy.permits(plan));
        permitted.take(JUDGED).map(|plan| self.judged(plan))
    }

    /// The merge into the base that is cheapest for what it takes off level 0: of those that write no
    /// more than `room`, if there are any, or if nothing else runs that could make space.
    pub fn settling(&self, room: f64) -> Option<CompactionPlan> {
        let candidates = self.candidates();
        let plans = self.first_judged(candidates.iter(), CompactionReason::SmallLastLevel);
        let mut smallest: Option<CompactionPlan> = None;
        for plan in plans {
            if plan.expected_bytes as f64 <= room {
                return Some(plan);
            }
            if smallest.as_ref().is_none_or(|it| plan.expected_bytes < it.expected_bytes) {
                smallest = Some(plan);
            }
        }
        let narrowing = candidates.iter().find_map(|candidate| self.narrowing(candidate, room));
        // What runs may make room.
        narrowing.or(smallest.filter(|_| self.is_idle()))
    }

    /// Merges what of a candidate is above the base with itself, and cuts it so that it can go into
    /// the base a part at a time. `None` if the candidate takes in little of the base anyway, or if it
    /// cannot be cut: range tombstones alone are not.
    fn narrowing(&self, candidate: &Candidate<'_>, room: f64) -> Option<CompactionPlan> {
        let part_bytes = self.sizes.goal_plan_bytes() / 2;
        let above_bytes = candidate.bytes - candidate.base_bytes;
        if candidate.base_bytes <= 2 * part_bytes || above_bytes as f64 > room {
            return None;
        }
        let mut inputs = down_from(self.keyspace, 0, candidate.run, candidate.seed);
        inputs.retain(|input| input.level == 0 && !input.tables.is_empty());
        let mut tables = inputs.iter().flat_map(|input| &input.tables);
        if tables.clone().count() == 1 && tables.any(|table| table.meta.range_tombstones > 0) {
            return None;
        }
        let oldest = inputs.last()?.run;
        let mut plan = CompactionPlan::new(
            self.keyspace,
            inputs,
            0,
            oldest,
            CompactionReason::Narrowing,
            self.sizes,
        )?;
        let keys = self.base_cuts(&plan.span, part_bytes);
        let most_bytes = self.sizes.table_bytes();
        plan.cutting = (!keys.is_empty()).then_some(Cutting { keys, least_bytes: 0, most_bytes });
        let permitted = plan.cutting.is_some() && self.busy.permits(&plan);
        permitted.then(|| self.judged(plan))
    }

    /// Merges a table into the base since whose deletes the keyspace has written more than `most_bytes` of
    /// keys and values, by its `history`, or whose deletes are as old as the write `aged_through`; or, if that
    /// would write too much, cuts it finer where it is. It writes no more than `room`.
    ///
    /// Of a table that a snapshot is in, the deletes go that the snapshot sees, and others stay. In addition to
    /// snapshots that come and go there is always a next one to let some go, so such a table of the base is
    /// rewritten for its deletes only if more than `most_bytes` were written since it was made.
    pub fn old_deletes(
        &self,
        history: &WriteHistory,
        most_bytes: f64,
        aged_through: Seqno,
        room: f64,
    ) -> Option<CompactionPlan> {
        let mean_bytes = self.keyspace.mean_write_bytes();
        let is_old = |seqno| history.bytes_since(seqno, mean_bytes) > most_bytes;
        let all_see = |seqno| self.snapshots.first().is_none_or(|&first| seqno <= first);
        let is_due = |level: usize, table: &TableHandle| {
            let meta = &table.meta;
            if all_see(meta.max_seqno) {
                let is_aged = || table.has_deletes_through(aged_through);
                return table.has_deletes() && (is_old(meta.min_seqno) || is_aged());
            }
            let oldest = table.contents().and_then(|contents| contents.oldest_delete);
            oldest.is_some_and(|oldest| all_see(oldest) && is_old(oldest))
                && (level != BASE || history.bytes_since_file(meta.id.file) > most_bytes)
        };
        let tables = self.keyspace.tables().filter(|(level, _, table)| is_due(*level, table));
        let plans = tables.filter_map(|(level, run, table)| {
            let inputs = down_from(self.keyspace, level, run, std::slice::from_ref(table));
            let plan = self.judged(self.plan_into_base(inputs, CompactionReason::OldDeletes)?);
            let is_large = plan.expected_bytes > self.sizes.goal_plan_bytes();
            let finer = is_large.then(|| self.finer(level, run, table)).flatten();
            Some(finer.unwrap_or(plan))
        });
        let fits = |plan: &CompactionPlan| plan.expected_bytes as f64 <= room;
        let mut plans = plans.filter(|plan| fits(plan) && self.busy.permits(plan));
        plans.next()
    }

    /// The merges of deletes into the base that free half as much as they write.
    pub fn deletes(&self) -> Vec<CompactionPlan> {
        const WORTHWHILE: f64 = 0.5;
        let candidates = self.candidates();
        let has_deletes = |it: &&Candidate<'_>| it.seed.iter().any(|table| table.has_deletes());
        let worthwhile =
            candidates.iter().filter(has_deletes).filter(|it| it.promise >= WORTHWHILE);
        let plans = self.first_judged(worthwhile, CompactionReason::Deletes);
        plans.filter(|plan| yields(plan) >= WORTHWHILE).collect()
    }

    /// Rewrites a table in its place, cut wherever the base's tables end. Not one with range tombstones:
    /// cuts are made at keys only, so the output might equal the input, again and again.
    fn finer(&self, level: usize, run: u64, table: &Arc<TableHandle>) -> Option<CompactionPlan> {
        let cuts = self.base_cuts(&KeyBounds::of_table(&table.meta), 0);
        let inputs = vec![CompactionInput { level, run, tables: vec![table.clone()] }];
        let mut plan = CompactionPlan::new(
            self.keyspace,
            inputs,
            level,
            run,
            CompactionReason::OldDeletes,
            self.sizes,
        )?;
        let most_bytes = self.sizes.table_bytes();
        let useful = level == 0 && !cuts.is_empty() && table.meta.range_tombstones == 0;
        plan.cutting = Some(Cutting { keys: cuts, least_bytes: 0, most_bytes });
        useful.then_some(plan)
    }

    fn to_plan(
        &self,
        candidate: &Candidate<'_>,
        reason: CompactionReason,
    ) -> Option<CompactionPlan> {
        self.plan_into_base(down_from(self.keyspace, 0, candidate.run, candidate.seed), reason)
    }

    fn plan_into_base(
        &self,
        inputs: Vec<CompactionInput>,
        reason: CompactionReason,
    ) -> Option<CompactionPlan> {
        let base = self.keyspace.levels[BASE].runs.first();
        let output_run = base.map_or(FIRST_BASE, |run| run.id);
        let plan =
            CompactionPlan::new(self.keyspace, inputs, BASE, output_run, reason, self.sizes)?;
        Some(self.cut_for_base(plan))
    }

    /// The plan with what it is thought to write and to free. Where the samples are doubtful both are
    /// the most that may be: it has to fit, and is done the sooner, for the outputs' samples are new.
    pub fn judged(&self, mut plan: CompactionPlan) -> CompactionPlan {
        if !plan.is_trivial_move()
            && let Some(estimate) = estimate_plan(&plan, self.snapshots)
        {
            let estimate =
                estimate.without_expired(self.keyspace.expired(), plan.tables(), self.now);
            plan.expected_bytes = estimate.most().kept_bytes as u64;
            plan.expected_freed = estimate.least().reclaimed_bytes() as u64;
        }
        plan
    }
}
