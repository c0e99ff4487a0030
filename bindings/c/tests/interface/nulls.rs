//! NULL where it is not allowed is an error, in each function.

use crate::support::*;
use esker_c::backup::*;
use esker_c::batch::*;
use esker_c::bytes::{esker_bytes, esker_bytes_free};
use esker_c::cursor::*;
use esker_c::database::*;
use esker_c::error::*;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::prepared::*;
use esker_c::reader::*;
use esker_c::repair::*;
use esker_c::settings::*;
use esker_c::snapshot::*;
use esker_c::stats::*;
use esker_c::status::esker_is_transient;
use esker_c::transaction::*;
use std::ptr::{null, null_mut};

macro_rules! refused {
    ($($function:path: $($argument:expr),*;)*) => {$({
        let (status, text) = failure(call!($function $(, $argument)*));
        assert_eq!(status, ESKER_INVALID_ARGUMENT, "{}: {text}", stringify!($function));
        assert!(text.contains("NULL"), "{}: {text}", stringify!($function));
        // Without an error to fill, the status is the same.
        // SAFETY: all pointers are NULL.
        let status = unsafe { $function($($argument,)* null_mut()) };
        assert_eq!(status, ESKER_INVALID_ARGUMENT);
    })*};
}

#[test]
fn each_function_refuses_null() {
    refused! {
        esker_settings_new: null_mut();
        esker_settings_set: None, null(), null();
        esker_keyspace_settings_new: null_mut();
        esker_keyspace_settings_set: None, null(), null();
        esker_open: null(), None, null_mut();
        esker_open_existing: null(), None, null_mut();
        esker_open_read_only: null(), None, null_mut();
        esker_open_follower: null(), None, 0, null_mut();
        esker_catch_up: None, null_mut();
        esker_write: None, None;
        esker_sync: None;
        esker_flush: None;
        esker_compact: None, None;
        esker_checkpoint: None, null();
        esker_set: None, null(), null();
        esker_current_settings: None, null_mut();
        esker_background_error: None, null_mut();
        esker_keyspace_create: None, null(), None, null_mut();
        esker_keyspace_open: None, null(), null_mut();
        esker_keyspace_default: None, null_mut();
        esker_keyspace_drop: None, None;
        esker_keyspace_names: None, null_mut();
        esker_get: None, null(), 0, null_mut();
        esker_get_into: None, null(), 0, null_mut(), 0, null_mut();
        esker_contains: None, null(), 0;
        esker_multi_get: None, null(), null(), 1, null_mut();
        esker_count: None, null(), 0, null(), 0, null_mut();
        esker_approximate_len: None, null_mut();
        esker_put_reader: None, null(), 0, None, null_mut(), null_mut();
        esker_get_reader: None, null(), 0, null_mut();
        esker_value_reader_read: None, null_mut(), 0, null_mut();
        esker_value_reader_seek: None, 0;
        esker_put: None, null(), 0, null(), 0;
        esker_put_with_ttl: None, null(), 0, null(), 0, 1;
        esker_put_if_absent: None, None, null(), 0, null(), 0, null_mut(), null_mut();
        esker_merge: None, null(), 0, null(), 0;
        esker_delete: None, null(), 0;
        esker_delete_range: None, null(), 0, null(), 0;
        esker_batch_new: null_mut();
        esker_batch_put: None, None, null(), 0, null(), 0;
        esker_batch_put_with_ttl: None, None, null(), 0, null(), 0, 1;
        esker_batch_merge: None, None, null(), 0, null(), 0;
        esker_batch_delete: None, None, null(), 0;
        esker_batch_delete_range: None, None, null(), 0, null(), 0;
        esker_batch_set_sync: None, true;
        esker_snapshot_new: None, null_mut();
        esker_snapshot_get: None, None, null(), 0, null_mut();
        esker_snapshot_multi_get: None, None, null(), null(), 1, null_mut();
        esker_snapshot_get_reader: None, None, null(), 0, null_mut();
        esker_cursor_range: None, None, null(), 0, null(), 0, null_mut();
        esker_cursor_prefix: None, None, null(), 0, null_mut();
        esker_transaction_cursor_range: None, None, null(), 0, null(), 0, null_mut();
        esker_transaction_cursor_prefix: None, None, null(), 0, null_mut();
        esker_cursor_first: None;
        esker_cursor_last: None;
        esker_cursor_seek: None, null(), 0;
        esker_cursor_seek_back: None, null(), 0;
        esker_cursor_next: None;
        esker_cursor_prev: None;
        esker_cursor_entry: None, null_mut(), null_mut(), null_mut(), null_mut();
        esker_begin: None, 0, 0, null_mut();
        esker_transaction_get: None, None, null(), 0, null_mut();
        esker_transaction_get_for_update: None, None, null(), 0, null_mut();
        esker_transaction_put: None, None, null(), 0, null(), 0;
        esker_transaction_put_with_ttl: None, None, null(), 0, null(), 0, 1;
        esker_transaction_merge: None, None, null(), 0, null(), 0;
        esker_transaction_delete: None, None, null(), 0;
        esker_transaction_set_savepoint: None;
        esker_transaction_rollback_to_savepoint: None;
        esker_commit: None;
        esker_rollback: None;
        esker_prepare: None, null(), 0;
        esker_commit_prepared: None, null(), 0;
        esker_rollback_prepared: None, null(), 0;
        esker_prepared_new: None, null_mut();
        esker_prepared_entry: None, 0, null_mut(), null_mut(), null_mut();
        esker_repair: null(), null(), false, null_mut();
        esker_stats_text: None, null_mut();
        esker_stats_json: None, null_mut();
        esker_stats_prometheus: None, null(), null_mut();
        esker_backup_create: None, null(), null_mut();
        esker_backup_list: null(), null_mut();
        esker_backup_restore: null(), 0, null();
        esker_backup_prune: null(), 1;
    }
}

#[test]
fn what_is_freed_may_be_null() {
    esker_settings_free(None);
    esker_keyspace_settings_free(None);
    esker_keyspace_free(None);
    esker_batch_free(None);
    esker_batch_clear(None);
    esker_snapshot_free(None);
    esker_cursor_free(None);
    esker_transaction_free(None);
    esker_error_free(None);
    esker_bytes_free(None);
    esker_value_reader_free(None);
    esker_prepared_free(None);
    assert_eq!(esker_value_reader_len(None), 0);
    assert_eq!(esker_prepared_len(None), 0);
    call!(esker_close, None).unwrap();
    assert_eq!(esker_batch_len(None), 0);
    assert_eq!(esker_error_status(None), ESKER_OK);
    // SAFETY: the text is static.
    assert!(unsafe { std::ffi::CStr::from_ptr(esker_error_text(None)) }.is_empty());
}

/// Bytes that are NULL, of a handle that is none.
#[test]
fn each_argument_by_itself_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let key = b"key";
    for (outcome, what) in [
        (call!(esker_put, Some(&users), null(), 1, null(), 0), "pointer to 1 bytes"),
        (call!(esker_put, Some(&users), key.as_ptr(), 3, null(), 7), "pointer to 7 bytes"),
        (call!(esker_put, None, key.as_ptr(), 3, null(), 0), "keyspace is NULL"),
        (call!(esker_get, Some(&users), key.as_ptr(), 3, null_mut()), "for the value is NULL"),
        (call!(esker_keyspace_open, Some(&db), null(), &mut null_mut()), "name is NULL"),
        (call!(esker_put, Some(&users), key.as_ptr(), usize::MAX, null(), 0), "more than memory"),
        (call!(esker_checkpoint, Some(&db), c"".as_ptr()), "dir is empty"),
        (call!(esker_keyspace_open, Some(&db), c"\xff".as_ptr(), &mut null_mut()), "UTF-8"),
        (call!(esker_multi_get, Some(&users), null(), &1, 1, &mut nothing()), "keys is NULL"),
        (call!(esker_multi_get, Some(&users), &null(), null(), 1, &mut nothing()), "key_lens is"),
        (
            call!(esker_multi_get, Some(&users), &null(), &1, 1, &mut nothing()),
            "to 1 bytes is NULL",
        ),
        (call!(esker_multi_get, Some(&users), null(), null(), 1, null_mut()), "values is NULL"),
        (call!(esker_multi_get, Some(&users), null(), null(), usize::MAX, null_mut()), "more than"),
        (call!(esker_begin, Some(&db), 6, 0, &mut null_mut()), "flags are 0x6"),
        (call!(esker_begin, Some(&db), 8, 0, &mut null_mut()), "flags are 0x8"),
    ] {
        let (status, text) = failure(outcome);
        assert_eq!(status, ESKER_INVALID_ARGUMENT);
        assert!(text.contains(what), "{text}");
    }
    // A length of 0 needs no pointer.
    call!(esker_put, Some(&users), null(), 0, null(), 0).unwrap();
    assert_eq!(get(&users, "").unwrap(), b"");
    let mut len = 7;
    let key = b"missing";
    let outcome = call!(esker_get_into, Some(&users), null(), 0, null_mut(), 0, &mut len);
    assert_eq!((outcome, len), (Ok(()), 0));
    let outcome = call!(esker_get_into, Some(&users), key.as_ptr(), 7, null_mut(), 1, &mut len);
    assert_eq!(failure(outcome).1, "buffer is NULL");
}

#[test]
fn transient_errors_are_those_of_transactions() {
    let transient = [ESKER_CONFLICT, ESKER_DEADLOCK, ESKER_LOCK_TIMEOUT].map(|it| it as i32);
    for status in -1..120 {
        assert_eq!(esker_is_transient(status), transient.contains(&status), "{status}");
    }
}

#[test]
fn places_hold_nothing_after_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let mut present = esker_bytes { data: std::ptr::dangling(), len: 7, ..nothing() };
    let (key, put_out) = (b"key", &mut true);
    let (at, outcome_of) = (key.as_ptr(), |outcome| failure(outcome).0);
    let outcome =
        call!(esker_put_if_absent, None, Some(&users), at, 3, at, 3, put_out, &mut present);
    assert_eq!(outcome_of(outcome), ESKER_INVALID_ARGUMENT);
    assert!(present.data.is_null() && present.len == 0);
    let cursor = make!(esker_cursor_range, Some(&users), None, null(), 0, null(), 0).unwrap();
    let (mut start, mut len) = (std::ptr::dangling(), 7);
    let (mut value, mut value_len) = (std::ptr::dangling(), 7);
    let outcome =
        call!(esker_cursor_entry, Some(&cursor), &mut start, &mut len, &mut value, &mut value_len);
    assert_eq!(status(outcome), ESKER_NOT_FOUND);
    assert!(start.is_null() && value.is_null() && (len, value_len) == (0, 0));
}
