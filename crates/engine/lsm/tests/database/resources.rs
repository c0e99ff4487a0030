//! Databases that share memory and threads.

use esker_api::{CompactionFilter, Cursor, FilterDecision, FilterError};
use esker_base::background::{Body, Running};
use esker_base::{Background, Priority, Result, Threads, WriteHint};
use esker_lsm::{Db, Env, KeyspaceSettings, Resources, Settings};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Threads that are counted while they run.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn running(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Background for Counted {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        let running = self.0.clone();
        running.fetch_add(1, Ordering::SeqCst);
        let counted = move || {
            body();
            running.fetch_sub(1, Ordering::SeqCst);
        };
        Threads.spawn(name, priority, Box::new(counted))
    }
}

fn open(background: &Counted, storage: &MemoryStorage, resources: &Resources) -> Db {
    open_over(background, Arc::new(storage.clone()), resources)
}

fn open_over(background: &Counted, storage: Arc<dyn Storage>, resources: &Resources) -> Db {
    let env = Env::over(storage).background(Arc::new(background.clone()));
    let settings = Settings::default().segment_bytes(1 << 20).resources(resources.clone());
    Db::open_with(env, settings).unwrap()
}

fn fill(db: &Db, keys: std::ops::Range<u32>) {
    let keyspace = db.default_keyspace();
    keys.for_each(|key| db.put(&keyspace, key.to_be_bytes(), [7; 100]).unwrap());
}

fn has(db: &Db, mut keys: std::ops::Range<u32>) -> bool {
    let keyspace = db.default_keyspace();
    keys.all(|key| db.get(&keyspace, key.to_be_bytes()).unwrap().is_some())
}

#[test]
fn databases_that_share_have_the_threads_of_one_until_the_last_closes() {
    let (background, resources) = (Counted::default(), Resources::new(64 << 20, 2).unwrap());
    let open = || open(&background, &MemoryStorage::new(), &resources);
    let first = open();
    let threads = background.running();
    assert_eq!(threads, 5, "one to prepare, to flush and to sync each, two to compact");
    let others: Vec<Db> = (0..10).map(|_| open()).collect();
    assert_eq!(background.running(), threads);
    assert_eq!(resources.databases(), 11);
    others.iter().chain([&first]).for_each(|db| fill(db, 0..100));
    first.close().unwrap();
    assert_eq!((background.running(), resources.databases()), (threads, 10));
    for db in &others {
        // The shared threads still work for the databases that are left. A flush is counted when its job ends.
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
        assert!(has(db, 0..100));
        assert_eq!(db.stats().flushes, 1);
    }
    drop(others);
    assert_eq!((background.running(), resources.databases()), (0, 0));
    let again = open();
    assert_eq!(background.running(), threads);
    fill(&again, 0..100);
    again.flush().unwrap();
}

#[test]
fn every_database_is_charged_for_what_it_holds_and_gives_it_back() {
    let (background, resources) = (Counted::default(), Resources::new(256 << 20, 2).unwrap());
    let open = || open(&background, &MemoryStorage::new(), &resources);
    let (small, large) = (open(), open());
    fill(&small, 0..10);
    fill(&large, 0..20_000);
    large.flush().unwrap();
    fill(&large, 0..5_000);
    assert!(has(&large, 0..20_000));
    let (of_small, of_large) = (small.stats(), large.stats());
    assert_eq!((of_small.databases, of_small.memory_budget_bytes), (2, 256 << 20));
    assert_eq!(
        of_small.memory_own_bytes + of_large.memory_own_bytes,
        resources.charged_bytes() as u64
    );
    assert!(of_large.memory_own_bytes > of_small.memory_own_bytes);
    assert!(of_large.cache_own_bytes > 0 && of_small.cache_own_bytes == 0);
    assert_eq!(of_small.cache_bytes, of_large.cache_bytes, "they have one cache");
    let all = of_large.cache_capacity_bytes + of_large.memory_charged_bytes;
    assert!(all.abs_diff(256 << 20) < 64 << 10, "{all} bytes: shards of the cache are rounded");

    large.close().unwrap();
    let rest = small.stats();
    assert_eq!((rest.databases, rest.cache_bytes), (1, 0));
    assert_eq!(rest.memory_charged_bytes, rest.memory_own_bytes);
    let all = rest.cache_capacity_bytes + rest.memory_charged_bytes;
    assert!(all.abs_diff(256 << 20) < 64 << 10, "{all} bytes: the cache has what was given back");
    assert!(has(&small, 0..10));
}

#[test]
fn the_blocks_that_open_cursors_hold_are_charged() {
    let (background, resources) = (Counted::default(), Resources::new(64 << 20, 1).unwrap());
    let db = open(&background, &MemoryStorage::new(), &resources);
    fill(&db, 0..5_000);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    let keyspace = db.default_keyspace();
    let cursor = || db.cursor(&keyspace, ..).unwrap();
    drop(cursor());
    let before = db.stats();
    let cursors: Vec<_> = (0..1_000).map(|_| cursor()).collect();
    let beside = db.stats();
    let charged = beside.memory_charged_bytes - before.memory_charged_bytes;
    assert!((3 << 20..5 << 20).contains(&charged), "{charged} bytes: a block of 4.5 KiB each");
    assert_eq!(beside.memory_use.transient, 1_000 * 4_608);
    let taken = before.cache_capacity_bytes - beside.cache_capacity_bytes;
    assert!(taken.abs_diff(charged) < 64 << 10, "{taken} bytes of the cache");
    drop(cursors);
    assert_eq!(db.stats().memory_charged_bytes, before.memory_charged_bytes);
}

#[test]
fn cursors_that_go_on_in_a_newer_view_are_charged_again() {
    let (background, resources) = (Counted::default(), Resources::new(64 << 20, 1).unwrap());
    let db = open(&background, &MemoryStorage::new(), &resources);
    fill(&db, 0..5_000);
    db.flush().unwrap();
    let keyspace = db.default_keyspace();
    let mut cursors: Vec<_> = (0..1_000).map(|_| db.cursor(&keyspace, ..).unwrap()).collect();
    fill(&db, 5_000..5_100);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    cursors.iter_mut().for_each(|cursor| cursor.seek_first().unwrap());
    let held = db.stats().memory_use.transient;
    assert!(held >= 1_000 * 4_608, "{held} bytes");
    drop(cursors);
    assert_eq!(db.stats().memory_use.transient, 0);
}

#[test]
fn the_memory_in_use_is_told_by_its_holders() {
    let (background, resources) = (Counted::default(), Resources::new(64 << 20, 1).unwrap());
    let db = open(&background, &MemoryStorage::new(), &resources);
    fill(&db, 0..5_000);
    db.flush().unwrap();
    assert!(has(&db, 0..5_000));
    let stats = db.stats();
    let told = stats.memory_use;
    assert_eq!((told.tables, told.cache), (stats.table_memory_bytes, stats.cache_own_bytes));
    assert!(told.tables > 0 && told.cache > 0 && told.memtables >= stats.memtable_bytes);
    assert_eq!(told.dram_table, stats.dram_table.bytes);
    let parts = told.memtables + told.tables + told.cache + told.dram_table;
    assert_eq!(told.sum(), parts + told.read_buffers + told.transient);
}

/// Notes the most that was charged while a compaction asked it.
struct Observer(Resources, Arc<AtomicUsize>);

impl CompactionFilter for Observer {
    fn name(&self) -> &str {
        "observer"
    }

    fn filter(&self, _: &[u8], _: &[u8]) -> std::result::Result<FilterDecision, FilterError> {
        self.1.fetch_max(self.0.charged_bytes(), Ordering::SeqCst);
        Ok(FilterDecision::Keep)
    }
}

#[test]
fn what_a_compaction_holds_is_charged_until_it_ends() {
    let (resources, most) = (Resources::new(64 << 20, 1).unwrap(), Arc::default());
    let settings = Settings::default().segment_bytes(4 << 20).resources(resources.clone());
    let filter = Observer(resources.clone(), Arc::clone(&most));
    let env = Env::over(Arc::new(MemoryStorage::new()));
    let db = Db::open_with(env, settings.compaction_filter(filter)).unwrap();
    let filtered = KeyspaceSettings::default().compaction_filter("observer");
    let keyspace = db.keyspace("filtered", filtered).unwrap();
    for _ in 0..2 {
        (0..20_000_u32).for_each(|key| db.put(&keyspace, key.to_be_bytes(), [7; 100]).unwrap());
        db.flush().unwrap();
    }
    db.wait_for_compactions().unwrap();
    let before = resources.charged_bytes();
    db.compact().unwrap();
    let held = most.load(Ordering::SeqCst) - before;
    // Two pieces of 256 KiB for each of two inputs, and 32 B for each of 40,000 entries.
    assert!((1 << 20..4 << 20).contains(&held), "{held} bytes");
    assert_eq!(db.stats().memory_use.transient, 0);
    assert!(resources.charged_bytes() <= before, "given back");
}

#[test]
fn blocks_of_tables_that_compaction_removes_leave_the_cache() {
    let (background, resources) = (Counted::default(), Resources::new(64 << 20, 1).unwrap());
    let open = || open(&background, &MemoryStorage::new(), &resources);
    let (db, other) = (open(), open());
    for db in [&db, &other] {
        fill(db, 0..5_000);
        db.flush().unwrap();
        assert!(has(db, 0..5_000));
    }
    let cached = |db: &Db| db.stats().cache_own_bytes;
    assert!(cached(&db) > 500_000);
    let of_other = cached(&other);
    fill(&db, 0..5_000);
    db.compact().unwrap();
    assert_eq!((cached(&db), cached(&other)), (0, of_other));
    assert_eq!(db.range(&db.default_keyspace(), ..).count(), 5_000);
    assert!(cached(&db) > 500_000);
}

#[test]
fn the_same_keys_and_file_ids_of_two_databases_are_not_mixed_up_in_the_cache() {
    let (background, resources) = (Counted::default(), Resources::new(64 << 20, 1).unwrap());
    let open = || open(&background, &MemoryStorage::new(), &resources);
    let databases = [open(), open()];
    for (db, value) in databases.iter().zip([b"one", b"two"]) {
        db.put(&db.default_keyspace(), b"key", value).unwrap();
        db.flush().unwrap();
    }
    for _ in 0..2 {
        for (db, value) in databases.iter().zip([b"one", b"two"]) {
            let found = db.range(&db.default_keyspace(), ..).next().unwrap().unwrap().1;
            assert_eq!(found, value);
        }
    }
}

#[test]
fn memtables_of_all_databases_together_stay_within_their_part_of_the_budget() {
    const BUDGET: usize = 16 << 20;
    let (background, resources) = (Counted::default(), Resources::new(BUDGET, 2).unwrap());
    let databases: Vec<Db> =
        (0..24).map(|_| open(&background, &MemoryStorage::new(), &resources)).collect();
    let mut held_most = 0;
    for db in &databases {
        for keys in (0..10_000).step_by(500) {
            fill(db, keys..keys + 500);
            let held = databases.iter().map(|db| db.stats().memtable_bytes).sum::<u64>();
            held_most = held_most.max(held);
        }
    }
    for db in &databases {
        assert!(has(db, 0..10_000));
    }
    // Above three quarters nothing grows; a step that was begun before ends, and so does a flush.
    assert!(held_most <= BUDGET as u64 / 8 * 7, "{held_most} bytes of MemTables");
    assert!(databases.iter().map(|db| db.stats().flushes).sum::<u64>() > 10);
}

#[test]
fn the_largest_memtable_of_all_is_flushed_for_a_database_that_finds_no_memory() {
    let (background, resources) = (Counted::default(), Resources::new(24 << 20, 2).unwrap());
    let open = || {
        let env =
            Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(background.clone()));
        let (segment_bytes, resources) = (8 << 20, Some(resources.clone()));
        Db::open_with(env, Settings::default().segment_bytes(segment_bytes).resources(resources))
            .unwrap()
    };
    let (idle, busy) = (open(), open());
    fill(&idle, 0..40_000);
    assert_eq!(idle.stats().flushes, 0);
    let puts = (0..400_000).take_while(|key| {
        fill(&busy, *key..key + 1);
        idle.stats().flushes == 0
    });
    assert!(puts.count() < 400_000, "nobody asked the idle database for its memory");
    assert!(has(&idle, 0..40_000));
}

#[test]
fn a_budget_that_holds_no_two_segments_is_refused() {
    let resources = Resources::new(4 << 20, 2).unwrap();
    let settings = Settings::default().resources(resources);
    let error = settings.validate().unwrap_err().to_string();
    assert!(error.contains("memory_bytes"), "{error}");
    assert!(Resources::new(0, 2).is_err() && Resources::new(64 << 20, 0).is_err());
}

#[test]
fn idle_databases_make_room_for_the_one_that_is_written() {
    const BUDGET: usize = 16 << 20;
    let (background, resources) = (Counted::default(), Resources::new(BUDGET, 2).unwrap());
    let open = || open(&background, &MemoryStorage::new(), &resources);
    let idle: Vec<Db> = (0..40).map(|_| open()).collect();
    let busy = open();
    // Each has less than a mebibyte, and all together more than half of the budget.
    idle.iter().for_each(|db| fill(db, 0..1_500));
    let (keys, bytes) = (0..100_000, 100_000 * 104);
    fill(&busy, keys.clone());
    assert!(has(&busy, keys) && idle.iter().all(|db| has(db, 0..1_500)));
    let mean = bytes / busy.stats().flushes.max(1);
    assert!(mean > 100 << 10, "{mean} bytes a flush");
    let held: u64 = idle.iter().map(|db| db.stats().memtable_bytes).sum();
    assert!(held < BUDGET as u64 / 2, "idle databases hold {held} bytes");
}

/// A storage whose tables cannot be created while it is held.
#[derive(Clone, Default)]
struct Held {
    storage: MemoryStorage,
    state: Arc<(Mutex<[bool; 2]>, Condvar)>,
}

impl Held {
    /// Holds the storage, or lets it go.
    fn hold(&self, holds: bool) {
        self.state.0.lock()[0] = holds;
        self.state.1.notify_all();
    }

    /// Returns once a thread waits for it.
    fn await_waiter(&self) {
        let mut state = self.state.0.lock();
        while !state[1] {
            self.state.1.wait(&mut state);
        }
    }
}

impl FileSystemWrapper for Held {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let mut state = self.state.0.lock();
        while name.ends_with(".tables") && state[0] {
            state[1] = true;
            self.state.1.notify_all();
            self.state.1.wait(&mut state);
        }
        drop(state);
        self.storage.create(name, hint)
    }
}

#[test]
fn a_close_that_waits_for_a_slow_device_keeps_no_other_database_waiting() {
    /// A test that would hang fails.
    const PATIENCE: Duration = Duration::from_secs(60);
    let (background, resources) = (Counted::default(), Resources::new(64 << 20, 2).unwrap());
    let (slow, state) = (Held::default(), Arc::new((Mutex::new(false), Condvar::new())));
    let db = open_over(&background, Arc::new(slow.clone()), &resources);
    fill(&db, 0..100);
    slow.hold(true);
    std::thread::scope(|scope| {
        let flushes = db.clone();
        scope.spawn(move || _ = flushes.flush());
        slow.await_waiter();
        scope.spawn(move || db.close().unwrap());
        let (background, resources, other) = (&background, &resources, state.clone());
        scope.spawn(move || {
            // Until the first is being closed, its threads are there as well.
            for _ in 0..100 {
                let db = open(background, &MemoryStorage::new(), resources);
                fill(&db, 0..10);
                db.close().unwrap();
            }
            *other.0.lock() = true;
            other.1.notify_all();
        });
        let mut done = state.0.lock();
        while !*done && !state.1.wait_for(&mut done, PATIENCE).timed_out() {}
        let is_done = *done;
        drop(done);
        slow.hold(false);
        assert!(is_done, "others wait for the slow one");
    });
    assert_eq!((background.running(), resources.databases()), (0, 0));
}

#[test]
fn dram_tables_of_all_databases_together_leave_half_of_the_budget() {
    const BUDGET: usize = 64 << 20;
    let resources = Resources::new(BUDGET, 1).unwrap();
    let open = || {
        let settings = Settings::default()
            .segment_bytes(1 << 20)
            .dram_table_bytes(BUDGET / 2)
            .resources(resources.clone());
        Db::open_with(Env::over(Arc::new(MemoryStorage::new())), settings).unwrap()
    };
    let first = open();
    let alone = resources.charged_bytes();
    assert!(alone >= BUDGET / 2, "{alone}");
    let _others = [open(), open()];
    let charged = resources.charged_bytes();
    assert!(charged < BUDGET / 2 + (8 << 20), "{charged} bytes of {BUDGET}");
    drop(first);
}
