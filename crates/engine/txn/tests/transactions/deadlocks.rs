//! Deadlocks are found when they arise, and resolve.

use crate::support::{KEYSPACE, Text, assert_nothing_held, committed, options, store_of};
use esker_api::Concurrency::Pessimistic;
use esker_api::Isolation::{ReadCommitted, Snapshot};
use esker_api::{Keyspaces, Transaction, Transactional, WriteBatch};
use esker_base::{Error, Result, Rng, SystemClock};
use esker_txn::TransactionManager;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// `n` transactions, each with a key, ask for the next one's at the same time. What came of it.
fn circle_of(n: usize) -> Vec<Result<()>> {
    let store = store_of(&[]);
    let (store, all_have_one) = (&store, &Barrier::new(n));
    let outcomes = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..n)
            .map(|at| {
                scope.spawn(move || {
                    let mut client = store.begin(&options(ReadCommitted, Pessimistic)).unwrap();
                    client.write(&format!("k{at}"), "own").unwrap();
                    all_have_one.wait();
                    client.write(&format!("k{}", (at + 1) % n), "next")?;
                    client.commit()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_nothing_held(store);
    outcomes
}

#[test]
fn of_a_circle_one_gives_way_and_the_others_go_on() {
    for n in 2..=6 {
        let outcomes = circle_of(n);
        let victims: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        let [victim] = &victims[..] else { panic!("of {n}: {victims:?}") };
        assert!(matches!(victim, Error::Deadlock { waits, .. } if waits.len() == n), "{victim}");
        assert!(victim.is_transient());
    }
}

/// Which key each waited for, and whose it was.
#[test]
fn a_deadlock_is_reported_with_both_keys_and_both_transactions() {
    let store = store_of(&[]);
    let manager =
        TransactionManager::new(store.store().batch_limits(), Arc::new(SystemClock::new()));
    let options = options(ReadCommitted, Pessimistic);
    let begin = || manager.begin(store.store(), options).unwrap();
    let (mut first, mut second) = (begin(), begin());
    let ids = [first.id(), second.id()];
    first.put(KEYSPACE, b"a", b"").unwrap();
    second.put(KEYSPACE, b"b", b"").unwrap();
    let errors: Vec<Error> = std::thread::scope(|scope| {
        let clients = [
            scope.spawn(move || first.put(KEYSPACE, b"b", b"").err()),
            scope.spawn(move || second.put(KEYSPACE, b"a", b"").err()),
        ];
        clients.into_iter().filter_map(|client| client.join().unwrap()).collect()
    });
    let [error] = &errors[..] else { panic!("{errors:?}") };
    let Error::Deadlock { key, waits } = error else { panic!("{error}") };
    let (own, other) = if key == "b" { (0, 1) } else { (1, 0) };
    let keys = ["b", "a"];
    assert_eq!((waits[0].transaction, &waits[0].key[..]), (ids[own], keys[own]));
    assert_eq!((waits[1].transaction, &waits[1].key[..]), (ids[other], keys[other]));
    let said =
        format!("transaction {} waits for key {key} of transaction {}", ids[own], ids[other]);
    assert!(error.to_string().contains(&said), "{error}");
}

#[test]
fn waiting_is_no_deadlock() {
    let store = store_of(&[]);
    let mut holder = store.begin(&options(Snapshot, Pessimistic)).unwrap();
    holder.write("x", "0").unwrap();
    std::thread::scope(|scope| {
        let queue: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut waiter = store.begin(&options(Snapshot, Pessimistic)).unwrap();
                    waiter.write("x", "1").and_then(|()| waiter.commit())
                })
            })
            .collect();
        holder.commit().unwrap();
        queue.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
    });
    assert_nothing_held(&store);
}

const KEYS: u64 = 6;

/// Adds one to each of four keys, locked in random order.
fn add_to_four(store: &impl Transactional, rng: &mut Rng) -> Result<()> {
    let mut transaction = store.begin(&options(ReadCommitted, Pessimistic)).unwrap();
    for at in 0..4 {
        let key = format!("k{}", rng.below(KEYS));
        let count = transaction.read_for_update(&key)?;
        let count: u64 = count.map_or(0, |count| count.parse().unwrap());
        transaction.write(&key, &(count + 1).to_string())?;
        if at == 0 {
            // So that others get between, also on one processor.
            std::thread::yield_now();
        }
    }
    transaction.commit()
}

#[test]
fn locks_in_random_order_never_block_for_ever_and_lose_nothing() {
    let (threads, rounds) = (8, 50);
    let store = store_of(&[]);
    let deadlocks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let (store, deadlocks) = (&store, &deadlocks);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                let mut done = 0;
                while done < rounds {
                    match add_to_four(store, &mut rng) {
                        Ok(()) => done += 1,
                        Err(Error::Deadlock { .. }) => {
                            deadlocks.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
        // Plain batches among them: they wait, and are never the victim.
        scope.spawn(|| {
            for n in 0..rounds {
                let mut batch = WriteBatch::new();
                batch.put(KEYSPACE, format!("plain{n}").as_bytes(), b"");
                batch.delete_range(KEYSPACE, b"plain".as_slice()..b"plain9");
                batch.put(KEYSPACE, b"plain!", b"");
                store.write(&batch).unwrap();
            }
        });
    });
    let sum: u64 = (0..KEYS)
        .filter_map(|n| committed(&store, &format!("k{n}")))
        .map(|count| count.parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, threads * rounds * 4, "{deadlocks:?} deadlocks");
    assert_nothing_held(&store);
}
