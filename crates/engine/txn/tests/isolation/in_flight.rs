//! What happens while a commit is on its way: tested, but not visible in the store yet.

use crate::store::Store;
use esker_api::{
    Concurrency, Isolation, KeyspaceRef, Transaction, TransactionOptions, Transactional, WriteBatch,
};
use esker_base::{Error, Result};
use esker_txn::{LockStats, TransactionDb};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEYSPACE: KeyspaceRef = KeyspaceRef::DEFAULT;

const EVERY_WAY: [Concurrency; 2] = [Concurrency::Pessimistic, Concurrency::Optimistic];

/// A store for as long as the process, so that a hook may have transactions of it.
fn store() -> &'static TransactionDb<Store> {
    Box::leak(Box::new(Store::sound()))
}

fn serializable(
    store: &'static TransactionDb<Store>,
    concurrency: Concurrency,
) -> Box<dyn Transaction> {
    let options =
        TransactionOptions::default().isolation(Isolation::Serializable).concurrency(concurrency);
    store.begin(&options).unwrap()
}

/// Runs `write`, and in the middle of it `meanwhile`, whose outcome it gives back as well.
fn amid(
    store: &'static TransactionDb<Store>,
    write: impl FnOnce() -> Result<()>,
    meanwhile: impl FnOnce() -> Result<()> + Send + 'static,
) -> (Result<()>, Result<()>) {
    let outcome = Arc::new(Mutex::new(None));
    let slot = outcome.clone();
    store.store().before_next_write(move || *slot.lock().unwrap() = Some(meanwhile()));
    let written = write();
    let meanwhile = outcome.lock().unwrap().take().expect("the write reached the store");
    (written, meanwhile)
}

/// Two that each read what the other writes, the second of which commits while the first is written.
fn write_skew_amid(read: fn(&mut dyn Transaction, &[u8]), concurrency: Concurrency) {
    let store = store();
    let mut first = serializable(store, concurrency);
    read(&mut *first, b"x");
    first.put(KEYSPACE, b"y", b"1").unwrap();
    // A transaction is of one thread; here that thread is the same.
    let (first_outcome, second_outcome) = amid(
        store,
        move || first.commit(),
        move || {
            let mut second = serializable(store, concurrency);
            read(&mut *second, b"y");
            second.put(KEYSPACE, b"x", b"1").unwrap();
            second.commit()
        },
    );
    first_outcome.unwrap();
    assert!(matches!(second_outcome, Err(Error::Conflict { .. })), "{second_outcome:?}");
    assert_eq!(store.held(), LockStats::default());
}

#[test]
fn a_read_of_what_a_serializable_commit_is_writing_is_a_conflict() {
    for concurrency in EVERY_WAY {
        write_skew_amid(|transaction, key| drop(transaction.get(KEYSPACE, key)), concurrency);
    }
}

#[test]
fn a_scan_of_what_a_serializable_commit_is_writing_is_a_conflict() {
    for concurrency in EVERY_WAY {
        let scan = |transaction: &mut dyn Transaction, key: &[u8]| {
            let mut cursor =
                transaction.cursor(KEYSPACE, esker_api::KeyRange::prefix(key)).unwrap();
            cursor.seek_first().unwrap();
            assert!(cursor.current().is_none());
        };
        write_skew_amid(scan, concurrency);
    }
}

#[test]
fn a_reader_of_what_a_plain_batch_is_writing_comes_before_it() {
    let store = store();
    let mut batch = WriteBatch::new();
    batch.put(KEYSPACE, b"y", b"plain");
    let (written, meanwhile) = amid(
        store,
        || store.write(&batch),
        move || {
            let mut reader = serializable(store, Concurrency::Optimistic);
            assert_eq!(reader.get(KEYSPACE, b"y")?, None);
            reader.put(KEYSPACE, b"x", b"1")?;
            reader.commit()
        },
    );
    written.unwrap();
    meanwhile.unwrap();
}

/// `first` runs and commits; amid its commit, another writes `key`, and would have to wait for it.
fn is_locked_amid_commit(
    isolation: Isolation,
    concurrency: Concurrency,
    first: fn(&mut dyn Transaction) -> Result<()>,
    key: &'static [u8],
) {
    for other in EVERY_WAY {
        let store = store();
        let options = TransactionOptions::default()
            .isolation(isolation)
            .concurrency(concurrency)
            .lock_timeout(Duration::ZERO);
        let mut transaction = store.begin(&options).unwrap();
        first(&mut *transaction).unwrap();
        let (committed, meanwhile) = amid(
            store,
            move || transaction.commit(),
            move || {
                let options = options.concurrency(other);
                let mut late = store.begin(&options)?;
                late.put(KEYSPACE, key, b"late").and_then(|()| late.commit())
            },
        );
        committed.unwrap();
        assert!(matches!(meanwhile, Err(Error::LockTimeout { .. })), "{meanwhile:?}");
        assert_eq!(store.held(), LockStats::default());
    }
}

#[test]
fn a_key_is_locked_until_its_write_is_visible() {
    for isolation in Isolation::ALL {
        for concurrency in EVERY_WAY {
            let write = |transaction: &mut dyn Transaction| transaction.put(KEYSPACE, b"x", b"1");
            is_locked_amid_commit(isolation, concurrency, write, b"x");
        }
    }
}

#[test]
fn what_was_read_for_update_is_locked_until_the_commit_is_visible() {
    for isolation in Isolation::ALL {
        for concurrency in EVERY_WAY {
            let read_and_write = |transaction: &mut dyn Transaction| {
                transaction.get_for_update(KEYSPACE, b"x")?;
                transaction.put(KEYSPACE, b"y", b"1")
            };
            is_locked_amid_commit(isolation, concurrency, read_and_write, b"x");
        }
    }
}

#[test]
fn a_panic_amid_a_commit_leaves_nothing_held() {
    for concurrency in EVERY_WAY {
        let store = store();
        let mut transaction = serializable(store, concurrency);
        transaction.get(KEYSPACE, b"x").unwrap();
        transaction.put(KEYSPACE, b"y", b"1").unwrap();
        store.store().before_next_write(|| {
            assert_eq!(store.held(), LockStats { keys: 1, ranges: 0, commits: 1 });
            std::panic::resume_unwind(Box::new("the store panics"))
        });
        let commit = std::panic::AssertUnwindSafe(move || transaction.commit());
        assert!(std::panic::catch_unwind(commit).is_err());
        assert_eq!(store.held(), LockStats::default());
    }
}
