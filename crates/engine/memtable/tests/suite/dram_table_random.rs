//! Many threads write, read, flush and delete in a small engine around a DRAMTable, and every read
//! is compared with what its keys were.
//!
//! A longer run: `cargo test --release -p esker-memtable --test suite -- --ignored`
#![cfg(not(loom))]

use crate::dram_world::{K, Op, World};
use esker_base::Rng;
use esker_memtable::{DramTableStats, Forwarding};
use scopeguard::defer;
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 48;
const WRITERS: u64 = 2;
const READERS: u64 = 3;
const WRITES: u64 = 1500;
/// Of readers and the flush, which may get no processor before the writers are done.
const LEAST_ROUNDS: u64 = 200;

fn op(rng: &mut Rng) -> Op {
    let key = rng.below(KEYS) as K;
    match rng.below(40) {
        0 => Op::DeleteRange(key, key + 1 + rng.below(6) as K),
        1..5 => Op::Delete(key),
        _ => {
            let mut value = vec![0; 8 + rng.below(4) as usize * 40];
            rng.fill(&mut value);
            Op::Put(key, value)
        }
    }
}

fn write(world: &World, mut rng: Rng) {
    for _ in 0..WRITES {
        world.write(&op(&mut rng), rng.one_in(2));
        if rng.one_in(16) {
            world.rotate();
        }
        if rng.one_in(4) {
            std::thread::yield_now();
        }
    }
}

fn read(world: &World, mut rng: Rng, over: &AtomicBool) {
    for round in 0.. {
        if round >= LEAST_ROUNDS && over.load(Ordering::Relaxed) {
            break;
        }
        let snapshot = world.visible();
        let keys = [(); 3].map(|_| (rng.below(KEYS) * rng.below(KEYS) / KEYS) as K);
        world.check(&keys);
        if rng.one_in(3) {
            std::thread::yield_now();
            for key in keys {
                assert_eq!(world.get_at(key, snapshot), world.truth(key, snapshot));
            }
        }
    }
}

fn flush(world: &World, mut rng: Rng, over: &AtomicBool) {
    for round in 0.. {
        if round >= LEAST_ROUNDS && over.load(Ordering::Relaxed) {
            break;
        }
        if !world.flush() {
            std::thread::yield_now();
        }
        if rng.one_in(50) {
            // Room for all, for a few, for none.
            world.dram.set_bytes([1 << 20, 5 << 10, 0][rng.below(3) as usize]);
        }
    }
}

/// Runs an environment to its end. What its table did.
fn run(seed: u64, forwarding: Forwarding) -> DramTableStats {
    let world = World::new(1 << 20, forwarding);
    let over = AtomicBool::new(false);
    let rng = |number: u64| Rng::new(seed << 8 | number);
    std::thread::scope(|scope| {
        let (world, over) = (&world, &over);
        defer! { over.store(true, Ordering::Relaxed) }
        let writers: Vec<_> =
            (0..WRITERS).map(|n| scope.spawn(move || write(world, rng(n)))).collect();
        for n in 0..READERS {
            scope.spawn(move || read(world, rng(10 + n), over));
        }
        scope.spawn(move || flush(world, rng(20), over));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    // At rest, every key twice: from wherever it is, and from the table if it was filled.
    world.rotate();
    while world.flush() {}
    for key in (0..KEYS as K).chain(0..KEYS as K) {
        world.check(&[key]);
    }
    world.dram.stats()
}

fn runs(seeds: std::ops::Range<u64>) -> DramTableStats {
    let mut sum = DramTableStats::default();
    for seed in seeds {
        for forwarding in [Forwarding::OnFlush, Forwarding::Always, Forwarding::Adaptive] {
            let stats = run(seed, forwarding);
            sum.hits += stats.hits;
            sum.exact_hits += stats.exact_hits;
            sum.fills += stats.fills;
            sum.fills_refused += stats.fills_refused;
            sum.refreshes += stats.refreshes;
            sum.evictions += stats.evictions;
            sum.invalidations += stats.invalidations;
            sum.collected += stats.collected;
        }
    }
    sum
}

#[test]
fn readers_beside_writers_and_flushes_see_what_was_written() {
    let sum = runs(0..6);
    // Every way through the protocol was taken.
    for count in [sum.hits, sum.exact_hits, sum.fills, sum.refreshes] {
        assert!(count > 100, "{sum:?}");
    }
    for count in [sum.evictions, sum.invalidations, sum.collected] {
        assert!(count > 0, "{sum:?}");
    }
}

#[test]
#[ignore = "runs for minutes"]
fn readers_beside_writers_and_flushes_see_what_was_written_for_long() {
    println!("{:?}", runs(1000..1300));
}
