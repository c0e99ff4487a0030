//! Executes a job and notifies waiting threads when it is done.

use super::aging;
use super::deferral;
use super::log_space::give_back;
use super::picker::next_due_plan;
use super::segments::{grow, is_filling, is_well_filled, prepare};
use crate::compaction::debt::PendingMoves;
use crate::compaction::execute::compaction_output::{CompactionOutput, Filtering, Installed};
use crate::compaction::execute::job;
use crate::compaction::execute::job::{CompactionJob, JobOutcome, run_job};
use crate::compaction::execute::l0_progress::ProgressGuard;
use crate::compaction::execute::pacing::Pacing;
use crate::compaction::in_progress::CompactionClaim;
use crate::compaction::pick;
use crate::compaction::plan::CompactionPlan;
use crate::engine::Engine;
use crate::flush;
use crate::log::wal_files::log_file_name;
use crate::resources::crew::IDLE;
use crate::resources::lanes::JobClass;
use crate::scheduler::ForceInstallGuard;
use crate::scheduler::state::{Flushed, Job, SchedulerState};
use crate::stats::events::{EventKind, Span};
use crate::version::LEVELS;
use crate::write::drain_rates::Level0Drain;
use crate::write::stall_inputs::StallInputs;
use esker_base::{KeyspaceId, Result};
use esker_memtable::MemTable;
use esker_table::WRITER_BYTES_AN_ENTRY;
use parking_lot::MutexGuard;
use std::sync::Arc;

/// Of a keyspace without deferred merges.
const NOTHING: PendingMoves = [0; LEVELS];

/// Does a plan that a caller took up.
pub(crate) fn run_plan(inner: &Engine, plan: CompactionPlan) -> Result<()> {
    run(inner, JobClass::Compaction, Job::Compact(plan))
}

pub(super) fn run(inner: &Engine, lane: JobClass, job: Job) -> Result<()> {
    let schedule = &inner.schedule;
    let mut merged = None;
    let outcome = match &job {
        Job::Prepare => prepare(inner),
        Job::Grow(segment, room, pace) => grow(inner, segment, *room, *pace),
        Job::GiveBack => {
            give_back(inner);
            Ok(())
        }
        Job::Sort(memtable) => sort(inner, memtable),
        Job::Flush(memtable) => flush_one(inner, memtable),
        Job::Seal(memtable) => {
            inner.commit.lock_active().seal_segment(memtable);
            Ok(())
        }
        Job::Expire(expired) => {
            aging::expire(inner, expired);
            Ok(())
        }
        Job::Sync(seqno) => inner.commit.sync_through(*seqno),
        Job::Compact(plan) => compact(inner, plan).map(|later| merged = later),
        Job::Install(merged) => {
            inner.tree.installer.mend().and_then(|()| install(inner, merged, None)).map(|_| ())
        }
        Job::RetryTables => {
            inner.retry_tables(None);
            Ok(())
        }
    };
    let is_install = matches!(job, Job::Install(_));
    let wants_room = matches!(job, Job::Prepare | Job::Grow(..) | Job::Flush(_) | Job::Compact(_));
    let outcome = match outcome {
        Err(error) if error.is_out_of_space() && wants_room && makes_room(inner) => Ok(()),
        // A compaction that was cancelled has not failed.
        Err(_) if lane == JobClass::Compaction && !is_install && inner.gate.is_cancelled() => {
            Ok(())
        }
        outcome => outcome,
    };
    if let Err(error) = &outcome {
        let (job, error) = (lane.name(), error.to_string());
        inner.tree.note_event(EventKind::BackgroundError { job, error });
    }
    let changes_debt =
        !matches!(job, Job::Sort(_) | Job::Sync(_) | Job::Expire(_) | Job::RetryTables);
    // Before the lane is at rest: whoever waited for that must find that nobody uses a flushed MemTable
    // any more, and that the files of merged tables are gone: they take of the room of a goal for space, and
    // with nothing under way that could make room, a merge would be begun that does not fit.
    let (held, later) = match (job, merged) {
        (Job::Compact(_), Some(early)) => (None, Some(early)),
        (Job::Compact(plan), None) => (Some(CompactionClaim::by(&plan)), None),
        (Job::Install(merged), _) if outcome.is_err() => (None, Some(*merged)),
        (Job::Install(merged), _) => (Some(merged.held), None),
        _ => (None, None),
    };
    let now = inner.tree.clock.now();
    let mut jobs = schedule.jobs.lock();
    jobs.lane(lane).record(outcome.clone(), now);
    match later {
        Some(merged) if is_install => jobs.deferred.put_back(merged),
        Some(merged) => jobs.deferred.add(merged, now),
        None => {}
    }
    drop(jobs);
    if changes_debt {
        update_debt(inner);
    }
    let mut jobs = schedule.jobs.lock();
    held.iter().for_each(|held| jobs.busy.release(held));
    if is_install {
        jobs.deferred.end_install();
    }
    jobs.flushing = jobs.flushing.filter(|_| lane != JobClass::Flush);
    rest(inner, jobs, lane);
    outcome
}

/// The end of a job. Once the last compaction has ended, writers need keep no pace any more.
fn rest(inner: &Engine, mut jobs: MutexGuard<'_, SchedulerState>, lane: JobClass) {
    jobs.lane(lane).running -= 1;
    if lane == JobClass::Compaction && jobs.lane(lane).running == 0 {
        jobs.is_compacting = next_due_plan(inner, &jobs).is_some()
            || deferral::has_in_the_way(inner, &jobs, &inner.tree.view.pin());
    }
    let ends_pace = lane == JobClass::Compaction && !jobs.is_compacting && inner.stall.is_paced();
    drop(jobs);
    if ends_pace {
        update_debt(inner);
    }
    // This thread looks for its lane's next job by itself.
    match lane {
        // The last writes of a segment that was followed by another may be visible only now.
        JobClass::Prepare => inner.schedule.wake_for_memtables(),
        JobClass::Sync => {}
        JobClass::Flush | JobClass::Compaction => inner.schedule.wake(),
    }
    inner.schedule.progress.notify_all();
}

/// Does a part of a merge. What fails in it is the error of the thread that took up the plan.
pub(super) fn help(inner: &Engine, merge: Arc<CompactionJob>) {
    merge.take_one(&inner.tree, &pacing(inner, &|| inner.stall.waits_for_compaction()));
    // Before the lock: whoever took the plan up waits until it alone has the merge.
    drop(merge);
    rest(inner, inner.schedule.jobs.lock(), JobClass::Compaction);
}

/// How fast a compaction may write now.
fn pacing<'a>(inner: &'a Engine, do_writers_wait: &'a (dyn Fn() -> bool + Sync)) -> Pacing<'a> {
    let compaction_threads = inner.share.resources().background_threads();
    Pacing { throttle: &inner.gate, do_writers_wait, compaction_threads }
}

/// Executes `plan` and installs its result, or returns it if that is to be done later.
fn compact(inner: &Engine, plan: &CompactionPlan) -> Result<Option<CompactionOutput>> {
    match compact_once(inner, plan, Filtering::On)? {
        Compacted::Installed => Ok(None),
        Compacted::Later(output) => Ok(Some(*output)),
        Compacted::NotInstalled => {
            inner.tree.filters.count_repeat();
            match compact_once(inner, plan, Filtering::Off)? {
                Compacted::Later(output) => Ok(Some(*output)),
                Compacted::Installed | Compacted::NotInstalled => Ok(None),
            }
        }
    }
}

/// What became of a plan.
enum Compacted {
    Installed,
    /// The output is to be installed later.
    Later(Box<CompactionOutput>),
    /// Nothing has changed: a snapshot would see what a filter did.
    NotInstalled,
}

fn compact_once(inner: &Engine, plan: &CompactionPlan, filtering: Filtering) -> Result<Compacted> {
    let started = inner.tree.clock.now();
    let _span = Span::compaction();
    let do_writers_wait = || inner.stall.waits_for_compaction();
    let pacing = pacing(inner, &do_writers_wait);
    let threads = job::parts_at_most(&inner.tree, plan, &pacing, &inner.schedule)
        .min(pacing.compaction_threads);
    let _held =
        inner.charge_job(plan.memory_bytes(inner.tree.sizes, inner.tree.part_limits()) * threads);
    let outcome =
        run_job(&inner.tree, &pacing, &inner.schedule, &inner.under_way, (plan, filtering))?;
    let (mut output, is_below_base, progress) = match outcome {
        JobOutcome::Done => return Ok(Compacted::Installed),
        JobOutcome::Unreadable => {
            inner.schedule.retry_tables(inner.tree.clock.now());
            return Ok(Compacted::Installed);
        }
        JobOutcome::Merged { output, is_below_base, progress } => (output, is_below_base, progress),
    };
    let version = inner.tree.view.load().version.clone();
    if version.values.of(plan.keyspace).any(|listed| listed.file.may_recover()) {
        inner.schedule.retry_tables(inner.tree.clock.now());
    }
    drop(version);
    output.event = Some(EventKind::Compaction {
        keyspace: keyspace_name(inner, plan.keyspace),
        reason: plan.reason,
        output_level: plan.output_level,
        read_bytes: output.outcome.read_bytes,
        written_bytes: output.outcome.written_bytes,
        took: inner.tree.clock.now().saturating_sub(started),
    });
    // While an installation is deferred, snapshots are taken that would see what a filter did.
    let may_wait = is_below_base && !output.is_filtered();
    if may_wait && deferral::is_early(inner, plan, &output) {
        inner.tree.counters.deferrals.add(1);
        return Ok(Compacted::Later(output));
    }
    if install(inner, &output, Some(progress))? == Installed::No {
        return Ok(Compacted::NotInstalled);
    }
    let took = inner.tree.clock.now().saturating_sub(started);
    inner.stall.drained_level_0(drain_of_level_0(plan), took);
    Ok(Compacted::Installed)
}

/// What a compaction takes out of level 0: nothing, if its output stays there.
fn drain_of_level_0(plan: &CompactionPlan) -> Level0Drain {
    let mut drain = Level0Drain::default();
    if plan.output_level == 0 {
        return drain;
    }
    let inputs = plan.inputs.iter().filter(|input| input.level == 0);
    for table in inputs.flat_map(|input| &input.tables) {
        let of_values: u64 = table.meta.value_files.iter().map(|uses| uses.bytes).sum();
        drain.written += table.meta.raw_bytes + of_values;
        drain.tables += table.meta.bytes;
    }
    drain
}

fn keyspace_name(inner: &Engine, id: KeyspaceId) -> String {
    let version = &inner.tree.view.pin().version;
    version.keyspaces.get(&id).map_or_else(String::new, |keyspace| version.shown_name(keyspace))
}

/// Installs the outputs of a compaction, opens them, and reports the compaction.
fn install(
    inner: &Engine,
    merged: &CompactionOutput,
    progress: Option<ProgressGuard<'_>>,
) -> Result<Installed> {
    let installed = job::install(&inner.tree, merged, progress)?;
    inner.open_new_tables();
    if let (Installed::Yes, Some(event)) = (installed, &merged.event) {
        inner.tree.note_event(event.clone());
    }
    Ok(installed)
}

fn sort(inner: &Engine, memtable: &MemTable) -> Result<()> {
    let started = inner.tree.clock.now();
    let sorted = verify_and_sort(inner, memtable);
    if memtable.is_sealed() && sorted.is_ok() {
        inner.stall.sorted(inner.tree.clock.now().saturating_sub(started));
    }
    sorted
}

fn verify_and_sort(inner: &Engine, memtable: &MemTable) -> Result<()> {
    if memtable.is_sealed() {
        // Every entry is about to be read.
        memtable.verify(&log_file_name(memtable.epoch()))?;
    }
    let visible = inner.commit.visible();
    memtable.sort_through(visible);
    if memtable.is_sealed() && memtable.last_seqno() <= visible {
        memtable.compute_keyspace_sizes();
    }
    memtable.sound()
}

/// Flushes the oldest MemTable, and those that its last batch goes on to. Returns them.
pub(crate) fn flush_oldest(inner: &Engine) -> Result<Vec<Arc<MemTable>>> {
    inner.tree.unwritten.stalled(inner.stall.stalled());
    let flushed = flush::flush(&inner.tree, &inner.gate, |seqno| inner.commit.sync_through(seqno))?;
    inner.commit.flushed_through(flushed.last().map_or(0, |last| last.last_seqno()));
    Ok(flushed)
}

fn flush_one(inner: &Engine, memtable: &Arc<MemTable>) -> Result<()> {
    let started = inner.tree.clock.now();
    let _span = Span::flush();
    let entries = (memtable.entries() as usize).min(inner.tree.part_limits().whole_bytes_max);
    let _held = inner.charge_job(entries * WRITER_BYTES_AN_ENTRY);
    let written = inner.tree.counters.flush_bytes.get();
    let view = inner.tree.view.load();
    inner.gate.set_pending_flushes(view.memtables.iter().filter(|m| m.is_sealed()).count());
    drop(view);
    let flushed = flush_oldest(inner);
    inner.gate.set_pending_flushes(0);
    let flushed = flushed?;
    let now = inner.tree.clock.now();
    let bytes = inner.tree.counters.flush_bytes.get().saturating_sub(written);
    inner.tree.note_event(EventKind::Flush { bytes, took: now.saturating_sub(started) });
    let mut jobs = inner.schedule.jobs.lock();
    jobs.flushed = Some(Flushed { at: now, after: memtable.first_seqno().saturating_sub(1) });
    // Recovered segments may have another size.
    let is_like = memtable.header().capacity == inner.tree.settings.segment_bytes as u64;
    if is_like
        && is_well_filled(memtable)
        && jobs.retired.is_empty()
        && is_filling(&inner.tree.view.load())
        && !inner.share.resources().is_short()
    {
        jobs.retired.push(memtable.clone());
    }
    drop(jobs);
    // This opens the new tables, too.
    inner.look_at_space();
    inner.share_segment_memory();
    // All that the lane did for it: that is how fast it takes segments from writers.
    let bytes = flushed.iter().map(|memtable| memtable.bytes_used()).sum();
    inner.stall.flushed(bytes, inner.tree.clock.now().saturating_sub(started));
    Ok(())
}

/// Whether deferred merges have been installed, and with that space was made for what found none.
fn makes_room(inner: &Engine) -> bool {
    if inner.schedule.jobs.lock().deferred.is_over() {
        return false;
    }
    if install_deferred(inner).is_err() {
        return false;
    }
    // Others may have taken some.
    let mut jobs = inner.schedule.jobs.lock();
    while jobs.deferred.is_installing() && !jobs.panicked {
        inner.schedule.progress.wait_for(&mut jobs, IDLE);
    }
    true
}

/// Installs what was deferred, in the calling thread and concurrently with the lanes.
pub(crate) fn install_deferred(inner: &Engine) -> Result<()> {
    let _hurry = ForceInstallGuard::begin(&inner.schedule);
    loop {
        let mut jobs = inner.schedule.jobs.lock();
        let Some(merged) = deferral::take_due(inner, &mut jobs, inner.tree.clock.now()) else {
            return Ok(());
        };
        let job = jobs.begin_install(merged);
        drop(jobs);
        run(inner, JobClass::Compaction, job)?;
    }
}

/// Sets the rate of writers.
pub(crate) fn update_debt(inner: &Engine) {
    let (is_compacting, moved) = {
        let jobs = inner.schedule.jobs.lock();
        (jobs.is_compacting, jobs.deferred.moved())
    };
    let mut backlog = 0.0;
    inner.stall.set_debt(inner.tree.clock.now(), || {
        let view = inner.tree.view.pin();
        let sealed = || view.memtables.iter().filter(|memtable| memtable.is_sealed());
        let index: usize = sealed().map(|memtable| memtable.index_bytes()).sum();
        let mut debt = StallInputs {
            sealed: sealed().count(),
            index_share: index as f64 / (inner.tree.settings.memory_bytes / 2) as f64,
            sealed_limit: inner.tree.settings.sealed_segments,
            sealed_free: inner
                .tree
                .logs
                .pool()
                .map_or(0, |_| inner.tree.settings.sealed_segments / 2),
            segment_bytes: inner.tree.settings.segment_bytes,
            is_compacting,
            write_rate_max: inner.gate.limiter.rate_max(),
            ..StallInputs::default()
        };
        for keyspace in view.version.keyspaces.values() {
            let moved = moved.get(&keyspace.id).unwrap_or(&NOTHING);
            let owed = pick::debt(keyspace, inner.tree.sizes, moved);
            // A goal's is the height where most runs lie above each other, of which a merge elsewhere takes nothing.
            let is_of_runs = !keyspace.settings.has_space_goal();
            let done = if is_of_runs { inner.under_way.runs_done(keyspace.id) } else { 0.0 };
            let runs = owed.level_0_runs as f64 - done;
            let excess = (runs - owed.level_0_trigger as f64).max(0.0);
            debt.level_0_excess_runs = debt.level_0_excess_runs.max(excess);
            debt.compaction_bytes += owed.bytes;
        }
        backlog = debt.backlog();
        debt
    });
    inner.gate.limiter.set_backlog(backlog);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::segments::give_back_unneeded;
    use crate::background::steps::step_lane;
    use crate::options::settings::{KeyspaceSettings, Log, Settings, Shape};
    use crate::options::space_policy::{Dedup, Ratio};
    use crate::{Db, Env};
    use esker_base::Clock;
    use esker_base::background::Stepped;
    use esker_pmem::{Accept, Pool};
    use esker_storage::MemoryStorage;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A second passes with each inspection of it.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
        }
        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn writers_keep_their_pace_until_the_last_compaction_has_ended() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default().log(Log::None)).unwrap();
        let (inner, now) = (db.inner(), db.inner().tree.clock.now());
        let owed =
            StallInputs { level_0_excess_runs: 22.0, segment_bytes: 1, ..StallInputs::default() };
        let drained = Level0Drain { written: 100_000_000, tables: 100_000_000 };
        inner.stall.drained_level_0(drained, Duration::from_secs(1));
        inner.stall.set_debt(now, || owed);
        inner.stall.note_stalled(Duration::ZERO, now + Duration::from_secs(3600));
        {
            let mut jobs = inner.schedule.jobs.lock();
            (jobs.lane(JobClass::Compaction).running, jobs.is_compacting) = (2, true);
        }
        update_debt(inner);
        assert!(inner.stall.is_paced(), "two are at work");
        rest(inner, inner.schedule.jobs.lock(), JobClass::Compaction);
        assert!(inner.stall.is_paced(), "one is");
        rest(inner, inner.schedule.jobs.lock(), JobClass::Compaction);
        assert!(!inner.stall.is_paced());
    }

    /// A database over a pool of 16 segments, whose work is stepped.
    fn over_a_pool(storage: &Arc<MemoryStorage>, pool: &std::path::Path) -> Db {
        let opened = Pool::open(pool, Accept::Emulated).unwrap();
        let env = Env::over(storage.clone()).background(Arc::new(Stepped)).pool(opened);
        let log = Log::Pmem { pool: pool.to_owned(), emulated: true };
        Db::open_with(env, Settings::default().log(log)).unwrap()
    }

    fn put_and_seal(db: &Db, key: &[u8]) {
        db.put(&db.default_keyspace(), key, b"value").unwrap();
        db.inner().commit.lock_active().seal();
    }

    #[test]
    fn of_a_segment_that_was_followed_by_another_the_other_is_not_sealed() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default().log(Log::None)).unwrap();
        put_and_seal(&db, b"a");
        db.put(&db.default_keyspace(), b"b", b"value").unwrap();
        let memtables = db.inner().tree.view.load().memtables.clone();
        assert!(db.inner().commit.lock_active().seal_segment(&memtables[1]));
        assert!(!memtables[0].is_sealed());
        assert!(db.inner().commit.lock_active().seal_segment(&memtables[0]));
    }

    #[test]
    fn no_segment_is_prepared_for_a_batch_whose_segments_were_given_back_meanwhile() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings { log: Log::None, ..Settings::default() }).unwrap();
        let inner = db.inner();
        db.put(&db.default_keyspace(), b"a", b"value").unwrap();
        inner.schedule.jobs.lock().segments_wanted = 2;
        while step_lane(inner, JobClass::Prepare) {}
        {
            let mut jobs = inner.schedule.jobs.lock();
            jobs.segments_wanted = 0;
            jobs.lane(JobClass::Prepare).running += 1;
        }
        let held = || {
            let (bytes, jobs) =
                (inner.segment_memory(&inner.tree.view.load()), &inner.schedule.jobs);
            let jobs = jobs.lock();
            (jobs.prepared.len(), jobs.unneeded.len(), bytes)
        };
        let (_, _, bytes) = held();
        inner.schedule.jobs.lock().set_unneeded_aside(1);
        assert_eq!(held(), (1, 1, bytes), "what is not needed counts until it is given back");
        assert!(give_back_unneeded(inner).unwrap());
        let (_, _, left) = held();
        assert!(left < bytes);
        run(inner, JobClass::Prepare, Job::Prepare).unwrap();
        assert_eq!(held(), (1, 0, left));
    }

    #[test]
    fn while_flushes_are_behind_segments_of_a_pool_are_prepared_two_ahead() {
        let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let pool = dir.path().join("POOL");
        drop(Pool::create(&pool, 17 << 20, Accept::Emulated).unwrap());
        let storage = Arc::new(MemoryStorage::new());
        let db = over_a_pool(&storage, &pool);
        let ready = || {
            while step_lane(db.inner(), JobClass::Prepare) {}
            let jobs = db.inner().schedule.jobs.lock();
            jobs.prepared.iter().map(|segment| segment.memtable.epoch()).collect::<Vec<_>>()
        };
        db.put(&db.default_keyspace(), b"a", b"value").unwrap();
        assert_eq!(ready().len(), 1, "nothing waits for a flush");
        db.inner().commit.lock_active().seal();
        let two = ready();
        assert_eq!(two.len(), 2);
        assert!(two[0] < two[1], "writers begin the older one first");
        put_and_seal(&db, b"b");
        assert_eq!(ready()[0], two[1]);
        (0..40u8).for_each(|key| put_and_seal(&db, &[key]));
    }

    #[test]
    fn a_sealed_memtable_that_is_sorted_by_itself_makes_its_flush_longer() {
        let env = Env::over(Arc::new(MemoryStorage::new()))
            .background(Arc::new(Stepped))
            .clock(Arc::new(Ticking::default()));
        let default_keyspace = KeyspaceSettings::default()
            .shape(Shape::Tiered { runs: 8 })
            .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) });
        let db = Db::open_with(
            env,
            Settings::default().log(Log::None).default_keyspace(default_keyspace),
        );
        let db = db.unwrap();
        (0..100u32).for_each(|n| db.put(&db.default_keyspace(), n.to_be_bytes(), b"v").unwrap());
        let inner = db.inner();
        inner.commit.lock_active().seal();
        assert!(step_lane(inner, JobClass::Flush), "it is sorted");
        assert_eq!(inner.stall.sorting(), Duration::from_secs(1));
        assert!(step_lane(inner, JobClass::Flush), "it is flushed");
        assert_eq!((inner.stall.sorting(), db.stats().flushes), (Duration::ZERO, 1));
    }

    #[test]
    fn a_segment_that_follows_a_full_one_has_all_its_memory_at_once() {
        const SEGMENT: usize = 1 << 20;
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let settings = Settings { segment_bytes: SEGMENT, ..Settings::default() };
        let db = Db::open_with(env, settings).unwrap();
        let (inner, keyspace) = (db.inner(), db.default_keyspace());
        let taken = || {
            while step_lane(inner, JobClass::Prepare) {}
            let jobs = inner.schedule.jobs.lock();
            jobs.prepared.iter().map(|it| it.memtable.memory_bytes()).collect::<Vec<_>>()
        };
        let fill = |from: u32| {
            let mut numbers = from..from + (SEGMENT / 1100) as u32;
            assert!(numbers.all(|n| db.put(&keyspace, n.to_be_bytes(), [7; 1000]).is_ok()));
        };
        fill(0);
        assert!(taken()[0] < SEGMENT / 2, "{:?}: nothing is full yet", taken());
        inner.commit.lock_active().seal();
        fill(10_000);
        assert!(taken()[0] > SEGMENT, "{:?}", taken());
        // Its log file still grows in steps, and no frame is reserved in what is not allocated.
        let jobs = inner.schedule.jobs.lock();
        let room = jobs.prepared[0].memtable.room();
        assert!((room.bytes as usize) < SEGMENT / 2, "{room:?}");
    }
}
