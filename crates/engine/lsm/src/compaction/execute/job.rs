//! Executes a plan: merges its inputs, then installs the outputs with one edit.
//!
//! A large plan is split into parts, and idle compaction threads take some of them. The edit may
//! come later than the outputs: see `pending_installs`.

use super::l0_progress::{JobProgress, ProgressGuard};
use super::pending_installs;
use super::subcompaction::{CompactionResult, Failure};
use super::subcompaction_queue::SubcompactionQueue;
use crate::background::Scheduler;
use crate::compaction::execute::subcompaction;
use crate::compaction::in_progress::CompactionClaim;
use crate::compaction::plan::CompactionPlan;
use crate::engine::Engine;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::KeyspaceSettings;
use crate::output::filter_allocation;
use crate::output::job_context::JobContext;
use crate::stats::compaction_counts::CompactionEvent;
use crate::stats::cumulative::CumulativeStats;
use crate::stats::reclaim_accuracy::ReclaimAccuracy;
use crate::version::{KeyspaceVersion, TableId, TableMeta, Version, table_file_name};
use esker_base::{KeyspaceId, Result, Seqno};
use esker_table::Origin;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A part writes about so many tables at least: each may end with one that is not full, and has to find
/// its place in every input.
const PART_TABLES: u64 = 2;

/// Parts for each thread, so that those who are done first find more.
const PARTS_A_THREAD: usize = 2;

/// A plan that is being done, as all who do parts of it need it.
pub(crate) struct CompactionJob {
    plan: CompactionPlan,
    pub(crate) parts: SubcompactionQueue,
    settings: KeyspaceSettings,
    /// Read after the plan was made.
    snapshots: Vec<Seqno>,
    fingerprint_bits: u8,
    sample_level: u8,
    progress: Arc<JobProgress>,
    expected_lifetime: Option<u64>,
    origin: Arc<Origin>,
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
    fn new(inner: &Engine, plan: &CompactionPlan, keyspace: &KeyspaceVersion) -> CompactionJob {
        let now = inner.tree.installer.account().table_bytes();
        CompactionJob {
            plan: plan.clone(),
            parts: SubcompactionQueue::new(plan.parts(parts_at_most(inner, plan))),
            settings: keyspace.settings,
            snapshots: inner.tree.snapshots.list(),
            fingerprint_bits: fingerprint_bits(keyspace, plan),
            sample_level: if plan.output_level == 0 { keyspace.sample_level() } else { 0 },
            progress: Arc::new(JobProgress::of(plan, keyspace)),
            expected_lifetime: keyspace.expected_lifetime(plan.output_level, now),
            origin: origin_of(inner, plan, keyspace),
        }
    }

    /// Does a part. False if none was left.
    pub(crate) fn take_one(&self, inner: &Engine) -> bool {
        let context = JobContext {
            storage: inner.tree.storage.clone(),
            cache: inner.tree.cache.clone(),
            next_file_id: &|| inner.tree.installer.next_file(),
            snapshots: self.snapshots.clone(),
            settings: self.settings,
            cancelled: inner.gate.cancelled_flag(),
            throttle: &|bytes| {
                self.progress.wrote(bytes);
                inner
                    .gate
                    .throttle_compaction(bytes, &*inner.tree.clock, || inner.yields_to_reads());
            },
            table_bytes: inner.tree.sizes.table_bytes(),
            fingerprint_bits: self.fingerprint_bits,
            sample_level: self.sample_level,
            expected_lifetime: self.expected_lifetime,
            origin: Some(self.origin.clone()),
        };
        self.parts.take_one(|part| subcompaction::execute_part(&self.plan, part, &context))
    }

    /// Does the plan, with whoever comes to help. If that fails, nothing is left of it.
    fn execute(self: &Arc<Self>, inner: &Engine) -> Result<CompactionResult, Failure> {
        let shared = self.parts.are_several().then(|| Shared::new(self, &inner.schedule));
        while self.take_one(inner) {}
        let joined = self.parts.join();
        drop(shared);
        joined.map_err(|(failure, outcomes)| {
            remove_outputs(inner, &outcomes);
            failure
        })
    }
}

/// What the outputs of `plan` say of where they come from. A table in a file that others keep alive is still there
/// once it was replaced, and after the loss of a manifest only this tells that it was.
fn origin_of(inner: &Engine, plan: &CompactionPlan, keyspace: &KeyspaceVersion) -> Arc<Origin> {
    let mut origin = inner.tree.installer.origin(keyspace);
    let fields = Arc::make_mut(&mut origin);
    let version = inner.tree.view.load().version.clone();
    fields.flushed_through = version.flushed_through;
    let files = files_of(&version);
    let mut obsolete: BTreeSet<_> = fields.obsolete.iter().copied().collect();
    for table in plan.tables() {
        fields.replaces.push((table.meta.id.file, table.meta.id.offset));
        // One that does not open fails the compaction.
        let Ok(reader) = table.reader(&inner.tree.cache) else { continue };
        let Some(before) = &reader.properties().origin else { continue };
        let replaced = before.replaces.iter().chain(&before.obsolete);
        obsolete.extend(replaced.copied());
    }
    obsolete.retain(|(file, _)| files.contains(file));
    fields.obsolete = obsolete.into_iter().collect();
    origin
}

/// The table files that `version` uses.
fn files_of(version: &Version) -> BTreeSet<u64> {
    let tables = version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
    tables.map(|(_, _, table)| table.meta.id.file).collect()
}

/// After the loss of a manifest, only tables that are begun from now on tell that `removed` are gone.
fn note_dropped(inner: &Engine, removed: impl Iterator<Item = TableId>) {
    inner.tree.installer.note_dropped(removed, &files_of(&inner.tree.view.load().version));
}

/// A merge that idle threads may help with.
struct Shared<'a> {
    merge: &'a Arc<CompactionJob>,
    schedule: &'a Scheduler,
}

impl<'a> Shared<'a> {
    fn new(merge: &'a Arc<CompactionJob>, schedule: &'a Scheduler) -> Self {
        schedule.share(merge);
        Shared { merge, schedule }
    }
}

impl Drop for Shared<'_> {
    /// When it is over nobody else has the merge, and with it the files that were merged.
    fn drop(&mut self) {
        self.schedule.unshare(self.merge);
    }
}

/// How many parts a plan is worth. Plans for a space goal are small, and their cuts have their reasons.
fn parts_at_most(inner: &Engine, plan: &CompactionPlan) -> usize {
    let threads = inner.schedule.compaction_threads(&inner.tree.settings);
    if threads == 1 || plan.cutting.is_some() {
        return 1;
    }
    let worth = plan.expected_bytes / (PART_TABLES * inner.tree.sizes.table_bytes());
    (worth as usize).clamp(1, threads * PARTS_A_THREAD)
}

/// A plan whose outputs are written. It holds no files: what of its inputs goes meanwhile, as with a keyspace, is gone.
pub(crate) struct CompactionOutput {
    /// What the plan has claimed.
    pub(crate) held: CompactionClaim,
    keyspace: KeyspaceId,
    inputs: Vec<TableId>,
    /// The level and the run of the outputs.
    place: (usize, u64),
    /// Those of what was held back.
    held_place: (usize, u64),
    outcome: CompactionResult,
    /// The newest level of the inputs, and their bytes there.
    moved: (usize, u64),
    done: CompactionEvent,
}

impl CompactionOutput {
    fn new(plan: &CompactionPlan, outcome: CompactionResult) -> Self {
        let newest = &plan.inputs[0];
        CompactionOutput {
            held: CompactionClaim::by(plan),
            keyspace: plan.keyspace,
            inputs: plan.tables().map(|table| table.meta.id).collect(),
            place: (plan.output_level, plan.output_run),
            held_place: (newest.level, newest.run),
            outcome,
            moved: (newest.level, newest.tables.iter().map(|table| table.meta.bytes).sum()),
            done: plan.event(),
        }
    }

    pub(crate) fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// The level that its outputs go to.
    pub(crate) fn level(&self) -> usize {
        self.place.0
    }

    /// The bytes of its outputs.
    pub(crate) fn bytes(&self) -> u64 {
        self.outcome.written_bytes
    }

    pub(crate) fn outputs(&self) -> &[TableMeta] {
        &self.outcome.outputs
    }

    /// Whether its inputs take more than twice the room of its outputs.
    pub(crate) fn frees_much(&self) -> bool {
        self.outcome.freed_bytes() > self.outcome.written_bytes
    }

    /// The newest level that it takes from, and how many bytes.
    pub(crate) fn moved(&self) -> (usize, u64) {
        self.moved
    }

    /// The edit that takes the inputs away and puts the outputs in their place.
    fn edit(&self) -> VersionEdit {
        let gone = self.inputs.iter().map(|id| remove(self.keyspace, *id));
        let outputs = self.outcome.outputs.iter().map(|meta| (self.place, meta));
        let held_back = self.outcome.held_back.iter().map(|meta| (self.held_place, meta));
        let added = outputs.chain(held_back).map(|(place, meta)| add(self.keyspace, place, meta));
        VersionEdit::of(gone.chain(added))
    }
}

/// Executes `plan` and installs its result, or returns it if that is to be done later.
pub(crate) fn compact(inner: &Engine, plan: &CompactionPlan) -> Result<Option<CompactionOutput>> {
    let started = inner.tree.clock.now();
    inner.tree.installer.mend()?;
    if plan.is_trivial_move() {
        let is_dropped = install_edit(inner, plan.keyspace, plan.event(), || move_edit(plan))?;
        inner.tree.counters.trivial_moves.add(u64::from(!is_dropped));
        return Ok(None);
    }
    if plan.is_drop() {
        let done = plan.event();
        install_edit(inner, plan.keyspace, done, || drop_edit(plan))?;
        note_dropped(inner, plan.tables().map(|table| table.meta.id));
        return Ok(None);
    }
    let view = inner.tree.view.load();
    let Some(keyspace) = view.version.keyspaces.get(&plan.keyspace).cloned() else {
        return Ok(None);
    };
    drop(view);
    let merge = Arc::new(CompactionJob::new(inner, plan, &keyspace));
    let is_below_base = pending_installs::is_below_base(&keyspace, plan);
    drop(keyspace);
    let entered = inner.under_way.enter(&merge.progress);
    let outcome = match merge.execute(inner) {
        Ok(outcome) => outcome,
        Err(Failure { error, input: Some(table) }) => {
            // Mark the table before releasing the plan, or the picker chooses the same plan again.
            table.mark_unreadable(&error);
            inner.schedule.retry_tables(inner.tree.clock.now());
            return Ok(None);
        }
        Err(Failure { error, input: None }) => return Err(error),
    };
    let merged = CompactionOutput::new(plan, outcome);
    count(inner, &merged.outcome);
    if is_below_base && pending_installs::is_early(inner, plan, &merged) {
        inner.tree.counters.deferrals.add(1);
        return Ok(Some(merged));
    }
    install(inner, &merged, Some(entered))?;
    let from_level_0 = bytes_from_level_0(plan);
    inner.stall.drained_level_0(from_level_0, inner.tree.clock.now().saturating_sub(started));
    Ok(None)
}

/// Puts what was merged in force. After an error it may be tried again. It counts as under way until then, and no longer:
/// its runs would count once more before they are gone, or be taken off from those that came meanwhile.
pub(crate) fn install(
    inner: &Engine,
    merged: &CompactionOutput,
    entered: Option<ProgressGuard<'_>>,
) -> Result<()> {
    let is_dropped = install_edit(inner, merged.keyspace, merged.done, || merged.edit())?;
    drop(entered);
    if is_dropped {
        remove_outputs(inner, std::slice::from_ref(&merged.outcome));
    }
    if merged.outcome.outputs.is_empty() && merged.outcome.held_back.is_empty() {
        note_dropped(inner, merged.inputs.iter().copied());
    }
    inner.open_new_tables();
    Ok(())
}

/// Puts `edit` in force and counts what it does, unless its keyspace was dropped meanwhile. Returns whether it was.
fn install_edit(
    inner: &Engine,
    keyspace: KeyspaceId,
    done: CompactionEvent,
    edit: impl FnOnce() -> VersionEdit,
) -> Result<bool> {
    let mut is_dropped = false;
    let unless_dropped = |state: &ManifestState| {
        is_dropped = !state.version.keyspaces.contains_key(&keyspace);
        Ok(if is_dropped { VersionEdit::default() } else { edit() })
    };
    inner.tree.install(CumulativeStats::default(), unless_dropped, |_| {})?;
    if !is_dropped {
        inner.tree.counters.compactions_done.lock().count(done);
    }
    Ok(is_dropped)
}

/// Counts what a merge has cost, whenever it comes into force.
fn count(inner: &Engine, outcome: &CompactionResult) {
    inner.tree.counters.compactions.add(1);
    inner.tree.counters.compaction_read_bytes.add(outcome.read_bytes);
    inner.tree.counters.compaction_bytes.add(outcome.written_bytes);
    inner.tree.counters.predicted_reclaim_bytes.add(outcome.predicted_reclaim_bytes);
    inner.tree.counters.reclaims_within_tenth.add(u64::from(outcome.freed_what_was_expected()));
    inner.tree.unwritten.spent(cost_of(outcome));
}

/// Removes what no edit has added and none will.
fn remove_outputs(inner: &Engine, outcomes: &[CompactionResult]) {
    for table in
        outcomes.iter().flat_map(|outcome| outcome.outputs.iter().chain(&outcome.held_back))
    {
        // What cannot be removed now goes at the next open.
        let _ = inner.tree.storage.remove(&table_file_name(table.id.file));
    }
}

fn cost_of(outcome: &CompactionResult) -> CumulativeStats {
    CumulativeStats {
        compactions: 1,
        compaction_read_bytes: outcome.read_bytes,
        compaction_bytes: outcome.written_bytes,
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

fn remove(keyspace: KeyspaceId, id: TableId) -> VersionChange {
    VersionChange::RemoveTable { keyspace, id }
}

fn add(keyspace: KeyspaceId, (level, run): (usize, u64), meta: &TableMeta) -> VersionChange {
    VersionChange::AddTable { keyspace, level, run, meta: meta.clone() }
}

fn bytes_from_level_0(plan: &CompactionPlan) -> u64 {
    let inputs = plan.inputs.iter().filter(|input| input.level == 0);
    inputs.flat_map(|input| &input.tables).map(|table| table.meta.bytes).sum()
}

#[cfg(test)]
mod tests {
    use crate::background::executor::update_debt;
    use crate::background::step_lane;
    use crate::db::Db;
    use crate::db::keyspace::Keyspace;
    use crate::options::settings::{KeyspaceSettings, Log, Settings};
    use crate::recovery::env::Env;
    use crate::resources::lanes::JobClass;
    use crate::stats::compaction_counts::CompactionCounts;
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
        let env = Env { background: Arc::new(Stepped), ..env };
        let (segment_bytes, memory_bytes) = (64 << 10, 4 << 20);
        let settings = Settings::default()
            .log(Log::None)
            .segment_bytes(segment_bytes)
            .memory_bytes(memory_bytes);
        let db = Db::open_with(env, settings).unwrap();
        let compression = Compression::None;
        let settings = KeyspaceSettings::default().compression(compression);
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
        let env = Env { clock: clock.clone(), ..Env::over(storage) };
        let (db, keyspace) = with_runs(env, runs);
        (db, keyspace, clock)
    }

    /// How long a merge of level 0 pauses when it has so many runs, and whether it was owed to writers; beside a
    /// MemTable that waits for its flush, or without.
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
    fn level_0_waits_for_half_a_minute_at_the_most_however_slow_merges_were() {
        let (db, _, clock) = with_runs_on_a_busy_storage(4);
        let slow = || db.inner().stall.drained_level_0(1, Duration::from_secs(1_000));
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
                let _ = db.drop_keyspace("keyspace");
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
        let env = Env {
            background: Arc::new(Stepped),
            clock: clock.clone(),
            ..Env::over(Arc::new(Busy(MemoryStorage::new())))
        };
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
