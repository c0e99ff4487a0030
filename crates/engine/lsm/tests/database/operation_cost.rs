//! What one call costs, compared with what its tables and blocks are known to be.

use crate::support::{key, small};
use esker_base::background::Stepped;
use esker_base::{Clock, OperationCost};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Settings, Stats};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KEYS: u64 = 400;

fn settings() -> Settings {
    let stored = KeyspaceSettings::default().compression(Compression::None);
    small().dram_table_bytes(0).default_keyspace(stored)
}

fn open(storage: &MemoryStorage, settings: Settings) -> (Db, Keyspace) {
    let env = Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped));
    let db = Db::open_with(env, settings).unwrap();
    let keyspace = db.default_keyspace();
    (db, keyspace)
}

/// A database of one table with the even ones of twice as many keys, of which no block is cached.
fn cold(settings: Settings) -> (Db, Keyspace) {
    cold_of(settings, 500)
}

fn cold_of(settings: Settings, value_bytes: usize) -> (Db, Keyspace) {
    let storage = MemoryStorage::new();
    let (db, keyspace) = open(&storage, settings.clone());
    (0..KEYS).for_each(|n| keyspace.put(key(2 * n), vec![7; value_bytes]).unwrap());
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let (db, keyspace) = open(&storage, settings);
    // This opens the table.
    let levels = db.levels();
    let tables = levels.iter().flat_map(|it| &it.levels).flat_map(|level| &level.runs);
    assert_eq!(tables.map(|run| run.tables.len()).sum::<usize>(), 1);
    (db, keyspace)
}

/// What `call` costs, and by how much it changed the statistics: gets, blocks, their bytes.
fn measured<T>(db: &Db, call: impl FnOnce() -> T) -> (OperationCost, [u64; 3]) {
    let figures = |stats: Stats| {
        [stats.table_gets.gets(), stats.table_gets.blocks, stats.table_gets.block_bytes]
    };
    let before = figures(db.stats());
    let (_value, cost) = OperationCost::measure(call);
    let after = figures(db.stats());
    (cost, [0, 1, 2].map(|at| after[at] - before[at]))
}

#[test]
fn a_cold_get_reads_one_block_and_a_warm_one_none() {
    let (db, keyspace) = cold(settings());
    let get = || assert!(keyspace.get(key(200)).unwrap().is_some());
    let (cost, counted) = measured(&db, get);
    assert_eq!((cost.runs, cost.filters, cost.filters_excluded), (1, 1, 0));
    assert_eq!((cost.cache_hits, cost.cache_misses, cost.blocks_read), (0, 1, 1));
    assert_eq!((1, cost.blocks_read, cost.bytes_read), (counted[0], counted[1], counted[2]));
    assert!(cost.bytes_read > 500, "{cost:?}");
    assert_eq!((cost.memtables, cost.bytes_written, cost.stalled), (0, 0, Duration::ZERO));
    let (cost, _) = measured(&db, get);
    assert_eq!((cost.cache_hits, cost.cache_misses), (1, 0));
    assert_eq!((cost.blocks_read, cost.bytes_read), (0, 0));
    let (cost, _) = measured(&db, || db.try_get(&keyspace, key(200)).unwrap());
    assert_eq!((cost.cache_hits, cost.cache_misses, cost.runs), (1, 0, 1));
}

#[test]
fn a_get_of_an_absent_key_asks_the_filter() {
    let (db, keyspace) = cold(settings());
    let get_absent =
        || (0..100).for_each(|n| assert!(keyspace.get(key(2 * n + 1)).unwrap().is_none()));
    let (cost, counted) = measured(&db, get_absent);
    assert_eq!((cost.runs, cost.filters), (100, 100));
    assert!(cost.filters_excluded > 90, "{cost:?}");
    // Only where the filter erred a block is read.
    let erred = 100 - cost.filters_excluded;
    assert_eq!(cost.cache_hits + cost.cache_misses, erred);
    assert_eq!((cost.blocks_read, cost.bytes_read), (counted[1], counted[2]));

    let none = KeyspaceSettings::default().compression(Compression::None).filter_bits(0);
    let (db, keyspace) = cold(settings().default_keyspace(none));
    let (cost, _) = measured(&db, || keyspace.get(key(1)).unwrap());
    assert_eq!((cost.runs, cost.filters, cost.filters_excluded), (1, 0, 0));
    assert_eq!((cost.cache_misses, cost.blocks_read), (1, 1));
    // No table has it within its bounds.
    let (cost, _) = measured(&db, || keyspace.get("zzz").unwrap());
    assert_eq!(cost, OperationCost::default());
}

#[test]
fn each_memtable_that_is_searched_counts() {
    let (db, keyspace) = cold(settings());
    keyspace.put(key(3), "new").unwrap();
    let (cost, _) = measured(&db, || keyspace.get(key(3)).unwrap());
    let mut expected = OperationCost::default();
    expected.memtables = 1;
    assert_eq!(cost, expected);
    let (cost, _) = measured(&db, || keyspace.get(key(4)).unwrap());
    assert_eq!((cost.memtables, cost.runs, cost.blocks_read), (1, 1, 1));
}

#[test]
fn the_dram_table_answers_without_a_run() {
    // It takes no values that are a good part of their block.
    let (db, keyspace) = cold_of(small().default_keyspace(settings().default_keyspace), 20);
    let costs: Vec<_> = (0..4).map(|_| measured(&db, || keyspace.get(key(4)).unwrap()).0).collect();
    let mut expected = OperationCost::default();
    expected.dram_table_hits = 1;
    assert_eq!(costs[3], expected, "{costs:?}");
    assert_eq!((costs[0].blocks_read, costs[0].dram_table_hits), (1, 0));
}

#[test]
fn a_scan_counts_each_block_once_whether_it_was_read_ahead_or_not() {
    let (db, keyspace) = cold(settings());
    let scan = || assert_eq!(keyspace.iter().count() as u64, KEYS);
    let (cold, _) = measured(&db, scan);
    assert!(cold.cache_misses > 10, "{cold:?}");
    assert_eq!((cold.cache_hits, cold.blocks_read), (0, cold.cache_misses));
    assert!(cold.bytes_read > KEYS * 500, "{cold:?}");
    let (warm, _) = measured(&db, scan);
    assert_eq!((warm.cache_hits, warm.cache_misses), (cold.cache_misses, 0));
    assert_eq!((warm.blocks_read, warm.bytes_read), (0, 0));
}

#[test]
fn many_gets_at_once_read_each_block_once() {
    let (db, keyspace) = cold(settings());
    let keys: Vec<_> = (0..KEYS).map(|n| key(2 * n)).collect();
    let get = || assert!(keyspace.multi_get(&keys).unwrap().iter().all(Option::is_some));
    let (cost, counted) = measured(&db, get);
    assert_eq!((cost.runs, cost.filters, cost.cache_hits), (KEYS, KEYS, 0));
    assert_eq!((cost.blocks_read, cost.bytes_read), (counted[1], counted[2]));
    assert!(cost.blocks_read > 10, "{cost:?}");
    assert_eq!(cost.cache_misses, cost.blocks_read);
    let (cost, _) = measured(&db, get);
    assert_eq!((cost.cache_hits, cost.cache_misses, cost.blocks_read), (KEYS, 0, 0));
}

#[test]
fn the_index_and_filter_of_a_table_count_if_a_read_opens_it() {
    let storage = MemoryStorage::new();
    let (db, keyspace) = open(&storage, settings());
    (0..KEYS).for_each(|n| keyspace.put(key(2 * n), [7; 500]).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let (db, keyspace) = open(&storage, settings().answers_requests(false));
    let (first, counted) = measured(&db, || keyspace.get(key(200)).unwrap());
    assert_eq!((first.blocks_read, counted[1]), (1, 1));
    assert!(first.bytes_read >= counted[2], "{first:?}");
}

/// Each reading is a millisecond after the last.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, Ordering::Relaxed);
    }
}

#[test]
fn a_write_counts_its_bytes_and_its_stalls() {
    let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
    let db = Db::open_with(env.clock(Arc::new(Ticking(AtomicU64::new(0)))), settings()).unwrap();
    let keyspace = db.default_keyspace();
    let mut batch = db.batch();
    batch.put(&keyspace, "a", [1; 100]);
    batch.delete(&keyspace, "b");
    let (cost, _) = measured(&db, || db.write(&batch).unwrap());
    let mut expected = OperationCost::default();
    expected.bytes_written = batch.encoded().len() as u64;
    expected.stalled = cost.stalled;
    assert_eq!(cost, expected);
    // More segments than there may be without a flush, which the writer waits for.
    let before = db.stats().stalled;
    let (cost, _) = measured(&db, || {
        (0..4_000).for_each(|n| keyspace.put(key(n), [7; 500]).unwrap());
    });
    assert!(cost.stalled > Duration::ZERO);
    assert_eq!(cost.stalled, db.stats().stalled - before);
}

#[test]
fn a_check_for_conflicts_searches_like_a_get() {
    let (db, keyspace) = cold(settings());
    let mut tx = db.transaction().unwrap();
    let (cost, _) = measured(&db, || tx.get_for_update(&keyspace, key(4)).unwrap());
    assert!(cost.runs >= 1 && cost.blocks_read == 1, "{cost:?}");
}
