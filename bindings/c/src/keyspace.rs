//! Keyspaces: their handles, reads and writes.

use crate::batch::range_of;
use crate::border::{
    Failure, Slot, bytes, bytes_or_none, given, handle_slot, keys as keys_of, quietly, slot, slots,
    text,
};
use crate::bytes::esker_bytes;
use crate::error::esker_error;
use crate::open::{Closed, esker_db};
use crate::settings::esker_keyspace_settings;
use crate::status::esker_status;
use esker::{Error, Keyspace, KeyspaceSettings, Value};
use std::ffi::c_char;
use std::time::Duration;

/// A keyspace of an open database. Threads may share it. It does not keep the database open.
pub struct esker_keyspace {
    pub(crate) keyspace: Keyspace,
    pub(crate) closed: Closed,
}

impl esker_keyspace {
    fn of(db: &esker_db, keyspace: Keyspace) -> Self {
        esker_keyspace { keyspace, closed: db.closed.clone() }
    }
}

/// Puts a value that was read into `out`.
#[inline]
pub(crate) fn put_value(out: Slot<'_, esker_bytes>, value: Option<Value>) -> Result<(), Failure> {
    let value = value.ok_or_else(Failure::not_found)?;
    out.put(esker_bytes::of_value(value));
    Ok(())
}

/// Puts the values that a call found for its keys into their places.
pub(crate) fn put_values(places: &mut [esker_bytes], values: Vec<Option<Value>>) {
    for (place, value) in places.iter_mut().zip(values) {
        *place = value.map_or(esker_bytes::NOTHING, esker_bytes::of_value);
    }
}

/// Opens the keyspace `name`, or creates it if it is missing. The caller frees the handle with
/// `esker_keyspace_free`.
///
/// With `settings`, an existing keyspace must have these: otherwise `ESKER_KEYSPACE_SETTINGS_DIFFER`,
/// and the text lists the differences. With NULL, an existing keyspace is opened whatever its settings
/// are, and a new one gets the defaults. `ESKER_BAD_KEYSPACE_NAME`, `ESKER_INVALID_SETTING`,
/// `ESKER_READ_ONLY` if it is missing and cannot be created, `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_create(
    db: Option<&esker_db>,
    name: *const c_char,
    settings: Option<&esker_keyspace_settings>,
    keyspace_out: *mut *mut esker_keyspace,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(keyspace_out, "the keyspace")?;
        let (db, name) = (given(db, "db")?, text(name, "name")?);
        let keyspace = match settings {
            Some(settings) => db.db.keyspace(name, settings.settings)?,
            None => match db.db.open_keyspace(name) {
                Err(Error::UnknownKeyspace { .. }) => {
                    let made = db.db.keyspace(name, KeyspaceSettings::default());
                    // Another thread may have created it meanwhile, with settings of its own.
                    made.or_else(|error| db.db.open_keyspace(name).map_err(|_| error))?
                }
                opened => opened?,
            },
        };
        out.put_handle(esker_keyspace::of(db, keyspace));
        Ok(())
    })
}

/// Opens the keyspace `name`, whatever its settings are. The caller frees the handle.
///
/// `ESKER_UNKNOWN_KEYSPACE` if it is missing, `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_open(
    db: Option<&esker_db>,
    name: *const c_char,
    keyspace_out: *mut *mut esker_keyspace,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(keyspace_out, "the keyspace")?;
        let db = given(db, "db")?;
        out.put_handle(esker_keyspace::of(db, db.db.open_keyspace(text(name, "name")?)?));
        Ok(())
    })
}

/// Returns the keyspace "default", which each database has. The caller frees the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_default(
    db: Option<&esker_db>,
    keyspace_out: *mut *mut esker_keyspace,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(keyspace_out, "the keyspace")?;
        let db = given(db, "db")?;
        out.put_handle(esker_keyspace::of(db, db.db.default_keyspace()));
        Ok(())
    })
}

/// Removes a keyspace and its data. Its handles stay valid, and return `ESKER_UNKNOWN_KEYSPACE`; free
/// them.
///
/// `ESKER_BAD_KEYSPACE_NAME` for the default keyspace, `ESKER_FOREIGN_HANDLE`, `ESKER_READ_ONLY`,
/// `ESKER_CLOSED`, `ESKER_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_drop(
    db: Option<&esker_db>,
    keyspace: Option<&esker_keyspace>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        Ok(given(db, "db")?.db.drop_keyspace(&given(keyspace, "keyspace")?.keyspace)?)
    })
}

/// Returns the names of all keyspaces, one on a line. A name has no control character. The caller frees
/// the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_names(
    db: Option<&esker_db>,
    text_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(text_out, esker_bytes::NOTHING, "the names")?;
        let db = given(db, "db")?;
        db.closed.check()?;
        let names: Vec<_> = db.db.keyspaces().into_iter().map(|it| it.name + "\n").collect();
        out.put(esker_bytes::of_text(names.concat()));
        Ok(())
    })
}

/// Frees the handle of a keyspace. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_free(keyspace: Option<Box<esker_keyspace>>) {
    quietly((), || drop(keyspace));
}

/// Reads the value of `key`. The caller frees it with `esker_bytes_free`.
///
/// `ESKER_NOT_FOUND` if the key does not exist; `ESKER_CLOSED`, `ESKER_UNKNOWN_KEYSPACE`,
/// `ESKER_FORKED`, `ESKER_TOO_LARGE` for a key of more than 64 KiB; `ESKER_IO`, `ESKER_CORRUPTION` or
/// `ESKER_LOST` if a table cannot be read; `ESKER_MERGE_FAILED` or `ESKER_NO_MERGE_OPERATOR` if
/// operands cannot be merged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(value_out, esker_bytes::NOTHING, "the value")?;
        put_value(out, given(keyspace, "keyspace")?.keyspace.get(bytes(key, key_len)?)?)
    })
}

/// Reads the value of `key` into the buffer of the caller, and sets `*len_out` to its length.
///
/// `ESKER_BUFFER_TOO_SMALL` if it is longer than `capacity`; `*len_out` is the length nevertheless, and
/// the buffer is as it was. Otherwise as `esker_get`. `buffer` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_into(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    buffer: *mut u8,
    capacity: usize,
    len_out: *mut usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(len_out, 0, "the length")?;
        if buffer.is_null() && capacity > 0 {
            return Err(Failure::invalid("buffer is NULL"));
        }
        let value = given(keyspace, "keyspace")?.keyspace.get(bytes(key, key_len)?)?;
        let value = value.ok_or_else(Failure::not_found)?;
        out.put(value.len());
        if value.len() > capacity {
            let text = format!("the value has {} bytes, the buffer {capacity}", value.len());
            return Err(Failure::new(esker_status::ESKER_BUFFER_TOO_SMALL, text));
        }
        if !value.is_empty() {
            // The buffer is the caller's, and has `capacity` bytes.
            buffer.copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        Ok(())
    })
}

/// Whether `key` exists: `ESKER_OK` or `ESKER_NOT_FOUND`. Errors: those of `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_contains(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        match given(keyspace, "keyspace")?.keyspace.contains_key(bytes(key, key_len)?)? {
            true => Ok(()),
            false => Err(Failure::not_found()),
        }
    })
}

/// Reads the values of `count` keys, all at one point in time, which is faster than as many calls. The
/// starts of the keys are in `keys`, their lengths in `key_lens`.
///
/// `values_out` has `count` places, one for each key in the same order. A key that does not exist gets
/// NULL there, and the call returns `ESKER_OK` nevertheless. The caller frees each value with
/// `esker_bytes_free`. Errors: those of `esker_get`; no value is given then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_multi_get(
    keyspace: Option<&esker_keyspace>,
    keys: *const *const u8,
    key_lens: *const usize,
    count: usize,
    values_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let places = slots(values_out, count, || esker_bytes::NOTHING, "the values")?;
        let keyspace = &given(keyspace, "keyspace")?.keyspace;
        put_values(places, keyspace.multi_get(keys_of(keys, key_lens, count)?)?);
        Ok(())
    })
}

/// Counts the keys from `start` on, up to and without `end`. NULL with length 0 is no bound. Reads all of
/// them, so it takes as long as a scan.
///
/// Errors: those of `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_count(
    keyspace: Option<&esker_keyspace>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    count_out: *mut u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(count_out, 0, "the count")?;
        let (start, end) = (bytes_or_none(start, start_len)?, bytes_or_none(end, end_len)?);
        out.put(given(keyspace, "keyspace")?.keyspace.count(range_of(start, end))?);
        Ok(())
    })
}

/// Estimates the number of keys, without a scan. Expect an error of a few percent. A write that is not
/// flushed yet counts as one key, also if it deletes or overwrites one.
///
/// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_CLOSED`, `ESKER_FORKED`; `ESKER_IO` or `ESKER_CORRUPTION` if a table
/// cannot be opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_approximate_len(
    keyspace: Option<&esker_keyspace>,
    len_out: *mut u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(len_out, 0, "the number of keys")?;
        out.put(given(keyspace, "keyspace")?.keyspace.approximate_len()?);
        Ok(())
    })
}

/// Sets `key` to `value`. A key has at most 64 KiB, and may be empty.
///
/// `ESKER_TOO_LARGE` if key or value exceed their limits; `ESKER_READ_ONLY`, `ESKER_CLOSED`,
/// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_FORKED`; `ESKER_LOG_FAILED` if the log cannot be written, now or
/// earlier; `ESKER_OUT_OF_SPACE`, `ESKER_IO`; `ESKER_INDEX` if an index of the keyspace does not allow it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        Ok(given(keyspace, "keyspace")?.keyspace.put(key, value)?)
    })
}

/// Sets `key` to `value` for `ttl_ms` milliseconds. Then the key does not exist. Errors: those of
/// `esker_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put_with_ttl(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        let ttl = Duration::from_millis(ttl_ms);
        Ok(given(keyspace, "keyspace")?.keyspace.put_with_ttl(key, value, ttl)?)
    })
}

/// Sets `key` to `value` if the key does not exist. Otherwise changes nothing, and gives the present
/// value to `present_out`, which may be NULL; the caller frees it.
///
/// Sets `*put_out` to whether the value was put. It is a transaction of its own: the errors are those of
/// `esker_put` and of `esker_transaction_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put_if_absent(
    db: Option<&esker_db>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    put_out: *mut bool,
    present_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let present = match present_out.is_null() {
            true => None,
            false => Some(slot(present_out, esker_bytes::NOTHING, "the present value")?),
        };
        let was_put = slot(put_out, false, "whether it was put")?;
        let (db, keyspace) = (given(db, "db")?, given(keyspace, "keyspace")?);
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        match (db.db.put_if_absent(&keyspace.keyspace, key, value)?, present) {
            (None, _) => was_put.put(true),
            (Some(value), Some(present)) => present.put(esker_bytes::of_value(value)),
            (Some(_), None) => {}
        }
        Ok(())
    })
}

/// Merges `operand` into the value of `key`, by the merge operator of the keyspace, without a read.
///
/// add_i64 adds integers of 8 bytes, little-endian; max and min keep the greatest or the least; append
/// appends; set_union and hyper_log_log unite sets and sketches. The page "Merge operators" of the guide
/// describes them.
///
/// `ESKER_NO_MERGE_OPERATOR` if the keyspace has none, `ESKER_MERGE_FAILED` if the operand is not
/// valid; otherwise the errors of `esker_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_merge(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (key, operand) = (bytes(key, key_len)?, bytes(operand, operand_len)?);
        Ok(given(keyspace, "keyspace")?.keyspace.merge(key, operand)?)
    })
}

/// Deletes `key`, whether it exists or not. Errors: those of `esker_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_delete(
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { Ok(given(keyspace, "keyspace")?.keyspace.delete(bytes(key, key_len)?)?) })
}

/// Deletes all keys from `start` on, up to and without `end`. NULL with length 0 is no bound. It costs
/// about as much as one put.
///
/// `ESKER_INVALID_ARGUMENT` if `end` is not after `start`; otherwise the errors of `esker_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_delete_range(
    keyspace: Option<&esker_keyspace>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (start, end) = (bytes_or_none(start, start_len)?, bytes_or_none(end, end_len)?);
        Ok(given(keyspace, "keyspace")?.keyspace.delete_range(range_of(start, end))?)
    })
}
