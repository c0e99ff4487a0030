//! Errors as values.

use crate::border::Failure;
use crate::status::esker_status;
use std::ffi::{CString, c_char};

/// An error: its number and its text. Immutable, so threads may share it.
pub struct esker_error {
    status: esker_status,
    text: CString,
}

impl esker_error {
    pub(crate) fn new(failure: Failure) -> Self {
        // A text ends at its first zero in C.
        let text = failure.text.replace('\0', "\\0");
        esker_error { status: failure.status, text: CString::new(text).unwrap_or_default() }
    }
}

/// Returns the number of the error, as the failed call returned it. `ESKER_OK` if `error` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_error_status(error: Option<&esker_error>) -> esker_status {
    error.map_or(esker_status::ESKER_OK, |error| error.status)
}

/// Returns the text of the error: what failed, why, and what to do. It is UTF-8, ends with a zero, and
/// lives as long as the error. Empty if `error` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_error_text(error: Option<&esker_error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.text.as_ptr())
}

/// Frees an error. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_error_free(error: Option<Box<esker_error>>) {
    drop(error);
}
