//! Functions that call back for each record of a batch.

use super::indexed_functions::Wi;
use super::wire::{Record, Wire};
use crate::border::callback::start;
use crate::border::{Handle, c_api};
use std::ffi::{c_char, c_void};

type Put = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
type Key = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
type PutCf =
    Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>;
type KeyCf = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>;

/// Calls `put`, `deleted` and `log_data`. It ends at a record that RocksDB's callbacks do not take, as
/// RocksDB does: one of another family than the default one, a single delete, a merge, a range delete.
fn iterate(batch: &Wire, state: *mut c_void, put: Put, deleted: Key, log_data: Key) {
    for (family, record) in batch.records().map_while(Result::ok) {
        match record {
            // Log data have no family.
            Record::LogData(data) => call(log_data, state, data),
            _ if family != 0 => return,
            Record::Put(key, value) => {
                if let Some(put) = put {
                    // SAFETY: the arguments are those of `c.h`, and live during the call.
                    unsafe { put(state, start(key), key.len(), start(value), value.len()) };
                }
            }
            Record::Delete(key) => call(deleted, state, key),
            Record::SingleDelete(_) | Record::Merge(..) | Record::DeleteRange(..) => return,
        }
    }
}

fn call(callback: Key, state: *mut c_void, bytes: &[u8]) {
    if let Some(callback) = callback {
        // SAFETY: the arguments are those of `c.h`, and live during the call.
        unsafe { callback(state, start(bytes), bytes.len()) };
    }
}

fn call_cf(callback: PutCf, state: *mut c_void, family: u32, key: &[u8], value: &[u8]) {
    if let Some(callback) = callback {
        // SAFETY: the arguments are those of `c.h`, and live during the call.
        unsafe { callback(state, family, start(key), key.len(), start(value), value.len()) };
    }
}

/// Like [`iterate`], of all families.
fn iterate_cf(
    batch: &Wire,
    state: *mut c_void,
    put: PutCf,
    deleted: KeyCf,
    merge: PutCf,
    log_data: Key,
) {
    for (family, record) in batch.records().map_while(Result::ok) {
        match record {
            Record::Put(key, value) => call_cf(put, state, family, key, value),
            Record::Merge(key, operand) => call_cf(merge, state, family, key, operand),
            Record::Delete(key) => {
                if let Some(deleted) = deleted {
                    // SAFETY: the arguments are those of `c.h`, and live during the call.
                    unsafe { deleted(state, family, start(key), key.len()) };
                }
            }
            Record::LogData(data) => call(log_data, state, data),
            Record::SingleDelete(_) | Record::DeleteRange(..) => return,
        }
    }
}

c_api! {
    fn rocksdb_writebatch_iterate(batch: Handle<Wire>, state: *mut c_void, put: Put, deleted: Key) {
        iterate(batch.get(), state, put, deleted, None);
    }

    fn rocksdb_writebatch_iterate_ld(
        batch: Handle<Wire>,
        state: *mut c_void,
        put: Put,
        deleted: Key,
        log_data: Key,
    ) {
        iterate(batch.get(), state, put, deleted, log_data);
    }

    fn rocksdb_writebatch_iterate_cf(
        batch: Handle<Wire>,
        state: *mut c_void,
        put: PutCf,
        deleted: KeyCf,
        merge: PutCf,
    ) {
        iterate_cf(batch.get(), state, put, deleted, merge, None);
    }

    fn rocksdb_writebatch_iterate_cf_ld(
        batch: Handle<Wire>,
        state: *mut c_void,
        put: PutCf,
        deleted: KeyCf,
        merge: PutCf,
        log_data: Key,
    ) {
        iterate_cf(batch.get(), state, put, deleted, merge, log_data);
    }

    fn rocksdb_writebatch_wi_iterate(
        batch: Wi,
        state: *mut c_void,
        put: Put,
        deleted: Key,
    ) {
        iterate(batch.get().get().wire(), state, put, deleted, None);
    }
}
