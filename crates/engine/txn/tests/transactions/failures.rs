//! Commits that fail: nothing is written, and no lock stays.

use crate::support::{
    KEYSPACE, Text, all_options, assert_nothing_held, committed, db_on, memory_db,
};
use esker_api::{Keyspaces, TransactionOptions, Transactional};
use esker_base::{Error, Rng};
use esker_lsm::{Db, KeyspaceSettings, Log, SyncPolicy};
use esker_storage::FaultStorage;
use esker_storage::fault::FaultKind;
use esker_txn::TransactionDb;
use std::sync::Arc;

#[test]
fn a_failed_commit_ends_the_transaction_and_writes_nothing() {
    for options in all_options() {
        let db = memory_db();
        let dropped = db.keyspace("dropped", KeyspaceSettings::default()).unwrap();
        let store = TransactionDb::new(db);
        let mut transaction = store.begin(&options).unwrap();
        transaction.write("x", "1").unwrap();
        transaction.put((&dropped).into(), b"y", b"2").unwrap();
        store.store().drop_keyspace(&dropped).unwrap();
        assert!(matches!(transaction.commit(), Err(Error::UnknownKeyspace { .. })));
        assert!(matches!(transaction.commit(), Err(Error::TransactionEnded { .. })));
        assert_eq!(committed(&store, "x"), None);
        assert_nothing_held(&store);
    }
}

/// `spoil` makes the commit of a transaction that holds "x" fail. The next in line gets the lock all the
/// same, and what is committed can be read.
fn commit_fails(db: Db, options: TransactionOptions, spoil: impl Fn(), is_it: fn(&Error) -> bool) {
    db.put(&db.default_keyspace(), b"x", b"old").unwrap();
    let store = TransactionDb::new(db);
    let mut transaction = store.begin(&options).unwrap();
    transaction.read("y");
    transaction.write("x", "1").unwrap();
    std::thread::scope(|scope| {
        spoil();
        let next = scope.spawn(|| {
            let mut next = store.begin(&options).unwrap();
            next.write("x", "2").and_then(|()| next.commit())
        });
        let refused = transaction.commit().unwrap_err();
        assert!(is_it(&refused), "{refused}");
        let refused = next.join().unwrap().unwrap_err();
        assert!(is_it(&refused), "{refused}");
    });
    // A closed database answers no reads either.
    match store.get(KEYSPACE, b"x") {
        Ok(value) => assert_eq!(value.as_deref(), Some(&b"old"[..])),
        Err(error) => assert!(is_it(&error) && matches!(error, Error::Closed), "{error}"),
    }
    assert_nothing_held(&store);
}

#[test]
fn a_commit_after_the_database_was_closed_fails_and_leaves_no_lock() {
    for options in all_options() {
        let db = memory_db();
        let close = || db.clone().close().unwrap();
        commit_fails(db.clone(), options, close, |error| matches!(error, Error::Closed));
    }
}

#[test]
fn a_commit_whose_log_fails_leaves_no_lock() {
    for options in all_options() {
        let disk = FaultStorage::new(Rng::new(1));
        let db = db_on(Arc::new(disk.clone()), Log::File { dir: None, sync: SyncPolicy::Always });
        // Some may strike what goes on in the background.
        let fail = || (0..100).for_each(|calls| disk.fail_after(calls, FaultKind::Io));
        commit_fails(db, options, fail, |error| matches!(error, Error::LogFailed { .. }));
    }
}

/// The database stores an edge key with a byte more, and counts that.
#[test]
fn what_a_transaction_accepts_fits_into_a_batch_whatever_its_keys() {
    let store = TransactionDb::new(memory_db());
    let limit = store.store().batch_limits().entry_bytes;
    let zeroes = vec![0; 127];
    let high = [0xff; 40];
    for key in [&b""[..], &zeroes, &high, b"plain"] {
        let mut refused = 0;
        for value_bytes in (0..=limit).rev() {
            let mut transaction = store.begin(&TransactionOptions::default()).unwrap();
            transaction.set_savepoint().unwrap();
            // Taken back, this one counts no more.
            transaction.put(KEYSPACE, b"", b"").unwrap();
            transaction.rollback_to_savepoint().unwrap();
            if transaction.put(KEYSPACE, key, &vec![1; value_bytes]).is_ok() {
                transaction.commit().unwrap();
                break;
            }
            refused += 1;
        }
        let least = key.len() + 6;
        assert!((least..least + 5).contains(&refused), "{refused} for a key of {}", key.len());
    }
    let mut transaction = store.begin(&TransactionOptions::default()).unwrap();
    let mut many = 0;
    while transaction.put(KEYSPACE, &vec![0; many % 100], &[1; 300]).is_ok() {
        many += 1;
    }
    assert!(many > 100);
    transaction.commit().unwrap();
}
