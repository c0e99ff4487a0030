//! The list of transactions that are prepared and not decided.

use crate::border::{Failure, given, handle_slot, quietly, slot};
use crate::error::esker_error;
use crate::open::esker_db;
use crate::status::esker_status;
use esker::transaction::PreparedTransaction;

/// A list of prepared transactions, as they were when it was made. Threads may share it.
pub struct esker_prepared {
    list: Vec<PreparedTransaction>,
}

/// Lists the transactions that `esker_prepare` has prepared and that are not decided, in order of their
/// ids. The caller frees the list with `esker_prepared_free`.
///
/// `ESKER_CLOSED`, `ESKER_FORKED`; `ESKER_IO` or `ESKER_CORRUPTION` if they cannot be read. Works in a
/// database that is open for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_prepared_new(
    db: Option<&esker_db>,
    prepared_out: *mut *mut esker_prepared,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(prepared_out, "the list")?;
        let db = given(db, "db")?;
        db.closed.check()?;
        out.put_handle(esker_prepared { list: db.db.prepared()? });
        Ok(())
    })
}

/// Returns how many transactions the list has. 0 if `prepared` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_prepared_len(prepared: Option<&esker_prepared>) -> usize {
    prepared.map_or(0, |prepared| prepared.list.len())
}

/// Lends the id of the transaction at `index`, which counts from 0. The bytes live as long as the list.
///
/// Sets `*is_damaged_out` to whether a repair has lost a part of it, so that it can only be rolled back;
/// `is_damaged_out` may be NULL. `ESKER_NOT_FOUND` if the list has no such index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_prepared_entry(
    prepared: Option<&esker_prepared>,
    index: usize,
    id_out: *mut *const u8,
    id_len_out: *mut usize,
    is_damaged_out: *mut bool,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let id = slot(id_out, std::ptr::null(), "the id")?;
        let id_len = slot(id_len_out, 0, "the length of the id")?;
        let is_damaged = match is_damaged_out.is_null() {
            true => None,
            false => Some(slot(is_damaged_out, false, "whether it is damaged")?),
        };
        let list = &given(prepared, "prepared")?.list;
        let entry = list.get(index).ok_or_else(Failure::not_found)?;
        id.put(entry.id.as_ptr());
        id_len.put(entry.id.len());
        if let Some(is_damaged) = is_damaged {
            is_damaged.put(entry.is_damaged);
        }
        Ok(())
    })
}

/// Frees a list of prepared transactions. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_prepared_free(prepared: Option<Box<esker_prepared>>) {
    quietly((), || drop(prepared));
}
