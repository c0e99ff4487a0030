//! Readers keep seeing the same data, whatever is compacted, in any order and with any number of
//! concurrent plans.

use super::lose;
use super::store::{Store, Write};
use crate::compaction::in_progress::CompactionClaim;
use crate::compaction::plan::CompactionPlan;
use crate::options::settings::Shape;
use crate::options::space_policy::{Dedup, Ratio};
use esker_base::{MAX_SEQNO, Rng};
use esker_storage::memory::MemoryStorage;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn random_store(rng: &mut Rng, segment_bytes: u64, may_have_goal: bool) -> Store {
    let tiered = Shape::Tiered { runs: 2 + rng.below(3) as u32 };
    let ratio = Ratio::of_hundredths(105 + rng.below(60) as u32);
    let (shape, dedup) = match rng.below(if may_have_goal { 6 } else { 4 }) {
        0 | 1 => (Shape::Leveled { ratio: 2 + rng.below(4) as u32 }, Dedup::None),
        2 => (tiered, Dedup::None),
        3 => (tiered, Dedup::PerLevel { threshold: ratio }),
        _ => (tiered, Dedup::SpaceGoal { amp: ratio }),
    };
    Store::deduplicating(Arc::new(MemoryStorage::new()), shape, dedup, segment_bytes)
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let n = rng.below(150);
    // Some keys share long prefixes, some are prefixes of others.
    let mut key = format!("key/{:03}", n / 2).into_bytes();
    if n % 2 == 1 {
        key.extend_from_slice(b"/more");
    }
    key
}

fn write_some(rng: &mut Rng, store: &mut Store, ranges: bool) {
    for _ in 0..1 + rng.below(40) {
        let key = random_key(rng);
        let write = match rng.below(24) {
            0..=4 => Write::Delete(key),
            5 if ranges => {
                let mut end = random_key(rng);
                end.push(b'+');
                Write::DeleteRange(key.clone().min(end.clone()), key.max(end))
            }
            _ => {
                let mut value = vec![b'v'; rng.below(60) as usize];
                value.extend_from_slice(store.last_seqno().to_string().as_bytes());
                Write::Put(key, value)
            }
        };
        store.history.push(write);
    }
    store.flush();
}

fn change_snapshots(rng: &mut Rng, store: &mut Store) {
    if store.snapshots.len() < 3 && rng.one_in(2) {
        store.snapshots.push(store.last_seqno());
    } else if !store.snapshots.is_empty() {
        let at = rng.below(store.snapshots.len() as u64) as usize;
        store.snapshots.remove(at);
    }
}

/// Has a read of a table fail, or one that failed succeed again: some of the time, of all.
fn lose_or_recover(rng: &mut Rng, store: &Store) {
    let tables: Vec<_> = store.keyspace().tables().map(|(_, _, table)| table.clone()).collect();
    let recovers = rng.one_in(8);
    for table in tables.iter().filter(|table| recovers && table.is_unreadable()) {
        table.mark.clear();
    }
    if !recovers && !tables.is_empty() {
        let table = &tables[rng.below(tables.len() as u64) as usize];
        if table.is_unreadable() { table.mark.clear() } else { lose(table) }
    }
}

fn start_plan(rng: &mut Rng, store: &mut Store, running: &mut Vec<CompactionPlan>) {
    let plan = match rng.below(4) {
        0 => store.pick_idle(),
        1 => store.pick_aged(rng.below(store.last_seqno() + 1)),
        _ => store.pick(),
    };
    if let Some(plan) = plan {
        store.busy.claim(&plan);
        running.push(plan);
    }
}

fn finish_plan(rng: &mut Rng, store: &mut Store, running: &mut Vec<CompactionPlan>) {
    if running.is_empty() {
        return;
    }
    let plan = running.swap_remove(rng.below(running.len() as u64) as usize);
    // One that meets an unreadable table fails.
    if !plan.takes_unreadable() {
        store.run(&plan, 1 + rng.below(3) as usize);
    }
    store.busy.release(&CompactionClaim::by(&plan));
}

#[test]
fn readers_never_notice_a_compaction() {
    let drops: u64 = (0..120).map(|seed| compact_at_random(seed, false)).sum();
    assert!(drops > 0, "no table was dropped");
}

#[test]
fn nor_one_that_goes_around_tables_which_fail_for_a_while() {
    (0..40).for_each(|seed| _ = compact_at_random(seed, true));
}

/// Returns how many plans dropped tables, of those that came last.
fn compact_at_random(seed: u64, loses_tables: bool) -> u64 {
    let mut rng = Rng::new(seed);
    let mut store = random_store(&mut rng, 1500, !loses_tables);
    let ranges = rng.one_in(2);
    let mut running = Vec::new();
    for _ in 0..120 {
        match rng.below(8) {
            0..=2 => write_some(&mut rng, &mut store, ranges),
            3 => change_snapshots(&mut rng, &mut store),
            4..=5 => start_plan(&mut rng, &mut store, &mut running),
            _ => finish_plan(&mut rng, &mut store, &mut running),
        }
        if loses_tables && rng.one_in(8) {
            lose_or_recover(&mut rng, &store);
        }
        if rng.one_in(16) {
            store.check_readers(&format!("seed {seed}"));
        }
    }
    while !running.is_empty() {
        finish_plan(&mut rng, &mut store, &mut running);
    }
    let mut drops = settle(&mut store, seed);
    if loses_tables {
        store.keyspace().tables().for_each(|(_, _, table)| table.mark.clear());
        drops += settle(&mut store, seed);
    }
    compact_fully(&mut store, seed);
    drops
}

/// Returns how many plans dropped tables.
fn settle(store: &mut Store, seed: u64) -> u64 {
    let (mut plans, mut drops) = (0, 0);
    while let Some(plan) = store.pick_idle().or_else(|| store.pick_aged(MAX_SEQNO)) {
        drops += u64::from(plan.is_drop());
        store.run(&plan, 1);
        plans += 1;
        assert!(plans < 1000, "seed {seed}: idle compaction does not end");
    }
    store.check_readers(&format!("seed {seed}, settled"));
    drops
}

fn compact_fully(store: &mut Store, seed: u64) {
    let before_file = store.next_file.load(Ordering::Relaxed);
    let mut plans = 0;
    while let Some(plan) = store.full(before_file) {
        store.run(&plan, 1);
        plans += 1;
        assert!(plans < 1000, "seed {seed}: a full compaction does not end");
    }
    store.check_readers(&format!("seed {seed}, compacted fully"));
    store.check_files();
    let runs: usize = store.keyspace().levels.iter().map(|level| level.runs.len()).sum();
    assert!(runs <= 1, "seed {seed}: {runs} runs are left");
    if store.snapshots.is_empty() {
        let mut tables = store.keyspace().tables().map(|(_, _, table)| &table.meta);
        assert!(tables.all(|meta| meta.deletes == 0 && meta.range_tombstones == 0), "seed {seed}");
    }
}

#[test]
fn plans_that_run_together_are_disjoint() {
    let mut most_at_once = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut store = random_store(&mut rng, 1000, true);
        for _ in 0..40 {
            write_some(&mut rng, &mut store, false);
            let mut running: Vec<CompactionPlan> = Vec::new();
            while let Some(plan) = store.pick() {
                for other in &running {
                    let apart = plan.newest_place() > other.oldest_place()
                        || other.newest_place() > plan.oldest_place();
                    assert!(apart || !plan.span.overlaps(&other.span), "seed {seed}");
                }
                store.busy.claim(&plan);
                running.push(plan);
            }
            most_at_once = most_at_once.max(running.len());
            while !running.is_empty() {
                finish_plan(&mut rng, &mut store, &mut running);
            }
            assert!(store.busy.is_empty());
        }
    }
    assert!(most_at_once >= 2, "no two plans ever ran together");
}
