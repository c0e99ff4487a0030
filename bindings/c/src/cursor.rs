//! Cursors over the entries of a range.

use crate::batch::range_of;
use crate::border::{Failure, bytes, bytes_or_none, given, handle_slot, quietly, slot};
use crate::error::esker_error;
use crate::keyspace::esker_keyspace;
use crate::open::Closed;
use crate::snapshot::esker_snapshot;
use crate::status::esker_status;
use crate::transaction::esker_transaction;
use crate::transaction_cursor::TransactionCursor;
use esker::{Cursor, DbCursor, KeyRange};

/// A position in the entries of a range, in order of their keys. One thread at once may use it.
///
/// A new cursor has no position. It reads at a snapshot of its own, unless it was given one, and keeps
/// it until the cursor is freed.
pub struct esker_cursor {
    source: Source,
    closed: Closed,
}

enum Source {
    Database(DbCursor),
    Transaction(TransactionCursor),
}

impl Source {
    #[inline]
    fn current(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Source::Database(cursor) => cursor.current(),
            Source::Transaction(cursor) => cursor.current(),
        }
    }
}

/// A move of a cursor.
#[derive(Clone, Copy)]
pub(crate) enum Move<'a> {
    First,
    Last,
    Seek(&'a [u8]),
    SeekBack(&'a [u8]),
    Next,
    Prev,
}

impl Move<'_> {
    #[inline]
    pub(crate) fn of<C: Cursor + ?Sized>(self, cursor: &mut C) -> esker::Result<()> {
        match self {
            Move::First => cursor.seek_first(),
            Move::Last => cursor.seek_last(),
            Move::Seek(key) => cursor.seek(key),
            Move::SeekBack(key) => cursor.seek_back(key),
            Move::Next => cursor.next(),
            Move::Prev => cursor.prev(),
        }
    }
}

impl esker_cursor {
    fn of_database(
        keyspace: &esker_keyspace,
        snapshot: Option<&esker_snapshot>,
        range: KeyRange,
    ) -> Result<Self, Failure> {
        let cursor = match snapshot {
            Some(snapshot) => snapshot.snapshot.cursor(&keyspace.keyspace, range),
            None => keyspace.keyspace.cursor(range),
        };
        Ok(esker_cursor { source: Source::Database(cursor?), closed: keyspace.closed.clone() })
    }

    fn of_transaction(
        transaction: &esker_transaction,
        keyspace: &esker_keyspace,
        range: KeyRange,
    ) -> esker_cursor {
        let cursor = TransactionCursor::new(&transaction.shared, &keyspace.keyspace, range);
        esker_cursor { source: Source::Transaction(cursor), closed: keyspace.closed.clone() }
    }

    #[inline]
    fn go(&mut self, step: Move<'_>) -> Result<(), Failure> {
        self.closed.check()?;
        match &mut self.source {
            Source::Database(cursor) => step.of(cursor)?,
            Source::Transaction(cursor) => cursor.go(step)?,
        }
        self.source.current().map(|_| ()).ok_or_else(Failure::not_found)
    }
}

/// Makes a cursor over the keys from `start` on, up to and without `end`. NULL with length 0 is no
/// bound. Both are copied. The caller frees the cursor with `esker_cursor_free`.
///
/// It reads at `snapshot`, or at a new snapshot if that is NULL. `ESKER_CLOSED`,
/// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_FOREIGN_HANDLE`; the errors of `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_range(
    keyspace: Option<&esker_keyspace>,
    snapshot: Option<&esker_snapshot>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    cursor_out: *mut *mut esker_cursor,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(cursor_out, "the cursor")?;
        let range = range_of(bytes_or_none(start, start_len)?, bytes_or_none(end, end_len)?);
        out.put_handle(esker_cursor::of_database(given(keyspace, "keyspace")?, snapshot, range)?);
        Ok(())
    })
}

/// Makes a cursor over the keys that start with `prefix`. Otherwise as `esker_cursor_range`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_prefix(
    keyspace: Option<&esker_keyspace>,
    snapshot: Option<&esker_snapshot>,
    prefix: *const u8,
    prefix_len: usize,
    cursor_out: *mut *mut esker_cursor,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(cursor_out, "the cursor")?;
        let range = KeyRange::prefix(bytes(prefix, prefix_len)?);
        out.put_handle(esker_cursor::of_database(given(keyspace, "keyspace")?, snapshot, range)?);
        Ok(())
    })
}

/// Makes a cursor over the keys from `start` on, up to and without `end`, as the transaction sees them,
/// its own writes included. NULL with length 0 is no bound.
///
/// It sees later writes of the transaction, too. It reads ahead as many entries as it has passed, at
/// most 64: for a serializable transaction they count as read. It may be freed before or after the
/// transaction, whose end it returns as `ESKER_TRANSACTION_ENDED`. Use it in the thread of the
/// transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_cursor_range(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    cursor_out: *mut *mut esker_cursor,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(cursor_out, "the cursor")?;
        let (transaction, keyspace) =
            (given(transaction, "transaction")?, given(keyspace, "keyspace")?);
        let range = range_of(bytes_or_none(start, start_len)?, bytes_or_none(end, end_len)?);
        out.put_handle(esker_cursor::of_transaction(transaction, keyspace, range));
        Ok(())
    })
}

/// Makes a cursor over the keys that start with `prefix`, as the transaction sees them. Otherwise as
/// `esker_transaction_cursor_range`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_cursor_prefix(
    transaction: Option<&esker_transaction>,
    keyspace: Option<&esker_keyspace>,
    prefix: *const u8,
    prefix_len: usize,
    cursor_out: *mut *mut esker_cursor,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(cursor_out, "the cursor")?;
        let (transaction, keyspace) =
            (given(transaction, "transaction")?, given(keyspace, "keyspace")?);
        let range = KeyRange::prefix(bytes(prefix, prefix_len)?);
        out.put_handle(esker_cursor::of_transaction(transaction, keyspace, range));
        Ok(())
    })
}

/// Moves to the first entry of the range.
///
/// This and the other moves return `ESKER_OK` if the cursor is on an entry then, and `ESKER_NOT_FOUND`
/// if there is none: it has no position then, nor after an error. `ESKER_CLOSED` once the database is
/// closed; the errors of `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_first(
    cursor: Option<&mut esker_cursor>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { given(cursor, "cursor")?.go(Move::First) })
}

/// Moves to the last entry of the range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_last(
    cursor: Option<&mut esker_cursor>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { given(cursor, "cursor")?.go(Move::Last) })
}

/// Moves to the first entry of the range whose key is `key` or after it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_seek(
    cursor: Option<&mut esker_cursor>,
    key: *const u8,
    key_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { given(cursor, "cursor")?.go(Move::Seek(bytes(key, key_len)?)) })
}

/// Moves to the last entry of the range whose key is `key` or before it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_seek_back(
    cursor: Option<&mut esker_cursor>,
    key: *const u8,
    key_len: usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { given(cursor, "cursor")?.go(Move::SeekBack(bytes(key, key_len)?)) })
}

/// Moves to the next entry. A cursor without a position stays without one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_next(
    cursor: Option<&mut esker_cursor>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { given(cursor, "cursor")?.go(Move::Next) })
}

/// Moves to the previous entry. A cursor without a position stays without one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_prev(
    cursor: Option<&mut esker_cursor>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { given(cursor, "cursor")?.go(Move::Prev) })
}

/// Returns the current entry without a copy. The bytes belong to the cursor, and are valid until it is
/// moved or freed, also after the database is closed.
///
/// `ESKER_NOT_FOUND` if the cursor has no position. `value_out` and `value_len_out` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_entry(
    cursor: Option<&esker_cursor>,
    key_out: *mut *const u8,
    key_len_out: *mut usize,
    value_out: *mut *const u8,
    value_len_out: *mut usize,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        if !value_out.is_null() {
            slot(value_out, std::ptr::null(), "the value")?;
        }
        if !value_len_out.is_null() {
            slot(value_len_out, 0, "the length of the value")?;
        }
        let key_slot = slot(key_out, std::ptr::null(), "the key")?;
        let key_len_slot = slot(key_len_out, 0, "the length of the key")?;
        let (key, value) =
            given(cursor, "cursor")?.source.current().ok_or_else(Failure::not_found)?;
        key_slot.put(key.as_ptr());
        key_len_slot.put(key.len());
        if !value_out.is_null() {
            slot(value_out, value.as_ptr(), "the value")?;
        }
        if !value_len_out.is_null() {
            slot(value_len_out, value.len(), "the length of the value")?;
        }
        Ok(())
    })
}

/// Frees a cursor. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_cursor_free(cursor: Option<Box<esker_cursor>>) {
    quietly((), || drop(cursor));
}
