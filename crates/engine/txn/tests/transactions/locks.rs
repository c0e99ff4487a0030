//! Locks of pessimistic transactions, as seen from outside.

use crate::support::{KEYSPACE, LONG, Text, assert_nothing_held, committed, options, store_of};
use esker_api::Concurrency::Pessimistic;
use esker_api::Isolation::{ReadCommitted, Snapshot};
use esker_api::{TransactionOptions, Transactional};
use std::time::Duration;

#[test]
fn a_waiter_gets_the_lock_when_its_holder_ends() {
    let store = store_of(&[("x", "0")]);
    let options = options(ReadCommitted, Pessimistic);
    let mut holder = store.begin(&options).unwrap();
    holder.write("x", "1").unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut waiter = store.begin(&options).unwrap();
            let seen = waiter.read_for_update("x").unwrap();
            waiter.write("x", "2").unwrap();
            waiter.commit().unwrap();
            seen
        });
        holder.commit().unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), "1");
    });
    assert_eq!(committed(&store, "x").unwrap(), "2");
    assert_nothing_held(&store);
}

#[test]
fn increments_under_locks_are_all_kept() {
    let (threads, rounds) = (8, 200);
    let store = store_of(&[("x", "0")]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut transaction = store.begin(&options(Snapshot, Pessimistic)).unwrap();
                    let x = transaction.read_for_update("x").unwrap().unwrap();
                    let next = x.parse::<u32>().unwrap() + 1;
                    transaction.write("x", &next.to_string()).unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(committed(&store, "x").unwrap(), (threads * rounds).to_string());
    assert_nothing_held(&store);
}

#[test]
fn a_lock_that_is_not_got_in_time_is_an_error_that_says_so() {
    let store = store_of(&[]);
    let mut holder = store.begin(&options(Snapshot, Pessimistic)).unwrap();
    holder.write("x", "1").unwrap();
    let short = options(Snapshot, Pessimistic).lock_timeout(Duration::from_millis(1));
    let mut waiter = store.begin(&short).unwrap();
    let refused = waiter.write("x", "2").unwrap_err();
    assert!(refused.is_transient());
    assert!(refused.to_string().contains("1ms") && refused.to_string().contains('x'), "{refused}");
    // It left the queue: the next in line gets the lock.
    holder.commit().unwrap();
    let mut next = store.begin(&options(Snapshot, Pessimistic)).unwrap();
    next.write("x", "3").unwrap();
    next.commit().unwrap();
    // And it may try again.
    waiter.write("x", "2").unwrap();
    waiter.commit().unwrap();
    assert_nothing_held(&store);
}

#[test]
fn locks_got_since_a_savepoint_stay() {
    let store = store_of(&[]);
    let mut holder = store.begin(&options(Snapshot, Pessimistic)).unwrap();
    holder.set_savepoint().unwrap();
    holder.write("x", "1").unwrap();
    holder.rollback_to_savepoint().unwrap();
    assert_eq!(store.held().keys, 1);
    holder.commit().unwrap();
    assert_eq!(committed(&store, "x"), None);
    assert_nothing_held(&store);
}

#[test]
fn the_same_key_of_two_keyspaces_is_two_locks() {
    let store = store_of(&[]);
    let other = store.keyspace("other").unwrap();
    let mut first = store.begin(&options(Snapshot, Pessimistic)).unwrap();
    let mut second = store.begin(&TransactionOptions::default().lock_timeout(LONG)).unwrap();
    first.put(KEYSPACE, b"k", b"1").unwrap();
    second.put(other, b"k", b"2").unwrap();
    assert_eq!(store.held().keys, 2);
    first.commit().unwrap();
    second.commit().unwrap();
    assert_nothing_held(&store);
}
