//! The DRAMTable's protocol under every interleaving that loom explores, in a small engine.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p esker-memtable --release --test suite dram_table_loom::`
//!
//! Reads are checked against what the key was at some point in time between their beginning and their
//! end, and at the end the table must not have kept anything that is outdated.
#![cfg(loom)]

use crate::dram_world::{K, Op, World};
use esker_memtable::Forwarding;
use loom::sync::Arc;
use loom::thread;

const BYTES: usize = 64 << 10;

fn put(key: K, value: &[u8]) -> Op {
    Op::Put(key, value.to_vec())
}

/// Explores what `model` does. Three preemptions find what two threads can do to each other here.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// An environment whose tables hold the keys 1 and 2.
fn world(forwarding: Forwarding) -> Arc<World> {
    let world = World::new(BYTES, forwarding);
    world.write(&put(1, b"old"), false);
    world.write(&put(2, b"old"), false);
    world.rotate();
    world.flush();
    Arc::new(world)
}

fn read_beside(world: &Arc<World>, keys: &'static [K]) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || world.check(keys))
}

/// The reader may pin its view before the MemTable is there, and fill after it has left.
#[test]
fn a_read_beside_put_rotation_and_flush_leaves_nothing_outdated() {
    explore(|| {
        let world = world(Forwarding::OnFlush);
        world.rotate();
        world.flush();
        let reader = read_beside(&world, &[1]);
        world.rotate();
        world.write(&put(1, b"new"), false);
        world.rotate();
        while world.flush() {}
        reader.join().unwrap();
        world.check(&[1]);
    });
}

#[test]
fn a_read_beside_the_flush_of_an_update_leaves_nothing_outdated() {
    for update in [put(1, b"new"), put(1, b"newer"), Op::Delete(1), Op::DeleteRange(0, 9)] {
        explore(move || {
            let world = world(Forwarding::OnFlush);
            world.write(&update, false);
            world.rotate();
            let snapshot = world.visible() - 1;
            let reader = {
                let world = world.clone();
                // At the old moment: it goes past the MemTable, into the table.
                thread::spawn(move || {
                    assert_eq!(world.get_at(1, snapshot), world.truth(1, snapshot));
                })
            };
            world.flush();
            world.check(&[1]);
            reader.join().unwrap();
            world.check(&[1]);
        });
    }
}

/// What is in the table already must be right while its update leaves the MemTables.
#[test]
fn an_entry_is_refreshed_or_dropped_before_the_memtable_leaves() {
    for update in [put(1, b"new"), Op::Delete(1), Op::DeleteRange(0, 9)] {
        explore(move || {
            let world = world(Forwarding::OnFlush);
            world.check(&[1]);
            world.write(&update, false);
            world.rotate();
            let reader = read_beside(&world, &[1]);
            world.flush();
            reader.join().unwrap();
            world.check(&[1]);
        });
    }
}

/// Two keys read at one point in time, while both change, one after the other.
#[test]
fn two_keys_are_read_as_of_one_moment() {
    explore(|| {
        let world = world(Forwarding::OnFlush);
        world.check(&[1, 2]);
        let reader = read_beside(&world, &[1, 2]);
        world.write(&put(1, b"new"), false);
        world.write(&put(2, b"new"), false);
        world.rotate();
        world.flush();
        reader.join().unwrap();
    });
}

/// A forwarded version that arrives after a newer one has been passed.
#[test]
fn a_forward_that_comes_late_brings_nothing_back() {
    explore(|| {
        let world = world(Forwarding::Always);
        let writer = {
            let world = world.clone();
            thread::spawn(move || {
                world.write(&put(1, b"first"), false);
            })
        };
        world.write(&Op::Delete(1), true);
        world.rotate();
        world.flush();
        writer.join().unwrap();
        world.check(&[1]);
        world.rotate();
        world.flush();
        world.check(&[1]);
    });
}

/// A copy that a reader made of what it met in a MemTable, and that arrives after that has left.
#[test]
fn a_reader_s_copy_that_comes_late_brings_nothing_back() {
    for update in [put(1, b"newer"), Op::Delete(1), Op::DeleteRange(0, 2)] {
        explore(move || {
            let world = world(Forwarding::Adaptive);
            world.write(&put(1, b"new"), false);
            let reader = read_beside(&world, &[1]);
            world.rotate();
            world.write(&update, false);
            world.rotate();
            while world.flush() {}
            world.dram.collect();
            reader.join().unwrap();
            world.check(&[1]);
        });
    }
}

/// A range delete's floor against a fill that began before it.
#[test]
fn a_fill_that_comes_late_brings_nothing_deleted_back() {
    explore(|| {
        let world = world(Forwarding::OnFlush);
        world.rotate();
        world.flush();
        let reader = read_beside(&world, &[1]);
        world.rotate();
        world.write(&Op::DeleteRange(0, 2), false);
        world.rotate();
        while world.flush() {}
        world.dram.collect();
        reader.join().unwrap();
        world.check(&[1, 2]);
    });
}

/// Fills and evictions of other keys concurrently with a reader.
#[test]
fn eviction_beside_reads_is_only_a_miss() {
    explore(|| {
        let world = Arc::new(World::new(4 << 10, Forwarding::OnFlush));
        let value = [7; 150];
        for key in 0..16 {
            world.write(&put(key, &value), false);
        }
        world.rotate();
        world.flush();
        (0..16).for_each(|key| world.check(&[key]));
        assert!(world.dram.stats().evictions > 0);
        let reader = read_beside(&world, &[15, 14]);
        world.check(&[0, 1]);
        world.write(&put(15, b"new"), false);
        world.rotate();
        world.flush();
        reader.join().unwrap();
        world.check(&[15, 0]);
    });
}
