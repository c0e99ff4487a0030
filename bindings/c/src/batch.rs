//! Batches of writes.

use crate::border::{Failure, bytes, bytes_or_none, given, handle_slot, quietly};
use crate::error::esker_error;
use crate::keyspace::esker_keyspace;
use crate::status::esker_status;
use esker::{KeyRange, WriteBatch};
use std::ops::Bound;
use std::time::Duration;

/// Writes that are applied together, also to several keyspaces. One thread at once may use it.
pub struct esker_batch {
    pub(crate) batch: WriteBatch,
}

/// The range from `start` on, up to and without `end`; `None` is no bound.
pub(crate) fn range_of(start: Option<&[u8]>, end: Option<&[u8]>) -> KeyRange {
    let start = start.map_or(Bound::Unbounded, |start| Bound::Included(start.to_vec()));
    let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec()));
    KeyRange { start, end }
}

/// Makes an empty batch. The caller frees it with `esker_batch_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_new(
    batch_out: *mut *mut esker_batch,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        handle_slot(batch_out, "the batch")?.put_handle(esker_batch { batch: WriteBatch::new() });
        Ok(())
    })
}

/// Adds a write that sets `key` to `value`. Both are copied.
///
/// Only NULL is an error here and in the other functions that add to a batch: limits are checked by
/// `esker_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put(
    batch: Option<&mut esker_batch>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (batch, keyspace) = (given(batch, "batch")?, given(keyspace, "keyspace")?);
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        batch.batch.put(&keyspace.keyspace, key, value);
        Ok(())
    })
}

/// Adds a write that sets `key` to `value` for `ttl_ms` milliseconds, which begin when the batch is
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put_with_ttl(
    batch: Option<&mut esker_batch>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (batch, keyspace) = (given(batch, "batch")?, given(keyspace, "keyspace")?);
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        let ttl = Duration::from_millis(ttl_ms);
        batch.batch.put_with_ttl(&keyspace.keyspace, key, value, ttl);
        Ok(())
    })
}

/// Adds a write that merges `operand` into the value of `key`: see `esker_merge`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_merge(
    batch: Option<&mut esker_batch>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (batch, keyspace) = (given(batch, "batch")?, given(keyspace, "keyspace")?);
        let (key, operand) = (bytes(key, key_len)?, bytes(operand, operand_len)?);
        batch.batch.merge(&keyspace.keyspace, key, operand);
        Ok(())
    })
}

/// Adds a write that deletes `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete(
    batch: Option<&mut esker_batch>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (batch, keyspace) = (given(batch, "batch")?, given(keyspace, "keyspace")?);
        batch.batch.delete(&keyspace.keyspace, bytes(key, key_len)?);
        Ok(())
    })
}

/// Adds a write that deletes all keys from `start` on, up to and without `end`. NULL with length 0 is
/// no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete_range(
    batch: Option<&mut esker_batch>,
    keyspace: Option<&esker_keyspace>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let (batch, keyspace) = (given(batch, "batch")?, given(keyspace, "keyspace")?);
        let (start, end) = (bytes_or_none(start, start_len)?, bytes_or_none(end, end_len)?);
        batch.batch.delete_range(&keyspace.keyspace, range_of(start, end));
        Ok(())
    })
}

/// Whether the batch survives power loss once `esker_write` returns, whatever the setting `sync` is.
/// The default is false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_set_sync(
    batch: Option<&mut esker_batch>,
    sync: bool,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        given(batch, "batch")?.batch.set_sync(sync);
        Ok::<_, Failure>(())
    })
}

/// Returns the number of writes in the batch. 0 if `batch` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_len(batch: Option<&esker_batch>) -> usize {
    batch.map_or(0, |batch| batch.batch.len())
}

/// Removes all writes from the batch, and keeps its memory for others. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_clear(batch: Option<&mut esker_batch>) {
    quietly((), || batch.into_iter().for_each(|batch| batch.batch.clear()));
}

/// Frees a batch. What was not written is not written. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_batch_free(batch: Option<Box<esker_batch>>) {
    quietly((), || drop(batch));
}
