//! Batches, files and logs of column families whose keys have timestamps.

use crate::c::*;
use crate::stamps::{Stamped, stamped_options};
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

extern "C" fn eight(_: P, _: u32) -> usize {
    8
}

extern "C" fn four(_: P, _: u32) -> usize {
    4
}

fn write(stamped: &Stamped, batch: P) -> Result<(), String> {
    with_error(|error| rocksdb_write(stamped.db, stamped.write, batch, error))
}

fn stamp(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// The bytes of a batch after its header.
fn records(batch: P) -> Vec<u8> {
    let mut length = 0;
    lent(rocksdb_writebatch_data(batch, &mut length), length)[12..].to_vec()
}

#[test]
fn a_batch_with_an_index_writes_nothing_to_a_family_with_timestamps_and_says_so() {
    let stamped = Stamped::new(false);
    let family = rocksdb_get_default_column_family_handle(stamped.db);
    let batch = rocksdb_writebatch_wi_create(0, 1);
    rocksdb_writebatch_wi_put_cf(batch, family, start(b"a"), 1, start(b"value"), 5);
    let call = rocksdb_write_writebatch_wi;
    let written = with_error(|error| call(stamped.db, stamped.write, batch, error));
    assert!(written.unwrap_err().contains("must have timestamp(s) set"));
    rocksdb_writebatch_wi_destroy(batch);
    rocksdb_column_family_handle_destroy(family);
}

#[test]
fn a_batch_writes_at_timestamps() {
    let stamped = Stamped::new(false);
    let family = rocksdb_get_default_column_family_handle(stamped.db);
    stamped.put(b"b", &stamp(1), b"old").unwrap();
    let batch = rocksdb_writebatch_create();
    let (value, two) = (start(b"new"), stamp(2));
    rocksdb_writebatch_put_cf_with_ts(batch, family, start(b"a"), 1, start(&two), 8, value, 3);
    rocksdb_writebatch_delete_cf_with_ts(batch, family, start(b"b"), 1, start(&two), 8);
    // A timestamp of another length adds nothing.
    rocksdb_writebatch_put_cf_with_ts(batch, family, start(b"c"), 1, start(&two), 4, value, 3);
    assert_eq!(rocksdb_writebatch_count(batch), 2);
    assert_eq!(records(batch), b"\x01\x09a\x02\0\0\0\0\0\0\0\x03new\x00\x09b\x02\0\0\0\0\0\0\0");
    write(&stamped, batch).unwrap();
    assert_eq!(stamped.get(b"a", 2).unwrap(), Some((b"new".to_vec(), 2)));
    assert_eq!(stamped.get(b"a", 1).unwrap(), None);
    assert_eq!(stamped.get(b"b", 2).unwrap(), None);
    assert_eq!(stamped.get(b"b", 1).unwrap(), Some((b"old".to_vec(), 1)));
    rocksdb_writebatch_destroy(batch);
    rocksdb_column_family_handle_destroy(family);
}

#[test]
fn a_batch_without_timestamps_gets_them_or_is_refused() {
    let stamped = Stamped::new(false);
    let family = rocksdb_get_default_column_family_handle(stamped.db);
    let batch = rocksdb_writebatch_create();
    rocksdb_writebatch_put_cf(batch, family, start(b"a"), 1, start(b"v"), 1);
    assert_eq!(rocksdb_writebatch_count(batch), 0, "the batch is for keys without timestamps");
    rocksdb_writebatch_destroy(batch);
    let batch = rocksdb_writebatch_create_with_params(0, 0, 0, 8);
    rocksdb_writebatch_put(batch, start(b"a"), 1, start(b"v"), 1);
    rocksdb_writebatch_delete_cf(batch, family, start(b"b"), 1);
    let error = write(&stamped, batch).unwrap_err();
    assert!(error.contains("must have timestamp(s) set"), "{error}");
    let three = stamp(3);
    let update = |length, size: StampSize| {
        let call = rocksdb_writebatch_update_timestamps;
        with_error(|error| call(batch, start(&three), length, null_mut(), size, error))
    };
    assert!(update(4, eight).is_err() && update(8, four).is_err());
    assert!(write(&stamped, batch).is_err(), "nothing was changed");
    update(8, eight).unwrap();
    write(&stamped, batch).unwrap();
    assert_eq!(stamped.get(b"a", 5).unwrap(), Some((b"v".to_vec(), 3)));
    // Without a handle, the key has no place for a timestamp.
    rocksdb_writebatch_destroy(batch);
    let batch = rocksdb_writebatch_create();
    rocksdb_writebatch_put(batch, start(b"0123456789"), 10, start(b"v"), 1);
    let error = write(&stamped, batch).unwrap_err();
    assert!(error.contains("default that enables timestamp"), "{error}");
    rocksdb_writebatch_destroy(batch);
    rocksdb_column_family_handle_destroy(family);
}

#[test]
fn calls_need_a_timestamp_exactly_if_the_family_has_them() {
    let stamped = Stamped::new(false);
    let (db, write, read) = (stamped.db, stamped.write, rocksdb_readoptions_create());
    let (key, value) = (start(b"k"), start(b"v"));
    let mut length = 0;
    let errors = [
        with_error(|error| rocksdb_put(db, write, key, 1, value, 1, error)),
        with_error(|error| rocksdb_delete(db, write, key, 1, error)),
        with_error(|error| assert!(rocksdb_get(db, read, key, 1, &mut length, error).is_null())),
    ];
    for error in errors {
        let error = error.unwrap_err();
        assert!(error.contains("default that enables timestamp"), "{error}");
    }
    let error = stamped.put(b"k", &[0; 4], b"v").unwrap_err();
    assert!(error.contains("Timestamp sizes mismatch: expect 8, 4 given"), "{error}");
    let plain = crate::Store::new(|_| {});
    let error = with_error(|error| {
        let (db, write, stamp) = (plain.db, plain.write, start(&[0; 8]));
        rocksdb_put_with_ts(db, write, key, 1, stamp, 8, value, 1, error);
    });
    assert!(error.unwrap_err().contains("default that does not enable timestamp"));
    rocksdb_readoptions_set_timestamp(read, start(&[0; 8]), 8);
    let get = |error| assert!(rocksdb_get(plain.db, read, key, 1, &mut length, error).is_null());
    assert!(with_error(get).unwrap_err().contains("does not enable timestamp"));
    rocksdb_readoptions_destroy(read);
}

#[test]
fn several_keys_are_read_with_their_timestamps() {
    let stamped = Stamped::new(false);
    stamped.put(b"a", &stamp(1), b"one").unwrap();
    stamped.put(b"b", &stamp(2), b"").unwrap();
    let at = stamp(9);
    rocksdb_readoptions_set_timestamp(stamped.read, start(&at), 8);
    let (keys, lengths) = ([start(b"b"), start(b"x"), start(b"a")], [1; 3]);
    let mut values: [*mut c_char; 3] = [null_mut(); 3];
    let (mut stamps, mut errors) = (values, values);
    let (mut value_lengths, mut stamp_lengths) = ([7; 3], [7; 3]);
    rocksdb_multi_get_with_ts(
        stamped.db,
        stamped.read,
        3,
        keys.as_ptr(),
        lengths.as_ptr(),
        values.as_mut_ptr(),
        value_lengths.as_mut_ptr(),
        stamps.as_mut_ptr(),
        stamp_lengths.as_mut_ptr(),
        errors.as_mut_ptr(),
    );
    assert!(errors.iter().all(|error| error.is_null()));
    let read: Vec<_> = (0..3)
        .map(|at| (taken(values[at], value_lengths[at]), taken(stamps[at], stamp_lengths[at])))
        .collect();
    let some = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(read, [(some(b""), some(&stamp(2))), (None, None), (some(b"one"), some(&stamp(1)))]);
}

#[test]
fn files_with_timestamps_are_ingested() {
    let stamped = Stamped::new(false);
    let file = path(&stamped.dir.path().join("file"));
    let writer = rocksdb_sstfilewriter_create(null_mut(), stamped.options);
    with_error(|error| rocksdb_sstfilewriter_open(writer, file.as_ptr(), error)).unwrap();
    let put = |key: &[u8], at: u64| {
        let at = stamp(at);
        with_error(|error| {
            let (key, length, at, value) = (start(key), key.len(), start(&at), start(b"v"));
            rocksdb_sstfilewriter_put_with_ts(writer, key, length, at, 8, value, 1, error);
        })
    };
    put(b"a", 3).unwrap();
    put(b"a", 1).unwrap();
    assert!(put(b"a", 2).is_err(), "the newest version is first");
    let two = stamp(2);
    let (key, two) = (start(b"b"), start(&two));
    with_error(|error| rocksdb_sstfilewriter_delete_with_ts(writer, key, 1, two, 8, error))
        .unwrap();
    let plain = with_error(|error| rocksdb_sstfilewriter_put(writer, key, 1, key, 1, error));
    assert!(plain.unwrap_err().contains("Timestamp size mismatch"));
    with_error(|error| rocksdb_sstfilewriter_finish(writer, error)).unwrap();
    rocksdb_sstfilewriter_destroy(writer);
    stamped.put(b"b", &stamp(1), b"old").unwrap();
    let options = rocksdb_ingestexternalfileoptions_create();
    let ingest = |db| {
        let files = [file.as_ptr()];
        with_error(|error| rocksdb_ingest_external_file(db, files.as_ptr(), 1, options, error))
    };
    ingest(stamped.db).unwrap();
    assert_eq!(stamped.get(b"a", 2).unwrap(), Some((b"v".to_vec(), 1)));
    assert_eq!(stamped.get(b"a", 3).unwrap(), Some((b"v".to_vec(), 3)));
    assert_eq!(stamped.get(b"b", 1).unwrap(), Some((b"old".to_vec(), 1)));
    assert_eq!(stamped.get(b"b", 2).unwrap(), None);
    let store = crate::Store::new(|_| {});
    assert!(ingest(store.db).unwrap_err().contains("another comparator"));
    rocksdb_ingestexternalfileoptions_destroy(options);
}

#[test]
fn updates_are_returned_as_they_were_written() {
    let stamped = Stamped::new(false);
    stamped.put(b"k\0", &stamp(1), b"v").unwrap();
    stamped.delete(b"k\0", 2);
    stamped.raise(&stamp(2)).unwrap();
    let since = rocksdb_get_updates_since;
    let updates = with_error(|error| since(stamped.db, 0, null_mut(), error)).unwrap();
    let mut all = Vec::new();
    while rocksdb_wal_iter_valid(updates) != 0 {
        let mut seqno = 0;
        let batch = rocksdb_wal_iter_get_batch(updates, &mut seqno);
        all.extend(records(batch));
        rocksdb_writebatch_destroy(batch);
        rocksdb_wal_iter_next(updates);
    }
    assert_eq!(all, b"\x01\x0ak\0\x01\0\0\0\0\0\0\0\x01v\x00\x0ak\0\x02\0\0\0\0\0\0\0");
    rocksdb_wal_iter_destroy(updates);
}

#[test]
fn an_open_may_drop_what_is_newer() {
    let mut stamped = Stamped::new(false);
    for at in 1..4 {
        stamped.put(b"k", &stamp(at), b"v").unwrap();
    }
    rocksdb_close(std::mem::replace(&mut stamped.db, null_mut()));
    let (options, path, two) = (stamped_options(false), stamped.path(), stamp(2));
    let open = |length| {
        let (names, families) = ([c"default".as_ptr()], [options as P]);
        let (mut handle, count) = (null_mut(), 1 as c_int);
        let opened = with_error(|error| {
            let (names, families) = (names.as_ptr(), families.as_ptr());
            rocksdb_open_and_trim_history(
                options,
                path.as_ptr(),
                count,
                names,
                families,
                &mut handle,
                start(&two),
                length,
                error,
            )
        });
        rocksdb_column_family_handle_destroy(handle);
        opened
    };
    assert!(open(4).is_err());
    stamped.db = open(8).unwrap();
    assert_eq!(stamped.get(b"k", 9).unwrap(), Some((b"v".to_vec(), 2)));
    assert_eq!(stamped.get(b"k", 1).unwrap(), Some((b"v".to_vec(), 1)));
    rocksdb_options_destroy(options);
    assert_eq!(stamped.versions(0, 9).len(), 2);
}
