//! Column families that are sorted in reverse, against a model.

use super::c::*;
use super::{Store, bytewise, own, reverse};
use std::collections::BTreeSet;
use std::ptr::null_mut;

/// A store whose keys are sorted so.
pub fn sorted(compare: Compare) -> Store {
    Store::new(|options| {
        let order = rocksdb_comparator_create(null_mut(), null_mut(), Some(compare), own);
        rocksdb_options_set_comparator(options, order);
        rocksdb_comparator_destroy(order);
    })
}

const KEYS: [&[u8]; 9] = [b"", b"\0", b"a", b"a\0", b"ab", b"b", b"b\0\0", b"c", b"\xff\xff"];

/// Where an iterator is after a call.
fn at(iterator: P) -> Option<Vec<u8>> {
    (rocksdb_iter_valid(iterator) != 0).then(|| key_of(iterator))
}

/// Compares each place of an iterator with the keys that it should have, in their order.
#[track_caller]
fn agrees(iterator: P, keys: &[Vec<u8>]) {
    rocksdb_iter_seek_to_first(iterator);
    for key in keys {
        assert_eq!(at(iterator).as_ref(), Some(key));
        rocksdb_iter_next(iterator);
    }
    assert_eq!(at(iterator), None);
    rocksdb_iter_seek_to_last(iterator);
    for key in keys.iter().rev() {
        assert_eq!(at(iterator).as_ref(), Some(key));
        rocksdb_iter_prev(iterator);
    }
    assert_eq!(at(iterator), None);
    for target in KEYS {
        // The first that is not before the target, and the last that is not after it.
        rocksdb_iter_seek(iterator, start(target), target.len());
        assert_eq!(at(iterator).as_ref(), keys.iter().find(|key| &key[..] <= target));
        rocksdb_iter_seek_for_prev(iterator, start(target), target.len());
        assert_eq!(at(iterator).as_ref(), keys.iter().rev().find(|key| &key[..] >= target));
    }
}

fn down(keys: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let keys: BTreeSet<_> = keys.into_iter().collect();
    keys.into_iter().rev().collect()
}

fn all() -> Vec<Vec<u8>> {
    down(KEYS.map(<[u8]>::to_vec))
}

fn filled(store: &Store) {
    KEYS.iter().for_each(|key| store.put(key, b"v"));
}

fn with_iterator(store: &Store, run: impl FnOnce(P)) {
    let iterator = rocksdb_create_iterator(store.db, store.read);
    run(iterator);
    rocksdb_iter_destroy(iterator);
}

#[test]
fn iterators_go_down() {
    let mut store = sorted(reverse);
    filled(&store);
    with_iterator(&store, |iterator| agrees(iterator, &all()));
    let flush = rocksdb_flushoptions_create();
    with_error(|error| rocksdb_flush(store.db, flush, error)).unwrap();
    rocksdb_flushoptions_destroy(flush);
    store.close();
    store.reopen();
    with_iterator(&store, |iterator| agrees(iterator, &all()));
    // The lower bound is the larger key, and is included.
    for (lower, upper) in [(1, 7), (2, 2), (0, 8), (4, 5)] {
        let (lower, upper) = (KEYS[upper], KEYS[lower]);
        rocksdb_readoptions_set_iterate_lower_bound(store.read, start(lower), lower.len());
        rocksdb_readoptions_set_iterate_upper_bound(store.read, start(upper), upper.len());
        let within = all().into_iter().filter(|key| &key[..] <= lower && &key[..] > upper);
        with_iterator(&store, |iterator| agrees(iterator, &within.collect::<Vec<_>>()));
    }
}

#[test]
fn ranges_are_deleted_from_the_larger_key_on() {
    for (from, to) in [(7, 2), (8, 0), (5, 4), (3, 3)] {
        let store = sorted(reverse);
        filled(&store);
        let (from, to) = (KEYS[from], KEYS[to]);
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_delete_range(batch, start(from), from.len(), start(to), to.len());
        with_error(|error| rocksdb_write(store.db, store.write, batch, error)).unwrap();
        rocksdb_writebatch_destroy(batch);
        let left = all().into_iter().filter(|key| &key[..] > from || &key[..] <= to);
        let left: Vec<_> = left.collect();
        with_iterator(&store, |iterator| agrees(iterator, &left));
        // The changes have the range as it was written: they make the same of another database.
        let other = sorted(reverse);
        let changes =
            with_error(|error| rocksdb_get_updates_since(store.db, 0, null_mut(), error)).unwrap();
        while rocksdb_wal_iter_valid(changes) != 0 {
            let batch = rocksdb_wal_iter_get_batch(changes, &mut 0);
            with_error(|error| rocksdb_write(other.db, other.write, batch, error)).unwrap();
            rocksdb_writebatch_destroy(batch);
            rocksdb_wal_iter_next(changes);
        }
        rocksdb_wal_iter_destroy(changes);
        with_iterator(&other, |iterator| agrees(iterator, &left));
    }
    let store = sorted(reverse);
    let family = rocksdb_get_default_column_family_handle(store.db);
    let delete = |error| {
        rocksdb_delete_range_cf(
            store.db,
            store.write,
            family,
            start(b"a"),
            1,
            start(b"b"),
            1,
            error,
        )
    };
    assert!(with_error(delete).unwrap_err().contains("end key comes before start key"));
    rocksdb_column_family_handle_destroy(family);
}

#[test]
fn batches_and_transactions_are_read_downwards() {
    let mut store = sorted(reverse);
    ["", "a", "c"].iter().for_each(|key| store.put(key.as_bytes(), b"v"));
    let batch = rocksdb_writebatch_wi_create(0, 1);
    rocksdb_writebatch_wi_put(batch, start(b"b"), 1, start(b"new"), 3);
    rocksdb_writebatch_wi_put(batch, start(b"d"), 1, start(b"new"), 3);
    rocksdb_writebatch_wi_delete(batch, start(b"a"), 1);
    let base = rocksdb_create_iterator(store.db, store.read);
    let iterator = rocksdb_writebatch_wi_create_iterator_with_base(batch, base);
    let expected = down(["", "b", "c", "d"].map(|key| key.as_bytes().to_vec()));
    agrees(iterator, &expected);
    rocksdb_iter_destroy(iterator);
    rocksdb_writebatch_wi_destroy(batch);
    store.close();

    let (of_db, of_one) =
        (rocksdb_transactiondb_options_create(), rocksdb_transaction_options_create());
    let name = store.path();
    let open = |error| rocksdb_transactiondb_open(store.options, of_db, name.as_ptr(), error);
    let db = with_error(open).unwrap();
    let transaction = rocksdb_transaction_begin(db, store.write, of_one, null_mut());
    for key in [b"b", b"d"] {
        let put =
            |error| rocksdb_transaction_put(transaction, start(key), 1, start(b"v"), 1, error);
        with_error(put).unwrap();
    }
    with_error(|error| rocksdb_transaction_delete(transaction, start(b"a"), 1, error)).unwrap();
    let iterator = rocksdb_transaction_create_iterator(transaction, store.read);
    agrees(iterator, &expected);
    rocksdb_iter_destroy(iterator);
    rocksdb_transaction_destroy(transaction);
    rocksdb_transactiondb_close(db);
    rocksdb_transaction_options_destroy(of_one);
    rocksdb_transactiondb_options_destroy(of_db);
}

#[test]
fn a_prepared_transaction_of_a_family_in_reverse_outlives_the_database() {
    let mut store = sorted(reverse);
    ["a", "c"].iter().for_each(|key| store.put(key.as_bytes(), b"v"));
    store.close();
    let (of_db, of_one) =
        (rocksdb_transactiondb_options_create(), rocksdb_transaction_options_create());
    let name = store.path();
    let open = |error| rocksdb_transactiondb_open(store.options, of_db, name.as_ptr(), error);
    let present = |db: P, keys: &[&str]| {
        let iterator = rocksdb_transactiondb_create_iterator(db, store.read);
        agrees(iterator, &down(keys.iter().map(|key| key.as_bytes().to_vec())));
        rocksdb_iter_destroy(iterator);
    };
    let db = with_error(open).unwrap();
    for (id, key) in [(b"first", b"b"), (b"other", b"d")] {
        let transaction = rocksdb_transaction_begin(db, store.write, of_one, null_mut());
        let set_name = |error| rocksdb_transaction_set_name(transaction, start(id), 5, error);
        with_error(set_name).unwrap();
        let put =
            |error| rocksdb_transaction_put(transaction, start(key), 1, start(b"v"), 1, error);
        with_error(put).unwrap();
        let delete = |error| rocksdb_transaction_delete(transaction, start(key), 1, error);
        with_error(delete).unwrap();
        with_error(put).unwrap();
        with_error(|error| rocksdb_transaction_prepare(transaction, error)).unwrap();
        rocksdb_transaction_destroy(transaction);
    }
    present(db, &["a", "c"]);
    rocksdb_transactiondb_close(db);

    let db = with_error(open).unwrap();
    let mut count = 0;
    let all = rocksdb_transactiondb_get_prepared_transactions(db, &mut count);
    assert_eq!(count, 2);
    // SAFETY: the library gave so many.
    let transactions = unsafe { std::slice::from_raw_parts(all, count) }.to_vec();
    rocksdb_free(all.cast());
    present(db, &["a", "c"]);
    with_error(|error| rocksdb_transaction_commit(transactions[0], error)).unwrap();
    with_error(|error| rocksdb_transaction_rollback(transactions[1], error)).unwrap();
    transactions.into_iter().for_each(|it| rocksdb_transaction_destroy(it));
    present(db, &["a", "b", "c"]);
    rocksdb_transactiondb_close(db);
    rocksdb_transaction_options_destroy(of_one);
    rocksdb_transactiondb_options_destroy(of_db);
}

#[test]
fn files_are_sorted_as_the_column_family_is() {
    let store = sorted(reverse);
    let forward = sorted(bytewise);
    let file = path(&store.dir.path().join("file"));
    let writer = rocksdb_sstfilewriter_create(null_mut(), store.options);
    with_error(|error| rocksdb_sstfilewriter_open(writer, file.as_ptr(), error)).unwrap();
    let put = |key: &[u8]| {
        let (at, length) = (start(key), key.len());
        with_error(|error| rocksdb_sstfilewriter_put(writer, at, length, start(b"v"), 1, error))
    };
    all().iter().for_each(|key| put(key).unwrap());
    assert!(put(b"a").unwrap_err().contains("strict ascending order"));
    with_error(|error| rocksdb_sstfilewriter_finish(writer, error)).unwrap();
    rocksdb_sstfilewriter_destroy(writer);
    let options = rocksdb_ingestexternalfileoptions_create();
    let ingest = |db: P| {
        let files = [file.as_ptr()];
        with_error(|error| rocksdb_ingest_external_file(db, files.as_ptr(), 1, options, error))
    };
    ingest(store.db).unwrap();
    with_iterator(&store, |iterator| agrees(iterator, &all()));
    let error = ingest(forward.db).unwrap_err();
    assert!(error.contains("another comparator"), "{error}");
    rocksdb_ingestexternalfileoptions_destroy(options);
}

#[test]
fn a_column_family_keeps_its_direction() {
    for (of_creation, of_open) in [(reverse as Compare, bytewise as Compare), (bytewise, reverse)] {
        let mut store = sorted(of_creation);
        filled(&store);
        store.close();
        let order = rocksdb_comparator_create(null_mut(), null_mut(), Some(of_open), own);
        rocksdb_options_set_comparator(store.options, order);
        rocksdb_comparator_destroy(order);
        let name = store.path();
        let open = |error| rocksdb_open(store.options, name.as_ptr(), error);
        let error = with_error(open).unwrap_err();
        assert!(error.contains("was created with another comparator"), "{error}");
        let order = rocksdb_comparator_create(null_mut(), null_mut(), Some(of_creation), own);
        rocksdb_options_set_comparator(store.options, order);
        rocksdb_comparator_destroy(order);
        store.reopen();
    }
}

#[test]
fn merges_and_prefixes_work_in_reverse() {
    let store = Store::new(|options| {
        let order = rocksdb_comparator_create(null_mut(), null_mut(), Some(reverse), own);
        rocksdb_options_set_comparator(options, order);
        rocksdb_comparator_destroy(order);
        rocksdb_options_set_uint64add_merge_operator(options);
        let prefix = rocksdb_slicetransform_create_fixed_prefix(1);
        rocksdb_options_set_prefix_extractor(options, prefix);
    });
    let one = 1_u64.to_le_bytes();
    for key in [b"a1", b"a2", b"b1", b"b1", b"c1"] {
        let merge =
            |error| rocksdb_merge(store.db, store.write, start(key), 2, start(&one), 8, error);
        with_error(merge).unwrap();
    }
    assert_eq!(store.get(b"b1"), Some(2_u64.to_le_bytes().to_vec()));
    rocksdb_readoptions_set_prefix_same_as_start(store.read, 1);
    with_iterator(&store, |iterator| {
        rocksdb_iter_seek(iterator, start(b"a9"), 2);
        assert_eq!(store.keys(iterator), [b"a2", b"a1"]);
        rocksdb_iter_seek_to_first(iterator);
        assert_eq!(store.keys(iterator), [b"c1"]);
    });
}

#[test]
fn both_ends_of_a_range_are_deleted_with_its_files() {
    let store = sorted(reverse);
    for key in [b"a", b"b", b"c", b"d"] {
        store.put(key, b"v");
    }
    let (db, from, to) = (store.db, start(b"d"), start(b"b"));
    with_error(|error| rocksdb_delete_file_in_range(db, from, 1, to, 1, error)).unwrap();
    with_iterator(&store, |iterator| agrees(iterator, &[b"a".to_vec()]));
    let inverted = |error| rocksdb_delete_file_in_range(db, start(b"a"), 1, start(b"b"), 1, error);
    assert!(with_error(inverted).is_err());
    with_iterator(&store, |iterator| agrees(iterator, &[b"a".to_vec()]));
}
