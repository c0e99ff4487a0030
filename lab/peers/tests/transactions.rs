//! RocksDB's transactions behind our traits: what the loads rely on. Each behaviour is the one that
//! `esker_api::Transaction` promises.

#![cfg(feature = "rocksdb")]

use esker_api::{
    Concurrency, Isolation, KeyRange, KeyspaceRef, Transaction, TransactionOptions, Transactional,
    WriteBatch,
};
use esker_base::{Error, KeyspaceId, Result, SystemClock};
use esker_peers::{PeerLog, PeerSettings, TransactionalPeer, open_transactional};
use esker_storage::Device;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn opened(dir: &Path) -> Box<dyn TransactionalPeer> {
    open_transactional(dir, &PeerSettings::default(), &PeerLog::None).unwrap()
}

/// Runs `body` on a new store with a keyspace.
fn with_store(body: impl FnOnce(&dyn Transactional, KeyspaceRef)) {
    let dir = tempfile::tempdir().unwrap();
    let peer = opened(dir.path());
    let store = peer.transactional();
    body(store, store.keyspace("accounts").unwrap());
}

fn begin(store: &dyn Transactional) -> Box<dyn Transaction + '_> {
    store.begin(&TransactionOptions::default()).unwrap()
}

/// One that does not wait for locks.
fn impatient() -> TransactionOptions {
    TransactionOptions::default().lock_timeout(Duration::ZERO)
}

fn set(store: &dyn Transactional, keyspace: KeyspaceRef, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(keyspace, key, value);
    store.write(&batch).unwrap();
}

fn value(found: Result<Option<esker_api::Value>>) -> Option<Vec<u8>> {
    found.unwrap().map(|value| value.to_vec())
}

#[test]
fn writes_are_seen_by_themselves_at_once_and_by_others_after_the_commit() {
    with_store(|store, keyspace| {
        let mut transaction = begin(store);
        transaction.put(keyspace, b"a", b"1").unwrap();
        assert_eq!(value(transaction.get(keyspace, b"a")), Some(b"1".to_vec()));
        assert_eq!(value(store.get(keyspace, b"a")), None);
        transaction.commit().unwrap();
        assert_eq!(value(store.get(keyspace, b"a")), Some(b"1".to_vec()));
    });
}

#[test]
fn a_transaction_reads_as_of_its_beginning() {
    with_store(|store, keyspace| {
        set(store, keyspace, b"a", b"old");
        let mut transaction = begin(store);
        set(store, keyspace, b"a", b"new");
        set(store, keyspace, b"b", b"new");
        assert_eq!(value(transaction.get(keyspace, b"a")), Some(b"old".to_vec()));
        let mut cursor = transaction.cursor(keyspace, KeyRange::all()).unwrap();
        cursor.seek_first().unwrap();
        assert_eq!(cursor.current(), Some((&b"a"[..], &b"old"[..])));
        cursor.next().unwrap();
        assert_eq!(cursor.current(), None);
    });
}

#[test]
fn read_committed_reads_what_is_committed_then() {
    with_store(|store, keyspace| {
        set(store, keyspace, b"a", b"old");
        let isolation = Isolation::ReadCommitted;
        let options = TransactionOptions::default().isolation(isolation);
        let mut transaction = store.begin(&options).unwrap();
        set(store, keyspace, b"a", b"new");
        assert_eq!(value(transaction.get(keyspace, b"a")), Some(b"new".to_vec()));
    });
}

#[test]
fn what_others_wrote_since_the_beginning_is_a_conflict() {
    with_store(|store, keyspace| {
        for write in [true, false] {
            let mut transaction = begin(store);
            set(store, keyspace, b"a", b"newer");
            let refused = match write {
                true => transaction.put(keyspace, b"a", b"1").unwrap_err(),
                false => transaction.get_for_update(keyspace, b"a").unwrap_err(),
            };
            assert!(matches!(&refused, Error::Conflict { key } if key == "a"), "{refused}");
            assert!(refused.is_transient());
        }
    });
}

#[test]
fn a_key_that_another_read_for_update_is_locked() {
    with_store(|store, keyspace| {
        let mut first = begin(store);
        assert_eq!(value(first.get_for_update(keyspace, b"a")), None);
        let mut second = store.begin(&impatient()).unwrap();
        let refused = second.put(keyspace, b"a", b"2").unwrap_err();
        assert!(matches!(&refused, Error::LockTimeout { key, .. } if key == "a"), "{refused}");
        first.rollback().unwrap();
        second.put(keyspace, b"a", b"2").unwrap();
        second.commit().unwrap();
    });
}

#[test]
fn of_two_that_wait_for_each_other_one_is_given_up() {
    with_store(|store, keyspace| {
        let barrier = std::sync::Barrier::new(2);
        let one = |first: &[u8], second: &[u8]| {
            let mut transaction = begin(store);
            transaction.put(keyspace, first, b"1").unwrap();
            barrier.wait();
            transaction.put(keyspace, second, b"1").and_then(|()| transaction.commit())
        };
        let (a, b) = std::thread::scope(|scope| {
            let other = scope.spawn(|| one(b"b", b"a"));
            (one(b"a", b"b"), other.join().unwrap())
        });
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        let error = a.and(b).unwrap_err();
        // Who waits may find that the other committed a key of its own after its beginning.
        assert!(matches!(error, Error::Deadlock { .. } | Error::Conflict { .. }), "{error}");
    });
}

#[test]
fn a_savepoint_undoes_what_came_after_it() {
    with_store(|store, keyspace| {
        let mut transaction = begin(store);
        assert!(matches!(transaction.rollback_to_savepoint(), Err(Error::NoSavepoint)));
        transaction.put(keyspace, b"a", b"1").unwrap();
        transaction.set_savepoint().unwrap();
        transaction.delete(keyspace, b"a").unwrap();
        transaction.put(keyspace, b"b", b"1").unwrap();
        transaction.rollback_to_savepoint().unwrap();
        transaction.commit().unwrap();
        assert_eq!(value(store.get(keyspace, b"a")), Some(b"1".to_vec()));
        assert_eq!(value(store.get(keyspace, b"b")), None);
    });
}

#[test]
fn after_its_end_a_transaction_takes_nothing() {
    with_store(|store, keyspace| {
        for commit in [true, false] {
            let mut transaction = begin(store);
            transaction.put(keyspace, b"a", b"1").unwrap();
            let how = match commit {
                true => transaction.commit().map(|()| "committed"),
                false => transaction.rollback().map(|()| "rolled back"),
            };
            let how = how.unwrap();
            for ended in [
                transaction.put(keyspace, b"b", b"1"),
                transaction.get(keyspace, b"a").map(drop),
                transaction.commit(),
                transaction.rollback(),
            ] {
                assert_eq!(
                    ended.unwrap_err().to_string(),
                    Error::TransactionEnded { how }.to_string()
                );
            }
        }
    });
}

#[test]
fn what_is_not_offered_is_refused() {
    with_store(|store, keyspace| {
        let default = TransactionOptions::default();
        for options in [
            default.isolation(Isolation::Serializable),
            default.concurrency(Concurrency::Optimistic),
        ] {
            let refused = store.begin(&options).err().unwrap().to_string();
            assert!(refused.contains("TransactionDB"), "{refused}");
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(keyspace, b"a"..b"b");
        assert!(store.write(&batch).is_err());
        assert!(matches!(
            store.get(KeyspaceId(9).into(), b"a"),
            Err(Error::UnknownKeyspace { .. })
        ));
    });
}

#[test]
fn keyspaces_and_what_was_flushed_are_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..2u8 {
        let peer = opened(dir.path());
        let store = peer.transactional();
        for name in ["nodes", "links"] {
            let keyspace = store.keyspace(name).unwrap();
            assert_eq!(store.keyspace(name).unwrap(), keyspace);
            assert_eq!(value(store.get(keyspace, b"name")).is_some(), round == 1);
            set(store, keyspace, b"name", name.as_bytes());
        }
        peer.flush().unwrap();
        peer.settle().unwrap();
    }
}

#[test]
fn a_commit_is_one_sync_of_the_log_and_survives_in_it() {
    let (dir, log_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let device = Device::real(Arc::new(SystemClock::new()));
    let log = PeerLog::Synced { dir: log_dir.path().to_owned(), device: device.clone() };
    let open = || open_transactional(dir.path(), &PeerSettings::default(), &log).unwrap();
    {
        let peer = open();
        let keyspace = peer.transactional().keyspace("accounts").unwrap();
        let before = (device.served(), peer.written());
        let mut transaction = begin(peer.transactional());
        for number in 0..10u8 {
            transaction.put(keyspace, &[number], &[7; 100]).unwrap();
        }
        transaction.commit().unwrap();
        let after = (device.served(), peer.written());
        assert_eq!(after.0.syncs - before.0.syncs, 1);
        let (on_device, counted) = (
            after.0.bytes - before.0.bytes,
            after.1.log_bytes.unwrap() - before.1.log_bytes.unwrap(),
        );
        assert!(on_device.abs_diff(counted) < 64, "{on_device} on the device, {counted} counted");
        assert_eq!(after.1.user_bytes.unwrap() - before.1.user_bytes.unwrap(), 10 * 105);
    }
    let peer = open();
    let keyspace = peer.transactional().keyspace("accounts").unwrap();
    assert_eq!(value(peer.transactional().get(keyspace, &[3])), Some(vec![7; 100]));
}
