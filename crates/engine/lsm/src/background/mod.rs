//! Background work: which jobs exist, which thread runs them, and what waits for them.
//!
//! Jobs run in lanes, so that none blocks another:
//!
//! * *prepare* prepares the next log segment;
//! * *flush* sorts MemTables and writes them to tables;
//! * *sync* makes the log durable when writers do not wait for that;
//! * *compaction* executes plans.
//!
//! The first three have one thread each, the last as many as the settings say. Databases that share
//! [`Resources`](crate::Resources) share these threads (`resources::crew`). Without threads, as in a
//! simulation, the owner steps all lanes.
//!
//! The lane keeps the error of a failed job and retries the job after a pause. A writer that needs
//! the result requests a retry at once, and gets the new error if that fails as well. So a full
//! disk stops writers with a reason, and freeing space resumes them.

pub(crate) mod executor;
pub(crate) mod picker;
mod served;
mod spare_plans;
pub(crate) mod wait;

use crate::compaction::execute::job::{CompactionJob, CompactionOutput};
use crate::compaction::execute::pending_installs::PendingInstalls;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionPlan, CompactionReason};
use crate::engine::Engine;
use crate::log::segment_provider::LogSegment;
use crate::options::settings::Settings;
use crate::recovery::open_tables::TableOpenState;
use crate::resources::crew::{IDLE, Signal};
use crate::resources::lanes::{JobClass, Urgency};
use crate::version::unreadable::Retry;
use esker_base::{Error, KeyspaceId, Result, Seqno};
use esker_memtable::{MemTable, Room};
use esker_storage::Pace;
use executor::{help, run};
use parking_lot::{Condvar, Mutex};
use picker::next_job;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The pause before a failed job is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// One piece of work.
enum Job {
    Prepare,
    /// Has there be so much of the active segment.
    Grow(LogSegment, Room, Pace),
    Sort(Arc<MemTable>),
    Flush(Arc<MemTable>),
    /// Ends the active MemTable, if this one still is, so that it is flushed.
    Seal(Arc<MemTable>),
    /// Of everything up to this seqno.
    Sync(Seqno),
    Compact(CompactionPlan),
    /// Of a merge that was deferred.
    Install(CompactionOutput),
    /// Tries tables again whose reads failed.
    RetryTables,
}

/// The state of all background work.
#[derive(Default)]
pub(crate) struct Scheduler {
    pub(crate) jobs: Mutex<SchedulerState>,
    /// Wakes lanes.
    pub(crate) work: Arc<Signal>,
    /// Wakes whoever waits for a lane's results.
    pub(crate) progress: Condvar,
    /// Wakes those that only wait for the close.
    pub(crate) closing: Condvar,
}

/// What the schedule's lock protects.
#[derive(Default)]
pub(crate) struct SchedulerState {
    pub(crate) closing: bool,
    pub(crate) has_threads: bool,
    /// Of the tables that the database was opened with.
    pub(crate) opening: TableOpenState,
    /// A writer came, so segments are worth preparing.
    pub(crate) wants_segment: bool,
    /// A writer needs the next segment, however little of the active one is used. No writer does once one
    /// has begun a segment.
    pub(crate) needs_segment: bool,
    /// How many segments a large batch waits for.
    pub(crate) segments_wanted: usize,
    /// A writer of a small batch was held back because of a large one.
    pub(crate) small_waits: bool,
    /// It has waited for one large batch, and goes before the next.
    pub(crate) small_is_next: bool,
    /// Segments prepared for a large batch that was refused. The manifest may list them.
    pub(crate) unneeded: Vec<LogSegment>,
    /// Segments that writers may begin, the next one first.
    pub(crate) prepared: VecDeque<LogSegment>,
    /// The active segment, as long as it can grow.
    pub(crate) growing: Option<LogSegment>,
    /// What writers wait for: how much of the segment of which epoch.
    pub(crate) expected_entries: Option<(u32, Room)>,
    /// Segments whose listing failed: the manifest may list them until it is mended.
    doubtful: Vec<u32>,
    /// MemTables flushed, kept for the memory if nobody else holds them.
    pub(crate) retired: Vec<Arc<MemTable>>,
    pub(crate) busy: InProgressCompactions,
    /// Their plans are busy.
    pub(crate) deferred: PendingInstalls,
    /// A plan is under way, or another comes right after the last one.
    is_compacting: bool,
    /// When the database was opened.
    pub(crate) opened_at: Duration,
    /// The last flush since the database was opened.
    pub(crate) flushed: Option<Flushed>,
    /// The epoch of the active MemTable that was last seen with something in it, and when that was first, in
    /// seconds of the calendar.
    active_since: Option<(u32, u64)>,
    /// The epoch of the MemTable that is being flushed.
    pub(crate) flushing: Option<u32>,
    /// Plans under way that have several parts.
    shared: Vec<Arc<CompactionJob>>,
    pub(crate) synced_at: Duration,
    pub(crate) lanes: [JobClassState; 4],
    /// When tables whose reads failed are tried again.
    pub(crate) retry: Retry,
    /// The keyspace of the plan begun last: the others come before it.
    served: Option<KeyspaceId>,
    /// A background thread has panicked: what it was doing will never be done.
    pub(crate) panicked: bool,
}

/// A flush that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Flushed {
    pub(crate) at: Duration,
    /// What came before its MemTable.
    pub(crate) after: Seqno,
}

/// How a lane's jobs fare.
#[derive(Default)]
pub(crate) struct JobClassState {
    /// Jobs that run now.
    pub(crate) running: usize,
    pub(crate) error: Option<Error>,
    pub(crate) retry_at: Duration,
    pub(crate) attempts: u64,
}

impl JobClassState {
    fn ready(&self, now: Duration) -> bool {
        self.error.is_none() || now >= self.retry_at
    }

    /// What came of a job, whose thread still cleans up after it.
    fn record(&mut self, outcome: Result<()>, now: Duration) {
        self.attempts += 1;
        self.retry_at = now + RETRY;
        self.error = outcome.err();
    }
}

impl Scheduler {
    /// A schedule whose work is announced to the threads that wait for `work`.
    pub(crate) fn announcing(work: Arc<Signal>) -> Self {
        Scheduler { work, ..Scheduler::default() }
    }

    /// Says that threads serve the lanes.
    pub(crate) fn set_threaded(&self) {
        self.jobs.lock().has_threads = true;
    }

    /// How many threads do compactions: one, the caller's, if none serves the lane.
    pub(crate) fn compaction_threads(&self, settings: &Settings) -> usize {
        if self.jobs.lock().has_threads { settings.background_threads } else { 1 }
    }

    /// Has idle threads take parts of `merge`.
    pub(crate) fn share(&self, merge: &Arc<CompactionJob>) {
        self.jobs.lock().shared.push(merge.clone());
        self.work.announce();
    }

    /// Forgets `merge`, of which no part is left, and waits until those who helped have, too.
    pub(crate) fn unshare(&self, merge: &Arc<CompactionJob>) {
        let mut jobs = self.jobs.lock();
        jobs.shared.retain(|other| !Arc::ptr_eq(other, merge));
        while Arc::strong_count(merge) > 1 {
            self.progress.wait_for(&mut jobs, IDLE);
        }
    }

    /// Says that there may be work.
    pub(crate) fn wake(&self) {
        self.work.announce();
    }

    /// Ends the lanes after their present jobs.
    pub(crate) fn close(&self) {
        self.jobs.lock().closing = true;
        self.closing.notify_all();
        self.work.announce();
        self.progress.notify_all();
    }

    /// Why a lane stands still, if one does.
    pub(crate) fn error(&self) -> Option<Error> {
        self.jobs.lock().lanes.iter().find_map(|lane| lane.error.clone())
    }

    /// Has tables whose reads failed tried again, after a pause.
    pub(crate) fn retry_tables(&self, now: Duration) {
        self.jobs.lock().retry.plan(now);
    }

    /// Gives up the memory and the segments held in readiness.
    pub(crate) fn release(&self) {
        let mut jobs = self.jobs.lock();
        jobs.prepared.clear();
        jobs.unneeded.clear();
        jobs.growing = None;
        jobs.retired.clear();
    }
}

/// Does one job of `lane`, in a thread that serves it. False if there is none so urgent.
fn visit(inner: &Engine, lane: JobClass, urgency: Urgency) -> bool {
    let _alarm = PanicGuard(inner);
    let mut jobs = inner.schedule.jobs.lock();
    if jobs.closing || jobs.panicked {
        return false;
    }
    if let Some(job) = next_job(inner, &mut jobs, lane, urgency) {
        drop(jobs);
        // What failed is kept as the lane's error.
        let _ = run(inner, lane, job);
    } else if urgency == Urgency::Spare
        && let Some(merge) = jobs.next_to_help(lane)
    {
        drop(jobs);
        help(inner, merge);
    } else {
        return false;
    }
    true
}

/// Tells those who wait if a background thread panics.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a Engine);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.schedule.jobs.lock().panicked = true;
            self.0.schedule.progress.notify_all();
        }
    }
}

/// Does one job of any lane in the calling thread. False if there is none, or it failed.
pub(crate) fn step(inner: &Engine) -> bool {
    JobClass::ALL.into_iter().any(|lane| step_lane(inner, lane))
}

/// Does one job of `lane` in the calling thread. False if there is none, or it failed.
pub(crate) fn step_lane(inner: &Engine, lane: JobClass) -> bool {
    let job = {
        let mut jobs = inner.schedule.jobs.lock();
        jobs.lane(lane).error = None;
        let mut urgencies = lane.urgencies().iter();
        urgencies.find_map(|urgency| next_job(inner, &mut jobs, lane, *urgency))
    };
    match job {
        Some(job) => run(inner, lane, job).is_ok(),
        None => false,
    }
}

impl SchedulerState {
    pub(crate) fn lane(&mut self, lane: JobClass) -> &mut JobClassState {
        &mut self.lanes[lane as usize]
    }

    /// Whether `count` segments are prepared that are all there.
    pub(crate) fn has_segments(&self, count: usize) -> bool {
        let whole = self.prepared.iter().take(count).filter(|it| it.memtable.is_whole());
        whole.count() == count
    }

    /// Whether a large batch may take `count` segments. If a writer of a small batch waits, one stays.
    pub(crate) fn are_gathered(&self, count: usize) -> bool {
        self.prepared.len() >= self.with_one_for_others(count) && self.has_segments(count)
    }

    /// How many segments are prepared so that a large batch gets `count`.
    pub(crate) fn with_one_for_others(&self, count: usize) -> usize {
        if count > 0 && self.small_waits { count + 1 } else { count }
    }

    /// Whether prepared segments are for a large batch that gathers them, and for no other writer.
    pub(crate) fn are_segments_held_back(&self) -> bool {
        self.has_threads && self.segments_wanted > 0 && !self.small_is_next
    }

    /// A merge of which a part is left, for a thread of the compaction lane that has nothing else to do.
    fn next_to_help(&mut self, lane: JobClass) -> Option<Arc<CompactionJob>> {
        let left = self.shared.iter().find(|merge| merge.parts.are_left());
        let merge = left.filter(|_| lane == JobClass::Compaction)?.clone();
        self.lane(lane).running += 1;
        Some(merge)
    }

    /// Takes up a merge that was deferred.
    fn begin_install(&mut self, merged: CompactionOutput) -> Job {
        // What it was in the way of comes next.
        self.is_compacting = true;
        self.deferred.begin_install();
        self.lane(JobClass::Compaction).running += 1;
        Job::Install(merged)
    }

    /// Takes up a plan, by a lane or by a caller.
    pub(crate) fn begin_plan(&mut self, plan: &CompactionPlan) {
        self.busy.claim(plan);
        self.served = Some(plan.keyspace);
        // What is done in idle time holds no writer to a pace.
        self.is_compacting |= plan.reason != CompactionReason::Deletes;
        self.lane(JobClass::Compaction).running += 1;
    }
}
