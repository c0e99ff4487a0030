//! Ends of transactions: commit, rollback, savepoints, and what is refused.

use crate::support::{
    KEYSPACE, Text, all_options, assert_nothing_held, committed, options, store_of,
};
use esker_api::{
    Concurrency, Isolation, KeyRange, Transaction, TransactionOptions, Transactional, WriteBatch,
};
use esker_base::{Error, KeyspaceId, MAX_KEY_BYTES, Result};

#[test]
fn a_commit_shows_all_writes_and_gives_all_locks_back() {
    for options in all_options() {
        let store = store_of(&[("gone", "1")]);
        let mut transaction = store.begin(&options).unwrap();
        transaction.write("a", "1").unwrap();
        transaction.write("b", "2").unwrap();
        transaction.delete(KEYSPACE, b"gone").unwrap();
        assert_eq!(committed(&store, "a"), None);
        transaction.commit().unwrap();
        assert_eq!(committed(&store, "a").unwrap() + &committed(&store, "b").unwrap(), "12");
        assert_eq!(committed(&store, "gone"), None);
        assert_nothing_held(&store);
    }
}

#[test]
fn a_commit_is_one_write_to_the_store() {
    for options in all_options() {
        let store = store_of(&[]);
        let mut transaction = store.begin(&options).unwrap();
        for n in 0..100 {
            transaction.write(&format!("{n}"), "").unwrap();
        }
        let before = store.store().snapshot().seqno();
        transaction.commit().unwrap();
        // Each entry takes one seqno, and nothing else was written in between.
        assert_eq!(store.store().snapshot().seqno(), before + 100);
    }
}

#[test]
fn a_dropped_transaction_is_rolled_back() {
    for options in all_options() {
        let store = store_of(&[("x", "old")]);
        let mut transaction = store.begin(&options).unwrap();
        transaction.write("x", "new").unwrap();
        transaction.read_for_update("y").unwrap();
        drop(transaction);
        assert_eq!(committed(&store, "x").unwrap(), "old");
        assert_nothing_held(&store);
    }
}

#[test]
fn a_panic_gives_all_locks_back() {
    for options in all_options() {
        let store = store_of(&[("x", "old")]);
        let panicked = std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                let mut transaction = store.begin(&options).unwrap();
                transaction.write("x", "new").unwrap();
                transaction.read_for_update("y").unwrap();
                std::panic::resume_unwind(Box::new("the client thread panics"));
            });
            client.join().is_err()
        });
        assert!(panicked);
        assert_eq!(committed(&store, "x").unwrap(), "old");
        assert_nothing_held(&store);
    }
}

/// Everything that can be asked of a transaction.
fn every_call(transaction: &mut dyn Transaction) -> Vec<Result<()>> {
    vec![
        transaction.get(KEYSPACE, b"x").map(drop),
        transaction.get_for_update(KEYSPACE, b"x").map(drop),
        transaction.put(KEYSPACE, b"x", b""),
        transaction.delete(KEYSPACE, b"x"),
        transaction.cursor(KEYSPACE, KeyRange::all()).map(drop),
        transaction.set_savepoint(),
        transaction.rollback_to_savepoint(),
        transaction.commit(),
        transaction.rollback(),
    ]
}

#[test]
fn nothing_can_be_done_after_the_end() {
    type End = fn(&mut dyn Transaction) -> Result<()>;
    let ends: [(End, &str); 2] = [(|t| t.commit(), "committed"), (|t| t.rollback(), "rolled back")];
    for options in all_options() {
        for (end, name) in ends {
            let store = store_of(&[]);
            let mut transaction = store.begin(&options).unwrap();
            transaction.write("x", "1").unwrap();
            end(&mut *transaction).unwrap();
            for outcome in every_call(&mut *transaction) {
                let refused = outcome.unwrap_err();
                assert!(
                    matches!(refused, Error::TransactionEnded { how } if how == name),
                    "{refused}"
                );
            }
            assert_nothing_held(&store);
        }
    }
}

#[test]
fn a_savepoint_undoes_what_was_written_since() {
    for options in all_options() {
        let store = store_of(&[("a", "old")]);
        let mut transaction = store.begin(&options).unwrap();
        transaction.write("a", "1").unwrap();
        transaction.set_savepoint().unwrap();
        transaction.write("a", "2").unwrap();
        transaction.set_savepoint().unwrap();
        transaction.delete(KEYSPACE, b"a").unwrap();
        transaction.write("b", "3").unwrap();
        assert_eq!(transaction.scan("a", "z"), ["b=3"]);
        transaction.rollback_to_savepoint().unwrap();
        assert_eq!(transaction.scan("a", "z"), ["a=2"]);
        transaction.rollback_to_savepoint().unwrap();
        assert_eq!(transaction.scan("a", "z"), ["a=1"]);
        assert!(matches!(transaction.rollback_to_savepoint(), Err(Error::NoSavepoint)));
        transaction.write("c", "4").unwrap();
        transaction.commit().unwrap();
        assert_eq!(committed(&store, "a").unwrap() + &committed(&store, "c").unwrap(), "14");
        assert_eq!(committed(&store, "b"), None);
        assert_nothing_held(&store);
    }
}

#[test]
fn what_can_not_be_written_is_refused_when_it_is_put() {
    for options in all_options() {
        let store = store_of(&[]);
        let mut transaction = store.begin(&options).unwrap();
        transaction.write("good", "1").unwrap();
        let long = vec![1; MAX_KEY_BYTES + 1];
        assert!(matches!(transaction.delete(KEYSPACE, &long), Err(Error::KeyTooLong { .. })));
        let nowhere = transaction.put(KeyspaceId(99).into(), b"k", b"");
        assert!(matches!(nowhere, Err(Error::UnknownKeyspace { .. })));
        let huge = vec![1; 1 << 20];
        let too_large = transaction.put(KEYSPACE, b"k", &huge);
        assert!(matches!(too_large, Err(Error::ValueTooLarge { .. })));
        // The rest of it is as it was.
        transaction.commit().unwrap();
        assert_eq!(committed(&store, "good").unwrap(), "1");
        assert_nothing_held(&store);
    }
}

#[test]
fn a_transaction_takes_as_much_as_a_batch_and_no_more() {
    let options = TransactionOptions::default();
    for value in [&[7; 0][..], &[7; 1000]] {
        let store = store_of(&[]);
        let mut transaction = store.begin(&options).unwrap();
        let mut taken = 0;
        let refused = loop {
            match transaction.put(KEYSPACE, format!("{taken}").as_bytes(), value) {
                Ok(()) => taken += 1,
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, Error::BatchTooLarge { .. }), "{refused}");
        assert!(taken > 50);
        transaction.commit().unwrap();
        assert!(committed(&store, &format!("{}", taken - 1)).is_some());
        assert_eq!(committed(&store, &format!("{taken}")), None);
    }
}

#[test]
fn a_key_that_was_found_changed_is_not_held_and_is_tested_again() {
    let store = store_of(&[("x", "0"), ("y", "0")]);
    let pessimistic = options(Isolation::Snapshot, Concurrency::Pessimistic);
    let mut transaction = store.begin(&pessimistic).unwrap();
    transaction.read("y");
    let mut other = store.begin(&pessimistic).unwrap();
    other.write("x", "1").unwrap();
    other.commit().unwrap();
    for _ in 0..2 {
        assert!(matches!(transaction.write("x", "2"), Err(Error::Conflict { .. })));
        assert_nothing_held(&store);
    }
}

#[test]
fn a_keyspace_of_another_store_is_refused_by_every_call() {
    let (store, other) = (store_of(&[("k", "mine")]), store_of(&[("k", "theirs")]));
    let foreign = other.keyspace("default").unwrap();
    let refused = |answer: Result<()>| {
        assert!(matches!(answer, Err(Error::ForeignHandle { .. })), "{answer:?}");
    };
    refused(store.get(foreign, b"k").map(drop));
    refused(store.cursor(foreign, KeyRange::all()).map(drop));
    let mut batch = WriteBatch::new();
    batch.put(foreign, b"k", b"foreign");
    refused(store.write(&batch));
    for options in all_options() {
        let mut transaction = store.begin(&options).unwrap();
        refused(transaction.get(foreign, b"k").map(drop));
        refused(transaction.get_for_update(foreign, b"k").map(drop));
        refused(transaction.put(foreign, b"k", b"foreign"));
        refused(transaction.delete(foreign, b"k"));
        refused(transaction.cursor(foreign, KeyRange::all()).map(drop));
        transaction.commit().unwrap();
        assert_nothing_held(&store);
    }
    assert_eq!(committed(&store, "k").unwrap(), "mine");
}

#[test]
fn the_empty_key_and_keys_of_zeroes_are_keys_like_others() {
    for options in all_options() {
        let store = store_of(&[("\0", "old"), ("a", "1")]);
        let mut transaction = store.begin(&options).unwrap();
        assert_eq!(transaction.scan("", "b"), ["\\x00=old", "a=1"]);
        transaction.write("", "empty").unwrap();
        transaction.write("\0\0", "two").unwrap();
        assert_eq!(transaction.read_for_update("").unwrap().unwrap(), "empty");
        transaction.set_savepoint().unwrap();
        transaction.delete(KEYSPACE, b"\0").unwrap();
        assert_eq!(transaction.scan("", "b"), ["=empty", "\\x00\\x00=two", "a=1"]);
        transaction.rollback_to_savepoint().unwrap();
        transaction.commit().unwrap();
        assert_eq!(committed(&store, "").unwrap(), "empty");
        assert_eq!(committed(&store, "\0").unwrap(), "old");
        assert_eq!(committed(&store, "\0\0").unwrap(), "two");
        assert_nothing_held(&store);
    }
}

#[test]
fn two_transactions_that_write_the_empty_key_conflict() {
    for concurrency in [Concurrency::Pessimistic, Concurrency::Optimistic] {
        let store = store_of(&[("", "0"), ("\0", "0")]);
        let options = options(Isolation::Snapshot, concurrency);
        let mut first = store.begin(&options).unwrap();
        first.read("");
        let mut second = store.begin(&options).unwrap();
        second.write("", "2").unwrap();
        second.commit().unwrap();
        let late = first.write("", "1").and_then(|()| first.commit());
        assert!(matches!(late, Err(Error::Conflict { .. })), "{late:?}");
        // The keys beside it are others.
        let mut third = store.begin(&options).unwrap();
        third.read("");
        let mut fourth = store.begin(&options).unwrap();
        fourth.write("\0", "4").unwrap();
        fourth.commit().unwrap();
        third.write("", "3").unwrap();
        third.commit().unwrap();
    }
}
