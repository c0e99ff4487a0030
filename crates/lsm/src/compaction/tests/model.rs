//! Whatever is compacted, in whatever order and however many plans run at once, every reader goes on
//! seeing what it saw.

use super::store::{Store, Write};
use crate::compaction::{Held, Plan};
use crate::dedup::{Dedup, Ratio};
use crate::settings::Shape;
use esker_base::Rng;
use esker_storage::memory::MemoryStorage;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn random_store(rng: &mut Rng, segment_bytes: u64) -> Store {
    let tiered = Shape::Tiered { runs: 2 + rng.below(3) as u32 };
    let ratio = Ratio::of_hundredths(105 + rng.below(60) as u32);
    let (shape, dedup) = match rng.below(6) {
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

fn start_plan(rng: &mut Rng, store: &mut Store, running: &mut Vec<Plan>) {
    if let Some(plan) = if rng.one_in(4) { store.pick_idle() } else { store.pick() } {
        store.busy.claim(&plan);
        running.push(plan);
    }
}

fn finish_plan(rng: &mut Rng, store: &mut Store, running: &mut Vec<Plan>) {
    if running.is_empty() {
        return;
    }
    let plan = running.swap_remove(rng.below(running.len() as u64) as usize);
    store.run(&plan, 1 + rng.below(3) as usize);
    store.busy.release(&Held::by(&plan));
}

#[test]
fn readers_never_notice_a_compaction() {
    let mut drops = 0;
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let mut store = random_store(&mut rng, 1500);
        let ranges = rng.one_in(2);
        let mut running = Vec::new();
        for _ in 0..120 {
            match rng.below(8) {
                0..=2 => write_some(&mut rng, &mut store, ranges),
                3 => change_snapshots(&mut rng, &mut store),
                4..=5 => start_plan(&mut rng, &mut store, &mut running),
                _ => finish_plan(&mut rng, &mut store, &mut running),
            }
            if rng.one_in(16) {
                store.check_readers(&format!("seed {seed}"));
            }
        }
        while !running.is_empty() {
            finish_plan(&mut rng, &mut store, &mut running);
        }
        let mut plans = 0;
        while let Some(plan) = store.pick_idle() {
            drops += u64::from(plan.is_drop());
            store.run(&plan, 1);
            plans += 1;
            assert!(plans < 1000, "seed {seed}: idle compaction does not end");
        }
        store.check_readers(&format!("seed {seed}, settled"));
        compact_fully(&mut store, seed);
    }
    assert!(drops > 0, "no table was dropped");
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
        let mut store = random_store(&mut rng, 1000);
        for _ in 0..40 {
            write_some(&mut rng, &mut store, false);
            let mut running: Vec<Plan> = Vec::new();
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
