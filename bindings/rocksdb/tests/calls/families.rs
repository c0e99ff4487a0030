//! Column families, batches over them, and options that are refused.

use crate::Store;
use crate::c::*;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

fn create(store: &Store, options: P, name: &str) -> Result<P, String> {
    let name = CString::new(name).unwrap();
    with_error(|error| rocksdb_create_column_family(store.db, options, name.as_ptr(), error))
}

#[test]
fn families_that_threads_create_at_once_have_their_own_operators() {
    let store = Store::new(|_| {});
    let adds = rocksdb_options_create();
    rocksdb_options_set_uint64add_merge_operator(adds);
    let (db, with, without) = (store.db as usize, adds as usize, store.options as usize);
    let barrier = std::sync::Barrier::new(8);
    let made: Vec<_> = std::thread::scope(|scope| {
        let make = |number: usize| {
            let barrier = &barrier;
            scope.spawn(move || {
                let name = CString::new(format!("cf{number}")).unwrap();
                let options = if number.is_multiple_of(2) { with } else { without };
                barrier.wait();
                let call = rocksdb_create_column_family;
                with_error(|error| call(db as P, options as P, name.as_ptr(), error)).unwrap()
                    as usize
            })
        };
        let threads: Vec<_> = (0..8).map(make).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (number, family) in made.into_iter().enumerate() {
        let family = family as P;
        let one = 1_u64.to_le_bytes();
        for _ in 0..2 {
            let merged = with_error(|error| {
                let (db, write) = (store.db, store.write);
                rocksdb_merge_cf(db, write, family, start(b"n"), 1, start(&one), 8, error)
            });
            assert_eq!(merged.is_ok(), number % 2 == 0, "{number}");
        }
        let mut length = 0;
        let got = with_error(|error| {
            rocksdb_get_cf(store.db, store.read, family, start(b"n"), 1, &mut length, error)
        });
        let expected = (number % 2 == 0).then(|| 2_u64.to_le_bytes().to_vec());
        assert_eq!(taken(got.unwrap(), length), expected, "{number}");
        rocksdb_column_family_handle_destroy(family);
    }
    rocksdb_options_destroy(adds);
}

#[test]
fn a_family_of_another_database_is_refused() {
    let (one, other) = (Store::new(|_| {}), Store::new(|_| {}));
    let family = create(&other, other.options, "cf").unwrap();
    let put = with_error(|error| {
        let (db, write, key) = (other.db, other.write, start(b"k"));
        rocksdb_put_cf(db, write, family, key, 1, start(b"v"), 1, error)
    });
    put.unwrap();
    let mut length = 0;
    let got = with_error(|error| {
        rocksdb_get_cf(one.db, one.read, family, start(b"k"), 1, &mut length, error)
    });
    assert!(got.is_err());
    let put = with_error(|error| {
        rocksdb_put_cf(one.db, one.write, family, start(b"k"), 1, start(b"v"), 1, error)
    });
    assert!(put.is_err());
    let keys = c"rocksdb.estimate-num-keys".as_ptr();
    let mut number = 0;
    assert_eq!(rocksdb_property_int_cf(other.db, family, keys, &mut number), 0);
    assert_ne!(rocksdb_property_int_cf(one.db, family, keys, &mut number), 0);
    rocksdb_column_family_handle_destroy(family);
}

#[test]
fn families_that_were_created_before_an_error_are_returned() {
    let store = Store::new(|_| {});
    let (names, mut count) = ([c"a".as_ptr(), c"default".as_ptr()], 7);
    let mut list: *mut P = null_mut();
    let failed = with_error(|error| {
        let call = rocksdb_create_column_families;
        list = call(store.db, store.options, 2, names.as_ptr(), &mut count, error);
    });
    assert!(failed.is_err() && count == 1);
    // SAFETY: the library has returned an array of one handle.
    let family = unsafe { *list };
    with_error(|error| rocksdb_drop_column_family(store.db, family, error)).unwrap();
    rocksdb_column_family_handle_destroy(family);
    rocksdb_create_column_families_destroy(list);
}

#[test]
fn a_batch_may_pass_over_families_that_are_missing() {
    let store = Store::new(|_| {});
    let family = create(&store, store.options, "gone").unwrap();
    let batch = rocksdb_writebatch_create();
    rocksdb_writebatch_put_cf(batch, family, start(b"k"), 1, start(b"v"), 1);
    rocksdb_writebatch_put(batch, start(b"k"), 1, start(b"v"), 1);
    with_error(|error| rocksdb_drop_column_family(store.db, family, error)).unwrap();
    let write = || with_error(|error| rocksdb_write(store.db, store.write, batch, error));
    assert!(write().is_err());
    rocksdb_writeoptions_set_ignore_missing_column_families(store.write, 1);
    write().unwrap();
    assert_eq!(store.get(b"k"), Some(b"v".to_vec()));
    rocksdb_writebatch_destroy(batch);
    rocksdb_column_family_handle_destroy(family);
}

extern "C" fn count_put(state: P, _: B, _: usize, _: B, _: usize) {
    // SAFETY: the test passes its counter.
    unsafe { *state.cast::<u32>() += 1 };
}

extern "C" fn count_delete(state: P, _: B, _: usize) {
    // SAFETY: the test passes its counter.
    unsafe { *state.cast::<u32>() += 100 };
}

#[test]
fn an_iteration_without_families_ends_at_a_record_of_another_one() {
    let store = Store::new(|_| {});
    let family = create(&store, store.options, "cf").unwrap();
    let (batch, mut count) = (rocksdb_writebatch_create(), 0_u32);
    let state: *mut c_void = (&raw mut count).cast();
    rocksdb_writebatch_put(batch, start(b"a"), 1, start(b"v"), 1);
    rocksdb_writebatch_put_cf(batch, family, start(b"b"), 1, start(b"v"), 1);
    rocksdb_writebatch_delete(batch, start(b"c"), 1);
    rocksdb_writebatch_iterate(batch, state, count_put, count_delete);
    assert_eq!(count, 1);
    rocksdb_writebatch_destroy(batch);
    rocksdb_column_family_handle_destroy(family);
}

#[test]
fn a_single_delete_ends_an_iteration() {
    let (batch, mut count) = (rocksdb_writebatch_create(), 0_u32);
    let state: *mut c_void = (&raw mut count).cast();
    rocksdb_writebatch_put(batch, start(b"a"), 1, start(b"v"), 1);
    rocksdb_writebatch_singledelete(batch, start(b"c"), 1);
    rocksdb_writebatch_put(batch, start(b"a"), 1, start(b"v"), 1);
    rocksdb_writebatch_iterate(batch, state, count_put, count_delete);
    assert_eq!(count, 1);
    rocksdb_writebatch_destroy(batch);
}

/// Opens a database with options that `change` has changed, which fails.
fn refused(change: impl FnOnce(P)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (options, name) = (rocksdb_options_create(), crate::path(&dir.path().join("db")));
    rocksdb_options_set_create_if_missing(options, 1);
    change(options);
    let error = with_error(|error| rocksdb_open(options, name.as_ptr(), error)).unwrap_err();
    rocksdb_options_destroy(options);
    error
}

#[test]
fn options_whose_meaning_is_lost_are_refused() {
    let service = || {
        let none = null_mut();
        rocksdb_compactionservice_create(none, none, none, null(), none, none, none)
    };
    let fifo_with_merges = |options| {
        rocksdb_options_set_compaction_style(options, 2);
        rocksdb_options_set_uint64add_merge_operator(options);
    };
    let filter = |options| {
        let filter =
            rocksdb_walfilter_create(null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
        rocksdb_options_set_wal_filter(options, filter);
        // RocksDB ignores a service that is null.
        rocksdb_options_set_compaction_service(options, null_mut());
        rocksdb_walfilter_destroy(filter);
    };
    let cases = [
        ("compaction_style 2 (FIFO) with a merge operator", refused(fifo_with_merges)),
        ("wal_recovery_mode 3", refused(|it| rocksdb_options_set_wal_recovery_mode(it, 3))),
        ("a filter of the log", refused(filter)),
        (
            "a compaction service",
            refused(|it| rocksdb_options_set_compaction_service(it, service())),
        ),
    ];
    for (what, error) in cases {
        assert!(error.starts_with(&format!("Not implemented: {what}")), "{error}");
    }
}

#[test]
fn a_database_with_fifo_compaction_is_opened_again() {
    let mut store = Store::new(|options| {
        rocksdb_options_set_compaction_style(options, 2);
        let fifo = rocksdb_fifo_compaction_options_create();
        rocksdb_fifo_compaction_options_set_max_table_files_size(fifo, 4 << 20);
        rocksdb_options_set_fifo_compaction_options(options, fifo);
        rocksdb_fifo_compaction_options_destroy(fifo);
    });
    store.put(b"k", b"old");
    let compact = || rocksdb_compact_range_opt(store.db, null_mut(), null(), 0, null(), 0);
    compact();
    store.put(b"k", b"new");
    compact();
    assert_eq!(store.get(b"k"), Some(b"new".to_vec()));
    store.close();
    store.reopen();
    assert_eq!(store.get(b"k"), Some(b"new".to_vec()));
    let merge = |error| rocksdb_merge(store.db, store.write, start(b"k"), 1, start(b"v"), 1, error);
    assert!(with_error(merge).unwrap_err().starts_with("Not implemented: "));
}

#[test]
fn files_are_not_ingested_behind() {
    let store = Store::new(|_| {});
    let options = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_ingest_behind(options, 1);
    let files = [c"no-file".as_ptr()];
    let ingest = |error| rocksdb_ingest_external_file(store.db, files.as_ptr(), 1, options, error);
    let error = with_error(ingest).unwrap_err();
    assert!(error.starts_with("Not implemented: ingest_behind"), "{error}");
    rocksdb_ingestexternalfileoptions_destroy(options);
}

#[test]
fn bytes_that_cannot_be_are_an_error() {
    let store = Store::new(|_| {});
    for (key, length) in [(null(), 5), (start(b"k"), usize::MAX)] {
        let put = |error| rocksdb_put(store.db, store.write, key, length, start(b"v"), 1, error);
        let error = with_error(put).unwrap_err();
        assert!(error.starts_with("Invalid argument: "), "{error}");
    }
    assert_eq!(store.get(b""), None);
}

#[test]
fn a_multi_get_without_keys_has_errors() {
    let store = Store::new(|_| {});
    let (mut value, mut size, mut error) = (start(b"x").cast_mut(), 9, null_mut());
    let (db, read) = (store.db, store.read);
    rocksdb_multi_get(db, read, 1, null(), null(), &mut value, &mut size, &mut error);
    assert!(value.is_null() && size == 0 && !error.is_null());
    rocksdb_free(error.cast());
}

#[test]
fn a_multi_get_answers_the_keys_beside_a_key_without_bytes() {
    let store = Store::new(|_| {});
    store.put(b"k", b"v");
    let (keys, lengths) = ([null(), start(b"k")], [3, 1]);
    let (mut values, mut sizes, mut errors) = ([null_mut(); 2], [9; 2], [null_mut(); 2]);
    rocksdb_multi_get(
        store.db,
        store.read,
        2,
        keys.as_ptr(),
        lengths.as_ptr(),
        values.as_mut_ptr(),
        sizes.as_mut_ptr(),
        errors.as_mut_ptr(),
    );
    assert!(values[0].is_null() && !errors[0].is_null() && errors[1].is_null());
    assert_eq!(taken(values[1], sizes[1]), Some(b"v".to_vec()));
    rocksdb_free(errors[0].cast());
}

#[test]
fn a_total_order_keeps_to_the_prefix() {
    let store = Store::new(|options| {
        let prefix = rocksdb_slicetransform_create_fixed_prefix(1);
        rocksdb_options_set_prefix_extractor(options, prefix);
    });
    store.put(b"a1", b"");
    store.put(b"b1", b"");
    rocksdb_readoptions_set_prefix_same_as_start(store.read, 1);
    rocksdb_readoptions_set_total_order_seek(store.read, 1);
    let iterator = rocksdb_create_iterator(store.db, store.read);
    rocksdb_iter_seek(iterator, start(b"a"), 1);
    assert_eq!(store.keys(iterator), [b"a1"]);
    rocksdb_iter_destroy(iterator);
}

#[test]
fn the_first_and_the_last_of_a_prefix_are_those_of_the_bounds() {
    let store = Store::new(|options| {
        let prefix = rocksdb_slicetransform_create_fixed_prefix(1);
        rocksdb_options_set_prefix_extractor(options, prefix);
    });
    for key in [b"a1", b"c1", b"c2", b"e1"] {
        store.put(key, b"");
    }
    rocksdb_readoptions_set_prefix_same_as_start(store.read, 1);
    let places = |lower: &[u8], upper: &[u8]| {
        rocksdb_readoptions_set_iterate_lower_bound(store.read, start(lower), lower.len());
        rocksdb_readoptions_set_iterate_upper_bound(store.read, start(upper), upper.len());
        let iterator = rocksdb_create_iterator(store.db, store.read);
        rocksdb_iter_seek_to_first(iterator);
        let first = (rocksdb_iter_valid(iterator) != 0).then(|| key_of(iterator));
        rocksdb_iter_seek_to_last(iterator);
        let last = (rocksdb_iter_valid(iterator) != 0).then(|| key_of(iterator));
        rocksdb_iter_destroy(iterator);
        (first, last)
    };
    assert_eq!(places(b"c", b"c2"), (Some(b"c1".to_vec()), Some(b"c1".to_vec())));
    // The entries within the bounds have other prefixes than these.
    assert_eq!(places(b"b", b"d"), (None, None));
}

#[test]
fn the_log_has_the_options_of_each_family() {
    let store = Store::new(|_| {});
    let family = create(&store, store.options, "added").unwrap();
    let log = std::fs::read_to_string(store.dir.path().join("db/LOG")).unwrap();
    let headings: Vec<_> = log.lines().filter(|line| line.starts_with("Options for")).collect();
    let expected = ["Options for column family [default]:", "Options for column family [added]:"];
    assert_eq!(headings, expected);
    let count = |line: &str| log.lines().filter(|it| *it == line).count();
    // Those of a column family are not repeated for the database, nor those of the database for each.
    for of_family in ["num_levels: 7", "compression: Snappy", "bottommost_compression: Disabled"] {
        assert_eq!(count(&format!("Options.{of_family}")), 2, "{of_family}");
    }
    for of_database in ["create_if_missing: 1", "use_fsync: 0", "wal_compression: NoCompression"] {
        assert_eq!(count(&format!("Options.{of_database}")), 1, "{of_database}");
    }
    rocksdb_column_family_handle_destroy(family);
}

#[test]
fn operands_alone_are_a_merge_in_progress() {
    let store = Store::new(|options| rocksdb_options_set_uint64add_merge_operator(options));
    let batch = rocksdb_writebatch_wi_create(0, 1);
    rocksdb_writebatch_wi_merge(batch, start(b"n"), 1, start(b"12345678"), 8);
    let (mut length, get) = (0, rocksdb_writebatch_wi_get_from_batch);
    let got = with_error(|error| get(batch, store.options, start(b"n"), 1, &mut length, error));
    let error = got.unwrap_err();
    assert!(error.starts_with("Merge in progress: "), "{error}");
    rocksdb_writebatch_wi_destroy(batch);
}

#[test]
fn a_base_keeps_its_view_of_the_database() {
    let store = Store::new(|_| {});
    store.put(b"a", b"");
    let base = rocksdb_create_iterator(store.db, store.read);
    store.put(b"b", b"");
    let batch = rocksdb_writebatch_wi_create(0, 1);
    let iterator = rocksdb_writebatch_wi_create_iterator_with_base(batch, base);
    rocksdb_writebatch_wi_put(batch, start(b"c"), 1, start(b""), 0);
    rocksdb_iter_seek_to_first(iterator);
    assert_eq!(store.keys(iterator), [b"a", b"c"]);
    rocksdb_iter_destroy(iterator);
    rocksdb_writebatch_wi_destroy(batch);
}

#[test]
fn the_text_of_a_missing_operator_is_that_of_rocksdb() {
    let store = Store::new(|_| {});
    let merge = |error| {
        rocksdb_merge(store.db, store.write, start(b"merge"), 5, start(b"v"), 1, error);
    };
    let error = with_error(merge).unwrap_err();
    assert_eq!(error, "Not implemented: Provide a merge_operator when opening DB");
}

#[test]
fn tickers_do_not_fall_when_a_database_is_closed() {
    const WAL_BYTES: u32 = 85;
    let mut store = Store::new(|options| rocksdb_options_enable_statistics(options));
    let logged =
        |store: &Store| rocksdb_options_statistics_get_ticker_count(store.options, WAL_BYTES);
    store.put(b"k", b"v");
    let before = logged(&store);
    assert!(before > 0);
    store.close();
    assert_eq!(logged(&store), before);
    store.reopen();
    store.put(b"k", b"v");
    assert!(logged(&store) > before);
}

#[test]
fn defaults_are_those_of_rocksdb() {
    let (options, flush) = (rocksdb_options_create(), rocksdb_flushoptions_create());
    assert_eq!(rocksdb_options_get_wal_recovery_mode(options), 2);
    assert_eq!(rocksdb_options_get_compression(options), 1);
    assert_eq!(rocksdb_options_get_ttl(options), u64::MAX - 1);
    assert_eq!(rocksdb_flushoptions_get_wait(flush), 1);
    rocksdb_flushoptions_destroy(flush);
    rocksdb_options_destroy(options);
}
