//! Compares the levels' duplicate rates with monitors as described for PlexDB: one counter per
//! level, updated with what is written to the level, and reset when the level is compacted.

use super::store::{Store, Write};
use crate::compaction::plan::CompactionPlan;
use crate::options::settings::Shape;
use crate::options::space_policy::{Dedup, Ratio};
use crate::version::{LEVELS, TableHandle, TableMeta};
use esker_base::Rng;
use esker_storage::memory::MemoryStorage;
use esker_table::Hll;
use std::collections::HashMap;
use std::sync::Arc;

/// PlexDB's monitor of a level.
#[derive(Default)]
struct Monitor {
    keys: u64,
    distinct: Hll,
}

impl Monitor {
    fn note(&mut self, table: &TableHandle) {
        let contents = table.contents().expect("the store opens its tables");
        self.keys += contents.keys;
        self.distinct.merge(&contents.sketches.hll);
    }

    fn rate(&self) -> f64 {
        self.keys as f64 / self.distinct.estimate()
    }
}

fn tables(store: &Store) -> HashMap<crate::version::TableId, Arc<TableHandle>> {
    store.keyspace().tables().map(|(_, _, table)| (table.meta.id, table.clone())).collect()
}

fn write_and_flush(rng: &mut Rng, store: &mut Store, keys: u64) {
    for _ in 0..100 {
        let key = format!("key/{:05}", rng.below(keys)).into_bytes();
        store.history.push(Write::Put(key, vec![b'v'; 20]));
    }
    store.flush();
}

fn compact(store: &mut Store, monitors: &mut [Monitor; LEVELS], plan: &CompactionPlan) {
    let outcome = (!plan.is_trivial_move()).then(|| store.execute(plan, 1).unwrap());
    store.install_plan(plan, outcome.as_ref());
    for input in &plan.inputs {
        monitors[input.level] = Monitor::default();
    }
    let moved: Vec<TableMeta> = plan.tables().map(|table| table.meta.clone()).collect();
    let written = outcome.map_or(moved, |outcome| outcome.outputs);
    let there = tables(store);
    written.iter().for_each(|meta| monitors[plan.output_level].note(&there[&meta.id]));
}

#[test]
fn rates_are_those_of_monitors_kept_as_published() {
    let mut plans = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let shape = Shape::Tiered { runs: 3 + rng.below(4) as u32 };
        let dedup = Dedup::PerLevel { threshold: Ratio::of_hundredths(110 + rng.below(60) as u32) };
        let storage = Arc::new(MemoryStorage::new());
        let mut store = Store::deduplicating(storage, shape, dedup, 4000);
        let mut monitors: [Monitor; LEVELS] = Default::default();
        let keys = 200 + rng.below(2000);
        for _ in 0..40 {
            write_and_flush(&mut rng, &mut store, keys);
            monitors[0].note(&store.keyspace().levels[0].runs[0].tables()[0]);
            while let Some(plan) = store.pick() {
                compact(&mut store, &mut monitors, &plan);
                plans += 1;
            }
            for (level, monitor) in monitors.iter().enumerate() {
                let rate = store.keyspace().duplicate_rate(level).unwrap();
                // One run, whose rate we know to be 1, is all that a monitor may err about.
                let one = store.keyspace().levels[level].runs.len() < 2;
                assert!(one || rate == monitor.rate().max(1.0), "seed {seed}, level {level}");
            }
        }
    }
    assert!(plans > 200, "only {plans} plans");
}

#[test]
fn rates_are_right_and_stay_below_the_threshold() {
    let threshold = Ratio::of_hundredths(130);
    let storage = Arc::new(MemoryStorage::new());
    let shape = Shape::Tiered { runs: 6 };
    let mut store = Store::deduplicating(storage, shape, Dedup::PerLevel { threshold }, 4000);
    let mut rng = Rng::new(7);
    for _ in 0..60 {
        write_and_flush(&mut rng, &mut store, 1500);
        while let Some(plan) = store.pick() {
            store.run(&plan, 1);
        }
        for level in 0..LEVELS {
            let rate = store.keyspace().duplicate_rate(level).unwrap();
            assert!(rate < threshold.get(), "level {level}: {rate}");
            let (total, distinct) = counted(&store, level);
            let exact = if total == 0 { 1.0 } else { total as f64 / distinct as f64 };
            assert!((rate / exact - 1.0).abs() < 0.06, "level {level}: {rate}, not {exact}");
        }
    }
}

/// The keys of a level, counted in each table, and the distinct ones.
fn counted(store: &Store, level: usize) -> (usize, usize) {
    use crate::read::level_iter::LevelIter;
    use esker_base::EntryCursor;
    use esker_table::ReadPurpose;
    let (mut total, mut distinct) = (0, std::collections::HashSet::new());
    for run in &store.keyspace().levels[level].runs {
        let mut cursor = LevelIter::new(run.clone(), store.cache.clone(), ReadPurpose::Read);
        cursor.seek_first().unwrap();
        while cursor.valid() {
            total += 1;
            distinct.insert(cursor.key().to_vec());
            cursor.next().unwrap();
        }
    }
    (total, distinct.len())
}
