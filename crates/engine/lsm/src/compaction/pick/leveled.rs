//! The leveled picker: one run per level below level 0, each level a fixed ratio larger than the
//! one above.
//!
//! **Number of levels.** Data ends up in the last level. While that is small, level 0 is compacted
//! directly into it, as every level between would write each byte once more. When the last level
//! exceeds [`DIRECT_OVERLAP`] times the least target, a level is added above it, `ratio` times
//! smaller, and so on upwards. The shallowest level in use is the **base**, the target of level 0.
//!
//! **Level 0** is compacted, all runs at once, when it has [`LEVEL_0_RUNS`] of them, or somewhat
//! more if others follow quickly (`l0_delay`).
//!
//! * That may rewrite much of the base for little new data, as in a keyspace with a small share of the
//!   writes. Then level 0 is due with [`LEVEL_0_RUNS_SMALL`] of them, and those of similar size are compacted
//!   with each other first.
//! * If an unreadable table is in the way, the compaction goes around it (`detour`), and blocked runs are
//!   compacted with each other.
//!
//! **A level over its target** moves the range of tables that rewrites the fewest bytes of the next
//! level per byte moved. Deletes count double, since they free space.
//!
//! **One run per level.** A plan can empty the run that a concurrent plan writes to. That plan's
//! installation restores the run under its ID. Until then every plan for that level writes to the
//! same ID (`output_run`).

use super::intra_level::{merge_alike, runs_alike, stuck_debt};
use super::l0_delay::{FlushCadence, is_level_0_due};
use crate::compaction::debt::{CompactionDebt, PendingMoves};
use crate::compaction::detour::Detour;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::options::sizes::{DIRECT_OVERLAP, LEVEL_0_RUNS, LEVEL_0_RUNS_SMALL, SizeTargets};
use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableHandle};
use std::sync::Arc;

const LAST: usize = LEVELS - 1;

/// How large each level should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::compaction) struct LevelTargets {
    /// The level that level 0 is merged into.
    pub base: usize,
    /// The most bytes of each level from the base to the last but one; no bound elsewhere.
    pub bytes: [u64; LEVELS],
}

impl LevelTargets {
    pub fn of(keyspace: &KeyspaceVersion, ratio: u32, sizes: SizeTargets) -> Self {
        let ratio = u64::from(ratio);
        let mut bytes = [u64::MAX; LEVELS];
        let mut size = keyspace.levels[LAST].bytes();
        let mut base = LAST;
        // A level twice as large as the next target would be over it at once.
        while base > 1 && size > sizes.base_bytes() * DIRECT_OVERLAP.min(ratio) {
            base -= 1;
            size /= ratio;
            bytes[base] = size.max(sizes.base_bytes());
        }
        // Nothing may pass a level that holds data: those above the base drain before it moves down.
        let highest = (1..base).find(|&level| !keyspace.levels[level].is_empty()).unwrap_or(base);
        bytes[highest..base].fill(sizes.base_bytes());
        LevelTargets { base: highest, bytes }
    }
}

/// How full `level` is: 1 and above is due for a compaction. `None` if it has no bound.
pub(crate) fn fill(
    keyspace: &KeyspaceVersion,
    ratio: u32,
    sizes: SizeTargets,
    level: usize,
) -> Option<f64> {
    let targets = LevelTargets::of(keyspace, ratio, sizes);
    if level == 0 {
        return Some(Level0::of(keyspace, targets.base, sizes).fill());
    }
    let target = targets.bytes[level];
    (target < u64::MAX).then(|| keyspace.levels[level].bytes() as f64 / target as f64)
}

pub(in crate::compaction) fn pick(
    keyspace: &KeyspaceVersion,
    ratio: u32,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    arrival: Option<FlushCadence>,
) -> Option<CompactionPlan> {
    let targets = LevelTargets::of(keyspace, ratio, sizes);
    let level_0 = Level0::of(keyspace, targets.base, sizes);
    let mut due: Vec<(f64, usize)> = (0..LAST)
        .filter(|&level| level > 0 || level_0.is_due(arrival))
        .map(|level| match level {
            0 => (level_0.fill(), level),
            _ => (score(keyspace, level, &targets, busy), level),
        })
        .filter(|&(score, _)| score >= 1.0)
        .collect();
    due.sort_by(|a, b| b.0.total_cmp(&a.0));
    due.into_iter().find_map(|(_, level)| match level {
        0 => level_0
            .pick(keyspace, targets.base, busy, sizes, arrival)
            .filter(|plan| busy.permits(plan)),
        _ => down_from(keyspace, level, &targets, busy, sizes),
    })
}

/// What is merged stays in the level that it is merged into, so that, unlike for scores, only what is moved down counts
/// as gone.
pub(in crate::compaction) fn is_due(
    keyspace: &KeyspaceVersion,
    ratio: u32,
    sizes: SizeTargets,
    arrival: Option<FlushCadence>,
    moved: &PendingMoves,
) -> bool {
    let targets = LevelTargets::of(keyspace, ratio, sizes);
    let is_too_large = |level: usize| {
        let left = keyspace.levels[level].bytes().saturating_sub(moved[level]);
        left > targets.bytes[level]
    };
    Level0::of(keyspace, targets.base, sizes).is_due(arrival) || (1..LAST).any(is_too_large)
}

/// How far over its target a level below level 0 is, tables that are on their way out not counted. 1 is due.
fn score(
    keyspace: &KeyspaceVersion,
    level: usize,
    targets: &LevelTargets,
    busy: &InProgressCompactions,
) -> f64 {
    let Some(run) = run_of(keyspace, level) else { return 0.0 };
    let staying = run.tables().iter().filter(|table| !busy.holds(table));
    let bytes: u64 = staying.map(|table| table.meta.bytes).sum();
    if bytes <= targets.bytes[level] { 0.0 } else { bytes as f64 / targets.bytes[level] as f64 }
}

/// The one run of a level below level 0.
fn run_of(keyspace: &KeyspaceVersion, level: usize) -> Option<&Arc<Run>> {
    debug_assert!(level > 0 && keyspace.levels[level].runs.len() <= 1, "one run a level");
    keyspace.levels[level].runs.first()
}

/// The run that a plan for `level` writes to: the level's, or else that of the running plans for it.
/// `newest`, the plan's newest input, if there is neither.
pub(in crate::compaction) fn output_run(
    keyspace: &KeyspaceVersion,
    level: usize,
    busy: &InProgressCompactions,
    newest: u64,
) -> u64 {
    let there = run_of(keyspace, level).map(|run| run.id);
    there.or_else(|| busy.output_run(keyspace.id, level)).unwrap_or(newest)
}

/// Level 0, by what of it can go on to the base.
struct Level0<'a> {
    /// The runs that can, with what is in their way.
    detour: Option<Detour<'a>>,
    /// Newer runs, which wait for them.
    waiting: &'a [Arc<Run>],
    /// Runs that can't.
    stuck: &'a [Arc<Run>],
    /// Whether merging those that can go on into the base rewrites little of it for what they bring.
    pays: bool,
}

impl<'a> Level0<'a> {
    fn of(keyspace: &'a KeyspaceVersion, base: usize, sizes: SizeTargets) -> Self {
        let runs = &keyspace.levels[0].runs[..];
        let detour = level_0_detour(keyspace, base);
        let waiting = Detour::waiting(detour.as_ref(), runs);
        let stuck = Detour::stuck(detour.as_ref(), runs);
        // Nothing is due with fewer runs.
        let may_be_due = detour.as_ref().filter(|_| runs.len() >= LEVEL_0_RUNS);
        let pays = may_be_due.is_none_or(|detour| pays(keyspace, base, detour, sizes));
        Level0 { detour, waiting, stuck, pays }
    }

    /// The number of runs from which on those that can go on are due.
    fn trigger(&self) -> usize {
        if self.pays { LEVEL_0_RUNS } else { LEVEL_0_RUNS_SMALL }
    }

    /// Which part of the number of runs at which they are due there is: of those that are the furthest.
    fn fill(&self) -> f64 {
        let part = |runs: &[Arc<Run>], trigger: usize| runs.len() as f64 / trigger as f64;
        part(self.moving(), self.trigger())
            .max(part(self.waiting, LEVEL_0_RUNS))
            .max(part(self.stuck, LEVEL_0_RUNS))
    }

    fn moving(&self) -> &[Arc<Run>] {
        self.detour.as_ref().map_or(&[], |detour| detour.runs)
    }

    fn is_due(&self, arrival: Option<FlushCadence>) -> bool {
        self.goes_on(arrival) || is_level_0_due(self.stuck, LEVEL_0_RUNS, arrival)
    }

    /// Whether the runs that can go on are due, or those that wait for them.
    fn goes_on(&self, arrival: Option<FlushCadence>) -> bool {
        is_level_0_due(self.moving(), self.trigger(), arrival)
            || is_level_0_due(self.waiting, LEVEL_0_RUNS, arrival)
    }

    fn pick(
        &self,
        keyspace: &KeyspaceVersion,
        base: usize,
        busy: &InProgressCompactions,
        sizes: SizeTargets,
        arrival: Option<FlushCadence>,
    ) -> Option<CompactionPlan> {
        let together = |runs| merge_alike(keyspace, 0, runs, CompactionReason::Level0Small, sizes);
        let moving = self.detour.as_ref().filter(|_| self.goes_on(arrival));
        let Some(detour) = moving else { return together(self.stuck) };
        let down = || into_base(keyspace, base, detour, CompactionReason::Level0Runs, busy, sizes);
        if self.pays { down() } else { together(detour.runs).or_else(down) }
    }
}

/// Whether merging the runs of `detour` into `base` rewrites little of it for what they bring: no more than
/// they have, or, if they are not small, up to [`DIRECT_OVERLAP`] times that.
fn pays(keyspace: &KeyspaceVersion, base: usize, detour: &Detour<'_>, sizes: SizeTargets) -> bool {
    // What is above the last level is merged once more, so it pays only to bring more to it.
    let least = if base < LAST { sizes.base_bytes() / 2 } else { sizes.small_table_bytes() };
    let tables = || detour.runs.iter().flat_map(|run| run.tables());
    // Before compression: otherwise whole segments of what compresses well would be small.
    let is_small = tables().map(|table| table.meta.raw_bytes).sum::<u64>() < least;
    let own: u64 = tables().map(|table| table.meta.bytes).sum();
    let most = if is_small { own } else { own * DIRECT_OVERLAP };
    let mut below = 0;
    let joined = run_of(keyspace, base).into_iter().flat_map(|run| detour.joined_tables(run));
    joined.map(|table| table.meta.bytes).all(|bytes| {
        below += bytes;
        below <= most
    })
}

/// The runs of level 0 that can be merged into `base`.
pub(in crate::compaction) fn level_0_detour(
    keyspace: &KeyspaceVersion,
    base: usize,
) -> Option<Detour<'_>> {
    let below = run_of(keyspace, base).map_or(&[][..], |run| run.tables());
    Detour::of(&keyspace.levels[0].runs, |_| below)
}

/// Runs of level 0 into `base`.
pub(in crate::compaction) fn into_base(
    keyspace: &KeyspaceVersion,
    base: usize,
    detour: &Detour<'_>,
    reason: CompactionReason,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let runs = detour.runs;
    let mut inputs: Vec<_> = runs.iter().map(|run| CompactionInput::whole(0, run)).collect();
    inputs.extend(run_of(keyspace, base).and_then(|run| detour.joined(base, run)));
    let output = (base, output_run(keyspace, base, busy, runs[0].id));
    CompactionPlan::holding_back(keyspace, inputs, output, detour.held_back.clone(), reason, sizes)
}

/// A range of a run's tables, and what moving it down would rewrite.
struct TableRange<'a> {
    tables: &'a [Arc<TableHandle>],
    cost: f64,
}

fn down_from(
    keyspace: &KeyspaceVersion,
    level: usize,
    targets: &LevelTargets,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    /// Building a plan costs more than scoring a range; the best few are enough.
    const TRIES: usize = 16;
    let run = run_of(keyspace, level)?;
    let excess = run.bytes().saturating_sub(targets.bytes[level]);
    let mut stretches = stretches(keyspace, level, excess, busy, sizes);
    stretches.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    stretches.iter().take(TRIES).find_map(|stretch| {
        move_down(
            keyspace,
            level,
            level + 1,
            stretch.tables,
            CompactionReason::LevelSize,
            busy,
            sizes,
        )
        .filter(|plan| busy.permits(plan))
    })
}

/// For each table that is free, the best range that starts there: as long as it gets cheaper by
/// the byte, moves no more than `excess`, and the plan stays within its bound.
fn stretches<'a>(
    keyspace: &'a KeyspaceVersion,
    level: usize,
    excess: u64,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Vec<TableRange<'a>> {
    let tables = run_of(keyspace, level).expect("a level over its target has a run").tables();
    let below = run_of(keyspace, level + 1).map_or(&[][..], |run| run.tables());
    // Sums from the left, so that a stretch's share is a difference.
    let mut bytes_before = vec![0u64];
    let mut busy_before = vec![0usize];
    for table in below {
        bytes_before.push(bytes_before[bytes_before.len() - 1] + table.meta.bytes);
        let held = usize::from(busy.holds(table));
        busy_before.push(busy_before[busy_before.len() - 1] + held);
    }
    let mut found = Vec::new();
    for from in 0..tables.len() {
        let mut best: Option<TableRange<'_>> = None;
        let (mut own, mut weight) = (0u64, 0.0);
        let first = below.partition_point(|b| b.meta.ends_before(&tables[from].meta.smallest));
        for to in from..tables.len() {
            let meta = &tables[to].meta;
            if busy.holds(&tables[to]) {
                break;
            }
            own += meta.bytes;
            weight += meta.bytes as f64 * (1.0 + meta.deletes as f64 / meta.entries.max(1) as f64);
            let span = KeyBounds::of_table(meta);
            let after = below.partition_point(|b| !span.ends_before(&b.meta.smallest)).max(first);
            let rewritten = bytes_before[after] - bytes_before[first];
            let is_over = own > excess || own + rewritten > sizes.plan_bytes();
            if busy_before[after] > busy_before[first] || (to > from && is_over) {
                break;
            }
            // What moves is written as well.
            let cost = (own + rewritten) as f64 / weight;
            if best.as_ref().is_none_or(|best| cost < best.cost) {
                best = Some(TableRange { tables: &tables[from..=to], cost });
            }
        }
        found.extend(best);
    }
    found
}

/// Merges `tables`, a range of the run of `level`, into the run of `output_level`.
pub(in crate::compaction) fn move_down(
    keyspace: &KeyspaceVersion,
    level: usize,
    output_level: usize,
    tables: &[Arc<TableHandle>],
    reason: CompactionReason,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let span = KeyBounds::of(tables)?;
    let run = run_of(keyspace, level)?.id;
    let mut inputs = vec![CompactionInput { level, run, tables: tables.to_vec() }];
    let below = run_of(keyspace, output_level);
    inputs.extend(below.map(|run| CompactionInput::overlapping(output_level, run, &span)));
    let output_run = output_run(keyspace, output_level, busy, run);
    CompactionPlan::new(keyspace, inputs, output_level, output_run, reason, sizes)
}

pub(in crate::compaction) fn debt(
    keyspace: &KeyspaceVersion,
    ratio: u32,
    sizes: SizeTargets,
    moved: &PendingMoves,
) -> CompactionDebt {
    let targets = LevelTargets::of(keyspace, ratio, sizes);
    let level_0 = Level0::of(keyspace, targets.base, sizes);
    let mut owed = stuck_debt(level_0.stuck, LEVEL_0_RUNS);
    let moving = level_0.moving();
    let waiting = stuck_debt(level_0.waiting, LEVEL_0_RUNS);
    let triggers = [
        (moving.len(), level_0.trigger()),
        (waiting.level_0_runs, waiting.level_0_trigger),
        (owed.level_0_runs, owed.level_0_trigger),
    ];
    // Those that are furthest over their trigger slow writers.
    let over = |&(runs, trigger): &(usize, usize)| (runs as i64 - trigger as i64, runs);
    let furthest = triggers.into_iter().max_by_key(over);
    (owed.level_0_runs, owed.level_0_trigger) = furthest.expect("three are compared");
    let mut arriving = 0;
    let loses = keyspace.has_unreadable();
    if moving.len() >= level_0.trigger() || level_0.waiting.len() >= LEVEL_0_RUNS {
        match runs_alike(moving).filter(|_| !level_0.pays) {
            Some(alike) => owed.bytes += alike.iter().map(|run| run.bytes()).sum::<u64>(),
            None => {
                arriving = moving.iter().map(|run| run.bytes()).sum();
                owed.bytes += arriving + keyspace.levels[targets.base].bytes();
            }
        }
    }
    for (level, &moved) in moved.iter().enumerate().take(LAST).skip(targets.base) {
        let held = (keyspace.levels[level].bytes() + arriving).saturating_sub(moved);
        let stuck = if loses { stuck_bytes(keyspace, level) } else { 0 };
        let excess = held.saturating_sub(targets.bytes[level]).min(held.saturating_sub(stuck));
        if excess > 0 {
            let rewritten = keyspace.levels[level + 1].bytes() as f64 / held as f64;
            owed.bytes += (excess as f64 * (1.0 + rewritten)) as u64;
        }
        arriving = excess + moved;
    }
    owed
}

/// The bytes of `level` that can't move down: of tables that are unreadable, or are over one that is.
fn stuck_bytes(keyspace: &KeyspaceVersion, level: usize) -> u64 {
    let is_unreadable = |table: &Arc<TableHandle>| table.is_unreadable();
    let below = run_of(keyspace, level + 1);
    let is_over_unreadable = |table: &TableHandle| {
        below.is_some_and(|run| {
            KeyBounds::of_table(&table.meta).tables_of(run).iter().any(is_unreadable)
        })
    };
    let tables = run_of(keyspace, level).into_iter().flat_map(|run| run.tables());
    let stuck = tables.filter(|table| is_unreadable(table) || is_over_unreadable(table));
    stuck.map(|table| table.meta.bytes).sum()
}

#[cfg(test)]
mod tests {
    use crate::compaction::in_progress::InProgressCompactions;
    use crate::compaction::pick::{pick, pick_aged};
    use crate::compaction::plan::{CompactionPlan, CompactionReason};
    use crate::compaction::space::budget::PickerContext;
    use crate::manifest::version_edit::tests::sample_table;
    use crate::options::settings::{KeyspaceSettings, Shape};
    use crate::options::sizes::SizeTargets;
    use crate::version::{KeyspaceVersion, Run, TableHandle, TableMeta};
    use esker_base::KeyspaceId;
    use std::sync::Arc;

    const SIZES: SizeTargets = SizeTargets { segment_bytes: 1000 };

    fn table(file: u64, smallest: &str, largest: &str, deletes: u64) -> Arc<TableHandle> {
        let mut meta = TableMeta { deletes, bytes: 5000, ..sample_table(file) };
        (meta.smallest, meta.largest) = (smallest.into(), largest.into());
        (meta.largest_is_exclusive, meta.range_tombstones) = (false, 0);
        TableHandle::detached(meta)
    }

    /// The next plan, claimed.
    fn begin(
        busy: &mut InProgressCompactions,
        plan: Option<CompactionPlan>,
        reason: CompactionReason,
    ) -> CompactionPlan {
        let plan = plan.expect("a plan");
        assert_eq!(
            (plan.output_level, plan.reason),
            (5 + usize::from(plan.inputs[0].level == 5), reason)
        );
        busy.claim(&plan);
        plan
    }

    #[test]
    fn a_level_that_is_emptied_beside_a_plan_for_it_keeps_its_run() {
        let settings = KeyspaceSettings::default().shape(Shape::Leveled { ratio: 10 });
        let mut keyspace = KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings);
        let run = |id, tables| vec![Arc::new(Run::new(id, tables))];
        keyspace.levels[4].runs = run(9, vec![table(1, "m", "n", 0), table(2, "p", "q", 0)]);
        keyspace.levels[5].runs = run(5, vec![table(3, "a", "c", 7)]);
        keyspace.levels[6].runs = run(2, vec![table(4, "a", "c", 0)]);
        let around = PickerContext { aged_through: 1 << 40, ..PickerContext::default() };

        let mut busy = InProgressCompactions::default();
        let mut next = |keyspace: &KeyspaceVersion, pick: fn(&_, &_, _, &_) -> _, reason| {
            let plan = pick(keyspace, &busy, SIZES, &around);
            begin(&mut busy, plan, reason)
        };
        next(&keyspace, pick_aged, CompactionReason::OldDeletes);
        let second = next(&keyspace, pick, CompactionReason::LevelSize);
        // The first plan is installed.
        keyspace.levels[5].runs.clear();
        let third = next(&keyspace, pick, CompactionReason::LevelSize);
        assert!(!second.span.overlaps(&third.span));
        assert_eq!((second.output_run, third.output_run), (5, 5));
    }
}
