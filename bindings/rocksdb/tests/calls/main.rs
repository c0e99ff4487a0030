//! The functions of the library, called as a C program calls them.

mod c;
mod families;
mod listeners;
mod removal;
mod reverse;
mod stamped_batches;
mod stamps;
mod tables;
mod tailing;
mod transactions;

use c::*;
use std::ffi::{CString, c_int};
use std::path::Path;
use std::ptr::{null, null_mut};
use tempfile::TempDir;

/// A database with the options of its reads and writes.
struct Store {
    options: P,
    read: P,
    write: P,
    db: P,
    dir: TempDir,
}

impl Store {
    fn new(change: impl FnOnce(P)) -> Store {
        let dir = tempfile::tempdir().unwrap();
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        change(options);
        let name = path(&dir.path().join("db"));
        let db = with_error(|error| rocksdb_open(options, name.as_ptr(), error)).unwrap();
        let (read, write) = (rocksdb_readoptions_create(), rocksdb_writeoptions_create());
        Store { options, read, write, db, dir }
    }

    fn close(&mut self) {
        rocksdb_close(std::mem::replace(&mut self.db, null_mut()));
    }

    fn reopen(&mut self) {
        let name = self.path();
        let open = |error| rocksdb_open(self.options, name.as_ptr(), error);
        self.db = with_error(open).unwrap();
    }

    fn path(&self) -> CString {
        path(&self.dir.path().join("db"))
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let (db, write) = (self.db, self.write);
        let (key, length) = (start(key), key.len());
        with_error(|error| rocksdb_put(db, write, key, length, start(value), value.len(), error))
            .unwrap();
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_from(self.db, key)
    }

    fn get_from(&self, db: P, key: &[u8]) -> Option<Vec<u8>> {
        let mut length = 0;
        let got = with_error(|error| {
            rocksdb_get(db, self.read, start(key), key.len(), &mut length, error)
        });
        taken(got.unwrap(), length)
    }

    fn keys(&self, iterator: P) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        while rocksdb_iter_valid(iterator) != 0 {
            keys.push(key_of(iterator));
            rocksdb_iter_next(iterator);
        }
        keys
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        rocksdb_close(self.db);
        rocksdb_readoptions_destroy(self.read);
        rocksdb_writeoptions_destroy(self.write);
        rocksdb_options_destroy(self.options);
    }
}

#[test]
fn a_null_handle_is_an_error_and_not_a_crash() {
    let options = rocksdb_writeoptions_create();
    let put = |error| rocksdb_put(null_mut(), options, start(b"k"), 1, start(b"v"), 1, error);
    let error = with_error(put).unwrap_err();
    assert!(error.starts_with("Invalid argument: "), "{error}");
    assert!(with_error(|error| rocksdb_open(null_mut(), c"/x".as_ptr(), error)).is_err());
    assert!(rocksdb_create_iterator(null_mut(), null_mut()).is_null());
    let (names, values) = ([c"ttl".as_ptr()], [c"7".as_ptr()]);
    let set = |db, error| rocksdb_set_options(db, 1, names.as_ptr(), values.as_ptr(), error);
    assert!(with_error(|error| set(null_mut(), error)).is_err());
    let store = Store::new(|_| {});
    with_error(|error| set(store.db, error)).unwrap();
    let of_family = |error| {
        let (names, values) = (names.as_ptr(), values.as_ptr());
        rocksdb_set_options_cf(store.db, null_mut(), 1, names, values, error)
    };
    assert!(with_error(of_family).is_err());
    rocksdb_writeoptions_destroy(options);
}

#[test]
fn a_directory_of_rocksdb_is_refused_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("CURRENT"), "MANIFEST-000005\n").unwrap();
    std::fs::write(dir.path().join("MANIFEST-000005"), "").unwrap();
    let options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    let name = path(dir.path());
    let error = with_error(|error| rocksdb_open(options, name.as_ptr(), error)).unwrap_err();
    assert!(error.contains("a database of RocksDB"), "{error}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 2);
    rocksdb_options_destroy(options);
}

extern "C" fn own(_: P) -> B {
    c"own".as_ptr()
}

extern "C" fn bytewise(_: P, a: B, a_len: usize, b: B, b_len: usize) -> c_int {
    // SAFETY: the library gives keys with their lengths.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a.cast::<u8>(), a_len),
            std::slice::from_raw_parts(b.cast(), b_len),
        )
    };
    a.cmp(b) as c_int
}

extern "C" fn reverse(state: P, a: B, a_len: usize, b: B, b_len: usize) -> c_int {
    bytewise(state, b, b_len, a, a_len)
}

/// Sorts keys by their first byte only.
extern "C" fn by_first(state: P, a: B, a_len: usize, b: B, b_len: usize) -> c_int {
    bytewise(state, a, a_len.min(1), b, b_len.min(1))
}

/// Sorts keys of eight bytes as numbers of this processor, and others by their bytes.
extern "C" fn as_number(state: P, a: B, a_len: usize, b: B, b_len: usize) -> c_int {
    if (a_len, b_len) != (8, 8) {
        return bytewise(state, a, a_len, b, b_len);
    }
    // SAFETY: the library gives keys of these lengths.
    let (a, b) = unsafe { (a.cast::<u64>().read_unaligned(), b.cast::<u64>().read_unaligned()) };
    a.cmp(&b) as c_int
}

/// Sorts keys by all but their last eight bytes, and then by these, the larger first.
extern "C" fn newest_first(state: P, a: B, a_len: usize, b: B, b_len: usize) -> c_int {
    let (a_start, b_start) = (a_len.saturating_sub(8), b_len.saturating_sub(8));
    match bytewise(state, a, a_start, b, b_start) {
        0 => bytewise(
            state,
            b.wrapping_add(b_start),
            b_len - b_start,
            a.wrapping_add(a_start),
            a_len - a_start,
        ),
        order => order,
    }
}

/// The same of keys that have eight bytes or more.
extern "C" fn newest_of_long(state: P, a: B, a_len: usize, b: B, b_len: usize) -> c_int {
    let sort = if a_len.min(b_len) < 8 { bytewise } else { newest_first };
    sort(state, a, a_len, b, b_len)
}

fn open_sorted(compare: Option<Compare>) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    let order = rocksdb_comparator_create(null_mut(), null_mut(), compare, own);
    rocksdb_options_set_comparator(options, order);
    let name = path(&dir.path().join("db"));
    let opened = with_error(|error| rocksdb_open(options, name.as_ptr(), error));
    rocksdb_options_destroy(options);
    rocksdb_comparator_destroy(order);
    opened.map(|db| rocksdb_close(db))
}

#[test]
fn another_order_of_keys_is_refused() {
    let others: [Compare; 4] = [by_first, as_number, newest_first, newest_of_long];
    for compare in others.map(Some).into_iter().chain([None]) {
        let error = open_sorted(compare).unwrap_err();
        assert!(error.starts_with("Not implemented: comparator \"own\""), "{error}");
    }
}

#[test]
fn the_order_of_bytes_and_its_reverse_may_have_any_name() {
    open_sorted(Some(bytewise)).unwrap();
    open_sorted(Some(reverse)).unwrap();
}

#[test]
fn column_families_have_to_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    let (name, write) = (path(dir.path()), rocksdb_writeoptions_create());
    let (names, each) = ([c"default".as_ptr(), c"cf1".as_ptr()], [options, options]);
    let mut handles = [null_mut(); 2];
    let open = |error| {
        let (names, each) = (names.as_ptr(), each.as_ptr());
        rocksdb_open_column_families(
            options,
            name.as_ptr(),
            2,
            names,
            each,
            handles.as_mut_ptr(),
            error,
        )
    };
    let db = with_error(open).unwrap();
    let put = |error| rocksdb_put_cf(db, write, handles[1], start(b"k"), 1, start(b"v"), 1, error);
    with_error(put).unwrap();
    rocksdb_close(db);
    // The handles outlive the database.
    handles.into_iter().for_each(|handle| rocksdb_column_family_handle_destroy(handle));
    let error = with_error(|error| rocksdb_open(options, name.as_ptr(), error)).unwrap_err();
    assert_eq!(error, "Invalid argument: Column families not opened: cf1");
    with_error(|error| rocksdb_destroy_db(options, name.as_ptr(), error)).unwrap();
    assert!(!dir.path().exists());
    rocksdb_writeoptions_destroy(write);
    rocksdb_options_destroy(options);
}

#[test]
fn merges_are_folded_by_the_operator_of_the_open() {
    let store = Store::new(|options| rocksdb_options_set_uint64add_merge_operator(options));
    let number = |number: u64| number.to_le_bytes();
    for value in [1, 2, 4] {
        let value = number(value);
        let merge =
            |error| rocksdb_merge(store.db, store.write, start(b"n"), 1, start(&value), 8, error);
        with_error(merge).unwrap();
    }
    assert_eq!(store.get(b"n"), Some(number(7).to_vec()));
    let plain = Store::new(|_| {});
    let merge = |error| rocksdb_merge(plain.db, plain.write, start(b"n"), 1, start(b"1"), 1, error);
    let error = with_error(merge).unwrap_err();
    assert!(error.starts_with("Not implemented: "), "{error}");
}

#[test]
fn iterators_keep_to_a_prefix_and_read_the_empty_key() {
    let store = Store::new(|options| {
        let prefix = rocksdb_slicetransform_create_fixed_prefix(1);
        rocksdb_options_set_prefix_extractor(options, prefix);
    });
    for key in [&b""[..], b"a1", b"a2", b"b1"] {
        store.put(key, b"v");
    }
    let iterator = rocksdb_create_iterator(store.db, store.read);
    rocksdb_iter_seek_to_first(iterator);
    assert_eq!(store.keys(iterator), [&b""[..], b"a1", b"a2", b"b1"]);
    rocksdb_iter_seek_to_last(iterator);
    rocksdb_iter_prev(iterator);
    assert_eq!(key_of(iterator), b"a2");
    rocksdb_iter_destroy(iterator);
    rocksdb_readoptions_set_prefix_same_as_start(store.read, 1);
    let iterator = rocksdb_create_iterator(store.db, store.read);
    rocksdb_iter_seek(iterator, start(b"a"), 1);
    assert_eq!(store.keys(iterator), [b"a1", b"a2"]);
    rocksdb_iter_destroy(iterator);
}

#[test]
fn a_batch_with_an_index_is_read_over_the_database() {
    let store = Store::new(|_| {});
    for key in [b"a", b"b", b"c"] {
        store.put(key, b"old");
    }
    let batch = rocksdb_writebatch_wi_create(0, 1);
    rocksdb_writebatch_wi_delete(batch, start(b"b"), 1);
    rocksdb_writebatch_wi_put(batch, start(b"bb"), 2, start(b"new"), 3);
    rocksdb_writebatch_wi_put(batch, start(b"c"), 1, start(b"new"), 3);
    let base = rocksdb_create_iterator(store.db, store.read);
    let iterator = rocksdb_writebatch_wi_create_iterator_with_base(batch, base);
    rocksdb_iter_seek_to_first(iterator);
    assert_eq!(store.keys(iterator), [&b"a"[..], b"bb", b"c"]);
    rocksdb_iter_seek_to_last(iterator);
    rocksdb_iter_prev(iterator);
    assert_eq!(key_of(iterator), b"bb");
    rocksdb_iter_prev(iterator);
    assert_eq!(key_of(iterator), b"a");
    rocksdb_iter_next(iterator);
    assert_eq!(key_of(iterator), b"bb");
    rocksdb_iter_destroy(iterator);
    rocksdb_writebatch_wi_destroy(batch);
    assert_eq!(store.get(b"c"), Some(b"old".to_vec()), "nothing is written");
}

#[test]
fn a_pessimistic_transaction_waits_for_no_lock_permanently() {
    let dir = tempfile::tempdir().unwrap();
    let options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    let (of_db, of_one) =
        (rocksdb_transactiondb_options_create(), rocksdb_transaction_options_create());
    rocksdb_transaction_options_set_lock_timeout(of_one, 1);
    let (name, write) = (path(&dir.path().join("db")), rocksdb_writeoptions_create());
    let open = |error| rocksdb_transactiondb_open(options, of_db, name.as_ptr(), error);
    let db = with_error(open).unwrap();
    let begin = || rocksdb_transaction_begin(db, write, of_one, null_mut());
    let (first, second) = (begin(), begin());
    let put = |transaction| {
        with_error(|error| {
            rocksdb_transaction_put(transaction, start(b"k"), 1, start(b"v"), 1, error)
        })
    };
    put(first).unwrap();
    let error = put(second).unwrap_err();
    assert!(error.starts_with("Operation timed out: "), "{error}");
    with_error(|error| rocksdb_transaction_commit(first, error)).unwrap();
    put(second).unwrap();
    let (read, mut length) = (rocksdb_readoptions_create(), 0);
    let get = |error| rocksdb_transactiondb_get(db, read, start(b"k"), 1, &mut length, error);
    let got = with_error(get).unwrap();
    assert_eq!(taken(got, length), Some(b"v".to_vec()));
    // Transactions may outlive the database.
    rocksdb_transactiondb_close(db);
    assert!(with_error(|error| rocksdb_transaction_commit(second, error)).is_err());
    [first, second].into_iter().for_each(|transaction| rocksdb_transaction_destroy(transaction));
    rocksdb_readoptions_destroy(read);
    rocksdb_writeoptions_destroy(write);
    rocksdb_transaction_options_destroy(of_one);
    rocksdb_transactiondb_options_destroy(of_db);
    rocksdb_options_destroy(options);
}

#[test]
fn sorted_files_are_ingested_and_others_are_refused() {
    let store = Store::new(|_| {});
    let file = |name: &str| path(&store.dir.path().join(name));
    let (sorted, foreign) = (file("sorted"), file("foreign.sst"));
    let writer = rocksdb_sstfilewriter_create(null_mut(), store.options);
    with_error(|error| rocksdb_sstfilewriter_open(writer, sorted.as_ptr(), error)).unwrap();
    let put = |key: &[u8]| {
        let (at, length) = (start(key), key.len());
        with_error(|error| rocksdb_sstfilewriter_put(writer, at, length, start(b"v"), 1, error))
    };
    put(b"a").unwrap();
    put(b"b").unwrap();
    assert!(put(b"a").unwrap_err().contains("strict ascending order"));
    with_error(|error| rocksdb_sstfilewriter_finish(writer, error)).unwrap();
    rocksdb_sstfilewriter_destroy(writer);
    let options = rocksdb_ingestexternalfileoptions_create();
    let ingest = |file: &CString| {
        let files = [file.as_ptr()];
        with_error(|error| {
            rocksdb_ingest_external_file(store.db, files.as_ptr(), 1, options, error)
        })
    };
    ingest(&sorted).unwrap();
    assert_eq!(store.get(b"b"), Some(b"v".to_vec()));
    std::fs::write(Path::new(foreign.to_str().unwrap()), "a file of RocksDB").unwrap();
    let error = ingest(&foreign).unwrap_err();
    assert!(error.contains("files of RocksDB are not read"), "{error}");
    rocksdb_ingestexternalfileoptions_destroy(options);
}

#[test]
fn a_secondary_catches_up() {
    let store = Store::new(|_| {});
    store.put(b"k", b"1");
    let name = store.path();
    let open = |error| rocksdb_open_as_secondary(store.options, name.as_ptr(), null(), error);
    let second = with_error(open).unwrap();
    store.put(b"k", b"2");
    assert_eq!(store.get_from(second, b"k"), Some(b"1".to_vec()));
    with_error(|error| rocksdb_try_catch_up_with_primary(second, error)).unwrap();
    assert_eq!(store.get_from(second, b"k"), Some(b"2".to_vec()));
    rocksdb_close(second);
}
