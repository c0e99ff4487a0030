//! The merges that a space goal chooses among.
//!
//! A candidate starts from neighbouring tables of one run of level 0, the *seed*, and takes in all
//! tables of older runs that overlap it, down to the run that the output joins. Each older run may
//! widen the range, so that the order of versions holds; newer runs are left alone.

use super::busy::Busy;
use super::estimate::estimate;
use super::plan::{Cutting, Plan, PlanInput, Reason};
use super::sizes::Sizes;
use super::span::Span;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableHandle, TableMeta};
use esker_base::Seqno;
use std::sync::Arc;

const BASE: usize = LEVELS - 1;

/// The run that the first merges into the base make, however many there are at a time. No file, and so
/// no run of level 0, has this id.
const FIRST_BASE: u64 = 0;

/// So many tables in a row at most are a seed: more would not fit a plan.
const SEED_TABLES: usize = 6;
/// So many candidates, the best by their sizes, are judged by their samples: the schedule waits for it.
const JUDGED: usize = 24;
/// Of so many of these that pay, the best is taken.
const PAYING: usize = 6;

pub(super) struct Search<'a> {
    pub keyspace: &'a KeyspaceVersion,
    pub busy: &'a Busy,
    pub sizes: Sizes,
    pub snapshots: &'a [Seqno],
}

/// The number of runs of level 0 that lie over a table.
pub(super) fn height(keyspace: &KeyspaceVersion, table: &TableHandle) -> usize {
    let span = Span::of_table(&table.meta);
    keyspace.levels[0].runs.iter().filter(|run| !span.tables_of(run).is_empty()).count()
}

/// The first keys of `tables`, so many bytes of them apart at least. Not that of the first.
pub(super) fn cuts(tables: &[Arc<TableHandle>], apart: u64) -> impl Iterator<Item = &Vec<u8>> {
    let mut since = 0;
    let mut before = 0;
    tables.iter().filter_map(move |table| {
        since += before;
        before = table.meta.bytes;
        let is_cut = since > 0 && since >= apart;
        since = if is_cut { 0 } else { since };
        is_cut.then_some(&table.meta.smallest)
    })
}

/// A candidate before it is a plan: its seed, and what follows from the sizes of its tables.
struct Candidate<'a> {
    run: u64,
    seed: &'a [Arc<TableHandle>],
    /// What may become free, at most, for each byte written, at least.
    promise: f64,
    bytes: u64,
    /// Those of them that lie in the base.
    base_bytes: u64,
}

impl Candidate<'_> {
    fn least_written(&self) -> f64 {
        self.bytes as f64 / (1.0 + self.promise)
    }
}

/// What a candidate's tables add up to.
#[derive(Clone, Copy, Default)]
struct Sums {
    bytes: u64,
    entries: u64,
    deletes: u64,
    range_tombstones: u64,
}

impl Sums {
    fn add(&mut self, tables: &[Arc<TableHandle>]) {
        for table in tables {
            self.bytes += table.meta.bytes;
            self.entries += table.meta.entries;
            self.deletes += table.meta.deletes;
            self.range_tombstones += table.meta.range_tombstones;
        }
    }
}

impl<'a> Search<'a> {
    /// Whether nothing runs that could make room in the keyspace.
    pub fn is_idle(&self) -> bool {
        self.busy.is_idle(self.keyspace.id)
    }

    /// A merge of the newest runs where too many lie over each other. It writes no more than `room`, if
    /// two runs fit into that.
    pub fn tall_stack(&self, runs_max: usize, room: f64) -> Option<Plan> {
        let newest = self.keyspace.levels[0].runs.iter().take(2);
        let tables = newest.flat_map(|run| &run.tables);
        let tall = tables.filter(|table| height(self.keyspace, table) > runs_max);
        tall.filter_map(|table| self.merge_over(table, room)).find(|plan| self.busy.permits(plan))
    }

    /// Merges the newest runs over `table` up to the first that is larger than all newer ones.
    fn merge_over(&self, table: &Arc<TableHandle>, room: f64) -> Option<Plan> {
        let span = Span::of_table(&table.meta);
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
        let inputs = self.inputs(&span, runs.iter().filter(|run| Some(run.id) >= oldest));
        let plan = Plan::new(self.keyspace, inputs, 0, oldest?, Reason::TallStack, self.sizes)?;
        Some(self.judged(self.cut_finely(plan)))
    }

    /// The merge that frees most bytes for each byte it writes, among those that write no more than
    /// `room`. If what does not fit promises far more, that is first cut so that parts of it will. If
    /// nothing fits, and nothing else runs that could make room, the one that writes least.
    pub fn garbage(&self, room: f64) -> Option<Plan> {
        /// Cutting costs a rewrite of what lies above the base.
        const FAR_MORE: f64 = 2.0;
        let candidates = self.candidates();
        let fits = |candidate: &&Candidate<'_>| candidate.least_written() <= room;
        let promised = candidates.iter().find(fits).map_or(0.0, |candidate| candidate.promise);
        let better = candidates.iter().filter(|it| it.promise > FAR_MORE * promised);
        if let Some(plan) = better.filter(|it| !fits(it)).find_map(|it| self.narrowing(it, room)) {
            return Some(plan);
        }
        let best = self.paying(candidates.iter().filter(fits)).into_iter();
        let best = best.filter(|plan| plan.expected_bytes as f64 <= room).max_by(|a, b| {
            let yields = |plan: &Plan| plan.expected_freed() / plan.expected_bytes.max(1) as f64;
            yields(a).total_cmp(&yields(b))
        });
        let parts = || candidates.iter().find_map(|it| self.narrowing(it, room));
        best.or_else(parts).or_else(|| {
            let mut by_bytes: Vec<_> = candidates.iter().filter(|_| self.is_idle()).collect();
            by_bytes.sort_by(|a, b| a.least_written().total_cmp(&b.least_written()));
            self.paying(by_bytes.into_iter()).into_iter().min_by_key(|plan| plan.expected_bytes)
        })
    }

    /// The first few candidates as plans that free something worth their while.
    fn paying<'c>(&self, candidates: impl Iterator<Item = &'c Candidate<'a>>) -> Vec<Plan>
    where
        'a: 'c,
    {
        let plans = self.first_judged(candidates, Reason::Garbage);
        // What frees less than this would go on for ever about what estimates err by.
        let pays = |plan: &Plan| plan.expected_freed() * 50.0 > plan.expected_bytes as f64;
        plans.filter(pays).take(PAYING).collect()
    }

    /// The first few candidates that may run, as plans that are judged by their tables' samples.
    fn first_judged<'c>(
        &self,
        candidates: impl Iterator<Item = &'c Candidate<'a>>,
        reason: Reason,
    ) -> impl Iterator<Item = Plan>
    where
        'a: 'c,
    {
        let plans = candidates.filter_map(move |it| self.to_plan(it, reason));
        let permitted = plans.filter(|plan| self.busy.permits(plan));
        permitted.take(JUDGED).map(|plan| self.judged(plan))
    }

    /// The merge into the base that is cheapest for what it takes off level 0: of those that write no
    /// more than `room`, if there are any, or if nothing else runs that could make room.
    pub fn settling(&self, room: f64) -> Option<Plan> {
        let candidates = self.candidates();
        let plans = self.first_judged(candidates.iter(), Reason::Settling);
        let mut smallest: Option<Plan> = None;
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

    /// Merges what of a candidate lies above the base with itself, and cuts it so that it can go into
    /// the base a part at a time. `None` if the candidate takes in little of the base anyway, or if it
    /// cannot be cut: range tombstones alone are not.
    fn narrowing(&self, candidate: &Candidate<'_>, room: f64) -> Option<Plan> {
        let part_bytes = self.sizes.goal_plan_bytes() / 2;
        let above_bytes = candidate.bytes - candidate.base_bytes;
        if candidate.base_bytes <= 2 * part_bytes || above_bytes as f64 > room {
            return None;
        }
        let mut inputs = self.down_from(0, candidate.run, candidate.seed);
        inputs.retain(|input| input.level == 0 && !input.tables.is_empty());
        let mut tables = inputs.iter().flat_map(|input| &input.tables);
        if tables.clone().count() == 1 && tables.any(|table| table.meta.range_tombstones > 0) {
            return None;
        }
        let oldest = inputs.last()?.run;
        let mut plan = Plan::new(self.keyspace, inputs, 0, oldest, Reason::Narrowing, self.sizes)?;
        let keys = self.base_cuts(&plan.span, part_bytes);
        let most_bytes = self.sizes.table_bytes();
        plan.cutting = (!keys.is_empty()).then_some(Cutting { keys, least_bytes: 0, most_bytes });
        let permitted = plan.cutting.is_some() && self.busy.permits(&plan);
        permitted.then(|| self.judged(plan))
    }

    /// Merges a table into the base whose deletes are older than the last `writes` writes, or, if
    /// that would write too much, cuts it finer where it is. What writes more than `room` waits for what
    /// runs.
    pub fn old_deletes(&self, writes: f64, room: f64) -> Option<Plan> {
        let through = self.keyspace.newest_seqno();
        let is_due = |meta: &TableMeta| {
            let held = self.snapshots.first().is_some_and(|&first| first < meta.max_seqno);
            let age = through.saturating_sub(meta.min_seqno) as f64;
            (meta.deletes > 0 || meta.range_tombstones > 0) && !held && age > writes
        };
        let tables = self.keyspace.tables().filter(|(_, _, table)| is_due(&table.meta));
        let plans = tables.filter_map(|(level, run, table)| {
            let inputs = self.down_from(level, run, std::slice::from_ref(table));
            let plan = self.judged(self.plan_into_base(inputs, Reason::OldDeletes)?);
            let is_large = plan.expected_bytes > self.sizes.goal_plan_bytes();
            let finer = is_large.then(|| self.finer(level, run, table)).flatten();
            Some(finer.unwrap_or(plan))
        });
        let fits = |plan: &Plan| plan.expected_bytes as f64 <= room || self.is_idle();
        let mut plans = plans.filter(|plan| fits(plan) && self.busy.permits(plan));
        plans.next()
    }

    /// Rewrites a table in its place, cut wherever the base's tables end. Not one with range tombstones:
    /// cuts are made at keys only, so it might come out as it was, for ever.
    fn finer(&self, level: usize, run: u64, table: &Arc<TableHandle>) -> Option<Plan> {
        let cuts = self.base_cuts(&Span::of_table(&table.meta), 0);
        let inputs = vec![PlanInput { level, run, tables: vec![table.clone()] }];
        let mut plan =
            Plan::new(self.keyspace, inputs, level, run, Reason::OldDeletes, self.sizes)?;
        let most_bytes = self.sizes.table_bytes();
        let useful = level == 0 && !cuts.is_empty() && table.meta.range_tombstones == 0;
        plan.cutting = Some(Cutting { keys: cuts, least_bytes: 0, most_bytes });
        useful.then_some(plan)
    }

    /// Everything from a seed in level 0 down to the base, for all seeds: those that promise most
    /// first. Of the seeds that start at a table the one is taken that promises most.
    fn candidates(&self) -> Vec<Candidate<'a>> {
        let mut found = Vec::new();
        for run in &self.keyspace.levels[0].runs {
            for from in 0..run.tables.len() {
                let mut best: Option<Candidate<'_>> = None;
                for to in from + 1..=run.tables.len().min(from + SEED_TABLES) {
                    let seed = &run.tables[from..to];
                    if self.busy.holds(seed[seed.len() - 1].meta.id) {
                        break;
                    }
                    let candidate = self.candidate(run.id, seed);
                    let is_large = candidate.bytes > self.sizes.goal_plan_bytes();
                    let is_worse = |best: &Candidate<'_>| candidate.promise < best.promise;
                    if best.as_ref().is_some_and(|best| is_large || is_worse(best)) {
                        break;
                    }
                    best = Some(candidate);
                }
                found.extend(best);
            }
        }
        found.sort_by(|a, b| b.promise.total_cmp(&a.promise));
        found
    }

    fn candidate(&self, run: u64, seed: &'a [Arc<TableHandle>]) -> Candidate<'a> {
        let (mut above, mut base) = (Sums::default(), Sums::default());
        above.add(seed);
        let mut reach = Reach::of(seed);
        for (level, older) in self.older_than(0, run) {
            let tables = reach.tables_of(older);
            reach.widen(tables);
            if level == BASE { base.add(tables) } else { above.add(tables) }
        }
        let mean = base.bytes as f64 / base.entries.max(1) as f64;
        let deleted = match above.range_tombstones {
            0 => (above.deletes as f64 * mean).min(base.bytes as f64),
            _ => base.bytes as f64,
        };
        let bytes = above.bytes + base.bytes;
        let freed = above.bytes as f64 + deleted;
        let promise = freed / (bytes as f64 - freed).max(1.0);
        Candidate { run, seed, promise, bytes, base_bytes: base.bytes }
    }

    /// The runs below a run of `level`, newest first.
    fn older_than(
        &self,
        level: usize,
        run: u64,
    ) -> impl Iterator<Item = (usize, &'a Run)> + use<'a> {
        let levels = self.keyspace.levels.iter().enumerate().skip(level);
        let runs = levels.flat_map(|(at, level)| level.runs.iter().map(move |run| (at, &**run)));
        runs.filter(move |(at, older)| *at > level || older.id < run)
    }

    /// `seed` and everything older that its keys, or theirs, overlap.
    fn down_from(&self, level: usize, run: u64, seed: &[Arc<TableHandle>]) -> Vec<PlanInput> {
        let mut inputs = vec![PlanInput { level, run, tables: seed.to_vec() }];
        let mut reach = Reach::of(seed);
        for (level, older) in self.older_than(level, run) {
            let tables = reach.tables_of(older);
            reach.widen(tables);
            inputs.push(PlanInput { level, run: older.id, tables: tables.to_vec() });
        }
        inputs
    }

    /// The tables of `runs`, newest first, from `span` on, which each may widen.
    fn inputs<'r>(&self, span: &Span, runs: impl Iterator<Item = &'r Arc<Run>>) -> Vec<PlanInput> {
        let mut span = span.clone();
        let mut inputs = Vec::new();
        for run in runs {
            let input = PlanInput::overlapping(0, run, &span);
            input.tables.iter().for_each(|table| span.widen(&table.meta));
            inputs.push(input);
        }
        inputs
    }

    fn to_plan(&self, candidate: &Candidate<'_>, reason: Reason) -> Option<Plan> {
        self.plan_into_base(self.down_from(0, candidate.run, candidate.seed), reason)
    }

    fn plan_into_base(&self, inputs: Vec<PlanInput>, reason: Reason) -> Option<Plan> {
        let base = self.keyspace.levels[BASE].runs.first();
        let output_run = base.map_or(FIRST_BASE, |run| run.id);
        let plan = Plan::new(self.keyspace, inputs, BASE, output_run, reason, self.sizes)?;
        Some(self.cut_for_base(plan))
    }

    /// Cuts the output into tables of the base's size, where its tables end now if that will do.
    pub fn cut_for_base(&self, mut plan: Plan) -> Plan {
        let keys = self.base_cuts(&plan.span, 0);
        let target = self.sizes.goal_table_bytes();
        plan.cutting = Some(Cutting { keys, least_bytes: target / 2, most_bytes: target * 3 / 2 });
        plan
    }

    /// Cuts the output, which stays in level 0, where the base's tables end.
    fn cut_finely(&self, mut plan: Plan) -> Plan {
        let keys = self.base_cuts(&plan.span, 0);
        let (least_bytes, most_bytes) = (self.sizes.goal_piece_bytes(), self.sizes.table_bytes());
        plan.cutting = Some(Cutting { keys, least_bytes, most_bytes });
        plan
    }

    /// The keys within `span` at which tables of the base begin, so many bytes of them apart at least.
    fn base_cuts(&self, span: &Span, apart: u64) -> Vec<Vec<u8>> {
        let base = self.keyspace.levels[BASE].runs.first();
        let tables = base.map_or(&[][..], |run| span.tables_of(run));
        cuts(tables, apart).filter(|start| **start > span.smallest).cloned().collect()
    }

    /// The plan with what it is thought to write.
    fn judged(&self, mut plan: Plan) -> Plan {
        if !plan.is_trivial_move()
            && let Some(estimate) = estimate(plan.tables(), self.snapshots, plan.bottommost)
        {
            plan.expected_bytes = estimate.kept_bytes as u64;
        }
        plan
    }
}

/// A span that borrows its ends.
struct Reach<'a> {
    smallest: &'a [u8],
    /// The last key, and whether it is of the span: where keys are alike, that end is the later one.
    end: (&'a [u8], bool),
}

impl<'a> Reach<'a> {
    fn of(tables: &'a [Arc<TableHandle>]) -> Self {
        let first = &tables[0].meta;
        let mut reach =
            Reach { smallest: &first.smallest, end: (&first.largest, !first.largest_is_exclusive) };
        reach.widen(tables);
        reach
    }

    fn widen(&mut self, tables: &'a [Arc<TableHandle>]) {
        for table in tables.first().into_iter().chain(tables.last()) {
            self.smallest = self.smallest.min(&table.meta.smallest);
            self.end = self.end.max((&table.meta.largest, !table.meta.largest_is_exclusive));
        }
    }

    fn tables_of<'r>(&self, run: &'r Run) -> &'r [Arc<TableHandle>] {
        let starts_in = |key: &[u8]| match self.end {
            (end, true) => key <= end,
            (end, false) => key < end,
        };
        let tables = &run.tables;
        let from = tables.partition_point(|table| table.meta.ends_before(self.smallest));
        let to = tables.partition_point(|table| starts_in(&table.meta.smallest));
        &tables[from..to.max(from)]
    }
}
