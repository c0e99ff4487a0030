//! Decides which finished compactions are installed later, and when.

use super::picker_context;
use crate::compaction::execute::compaction_output::CompactionOutput;
use crate::compaction::execute::pending_installs::InstallContext;
use crate::compaction::pick;
use crate::compaction::plan::{CompactionPlan, CompactionReason};
use crate::engine::Engine;
use crate::scheduler::state::SchedulerState;
use crate::version::readers::super_version::SuperVersion;
use crate::version::table_file_name;
use std::time::Duration;

/// Whether a merge below the base that was just done is better installed later.
pub(super) fn is_early(inner: &Engine, plan: &CompactionPlan, merged: &CompactionOutput) -> bool {
    plan.reason == CompactionReason::LevelSize
        && !merged.frees_much()
        && !inner.gate.is_cancelled()
        && !inner.stall.waits_for_compaction()
        && is_small_part(inner, merged)
        && !inner.schedule.jobs.lock().deferred.is_hurried()
        && !is_settled(inner, merged)
}

/// Whether a merge and those that wait already are a small part of the level that they go to.
fn is_small_part(inner: &Engine, merged: &CompactionOutput) -> bool {
    let view = inner.tree.view.load();
    let keyspace = view.version.keyspaces.get(&merged.keyspace());
    let level = keyspace.map_or(0, |keyspace| keyspace.levels[merged.level()].bytes());
    inner.schedule.jobs.lock().deferred.is_small_part(merged, level)
}

fn is_settled(inner: &Engine, merged: &CompactionOutput) -> bool {
    merged
        .outputs()
        .iter()
        .all(|meta| inner.tree.storage.is_settled(&table_file_name(meta.id.file)))
}

/// A finished compaction that is to be installed now.
pub(super) fn take_due(
    inner: &Engine,
    jobs: &mut SchedulerState,
    now: Duration,
) -> Option<CompactionOutput> {
    if jobs.deferred.is_empty() {
        return None;
    }
    let view = inner.tree.view.pin();
    jobs.deferred.take_due(&InstallContext {
        now,
        do_writers_wait: inner.stall.waits_for_compaction(),
        version: &view.version,
        is_settled: &|merged| is_settled(inner, merged),
    })
}

/// Takes one of a keyspace in which a level is too large and no plan can be made: the one that was put off first, which
/// may not be the one that is in the way. Not as long as a merge is in progress in that keyspace, for that may be what is.
pub(super) fn take_in_the_way(
    inner: &Engine,
    jobs: &mut SchedulerState,
    view: &SuperVersion,
) -> Option<CompactionOutput> {
    let at = in_the_way(inner, jobs, view)?;
    Some(jobs.deferred.take(at))
}

/// Whether there is one.
pub(super) fn has_in_the_way(inner: &Engine, jobs: &SchedulerState, view: &SuperVersion) -> bool {
    in_the_way(inner, jobs, view).is_some()
}

fn in_the_way(inner: &Engine, jobs: &SchedulerState, view: &SuperVersion) -> Option<usize> {
    let (deferred, busy) = (&jobs.deferred, &jobs.busy);
    if deferred.is_empty() {
        return None;
    }
    let moved = deferred.moved();
    deferred.find(|merged| {
        let id = merged.keyspace();
        let Some(keyspace) = view.version.keyspaces.get(&id) else { return false };
        let is_alone = busy.count(id) == deferred.count(id);
        let cadence = picker_context::cadence(inner, view, jobs);
        is_alone && pick::is_due(keyspace, inner.tree.sizes, cadence, &moved[&id])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::steps::step_lane;
    use crate::compaction::execute::pending_installs::LATEST;
    use crate::db::Db;
    use crate::db::keyspace::Keyspace;
    use crate::options::settings::{KeyspaceSettings, Log, Settings, Shape};
    use crate::recovery::env::Env;
    use crate::resources::lanes::JobClass;
    use crate::stats::events::EventKind;
    use crate::version::LEVELS;
    use crate::version::TableId;
    use crate::write::stall_inputs::StallInputs;
    use esker_base::background::Stepped;
    use esker_base::{Clock, Error, Result, Rng, WriteHint};
    use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile, copy_durably};
    use esker_table::Compression;
    use parking_lot::Mutex;
    use std::collections::{BTreeMap, BTreeSet};
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// Files whose place is said to be written, or not. New tables and what is added to manifests may fail.
    #[derive(Clone)]
    struct Told {
        storage: MemoryStorage,
        is_settled: Arc<AtomicBool>,
        is_full: Arc<AtomicBool>,
        is_broken: Arc<AtomicBool>,
        fails_once: Arc<AtomicBool>,
    }

    impl Told {
        fn tables(&self) -> usize {
            let names = self.storage.list().unwrap();
            names.iter().filter(|name| name.ends_with(".tables")).count()
        }

        fn settle(&self) {
            self.is_settled.store(true, Ordering::Relaxed);
        }

        fn fill_up(&self) {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    impl FileSystemWrapper for Told {
        fn below(&self) -> &dyn Storage {
            &self.storage
        }
        fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
            let is_table = name.ends_with(".tables");
            if is_table && self.is_full.load(Ordering::Relaxed) {
                return Err(Error::io("create", name, io::ErrorKind::StorageFull.into()));
            }
            let file = self.storage.create(name, hint)?;
            Ok(if is_table { file } else { Box::new(Breaking { file, told: self.clone() }) })
        }
        fn is_settled(&self, _: &str) -> bool {
            self.is_settled.load(Ordering::Relaxed)
        }
    }

    struct Breaking {
        file: Box<dyn WritableFile>,
        told: Told,
    }

    impl WritableFile for Breaking {
        fn append(&mut self, bytes: &[u8]) -> Result<()> {
            self.file.append(bytes)
        }
        fn len(&self) -> u64 {
            self.file.len()
        }
        fn sync(&mut self) -> Result<()> {
            let fails = self.told.fails_once.swap(false, Ordering::Relaxed);
            match fails || self.told.is_broken.load(Ordering::Relaxed) {
                true => Err(Error::io("sync", "a file", io::Error::other("made to fail"))),
                false => self.file.sync(),
            }
        }
    }

    #[derive(Default)]
    struct Hand(Mutex<Duration>);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            *self.0.lock()
        }
        fn sleep(&self, duration: Duration) {
            *self.0.lock() += duration;
        }
    }

    /// A database whose deep tables are not quiescent, with levels of twice the size of the one above.
    struct World {
        told: Told,
        clock: Arc<Hand>,
        db: Db,
        keyspace: Keyspace,
        rng: Rng,
        written: BTreeMap<u32, u8>,
    }

    fn settings() -> KeyspaceSettings {
        let (shape, compression) = (Shape::Leveled { ratio: 2 }, Compression::None);
        KeyspaceSettings::default().shape(shape).compression(compression)
    }

    fn open(told: &Told, clock: &Arc<Hand>) -> Db {
        let env =
            Env::over(Arc::new(told.clone())).background(Arc::new(Stepped)).clock(clock.clone());
        let (segment_bytes, memory_bytes) = (64 << 10, 4 << 20);
        let settings = Settings::default()
            .log(Log::None)
            .segment_bytes(segment_bytes)
            .memory_bytes(memory_bytes);
        Db::open_with(env, settings).unwrap()
    }

    impl World {
        fn new() -> Self {
            let storage = MemoryStorage::new();
            let (is_settled, is_full, is_broken, fails_once) = Default::default();
            let told = Told { storage, is_settled, is_full, is_broken, fails_once };
            let clock = Arc::new(Hand::default());
            let db = open(&told, &clock);
            let keyspace = db.keyspace("keyspace", settings()).unwrap();
            let (rng, written) = (Rng::new(7), BTreeMap::new());
            World { told, clock, db, keyspace, rng, written }
        }

        /// One that has deferred merges, and nothing else to do.
        fn with_deferred() -> Self {
            let mut world = World::new();
            for _ in 0..200 {
                world.write(100);
                if world.deferred() > 0 {
                    return world;
                }
            }
            panic!("no merge was deferred");
        }

        /// Puts so many keys, and does what there is to do.
        fn write(&mut self, keys: usize) {
            for _ in 0..keys {
                let (key, value) = (self.rng.below(10_000) as u32, self.rng.below(256) as u8);
                self.db.put(&self.keyspace, key.to_be_bytes(), [value; 400]).unwrap();
                self.written.insert(key, value);
                while self.db.run_background_job() {}
            }
        }

        fn deferred(&self) -> usize {
            self.db.stats().compactions_deferred as usize
        }

        fn claims(&self) -> usize {
            self.db.inner().schedule.jobs.lock().busy.len()
        }

        fn check(&self) {
            for (key, value) in &self.written {
                let found = self.db.get(&self.keyspace, key.to_be_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&[*value; 400][..]), "key {key}");
            }
        }

        /// What deferred merges have written.
        fn outputs(&self) -> BTreeSet<TableId> {
            let jobs = self.db.inner().schedule.jobs.lock();
            let merges = jobs.deferred.merges.iter();
            merges.flat_map(|it| it.merged.outputs()).map(|meta| meta.id).collect()
        }

        fn tables_in_force(&self) -> BTreeSet<TableId> {
            tables_in_force(&self.db)
        }
    }

    fn tables_in_force(db: &Db) -> BTreeSet<TableId> {
        let version = db.inner().tree.view.load().version.clone();
        let tables = version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        tables.map(|(_, _, table)| table.meta.id).collect()
    }

    #[test]
    fn a_merge_comes_into_force_when_what_it_wrote_is_settled() {
        let world = World::with_deferred();
        let (outputs, tables) = (world.outputs(), world.tables_in_force().len());
        assert!(world.told.tables() > tables, "what was written is there beside what is read");
        assert_eq!(world.claims(), world.deferred());
        assert!(!world.db.run_background_job());
        world.check();
        world.told.settle();
        while step_lane(world.db.inner(), JobClass::Compaction) {}
        assert_eq!((world.deferred(), world.claims()), (0, 0));
        assert!(outputs.is_subset(&world.tables_in_force()));
        assert_eq!(world.told.tables(), world.tables_in_force().len());
        world.check();
    }

    #[test]
    fn a_merge_is_an_event_when_it_comes_into_force() {
        let world = World::with_deferred();
        let (deferred, heard) = (world.deferred(), Arc::new(AtomicUsize::new(0)));
        let count = heard.clone();
        world.db.listen(move |event| {
            let is_merge = matches!(event.kind, EventKind::Compaction { .. });
            count.fetch_add(usize::from(is_merge), Ordering::Relaxed);
        });
        world.told.settle();
        for installed in 1..=deferred {
            assert!(step_lane(world.db.inner(), JobClass::Compaction));
            let left = (world.deferred(), heard.load(Ordering::Relaxed));
            assert_eq!(left, (deferred - installed, installed));
        }
    }

    #[test]
    fn merges_into_the_base_are_never_put_off() {
        let mut world = World::new();
        for _ in 0..40 {
            world.write(100);
            let version = world.db.inner().tree.view.load().version.clone();
            let levels = &version.keyspaces[&world.keyspace.id()].levels;
            let used = (1..LEVELS).filter(|&level| !levels[level].is_empty()).count();
            assert!(used > 2 || world.deferred() == 0);
        }
        assert!(world.db.stats().compactions > 3);
    }

    #[test]
    fn none_waits_while_a_level_is_too_large_and_nothing_else_can_be_done() {
        let mut world = World::with_deferred();
        let mut waited = 0;
        for _ in 0..300 {
            world.write(100);
            let (inner, jobs) = (world.db.inner(), world.db.inner().schedule.jobs.lock());
            let version = inner.tree.view.load().version.clone();
            let keyspace = &version.keyspaces[&world.keyspace.id()];
            let waits = !jobs.deferred.is_empty();
            let moved = jobs.deferred.moved().remove(&keyspace.id).unwrap_or_default();
            let arrival = picker_context::cadence(inner, &inner.tree.view.pin(), &jobs);
            assert!(!waits || !pick::is_due(keyspace, inner.tree.sizes, arrival, &moved));
            waited += u32::from(waits);
        }
        assert!(waited > 30, "{waited}");
        world.check();
    }

    #[test]
    fn one_comes_into_force_after_ten_minutes() {
        let world = World::with_deferred();
        assert!(!step_lane(world.db.inner(), JobClass::Compaction));
        world.clock.sleep(LATEST);
        assert!(step_lane(world.db.inner(), JobClass::Compaction));
        while world.db.run_background_job() {}
        // What follows from it may be put off in its turn.
        let latest = world.clock.now() + LATEST;
        let jobs = world.db.inner().schedule.jobs.lock();
        assert!(jobs.deferred.merges.iter().all(|waiting| waiting.latest == latest));
    }

    #[test]
    fn whoever_waits_for_all_merges_waits_for_none_to_settle() {
        let world = World::with_deferred();
        world.db.wait_for_compactions().unwrap();
        assert_eq!((world.deferred(), world.claims()), (0, 0));
        world.check();
        let world = World::with_deferred();
        world.db.compact().unwrap();
        assert_eq!((world.deferred(), world.claims()), (0, 0));
        world.check();
        assert!(!world.db.inner().schedule.jobs.lock().deferred.is_hurried());
    }

    #[test]
    fn a_close_puts_all_in_force() {
        let world = World::with_deferred();
        let outputs = world.outputs();
        let World { told, clock, db, written, .. } = world;
        db.close().unwrap();
        let db = open(&told, &clock);
        let keyspace = db.keyspace("keyspace", settings()).unwrap();
        assert!(!outputs.is_empty() && outputs.is_subset(&tables_in_force(&db)));
        for (key, value) in &written {
            let found = db.get(&keyspace, key.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&[*value; 400][..]));
        }
    }

    /// The files of the merge survive, and no manifest lists them.
    #[test]
    fn a_power_loss_before_an_install_leaves_the_inputs_in_force() {
        let world = World::with_deferred();
        world.db.flush().unwrap();
        let (outputs, inputs) = (world.outputs(), world.tables_in_force());
        assert!(!outputs.is_empty() && outputs.is_disjoint(&inputs));
        let storage = MemoryStorage::new();
        for name in world.told.storage.list().unwrap() {
            copy_durably(&world.told.storage, &name, &storage).unwrap();
        }
        let told = Told { storage, ..world.told.clone() };
        let db = open(&told, &world.clock);
        assert_eq!(tables_in_force(&db), inputs);
        assert_eq!(told.tables(), inputs.len(), "the files of the merge are gone");
        let keyspace = db.keyspace("keyspace", settings()).unwrap();
        World { told, db, keyspace, ..world }.check();
    }

    #[test]
    fn the_merges_of_a_dropped_keyspace_leave_nothing() {
        let world = World::with_deferred();
        world.db.drop_keyspace(&world.db.open_keyspace("keyspace").unwrap()).unwrap();
        while world.db.run_background_job() {}
        assert_eq!((world.deferred(), world.claims(), world.told.tables()), (0, 0, 0));
    }

    #[test]
    fn a_snapshot_and_deletes_of_the_meantime_are_kept() {
        let mut world = World::with_deferred();
        let snapshot = world.db.snapshot();
        let (&key, &value) = world.written.iter().next().unwrap();
        world.db.delete(&world.keyspace, key.to_be_bytes()).unwrap();
        world.written.remove(&key);
        world.db.wait_for_compactions().unwrap();
        world.check();
        assert!(world.db.get(&world.keyspace, key.to_be_bytes()).unwrap().is_none());
        let then = snapshot.get(&world.keyspace, key.to_be_bytes()).unwrap();
        assert_eq!(then.as_deref(), Some(&[value; 400][..]));
    }

    #[test]
    fn one_that_cannot_be_put_in_force_is_tried_again_and_keeps_its_claim() {
        let world = World::with_deferred();
        let (deferred, outputs) = (world.deferred(), world.outputs());
        world.told.is_broken.store(true, Ordering::Relaxed);
        world.told.settle();
        for _ in 0..3 {
            assert!(!step_lane(world.db.inner(), JobClass::Compaction));
            assert_eq!((world.deferred(), world.claims()), (deferred, deferred));
        }
        assert!(world.db.background_error().is_some());
        world.check();
        world.told.is_broken.store(false, Ordering::Relaxed);
        while step_lane(world.db.inner(), JobClass::Compaction) {}
        assert_eq!((world.deferred(), world.claims()), (0, 0));
        assert!(outputs.is_subset(&world.tables_in_force()));
        world.check();
    }

    #[test]
    fn one_comes_into_force_where_writers_wait_for_compaction() {
        let world = World::with_deferred();
        let deferred = world.deferred();
        let inner = world.db.inner();
        let owed =
            StallInputs { level_0_excess_runs: 22.0, segment_bytes: 1, ..StallInputs::default() };
        inner.stall.set_debt(world.clock.now(), || owed);
        assert!(inner.stall.waits_for_compaction());
        assert!(step_lane(inner, JobClass::Compaction));
        assert_eq!(world.deferred(), deferred - 1);
    }

    #[test]
    fn merges_that_free_much_are_not_put_off() {
        let mut world = World::with_deferred();
        let mut deferred = 0;
        // What is deleted goes as what is new between it is merged down.
        for key in (0..10_000u32).filter(|key| key % 8 != 0) {
            world.db.delete(&world.keyspace, key.to_be_bytes()).unwrap();
            world.written.remove(&key);
        }
        for _ in 0..8_000 {
            let key = [&world.rng.below(10_000).to_be_bytes()[4..], b"new"].concat();
            world.db.put(&world.keyspace, &key, [1; 400]).unwrap();
            while world.db.run_background_job() {
                let jobs = world.db.inner().schedule.jobs.lock();
                deferred += jobs.deferred.merges.len();
                assert!(jobs.deferred.merges.iter().all(|waiting| !waiting.merged.frees_much()));
            }
        }
        assert!(deferred > 0);
        world.check();
    }

    #[test]
    fn what_lies_where_nobody_writes_is_in_force_at_once() {
        let mut world = World::new();
        world.told.settle();
        for _ in 0..8_000 {
            let key = world.rng.below(10_000) as u32;
            world.db.put(&world.keyspace, key.to_be_bytes(), [1; 400]).unwrap();
            while world.db.run_background_job() {
                assert_eq!(world.deferred(), 0);
            }
        }
    }

    #[test]
    fn a_close_whose_manifest_fails_once_loses_no_write() {
        let world = World::with_deferred();
        world.db.put(&world.keyspace, b"key", b"value").unwrap();
        // The first edit of the close is that of a deferred merge.
        world.told.fails_once.store(true, Ordering::Relaxed);
        let World { told, clock, db, .. } = world;
        db.close().unwrap();
        assert!(!told.fails_once.load(Ordering::Relaxed), "it failed");
        let db = open(&told, &clock);
        let keyspace = db.keyspace("keyspace", settings()).unwrap();
        assert_eq!(db.get(&keyspace, b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }

    #[test]
    fn where_a_flush_finds_no_room_all_come_into_force() {
        let world = World::with_deferred();
        world.told.fill_up();
        let inner = world.db.inner();
        world.db.put(&world.keyspace, b"key", b"value").unwrap();
        assert!(!step_lane(inner, JobClass::Compaction));
        assert!(world.db.flush().unwrap_err().is_out_of_space());
        while step_lane(inner, JobClass::Compaction) {}
        assert_eq!((world.deferred(), world.claims()), (0, 0));
    }

    #[test]
    fn what_is_merged_already_is_no_debt_but_of_the_next_level() {
        let mut world = World::with_deferred();
        // So much that all levels are too large.
        for _ in 0..8_000 {
            let key = world.rng.below(10_000) as u32;
            world.db.put(&world.keyspace, key.to_be_bytes(), [1; 400]).unwrap();
            while step_lane(world.db.inner(), JobClass::Flush) {}
            while step_lane(world.db.inner(), JobClass::Prepare) {}
        }
        let inner = world.db.inner();
        let version = inner.tree.view.load().version.clone();
        let keyspace = &version.keyspaces[&world.keyspace.id()];
        let owed = |level: usize, bytes: u64| {
            let mut moved = [0; LEVELS];
            moved[level] = bytes;
            pick::debt(keyspace, inner.tree.sizes, &moved).bytes
        };
        assert!(owed(LEVELS - 2, 1 << 20) + (1 << 20) <= owed(LEVELS - 2, 0));
        assert!(owed(LEVELS - 3, 64 << 20) > owed(LEVELS - 3, 0) + (32 << 20));
        let moved = inner.schedule.jobs.lock().deferred.moved()[&keyspace.id];
        assert!(moved.iter().sum::<u64>() > 0);
    }
}
