//! What pickers have to know besides the version, of the engine as it is now.

use crate::compaction::pick::l0_delay::FlushCadence;
use crate::compaction::space::budget::PickerContext;
use crate::compaction::value_collection;
use crate::engine::Engine;
use crate::resources::lanes::JobClass;
use crate::scheduler::state::SchedulerState;
use crate::version::KeyspaceVersion;
use crate::version::readers::super_version::SuperVersion;
use esker_base::KeyspaceId;
use esker_memtable::MemTable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A flush that follows another later than this counts as the first of a series, however slow compactions are.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// Collects what pickers have to know besides the version of `view`.
pub(super) fn collect(inner: &Engine, view: &SuperVersion, jobs: &SchedulerState) -> PickerContext {
    let arrival = cadence(inner, view, jobs);
    let (age, today) = (inner.tree.settings.delete_age_max, inner.tree.clock.calendar().as_secs());
    let aged_through = view.version.dates.aged(age, today);
    let now = inner.tree.time.now_if_used();
    let expired_before = expired_before(now, age);
    let named = |it: &Arc<KeyspaceVersion>| (it.id, it.settings.compaction_filter);
    let filtered = inner.tree.filters.given(view.version.keyspaces.values().map(named));
    let over = |it: &Arc<KeyspaceVersion>| {
        let (window, _) = it.settings.shape.windows()?;
        Some((it.id, view.version.dates.aged(window, today)))
    };
    let windows_over = view.version.keyspaces.values().filter_map(over).collect();
    let values = &view.version.values;
    let overdue = values.keyspaces().map(|id| (id, value_collection::overdue(values, id)));
    let overdue_values = overdue.filter(|(_, files)| !files.is_empty()).collect();
    if !view.version.has_space_goal() {
        let snapshots = inner.tree.snapshots.list();
        let rest = PickerContext { snapshots, arrival, overdue_values, ..PickerContext::default() };
        return PickerContext { aged_through, now, expired_before, filtered, windows_over, ..rest };
    }
    // Once its tables are there it is in no view any more.
    let is_flushed = |memtable: &&Arc<MemTable>| Some(memtable.epoch()) == jobs.flushing;
    let flushing = view.memtables.last().filter(is_flushed);
    let flushing = flushing.map_or_else(Vec::new, |_| view.next_to_flush());
    PickerContext {
        snapshots: inner.tree.snapshots.list(),
        zombie_bytes: inner.tree.installer.zombie_bytes(),
        // Weighed before the flush was begun, if there was a goal then.
        flushing_bytes: keyspace_sizes(&flushing),
        histories: inner.tree.histories.all(),
        arrival,
        aged_through,
        now,
        filtered,
        expired_before,
        windows_over,
        overdue_values,
    }
}

/// What expired before then has stayed for longer than `age`.
pub(super) fn expired_before(now: u64, age: Duration) -> u64 {
    now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// The last flush, if another one may follow soon, in which case compactions of L0 wait for it. `None` if a caller
/// waits for all compactions, if compaction debt throttles writers, or if no flush can follow: if that is for want of
/// space, compactions may free some.
pub(super) fn cadence(
    inner: &Engine,
    view: &SuperVersion,
    jobs: &SchedulerState,
) -> Option<FlushCadence> {
    let flushed = jobs.flushed.filter(|_| !jobs.deferred.is_hurried())?;
    let fails = |lane: JobClass| jobs.lanes[lane as usize].error.is_some();
    let is_last =
        fails(JobClass::Flush) || fails(JobClass::Prepare) || inner.commit.failure().is_some();
    let since = inner.tree.clock.now().saturating_sub(flushed.at);
    if is_last || inner.stall.waits_for_compaction() || since > ARRIVES_WITHIN {
        return None;
    }
    let waits = view.memtables.iter().any(|memtable| memtable.is_sealed());
    let drained_bytes = if waits { 0 } else { inner.stall.could_drain_level_0(since) };
    Some(FlushCadence { after: flushed.after, drained_bytes })
}

/// What each keyspace has of all `memtables` together, in bytes, as far as it is known.
pub(super) fn keyspace_sizes(memtables: &[Arc<MemTable>]) -> BTreeMap<KeyspaceId, u64> {
    let mut keyspace_sizes = BTreeMap::new();
    let parts = memtables.iter().filter_map(|memtable| memtable.keyspace_sizes());
    for &(keyspace, bytes) in parts.flatten() {
        *keyspace_sizes.entry(keyspace).or_default() += bytes;
    }
    keyspace_sizes
}
