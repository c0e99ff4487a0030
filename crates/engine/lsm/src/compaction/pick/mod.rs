//! Picks the next compaction of a keyspace, without I/O and without a lock.
//!
//! [`pick`] asks `droppable_tables` first, then the policy of the keyspace's shape: `leveled`,
//! `tiered`, `per_level`, `windowed` or `space::space_limit`, then `value_collection`. Only if no keyspace
//! has a due compaction, [`pick_aged`] and [`pick_idle`] ask `tombstones` for one that frees what deletes
//! hide, and `expired` for one that frees what has expired. `hidden_values` counts large values for
//! `tombstones`. `manual` is for callers who wait. `intra_level` and `l0_delay` serve several policies.
//!
//! A plan keeps newer data above older: see [`plan`](super::plan). It takes no table that a running
//! compaction has claimed. The same version, claims and surroundings give the same plan; results that
//! are expensive to find again are cached with the version.
//!
//! A new policy is a file here, a variant of `Shape` or `Dedup`, its arms in this file, in `manual`
//! and in `ingest/placement`, and the tags of the setting in `manifest/version_edit`.

pub(crate) mod droppable_tables;
pub(crate) mod expired;
mod hidden_values;
pub(crate) mod intra_level;
pub mod l0_delay;
pub(crate) mod leveled;
pub mod manual;
pub(crate) mod per_level;
pub(crate) mod tiered;
pub(crate) mod tombstones;
pub(crate) mod windowed;

pub use super::debt::{CompactionDebt, PendingMoves};

use super::in_progress::InProgressCompactions;
use super::plan::CompactionPlan;
use super::space::budget::PickerContext;
use super::space::space_limit;
use super::value_collection;
use crate::options::settings::Shape;
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::Dedup;
use crate::version::{KeyspaceVersion, LEVELS};
use l0_delay::FlushCadence;
use tombstones::Which;

/// The compaction of `keyspace` that is most worth doing and may run concurrently with those in `busy`. `None`
/// if nothing is due or what is due has to wait.
pub fn pick(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> Option<CompactionPlan> {
    if let Some(plan) = droppable_tables::pick(keyspace, busy, &around.snapshots, around.now) {
        return Some(plan);
    }
    pick_by_shape(keyspace, busy, sizes, around).or_else(|| {
        let files = around.overdue_values.get(&keyspace.id)?;
        value_collection::pick(keyspace, files, busy, sizes)
    })
}

fn pick_by_shape(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> Option<CompactionPlan> {
    match keyspace.settings.shape {
        Shape::Leveled { ratio } => leveled::pick(keyspace, ratio, busy, sizes, around.arrival),
        Shape::Tiered { runs } => {
            let runs = runs as usize;
            match keyspace.settings.dedup {
                Dedup::PerLevel { threshold } => {
                    per_level::pick(keyspace, runs, threshold, busy, sizes)
                }
                Dedup::SpaceGoal { amp } => {
                    space_limit::pick(keyspace, runs, amp, busy, sizes, around)
                }
                Dedup::None => tiered::pick(keyspace, runs, busy, sizes),
            }
        }
        Shape::Windowed { .. } => {
            let over = around.windows_over.get(&keyspace.id).copied();
            windowed::pick(keyspace, over.unwrap_or(0), busy, sizes)
        }
    }
}

/// The compaction of `keyspace` that gives back space which deletes and expiry free, if that is worth its writes: for when
/// [`pick`] finds nothing in any keyspace.
pub fn pick_idle(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> Option<CompactionPlan> {
    match keyspace.settings.dedup {
        // What is not rewritten goes with its window.
        _ if keyspace.settings.shape.windows().is_some() => None,
        Dedup::SpaceGoal { amp } => space_limit::pick_idle(keyspace, amp, busy, sizes, around),
        _ => {
            let which = expired::Which::Worthwhile(around.now);
            let deletes = pick_deletes(keyspace, busy, sizes, around, Which::Worthwhile);
            deletes.or_else(|| expired::pick(keyspace, busy, sizes, which))
        }
    }
}

/// The compaction of `keyspace` that takes on deletes and expired entries which have stayed for too long: for when
/// [`pick`] finds nothing in any keyspace. Where there is a space-amplification limit, [`pick`] takes on the deletes.
pub fn pick_aged(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> Option<CompactionPlan> {
    let deletes = match (keyspace.settings.dedup, around.aged_through) {
        (Dedup::SpaceGoal { .. }, _) | (_, 0) => None,
        (_, through) => pick_deletes(keyspace, busy, sizes, around, Which::Through(through)),
    };
    let which = expired::Which::Before(around.expired_before);
    deletes.or_else(|| expired::pick(keyspace, busy, sizes, which))
}

fn pick_deletes(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
    which: Which,
) -> Option<CompactionPlan> {
    let (snapshots, monitors) = (keyspace.splitting(&around.snapshots), &keyspace.derived);
    let has_none = match which {
        Which::Worthwhile => monitors.has_none_worthwhile(snapshots),
        Which::Through(through) => monitors.has_none_through(through, snapshots),
    };
    if has_none {
        return None;
    }
    let plan = match keyspace.settings.shape {
        Shape::Leveled { ratio } => {
            tombstones::pick_leveled(keyspace, ratio, busy, sizes, snapshots, which)
        }
        Shape::Tiered { .. } => tombstones::pick_tiered(keyspace, busy, sizes, snapshots, which),
        Shape::Windowed { .. } => None,
    };
    // The picker is asked several times a second. Nothing is in the way of what it looked for.
    if plan.is_none() && busy.is_idle(keyspace.id) && keyspace.is_readable() {
        match which {
            Which::Worthwhile => monitors.note_none_worthwhile(snapshots),
            Which::Through(through) => monitors.note_none_through(through, snapshots),
        }
    }
    plan
}

/// Whether a level is so large that a compaction is due, in addition to what is `moved` already: where [`pick`] finds
/// nothing then, running plans are in its way. Leveled keyspaces only, false for others.
pub fn is_due(
    keyspace: &KeyspaceVersion,
    sizes: SizeTargets,
    arrival: Option<FlushCadence>,
    moved: &PendingMoves,
) -> bool {
    match keyspace.settings.shape {
        Shape::Leveled { ratio } => leveled::is_due(keyspace, ratio, sizes, arrival, moved),
        Shape::Tiered { .. } | Shape::Windowed { .. } => false,
    }
}

/// The compaction work that is due in `keyspace`, running plans included, but not what is `moved` already.
pub fn debt(
    keyspace: &KeyspaceVersion,
    sizes: SizeTargets,
    moved: &PendingMoves,
) -> CompactionDebt {
    match keyspace.settings.shape {
        Shape::Leveled { ratio } => leveled::debt(keyspace, ratio, sizes, moved),
        Shape::Tiered { runs } => match keyspace.settings.dedup {
            Dedup::PerLevel { threshold } => per_level::debt(keyspace, runs as usize, threshold),
            Dedup::SpaceGoal { .. } => space_limit::debt(keyspace, runs as usize),
            Dedup::None => tiered::debt(keyspace, LEVELS, runs as usize),
        },
        Shape::Windowed { .. } => windowed::debt(keyspace),
    }
}

/// Whether the space-amplification limit of `keyspace` lets a flush of `bytes` start now.
pub fn admits_flush(
    keyspace: &KeyspaceVersion,
    bytes: u64,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> bool {
    match (keyspace.settings.shape, keyspace.settings.dedup) {
        (Shape::Tiered { runs }, Dedup::SpaceGoal { amp }) => {
            space_limit::admits(keyspace, runs as usize, amp, bytes, busy, sizes, around)
        }
        _ => true,
    }
}

/// The keys, if any, at which a flush to `keyspace` is cut into tables, in files without those of other
/// keyspaces. `None` if its table may share a file with those: its obsolete data then stays as long as
/// they do.
pub fn flush_cuts(keyspace: &KeyspaceVersion, sizes: SizeTargets) -> Option<Vec<Vec<u8>>> {
    match keyspace.settings.dedup {
        Dedup::SpaceGoal { .. } => Some(space_limit::flush_cuts(keyspace, sizes)),
        _ => None,
    }
}
