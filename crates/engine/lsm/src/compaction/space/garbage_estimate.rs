//! Estimates how much of some tables a compaction would keep, without reading them.
//!
//! Three kinds of data are obsolete:
//!
//! * versions with newer ones in the same table, from the table's counts;
//! * deletes, from the table's counts;
//! * versions that other tables overwrite or delete, from an [`OverlapEstimator`] of the tables' samples.
//!
//! All estimates are in bytes of keys and values, converted to file bytes by each table's own
//! ratio. The tables' distinct-key counters check the samples (`sketch_crosscheck`).

use super::sketch_crosscheck::SketchCrossCheck;
use crate::compaction::plan::CompactionPlan;
use crate::output::snapshot_stripes::SnapshotStripes;
use crate::version::aging::Expired;
use crate::version::derived::GarbageEstimate;
use crate::version::{TableHandle, TableMeta};
use esker_base::Seqno;
use esker_table::{OverlapEstimator, TableSample};
use std::sync::Arc;

/// So many samples estimate a share to about 0.3%.
const SAMPLES_MAX: usize = 1 << 15;

impl GarbageEstimate {
    /// The estimate for tables of no more than `proportion` bytes for each byte of keys and values.
    pub(in crate::compaction) fn at_most(self, proportion: Option<f64>) -> Self {
        let proportion = proportion.unwrap_or(f64::MAX).min(self.proportion);
        let scale = proportion / self.proportion;
        GarbageEstimate {
            live_bytes: self.live_bytes * scale,
            kept_bytes: self.kept_bytes * scale,
            proportion,
            ..self
        }
    }

    /// Adds `bytes` of tables whose entries all stay.
    pub(in crate::compaction) fn beside(self, bytes: f64) -> Self {
        GarbageEstimate {
            bytes: self.bytes + bytes,
            live_bytes: self.live_bytes + bytes,
            kept_bytes: self.kept_bytes + bytes,
            ..self
        }
    }

    /// The estimate for `tables` at `now`, without what has expired of them by then.
    pub(in crate::compaction) fn without_expired<'a>(
        self,
        expired: Expired,
        tables: impl Iterator<Item = &'a Arc<TableHandle>>,
        now: u64,
    ) -> Self {
        let of =
            |table: &Arc<TableHandle>| expired.share(&table.meta, now) * table.meta.bytes as f64;
        let expired_bytes: f64 = tables.map(of).sum();
        if expired_bytes == 0.0 {
            return self;
        }
        // As if as much of what is obsolete anyway had expired.
        let stays = (1.0 - expired_bytes / self.bytes).clamp(0.0, 1.0);
        GarbageEstimate {
            live_bytes: self.live_bytes * stays,
            kept_bytes: self.kept_bytes * stays,
            live_keys: self.live_keys * stays,
            ..self
        }
    }

    /// The estimate if what is kept goes to as many tables as `tables` says, by its bytes. Each of them takes as much
    /// in addition to keys as one of `like`.
    fn in_tables(self, like: &[&Arc<TableHandle>], tables: impl Fn(f64) -> f64) -> GarbageEstimate {
        let fixed = like.iter().map(|table| table.contents().map_or(0, |it| it.fixed_bytes));
        let fixed = fixed.sum::<u64>() as f64;
        let raw = like.iter().map(|table| table.meta.raw_bytes).sum::<u64>().max(1);
        let each = fixed / like.len().max(1) as f64;
        let with_keys = (1.0 - fixed / (raw as f64 * self.proportion)).clamp(0.0, 1.0);
        if self.kept_bytes == 0.0 {
            return self;
        }
        let scale = with_keys + each * tables(self.kept_bytes) / self.kept_bytes;
        GarbageEstimate {
            kept_bytes: self.kept_bytes * scale,
            live_bytes: self.live_bytes * scale,
            proportion: self.proportion * scale,
            ..self
        }
    }

    /// The live versions' bytes of keys and values.
    pub fn live_raw_bytes(&self) -> f64 {
        self.live_bytes / self.proportion
    }

    /// What a merge makes free.
    pub fn reclaimed_bytes(&self) -> f64 {
        (self.bytes - self.kept_bytes).max(0.0)
    }

    /// What snapshots alone keep.
    pub fn pinned_bytes(&self) -> f64 {
        (self.kept_bytes - self.live_bytes).max(0.0)
    }
}

/// What becomes of `tables`, newest first. `None` if one of them could not be opened yet.
pub fn estimate<'a>(
    tables: impl Iterator<Item = &'a Arc<TableHandle>>,
    snapshots: &[Seqno],
    bottommost: bool,
) -> Option<GarbageEstimate> {
    let tables: Vec<&Arc<TableHandle>> = tables.collect();
    let stripes = SnapshotStripes::new(snapshots.to_vec());
    let mut layers = Vec::with_capacity(tables.len());
    let mut with_tombstones: Vec<&TableHandle> = Vec::new();
    let mut second = SketchCrossCheck::default();
    let (mut bytes, mut raw, mut sampled, mut kept) = (0.0, 0.0, 0.0, 0.0);
    for table in &tables {
        let (meta, contents) = (&table.meta, table.contents()?);
        let repeated = table.repeats() as f64 / meta.entries.max(1) as f64;
        let repeated_bytes = meta.raw_bytes as f64 * repeated;
        let delete_bytes = meta.deletes as f64 * contents.mean_key_bytes;
        bytes += meta.bytes as f64;
        raw += meta.raw_bytes as f64;
        sampled += (meta.raw_bytes as f64 - repeated_bytes - delete_bytes).max(0.0);
        kept += if is_split(meta, snapshots) { repeated_bytes } else { 0.0 };
        // Deletes go when every reader sees them, and nothing lies below.
        let seen_by_all = snapshots.iter().all(|&snapshot| meta.max_seqno <= snapshot);
        kept += if bottommost && seen_by_all { 0.0 } else { delete_bytes };
        second.add(contents.keys, &contents.sketches.hll);
        layers.push(TableSample {
            sample: &contents.sketches.theta,
            stripe: stripes.of(meta.max_seqno),
            deleted: with_tombstones.iter().any(|newer| deletes(newer, meta, snapshots)),
        });
        with_tombstones.extend((meta.range_tombstones > 0).then_some(&***table));
    }
    let overlay = OverlapEstimator::of(&layers, SAMPLES_MAX);
    let proportion = if raw > 0.0 { bytes / raw } else { 1.0 };
    Some(GarbageEstimate {
        bytes,
        live_bytes: sampled * overlay.live_share() * proportion,
        kept_bytes: (kept + sampled * overlay.kept_share()) * proportion,
        live_keys: overlay.live_keys(),
        proportion,
        second_count: second.factor(&overlay),
    })
}

/// What becomes of the tables of a plan. Where it has tables of the level that it writes to, what is written
/// takes as much for each byte of keys and values as they do: young tables take more. Where the plan says how
/// tables are cut, what each has in addition to keys is counted by the table: where there is little obsolete data, to have
/// fewer tables is all that a merge frees.
pub fn estimate_plan(plan: &CompactionPlan, snapshots: &[Seqno]) -> Option<GarbageEstimate> {
    let settled = plan.inputs.iter().filter(|input| input.level == plan.output_level);
    let settled = || settled.clone().flat_map(|input| &input.tables);
    let found = estimate(plan.tables(), snapshots, plan.bottommost)?;
    let found = found.at_most(proportion(settled()));
    let Some(cutting) = &plan.cutting else { return Some(found) };
    let mut like: Vec<_> = settled().collect();
    if like.is_empty() {
        like = plan.tables().collect();
    }
    Some(found.in_tables(&like, |bytes| cutting.expected_tables(bytes)))
}

/// Bytes of files for each byte of keys and values.
pub(in crate::compaction) fn proportion<'a>(
    tables: impl Iterator<Item = &'a Arc<TableHandle>>,
) -> Option<f64> {
    let add = |(bytes, raw), table: &Arc<TableHandle>| {
        (bytes + table.meta.bytes, raw + table.meta.raw_bytes)
    };
    let (bytes, raw) = tables.fold((0, 0), add);
    (raw > 0).then(|| bytes as f64 / raw as f64)
}

/// Whether a snapshot is between versions of the table.
pub(in crate::compaction) fn is_split(meta: &TableMeta, snapshots: &[Seqno]) -> bool {
    snapshots.iter().any(|&snapshot| meta.min_seqno <= snapshot && snapshot < meta.max_seqno)
}

/// Whether range tombstones of `newer` delete all of the table `older`, for every reader.
fn deletes(newer: &TableHandle, older: &TableMeta, snapshots: &[Seqno]) -> bool {
    if !newer.meta.overlaps(&older.smallest, &older.largest) {
        return false;
    }
    let Some(tombstones) = newer.contents().and_then(|contents| contents.tombstones) else {
        return false;
    };
    let fragments = tombstones.fragments();
    let mut from = &older.smallest[..];
    let first = fragments.partition_point(|fragment| &fragment.end[..] <= from);
    for fragment in &fragments[first..] {
        // The newest is first; older ones of the fragment delete no more.
        let seqno = fragment.seqnos[0];
        let pinned = snapshots.iter().any(|&s| older.max_seqno <= s && s < seqno);
        if &fragment.start[..] > from || seqno <= older.max_seqno || pinned {
            return false;
        }
        from = &fragment.end;
        if older.ends_before(from) {
            return true;
        }
    }
    false
}
