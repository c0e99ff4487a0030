//! Picks compactions that free the space hidden by deletes and by large values, when nothing else is due.
//!
//! Levels are compacted by size, and deletes are small: above much data they could stay
//! permanently. This picker compares the data that the deletes of some tables may hide, down to the
//! last level, with all data there. If at least a third would be freed, the tables are compacted
//! into the next level. Each freed byte therefore costs at most about two written bytes per level.
//!
//! Every plan moves deletes to a deeper level, or drops some on the last, so plans come to an end.
//! Deletes that a snapshot does not see are left alone while that snapshot exists.
//!
//! The freed space is estimated from counts: a delete hides one version of average size. Deletes
//! that hide nothing cost one pass down the levels. The files of large values count as freed, too, if newer
//! tables may hide them ([`hidden_values`](super::hidden_values)), although no compaction writes them.
//!
//! Deletes older than the settings allow are compacted the same way, whatever they free and whether
//! or not other work is due. An output keeps the age of its oldest delete, so these deletes move on
//! at once until they are dropped.

use super::hidden_values::{hidden_by, large_values};
use super::leveled::{LevelTargets, into_base, level_0_detour, move_down};
use super::tiered;
use crate::compaction::detour::Detour;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::compaction::space::garbage_estimate::is_split;
use crate::options::sizes::SizeTargets;
use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableHandle};
use esker_base::Seqno;
use std::sync::Arc;

const LAST: usize = LEVELS - 1;

/// Which deletes are to go on.
#[derive(Clone, Copy, Debug)]
pub(in crate::compaction) enum Which {
    /// Those that free a third of what there is.
    Worthwhile,
    /// Those through this write, and what is in tables with them.
    Through(Seqno),
}

impl Which {
    fn reason(self) -> CompactionReason {
        match self {
            Which::Worthwhile => CompactionReason::Deletes,
            Which::Through(_) => CompactionReason::OldDeletes,
        }
    }

    /// Whether `tables`, of `level`, have such deletes.
    fn are_in(
        self,
        keyspace: &KeyspaceVersion,
        level: usize,
        tables: &[Arc<TableHandle>],
        snapshots: &[Seqno],
    ) -> bool {
        match self {
            Which::Worthwhile => {
                Sums::of(keyspace, level, tables, snapshots).is_some_and(|sums| sums.pays())
            }
            // Newer writes in the table do not matter: what is seen by all goes on with it, or is dropped.
            Which::Through(through) => {
                let seen = snapshots.first().map_or(through, |&first| through.min(first));
                tables.iter().any(|table| table.has_deletes_through(seen))
            }
        }
    }
}

/// The next plan of a leveled keyspace.
pub(in crate::compaction) fn pick_leveled(
    keyspace: &KeyspaceVersion,
    ratio: u32,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    snapshots: &[Seqno],
    which: Which,
) -> Option<CompactionPlan> {
    let base = LevelTargets::of(keyspace, ratio, sizes).base;
    let from_level_0 = || {
        let detour = level_0_detour(keyspace, base)?;
        let is_due = which.are_in(keyspace, 0, &tables_of(detour.runs), snapshots);
        let plan = || into_base(keyspace, base, &detour, which.reason(), busy, sizes);
        is_due.then(plan).flatten().filter(|plan| busy.permits(plan))
    };
    let from_table = |level: usize, run: &Run, table: &Arc<TableHandle>| {
        let tables = std::slice::from_ref(table);
        let plan = match level {
            _ if busy.holds(table) || !which.are_in(keyspace, level, tables, snapshots) => None,
            LAST => in_place(keyspace, LAST, vec![input(LAST, run, tables)], which, sizes),
            _ => move_down(keyspace, level, level + 1, tables, which.reason(), busy, sizes),
        };
        plan.filter(|plan| busy.permits(plan))
    };
    from_level_0().or_else(|| {
        (1..LEVELS).find_map(|level| {
            let run = keyspace.levels[level].runs.first()?;
            run.tables().iter().find_map(|table| from_table(level, run, table))
        })
    })
}

/// The next plan of a tiered keyspace without a space-amplification limit.
pub(in crate::compaction) fn pick_tiered(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    snapshots: &[Seqno],
    which: Which,
) -> Option<CompactionPlan> {
    let deepest = keyspace.levels.iter().rposition(|level| !level.is_empty())?;
    let from_level = |level: usize| {
        let detour = tiered::detour(keyspace, level, 1)?;
        let plan = match which.are_in(keyspace, level, &tables_of(detour.runs), snapshots) {
            false => None,
            true if level < deepest => {
                tiered::go_on(keyspace, level, &detour, which.reason(), sizes)
            }
            true => in_place(keyspace, level, whole(level, &detour), which, sizes),
        };
        plan.filter(|plan| busy.permits(plan))
    };
    (0..=deepest).find_map(from_level)
}

fn whole(level: usize, detour: &Detour<'_>) -> Vec<CompactionInput> {
    detour.runs.iter().map(|run| CompactionInput::whole(level, run)).collect()
}

fn input(level: usize, run: &Run, tables: &[Arc<TableHandle>]) -> CompactionInput {
    CompactionInput { level, run: run.id, tables: tables.to_vec() }
}

/// Merges `inputs` where they are, if that drops their deletes.
fn in_place(
    keyspace: &KeyspaceVersion,
    level: usize,
    inputs: Vec<CompactionInput>,
    which: Which,
    sizes: SizeTargets,
) -> Option<CompactionPlan> {
    let run = inputs.first()?.run;
    let plan = CompactionPlan::new(keyspace, inputs, level, run, which.reason(), sizes)?;
    plan.bottommost.then_some(plan)
}

fn tables_of(runs: &[Arc<Run>]) -> Vec<Arc<TableHandle>> {
    runs.iter().flat_map(|run| run.tables()).cloned().collect()
}

/// What some tables and all older ones under them hold, and what of it may go.
#[derive(Clone, Copy, Default, Debug)]
struct Sums {
    bytes: u64,
    entries: u64,
    /// Deletes that every reader sees.
    deletes: u64,
    /// Older versions of keys, kept for a snapshot that is gone.
    repeats: u64,
    /// Bytes of older tables that range tombstones delete which every reader sees.
    ranged_bytes: u64,
    /// Bytes of large values that entries hide which every reader sees.
    hidden_bytes: u64,
}

impl Sums {
    /// Those of `tables`, of `level`, and all under them. `None` if nothing can go.
    fn of(
        keyspace: &KeyspaceVersion,
        level: usize,
        tables: &[Arc<TableHandle>],
        snapshots: &[Seqno],
    ) -> Option<Sums> {
        let mut sums = Sums::default();
        for table in tables {
            let meta = &table.meta;
            sums.add(table);
            let all_see = snapshots.first().is_none_or(|&first| meta.max_seqno <= first);
            sums.deletes += if all_see { meta.deletes } else { 0 };
            sums.repeats += if is_split(meta, snapshots) { 0 } else { table.repeats() };
            if all_see {
                sums.hidden_bytes += hidden_by(keyspace, level, table);
            }
            if all_see && meta.range_tombstones > 0 {
                let [ranged, hidden] = ranged_bytes(keyspace, table);
                sums.ranged_bytes += ranged;
                sums.hidden_bytes += hidden;
            }
        }
        if sums.deletes + sums.repeats + sums.ranged_bytes + sums.hidden_bytes == 0 {
            return None;
        }
        let span = KeyBounds::of(tables)?;
        let below = keyspace.levels[level + 1..].iter().flat_map(|level| &level.runs);
        below.flat_map(|run| span.tables_of(run)).for_each(|table| sums.add(table));
        Some(sums)
    }

    fn add(&mut self, table: &TableHandle) {
        self.bytes += table.meta.bytes;
        self.entries += table.meta.entries;
    }

    /// About how many bytes of tables may go.
    fn freed(&self) -> f64 {
        let versions = self.entries.saturating_sub(self.deletes);
        if versions == 0 {
            return self.bytes as f64;
        }
        let gone = self.deletes.min(versions) + self.repeats;
        // Deletes are small: what they hide is a share of the versions' bytes.
        let gone_bytes = gone as f64 / versions as f64 * self.bytes as f64;
        (gone_bytes + self.ranged_bytes as f64).min(self.bytes as f64)
    }

    /// Whether a byte goes for each two that stay and are written.
    fn pays(&self) -> bool {
        const WRITTEN_FOR_A_BYTE: f64 = 2.0;
        let freed = self.freed();
        let (all_freed, written) = (freed + self.hidden_bytes as f64, self.bytes as f64 - freed);
        all_freed > 0.0 && all_freed * WRITTEN_FOR_A_BYTE >= written
    }
}

/// How many bytes the range tombstones of `table` delete in tables of deeper levels, in whole blocks, and about how many
/// bytes of large values.
fn ranged_bytes(keyspace: &KeyspaceVersion, table: &TableHandle) -> [u64; 2] {
    /// The schedule waits for it. Of more fragments, some are inspected for all.
    const LOOKED_AT: usize = 256;
    let Some(tombstones) = table.contents().and_then(|it| it.tombstones) else { return [0; 2] };
    let fragments = tombstones.fragments();
    let every = fragments.len().div_ceil(LOOKED_AT).max(1);
    let (mut bytes, mut hidden) = (0, 0);
    for fragment in fragments.iter().step_by(every) {
        let (start, end) = (&fragment.start[..], &fragment.end[..]);
        let runs = keyspace.levels.iter().flat_map(|level| &level.runs);
        let tables = runs.flat_map(|run| run.overlapping(start, end));
        let older = tables.filter(|older| older.meta.max_seqno < fragment.seqnos[0]);
        for older in older {
            let within = older.bytes_within(start, end);
            bytes += within;
            let share = within as f64 / older.meta.bytes.max(1) as f64;
            hidden += (large_values(&older.meta).1 as f64 * share) as u64;
        }
    }
    [bytes, hidden].map(|bytes| bytes * every as u64)
}
