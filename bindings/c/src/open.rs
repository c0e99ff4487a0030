//! The ways to open a database, and the close.

use crate::border::{Failure, given, handle_slot, path, slot};
use crate::error::esker_error;
use crate::settings::esker_settings;
use crate::status::esker_status;
use esker::{Db, Result, Settings};
use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An open database. Threads may share it.
pub struct esker_db {
    pub(crate) db: Db,
    pub(crate) closed: Closed,
}

/// Whether a database was closed, for handles that would still answer from memory.
#[derive(Clone, Default)]
pub(crate) struct Closed(Arc<AtomicBool>);

impl Closed {
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.0.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(esker::Error::Closed.into()),
        }
    }
}

/// # Safety
/// That of a function of `esker.h` with these arguments.
unsafe fn open_as(
    dir: *const c_char,
    settings: Option<&esker_settings>,
    db_out: *mut *mut esker_db,
    error: *mut *mut esker_error,
    open: impl FnOnce(&Path, Settings) -> Result<Db>,
) -> esker_status {
    border!(error, {
        let out = handle_slot(db_out, "the database")?;
        let db = open(path(dir, "dir")?, esker_settings::or_default(settings))?;
        out.put_handle(esker_db { db, closed: Closed::default() });
        Ok(())
    })
}

/// Opens the database in the directory `dir`, or creates it if the directory is missing or empty.
///
/// `settings` may be NULL for the defaults. The caller closes the database with `esker_close`.
///
/// `ESKER_INVALID_SETTING` if a setting is out of range; `ESKER_LOCKED` if the database is open for
/// writing elsewhere; `ESKER_NOT_A_DATABASE` if the directory holds other files, such as those of a
/// RocksDB database; `ESKER_CORRUPTION`, `ESKER_TORN_LOG`, `ESKER_NEWER_FORMAT`, `ESKER_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open(
    dir: *const c_char,
    settings: Option<&esker_settings>,
    db_out: *mut *mut esker_db,
    error: *mut *mut esker_error,
) -> esker_status {
    // SAFETY: the arguments are those of the caller.
    unsafe { open_as(dir, settings, db_out, error, |dir, settings| Db::open(dir, settings)) }
}

/// Opens the database in `dir` as `esker_open` does, but creates none: `ESKER_NOT_A_DATABASE` if there
/// is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open_existing(
    dir: *const c_char,
    settings: Option<&esker_settings>,
    db_out: *mut *mut esker_db,
    error: *mut *mut esker_error,
) -> esker_status {
    // SAFETY: the arguments are those of the caller.
    unsafe {
        open_as(dir, settings, db_out, error, |dir, settings| Db::open_existing(dir, settings))
    }
}

/// Opens the database in `dir` for reading, at its present state. Another process may write to it at
/// the same time.
///
/// Later calls that would change the database return `ESKER_READ_ONLY`. Errors: those of
/// `esker_open_existing`, without `ESKER_LOCKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open_read_only(
    dir: *const c_char,
    settings: Option<&esker_settings>,
    db_out: *mut *mut esker_db,
    error: *mut *mut esker_error,
) -> esker_status {
    // SAFETY: the arguments are those of the caller.
    unsafe {
        open_as(dir, settings, db_out, error, |dir, settings| Db::open_read_only(dir, settings))
    }
}

/// Opens the database in `dir` as a follower: for reading, while another process writes to it, whose
/// writes become visible here with `esker_catch_up`.
///
/// With an `interval_ms` above 0, a thread catches up that often, in milliseconds. Errors: those of
/// `esker_open_read_only`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open_follower(
    dir: *const c_char,
    settings: Option<&esker_settings>,
    interval_ms: u64,
    db_out: *mut *mut esker_db,
    error: *mut *mut esker_error,
) -> esker_status {
    let interval = (interval_ms > 0).then(|| Duration::from_millis(interval_ms));
    // SAFETY: the arguments are those of the caller.
    unsafe {
        open_as(dir, settings, db_out, error, |dir, settings| {
            Db::open_follower(dir, settings, interval)
        })
    }
}

/// Shows what the other process has written up to now. Sets `*through_out` to the number of the last
/// write that reads see; `through_out` may be NULL.
///
/// `ESKER_FOLLOWER` if the database was not opened as a follower, or another database is in its place
/// now; `ESKER_CORRUPTION`, `ESKER_IO`, `ESKER_CLOSED`. After an error, reads see what they saw before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_catch_up(
    db: Option<&esker_db>,
    through_out: *mut u64,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let caught_up = given(db, "db")?.db.catch_up()?;
        if !through_out.is_null() {
            slot(through_out, 0, "the number of the last write")?.put(caught_up.through);
        }
        Ok(())
    })
}

/// Closes the database: flushes what is in memory to tables, stops background work, releases the files,
/// and frees `db`, whatever it returns. NULL is allowed.
///
/// Handles that were made from it stay valid, and return `ESKER_CLOSED`; free each of them before or
/// after. No other call with `db` itself may be running. The error is that of the last flush:
/// acknowledged writes are in the log, and the next open recovers them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_close(
    db: Option<Box<esker_db>>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let Some(db) = db else { return Ok(()) };
        let esker_db { db, closed } = *db;
        closed.0.store(true, Ordering::Release);
        Ok(db.close()?)
    })
}
