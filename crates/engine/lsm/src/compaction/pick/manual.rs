//! Picks the plans of a manual full compaction: it ends with one run, without deletes and without
//! versions that only a snapshot kept.
//!
//! [`full`] returns the next plan; it is called again after each until there is none. Plans are
//! kept small if runs allow it:
//!
//! * a leveled keyspace is compacted level by level, one range of tables at a time;
//! * a tiered one by groups of overlapping tables;
//! * one with a space-amplification limit by the compactions of its own picker, a little at a time
//!   and within its limit;
//! * one with windows by the end of the open window. It keeps a run per window.
//!
//! If the keyspace has a compaction filter, every table is rewritten, so that all entries pass it.
//!
//! An unreadable table stays, and so does everything above it within its bounds.

use super::leveled::{LevelTargets, into_base, level_0_detour, move_down, output_run};
use super::windowed;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::compaction::space::budget::{PickerContext, SpaceBudget};
use crate::compaction::space::search_state::SpaceSearch;
use crate::options::settings::Shape;
use crate::options::sizes::{ONE_RUN_OVERLAP, SizeTargets};
use crate::options::space_policy::Dedup;
use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableHandle, TableMeta};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The next plan of a full compaction. `None` if it is done or has to wait for plans in `busy`. Whether
/// the plan may run concurrently with those is for [`InProgressCompactions::permits`] to say.
///
/// Runs of level 0 from `before_file` on are left alone, and tables in such files are not rewritten just
/// to lose their obsolete data: with the file id that was next when the compaction began, it ends even while
/// others write, and while a snapshot keeps obsolete data alive.
pub fn full(
    keyspace: &KeyspaceVersion,
    before_file: u64,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> Option<CompactionPlan> {
    let mut older = keyspace.clone();
    older.levels[0].runs.retain(|run| run.id < before_file);
    let all = around.filtered.contains(&keyspace.id);
    let rewrites = Rewrites { before_file, all, now: around.now };
    let last = (0..LEVELS).rev().find(|&level| !older.levels[level].is_empty())?;
    let most_bytes = sizes.plan_bytes();
    let gather = match (older.settings.shape, older.settings.dedup) {
        (Shape::Leveled { ratio }, _) => down_one_level(&older, ratio, last, busy, sizes),
        (_, Dedup::SpaceGoal { amp }) => {
            let ledger = SpaceBudget::of(keyspace, amp, busy, sizes, around);
            let room = ledger.map_or(sizes.goal_plan_bytes() as f64, |ledger| ledger.room());
            let (snapshots, now) = (&around.snapshots, around.now);
            let search = SpaceSearch { keyspace: &older, busy, sizes, snapshots, now };
            return within_goal(&search, room, rewrites);
        }
        (Shape::Windowed { .. }, _) => {
            let is_due = |meta: &TableMeta| {
                let has_expired = || older.expired().share(meta, around.now) > 0.0;
                meta.id.file < before_file && (all || has_expired())
            };
            return windowed::full(&older, busy, sizes, is_due);
        }
        _ => merge_group(&older, last.max(1), busy, sizes),
    };
    gather.or_else(|| rewrite_garbage(&older, last, rewrites, most_bytes, sizes))
}

/// The compaction of level 0 into the base for a caller that waits until the database is idle. `None`
/// if the keyspace has one run already, has an unreadable table, is larger than
/// [`SizeTargets::one_run_bytes`], or if the compaction rewrites more than [`ONE_RUN_OVERLAP`] bytes
/// of the base for each byte of level 0.
///
/// Runs of level 0 from `before_file` on are left alone.
pub fn to_one_run(
    keyspace: &KeyspaceVersion,
    before_file: u64,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let Shape::Leveled { ratio } = keyspace.settings.shape else { return None };
    let runs: usize = keyspace.levels.iter().map(|level| level.runs.len()).sum();
    let is_small = keyspace.bytes() <= sizes.one_run_bytes();
    if runs < 2 || !is_small || keyspace.has_unreadable() {
        return None;
    }
    let mut older = keyspace.clone();
    older.levels[0].runs.retain(|run| run.id < before_file);
    let base = LevelTargets::of(&older, ratio, sizes).base;
    let detour = level_0_detour(&older, base)?;
    let own: u64 = detour.runs.iter().map(|run| run.bytes()).sum();
    let plan = into_base(&older, base, &detour, CompactionReason::Level0Runs, busy, sizes)?;
    (plan.input_bytes() - own <= own * ONE_RUN_OVERLAP).then_some(plan)
}

/// Level 0 into the base, else a range of the highest level into the next that holds data. Where an unreadable table is in
/// the way of that, a group of tables of the two that it does not overlap, or a range of a lower level.
fn down_one_level(
    keyspace: &KeyspaceVersion,
    ratio: u32,
    last: usize,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    if !keyspace.levels[0].is_empty() {
        let base = LevelTargets::of(keyspace, ratio, sizes).base;
        let detour = level_0_detour(keyspace, base);
        let into_base = |it| into_base(keyspace, base, &it, CompactionReason::Manual, busy, sizes);
        let plan = detour.and_then(into_base);
        if let Some(plan) = plan.or_else(|| merge_group(keyspace, base, busy, sizes)) {
            return Some(plan);
        }
    }
    let holds_data = |level: &usize| !keyspace.levels[*level].is_empty();
    (1..last).filter(holds_data).find_map(|level| {
        let below = (level + 1..=last).find(holds_data)?;
        stretch_down(keyspace, level, below, busy, sizes)
    })
}

/// The first range of `level` that can be merged into `below`.
fn stretch_down(
    keyspace: &KeyspaceVersion,
    level: usize,
    below: usize,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let tables = keyspace.levels[level].runs[0].tables();
    let target = &keyspace.levels[below].runs[0];
    let under = |stretch: &[Arc<TableHandle>]| {
        KeyBounds::of(stretch).expect("at least one table").tables_of(target)
    };
    let can_go = |stretch: &[Arc<TableHandle>]| {
        stretch.iter().chain(under(stretch)).all(|table| !table.is_unreadable())
    };
    let fits = |stretch: &[Arc<TableHandle>]| {
        let all = stretch.iter().chain(under(stretch));
        all.map(|table| table.meta.bytes).sum::<u64>() <= sizes.plan_bytes()
    };
    let from = (0..tables.len()).find(|&from| can_go(&tables[from..=from]))?;
    let goes_on = |to: &usize| fits(&tables[from..*to]) && can_go(&tables[from..*to]);
    let to = (from + 2..=tables.len()).take_while(goes_on).last().unwrap_or(from + 1);
    move_down(keyspace, level, below, &tables[from..to], CompactionReason::Manual, busy, sizes)
}

/// Merges the first group of overlapping tables of the levels up to `last`, none of them unreadable, that is not yet in the
/// newest run of `last`.
fn merge_group(
    keyspace: &KeyspaceVersion,
    last: usize,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let target = keyspace.levels[last].runs.first().map(|run| run.id);
    let group = groups(keyspace, last).into_iter().find(|group| {
        group.iter().any(|(level, run, _)| *level != last || Some(run.id) != target)
            && group.iter().all(|(_, _, table)| !table.is_unreadable())
    })?;
    let newest = group.iter().map(|(_, run, _)| run.id).max()?;
    let mut inputs: BTreeMap<(usize, u64), Vec<Arc<TableHandle>>> = BTreeMap::new();
    for (level, run, table) in group {
        inputs.entry((level, run.id)).or_default().push(table.clone());
    }
    let inputs =
        inputs.into_iter().map(|((level, run), tables)| CompactionInput { level, run, tables });
    let output_run = match keyspace.settings.shape {
        Shape::Leveled { .. } => output_run(keyspace, last, busy, newest),
        Shape::Tiered { .. } | Shape::Windowed { .. } => target.unwrap_or(newest),
    };
    CompactionPlan::new(
        keyspace,
        inputs.collect(),
        last,
        output_run,
        CompactionReason::Manual,
        sizes,
    )
}

/// The merges into the base that the keyspace ends with, then those that rid it of its obsolete data.
fn within_goal(search: &SpaceSearch<'_>, room: f64, rewrites: Rewrites) -> Option<CompactionPlan> {
    let (older, sizes, base) = (search.keyspace, search.sizes, LEVELS - 1);
    // Merges that settled at the same time once made a run each. Where an unreadable table is in the way, they stay.
    let has_runs = older.levels[base].runs.len() > 1;
    if let Some(plan) = has_runs.then(|| merge_group(older, base, search.busy, sizes)).flatten() {
        return Some(plan);
    }
    if let Some(mut plan) = search.settling(room) {
        plan.reason = CompactionReason::Manual;
        return Some(plan);
    }
    let plan = rewrite_garbage(older, base, rewrites, sizes.goal_plan_bytes(), sizes)?;
    let fits = plan.expected_bytes as f64 <= room || search.is_idle();
    fits.then(|| search.cut_for_base(plan))
}

type Placed<'a> = (usize, &'a Run, &'a Arc<TableHandle>);

/// All tables of the levels up to `last`, in groups that share no key with each other, in key order.
fn groups(keyspace: &KeyspaceVersion, last: usize) -> Vec<Vec<Placed<'_>>> {
    let levels = keyspace.levels[..=last].iter().enumerate();
    let runs = levels.flat_map(|(level, runs)| runs.runs.iter().map(move |run| (level, &**run)));
    let mut tables: Vec<Placed<'_>> =
        runs.flat_map(|(level, run)| run.tables().iter().map(move |t| (level, run, t))).collect();
    tables.sort_by(|a, b| a.2.meta.smallest.cmp(&b.2.meta.smallest));
    let mut groups: Vec<(KeyBounds, Vec<Placed<'_>>)> = Vec::new();
    for placed in tables {
        let meta = &placed.2.meta;
        match groups.last_mut() {
            Some((span, group)) if span.overlaps_table(meta) => {
                span.widen(meta);
                group.push(placed);
            }
            _ => groups.push((KeyBounds::of_table(meta), vec![placed])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Which tables of the last run are rewritten.
#[derive(Clone, Copy)]
struct Rewrites {
    /// Only those in files before this one.
    before_file: u64,
    /// All of them, to pass the compaction filter, or those with obsolete data.
    all: bool,
    /// What has expired by then is obsolete.
    now: u64,
}

/// Rewrites, in place, a range of the newest run left that still holds deletes, several versions of a
/// key, or what has expired, of up to `most_bytes` or one table. Not above older runs, which an unreadable table has left: deletes would stay.
fn rewrite_garbage(
    keyspace: &KeyspaceVersion,
    last: usize,
    rewrites: Rewrites,
    most_bytes: u64,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let run = keyspace.levels[last].runs.first()?;
    let has_expired = |meta: &TableMeta| keyspace.expired().share(meta, rewrites.now) > 0.0;
    let has_garbage = |table: &Arc<TableHandle>| {
        let meta = &table.meta;
        let has_deletes = meta.deletes > 0 || meta.range_tombstones > 0;
        let has_use = || rewrites.all || has_deletes || has_expired(meta) || table.repeats() > 0;
        !table.is_unreadable() && meta.id.file < rewrites.before_file && has_use()
    };
    let older = &keyspace.levels[last].runs[1..];
    let is_above = |span: &KeyBounds| older.iter().any(|run| !span.tables_of(run).is_empty());
    let can_lose = |table: &Arc<TableHandle>| {
        has_garbage(table) && !is_above(&KeyBounds::of_table(&table.meta))
    };
    let mut bytes = 0;
    let from = run.tables().iter().position(can_lose)?;
    let mut span = KeyBounds::of_table(&run.tables()[from].meta);
    let stretch = run.tables()[from..].iter().take_while(|table| {
        bytes += table.meta.bytes;
        span.widen(&table.meta);
        has_garbage(table) && !is_above(&span) && (bytes == table.meta.bytes || bytes <= most_bytes)
    });
    let input = CompactionInput { level: last, run: run.id, tables: stretch.cloned().collect() };
    CompactionPlan::new(keyspace, vec![input], last, run.id, CompactionReason::Manual, sizes)
}
