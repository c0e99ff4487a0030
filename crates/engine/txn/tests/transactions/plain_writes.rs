//! Batches outside of transactions take part: they wait for locks, and count as changes.

use crate::support::{
    BOTH, KEYSPACE, Text, assert_nothing_held, committed, memory_db, options, store_of,
};
use esker_api::Concurrency::Pessimistic;
use esker_api::Isolation::{ReadCommitted, Serializable, Snapshot};
use esker_api::{Transactional, WriteBatch};
use esker_base::Error;

fn put(key: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(KEYSPACE, key.as_bytes(), b"plain");
    batch
}

fn range_delete(start: &str, end: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.delete_range(KEYSPACE, start..end);
    batch
}

/// `batch` waits for a transaction that has read `key` for update, and comes after it.
fn waits_for_holder(key: &str, batch: &WriteBatch) {
    let store = store_of(&[(key, "old")]);
    let mut holder = store.begin(&options(Snapshot, Pessimistic)).unwrap();
    assert_eq!(holder.read_for_update(key).unwrap().unwrap(), "old");
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| {
            loop {
                match store.write(batch) {
                    // The holder's thread got no processor for so long.
                    Err(Error::LockTimeout { .. }) => {}
                    written => break written,
                }
            }
        });
        std::thread::yield_now();
        holder.write(key, "the holder's").unwrap();
        holder.commit().unwrap();
        plain.join().unwrap().unwrap();
    });
    assert_ne!(committed(&store, key).as_deref(), Some("the holder's"));
    assert_nothing_held(&store);
}

#[test]
fn a_put_waits_for_the_holder_of_its_key() {
    for _ in 0..20 {
        waits_for_holder("k", &put("k"));
    }
}

#[test]
fn a_range_delete_waits_for_the_holders_of_keys_in_it() {
    for _ in 0..20 {
        waits_for_holder("k", &range_delete("j", "l"));
    }
}

#[test]
fn a_range_delete_does_not_wait_for_the_holder_of_another_key() {
    let store = store_of(&[]);
    let mut holder = store.begin(&options(Snapshot, Pessimistic)).unwrap();
    holder.write("a", "1").unwrap();
    holder.write("l", "1").unwrap();
    store.write(&range_delete("b", "l")).unwrap();
    holder.commit().unwrap();
    assert_nothing_held(&store);
}

#[test]
fn a_write_to_what_a_plain_batch_changed_since_is_a_conflict() {
    for batch in [put("k"), range_delete("a", "z")] {
        for way in BOTH {
            let store = store_of(&[("k", "old"), ("other", "old")]);
            let mut transaction = store.begin(&options(Snapshot, way)).unwrap();
            transaction.read("other");
            store.write(&batch).unwrap();
            let outcome = transaction.write("k", "new").and_then(|()| transaction.commit());
            assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn a_serializable_read_of_what_a_plain_batch_changed_since_is_a_conflict() {
    for batch in [put("k"), range_delete("j", "l")] {
        for way in BOTH {
            for by_cursor in [false, true] {
                let store = store_of(&[("k", "old")]);
                let mut transaction = store.begin(&options(Serializable, way)).unwrap();
                match by_cursor {
                    true => drop(transaction.scan("k", "kz")),
                    false => drop(transaction.read("k")),
                }
                store.write(&batch).unwrap();
                transaction.write("elsewhere", "new").unwrap();
                let outcome = transaction.commit();
                assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
            }
        }
    }
}

#[test]
fn a_refused_batch_leaves_no_lock() {
    let store = store_of(&[]);
    let mut batch = put("k");
    batch.delete_range(KEYSPACE, b"z"..b"a");
    assert!(matches!(store.write(&batch), Err(Error::EmptyRange)));
    assert_nothing_held(&store);
}

#[test]
fn writes_after_a_snapshot_that_a_transaction_is_given_conflict() {
    for (level, way) in
        [ReadCommitted, Snapshot].into_iter().flat_map(|it| BOTH.map(|way| (it, way)))
    {
        let db = memory_db();
        let (snapshot, keyspace) = (db.snapshot(), db.default_keyspace());
        keyspace.put("k", "theirs").unwrap();
        let mut transaction = db.transaction_with(options(level, way)).unwrap();
        transaction.set_snapshot(&snapshot).unwrap();
        let put = transaction.put(&keyspace, "k", "ours");
        let outcome = put.and_then(|()| transaction.commit());
        assert!(matches!(outcome, Err(Error::Conflict { .. })), "{level}: {outcome:?}");
    }
}

#[test]
fn a_transaction_that_has_read_at_a_snapshot_takes_no_other() {
    let db = memory_db();
    let mut transaction = db.transaction_with(options(Snapshot, Pessimistic)).unwrap();
    transaction.get(&db.default_keyspace(), "k").unwrap();
    let outcome = transaction.set_snapshot(&db.snapshot());
    assert!(matches!(outcome, Err(Error::InvalidSetting { .. })), "{outcome:?}");
    let foreign = memory_db().snapshot();
    let mut transaction = db.transaction_with(options(ReadCommitted, Pessimistic)).unwrap();
    assert!(transaction.set_snapshot(&foreign).is_err());
}
