//! The table of locks by itself.

use super::held_locks::{HeldLocks, LockRequest};
use super::{Acquired, LockKey, LockManager};
use esker_base::{Entry, Error, KeyspaceId, Kind, Result, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(100);
const NOW: Duration = Duration::ZERO;
const KEYSPACE: KeyspaceId = KeyspaceId(1);

fn table() -> LockManager {
    LockManager::new(Arc::new(SystemClock::new()))
}

fn key(key: &str) -> LockKey<'_> {
    LockKey::new(KEYSPACE, key.as_bytes())
}

fn range<'a>(start: &'a str, end: &'a str) -> LockRequest<'a> {
    let mut wanted = LockRequest::default();
    wanted.add(&Entry {
        keyspace: KEYSPACE,
        kind: Kind::RangeDelete,
        key: start.as_bytes(),
        value: end.as_bytes(),
    });
    wanted
}

fn is_timeout<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(Error::LockTimeout { .. }))
}

impl LockManager {
    /// Returns when so many owners are asleep, or about to be.
    fn await_waiters(&self, waiters: usize) {
        while self.waits.lock().len() != waiters {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_lock_is_got_once_and_is_gone_when_given_back() {
    let table = table();
    let (mut first, mut second) = (HeldLocks::new(&table), HeldLocks::new(&table));
    assert_eq!(first.lock(key("k"), NOW).unwrap(), Acquired::Now);
    assert_eq!(first.lock(key("k"), NOW).unwrap(), Acquired::Before);
    assert!(is_timeout(&second.lock(key("k"), NOW)));
    first.release();
    assert_eq!(table.len(), 0);
    assert_eq!(second.lock(key("k"), NOW).unwrap(), Acquired::Now);
}

#[test]
fn keys_longer_than_an_entry_holds_are_keys_like_others() {
    let table = table();
    let long = "k".repeat(1000);
    let mut held = HeldLocks::new(&table);
    held.lock(key(&long), NOW).unwrap();
    assert!(is_timeout(&HeldLocks::new(&table).lock(key(&long), NOW)));
    held.lock(key(&long[1..]), NOW).unwrap();
    assert_eq!(table.len(), 2);
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let table = table();
    let mut holder = HeldLocks::new(&table);
    holder.lock(key("k"), NOW).unwrap();
    let served = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for n in 1..=5 {
            let (table, served) = (&table, &served);
            scope.spawn(move || {
                let mut held = HeldLocks::new(table);
                held.lock(key("k"), LONG).unwrap();
                served.lock().push(n);
            });
            table.await_waiters(n);
        }
        holder.release();
    });
    assert_eq!(*served.lock(), [1, 2, 3, 4, 5]);
    assert_eq!(table.len(), 0);
}

#[test]
fn a_waiter_whose_time_is_up_is_passed_over() {
    let table = table();
    let mut holder = HeldLocks::new(&table);
    holder.lock(key("k"), NOW).unwrap();
    std::thread::scope(|scope| {
        let mut impatient = HeldLocks::new(&table);
        assert!(is_timeout(&impatient.lock(key("k"), Duration::from_millis(1))));
        let patient = scope.spawn(|| HeldLocks::new(&table).lock(key("k"), LONG).is_ok());
        table.await_waiters(1);
        holder.release();
        assert!(patient.join().unwrap());
    });
    assert_eq!(table.len(), 0);
}

#[test]
fn a_range_waits_for_the_keys_in_it_and_keeps_new_ones_out() {
    let table = table();
    let (mut inside, mut outside) = (HeldLocks::new(&table), HeldLocks::new(&table));
    inside.lock(key("k"), NOW).unwrap();
    outside.lock(key("z"), NOW).unwrap();
    std::thread::scope(|scope| {
        let deleter = scope.spawn(|| {
            let mut deleter = HeldLocks::new(&table);
            deleter.lock_all(&mut range("j", "l"), LONG)?;
            let mut late = HeldLocks::new(&table);
            Ok::<_, Error>((
                is_timeout(&late.lock(key("k5"), NOW)),
                late.lock(key("l"), NOW).is_ok(),
            ))
        });
        table.await_waiters(1);
        assert_eq!(inside.lock(key("k"), NOW).unwrap(), Acquired::Before);
        let mut late = HeldLocks::new(&table);
        assert!(is_timeout(&late.lock(key("k5"), NOW)), "the range has been entered");
        inside.release();
        assert_eq!(deleter.join().unwrap().unwrap(), (true, true));
    });
    assert_eq!((table.len(), table.ranges_len()), (1, 0));
    outside.lock(key("k5"), NOW).unwrap();
}

#[test]
fn whoever_waits_for_a_range_goes_on_when_it_ends() {
    let table = table();
    let mut deleter = HeldLocks::new(&table);
    deleter.lock_all(&mut range("a", "m"), NOW).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| HeldLocks::new(&table).lock(key("b"), LONG).is_ok());
        let other =
            scope.spawn(|| HeldLocks::new(&table).lock_all(&mut range("l", "z"), LONG).is_ok());
        table.await_waiters(2);
        deleter.release();
        assert!(waiter.join().unwrap() && other.join().unwrap());
    });
    assert_eq!((table.len(), table.ranges_len()), (0, 0));
}

#[test]
fn whoever_asks_for_a_key_in_a_range_that_waits_for_him_gives_way() {
    let table = table();
    let mut transaction = HeldLocks::new(&table);
    transaction.lock(key("in"), NOW).unwrap();
    std::thread::scope(|scope| {
        // It enters the range and waits for "in"; the transaction waits for the range, at "io".
        let batch = scope.spawn(|| HeldLocks::new(&table).lock_all(&mut range("i", "j"), LONG));
        table.await_waiters(1);
        // The transaction closes the circle, and so it is the one to give way.
        let outcome = transaction.lock(key("io"), LONG);
        assert!(matches!(outcome, Err(Error::Deadlock { waits, .. }) if waits.len() == 2));
        transaction.release();
        batch.join().unwrap().unwrap();
    });
    assert_eq!((table.len(), table.ranges_len()), (0, 0));
}

#[test]
fn a_batch_that_closes_a_circle_is_not_given_up() {
    let table = table();
    let mut transaction = HeldLocks::new(&table);
    let mut wanted = [key("a"), key("b")];
    wanted.sort_by_key(|key| key.hash);
    let [first, second] = wanted;
    // The batch takes `first` and waits for `second`; the other waits for `first` then.
    transaction.lock(second, NOW).unwrap();
    std::thread::scope(|scope| {
        let mut earlier = HeldLocks::new(&table);
        earlier.lock(first, NOW).unwrap();
        let batch = scope.spawn(|| {
            let mut both = LockRequest::default();
            both.keys.extend([first, second]);
            HeldLocks::new(&table).lock_all(&mut both, LONG)
        });
        table.await_waiters(1);
        // Behind the batch, in the queue for `first`. When the batch gets it, it will wait for us.
        let transaction = scope.spawn(move || {
            let got = transaction.lock(first, LONG);
            (got.is_ok(), transaction)
        });
        table.await_waiters(2);
        earlier.release();
        let (got, mut transaction) = transaction.join().unwrap();
        assert!(got, "the batch gave way");
        transaction.release();
        batch.join().unwrap().unwrap();
    });
    assert_eq!(table.len(), 0);
}

#[test]
fn of_two_keys_with_one_hash_the_one_that_is_meant_is_given_back() {
    let of = |key| LockKey { hash: 7, ..self::key(key) };
    for keys in [["a", "b"], ["b", "a"]] {
        let table = table();
        let mut held = HeldLocks::new(&table);
        let got = keys.map(|key| held.lock(of(key), NOW).unwrap());
        assert_eq!(got, [Acquired::Now; 2]);
        held.unlock_last(of(keys[1]));
        let mut other = HeldLocks::new(&table);
        assert!(is_timeout(&other.lock(of(keys[0]), NOW)));
        assert_eq!(other.lock(of(keys[1]), NOW).unwrap(), Acquired::Now);
    }
}

#[test]
fn a_range_that_closes_a_circle_lets_the_other_go_first() {
    let table = table();
    // A range asks for the keys in it in the order of their shards.
    let mut inside = ["in1", "in2", "in3", "in4"].map(key);
    inside.sort_by_key(|key| (key.hash >> 32) as usize % super::SHARDS);
    let [first, .., second] = inside;
    for _ in 0..50 {
        let (mut earlier, mut transaction) = (HeldLocks::new(&table), HeldLocks::new(&table));
        earlier.lock(first, NOW).unwrap();
        transaction.lock(second, NOW).unwrap();
        std::thread::scope(|scope| {
            let batch = scope.spawn(|| HeldLocks::new(&table).lock_all(&mut range("i", "j"), LONG));
            table.await_waiters(1);
            // It waits for the range. Once the range has `first`, it will wait for us.
            let transaction = scope.spawn(move || {
                let got = transaction.lock(key("io"), LONG);
                (got.is_ok(), transaction)
            });
            table.await_waiters(2);
            earlier.release();
            let (got, mut transaction) = transaction.join().unwrap();
            assert!(got, "the range gave way");
            transaction.release();
            batch.join().unwrap().unwrap();
        });
        assert_eq!((table.len(), table.ranges_len()), (0, 0));
    }
}
