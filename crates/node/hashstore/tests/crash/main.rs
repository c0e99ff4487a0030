//! Power loss: after it, what was acknowledged is there, what was not is there whole or not at all, and
//! nothing that was replaced or deleted comes back.
//!
//! Small histories are cut at every step, and at each step every set of sectors that may be left is tried, in
//! every version. Large ones, on a store that is nearly full so that space is used again and again, are cut
//! at random many times, each time going on with what was left.

mod damage;
mod disk;
mod economy;
mod machine;
mod repair;

use disk::Disk;
use esker_base::{Rng, hash64};
use machine::{Ledger, Machine, create, create_for, recovered, recovered_with};

/// Up to this many ways for the power to fail are all tried; of more, so many are picked.
const OUTCOMES_TRIED: u128 = 1 << 10;

/// Tries what a power loss now may leave.
fn check_crashes(machine: &Machine, rng: &mut Rng, context: &str) -> u64 {
    let outcomes = machine.disk.outcomes();
    let tried = outcomes.min(OUTCOMES_TRIED);
    for number in 0..tried {
        let left = match outcomes <= OUTCOMES_TRIED {
            true => machine.disk.crash(number),
            false => machine.disk.crash_somehow(rng),
        };
        if let Err(what) = recovered(left, &machine.ledger) {
            panic!("{context}, outcome {number} of {outcomes}: {what}");
        }
    }
    tried as u64
}

/// A step of a small history.
#[derive(Clone, Copy, Debug)]
enum Step {
    Store(&'static [u8], usize),
    Delete(&'static [u8]),
    /// Report the first, or the last, that is in progress.
    First,
    Last,
    Settle,
    Checkpoint,
}

fn take(machine: &mut Machine, step: Step) {
    match step {
        Step::Store(key, bytes) => machine.store(key, bytes),
        Step::Delete(key) => machine.delete(key),
        Step::First if machine.under_way() > 0 => machine.finish(0),
        Step::Last if machine.under_way() > 0 => machine.finish(machine.under_way() - 1),
        Step::First | Step::Last => {}
        Step::Settle => machine.settle(),
        Step::Checkpoint => machine.checkpoint(),
    }
}

fn try_all(history: &[Step]) -> u64 {
    let mut machine = Machine::open(create(1 << 20, 7), Ledger::default()).unwrap();
    let mut rng = Rng::new(1);
    let mut tried = 0;
    for (number, step) in history.iter().enumerate() {
        take(&mut machine, *step);
        let context = format!("after step {number}, {step:?}, of {history:?}");
        tried += check_crashes(&machine, &mut rng, &context);
    }
    tried
}

#[test]
fn every_crash_of_stores_that_replace_each_other() {
    use Step::*;
    try_all(&[
        Store(b"a", 600),
        First,
        First,
        Store(b"a", 1200),
        Store(b"b", 10),
        Last,
        First,
        First,
        Store(b"a", 3),
        Store(b"b", 900),
        Last,
        Last,
        Last,
        Settle,
        Store(b"a", 0),
        Settle,
    ]);
}

#[test]
fn every_crash_of_deletes() {
    use Step::*;
    try_all(&[
        Store(b"a", 600),
        Store(b"b", 600),
        Settle,
        Delete(b"a"),
        First,
        First,
        Delete(b"b"),
        Store(b"a", 700),
        Last,
        First,
        Last,
        Settle,
        Delete(b"a"),
        Delete(b"a"),
        Settle,
    ]);
}

#[test]
fn every_crash_around_a_checkpoint() {
    use Step::*;
    try_all(&[
        Store(b"a", 600),
        Settle,
        Store(b"b", 600),
        Checkpoint,
        Store(b"c", 300),
        Last,
        First,
        First,
        Store(b"a", 100),
        Delete(b"b"),
        Checkpoint,
        First,
        First,
        First,
        First,
        Last,
        Last,
        Settle,
        Store(b"b", 200),
        Checkpoint,
        Last,
        Last,
        Last,
        First,
        Settle,
        Delete(b"c"),
        Settle,
    ]);
}

/// Keys that stay, so that the rest is written again and again.
fn fill(machine: &mut Machine, share: f64) {
    let stats = machine.partition.stats();
    let wanted = (stats.data_bytes as f64 * share) as u64;
    for number in 0u32.. {
        let stats = machine.partition.stats();
        if stats.data_bytes - stats.unused_bytes >= wanted {
            return;
        }
        machine.store(format!("ballast {number}").as_bytes(), 8000);
        machine.settle();
    }
}

/// Lives of a store.
struct Lives {
    count: u32,
    /// In each of them, at the most.
    steps: u64,
    fill_share: f64,
    has_cache: bool,
    /// So many are changed, of so many bytes.
    keys: u64,
    key_bytes: usize,
}

const LIVES: Lives =
    Lives { count: 60, steps: 400, fill_share: 0.9, has_cache: false, keys: 12, key_bytes: 2 };

/// Long keys, whose entries take more than a piece of a snapshot.
const LIVES_OF_LONG_KEYS: Lives =
    Lives { count: 40, steps: 800, fill_share: 0.3, key_bytes: 9000, ..LIVES };

/// What they have come to.
#[derive(Default, Debug)]
struct Come {
    checkpoints: u64,
    snapshots: u64,
    /// Of those, in pieces.
    fronts: u64,
}

/// One life after the other on the same disk, each ended by a power loss.
fn live(seed: u64, disk: Disk, lives: &Lives) -> Come {
    let mut rng = Rng::new(seed);
    let &Lives { has_cache, key_bytes, .. } = lives;
    let mut machine = Machine::open_with(disk, Ledger::default(), has_cache).unwrap();
    fill(&mut machine, lives.fill_share);
    let mut come = Come::default();
    for life in 0..lives.count {
        for _ in 0..rng.below(lives.steps) {
            let mut key = vec![b'k', rng.below(lives.keys) as u8];
            key.resize(key_bytes, b'.');
            match rng.below(10) {
                0..3 => machine.store(&key, [0, 5, 500, 3000, 9000][rng.below(5) as usize]),
                3 => machine.delete(&key),
                // The last of them stays, so that what was reported is collected.
                4..6 if machine.under_way() > 1 => {
                    machine.report(rng.below(machine.under_way() as u64) as usize);
                }
                4..9 if machine.under_way() > 0 => {
                    machine.finish(rng.below(machine.under_way() as u64) as usize);
                }
                9 if rng.one_in(20) => machine.settle(),
                9 if has_cache && rng.one_in(5) => machine.flush(),
                _ => {}
            }
        }
        let stats = machine.partition.stats();
        come.checkpoints += stats.checkpoints;
        come.snapshots += stats.snapshots;
        come.fronts += machine.fronts;
        let value = machine.next_value;
        let left = machine.disk.crash_somehow(&mut rng);
        machine = recovered_with(left, &machine.ledger, has_cache)
            .unwrap_or_else(|what| panic!("seed {seed}, life {life}: {what}"));
        machine.next_value = value;
    }
    come
}

#[test]
fn many_lives_of_a_store_that_is_nearly_full() {
    for seed in 0..12 {
        let come = live(seed, create(1 << 20, seed), &LIVES);
        assert!(come.checkpoints > 100, "{come:?}");
    }
}

#[test]
fn many_lives_of_a_store_with_room() {
    for seed in 100..104 {
        live(seed, create(1 << 20, seed), &Lives { count: 40, fill_share: 0.2, ..LIVES });
    }
}

#[test]
fn many_lives_with_a_volatile_cache_keep_what_was_flushed_and_tear_nothing() {
    for seed in 200..212 {
        let fill_share = if seed % 3 == 0 { 0.2 } else { 0.9 };
        let lives = Lives { fill_share, has_cache: true, ..LIVES };
        let come = live(seed, create(1 << 20, seed), &lives);
        assert!(fill_share < 0.9 || come.checkpoints > 100, "{come:?}");
    }
}

#[test]
fn many_lives_with_snapshots_in_pieces() {
    for seed in 300..312 {
        // A journal with much room, and those that are nearly full of entries.
        let (bytes_a_key, keys) = [(512, 12), (1024, 12), (1024, 17)][seed as usize % 3];
        let lives = Lives { has_cache: seed % 4 > 1, keys, ..LIVES_OF_LONG_KEYS };
        let come = live(seed, create_for(4 << 20, bytes_a_key, seed), &lives);
        println!("seed {seed}: {come:?}");
        assert!(come.fronts > 50, "{come:?}");
    }
}

/// It is behind the last key that the walk has met, and the checkpoint keeps the snapshot from its end.
#[test]
fn a_key_that_comes_when_all_were_visited_is_in_the_snapshot() {
    let mut machine = Machine::open(create_for(4 << 20, 512, 7), Ledger::default()).unwrap();
    let others: Vec<Vec<u8>> = (0..12).map(|number| vec![number; 9000]).collect();
    let highest = others.iter().map(|key| hash64(key)).max().unwrap();
    let is_behind = |key: &Vec<u8>| hash64(key) > highest;
    let last = (0u32..).map(|number| number.to_le_bytes().to_vec()).find(is_behind).unwrap();
    let store = |machine: &mut Machine, key: &[u8]| {
        machine.store(key, 0);
        while machine.under_way() > 1 {
            machine.finish(1);
        }
    };
    others.iter().for_each(|key| machine.store(key, 0));
    while machine.fronts < 6 {
        machine.delete(&last);
        machine.settle();
        machine.checkpoint();
        assert_eq!(machine.under_way(), 1, "the checkpoint, which is not reported until the end");
        others[..7].iter().for_each(|key| store(&mut machine, key));
        store(&mut machine, &last);
        assert_eq!(machine.unanswered(), 0);
        machine.settle();
        recovered(machine.disk.crash(0), &machine.ledger).map(drop).unwrap();
    }
}

/// No key is stored twice, and so they come anywhere in the order of a snapshot's walk, with checkpoints in progress at its end.
#[test]
fn many_lives_in_which_other_keys_come_and_go() {
    const KEPT: u64 = 16;
    let key = |number: u64| {
        let mut key = number.to_be_bytes().to_vec();
        key.resize(if number.is_multiple_of(2) { 9000 } else { 8 }, b'.');
        key
    };
    for seed in 400..404 {
        let (mut rng, has_cache) = (Rng::new(seed), seed % 2 == 1);
        let disk = create_for(4 << 20, 512, seed);
        let mut machine = Machine::open_with(disk, Ledger::default(), has_cache).unwrap();
        let (mut number, mut fronts) = (KEPT, 0);
        for life in 0..20 {
            let mut checked = 0;
            for _ in 0..rng.below(2000) {
                match rng.below(10) {
                    0..2 => {
                        number += 1;
                        machine.store(&key(number), rng.below(900) as usize);
                        machine.delete(&key(number - KEPT));
                    }
                    2..8 if machine.under_way() > 0 => {
                        machine.finish(rng.below(machine.under_way() as u64) as usize);
                    }
                    8 => machine.checkpoint(),
                    9 if rng.one_in(20) => machine.settle(),
                    _ => {}
                }
                if machine.fronts > checked && rng.one_in(20) {
                    checked = machine.fronts;
                    let left = machine.disk.crash_somehow(&mut rng);
                    if let Err(what) = recovered_with(left, &machine.ledger, has_cache) {
                        panic!("seed {seed}, in life {life}: {what}");
                    }
                }
            }
            fronts += machine.fronts;
            let value = machine.next_value;
            let left = machine.disk.crash_somehow(&mut rng);
            machine = recovered_with(left, &machine.ledger, has_cache)
                .unwrap_or_else(|what| panic!("seed {seed}, life {life}: {what}"));
            machine.next_value = value;
        }
        assert!(fronts > 20, "{fronts}");
    }
}

/// With the pieces, what changes meanwhile and the checkpoints of that on their way at a time.
#[test]
fn crashes_at_every_step_of_snapshots_in_pieces() {
    let mut machine = Machine::open(create_for(4 << 20, 512, 7), Ledger::default()).unwrap();
    let mut rng = Rng::new(1);
    let mut number = 0u8;
    while machine.fronts < 3 {
        let mut key = vec![b'k', number % 24];
        key.resize(9000, b'.');
        machine.store(&key, 700);
        number += 1;
        while machine.under_way() > usize::from(number % 3) {
            machine.finish(rng.below(machine.under_way() as u64) as usize);
            for _ in 0..8 {
                let left = machine.disk.crash_somehow(&mut rng);
                if let Err(what) = recovered(left, &machine.ledger) {
                    panic!("after store {number}: {what}");
                }
            }
        }
    }
    assert_eq!(machine.partition.stats().snapshots, 3, "others than those in pieces");
}

/// Though there are more of those than it has pieces.
#[test]
fn a_snapshot_in_pieces_counts_more_than_the_checkpoints_made_meanwhile() {
    let mut machine = Machine::open(create_for(4 << 20, 512, 7), Ledger::default()).unwrap();
    for number in 0..12 {
        let mut key = vec![b'k', number];
        key.resize(9000, b'.');
        machine.store(&key, 0);
        machine.settle();
    }
    let checkpoints = machine.partition.stats().checkpoints;
    let mut number = 0u8;
    while machine.fronts == 0 {
        number = number.wrapping_add(1);
        machine.store(&[number], 0);
        machine.settle();
        machine.checkpoint();
        machine.settle();
    }
    assert!(machine.partition.stats().checkpoints > checkpoints + 100);
    // So much that the windows of then are used up.
    for number in 0..1500u32 {
        machine.store(&number.to_le_bytes()[..2], 0);
        machine.settle();
    }
    recovered(machine.disk.crash(0), &machine.ledger).map(drop).unwrap();
}

#[test]
fn with_a_volatile_cache_nobody_waits_for_the_sync_before_a_checkpoint() {
    let mut machine = Machine::open_with(create(1 << 20, 7), Ledger::default(), true).unwrap();
    machine.store(b"before", 700);
    machine.settle();
    machine.checkpoint();
    assert_eq!(
        (machine.unanswered(), machine.under_way()),
        (0, 1),
        "a sync, and no checkpoint yet"
    );
    machine.store(b"before", 800);
    machine.store(b"during", 700);
    machine.finish(1);
    machine.finish(1);
    assert_eq!((machine.unanswered(), machine.under_way()), (0, 1));
    let mut rng = Rng::new(1);
    while machine.under_way() > 0 {
        for _ in 0..50 {
            let left = machine.disk.crash_somehow(&mut rng);
            recovered(left, &machine.ledger).map(drop).unwrap();
        }
        machine.finish(0);
    }
    let mut again = recovered(machine.disk.crash(0), &machine.ledger).unwrap();
    assert_eq!(again.find(b"before").unwrap().map(|value| value.len()), Some(800));
}

#[test]
fn a_clean_end_leaves_all() {
    let mut machine = Machine::open(create(1 << 20, 7), Ledger::default()).unwrap();
    for number in 0..200u32 {
        machine.store(&number.to_le_bytes(), 100);
        if number % 3 == 0 {
            machine.delete(&number.to_le_bytes());
        }
    }
    machine.settle();
    assert_eq!(machine.disk.crash(0).bytes(), 1 << 20);
    let again = recovered(machine.disk.crash(0), &machine.ledger).unwrap();
    assert_eq!(again.partition.stats().keys, 133);
}

#[test]
fn after_a_write_or_sync_that_failed_there_are_only_reads() {
    for failing in 0..6 {
        let mut machine = Machine::open(create(1 << 20, 7), Ledger::default()).unwrap();
        machine.store(b"old", 700);
        machine.settle();
        let old = machine.find(b"old").unwrap();
        machine.store(b"old", 800);
        machine.store(b"old", 900);
        machine.store(b"new", 10);
        for _ in 0..failing {
            machine.finish(0);
        }
        if machine.under_way() == 0 {
            continue;
        }
        machine.fail(0);
        assert!(machine.refused > 0 && machine.partition.outcome().is_err());
        let found = machine.find(b"old").unwrap();
        // The first was alone: it is done when it is written.
        assert!(found == old || failing > 0);
        // A later store is refused at once, and asks for nothing.
        let (refused, under_way) = (machine.refused, machine.under_way());
        machine.try_store(b"new");
        assert_eq!((machine.refused, machine.under_way()), (refused + 1, under_way));
        let mut rng = Rng::new(failing);
        for _ in 0..50 {
            let left = machine.disk.crash_somehow(&mut rng);
            recovered(left, &machine.ledger).map(drop).unwrap();
        }
    }
}
