//! Picks compactions for deletes, which run when nothing else is due.
//!
//! Picking reads the counts of all tables, so it runs without the schedule's lock, which a writer
//! needs for its next segment. A plan counts only if what it was chosen by has not changed meanwhile.

use super::picker_context;
use super::turns::{in_turn, next_by};
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick;
use crate::compaction::plan::{CompactionPlan, CompactionReason};
use crate::compaction::space::budget::PickerContext;
use crate::engine::Engine;
use crate::options::sizes::SizeTargets;
use crate::scheduler::state::SchedulerState;
use crate::version::KeyspaceVersion;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::time::Duration;

/// The next plan, picked without the lock.
pub(super) fn next(
    inner: &Engine,
    jobs: &mut MutexGuard<'_, SchedulerState>,
) -> Option<CompactionPlan> {
    let may_be_aged = may_be_aged(jobs);
    let aged = may_be_aged.then(|| unlocked(inner, jobs, pick::pick_aged)).flatten();
    if aged.is_some() || !is_idle(inner, jobs) {
        return aged;
    }
    unlocked(inner, jobs, pick::pick_idle)
}

/// The next plan, picked under the lock: for a caller that waits for all of them.
pub(super) fn next_locked(inner: &Engine, jobs: &SchedulerState) -> Option<CompactionPlan> {
    let aged = || next_by(inner, jobs, pick::pick_aged);
    let idle = || is_idle(inner, jobs).then(|| next_by(inner, jobs, pick::pick_idle)).flatten();
    may_be_aged(jobs).then(aged).flatten().or_else(idle)
}

/// Picks without the lock. `None` if nothing is found, or if a plan was begun, a flush began, or tables
/// changed meanwhile.
fn unlocked(
    inner: &Engine,
    jobs: &mut MutexGuard<'_, SchedulerState>,
    pick: impl Fn(
        &KeyspaceVersion,
        &InProgressCompactions,
        SizeTargets,
        &PickerContext,
    ) -> Option<CompactionPlan>,
) -> Option<CompactionPlan> {
    if inner.gate.is_cancelled() {
        return None;
    }
    let view = inner.tree.view.load();
    let around = picker_context::collect(inner, &view, jobs);
    let version = view.version.clone();
    // A MemTable that is held is not used again.
    drop(view);
    let (busy, served, flushing) = (jobs.busy.clone(), jobs.served, jobs.flushing);
    let plan = MutexGuard::unlocked(jobs, || {
        in_turn(&version, served, |keyspace| pick(keyspace, &busy, inner.tree.sizes, &around))
    })?;
    let is_over = jobs.closing || jobs.panicked || jobs.opening.openers > 0;
    let is_same = jobs.busy == busy
        && jobs.flushing == flushing
        && Arc::ptr_eq(&version, &inner.tree.view.pin().version);
    (is_same && !is_over).then_some(plan)
}

/// Of deletes that are too old, one plan at a time runs, so that what comes to be due finds a thread.
fn may_be_aged(jobs: &SchedulerState) -> bool {
    !jobs.busy.runs_for(CompactionReason::OldDeletes)
}

/// Whether nothing is written, and nothing has been for a while; or a caller waits for all work to end. One plan at
/// a time is done in idle time, so that what comes to be due finds a thread.
fn is_idle(inner: &Engine, jobs: &SchedulerState) -> bool {
    /// Another flush would come by then if writers were busy.
    const AFTER: Duration = Duration::from_secs(1);
    if jobs.busy.runs_for(CompactionReason::Deletes) || inner.stall.waits_for_compaction() {
        return false;
    }
    let flushed_at = jobs.flushed.map_or(jobs.opened_at, |flushed| flushed.at);
    let is_quiet = inner.tree.clock.now().saturating_sub(flushed_at) >= AFTER
        && !inner.tree.view.pin().memtables.iter().any(|memtable| memtable.is_sealed());
    is_quiet || jobs.deferred.is_hurried()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::picker::next_job;
    use crate::resources::Resources;
    use crate::resources::lanes::{JobClass, Urgency};
    use crate::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Shape};
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;
    use esker_table::Compression;
    use std::cell::Cell;

    fn open(resources: Option<&Resources>) -> Db {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let settings = Settings {
            log: Log::None,
            segment_bytes: 64 << 10,
            memory_bytes: 8 << 20,
            resources: resources.cloned(),
            ..Settings::default()
        };
        Db::open_with(env, settings).unwrap()
    }

    fn tiered(db: &Db, name: &str, runs: u32) -> Keyspace {
        let (shape, compression) = (Shape::Tiered { runs }, Compression::None);
        db.keyspace(name, KeyspaceSettings { shape, compression, ..Default::default() }).unwrap()
    }

    fn put_and_flush(db: &Db, keyspace: &Keyspace, keys: std::ops::Range<u32>) {
        keys.for_each(|key| db.put(keyspace, key.to_be_bytes(), [7; 400]).unwrap());
        db.flush().unwrap();
    }

    #[test]
    fn a_plan_for_deletes_is_picked_without_the_lock_and_dropped_if_tables_change_meanwhile() {
        let db = open(None);
        let keyspace = tiered(&db, "k", 8);
        put_and_flush(&db, &keyspace, 0..100);
        (0..100u32).for_each(|key| db.delete(&keyspace, key.to_be_bytes()).unwrap());
        db.flush().unwrap();
        let inner = db.inner();
        type Work = fn(&Db, &CompactionPlan);
        let meanwhile: Cell<Option<Work>> = Cell::new(None);
        let mut jobs = inner.schedule.jobs.lock();
        let mut picked = || {
            let plan = unlocked(inner, &mut jobs, |it, busy, sizes, around| {
                let plan = pick::pick_idle(it, busy, sizes, around)?;
                assert!(inner.schedule.jobs.try_lock().is_some(), "writers wait for the pick");
                meanwhile.take().iter().for_each(|work| work(&db, &plan));
                Some(plan)
            });
            plan.map(|plan| plan.reason)
        };
        assert_eq!(picked(), Some(CompactionReason::Deletes));
        meanwhile.set(Some(|db, _| put_and_flush(db, &db.default_keyspace(), 0..1)));
        assert_eq!(picked(), None, "there is another table");
        meanwhile.set(Some(|db, _| db.inner().schedule.jobs.lock().flushing = Some(7)));
        assert_eq!(picked(), None, "a flush was begun");
        meanwhile.set(Some(|db, plan| db.inner().schedule.jobs.lock().begin_plan(plan)));
        assert_eq!(picked(), None, "it was begun by another thread");
    }

    #[test]
    fn a_database_leaves_one_thread_of_several_for_the_long_compactions_of_others() {
        let resources = Resources::new(64 << 20, 2).unwrap();
        let (busy, other) = (open(Some(&resources)), open(Some(&resources)));
        let inner = busy.inner();
        for (name, runs) in [("long", 8), ("short", 2), ("another long", 8)] {
            let keyspace = tiered(&busy, name, runs);
            // Overlapping runs: they can't just be moved.
            (0..runs).for_each(|_| put_and_flush(&busy, &keyspace, 0..100));
        }
        inner.schedule.set_threaded();
        let mut jobs = inner.schedule.jobs.lock();
        let mut begins =
            || next_job(inner, &mut jobs, JobClass::Compaction, Urgency::Due).is_some();
        assert!(begins(), "the first long one");
        assert!(begins(), "a short one");
        assert!(!begins(), "the last thread is for others");
        drop(other);
        assert!(begins(), "there are no others");
        jobs.has_threads = false;
    }
}
