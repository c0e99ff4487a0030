//! Deleted data gives its space back: in idle time, after a reopen, in every shape, and not while a
//! snapshot needs it.

use esker_api::Keyspaces;
use esker_base::Clock;
use esker_base::background::Stepped;
use esker_lsm::compaction::plan::CompactionReason;
use esker_lsm::version::TableMeta;
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

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

const SEGMENT_BYTES: usize = 64 << 10;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn settings(shape: Shape, dedup: Dedup) -> KeyspaceSettings {
    KeyspaceSettings::default().shape(shape).dedup(dedup).compression(Compression::None)
}

/// Every kind of keyspace.
fn kinds() -> [KeyspaceSettings; 4] {
    let tiered = Shape::Tiered { runs: 4 };
    let ratio = Ratio::of_hundredths;
    [
        settings(Shape::Leveled { ratio: 4 }, Dedup::None),
        settings(tiered, Dedup::None),
        settings(tiered, Dedup::PerLevel { threshold: ratio(160) }),
        settings(Shape::Tiered { runs: 8 }, Dedup::SpaceGoal { amp: ratio(150) }),
    ]
}

/// A database whose background work the test does.
struct World {
    storage: Arc<MemoryStorage>,
    clock: Arc<Hand>,
    settings: KeyspaceSettings,
    db: Db,
}

impl World {
    fn new(settings: KeyspaceSettings) -> World {
        let (storage, clock) = (Arc::new(MemoryStorage::new()), Arc::new(Hand::default()));
        let db = open(&storage, &clock);
        World { storage, clock, settings, db }
    }

    fn keyspace(&self) -> Keyspace {
        self.db.keyspace("k", self.settings).unwrap()
    }

    /// Does background work until there is none. A compaction that frees nothing could go on forever.
    fn work(&self) {
        const STEPS_MAX: usize = 1_000;
        let steps = (0..STEPS_MAX).take_while(|_| self.db.run_background_job()).count();
        assert!(steps < STEPS_MAX, "background work does not come to an end");
    }

    /// Puts keys in an order that is none, and works meanwhile.
    fn fill(&self, keys: u32) {
        let keyspace = self.keyspace();
        for n in 0..keys {
            let key = (n * 7919) % keys;
            self.db.put(&keyspace, key.to_be_bytes(), [7; 400]).unwrap();
            self.work();
        }
        self.db.flush().unwrap();
        self.work();
    }

    /// Lets time pass in which nothing is written.
    fn idle(&self) {
        self.clock.sleep(Duration::from_secs(2));
        self.work();
    }

    fn bytes(&self) -> u64 {
        self.sum(|table| table.bytes)
    }

    fn deletes(&self) -> u64 {
        self.sum(|table| table.deletes)
    }

    fn sum(&self, figure: impl Fn(&TableMeta) -> u64) -> u64 {
        let levels = self.db.levels();
        let of_k = levels.iter().filter(|tree| tree.name == "k").flat_map(|tree| &tree.levels);
        of_k.flat_map(|level| &level.runs).flat_map(|run| &run.tables).map(figure).sum()
    }

    fn wait(&self, days: f64) {
        self.clock.sleep(DAY.mul_f64(days));
        self.work();
    }

    fn count(&self) -> usize {
        self.db.range(&self.keyspace(), ..).map(Result::unwrap).count()
    }

    /// Puts keys and flushes them.
    fn put_and_flush(&self, keys: impl Iterator<Item = u32>) {
        let keyspace = self.keyspace();
        keys.for_each(|key| self.db.put(&keyspace, key.to_be_bytes(), [7; 400]).unwrap());
        self.db.flush().unwrap();
        self.work();
    }

    fn delete_all(&self, keys: u32) {
        self.db.delete_range(&self.keyspace(), [0; 4]..keys.to_be_bytes()).unwrap();
        self.db.flush().unwrap();
    }

    fn delete_each(&self, keys: impl Iterator<Item = u32>) {
        let keyspace = self.keyspace();
        for key in keys {
            self.db.delete(&keyspace, key.to_be_bytes()).unwrap();
            self.work();
        }
        self.db.flush().unwrap();
    }

    fn reopen(&mut self) {
        let closed = std::mem::replace(&mut self.db, open(&Arc::default(), &self.clock));
        closed.close().unwrap();
        self.db = open(&self.storage, &self.clock);
    }
}

fn open(storage: &Arc<MemoryStorage>, clock: &Arc<Hand>) -> Db {
    let env = Env::over(storage.clone()).background(Arc::new(Stepped)).clock(clock.clone());
    let settings =
        Settings::default().log(Log::None).segment_bytes(SEGMENT_BYTES).memory_bytes(8 << 20);
    Db::open_with(env, settings).unwrap()
}

#[test]
fn a_keyspace_that_one_range_delete_empties_ends_without_a_table_and_nothing_is_rewritten() {
    for kind in kinds() {
        let world = World::new(kind);
        world.fill(3_000);
        let (full, written) = (world.bytes(), world.db.stats().compaction_bytes);
        world.delete_all(3_000);
        world.work();
        world.idle();
        assert!(full > 1_000_000 && world.bytes() == 0, "{kind:?}: {} of {full}", world.bytes());
        assert_eq!(world.db.stats().compaction_bytes, written, "{kind:?}");
        assert_eq!(world.count(), 0);
    }
}

#[test]
fn so_does_one_that_was_closed_between() {
    for kind in kinds() {
        let mut world = World::new(kind);
        world.fill(3_000);
        world.delete_all(3_000);
        world.reopen();
        world.work();
        world.idle();
        assert_eq!((world.bytes(), world.count()), (0, 0), "{kind:?}");
    }
}

#[test]
fn a_part_that_a_range_delete_empties_goes_and_its_neighbours_stay() {
    for kind in kinds() {
        let world = World::new(kind);
        world.fill(3_000);
        let full = world.bytes();
        let (from, to) = (700u32.to_be_bytes(), 2_300u32.to_be_bytes());
        world.db.delete_range(&world.keyspace(), from..to).unwrap();
        world.db.flush().unwrap();
        world.work();
        world.idle();
        let share = world.bytes() as f64 / full as f64;
        assert!(share < 0.8, "{kind:?}: {share}");
        assert_eq!(world.count(), 1_400, "{kind:?}");
        let value = world.db.get(&world.keyspace(), 699u32.to_be_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&[7; 400][..]));
    }
}

#[test]
fn a_snapshot_keeps_what_it_sees_until_it_is_gone_and_nothing_is_rewritten_meanwhile() {
    for kind in kinds() {
        for by_range in [true, false] {
            let world = World::new(kind);
            world.fill(2_000);
            let snapshot = world.db.snapshot();
            match by_range {
                true => world.delete_all(2_000),
                false => world.delete_each(0..2_000),
            }
            world.work();
            world.idle();
            let (kept, written) = (world.bytes(), world.db.stats().compaction_bytes);
            let context = format!("{kind:?}, {by_range}");
            assert!(kept > 700_000, "{context}: {kept}");
            (0..5).for_each(|_| world.idle());
            assert_eq!(world.db.stats().compaction_bytes, written, "{context}: it is at rest");
            let key = 77u32.to_be_bytes();
            let then = snapshot.get(&world.keyspace(), key).unwrap();
            assert!(then.is_some() && world.db.get(&world.keyspace(), key).unwrap().is_none());
            drop(snapshot);
            world.idle();
            assert!(world.bytes() < 100_000, "{context}: {}", world.bytes());
            assert_eq!(world.count(), 0, "{context}");
        }
    }
}

#[test]
fn keys_deleted_one_by_one_give_their_space_back_in_idle_time_and_it_comes_to_rest() {
    for kind in kinds() {
        for reopens in [false, true] {
            let mut world = World::new(kind);
            world.fill(3_000);
            let full = world.bytes();
            world.delete_each(0..3_000);
            world.work();
            if reopens {
                world.reopen();
            }
            world.idle();
            let left = world.bytes();
            assert!(left < full / 20, "{kind:?}: {left} of {full}");
            assert_eq!(world.count(), 0);
            let written = world.db.stats().compaction_bytes;
            (0..5).for_each(|_| world.idle());
            assert_eq!(world.db.stats().compaction_bytes, written, "{kind:?}");
        }
    }
}

#[test]
fn few_deletes_among_many_keys_are_left_to_other_compactions() {
    for kind in kinds() {
        let world = World::new(kind);
        world.fill(3_000);
        world.idle();
        let written = world.db.stats().compaction_bytes;
        world.delete_each((0..3_000).step_by(50));
        world.idle();
        assert_eq!(world.db.stats().compaction_bytes, written, "{kind:?}");
    }
}

#[test]
fn nothing_is_rewritten_for_deletes_while_flushes_follow_each_other() {
    let world = World::new(kinds()[0]);
    world.fill(3_000);
    let for_deletes = || {
        let done = world.db.stats().compactions_done.of(CompactionReason::Deletes);
        done.down + done.in_place + done.moved
    };
    world.delete_each(0..3_000);
    world.clock.sleep(Duration::from_millis(900));
    world.work();
    assert_eq!(for_deletes(), 0);
    world.db.wait_for_compactions().unwrap();
    assert!(for_deletes() > 0 && world.bytes() < 100_000, "a caller waits for all");
}

#[test]
fn deletes_that_are_too_old_go_whatever_they_free_and_nothing_is_rewritten_after() {
    for kind in kinds() {
        for reopens in [false, true] {
            let context = format!("{kind:?}, {reopens}");
            let mut world = World::new(kind);
            world.fill(3_000);
            world.wait(100.0);
            let written = world.db.stats().compaction_bytes;
            world.delete_each((0..3_000).step_by(50));
            world.wait(26.0);
            assert_eq!(world.db.stats().compaction_bytes, written, "{context}: too young");
            if reopens {
                // Each open writes a fresh manifest. Only the next open reads what that one says.
                world.reopen();
                world.reopen();
            }
            assert_eq!(world.deletes(), 60, "{context}");
            world.wait(4.0);
            assert_eq!((world.deletes(), world.count()), (0, 2_940), "{context}");
            let written = world.db.stats().compaction_bytes;
            (0..5).for_each(|_| world.wait(40.0));
            assert_eq!(world.db.stats().compaction_bytes, written, "{context}: it is at rest");
        }
    }
}

#[test]
fn deletes_that_a_snapshot_does_not_see_stay_until_it_is_gone_however_old_they_are() {
    for kind in kinds() {
        let world = World::new(kind);
        world.fill(2_000);
        let snapshot = world.db.snapshot();
        world.delete_each((0..2_000).step_by(50));
        let written = world.db.stats().compaction_bytes;
        (0..3).for_each(|_| world.wait(40.0));
        assert_eq!((world.db.stats().compaction_bytes, world.deletes()), (written, 40), "{kind:?}");
        let then = snapshot.get(&world.keyspace(), 50u32.to_be_bytes()).unwrap();
        assert!(then.is_some());
        drop(snapshot);
        world.wait(0.0);
        assert_eq!((world.deletes(), world.count()), (0, 1_960), "{kind:?}");
    }
}

/// Transactions ask for changes since their snapshot. A range delete is one, whatever it deletes.
#[test]
fn a_range_delete_of_nothing_stays_while_a_snapshot_does_not_see_it() {
    for kind in kinds() {
        let world = World::new(kind);
        let (keyspace, snapshot) = (world.keyspace(), world.db.snapshot());
        world.delete_all(100);
        world.work();
        world.idle();
        let has_changed = world.db.changed_since(keyspace.id(), &[0; 4], &snapshot).unwrap();
        assert!(has_changed && world.bytes() > 0, "{kind:?}");
        drop(snapshot);
        world.idle();
        assert_eq!(world.bytes(), 0, "{kind:?}");
    }
}

#[test]
fn older_versions_that_a_snapshot_sees_are_not_rewritten_until_it_is_gone() {
    // The last kind has a goal for space: what is within the goal may stay.
    for &kind in &kinds()[..3] {
        let world = World::new(kind);
        let keyspace = world.keyspace();
        let put_all = || {
            (0..60u32).for_each(|n| world.db.put(&keyspace, n.to_be_bytes(), [7; 400]).unwrap());
        };
        put_all();
        let snapshot = world.db.snapshot();
        put_all();
        world.db.flush().unwrap();
        world.work();
        let (both, written) = (world.bytes(), world.db.stats().compaction_bytes);
        (0..5).for_each(|_| world.idle());
        assert_eq!(world.db.stats().compaction_bytes, written, "{kind:?}");
        drop(snapshot);
        world.idle();
        assert!(both > 45_000 && world.bytes() < both / 3 * 2, "{kind:?}: {both}");
    }
}

#[test]
fn what_was_written_after_a_range_delete_is_not_taken_for_deleted() {
    let world = World::new(kinds()[0]);
    world.fill(3_000);
    world.idle();
    world.db.delete_range(&world.keyspace(), [0; 4]..30u32.to_be_bytes()).unwrap();
    let keyspace = world.keyspace();
    for n in 0..100u32 {
        // Between the keys 7 and 8, so within the range.
        let key = [&7u32.to_be_bytes()[..], &n.to_be_bytes()].concat();
        world.db.put(&keyspace, &key, [7; 400]).unwrap();
    }
    world.db.flush().unwrap();
    let written = world.db.stats().compaction_bytes;
    world.idle();
    assert_eq!(world.db.stats().compaction_bytes, written);
}

/// Merged with old keys, a delete is as old as it was.
#[test]
fn young_deletes_in_a_table_of_old_keys_are_left_alone() {
    let world = World::new(kinds()[1]);
    world.put_and_flush(0..100);
    world.db.compact().unwrap();
    (1..4).for_each(|n| world.put_and_flush(n * 100..n * 100 + 20));
    world.wait(100.0);
    let compactions = world.db.stats().compactions;
    world.delete_each(0..3);
    world.work();
    assert_eq!(world.db.stats().compactions, compactions + 1, "the fourth run of level 0 came");
    let written = world.db.stats().compaction_bytes;
    world.wait(20.0);
    assert_eq!((world.db.stats().compaction_bytes, world.deletes()), (written, 3));
    world.wait(10.0);
    assert_eq!((world.deletes(), world.count()), (0, 157));
}

#[test]
fn deletes_that_were_never_flushed_by_hand_go_when_they_are_too_old() {
    for settings in kinds() {
        let world = World::new(settings);
        world.fill(2000);
        (0..10).for_each(|n: u32| world.db.delete(&world.keyspace(), n.to_be_bytes()).unwrap());
        (0..12).for_each(|_| world.wait(4.0));
        let entries = world.sum(|table| table.entries);
        assert_eq!((world.deletes(), entries, world.count()), (0, 1_990, 1_990), "{settings:?}");
    }
}

#[test]
fn old_deletes_go_although_a_snapshot_stands_between_them_and_newer_writes() {
    for settings in kinds().into_iter().take(3) {
        let world = World::new(settings);
        world.fill(2000);
        let keyspace = world.keyspace();
        (0..10u32).for_each(|n| world.db.delete(&keyspace, n.to_be_bytes()).unwrap());
        let _sees_deletes = world.db.snapshot();
        world.db.put(&keyspace, 5_000u32.to_be_bytes(), b"newer").unwrap();
        world.db.flush().unwrap();
        world.wait(40.0);
        assert_eq!((world.deletes(), world.count()), (0, 1991), "{settings:?}");
    }
}
