//! Executes a plan: merges its inputs, then installs the outputs with one edit.
//!
//! If a compaction filter changed what readers see, the outputs are installed only while no snapshot
//! exists that the compaction did not know. Otherwise the plan is executed again, without the filter.
//!
//! A large plan is split into parts, and idle compaction threads take some of them. The edit may
//! come later than the outputs: see `pending_installs`.

use super::compaction_output::{CompactionOutput, Filtering, Installed, add, remove};
use super::l0_progress::{JobProgress, L0CompactionProgress, ProgressGuard};
use super::origin::{note_dropped, origin_of};
use super::pacing::Pacing;
use super::subcompaction::{CompactionResult, Failure};
use super::subcompaction_queue::SubcompactionQueue;
use crate::compaction::execute::subcompaction;
use crate::compaction::plan::CompactionPlan;
use crate::compaction::value_collection;
use crate::fold::filtering::ValueFilter;
use crate::fold::merger::Merger;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::VersionEdit;
use crate::options::settings::KeyspaceSettings;
use crate::output::filter_allocation;
use crate::output::job_context::JobContext;
use crate::stats::compaction_counts::CompactionEvent;
use crate::stats::cumulative::CumulativeStats;
use crate::stats::reclaim_accuracy::ReclaimAccuracy;
use crate::tree::Tree;
use crate::version::{
    KeyspaceVersion, ValueFiles, aging::Expired, table_file_name, value_file_name,
};
use esker_base::{KeyspaceId, Result, Seqno};
use esker_table::Origin;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A part writes about so many tables at least: each may end with one that is not full, and has to find
/// its place in every input.
const PART_TABLES: u64 = 2;

/// Parts for each thread, so that those who are done first find more.
const PARTS_A_THREAD: usize = 2;

/// The threads that may take parts of a compaction.
pub(crate) trait SubcompactionPool {
    /// How many threads do compactions, `most` at most: one, the caller's, if no thread serves them.
    fn threads(&self, most: usize) -> usize;

    /// Has idle threads take parts of `job`.
    fn offer(&self, job: &Arc<CompactionJob>);

    /// Forgets `job`, of which no part is left, and waits until those who helped have, too.
    fn withdraw(&self, job: &Arc<CompactionJob>);
}

/// A plan that is being done, as all who do parts of it need it.
pub(crate) struct CompactionJob {
    plan: CompactionPlan,
    pub(crate) parts: SubcompactionQueue,
    settings: KeyspaceSettings,
    merger: Option<Merger>,
    filter: Option<ValueFilter>,
    expired: Expired,
    /// Read after the plan was made.
    snapshots: Vec<Seqno>,
    fingerprint_bits: u8,
    sample_level: u8,
    progress: Arc<JobProgress>,
    expected_lifetime: Option<u64>,
    origin: Arc<Origin>,
    /// See [`JobContext::values`].
    values: ValueFiles,
    collected: BTreeSet<u64>,
}

/// The bits of the fingerprints in the filters of what `plan` writes.
fn fingerprint_bits(keyspace: &KeyspaceVersion, plan: &CompactionPlan) -> u8 {
    let inputs = plan.tables().map(|table| table.meta.id).collect();
    let entries: u64 = plan.tables().map(|table| table.meta.entries).sum();
    let kept = plan.expected_bytes as f64 / plan.input_bytes().max(1) as f64;
    let output = plan.output_place();
    let joins = (output.level, output.run.0);
    filter_allocation::of_compaction(keyspace, &plan.span, joins, &inputs, entries as f64 * kept)
}

impl CompactionJob {
    fn new(
        tree: &Tree,
        plan: &CompactionPlan,
        keyspace: &KeyspaceVersion,
        filter: Option<ValueFilter>,
        parts_at_most: usize,
    ) -> CompactionJob {
        let now = tree.installer.account().table_bytes();
        let values = tree.view.load().version.values.clone();
        let parts = plan.parts(parts_at_most);
        let mut collected = value_collection::collected(&values, plan.keyspace);
        let tables = plan.tables().map(|table| &table.meta);
        collected.extend(value_collection::joined(&values, tables, parts.len()));
        collected.extend(value_collection::readable(&values, &plan.collects));
        // They stay as long as the job has them.
        let reads = !collected.is_empty() || filter.is_some() || keyspace.settings.merge.is_some();
        let values = if reads { values } else { ValueFiles::default() };
        CompactionJob {
            plan: plan.clone(),
            parts: SubcompactionQueue::new(parts),
            settings: keyspace.settings,
            merger: keyspace.settings.merge.map(|_| tree.merger(keyspace)),
            filter,
            expired: keyspace.expired(),
            snapshots: tree.snapshots.list(),
            fingerprint_bits: fingerprint_bits(keyspace, plan),
            sample_level: if plan.output_level == 0 { keyspace.sample_level() } else { 0 },
            progress: Arc::new(JobProgress::of(plan, keyspace)),
            expected_lifetime: keyspace.expected_lifetime(plan.output_level, now),
            origin: origin_of(tree, plan, keyspace),
            values,
            collected,
        }
    }

    /// Does a part. False if none was left.
    pub(crate) fn take_one(&self, tree: &Tree, pacing: &Pacing<'_>) -> bool {
        let context = JobContext {
            storage: tree.storage.clone(),
            cache: tree.cache.clone(),
            next_file_id: &|| tree.installer.next_file(),
            snapshots: self.snapshots.clone(),
            settings: self.settings,
            merger: self.merger.clone(),
            filter: self.filter.clone(),
            now: tree.time.now(),
            expired: self.expired,
            cancelled: pacing.throttle.cancelled_flag(),
            throttle: &|bytes| {
                let yields = || pacing.yields_to_reads(tree);
                let granted = pacing.throttle.throttle_compaction(bytes, &*tree.clock, yields);
                self.progress.wrote(granted);
                granted
            },
            table_bytes: tree.sizes.table_bytes(),
            fingerprint_bits: self.fingerprint_bits,
            sample_level: self.sample_level,
            part_limits: tree.part_limits(),
            expected_lifetime: self.expected_lifetime,
            values: self.values.clone(),
            collected: self.collected.clone(),
            origin: Some(self.origin.clone()),
        };
        self.parts.take_one(|part| subcompaction::execute_part(&self.plan, part, &context))
    }

    /// Executes the plan, with the threads that come to help. If that fails, nothing is left of it.
    fn execute(
        self: &Arc<Self>,
        tree: &Tree,
        pacing: &Pacing<'_>,
        pool: &dyn SubcompactionPool,
    ) -> Result<CompactionResult, Failure> {
        let shared = self.parts.are_several().then(|| Shared::new(self, pool));
        while self.take_one(tree, pacing) {}
        let joined = self.parts.join();
        drop(shared);
        joined.map_err(|(failure, outcomes)| {
            remove_outputs(tree, &outcomes);
            failure
        })
    }
}

/// A merge that idle threads may help with.
struct Shared<'a> {
    merge: &'a Arc<CompactionJob>,
    pool: &'a dyn SubcompactionPool,
}

impl<'a> Shared<'a> {
    fn new(merge: &'a Arc<CompactionJob>, pool: &'a dyn SubcompactionPool) -> Self {
        pool.offer(merge);
        Shared { merge, pool }
    }
}

impl Drop for Shared<'_> {
    /// When it is over no other thread has the compaction, and with it the files that were its inputs.
    fn drop(&mut self) {
        self.pool.withdraw(self.merge);
    }
}

/// How many parts a plan is worth. Plans for a space goal are small, and their cuts have their reasons.
pub(crate) fn parts_at_most(
    tree: &Tree,
    plan: &CompactionPlan,
    pacing: &Pacing<'_>,
    pool: &dyn SubcompactionPool,
) -> usize {
    let threads = pool.threads(pacing.compaction_threads);
    if threads == 1 || plan.cutting.is_some() {
        return 1;
    }
    let worth = plan.expected_bytes / (PART_TABLES * tree.sizes.table_bytes());
    (worth as usize).clamp(1, threads * PARTS_A_THREAD)
}

/// What came of a plan.
pub(crate) enum JobOutcome<'a> {
    /// Its tables were moved or dropped, or its keyspace was: only the manifest changes, and has.
    Done,
    /// A table cannot be read, and is marked so.
    Unreadable,
    /// Its outputs are written, and to be installed.
    Merged {
        output: Box<CompactionOutput>,
        /// Whether level 0 goes to a shallower level than those of the plan.
        is_below_base: bool,
        progress: ProgressGuard<'a>,
    },
}

/// Does `plan`, but for the edit that installs its outputs.
pub(crate) fn run_job<'a>(
    tree: &Tree,
    pacing: &Pacing<'_>,
    pool: &dyn SubcompactionPool,
    running: &'a L0CompactionProgress,
    (plan, filtering): (&CompactionPlan, Filtering),
) -> Result<JobOutcome<'a>> {
    tree.installer.mend()?;
    if plan.is_trivial_move() {
        let is_dropped = install_edit(tree, plan.keyspace, plan.event(), || move_edit(plan))?;
        tree.counters.trivial_moves.add(u64::from(!is_dropped));
        return Ok(JobOutcome::Done);
    }
    if plan.is_drop() {
        install_edit(tree, plan.keyspace, plan.event(), || drop_edit(plan))?;
        note_dropped(tree, plan.tables().map(|table| table.meta.id));
        return Ok(JobOutcome::Done);
    }
    let view = tree.view.load();
    let Some(keyspace) = view.version.keyspaces.get(&plan.keyspace).cloned() else {
        return Ok(JobOutcome::Done);
    };
    drop(view);
    let parts_at_most = parts_at_most(tree, plan, pacing, pool);
    let filter = match filtering {
        Filtering::On => tree.filters.named(keyspace.settings.compaction_filter),
        Filtering::Off => None,
    };
    let job = Arc::new(CompactionJob::new(tree, plan, &keyspace, filter, parts_at_most));
    let is_below_base = is_below_base(&keyspace, plan);
    drop(keyspace);
    let progress = running.enter(job.progress.clone());
    let outcome = match job.execute(tree, pacing, pool) {
        Ok(outcome) => outcome,
        Err(Failure { error, input: Some(table) }) => {
            // Mark the table before releasing the plan, or the picker chooses the same plan again.
            table.mark_unreadable(&error);
            return Ok(JobOutcome::Unreadable);
        }
        Err(Failure { error, input: None }) => return Err(error),
    };
    let output = Box::new(CompactionOutput::new(plan, outcome, &job.snapshots));
    count(tree, &output.outcome);
    Ok(JobOutcome::Merged { output, is_below_base, progress })
}

/// Whether a shallower level than those that `plan` takes from is in use: then level 0 goes there.
fn is_below_base(keyspace: &KeyspaceVersion, plan: &CompactionPlan) -> bool {
    let newest = plan.inputs.iter().map(|input| input.level).min().unwrap_or(0);
    (1..newest).any(|level| !keyspace.levels[level].is_empty())
}

/// Installs what was compacted. After an error it may be tried again. It counts as in progress until then, and no longer:
/// its runs would count once more before they are gone, or be taken off from those that came meanwhile.
pub(crate) fn install(
    tree: &Tree,
    merged: &CompactionOutput,
    entered: Option<ProgressGuard<'_>>,
) -> Result<Installed> {
    let excluded = match &merged.knows {
        Some(snapshots) => match tree.snapshots.exclude_others(snapshots) {
            Some(excluded) => Some(excluded),
            None => {
                remove_outputs(tree, std::slice::from_ref(&merged.outcome));
                return Ok(Installed::No);
            }
        },
        None => None,
    };
    let is_dropped = install_edit(tree, merged.keyspace, merged.done, || merged.edit())?;
    drop(excluded);
    drop(entered);
    let version = tree.view.load().version.clone();
    if let Some(keyspace) = version.keyspaces.get(&merged.keyspace) {
        tree.filters.count((keyspace.id, &keyspace.name), &merged.outcome.filtered);
    }
    drop(version);
    if is_dropped {
        remove_outputs(tree, std::slice::from_ref(&merged.outcome));
    }
    if merged.outcome.outputs.is_empty() && merged.outcome.held_back.is_empty() {
        note_dropped(tree, merged.inputs.iter().copied());
    }
    Ok(Installed::Yes)
}

/// Installs `edit` and counts what it does, unless its keyspace was dropped meanwhile. Returns whether it was.
fn install_edit(
    tree: &Tree,
    keyspace: KeyspaceId,
    done: CompactionEvent,
    edit: impl FnOnce() -> VersionEdit,
) -> Result<bool> {
    let mut is_dropped = false;
    let unless_dropped = |state: &ManifestState| {
        is_dropped = !state.version.keyspaces.contains_key(&keyspace);
        Ok(if is_dropped { VersionEdit::default() } else { edit() })
    };
    tree.install(CumulativeStats::default(), unless_dropped, |_| {})?;
    if !is_dropped {
        tree.counters.compactions_done.lock().count(done);
    }
    Ok(is_dropped)
}

/// Counts what a compaction has cost, whenever it is installed.
fn count(tree: &Tree, outcome: &CompactionResult) {
    tree.counters.compactions.add(1);
    tree.counters.compaction_read_bytes.add(outcome.read_bytes);
    tree.counters.compaction_bytes.add(outcome.written_bytes + outcome.separated_bytes());
    tree.counters.predicted_reclaim_bytes.add(outcome.predicted_reclaim_bytes);
    tree.counters.reclaims_within_tenth.add(u64::from(outcome.freed_what_was_expected()));
    tree.unwritten.spent(cost_of(outcome));
}

/// Removes what no edit has added and none will.
fn remove_outputs(tree: &Tree, outcomes: &[CompactionResult]) {
    for table in
        outcomes.iter().flat_map(|outcome| outcome.outputs.iter().chain(&outcome.held_back))
    {
        // What cannot be removed now goes at the next open.
        let _ = tree.storage.remove(&table_file_name(table.id.file));
    }
    for meta in outcomes.iter().flat_map(|outcome| &outcome.value_files) {
        let _ = tree.storage.remove(&value_file_name(meta.file));
    }
}

fn cost_of(outcome: &CompactionResult) -> CumulativeStats {
    CumulativeStats {
        compactions: 1,
        compaction_read_bytes: outcome.read_bytes,
        compaction_bytes: outcome.written_bytes + outcome.separated_bytes(),
        predicted_reclaim_bytes: outcome.predicted_reclaim_bytes,
        reclaims_within_tenth: u64::from(outcome.freed_what_was_expected()),
        reclaim_errors: ReclaimAccuracy::of(
            outcome.predicted_reclaim_bytes,
            outcome.freed_bytes(),
            outcome.had_sketch_mismatch,
        ),
        ..CumulativeStats::default()
    }
}

/// The edit that puts the inputs, as they are, where the output goes.
fn move_edit(plan: &CompactionPlan) -> VersionEdit {
    let place = (plan.output_level, plan.output_run);
    VersionEdit::of(plan.tables().flat_map(|table| {
        [remove(plan.keyspace, table.meta.id), add(plan.keyspace, place, &table.meta)]
    }))
}

/// The edit that drops the inputs.
fn drop_edit(plan: &CompactionPlan) -> VersionEdit {
    VersionEdit::of(plan.tables().map(|table| remove(plan.keyspace, table.meta.id)))
}

#[cfg(test)]
mod tests {
    use crate::background::executor::update_debt;
    use crate::background::steps::step_lane;
    use crate::db::Db;
    use crate::db::keyspace::Keyspace;
    use crate::options::settings::{KeyspaceSettings, Log, Settings};
    use crate::recovery::env::Env;
    use crate::resources::lanes::JobClass;
    use crate::stats::compaction_counts::CompactionCounts;
    use crate::write::drain_rates::Level0Drain;
    use esker_base::Clock;
    use esker_base::background::Stepped;
    use esker_storage::{FileSystemWrapper, MemoryStorage, Storage};
    use esker_table::Compression;
    use parking_lot::Mutex;
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    /// Reads always wait for its writes.
    struct Busy(MemoryStorage);

    impl FileSystemWrapper for Busy {
        fn below(&self) -> &dyn Storage {
            &self.0
        }
        fn is_busy(&self) -> bool {
            true
        }
    }

    /// Time passes as it is slept.
    #[derive(Default)]
    struct Slept(Mutex<Duration>);

    impl Clock for Slept {
        fn now(&self) -> Duration {
            *self.0.lock()
        }
        fn sleep(&self, duration: Duration) {
            *self.0.lock() += duration;
        }
    }

    fn flush_runs(db: &Db, keyspace: &Keyspace, runs: usize) {
        for run in 0..runs {
            let keys = (0..100u32).map(|n| 100 * n + run as u32);
            keys.for_each(|key| db.put(keyspace, key.to_be_bytes(), [7; 400]).unwrap());
            db.inner().commit.lock_active().seal();
            while step_lane(db.inner(), JobClass::Flush) {}
        }
    }

    /// A database with a keyspace that has so many runs in level 0.
    fn with_runs(env: Env, runs: usize) -> (Db, Keyspace) {
        let env = env.background(Arc::new(Stepped));
        let (segment_bytes, memory_bytes) = (64 << 10, 4 << 20);
        let settings = Settings::default()
            .log(Log::None)
            .segment_bytes(segment_bytes)
            .memory_bytes(memory_bytes);
        let db = Db::open_with(env, settings).unwrap();
        let settings = KeyspaceSettings::default().compression(Compression::None);
        let keyspace = db.keyspace("keyspace", settings).unwrap();
        flush_runs(&db, &keyspace, runs);
        (db, keyspace)
    }

    /// Twelve of them, which wait for no more.
    fn with_twelve_runs(storage: Arc<dyn Storage>) -> (Db, Keyspace) {
        with_runs(Env::over(storage), 12)
    }

    /// The same on a storage where reads wait, and its clock.
    fn with_runs_on_a_busy_storage(runs: usize) -> (Db, Keyspace, Arc<Slept>) {
        let clock = Arc::new(Slept::default());
        let storage = Arc::new(Busy(MemoryStorage::new()));
        let env = Env::over(storage).clock(clock.clone());
        let (db, keyspace) = with_runs(env, runs);
        (db, keyspace, clock)
    }

    /// How long a compaction of level 0 pauses when it has so many runs, and whether writers wait for it; while a
    /// MemTable waits for its flush, or none does.
    fn paused(runs: usize, is_sealed: bool) -> (Duration, bool) {
        let (db, keyspace, clock) = with_runs_on_a_busy_storage(runs);
        if is_sealed {
            db.put(&keyspace, b"key", b"value").unwrap();
            db.inner().commit.lock_active().seal();
            update_debt(db.inner());
        }
        let (begin, slows) = (clock.now(), db.inner().stall.waits_for_compaction());
        assert!(step_lane(db.inner(), JobClass::Compaction), "level 0 is merged");
        (clock.now() - begin, slows)
    }

    #[test]
    fn writers_get_what_compactions_take_out_of_level_0_with_its_separated_values() {
        let (db, _, clock) = with_runs_on_a_busy_storage(0);
        let settings = KeyspaceSettings::default().compression(Compression::None);
        let apart = db.keyspace("apart", settings.separation_threshold(100)).unwrap();
        flush_runs(&db, &apart, 12);
        let begin = clock.now();
        assert!(step_lane(db.inner(), JobClass::Compaction), "level 0 is merged");
        let took = clock.now() - begin;
        let written = db.inner().stall.drain_rate_of_level_0() * took.as_secs_f64();
        assert!(written >= (4 * 100 * 400) as f64, "{written} bytes of at least four runs");
        // A compaction writes no values, so how long one would take is a matter of tables.
        let tables = db.inner().stall.could_drain_level_0(took) as f64;
        assert!(tables < written / 4.0, "{tables} bytes of tables, of {written}");
    }

    #[test]
    fn level_0_waits_for_half_a_minute_at_the_most_however_slow_merges_were() {
        let (db, _, clock) = with_runs_on_a_busy_storage(4);
        let byte = Level0Drain { written: 1, tables: 1 };
        let slow = || db.inner().stall.drained_level_0(byte, Duration::from_secs(1_000));
        (0..100).for_each(|_| slow());
        clock.sleep(Duration::from_secs(29));
        assert!(!step_lane(db.inner(), JobClass::Compaction), "another run may come");
        clock.sleep(Duration::from_secs(2));
        assert!(step_lane(db.inner(), JobClass::Compaction));
    }

    /// Asked whether reads wait, which a merge does as it writes, it looks how much of level 0 counts as gone.
    #[derive(Default)]
    struct Looking {
        storage: MemoryStorage,
        db: OnceLock<(Db, Keyspace)>,
        seen: Mutex<Vec<f64>>,
    }

    impl FileSystemWrapper for Looking {
        fn below(&self) -> &dyn Storage {
            &self.storage
        }
        fn is_busy(&self) -> bool {
            if let Some((db, keyspace)) = self.db.get() {
                self.seen.lock().push(db.inner().under_way.runs_done(keyspace.id()));
            }
            false
        }
    }

    #[test]
    fn runs_that_are_merged_count_as_gone_little_by_little() {
        let storage = Arc::new(Looking::default());
        let (db, keyspace) = with_twelve_runs(storage.clone());
        assert!(storage.db.set((db.clone(), keyspace.clone())).is_ok());
        assert!(step_lane(db.inner(), JobClass::Compaction), "level 0 is merged");
        let seen = storage.seen.lock().clone();
        assert!(
            seen.is_sorted() && seen.iter().all(|runs| (0.0..=12.0).contains(runs)),
            "{seen:?}"
        );
        let steps = seen.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(seen.len() >= 4 && steps.into_iter().all(|step| step < 2.0), "{seen:?}");
        assert_eq!(db.inner().under_way.runs_done(keyspace.id()), 0.0, "the merge is over");
    }

    /// Asked whether reads wait, it drops the keyspace whose tables are being merged.
    #[derive(Default)]
    struct Dropping {
        storage: MemoryStorage,
        db: OnceLock<Db>,
    }

    impl FileSystemWrapper for Dropping {
        fn below(&self) -> &dyn Storage {
            &self.storage
        }
        fn is_busy(&self) -> bool {
            if let Some(db) = self.db.get() {
                // The first time; later there is none.
                let _ =
                    db.open_keyspace("keyspace").and_then(|keyspace| db.drop_keyspace(&keyspace));
            }
            false
        }
    }

    #[test]
    fn a_merge_that_never_came_into_force_is_not_among_those_done() {
        let storage = Arc::new(Dropping::default());
        let (db, _) = with_twelve_runs(storage.clone());
        assert!(storage.db.set(db.clone()).is_ok());
        assert!(step_lane(db.inner(), JobClass::Compaction), "level 0 is merged");
        let stats = db.stats();
        assert_eq!(stats.compactions, 1, "it has cost what it cost");
        assert_eq!(stats.compactions_done, CompactionCounts::default());
    }

    #[test]
    fn a_flush_yields_to_reads() {
        let clock = Arc::new(Slept::default());
        let env = Env::over(Arc::new(Busy(MemoryStorage::new())))
            .background(Arc::new(Stepped))
            .clock(clock.clone());
        let db = Db::open_with(env, Settings::default().log(Log::None)).unwrap();
        db.put(&db.default_keyspace(), b"key", b"value").unwrap();
        db.inner().commit.lock_active().seal();
        let begin = clock.now();
        while step_lane(db.inner(), JobClass::Flush) {}
        assert!(!(clock.now() - begin).is_zero());
    }

    #[test]
    fn a_merge_yields_to_reads_until_writers_wait_for_it() {
        for is_sealed in [false, true] {
            let (pauses, slows) = paused(12, is_sealed);
            assert!(!slows && !pauses.is_zero(), "{pauses:?}, {is_sealed}");
            assert_eq!(paused(20, is_sealed), (Duration::ZERO, true));
        }
    }
}
