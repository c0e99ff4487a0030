//! Background work: what there is to do, who does it, and who waits for it.
//!
//! The work runs in lanes, so that none waits behind another: *prepare* makes the next segment, *flush*
//! sorts MemTables and writes them to tables, *sync* makes the log durable when writers do not wait
//! for that, and *compaction* does plans. The first three have a thread each, the last as many as the
//! settings say. Without threads (in a simulation) the owner steps all lanes by hand.
//!
//! A job that fails is kept as the lane's error and tried again after a pause; a writer that needs its
//! result asks for a try at once, and gets the fresh error if that fails too. So a full disk stops
//! writers with a reason, and freeing space starts them again.

use crate::commit::LogSegment;
use crate::compact::{Merge, compact};
use crate::compaction::{self, Busy, Plan};
use crate::flush;
use crate::inner::Inner;
use crate::log_files::log_file_name;
use crate::logs::Spare;
use crate::manifest::{Change, Edit, State};
use crate::settings::Settings;
use crate::stall::Debt;
use crate::view::View;
use esker_base::{Error, KeyspaceId, Result, Seqno};
use esker_memtable::MemTable;
use parking_lot::{Condvar, Mutex};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// The pause before a failed job is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// A thread with nothing to do looks again after this, as a precaution.
pub(crate) const IDLE: Duration = Duration::from_millis(200);

/// Which thread does a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    Prepare,
    Flush,
    Sync,
    Compaction,
}

impl Lane {
    const ALL: [Lane; 4] = [Lane::Prepare, Lane::Flush, Lane::Sync, Lane::Compaction];
}

/// One piece of work.
enum Job {
    Prepare,
    Sort(Arc<MemTable>),
    Flush(Arc<MemTable>),
    /// Of everything up to this seqno.
    Sync(Seqno),
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
    pub(crate) has_threads: bool,
    /// A writer came, so segments are worth preparing.
    pub(crate) wants_segment: bool,
    pub(crate) prepared: Option<LogSegment>,
    /// Segments whose listing failed: the manifest may list them until it is mended.
    doubtful: Vec<u32>,
    /// MemTables flushed, kept for the memory if nobody else holds them.
    pub(crate) retired: Vec<Arc<MemTable>>,
    pub(crate) busy: Busy,
    /// Plans under way that have several parts.
    shared: Vec<Arc<Merge>>,
    pub(crate) synced_at: Duration,
    pub(crate) lanes: [LaneState; 4],
    /// Why a table could not be opened when that was last tried.
    pub(crate) unopened: Option<Error>,
    /// The keyspace of the plan begun last: the others come before it.
    served: Option<KeyspaceId>,
    /// A lane's thread has panicked: what it was doing will never be done.
    pub(crate) panicked: bool,
}

/// How a lane's jobs fare.
#[derive(Default)]
pub(crate) struct LaneState {
    /// Jobs that run now.
    pub(crate) running: usize,
    pub(crate) error: Option<Error>,
    pub(crate) retry_at: Duration,
    pub(crate) attempts: u64,
}

impl LaneState {
    fn ready(&self, now: Duration) -> bool {
        self.error.is_none() || now >= self.retry_at
    }

    fn finish(&mut self, outcome: Result<()>, now: Duration) {
        self.running -= 1;
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

    /// How many threads do compactions: one, the caller's, if none serves the lane.
    pub(crate) fn compaction_threads(&self, settings: &Settings) -> usize {
        if self.jobs.lock().has_threads { settings.background_threads } else { 1 }
    }

    /// Has idle threads take parts of `merge`.
    pub(crate) fn share(&self, merge: &Arc<Merge>) {
        self.jobs.lock().shared.push(merge.clone());
        self.work.notify_all();
    }

    /// Forgets `merge`, of which no part is left, and waits until those who helped have, too.
    pub(crate) fn unshare(&self, merge: &Arc<Merge>) {
        let mut jobs = self.jobs.lock();
        jobs.shared.retain(|other| !Arc::ptr_eq(other, merge));
        while Arc::strong_count(merge) > 1 {
            self.progress.wait_for(&mut jobs, IDLE);
        }
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

    /// Why a lane stands still, if one does, or why a table can't be opened.
    pub(crate) fn error(&self) -> Option<Error> {
        let jobs = self.jobs.lock();
        jobs.lanes.iter().find_map(|lane| lane.error.clone()).or_else(|| jobs.unopened.clone())
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
    let _alarm = Alarm(inner);
    let schedule = &inner.schedule;
    let mut jobs = schedule.jobs.lock();
    while !jobs.closing {
        if let Some(job) = next_job(inner, &mut jobs, lane) {
            drop(jobs);
            // What failed is kept as the lane's error.
            let _ = run(inner, lane, job);
            jobs = schedule.jobs.lock();
        } else if let Some(merge) = jobs.next_to_help(lane) {
            drop(jobs);
            help(inner, merge);
            jobs = schedule.jobs.lock();
        } else {
            let wait = inner.sync_interval().unwrap_or(IDLE).min(IDLE);
            schedule.work.wait_for(&mut jobs, wait);
        }
    }
}

/// Tells those who wait if a lane's thread panics.
struct Alarm<'a>(&'a Inner);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.schedule.jobs.lock().panicked = true;
            self.0.schedule.progress.notify_all();
        }
    }
}

/// Does one job of any lane in the calling thread. False if there is none, or it failed.
pub(crate) fn step(inner: &Inner) -> bool {
    Lane::ALL.into_iter().any(|lane| step_lane(inner, lane))
}

/// Does one job of `lane` in the calling thread. False if there is none, or it failed.
pub(crate) fn step_lane(inner: &Inner, lane: Lane) -> bool {
    let job = {
        let mut jobs = inner.schedule.jobs.lock();
        jobs.lane(lane).error = None;
        next_job(inner, &mut jobs, lane)
    };
    match job {
        Some(job) => run(inner, lane, job).is_ok(),
        None => false,
    }
}

impl Jobs {
    pub(crate) fn lane(&mut self, lane: Lane) -> &mut LaneState {
        &mut self.lanes[lane as usize]
    }

    /// A merge of which a part is left, for a thread of the compaction lane that has nothing else to do.
    fn next_to_help(&mut self, lane: Lane) -> Option<Arc<Merge>> {
        let left = self.shared.iter().find(|merge| merge.parts.are_left());
        let merge = left.filter(|_| lane == Lane::Compaction)?.clone();
        self.lane(lane).running += 1;
        Some(merge)
    }

    /// Takes up a plan, by a lane or by a caller.
    pub(crate) fn begin_plan(&mut self, plan: &Plan) {
        self.busy.claim(plan);
        self.served = Some(plan.keyspace);
        self.lane(Lane::Compaction).running += 1;
    }
}

fn next_job(inner: &Inner, jobs: &mut Jobs, lane: Lane) -> Option<Job> {
    let now = inner.clock.now();
    if !jobs.lane(lane).ready(now) {
        return None;
    }
    if lane == Lane::Compaction {
        let plan = next_plan(inner, jobs)?;
        jobs.begin_plan(&plan);
        return Some(Job::Compact(plan));
    }
    if jobs.lane(lane).running > 0 {
        return None;
    }
    let job = match lane {
        Lane::Prepare => next_segment(inner, jobs),
        Lane::Flush => next_flush(inner, jobs),
        _ => next_sync(inner, jobs, now),
    }?;
    jobs.lane(lane).running += 1;
    Some(job)
}

fn next_segment(inner: &Inner, jobs: &Jobs) -> Option<Job> {
    let wanted = jobs.wants_segment && jobs.prepared.is_none();
    (wanted && can_prepare(inner, jobs, &inner.view.pin())).then_some(Job::Prepare)
}

/// Whether another segment may be prepared and the log has a place for it.
pub(crate) fn can_prepare(inner: &Inner, jobs: &Jobs, view: &View) -> bool {
    // A flushed MemTable that nobody reads any more gives its extent back.
    let has_log =
        || inner.logs.has_room() || !jobs.doubtful.is_empty() || jobs.retired.iter().any(is_unused);
    match inner.logs.pool() {
        // A pool is there to be filled.
        Some(_) => has_log(),
        None => has_room(inner, view),
    }
}

/// Whether another segment may be prepared. One beyond the limit may, or writers could never fill
/// the limit.
fn has_room(inner: &Inner, view: &View) -> bool {
    let sealed = view.memtables.iter().filter(|memtable| memtable.is_sealed()).count();
    sealed <= inner.settings.sealed_segments
}

fn next_flush(inner: &Inner, jobs: &Jobs) -> Option<Job> {
    let view = inner.view.pin();
    let oldest = view.memtables.last()?;
    if oldest.is_sealed() && oldest.last_seqno() <= inner.commit.visible() {
        let mut keyspaces = view.version.keyspaces.values();
        if !keyspaces.any(|keyspace| keyspace.settings.has_space_goal()) {
            return Some(Job::Flush(oldest.clone()));
        }
        // What keyspaces it has is known once it is sorted. All its entries would be read before, under
        // the lock that a writer needs for its next segment.
        if oldest.wants_order() {
            return Some(Job::Sort(oldest.clone()));
        }
        if has_space(inner, jobs, &view, oldest) || !makes_space(inner, jobs) {
            return Some(Job::Flush(oldest.clone()));
        }
    }
    let active = view.memtables.first();
    active.filter(|memtable| memtable.wants_order()).map(|memtable| Job::Sort(memtable.clone()))
}

/// Whether a flush of `memtable` leaves its keyspaces within their goals for space.
fn has_space(inner: &Inner, jobs: &Jobs, view: &View, memtable: &MemTable) -> bool {
    let around = inner.surroundings(view, jobs);
    let bytes = memtable.bytes_used();
    let keyspaces = memtable.keyspaces();
    let mut there = keyspaces.iter().filter_map(|id| view.version.keyspaces.get(id));
    there.all(|it| compaction::admits_flush(it, bytes, &jobs.busy, inner.sizes, &around))
}

/// Whether compaction is at work, or can be. If not, waiting for it would be for ever.
fn makes_space(inner: &Inner, jobs: &Jobs) -> bool {
    let lane = &jobs.lanes[Lane::Compaction as usize];
    lane.running > 0 || (lane.error.is_none() && next_plan(inner, jobs).is_some())
}

/// Sealed segments are synced at once, off the write path: the frames written from then on say that
/// these are durable, so that damage in them is told from a torn end. The active one is synced by
/// the clock, if the settings say so.
fn next_sync(inner: &Inner, jobs: &mut Jobs, now: Duration) -> Option<Job> {
    if !inner.commit.syncs_later() || inner.commit.failure().is_some() {
        return None;
    }
    let (synced, visible) = (inner.commit.synced(), inner.commit.visible());
    if let Some(interval) = inner.sync_interval()
        && now >= jobs.synced_at + interval
        && synced < visible
    {
        jobs.synced_at = now;
        return Some(Job::Sync(visible));
    }
    let view = inner.view.pin();
    let sealed = view.memtables.iter().filter(|memtable| memtable.is_sealed());
    let through = sealed.map(|memtable| memtable.last_seqno()).max()?;
    (synced < through && through <= visible).then_some(Job::Sync(through))
}

/// The next plan of any keyspace, each in its turn: one with much to do, or whose plans fail, must not
/// keep the others waiting.
pub(crate) fn next_plan(inner: &Inner, jobs: &Jobs) -> Option<Plan> {
    if inner.gate.is_cancelled() {
        return None;
    }
    let view = inner.view.pin();
    let around = inner.surroundings(&view, jobs);
    let keyspaces = &view.version.keyspaces;
    let (after, upto) = match jobs.served {
        Some(served) => (Bound::Excluded(served), Bound::Included(served)),
        None => (Bound::Unbounded, Bound::Excluded(KeyspaceId::DEFAULT)),
    };
    let after = keyspaces.range((after, Bound::Unbounded));
    let mut in_turn = after.chain(keyspaces.range((Bound::Unbounded, upto)));
    in_turn.find_map(|(_, keyspace)| compaction::pick(keyspace, &jobs.busy, inner.sizes, &around))
}

/// Does a plan that a caller took up.
pub(crate) fn run_plan(inner: &Inner, plan: Plan) -> Result<()> {
    run(inner, Lane::Compaction, Job::Compact(plan))
}

fn run(inner: &Inner, lane: Lane, job: Job) -> Result<()> {
    let schedule = &inner.schedule;
    let outcome = match &job {
        Job::Prepare => prepare(inner),
        Job::Sort(memtable) => sort(inner, memtable),
        Job::Flush(memtable) => flush_one(inner, memtable),
        Job::Sync(seqno) => inner.commit.sync_through(*seqno),
        Job::Compact(plan) => compact(inner, plan),
    };
    let mut jobs = schedule.jobs.lock();
    if let Job::Compact(plan) = &job {
        jobs.busy.release(plan);
    }
    // A compaction that was cancelled has not failed.
    let outcome =
        if inner.gate.is_cancelled() && lane == Lane::Compaction { Ok(()) } else { outcome };
    jobs.lane(lane).finish(outcome.clone(), inner.clock.now());
    drop(jobs);
    let changes_debt = !matches!(job, Job::Sort(_) | Job::Sync(_));
    // Whoever is woken must find that nobody uses a flushed MemTable any more.
    drop(job);
    if changes_debt {
        update_debt(inner);
    }
    schedule.work.notify_all();
    schedule.progress.notify_all();
    outcome
}

/// Does a part of a merge. What fails in it is the error of whoever took the plan up.
fn help(inner: &Inner, merge: Arc<Merge>) {
    merge.take_one(inner);
    // Before the lock: whoever took the plan up waits until it alone has the merge.
    drop(merge);
    let schedule = &inner.schedule;
    schedule.jobs.lock().lane(Lane::Compaction).running -= 1;
    schedule.work.notify_all();
    schedule.progress.notify_all();
}

fn sort(inner: &Inner, memtable: &MemTable) -> Result<()> {
    if memtable.is_sealed() {
        // Every entry is about to be read.
        memtable.verify(&log_file_name(memtable.epoch()))?;
    }
    memtable.build_order(inner.commit.visible());
    Ok(())
}

fn prepare(inner: &Inner) -> Result<()> {
    inner.installer.mend()?;
    let settled = std::mem::take(&mut inner.schedule.jobs.lock().doubtful);
    settled.into_iter().for_each(|epoch| inner.logs.retire(epoch));
    let epoch = u32::try_from(inner.installer.next_file()).map_err(|_| Error::InvalidSetting {
        setting: "log epoch",
        value: "beyond 4,294,967,295".into(),
        reason: "the database has used up its file ids; export it and import it into a new one"
            .into(),
    })?;
    if inner.logs.pool().is_some() {
        // The epoch is known to be given out before the extent says so. An open with its logs in files
        // does not see the extent, and must not give the epoch to a log file.
        inner.installer.install(&inner.view, |_| Ok(Edit::of([])), |_| {})?;
    }
    let newest = inner.view.load().memtables.iter().find(|memtable| memtable.is_sealed()).cloned();
    // An eighth of the memory at most before it is known how large entries are: the pool's segments
    // may be larger than all of it.
    let most_entries = inner.settings.memory_bytes / 8 / MemTable::INDEX_BYTES_AN_ENTRY;
    let (memtable, file) =
        inner.logs.begin(epoch, spare(inner), newest.as_deref(), most_entries)?;
    drop(newest);
    if inner.logs.is_kept() {
        let added = |_: &State| Ok(Edit::of([Change::AddLog { epoch, end: None }]));
        inner.installer.install(&inner.view, added, |_| {}).inspect_err(|_| {
            // The edit may be in the manifest all the same, and the next open must find what it lists:
            // a segment with nothing in it.
            inner.schedule.jobs.lock().doubtful.push(epoch);
        })?;
    }
    let memtable = Arc::new(memtable);
    inner.schedule.jobs.lock().prepared = Some(LogSegment { memtable, file });
    Ok(())
}

/// What a retired MemTable leaves, if one is free.
fn spare(inner: &Inner) -> Spare {
    let mut jobs = inner.schedule.jobs.lock();
    let free = jobs.retired.iter().position(is_unused);
    let memtable = free.and_then(|at| Arc::try_unwrap(jobs.retired.swap_remove(at)).ok());
    drop(jobs);
    memtable.map(Spare::of).unwrap_or_default()
}

fn is_unused(memtable: &Arc<MemTable>) -> bool {
    Arc::strong_count(memtable) == 1
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
    inner.open_new_tables();
    inner.look_at_space();
    Ok(())
}

/// Tells writers how fast they may go now.
pub(crate) fn update_debt(inner: &Inner) {
    inner.stall.set_debt(|| {
        let view = inner.view.pin();
        let sealed = || view.memtables.iter().filter(|memtable| memtable.is_sealed());
        let index: usize = sealed().map(|memtable| memtable.index_bytes()).sum();
        let mut debt = Debt {
            sealed: sealed().count(),
            index_share: index as f64 / (inner.settings.memory_bytes / 2) as f64,
            sealed_limit: inner.settings.sealed_segments,
            sealed_free: inner.logs.pool().map_or(0, |_| inner.settings.sealed_segments / 2),
            segment_bytes: inner.settings.segment_bytes,
            ..Debt::default()
        };
        for keyspace in view.version.keyspaces.values() {
            let owed = compaction::debt(keyspace, inner.sizes);
            let excess = owed.level_0_runs.saturating_sub(owed.level_0_trigger);
            debt.level_0_excess_runs = debt.level_0_excess_runs.max(excess);
            debt.compaction_bytes += owed.bytes;
        }
        debt
    });
}
