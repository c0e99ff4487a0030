//! What gets cost where many runs are over each other: how often a filter sends them to a table for
//! nothing, counted, and how many bits of filter that takes.

use esker_base::background::Stepped;
use esker_base::{Clock, Rng};
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::MemoryStorage;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 100_000;

/// So large a segment that it holds all that a test writes between flushes.
const FLUSHED_BY_HAND: usize = 16 << 20;

/// Filters of some thousand keys take so much more for each than those of many.
const SMALL_FILTERS: f64 = 1.2;

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

#[derive(Debug)]
#[allow(dead_code, reason = "shown when a test fails")]
struct Cost {
    runs: usize,
    hit: f64,
    miss: f64,
    /// Of filter, for each version in a table.
    bits: f64,
}

struct Overwritten {
    db: Db,
    keyspace: Keyspace,
    rng: Rng,
}

/// Even numbers are written, odd ones never.
fn key(n: u64) -> Vec<u8> {
    format!("key/{n:012}").into_bytes()
}

impl Overwritten {
    fn new(shape: Shape, dedup: Dedup, segment_bytes: usize) -> Self {
        let env = Env::over(Arc::new(MemoryStorage::new()))
            .clock(Arc::new(Standing))
            .background(Arc::new(Stepped));
        let settings =
            Settings::default().log(Log::None).segment_bytes(segment_bytes).dram_table_bytes(0);
        let db = Db::open_with(env, settings).unwrap();
        let settings = KeyspaceSettings::default().shape(shape).dedup(dedup);
        let keyspace = db.keyspace("load", settings).unwrap();
        Overwritten { db, keyspace, rng: Rng::new(7) }
    }

    fn put(&self, n: u64) {
        self.db.put(&self.keyspace, key(2 * n), [b'v'; 50]).unwrap();
        if n.is_multiple_of(64) {
            while self.db.run_background_job() {}
        }
    }

    fn put_all(&self) {
        (0..KEYS).for_each(|n| self.put(n));
    }

    fn overwrite_at_random(&mut self, writes: u64) {
        for _ in 0..writes {
            let n = self.rng.below(KEYS);
            self.put(n);
        }
    }

    fn runs(&self) -> usize {
        let levels = self.db.levels();
        let tree = levels.iter().find(|tree| tree.name == "load").unwrap();
        tree.levels.iter().map(|level| level.runs.len()).sum()
    }

    /// Tables read by a get that finds its key, and by one that does not.
    fn table_reads(&self) -> (f64, f64) {
        for n in 0..KEYS {
            assert!(self.db.get(&self.keyspace, key(2 * n)).unwrap().is_some());
            assert!(self.db.get(&self.keyspace, key(2 * n + 1)).unwrap().is_none());
        }
        let gets = self.db.stats().table_gets;
        assert_eq!((gets.hits, gets.misses), (KEYS, KEYS));
        (gets.reads_per_hit(), gets.reads_per_miss())
    }

    /// Bits of filter for each version in a table.
    fn filter_bits(&self) -> f64 {
        let levels = self.db.levels();
        let runs = levels.iter().flat_map(|tree| &tree.levels).flat_map(|level| &level.runs);
        let versions: u64 = runs.flat_map(|run| &run.tables).map(|table| table.entries).sum();
        self.db.stats().filter_bytes as f64 * 8.0 / versions as f64
    }

    /// Checks what gets cost over at least `runs` runs.
    fn check(&self, runs: usize) -> Cost {
        self.db.flush().unwrap();
        let (hit, miss) = self.table_reads();
        let cost = Cost { runs: self.runs(), hit, miss, bits: self.filter_bits() };
        println!("{cost:?}");
        assert!(cost.runs >= runs && hit <= 1.05 && miss <= 0.1, "{cost:?}");
        let budget = f64::from(KeyspaceSettings::default().filter_bits);
        assert!(cost.bits <= SMALL_FILTERS * budget, "{cost:?}");
        cost
    }
}

#[test]
fn runs_alike() {
    let load = Overwritten::new(Shape::Tiered { runs: 32 }, Dedup::None, FLUSHED_BY_HAND);
    for n in 0..KEYS {
        load.put(n * 7919 % KEYS);
        if (n + 1) % (KEYS / 16) == 0 {
            load.db.flush().unwrap();
        }
    }
    load.check(16);
}

#[test]
fn a_large_run_below_small_ones() {
    let mut load = Overwritten::new(Shape::Tiered { runs: 32 }, Dedup::None, FLUSHED_BY_HAND);
    load.put_all();
    for _ in 0..15 {
        load.db.flush().unwrap();
        load.overwrite_at_random(KEYS / 40);
    }
    load.check(16);
}

#[test]
fn runs_each_half_as_large_as_the_one_below() {
    let mut load = Overwritten::new(Shape::Tiered { runs: 32 }, Dedup::None, FLUSHED_BY_HAND);
    load.put_all();
    for halvings in 1..16 {
        load.db.flush().unwrap();
        load.overwrite_at_random((KEYS >> halvings).max(1));
    }
    load.check(16);
}

#[test]
fn a_get_tells_the_runs_that_it_visited_and_the_blocks_that_it_read() {
    let load = Overwritten::new(Shape::Tiered { runs: 32 }, Dedup::None, FLUSHED_BY_HAND);
    for _ in 0..3 {
        (0..2).for_each(|n| load.put(n));
        load.db.flush().unwrap();
    }
    let after = |n| {
        let _ = load.db.get(&load.keyspace, key(n)).unwrap();
        load.db.stats().table_gets
    };
    let first = after(0);
    assert_eq!((first.runs, first.blocks), (1, 1), "the newest run has it");
    assert!(first.block_bytes > 0);
    let again = after(0);
    assert_eq!((again.runs, again.blocks), (2, 1), "its block is cached");
    assert_eq!(again.block_bytes, first.block_bytes);
    let missed = after(1);
    assert_eq!((missed.runs, missed.gets()), (5, 3), "it may be in any of three");
    assert_eq!(missed.runs_per_get(), 5.0 / 3.0);
}

#[test]
fn a_tree_under_a_space_goal() {
    let dedup = Dedup::SpaceGoal { amp: Ratio::of_hundredths(200) };
    let mut load = Overwritten::new(Shape::Tiered { runs: 32 }, dedup, 192 << 10);
    load.put_all();
    load.overwrite_at_random(3 * KEYS);
    load.check(16);
}

#[test]
fn a_tree_of_levels_of_several_runs() {
    let mut load = Overwritten::new(Shape::Tiered { runs: 6 }, Dedup::None, 256 << 10);
    load.put_all();
    load.overwrite_at_random(3 * KEYS);
    load.check(8);
}

#[test]
fn a_leveled_tree_that_is_settled() {
    let shape = Shape::Leveled { ratio: 10 };
    let mut load = Overwritten::new(shape, Dedup::None, 1 << 20);
    load.put_all();
    load.overwrite_at_random(KEYS);
    load.db.compact().unwrap();
    let found = load.check(1);
    assert_eq!(found.hit, 1.0);
}

#[test]
fn tables_written_in_order_of_their_keys_are_taken_for_one_run() {
    let shape = Shape::Leveled { ratio: 10 };
    let load = Overwritten::new(shape, Dedup::None, 1 << 20);
    load.put_all();
    load.db.flush().unwrap();
    load.db.wait_for_compactions().unwrap();
    assert!(load.check(1).bits < 12.0);
}
