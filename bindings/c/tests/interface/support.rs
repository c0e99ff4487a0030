//! Calls of the functions: [`call!`] and [`make!`] are all that is unsafe.

use esker_c::bytes::{esker_bytes, esker_bytes_free};
use esker_c::error::{esker_error, esker_error_free, esker_error_status, esker_error_text};
use esker_c::keyspace::*;
use esker_c::open::{esker_db, esker_open};
use esker_c::settings::*;
pub use esker_c::status::esker_status::{self, *};
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr;

/// The status and the text of a call that did not return `ESKER_OK`.
pub type Outcome<T = ()> = Result<T, (esker_status, String)>;

/// Calls a function with an error as the last argument.
macro_rules! call {
    ($function:path $(, $argument:expr)* $(,)?) => {{
        let mut error = std::ptr::null_mut();
        // SAFETY: each pointer among the arguments is NULL, or of a value that lives on.
        let status = unsafe { $function($($argument,)* &mut error) };
        // SAFETY: what is there now was made by the call.
        $crate::support::outcome(status, (!error.is_null()).then(|| unsafe { Box::from_raw(error) }))
    }};
}

/// Calls a function that makes a handle, and returns the handle.
macro_rules! make {
    ($function:path $(, $argument:expr)* $(,)?) => {{
        let mut made = std::ptr::null_mut();
        let outcome = call!($function, $($argument,)* &mut made);
        assert_eq!(outcome.is_err(), made.is_null(), "a failed call makes no handle");
        // SAFETY: the call made it.
        outcome.map(|()| unsafe { Box::from_raw(made) })
    }};
}

/// Calls a function that gives bytes, and returns a copy of them.
macro_rules! take {
    ($function:path $(, $argument:expr)* $(,)?) => {{
        let mut bytes = $crate::support::nothing();
        let outcome = call!($function, $($argument,)* &mut bytes);
        $crate::support::taken(outcome, bytes)
    }};
}

pub fn outcome(status: esker_status, error: Option<Box<esker_error>>) -> Outcome {
    let is_failure = !matches!(status, ESKER_OK | ESKER_NOT_FOUND);
    assert_eq!(error.is_some(), is_failure, "{status:?}");
    if status == ESKER_OK {
        return Ok(());
    }
    if let Some(error) = &error {
        assert_eq!(esker_error_status(Some(error)), status);
    }
    // SAFETY: the text ends with a zero, and lives as long as the error.
    let text = unsafe { CStr::from_ptr(esker_error_text(error.as_deref())) };
    let text = text.to_str().unwrap().to_owned();
    esker_error_free(error);
    Err((status, text))
}

pub fn nothing() -> esker_bytes {
    esker_bytes { data: ptr::null(), len: 0, owner: ptr::null_mut(), owner_len: 0 }
}

pub fn taken(outcome: Outcome, mut bytes: esker_bytes) -> Outcome<Vec<u8>> {
    assert_eq!(outcome.is_err(), bytes.data.is_null(), "bytes come with ESKER_OK only");
    let copy = outcome.map(|()| {
        // SAFETY: the call gave as many bytes.
        unsafe { std::slice::from_raw_parts(bytes.data, bytes.len) }.to_vec()
    });
    esker_bytes_free(Some(&mut bytes));
    copy
}

/// The status of a call that must have failed, with a text.
#[track_caller]
pub fn failure<T>(outcome: Outcome<T>) -> (esker_status, String) {
    let Err((status, text)) = outcome else { panic!("the call succeeded") };
    assert!(!text.is_empty(), "{status:?} has no text");
    (status, text)
}

#[track_caller]
pub fn status<T>(outcome: Outcome<T>) -> esker_status {
    outcome.err().map_or(ESKER_OK, |(status, _)| status)
}

pub fn c_text(text: impl AsRef<[u8]>) -> CString {
    CString::new(text.as_ref()).unwrap()
}

pub fn c_path(path: &Path) -> CString {
    c_text(path.as_os_str().as_encoded_bytes())
}

/// Settings of a small database.
pub fn small() -> Box<esker_settings> {
    let mut settings = make!(esker_settings_new).unwrap();
    for (name, value) in [("segment_bytes", "256KiB"), ("memory_bytes", "8MiB")] {
        let (name, value) = (c_text(name), c_text(value));
        call!(esker_settings_set, Some(&mut settings), name.as_ptr(), value.as_ptr()).unwrap();
    }
    settings
}

pub fn open(dir: &Path) -> Box<esker_db> {
    let dir = c_path(dir);
    make!(esker_open, dir.as_ptr(), Some(&small())).unwrap()
}

pub fn keyspace(db: &esker_db, name: &str) -> Box<esker_keyspace> {
    let name = c_text(name);
    make!(esker_keyspace_create, Some(db), name.as_ptr(), None).unwrap()
}

pub fn put(keyspace: &esker_keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Outcome {
    let (key, value) = (key.as_ref(), value.as_ref());
    call!(esker_put, Some(keyspace), key.as_ptr(), key.len(), value.as_ptr(), value.len())
}

pub fn get(keyspace: &esker_keyspace, key: impl AsRef<[u8]>) -> Outcome<Vec<u8>> {
    let key = key.as_ref();
    take!(esker_get, Some(keyspace), key.as_ptr(), key.len())
}
