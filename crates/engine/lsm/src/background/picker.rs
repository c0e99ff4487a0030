//! Picks the next job of a lane.

use super::aging;
use super::deferral;
use super::log_space::next_give_back;
use super::picker_context;
use super::segments::{next_growth, next_segment};
use super::spare_plans;
use super::turns::{next_by, next_by_age};
use crate::compaction::execute::compaction_output::CompactionOutput;
use crate::compaction::pick;
use crate::compaction::plan::{CompactionPlan, CompactionReason};
use crate::engine::Engine;
use crate::resources::lanes::{JobClass, Urgency};
use crate::scheduler::state::{Job, SchedulerState};
use crate::version::KeyspaceVersion;
use crate::version::readers::super_version::SuperVersion;
use esker_memtable::MemTable;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn next_job(
    inner: &Engine,
    jobs: &mut MutexGuard<'_, SchedulerState>,
    lane: JobClass,
    urgency: Urgency,
) -> Option<Job> {
    let now = inner.tree.clock.now();
    if !jobs.lane(lane).ready(now) {
        return None;
    }
    if lane == JobClass::Compaction && jobs.opening.openers > 0 {
        return None;
    }
    if urgency == Urgency::Spare {
        let plan = spare_plans::next(inner, jobs)?;
        jobs.begin_plan(&plan);
        return Some(Job::Compact(plan));
    }
    let jobs: &mut SchedulerState = jobs;
    if lane == JobClass::Compaction {
        if let Some(merged) = deferral::take_due(inner, jobs, now) {
            return Some(jobs.begin_install(merged));
        }
        let due = next_due_plan(inner, jobs);
        if due.as_ref().is_some_and(|plan| !leaves_a_thread(inner, jobs, plan)) {
            return None;
        }
        if due.is_none()
            && let Some(merged) = next_in_the_way(inner, jobs)
        {
            return Some(jobs.begin_install(merged));
        }
        jobs.is_compacting &= due.is_some() || jobs.lane(lane).running > 0;
        if due.is_none()
            && let Some(job) = retry_tables(inner, jobs, now)
        {
            return Some(job);
        }
        let plan = due?;
        jobs.begin_plan(&plan);
        return Some(Job::Compact(plan));
    }
    if jobs.lane(lane).running > 0 {
        return None;
    }
    let job = match lane {
        JobClass::Prepare => next_growth(inner, jobs)
            .or_else(|| next_segment(inner, jobs))
            .or_else(|| next_give_back(inner, jobs, now)),
        JobClass::Flush => aging::next(inner, jobs, now)
            .or_else(|| next_flush(inner, jobs))
            .or_else(|| next_seal(inner, jobs)),
        _ => next_sync(inner, jobs, now),
    }?;
    jobs.flushing = match &job {
        Job::Flush(memtable) => Some(memtable.epoch()),
        _ => jobs.flushing,
    };
    jobs.lane(lane).running += 1;
    Some(job)
}

/// Whether `plan` ends soon, or a compaction thread is left for the other databases that share them.
fn leaves_a_thread(inner: &Engine, jobs: &SchedulerState, plan: &CompactionPlan) -> bool {
    let (resources, compaction) =
        (inner.share.resources(), &jobs.lanes[JobClass::Compaction as usize]);
    let threads = resources.background_threads();
    let is_last = jobs.has_threads && threads > 1 && compaction.running + 1 >= threads;
    !is_last || plan.expected_bytes <= inner.tree.sizes.base_bytes() || resources.databases() < 2
}

/// A deferred merge that keeps others from being chosen.
fn next_in_the_way(inner: &Engine, jobs: &mut SchedulerState) -> Option<CompactionOutput> {
    if jobs.deferred.is_empty() || inner.gate.is_cancelled() {
        return None;
    }
    deferral::take_in_the_way(inner, jobs, &inner.tree.view.pin())
}

/// What could not be read may have been on a device that failed for a while.
fn retry_tables(inner: &Engine, jobs: &mut SchedulerState, now: Duration) -> Option<Job> {
    if inner.gate.is_cancelled() || !jobs.retry.begin(now) {
        return None;
    }
    jobs.lane(JobClass::Compaction).running += 1;
    Some(Job::RetryTables)
}

fn next_flush(inner: &Engine, jobs: &SchedulerState) -> Option<Job> {
    let view = inner.tree.view.pin();
    let memtables = view.next_to_flush();
    let (oldest, newest) = (memtables.first()?, memtables.last()?);
    let visible = inner.commit.visible();
    if newest.is_sealed() && newest.last_seqno() <= visible {
        if !view.version.has_space_goal() {
            return Some(Job::Flush(oldest.clone()));
        }
        // What keyspaces it has, and what of it each has, is known once it is sorted. All its entries would
        // be read before, under the lock that a writer needs for its next segment.
        let is_unsorted = |memtable: &&Arc<MemTable>| {
            memtable.needs_sort(visible) || memtable.keyspace_sizes().is_none()
        };
        if let Some(memtable) = memtables.iter().find(is_unsorted) {
            return Some(Job::Sort(memtable.clone()));
        }
        let short = short_of_space(inner, jobs, &view, &memtables);
        if short.is_empty() || !makes_space(inner, jobs, &view, &short) {
            return Some(Job::Flush(oldest.clone()));
        }
    }
    let active = view.memtables.first();
    active
        .filter(|memtable| memtable.needs_sort(visible))
        .map(|memtable| Job::Sort(memtable.clone()))
}

/// An active MemTable that was begun an eighth of the age of deletes ago: only in tables do deletes age.
/// Or a quarter of the shortest window ago, so that few of its writes are of an earlier window.
fn next_seal(inner: &Engine, jobs: &mut SchedulerState) -> Option<Job> {
    let view = inner.tree.view.pin();
    let active = view.memtables.first()?;
    if active.is_sealed() || active.entries() == 0 {
        return None;
    }
    let now = inner.tree.clock.calendar().as_secs();
    match jobs.active_since {
        Some((epoch, since)) if epoch == active.epoch() && since <= now => {
            let for_deletes = inner.tree.settings.delete_age_max.as_secs() / 8;
            let for_windows = view.version.shortest_window().map(|window| window.as_secs() / 4);
            let is_due = now - since >= for_windows.unwrap_or(u64::MAX).min(for_deletes);
            is_due.then(|| Job::Seal(active.clone()))
        }
        _ => {
            jobs.active_since = Some((active.epoch(), now));
            None
        }
    }
}

/// The keyspaces that a flush of `memtables` would take beyond their space-amplification limits.
fn short_of_space(
    inner: &Engine,
    jobs: &SchedulerState,
    view: &SuperVersion,
    memtables: &[Arc<MemTable>],
) -> Vec<Arc<KeyspaceVersion>> {
    let around = picker_context::collect(inner, view, jobs);
    let parts = picker_context::keyspace_sizes(memtables).into_iter();
    let there = parts.filter_map(|(id, bytes)| Some((view.version.keyspaces.get(&id)?, bytes)));
    let is_short = |keyspace: &KeyspaceVersion, bytes| {
        !pick::admits_flush(keyspace, bytes, &jobs.busy, inner.tree.sizes, &around)
    };
    let short = there.filter(|(keyspace, bytes)| is_short(keyspace, *bytes));
    short.map(|(keyspace, _)| keyspace.clone()).collect()
}

/// Whether compaction is at work in one of the keyspaces that are `short` of space, or can be. If not,
/// waiting for it would never end, or would wait for what others have to merge.
fn makes_space(
    inner: &Engine,
    jobs: &SchedulerState,
    view: &SuperVersion,
    short: &[Arc<KeyspaceVersion>],
) -> bool {
    let around = picker_context::collect(inner, view, jobs);
    let fails =
        jobs.lanes[JobClass::Compaction as usize].error.is_some() || jobs.opening.openers > 0;
    let can_merge = |keyspace: &KeyspaceVersion| {
        !fails && pick::pick(keyspace, &jobs.busy, inner.tree.sizes, &around).is_some()
    };
    short.iter().any(|it| !jobs.busy.is_idle(it.id) || can_merge(it))
}

/// Sealed segments are synced at once, off the write path: the frames written from then on say that
/// these are durable, so that damage in them can be distinguished from a torn end. The active one is synced on
/// a timer, if the settings say so.
fn next_sync(inner: &Engine, jobs: &mut SchedulerState, now: Duration) -> Option<Job> {
    if !inner.commit.syncs_later() || inner.commit.failure().is_some() {
        return None;
    }
    let (synced, visible) = (inner.commit.synced(), inner.commit.visible());
    if let Some(interval) = inner.tree.sync_interval()
        && now >= jobs.synced_at + interval
        && synced < visible
    {
        jobs.synced_at = now;
        return Some(Job::Sync(visible));
    }
    let view = inner.tree.view.pin();
    let sealed = view.memtables.iter().filter(|memtable| memtable.is_sealed());
    let through = sealed.map(|memtable| memtable.last_seqno()).max()?;
    (synced < through && through <= visible).then_some(Job::Sync(through))
}

/// The next plan: one that is due, or one for deletes.
pub(crate) fn next_plan(inner: &Engine, jobs: &SchedulerState) -> Option<CompactionPlan> {
    next_due_plan(inner, jobs).or_else(|| spare_plans::next_locked(inner, jobs))
}

/// The next plan of any keyspace that is due. Where something always is, deletes that are a quarter over their
/// time come first, one plan at a time.
pub(crate) fn next_due_plan(inner: &Engine, jobs: &SchedulerState) -> Option<CompactionPlan> {
    let overdue = || {
        let age = inner.tree.settings.delete_age_max;
        let age = age.saturating_add(age / 4);
        next_by_age(inner, jobs, age, pick::pick_aged)
    };
    let may_be_aged = !jobs.busy.runs_for(CompactionReason::OldDeletes);
    may_be_aged.then(overdue).flatten().or_else(|| next_by(inner, jobs, pick::pick))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::steps::step_lane;
    use crate::compaction::pick::l0_delay::FlushCadence;
    use crate::db::Db;
    use crate::db::keyspace::Keyspace;
    use crate::options::settings::{KeyspaceSettings, Log, Settings, Shape};
    use crate::options::space_policy::{Dedup, Ratio};
    use crate::recovery::env::Env;
    use crate::write::stall_inputs::StallInputs;
    use esker_base::Error;
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;
    use esker_table::Compression;

    fn open() -> Db {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let settings =
            Settings::default().log(Log::None).segment_bytes(64 << 10).memory_bytes(4 << 20);
        Db::open_with(env, settings).unwrap()
    }

    fn keyspace(db: &Db, name: &str, runs: u32, dedup: Dedup) -> Keyspace {
        let (shape, compression) = (Shape::Tiered { runs }, Compression::None);
        let settings =
            KeyspaceSettings::default().shape(shape).dedup(dedup).compression(compression);
        db.keyspace(name, settings).unwrap()
    }

    fn put_and_flush(db: &Db, keyspace: &Keyspace, keys: u32) {
        (0..keys).for_each(|n| db.put(keyspace, n.to_be_bytes(), [7; 400]).unwrap());
        db.flush().unwrap();
    }

    #[test]
    fn nothing_is_drained_from_level_0_as_long_as_a_memtable_waits_for_its_flush() {
        let db = open();
        let keyspace = keyspace(&db, "k", 8, Dedup::None);
        let inner = db.inner();
        let arrival =
            || picker_context::cadence(inner, &inner.tree.view.load(), &inner.schedule.jobs.lock());
        assert_eq!(arrival(), None, "nothing was flushed");
        put_and_flush(&db, &keyspace, 10);
        let before = arrival().unwrap();
        while arrival().unwrap().drained_bytes == 0 {}
        (0..10u32).for_each(|n| db.put(&keyspace, n.to_be_bytes(), [7; 400]).unwrap());
        inner.commit.lock_active().seal();
        assert_eq!(arrival(), Some(FlushCadence { drained_bytes: 0, ..before }));
        db.flush().unwrap();
        assert!(arrival().unwrap().after >= before.after + 10);
    }

    #[test]
    fn level_0_waits_for_no_run_while_it_holds_writers_back_or_none_can_follow() {
        let db = open();
        let keyspace = keyspace(&db, "k", 8, Dedup::None);
        let inner = db.inner();
        let arrives = || {
            picker_context::cadence(inner, &inner.tree.view.load(), &inner.schedule.jobs.lock())
                .is_some()
        };
        put_and_flush(&db, &keyspace, 10);
        assert!(arrives());
        let owe = |level_0_excess_runs| {
            let debt =
                StallInputs { level_0_excess_runs, segment_bytes: 1, ..StallInputs::default() };
            inner.stall.set_debt(inner.tree.clock.now(), || debt);
        };
        owe(20.0);
        assert!(!arrives());
        owe(0.0);
        assert!(arrives());
        for lane in [JobClass::Prepare, JobClass::Flush] {
            inner.schedule.jobs.lock().lane(lane).error = Some(Error::Closed);
            assert!(!arrives(), "{lane:?}");
            inner.schedule.jobs.lock().lane(lane).error = None;
        }
    }

    #[test]
    fn a_memtable_counts_as_being_flushed_from_the_choice_until_it_is_and_not_while_it_is_sorted() {
        let db = open();
        let goal = Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) };
        let keyspace = keyspace(&db, "k", 8, goal);
        (0..100u32).for_each(|n| db.put(&keyspace, n.to_be_bytes(), [7; 400]).unwrap());
        db.inner().commit.lock_active().seal();
        let inner = db.inner();
        let flushing = |jobs: &SchedulerState| {
            let around = picker_context::collect(inner, &inner.tree.view.load(), jobs);
            around.flushing_bytes.get(&keyspace.id()).copied().unwrap_or(0)
        };
        let mut jobs = inner.schedule.jobs.lock();
        jobs.lane(JobClass::Flush).running = 1;
        assert_eq!(flushing(&jobs), 0, "the lane sorts");
        jobs.lane(JobClass::Flush).running = 0;
        let mut job = next_job(inner, &mut jobs, JobClass::Flush, Urgency::Due).unwrap();
        if let Job::Sort(memtable) = &job {
            assert_eq!(flushing(&jobs), 0, "it is being sorted");
            memtable.sort_through(inner.commit.visible());
            memtable.compute_keyspace_sizes();
            jobs.lane(JobClass::Flush).running = 0;
            job = next_job(inner, &mut jobs, JobClass::Flush, Urgency::Due).unwrap();
        }
        assert!(matches!(job, Job::Flush(_)) && flushing(&jobs) > 40_000);
        drop(jobs);
        crate::background::executor::run(inner, JobClass::Flush, job).unwrap();
        assert_eq!(flushing(&inner.schedule.jobs.lock()), 0);
    }

    #[test]
    fn no_compaction_is_chosen_while_the_tables_that_were_there_are_being_opened() {
        let db = open();
        let keyspace = keyspace(&db, "k", 2, KeyspaceSettings::default().dedup);
        (0..2).for_each(|_| put_and_flush(&db, &keyspace, 10));
        let mut jobs = db.inner().schedule.jobs.lock();
        jobs.opening.openers = 1;
        assert!(next_job(db.inner(), &mut jobs, JobClass::Compaction, Urgency::Due).is_none());
        jobs.opening.openers = 0;
        assert!(
            next_job(db.inner(), &mut jobs, JobClass::Compaction, Urgency::Due).is_some(),
            "one is due"
        );
    }

    #[test]
    fn tables_whose_reads_failed_are_tried_again_after_a_pause() {
        let db = open();
        let keyspace = keyspace(&db, "k", 8, Dedup::None);
        put_and_flush(&db, &keyspace, 10);
        let inner = db.inner();
        let now = inner.tree.clock.now();
        let view = inner.tree.view.load();
        let (_, _, table) = view.version.keyspaces[&keyspace.id()].tables().next().unwrap();
        table.mark_unreadable(&Error::io("read", "a file", std::io::ErrorKind::Other.into()));
        let mut jobs = inner.schedule.jobs.lock();
        jobs.retry.plan(now + Duration::from_secs(3600));
        assert!(
            next_job(inner, &mut jobs, JobClass::Compaction, Urgency::Due).is_none(),
            "the pause"
        );
        jobs.retry = Default::default();
        jobs.retry.plan(Duration::ZERO);
        inner.tree.clock.sleep(Duration::from_millis(600));
        let job = next_job(inner, &mut jobs, JobClass::Compaction, Urgency::Due).unwrap();
        assert!(matches!(job, Job::RetryTables));
        assert!(
            next_job(inner, &mut jobs, JobClass::Compaction, Urgency::Due).is_none(),
            "one at a time"
        );
        drop(jobs);
        crate::background::executor::run(inner, JobClass::Compaction, job).unwrap();
        assert!(!table.is_unreadable(), "compaction may have it");
        let jobs = inner.schedule.jobs.lock();
        assert_eq!(jobs.lanes[JobClass::Compaction as usize].running, 0);
    }

    #[test]
    fn a_keyspace_needs_room_for_its_own_part_of_a_flush() {
        let db = open();
        let goal = || Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) };
        let (tight, roomy) = (keyspace(&db, "tight", 8, goal()), keyspace(&db, "roomy", 8, goal()));
        put_and_flush(&db, &tight, 200);
        db.wait_for_compactions().unwrap();
        let inner = db.inner();
        let admits = |bytes| {
            let view = inner.tree.view.load();
            let jobs = inner.schedule.jobs.lock();
            let around = picker_context::collect(inner, &view, &jobs);
            let keyspace = &view.version.keyspaces[&tight.id()];
            pick::admits_flush(keyspace, bytes, &jobs.busy, inner.tree.sizes, &around)
        };
        // Files of merged tables are held until there is no room for a whole flush.
        let mut held = Vec::new();
        while admits(50_000) {
            held.push(inner.tree.view.load());
            put_and_flush(&db, &tight, 20);
            db.compact_keyspace(&tight).unwrap();
        }
        db.put(&tight, b"key", b"value").unwrap();
        (0..120u32).for_each(|n| db.put(&roomy, n.to_be_bytes(), [7; 400]).unwrap());
        inner.commit.lock_active().seal();
        let view = inner.tree.view.load();
        let oldest = view.memtables.last().unwrap();
        oldest.sort_through(inner.commit.visible());
        oldest.compute_keyspace_sizes();
        assert!(oldest.bytes_used() > 50_000);
        let jobs = inner.schedule.jobs.lock();
        assert!(short_of_space(inner, &jobs, &view, std::slice::from_ref(oldest)).is_empty());
    }

    #[test]
    fn a_flush_waits_for_no_merges_but_those_that_make_room_for_it() {
        let db = open();
        let goal = Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) };
        let short = keyspace(&db, "short", 8, goal);
        let other = keyspace(&db, "other", 2, Dedup::None);
        put_and_flush(&db, &short, 1000);
        db.wait_for_compactions().unwrap();
        // Its files stay, whatever is merged.
        let held = db.inner().tree.view.load();
        put_and_flush(&db, &short, 1000);
        db.wait_for_compactions().unwrap();
        put_and_flush(&db, &other, 10);
        put_and_flush(&db, &other, 10);
        db.put(&short, b"key", b"value").unwrap();
        db.inner().commit.lock_active().seal();
        {
            let (inner, jobs) = (db.inner(), db.inner().schedule.jobs.lock());
            let view = inner.tree.view.load();
            let oldest = view.memtables.last().unwrap();
            oldest.compute_keyspace_sizes();
            let short = short_of_space(inner, &jobs, &view, std::slice::from_ref(oldest));
            assert_eq!(short.len(), 1, "it is short of space");
            assert!(next_plan(inner, &jobs).is_some(), "the other has something to merge");
        }
        while step_lane(db.inner(), JobClass::Flush) {}
        let view = db.inner().tree.view.load();
        assert!(view.memtables.iter().all(|memtable| !memtable.is_sealed()), "it is flushed");
        drop(held);
    }
}
