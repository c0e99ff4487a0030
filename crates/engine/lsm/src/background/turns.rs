//! Picks a plan in one of several keyspaces, each in its turn.

use super::picker_context;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::CompactionPlan;
use crate::compaction::space::budget::PickerContext;
use crate::engine::Engine;
use crate::options::sizes::SizeTargets;
use crate::scheduler::state::SchedulerState;
use crate::version::{KeyspaceVersion, Version};
use esker_base::KeyspaceId;
use std::ops::Bound;
use std::time::Duration;

pub(super) type Picker = fn(
    &KeyspaceVersion,
    &InProgressCompactions,
    SizeTargets,
    &PickerContext,
) -> Option<CompactionPlan>;

/// The next plan of any keyspace by `pick`.
pub(super) fn next_by(
    inner: &Engine,
    jobs: &SchedulerState,
    pick: Picker,
) -> Option<CompactionPlan> {
    next_by_age(inner, jobs, inner.tree.settings.delete_age_max, pick)
}

/// The same, with deletes that are too old after `age`.
pub(super) fn next_by_age(
    inner: &Engine,
    jobs: &SchedulerState,
    age: Duration,
    pick: Picker,
) -> Option<CompactionPlan> {
    if inner.gate.is_cancelled() {
        return None;
    }
    let view = inner.tree.view.pin();
    let mut around = picker_context::collect(inner, &view, jobs);
    around.aged_through = view.version.dates.aged(age, inner.tree.clock.calendar().as_secs());
    around.expired_before = picker_context::expired_before(around.now, age);
    in_turn(&view.version, jobs.served, |it| pick(it, &jobs.busy, inner.tree.sizes, &around))
}

/// The first plan of a keyspace, each in its turn after `served`: one with much to do, or whose plans fail, must
/// not keep the others waiting.
pub(super) fn in_turn(
    version: &Version,
    served: Option<KeyspaceId>,
    pick: impl Fn(&KeyspaceVersion) -> Option<CompactionPlan>,
) -> Option<CompactionPlan> {
    let keyspaces = &version.keyspaces;
    let (after, upto) = match served {
        Some(served) => (Bound::Excluded(served), Bound::Included(served)),
        None => (Bound::Unbounded, Bound::Excluded(KeyspaceId::DEFAULT)),
    };
    let after = keyspaces.range((after, Bound::Unbounded));
    let mut in_turn = after.chain(keyspaces.range((Bound::Unbounded, upto)));
    in_turn.find_map(|(_, keyspace)| pick(keyspace))
}
