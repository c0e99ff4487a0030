//! Background work: what there is to do, who does it, and who waits for it.
//!
//! Two lanes. The write lane prepares segments, sorts MemTables, flushes and syncs by the clock; it has
//! one thread of its own, so that writers never wait behind a compaction. The compaction lane has as
//! many threads as the settings say. Without threads (in a simulation) the owner steps both by hand.
//!
//! A job that fails is kept as the lane's error and tried again after a pause; a writer that needs its
//! result asks for a try at once, and gets the fresh error if that fails too. So a full disk stops
//! writers with a reason, and freeing space starts them again.

use crate::commit::LogSegment;
use crate::compact::compact;
use crate::compaction::{self, Busy, Plan};
use crate::flush;
use crate::inner::Inner;
use crate::manifest::{Change, Edit};
use crate::stall::Debt;
use esker_base::{Error, Result};
use esker_memtable::{HeapMemory, MemTable, SegmentHeader};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// The pause before a failed job is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// A thread with nothing to do looks again after this, as a precaution.
pub(crate) const IDLE: Duration = Duration::from_millis(200);

/// Which thread does a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    Write,
    Compaction,
}

/// One piece of work.
enum Job {
    Prepare,
    Sort(Arc<MemTable>),
    Flush(Arc<MemTable>),
    Sync,
    Compact(Plan),
}

/// The state of all background work.
#[derive(Default)]
pub(crate) struct Schedule {
    pub(crate) jobs: Mutex<Jobs>,
    /// Wakes lanes.
    pub(crate) work: Condvar,
    /// Wakes whoever waits for a lane's results.
    pub(crate) progress: Condvar,
}

/// What the schedule's lock protects.
#[derive(Default)]
pub(crate) struct Jobs {
    pub(crate) closing: bool,
    pub(crate) closed: bool,
    pub(crate) has_threads: bool,
    /// A writer came, so segments are worth preparing.
    pub(crate) wants_segment: bool,
    pub(crate) prepared: Option<LogSegment>,
    /// MemTables flushed, kept for the memory if nobody else holds them.
    pub(crate) retired: Vec<Arc<MemTable>>,
    pub(crate) writing: bool,
    pub(crate) busy: Busy,
    pub(crate) compacting: usize,
    pub(crate) synced_at: Duration,
    pub(crate) write_lane: LaneState,
    pub(crate) compaction_lane: LaneState,
}

/// How a lane's jobs fare.
#[derive(Default)]
pub(crate) struct LaneState {
    pub(crate) error: Option<Error>,
    pub(crate) retry_at: Duration,
    pub(crate) attempts: u64,
}

impl LaneState {
    fn ready(&self, now: Duration) -> bool {
        self.error.is_none() || now >= self.retry_at
    }

    fn finish(&mut self, outcome: Result<()>, now: Duration) {
        self.attempts += 1;
        self.retry_at = now + RETRY;
        self.error = outcome.err();
    }
}

impl Schedule {
    /// Says that threads serve the lanes.
    pub(crate) fn set_threaded(&self) {
        self.jobs.lock().has_threads = true;
    }

    /// Says that there may be work.
    pub(crate) fn wake(&self) {
        // The lock makes sure that a lane that just found nothing is asleep by now.
        drop(self.jobs.lock());
        self.work.notify_all();
    }

    /// Ends the lanes after their present jobs.
    pub(crate) fn close(&self) {
        self.jobs.lock().closing = true;
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Whether nobody has begun to close before.
    pub(crate) fn begin_close(&self) -> bool {
        !std::mem::replace(&mut self.jobs.lock().closed, true)
    }

    /// Why a lane stands still, if one does.
    pub(crate) fn error(&self) -> Option<Error> {
        let jobs = self.jobs.lock();
        jobs.write_lane.error.clone().or_else(|| jobs.compaction_lane.error.clone())
    }

    /// Gives up the memory and the segment held in readiness.
    pub(crate) fn release(&self) {
        let mut jobs = self.jobs.lock();
        jobs.prepared = None;
        jobs.retired.clear();
    }
}

/// What a lane's thread runs until the database closes.
pub(crate) fn serve(inner: &Inner, lane: Lane) {
    let schedule = &inner.schedule;
    let mut jobs = schedule.jobs.lock();
    while !jobs.closing {
        match next_job(inner, &mut jobs, lane) {
            Some(job) => {
                drop(jobs);
                run(inner, lane, job);
                jobs = schedule.jobs.lock();
            }
            None => {
                let wait = inner.sync_interval().unwrap_or(IDLE).min(IDLE);
                schedule.work.wait_for(&mut jobs, wait);
            }
        }
    }
}

/// Does one job of either lane in the calling thread. False if there is none, or it failed.
pub(crate) fn step(inner: &Inner) -> bool {
    [Lane::Write, Lane::Compaction].into_iter().any(|lane| step_lane(inner, lane))
}

/// Does one job of `lane` in the calling thread. False if there is none, or it failed.
pub(crate) fn step_lane(inner: &Inner, lane: Lane) -> bool {
    let job = {
        let mut jobs = inner.schedule.jobs.lock();
        jobs.lane(lane).error = None;
        next_job(inner, &mut jobs, lane)
    };
    match job {
        Some(job) => {
            run(inner, lane, job);
            inner.schedule.jobs.lock().lane(lane).error.is_none()
        }
        None => false,
    }
}

impl Jobs {
    pub(crate) fn lane(&mut self, lane: Lane) -> &mut LaneState {
        match lane {
            Lane::Write => &mut self.write_lane,
            Lane::Compaction => &mut self.compaction_lane,
        }
    }
}

fn next_job(inner: &Inner, jobs: &mut Jobs, lane: Lane) -> Option<Job> {
    let now = inner.clock.now();
    if !jobs.lane(lane).ready(now) {
        return None;
    }
    match lane {
        Lane::Write if jobs.writing => None,
        Lane::Write => {
            let job = next_write_job(inner, jobs, now)?;
            jobs.writing = true;
            Some(job)
        }
        Lane::Compaction => {
            let plan = next_plan(inner, jobs)?;
            jobs.busy.claim(&plan);
            jobs.compacting += 1;
            Some(Job::Compact(plan))
        }
    }
}

fn next_write_job(inner: &Inner, jobs: &mut Jobs, now: Duration) -> Option<Job> {
    if let Some(interval) = inner.sync_interval()
        && now >= jobs.synced_at + interval
        && inner.commit.synced() < inner.commit.visible()
        && inner.commit.failure().is_none()
    {
        jobs.synced_at = now;
        return Some(Job::Sync);
    }
    let view = inner.view.pin();
    let sealed = view.memtables.iter().filter(|memtable| memtable.is_sealed()).count();
    // One segment beyond the limit may be prepared, or writers could never fill the limit.
    if jobs.wants_segment && jobs.prepared.is_none() && sealed <= inner.settings.sealed_segments {
        return Some(Job::Prepare);
    }
    let oldest = view.memtables.last();
    if let Some(memtable) = oldest
        && memtable.is_sealed()
        && memtable.last_seqno() <= inner.commit.visible()
    {
        return Some(Job::Flush(memtable.clone()));
    }
    let active = view.memtables.first();
    active.filter(|memtable| memtable.wants_order()).map(|memtable| Job::Sort(memtable.clone()))
}

pub(crate) fn next_plan(inner: &Inner, jobs: &Jobs) -> Option<Plan> {
    if inner.gate.is_cancelled() {
        return None;
    }
    let view = inner.view.pin();
    let mut keyspaces = view.version.keyspaces.values();
    keyspaces.find_map(|keyspace| compaction::pick(keyspace, &jobs.busy, inner.sizes))
}

fn run(inner: &Inner, lane: Lane, job: Job) {
    let schedule = &inner.schedule;
    let outcome = match &job {
        Job::Prepare => prepare(inner),
        Job::Sort(memtable) => {
            memtable.build_order(inner.commit.visible());
            Ok(())
        }
        Job::Flush(memtable) => flush_one(inner, memtable),
        Job::Sync => inner.commit.sync(),
        Job::Compact(plan) => compact(inner, plan),
    };
    let mut jobs = schedule.jobs.lock();
    match &job {
        Job::Compact(plan) => {
            jobs.busy.release(plan);
            jobs.compacting -= 1;
        }
        _ => jobs.writing = false,
    }
    // A compaction that was cancelled has not failed.
    let outcome =
        if inner.gate.is_cancelled() && lane == Lane::Compaction { Ok(()) } else { outcome };
    jobs.lane(lane).finish(outcome, inner.clock.now());
    drop(jobs);
    if !matches!(job, Job::Sort(_) | Job::Sync) {
        update_debt(inner);
    }
    schedule.work.notify_all();
    schedule.progress.notify_all();
}

fn prepare(inner: &Inner) -> Result<()> {
    let epoch = u32::try_from(inner.installer.next_file()).map_err(|_| Error::InvalidSetting {
        setting: "log epoch",
        value: "beyond 4,294,967,295".into(),
        reason: "the database has used up its file ids; export it and import it into a new one"
            .into(),
    })?;
    let header = SegmentHeader {
        epoch,
        capacity: inner.settings.segment_bytes as u64,
        alignment: crate::log_files::LOG_ALIGNMENT,
        key_id: 0,
    };
    let file = match &inner.log_files {
        Some(logs) => {
            let file = logs.create(&header)?;
            inner.installer.install(
                &inner.view,
                |_| Ok(Edit::of([Change::AddLog { epoch, end: None }])),
                |_| {},
            )?;
            Some(file)
        }
        None => None,
    };
    let memtable = Arc::new(new_memtable(inner, header));
    inner.schedule.jobs.lock().prepared = Some(LogSegment { memtable, file });
    Ok(())
}

/// A MemTable for `header`, in the memory of a retired one if one is free.
fn new_memtable(inner: &Inner, header: SegmentHeader) -> MemTable {
    let reusable = {
        let mut jobs = inner.schedule.jobs.lock();
        let free = jobs.retired.iter().position(|memtable| Arc::strong_count(memtable) == 1);
        free.and_then(|at| Arc::try_unwrap(jobs.retired.swap_remove(at)).ok())
    };
    match reusable {
        Some(memtable) => memtable.recycle(header),
        None => MemTable::new(Box::new(HeapMemory::new(inner.settings.segment_bytes)), header),
    }
}

fn flush_one(inner: &Inner, memtable: &Arc<MemTable>) -> Result<()> {
    let view = inner.view.load();
    inner.gate.set_urgent_flushes(view.memtables.iter().filter(|m| m.is_sealed()).count());
    drop(view);
    let flushed = flush::flush(inner, memtable);
    inner.gate.set_urgent_flushes(0);
    flushed?;
    let mut jobs = inner.schedule.jobs.lock();
    // Recovered segments may have another size.
    if memtable.header().capacity == inner.settings.segment_bytes as u64 && jobs.retired.is_empty()
    {
        jobs.retired.push(memtable.clone());
    }
    drop(jobs);
    inner.open_new_tables()
}

/// Tells writers how fast they may go now.
pub(crate) fn update_debt(inner: &Inner) {
    let view = inner.view.pin();
    let sealed = view.memtables.iter().filter(|memtable| memtable.is_sealed()).count();
    let mut debt = Debt {
        sealed,
        sealed_limit: inner.settings.sealed_segments,
        segment_bytes: inner.settings.segment_bytes,
        ..Debt::default()
    };
    for keyspace in view.version.keyspaces.values() {
        let owed = compaction::debt(keyspace, inner.sizes);
        let excess = owed.level_0_runs.saturating_sub(owed.level_0_trigger);
        debt.level_0_excess_runs = debt.level_0_excess_runs.max(excess);
        debt.compaction_bytes += owed.bytes;
    }
    inner.stall.set_debt(debt);
}
