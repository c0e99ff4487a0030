//! Random transactions on few keys, one step of one at a time, and in threads.

use crate::store::Store;
use esker_api::{Concurrency, Isolation, KeyspaceRef, TransactionOptions};
use esker_base::{Error, Result, Rng};
use esker_txn::{LockStats, TransactionDb};
use esker_workload::checker::isolation::{History, Outcome, Recorder, Recording, check};
use std::time::Duration;

const KEYS: u64 = 10;

const EVERY_WAY: [Concurrency; 2] = [Concurrency::Pessimistic, Concurrency::Optimistic];

/// One random read or update.
fn step(transaction: &mut Recording<'_>, rng: &mut Rng) -> Result<()> {
    let key = rng.below(KEYS);
    match rng.below(10) {
        0..3 => drop(transaction.read(key)?),
        3 => transaction.write(key)?,
        4..6 => {
            transaction.read(key)?;
            transaction.write(key)?;
        }
        6..8 => {
            transaction.read_for_update(key)?;
            transaction.write(key)?;
        }
        8 => drop(transaction.read_for_update(key)?),
        _ => transaction.scan(key, (key + 1 + rng.below(4)).min(KEYS + 2), rng.one_in(2))?,
    }
    Ok(())
}

fn options(
    isolation: Isolation,
    concurrency: Concurrency,
    lock_timeout: Duration,
) -> TransactionOptions {
    TransactionOptions::default()
        .isolation(isolation)
        .concurrency(concurrency)
        .lock_timeout(lock_timeout)
}

/// `steps` steps of five transactions that take turns at random, in this thread. A transaction that would have to
/// wait starts over.
fn taking_turns(
    store: &TransactionDb<Store>,
    choose: impl Fn(&mut Rng) -> (Isolation, Concurrency),
    steps: usize,
    seed: u64,
) -> History {
    let recorder = Recorder::new(KeyspaceRef::DEFAULT);
    let rng = &mut Rng::new(seed);
    let mut live: Vec<Option<Recording<'_>>> = (0..5).map(|_| None).collect();
    for _ in 0..steps {
        let slot = &mut live[rng.below(5) as usize];
        let Some(transaction) = slot else {
            let (isolation, concurrency) = choose(rng);
            let options = options(isolation, concurrency, Duration::ZERO);
            *slot = Some(recorder.begin(store, &options).unwrap());
            continue;
        };
        let outcome = match rng.below(5) {
            0 => slot.take().map_or(Ok(()), Recording::commit),
            _ => step(transaction, rng),
        };
        if let Err(error) = outcome {
            assert!(error.is_transient(), "{error}");
            *slot = None;
        }
    }
    drop(live);
    assert_eq!(store.held(), LockStats::default());
    recorder.into_history()
}

fn committed(history: &History) -> usize {
    history.transactions.iter().filter(|one| one.outcome == Outcome::Committed).count()
}

#[test]
fn transactions_that_take_turns_see_nothing_that_their_level_excludes() {
    for isolation in Isolation::ALL {
        for concurrency in EVERY_WAY {
            for seed in 0..15 {
                let store = Store::sound();
                let history = taking_turns(&store, |_| (isolation, concurrency), 1500, seed);
                assert_eq!(check(&history), [], "{isolation} {concurrency:?}, seed {seed}");
                assert!(committed(&history) > 30);
            }
        }
    }
}

#[test]
fn levels_and_ways_that_are_mixed_keep_what_each_promises() {
    for seed in 0..25 {
        let store = Store::sound();
        let choose = |rng: &mut Rng| {
            (Isolation::ALL[rng.below(3) as usize], EVERY_WAY[rng.below(2) as usize])
        };
        let history = taking_turns(&store, choose, 1500, seed);
        assert_eq!(check(&history), [], "seed {seed}");
    }
}

#[test]
fn the_checker_finds_out_when_no_test_for_changes_is_made() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for concurrency in EVERY_WAY {
            let store = Store::forgetful();
            let history = taking_turns(&store, |_| (isolation, concurrency), 1500, 1);
            assert_ne!(check(&history), [], "{isolation} {concurrency:?}");
        }
    }
}

#[test]
fn the_checker_finds_out_when_snapshot_isolation_is_called_serializable() {
    for concurrency in EVERY_WAY {
        let store = Store::sound();
        let mut history = taking_turns(&store, |_| (Isolation::Snapshot, concurrency), 1500, 1);
        history.transactions.iter_mut().for_each(|one| one.isolation = Isolation::Serializable);
        assert_ne!(check(&history), [], "{concurrency:?}");
    }
}

/// The same in threads, which do wait.
fn in_threads(isolation: Isolation, concurrency: Concurrency, rounds: usize) -> History {
    let store = Store::sound();
    let recorder = Recorder::new(KeyspaceRef::DEFAULT);
    let options = options(isolation, concurrency, Duration::from_secs(100));
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let (store, recorder) = (&store, &recorder);
            scope.spawn(move || {
                let rng = &mut Rng::new(seed);
                for _ in 0..rounds {
                    match transaction(recorder, store, &options, rng) {
                        Err(Error::Conflict { .. } | Error::Deadlock { .. }) | Ok(()) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(store.held(), LockStats::default());
    recorder.into_history()
}

fn transaction(
    recorder: &Recorder,
    store: &TransactionDb<Store>,
    options: &TransactionOptions,
    rng: &mut Rng,
) -> Result<()> {
    let mut transaction = recorder.begin(store, options)?;
    for _ in 0..1 + rng.below(4) {
        step(&mut transaction, rng)?;
    }
    transaction.commit()
}

#[test]
fn transactions_in_threads_see_nothing_that_their_level_excludes() {
    for isolation in Isolation::ALL {
        for concurrency in EVERY_WAY {
            let history = in_threads(isolation, concurrency, 150);
            assert_eq!(check(&history), [], "{isolation} {concurrency:?}");
            assert!(committed(&history) > 100);
        }
    }
}
