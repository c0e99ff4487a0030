//! Calls that are transactions as a whole.

use super::{impatient, letters};
use esker::transaction::Concurrency;
use esker::{Error, TransactionOptions};
use std::sync::Barrier;

/// An application's errors.
#[derive(Debug)]
enum Failure {
    Poor,
    Store(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error.to_string())
    }
}

#[test]
fn an_error_of_the_application_ends_a_transaction_at_once() {
    let (_dir, db, keyspace) = letters();
    let mut runs = 0;
    let failed = db.try_transact(|tx| -> Result<(), Failure> {
        runs += 1;
        tx.put(&keyspace, "a", "lost")?;
        Err(Failure::Poor)
    });
    assert!(matches!(failed, Err(Failure::Poor)) && runs == 1, "{runs}: {failed:?}");
    let done = db.try_transact_with(impatient(), |tx| -> Result<u8, Failure> {
        tx.put(&keyspace, "b", "kept")?;
        Ok(7)
    });
    assert!(matches!(done, Ok(7)));
    assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(keyspace.get("b").unwrap().as_deref(), Some(&b"kept"[..]));
}

#[test]
fn a_conflict_is_tried_again_whatever_error_the_application_makes_of_it() {
    let (_dir, db, keyspace) = letters();
    for concurrency in [Concurrency::Pessimistic, Concurrency::Optimistic] {
        let options = TransactionOptions::default().concurrency(concurrency);
        let mut runs = 0;
        let seen = db.try_transact_with(options, |tx| -> Result<_, Failure> {
            runs += 1;
            let seen = tx.get(&keyspace, "a")?;
            if runs == 1 {
                keyspace.put("a", "theirs")?;
            }
            tx.put(&keyspace, "a", "ours")?;
            Ok(seen)
        });
        assert_eq!((seen.unwrap().as_deref(), runs), (Some(&b"theirs"[..]), 2));
        assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b"ours"[..]));
    }
}

#[test]
fn attempts_with_errors_of_the_application_are_bounded() {
    let (_dir, db, keyspace) = letters();
    let mut holder = db.transaction().unwrap();
    holder.delete(&keyspace, "a").unwrap();
    let mut runs = 0;
    let failed = db.try_transact_with(impatient(), |tx| -> Result<(), Failure> {
        runs += 1;
        Ok(tx.delete(&keyspace, "a")?)
    });
    assert!(matches!(&failed, Err(Failure::Store(what)) if what.contains("lock")), "{failed:?}");
    assert_eq!(runs, 3);
    db.clone().close().unwrap();
    let failed = db.try_transact(|_| -> Result<(), Failure> { panic!("there is no transaction") });
    assert!(matches!(failed, Err(Failure::Store(_))));
}

#[test]
fn a_key_is_put_once_if_it_is_absent() {
    let (_dir, db, keyspace) = letters();
    let begin = Barrier::new(4);
    let put = &|value: u8| {
        begin.wait();
        db.put_if_absent(&keyspace, "once", [value]).unwrap()
    };
    let answers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|value| scope.spawn(move || put(value))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let stored = answers.iter().position(Option::is_none).expect("one of them stored it");
    let value = [stored as u8];
    assert_eq!(keyspace.get("once").unwrap().as_deref(), Some(&value[..]));
    let others = answers.iter().flatten();
    assert!(others.clone().count() == 3 && others.clone().all(|other| **other == value));

    keyspace.delete("once").unwrap();
    assert_eq!(db.put_if_absent(&keyspace, "once", "again").unwrap(), None);
    assert_eq!(db.put_if_absent(&keyspace, "a", "lost").unwrap().as_deref(), Some(&b""[..]));
}

#[test]
fn a_put_if_absent_waits_for_transactions_and_sees_their_writes() {
    let (_dir, db, keyspace) = letters();
    let mut holder = db.transaction().unwrap();
    assert_eq!(holder.put_if_absent(&keyspace, "k", "first").unwrap(), None);
    let own = holder.put_if_absent(&keyspace, "k", "second").unwrap();
    assert_eq!(own.as_deref(), Some(&b"first"[..]));
    let mut other = db.transaction_with(impatient()).unwrap();
    let blocked = other.put_if_absent(&keyspace, "k", "theirs");
    assert!(matches!(blocked, Err(Error::LockTimeout { .. })));
    let answer = std::thread::scope(|scope| {
        let waits = scope.spawn(|| db.put_if_absent(&keyspace, "k", "theirs"));
        holder.commit().unwrap();
        waits.join().unwrap().unwrap()
    });
    assert_eq!(answer.as_deref(), Some(&b"first"[..]));

    // A present key may be about to change: it is locked, too.
    let mut holder = db.transaction().unwrap();
    holder.delete(&keyspace, "k").unwrap();
    let mut other = db.transaction_with(impatient()).unwrap();
    let blocked = other.put_if_absent(&keyspace, "k", "theirs");
    assert!(matches!(blocked, Err(Error::LockTimeout { .. })));
    holder.rollback();

    // What the transaction has deleted is absent.
    let mut tx = db.transaction().unwrap();
    tx.delete(&keyspace, "k").unwrap();
    assert_eq!(tx.put_if_absent(&keyspace, "k", "new").unwrap(), None);
    tx.commit().unwrap();
    assert_eq!(keyspace.get("k").unwrap().as_deref(), Some(&b"new"[..]));
}
