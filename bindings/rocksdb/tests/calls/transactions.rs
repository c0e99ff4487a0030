//! Transactions: snapshots, timeouts, iterators, and writes outside of them.

use crate::c::*;
use crate::path;
use std::ffi::c_char;
use std::ptr::null_mut;
use tempfile::TempDir;

/// A database of pessimistic transactions.
struct Pessimistic {
    options: P,
    of_db: P,
    read: P,
    write: P,
    /// Transactions wait for no lock.
    of_one: P,
    db: P,
    _dir: TempDir,
}

impl Pessimistic {
    fn new(change: impl FnOnce(P)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (options, of_db) = (rocksdb_options_create(), rocksdb_transactiondb_options_create());
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_transactiondb_options_set_default_lock_timeout(of_db, 0);
        rocksdb_transactiondb_options_set_transaction_lock_timeout(of_db, 0);
        change(of_db);
        let name = path(dir.path());
        let open = |error| rocksdb_transactiondb_open(options, of_db, name.as_ptr(), error);
        let db = with_error(open).unwrap();
        let (read, write) = (rocksdb_readoptions_create(), rocksdb_writeoptions_create());
        let of_one = rocksdb_transaction_options_create();
        Pessimistic { options, of_db, read, write, of_one, db, _dir: dir }
    }

    fn begin(&self) -> P {
        rocksdb_transaction_begin(self.db, self.write, self.of_one, null_mut())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (key, length, call) = (start(key), key.len(), rocksdb_transactiondb_put);
        with_error(|error| call(self.db, self.write, key, length, start(value), value.len(), error))
    }

    fn write(&self, batch: P) -> Result<(), String> {
        with_error(|error| rocksdb_transactiondb_write(self.db, self.write, batch, error))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut length = 0;
        let (db, read, at) = (self.db, self.read, start(key));
        let get = |error| rocksdb_transactiondb_get(db, read, at, key.len(), &mut length, error);
        let got = with_error(get).unwrap();
        taken(got, length)
    }
}

impl Drop for Pessimistic {
    fn drop(&mut self) {
        rocksdb_transactiondb_close(self.db);
        rocksdb_transaction_options_destroy(self.of_one);
        rocksdb_writeoptions_destroy(self.write);
        rocksdb_readoptions_destroy(self.read);
        rocksdb_transactiondb_options_destroy(self.of_db);
        rocksdb_options_destroy(self.options);
    }
}

fn put_in(transaction: P, key: &[u8], value: &[u8]) -> Result<(), String> {
    let (key, length, call) = (start(key), key.len(), rocksdb_transaction_put);
    with_error(|error| call(transaction, key, length, start(value), value.len(), error))
}

fn end(transaction: P, call: extern "C" fn(P, *mut *mut c_char)) -> Result<(), String> {
    with_error(|error| call(transaction, error))
}

#[test]
fn the_snapshot_of_a_transaction_outlives_its_rollback() {
    let store = Pessimistic::new(|_| {});
    store.put(b"k", b"old").unwrap();
    rocksdb_transaction_options_set_set_snapshot(store.of_one, 1);
    let transaction = store.begin();
    let snapshot = rocksdb_transaction_get_snapshot(transaction);
    store.put(b"k", b"new").unwrap();
    end(transaction, rocksdb_transaction_rollback).unwrap();
    rocksdb_readoptions_set_snapshot(store.read, snapshot);
    assert_eq!(store.get(b"k"), Some(b"old".to_vec()));
    // Later writes are checked against it, too.
    let error = put_in(transaction, b"k", b"mine").unwrap_err();
    assert!(error.starts_with("Resource busy: "), "{error}");
    rocksdb_free(snapshot);
    rocksdb_transaction_destroy(transaction);
}

#[test]
fn an_iterator_of_a_transaction_sees_later_writes() {
    let store = Pessimistic::new(|_| {});
    store.put(b"a", b"").unwrap();
    store.put(b"m", b"").unwrap();
    let transaction = store.begin();
    put_in(transaction, b"x", b"").unwrap();
    let iterator = rocksdb_transaction_create_iterator(transaction, store.read);
    rocksdb_iter_seek_to_first(iterator);
    assert_eq!(key_of(iterator), b"a");
    // Between the current entry and the next, and beyond it.
    put_in(transaction, b"k", b"").unwrap();
    put_in(transaction, b"z", b"").unwrap();
    let delete = |error| rocksdb_transaction_delete(transaction, start(b"m"), 1, error);
    with_error(delete).unwrap();
    for key in [b"k", b"x", b"z"] {
        rocksdb_iter_next(iterator);
        assert_eq!(key_of(iterator), key);
    }
    end(transaction, rocksdb_transaction_rollback).unwrap();
    rocksdb_iter_seek(iterator, start(b"b"), 1);
    assert_eq!(key_of(iterator), b"m", "its writes were rolled back");
    rocksdb_iter_destroy(iterator);
    rocksdb_transaction_destroy(transaction);
}

#[test]
fn an_iterator_that_has_no_own_writes_ahead_does_not_see_later_ones() {
    let store = Pessimistic::new(|_| {});
    store.put(b"a", b"").unwrap();
    store.put(b"m", b"").unwrap();
    let transaction = store.begin();
    let iterator = rocksdb_transaction_create_iterator(transaction, store.read);
    rocksdb_iter_seek_to_first(iterator);
    put_in(transaction, b"z", b"").unwrap();
    rocksdb_iter_next(iterator);
    assert_eq!(key_of(iterator), b"m");
    rocksdb_iter_next(iterator);
    assert_eq!(rocksdb_iter_valid(iterator), 0);
    rocksdb_iter_seek(iterator, start(b"n"), 1);
    assert_eq!(key_of(iterator), b"z");
    rocksdb_iter_destroy(iterator);
    rocksdb_transaction_destroy(transaction);
}

#[test]
fn a_batch_with_a_range_delete_does_not_pass_locks_by() {
    let store = Pessimistic::new(|_| {});
    let transaction = store.begin();
    put_in(transaction, b"k", b"mine").unwrap();
    let batch = rocksdb_writebatch_create();
    rocksdb_writebatch_delete_range(batch, start(b"x"), 1, start(b"y"), 1);
    rocksdb_writebatch_put(batch, start(b"k"), 1, start(b"theirs"), 6);
    let error = store.write(batch).unwrap_err();
    assert!(error.starts_with("Invalid argument: "), "{error}");
    assert_eq!(store.get(b"k"), None);
    rocksdb_writebatch_destroy(batch);
    rocksdb_transaction_destroy(transaction);
}

#[test]
fn transactions_have_a_timeout_of_their_own() {
    // A write outside of transactions would wait as good as permanently.
    let store = Pessimistic::new(|of_db| {
        rocksdb_transactiondb_options_set_default_lock_timeout(of_db, -1);
    });
    let (first, second) = (store.begin(), store.begin());
    put_in(first, b"k", b"1").unwrap();
    let error = put_in(second, b"k", b"2").unwrap_err();
    assert!(error.starts_with("Operation timed out: "), "{error}");
    [first, second].into_iter().for_each(|it| rocksdb_transaction_destroy(it));
}

#[test]
fn batches_lock_their_keys_in_one_order() {
    let store = Pessimistic::new(|of_db| {
        rocksdb_transactiondb_options_set_default_lock_timeout(of_db, -1);
    });
    let write = |keys: [&[u8]; 2]| {
        let batch = rocksdb_writebatch_create();
        for key in keys {
            rocksdb_writebatch_put(batch, start(key), 1, start(b"v"), 1);
        }
        for _ in 0..200 {
            store.write(batch).unwrap();
        }
        rocksdb_writebatch_destroy(batch);
    };
    // Pointers are not `Sync`; the library is.
    struct Shared<T>(T);
    // SAFETY: a database may be used by several threads, as `c.h` says.
    unsafe impl<T> Sync for Shared<T> {}
    impl<T> Shared<T> {
        fn get(&self) -> &T {
            &self.0
        }
    }
    let write = Shared(write);
    std::thread::scope(|scope| {
        scope.spawn(|| write.get()([b"a", b"b"]));
        scope.spawn(|| write.get()([b"b", b"a"]));
    });
    assert_eq!(store.get(b"a"), Some(b"v".to_vec()));
}

#[test]
fn a_read_for_update_reads_with_its_options() {
    let store = Pessimistic::new(|_| {});
    store.put(b"k", b"1").unwrap();
    let snapshot = rocksdb_transactiondb_create_snapshot(store.db);
    store.put(b"k", b"2").unwrap();
    rocksdb_readoptions_set_snapshot(store.read, snapshot);
    let (transaction, mut length) = (store.begin(), 0);
    let got = with_error(|error| {
        let call = rocksdb_transaction_get_for_update;
        call(transaction, store.read, start(b"k"), 1, &mut length, 1, error)
    });
    assert_eq!(taken(got.unwrap(), length), Some(b"1".to_vec()));
    rocksdb_transaction_destroy(transaction);
    rocksdb_transactiondb_release_snapshot(store.db, snapshot);
}

#[test]
fn a_key_in_a_message_does_not_change_the_kind_of_the_error() {
    let store = Pessimistic::new(|_| {});
    let transaction = store.begin();
    put_in(transaction, b"merge operator", b"").unwrap();
    let error = store.put(b"merge operator", b"").unwrap_err();
    assert!(error.starts_with("Operation timed out: "), "{error}");
    rocksdb_transaction_destroy(transaction);
}

#[test]
fn a_name_that_cannot_be_prepared_is_refused_and_nothing_is_lost() {
    let store = Pessimistic::new(|_| {});
    let transaction = store.begin();
    put_in(transaction, b"k", b"v").unwrap();
    let name = [b'n'; 256];
    let set = |error| rocksdb_transaction_set_name(transaction, start(&name), name.len(), error);
    let error = with_error(set).unwrap_err();
    assert!(error.starts_with("Invalid argument: "), "{error}");
    end(transaction, rocksdb_transaction_commit).unwrap();
    assert_eq!(store.get(b"k"), Some(b"v".to_vec()));
    rocksdb_transaction_destroy(transaction);
}

#[test]
fn an_expired_transaction_does_not_commit() {
    let store = Pessimistic::new(|_| {});
    let transaction = store.begin();
    put_in(transaction, b"k", b"v").unwrap();
    end(transaction, rocksdb_transaction_commit).unwrap();
    rocksdb_transaction_options_set_expiration(store.of_one, 0);
    let expired = rocksdb_transaction_begin(store.db, store.write, store.of_one, transaction);
    let error = end(expired, rocksdb_transaction_commit).unwrap_err();
    assert!(error.starts_with("Operation expired: "), "{error}");
    rocksdb_transaction_destroy(expired);
}

#[test]
fn a_transaction_keeps_its_limit_of_bytes() {
    let store = Pessimistic::new(|_| {});
    rocksdb_transaction_options_set_max_write_batch_size(store.of_one, 100);
    let transaction = store.begin();
    put_in(transaction, b"k", &[0; 50]).unwrap();
    let error = put_in(transaction, b"l", &[0; 50]).unwrap_err();
    assert!(error.starts_with("Operation aborted: Memory limit reached"), "{error}");
    rocksdb_transaction_destroy(transaction);
}

#[test]
fn ranges_cannot_be_deleted_with_locks() {
    let db = Pessimistic::new(|_| {});
    let family = rocksdb_get_default_column_family_handle(db.db);
    let call = rocksdb_delete_range_cf;
    // Not even a range of nothing.
    for end in [b"a", b"b"] {
        let error = with_error(|error| {
            call(db.db, db.write, family, start(b"a"), 1, start(end), 1, error);
        });
        let error = error.unwrap_err();
        assert!(error.starts_with("Not implemented: "), "{error}");
    }
    rocksdb_column_family_handle_destroy(family);
}
