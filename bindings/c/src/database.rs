//! Calls for a whole database: upkeep, settings that change while it is open, batches.

use crate::batch::esker_batch;
use crate::border::{given, handle_slot, path, slot, text};
use crate::bytes::esker_bytes;
use crate::error::esker_error;
use crate::keyspace::esker_keyspace;
use crate::open::esker_db;
use crate::status::esker_status;
use std::ffi::c_char;
use std::fmt::Write as _;

/// Writes a batch: all of it, or nothing. The batch stays as it is, and may be written again.
///
/// `ESKER_TOO_LARGE` if it exceeds its limits, `ESKER_FOREIGN_HANDLE` if a keyspace in it is of another
/// database, `ESKER_INVALID_ARGUMENT` for an empty range; otherwise the errors of `esker_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_write(
    db: Option<&esker_db>,
    batch: Option<&esker_batch>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { Ok(given(db, "db")?.db.write(&given(batch, "batch")?.batch)?) })
}

/// Makes all writes so far durable: they survive power loss.
///
/// `ESKER_LOG_FAILED` if that is not possible, `ESKER_READ_ONLY`, `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sync(
    db: Option<&esker_db>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { Ok(given(db, "db")?.db.sync()?) })
}

/// Flushes all writes so far to tables, and waits for it.
///
/// `ESKER_OUT_OF_SPACE` or `ESKER_IO` if the tables cannot be written, `ESKER_LOG_FAILED`,
/// `ESKER_READ_ONLY`, `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_flush(
    db: Option<&esker_db>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, { Ok(given(db, "db")?.db.flush()?) })
}

/// Flushes, and compacts each keyspace into one run without obsolete data. It takes as long as all
/// tables take to be rewritten, in the calling thread. With a `keyspace`, only that one is compacted;
/// NULL stands for all.
///
/// Errors: those of `esker_flush`; `ESKER_CORRUPTION` if a table is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_compact(
    db: Option<&esker_db>,
    keyspace: Option<&esker_keyspace>,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let db = &given(db, "db")?.db;
        match keyspace {
            Some(keyspace) => Ok(db.compact_keyspace(&keyspace.keyspace)?),
            None => Ok(db.compact()?),
        }
    })
}

/// Writes a copy of the database, as it is now, into the directory `dir`, which must be missing or
/// empty. Tables are hard links where that is possible.
///
/// `ESKER_DATABASE_EXISTS` or `ESKER_NOT_A_DATABASE` if `dir` holds something; the errors of
/// `esker_flush`. After an error nothing is left in `dir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_checkpoint(
    db: Option<&esker_db>,
    dir: *const c_char,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let db = given(db, "db")?;
        Ok(db.db.checkpoint(path(dir, "dir")?)?)
    })
}

/// Changes a setting while the database is open.
///
/// Names are background_threads, background_write_rate, memory_bytes, slow_call and sync, which last
/// until the close, and KEYSPACE.compression, KEYSPACE.dedup, KEYSPACE.filter_bits and
/// KEYSPACE.separation_threshold, which are stored. Values are those of `esker_settings_set`.
///
/// `ESKER_INVALID_SETTING` if there is no such setting or value, or it cannot be changed now;
/// `ESKER_UNKNOWN_KEYSPACE`, `ESKER_READ_ONLY`, `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_set(
    db: Option<&esker_db>,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let db = given(db, "db")?;
        let change = format!("{}={}", text(name, "name")?, text(value, "value")?);
        let change = change.parse().map_err(crate::settings::unknown_or_wrong)?;
        Ok(db.db.set(&change)?)
    })
}

/// Returns the settings that `esker_set` changes, as lines NAME=VALUE. The caller frees the text.
///
/// `ESKER_CLOSED`, `ESKER_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_current_settings(
    db: Option<&esker_db>,
    text_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(text_out, esker_bytes::NOTHING, "the settings")?;
        let mut lines = String::new();
        for setting in given(db, "db")?.db.settings()? {
            let _ = writeln!(lines, "{}={}", setting.name, setting.value);
        }
        out.put(esker_bytes::of_text(lines));
        Ok(())
    })
}

/// Returns the error that stops or limits background work now, such as a full disk or a damaged table.
/// NULL if there is none. The caller frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_background_error(
    db: Option<&esker_db>,
    error_out: *mut *mut esker_error,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(error_out, "the background error")?;
        if let Some(found) = given(db, "db")?.db.background_error() {
            out.put_handle(esker_error::new(found.into()));
        }
        Ok(())
    })
}
