//! What each function goes through on its way in and out.
//!
//! A function that can fail is one [`border!`] with a body that returns a [`Failure`] on an error. The
//! functions here read the pointers that it got.

use crate::error::esker_error;
use crate::status::{esker_status, status_of};
use std::any::Any;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs the body of a function: see [`run`].
macro_rules! border {
    ($error:expr, $body:block) => {{
        // SAFETY: the caller keeps the rules of pointers in `esker.h`: each pointer is NULL or points to
        // as much as the function reads or writes there, and nothing else changes it during the call.
        unsafe { $crate::border::run($error, || $body) }
    }};
}

/// Why a call failed.
pub(crate) struct Failure {
    pub(crate) status: esker_status,
    pub(crate) text: String,
}

impl Failure {
    #[cold]
    pub(crate) fn new(status: esker_status, text: impl Into<String>) -> Self {
        Failure { status, text: text.into() }
    }

    /// An answer that is no failure, so it has no text.
    pub(crate) fn not_found() -> Self {
        Failure { status: esker_status::ESKER_NOT_FOUND, text: String::new() }
    }

    #[cold]
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Failure::new(esker_status::ESKER_INVALID_ARGUMENT, text)
    }

    /// Of a panic.
    #[cold]
    fn panicked(panic: Box<dyn Any + Send>) -> Self {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(|text| &text[..]));
        let said = said.unwrap_or("no message").to_owned();
        // What a panic carries may itself panic when it is dropped.
        std::mem::forget(panic);
        Failure::new(
            esker_status::ESKER_PANICKED,
            format!("the library has a bug: {said}; close the database and open it again"),
        )
    }
}

impl From<esker::Error> for Failure {
    #[cold]
    fn from(error: esker::Error) -> Self {
        Failure::new(status_of(&error), error.to_string())
    }
}

/// Runs `body`, and returns its status. On a failure makes an error in `error`, unless that is NULL;
/// otherwise sets it to NULL. A panic is a failure.
///
/// # Safety
/// `error` is NULL or may be written to.
#[inline]
pub(crate) unsafe fn run(
    error: *mut *mut esker_error,
    body: impl FnOnce() -> Result<(), Failure>,
) -> esker_status {
    let result =
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(Failure::panicked(panic)));
    let (status, made) = match result {
        Ok(()) => (esker_status::ESKER_OK, std::ptr::null_mut()),
        Err(failure) => fail(failure, !error.is_null()),
    };
    if !error.is_null() {
        // SAFETY: the caller says so.
        unsafe { error.write(made) };
    }
    status
}

#[cold]
fn fail(failure: Failure, is_wanted: bool) -> (esker_status, *mut esker_error) {
    let status = failure.status;
    let made = match is_wanted && status != esker_status::ESKER_NOT_FOUND {
        true => Box::into_raw(Box::new(esker_error::new(failure))),
        false => std::ptr::null_mut(),
    };
    (status, made)
}

/// Runs what cannot fail but may panic, such as a drop, and returns `instead` after a panic.
pub(crate) fn quietly<T>(instead: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        std::mem::forget(panic);
        instead
    })
}

/// The handle that must not be NULL.
#[inline]
pub(crate) fn given<T>(handle: Option<T>, what: &str) -> Result<T, Failure> {
    handle.ok_or_else(|| Failure::invalid(format!("{what} is NULL")))
}

/// The bytes at `data`.
///
/// # Safety
/// `data` is NULL or has `len` bytes that nothing changes while they are used.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    if len > isize::MAX as usize {
        return Err(Failure::invalid(format!(
            "a length of {len} bytes is more than memory can have"
        )));
    }
    match data.is_null() {
        // SAFETY: the caller says so.
        false => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
        true if len == 0 => Ok(&[]),
        true => Err(Failure::invalid(format!("a pointer to {len} bytes is NULL"))),
    }
}

/// The bytes at `data`, or `None` if it is NULL.
///
/// # Safety
/// That of [`bytes`].
pub(crate) unsafe fn bytes_or_none<'a>(
    data: *const u8,
    len: usize,
) -> Result<Option<&'a [u8]>, Failure> {
    match data.is_null() && len == 0 {
        true => Ok(None),
        // SAFETY: the caller says so.
        false => unsafe { bytes(data, len) }.map(Some),
    }
}

/// The `count` keys whose starts and lengths are in two arrays.
///
/// # Safety
/// Each array is NULL or has `count` items, and each key is that of [`bytes`].
pub(crate) unsafe fn keys<'a>(
    starts: *const *const u8,
    lengths: *const usize,
    count: usize,
) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: the caller says so.
    let (starts, lengths) =
        unsafe { (array(starts, count, "keys")?, array(lengths, count, "key_lens")?) };
    // SAFETY: the caller says so.
    starts.iter().zip(lengths).map(|(start, length)| unsafe { bytes(*start, *length) }).collect()
}

/// The `count` items at `items`.
///
/// # Safety
/// `items` is NULL or has `count` items that nothing changes while they are used.
unsafe fn array<'a, T>(items: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    match (count, items.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Failure::invalid(format!("{what} is NULL"))),
        // SAFETY: the caller says so.
        (_, false) => Ok(unsafe { std::slice::from_raw_parts(items, checked::<T>(count)?) }),
    }
}

/// `count`, if as many items fit memory.
fn checked<T>(count: usize) -> Result<usize, Failure> {
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(count),
        _ => Err(Failure::invalid(format!("a count of {count} is more than memory can have"))),
    }
}

/// The text `text`, which ends with a zero. `what` is for the message.
///
/// # Safety
/// `text` is NULL or ends with a zero, and nothing changes it while it is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller says so.
    let text = unsafe { zero_ended(text, what) }?;
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// The path `text`, which ends with a zero.
///
/// # Safety
/// That of [`text`].
pub(crate) unsafe fn path<'a>(text: *const c_char, what: &str) -> Result<&'a Path, Failure> {
    // SAFETY: the caller says so.
    let text = unsafe { zero_ended(text, what) }?;
    match text.to_bytes() {
        [] => Err(Failure::invalid(format!("{what} is empty"))),
        bytes => Ok(Path::new(OsStr::from_bytes(bytes))),
    }
}

/// # Safety
/// That of [`text`].
unsafe fn zero_ended<'a>(text: *const c_char, what: &str) -> Result<&'a CStr, Failure> {
    match text.is_null() {
        // SAFETY: the caller says so.
        false => Ok(unsafe { CStr::from_ptr(text) }),
        true => Err(Failure::invalid(format!("{what} is NULL"))),
    }
}

/// Where a function puts a result.
pub(crate) struct Slot<'a, T>(&'a mut T);

impl<T> Slot<'_, T> {
    #[inline]
    pub(crate) fn put(self, value: T) {
        *self.0 = value;
    }
}

impl<T> Slot<'_, *mut T> {
    /// Puts a new handle there.
    pub(crate) fn put_handle(self, handle: T) {
        *self.0 = Box::into_raw(Box::new(handle));
    }
}

/// The place `out`, in which is `nothing` until a result is put there.
///
/// # Safety
/// `out` is NULL or may be written to.
#[inline]
pub(crate) unsafe fn slot<'a, T>(
    out: *mut T,
    nothing: T,
    what: &str,
) -> Result<Slot<'a, T>, Failure> {
    if out.is_null() {
        return Err(Failure::invalid(format!("the pointer for {what} is NULL")));
    }
    // SAFETY: the caller says so, and what is written is initialised from then on.
    unsafe {
        out.write(nothing);
        Ok(Slot(&mut *out))
    }
}

/// The `count` places from `out` on, in which is `nothing` until results are put there.
///
/// # Safety
/// `out` is NULL or each place may be written to.
pub(crate) unsafe fn slots<'a, T>(
    out: *mut T,
    count: usize,
    nothing: impl Fn() -> T,
    what: &str,
) -> Result<&'a mut [T], Failure> {
    let count = checked::<T>(count)?;
    match (count, out.is_null()) {
        (0, _) => Ok(&mut []),
        (_, true) => Err(Failure::invalid(format!("the pointer for {what} is NULL"))),
        // SAFETY: the caller says so, and what is written is initialised from then on.
        (_, false) => unsafe {
            (0..count).for_each(|at| out.add(at).write(nothing()));
            Ok(std::slice::from_raw_parts_mut(out, count))
        },
    }
}

/// The place `out` for a handle, which is NULL until there is one.
///
/// # Safety
/// That of [`slot`].
pub(crate) unsafe fn handle_slot<'a, T>(
    out: *mut *mut T,
    what: &str,
) -> Result<Slot<'a, *mut T>, Failure> {
    // SAFETY: the caller says so.
    unsafe { slot(out, std::ptr::null_mut(), what) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{esker_error_free, esker_error_status, esker_error_text};

    /// What a call returns whose body does this.
    fn outcome(body: impl FnOnce() -> Result<(), Failure>) -> (esker_status, Option<String>) {
        let mut error = std::ptr::null_mut();
        // SAFETY: there is a place for the error, and what is there then was made by the call.
        let (status, error) = unsafe {
            let status = run(&mut error, body);
            (status, (!error.is_null()).then(|| Box::from_raw(error)))
        };
        let text = error.as_deref().map(|error| {
            assert_eq!(esker_error_status(Some(error)), status);
            // SAFETY: the text ends with a zero.
            unsafe { CStr::from_ptr(esker_error_text(Some(error))) }.to_str().unwrap().to_owned()
        });
        esker_error_free(error);
        (status, text)
    }

    #[test]
    fn a_panic_is_an_error() {
        let (status, text) = outcome(|| panic!("what a bug says"));
        assert_eq!(status, esker_status::ESKER_PANICKED);
        assert!(text.unwrap().contains("what a bug says"));
        let (status, text) = outcome(|| panic!("number {}", 7));
        assert_eq!(status, esker_status::ESKER_PANICKED);
        assert!(text.unwrap().contains("number 7"));
        let (status, _) = outcome(|| std::panic::panic_any(7));
        assert_eq!(status, esker_status::ESKER_PANICKED);
    }

    #[test]
    fn a_panic_that_panics_when_it_is_dropped_is_an_error() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        let (status, _) = outcome(|| std::panic::panic_any(Panics));
        assert_eq!(status, esker_status::ESKER_PANICKED);
        assert_eq!(quietly(3, || std::panic::panic_any(Panics)), 3);
    }

    #[test]
    fn an_answer_is_no_error() {
        assert_eq!(outcome(|| Ok(())), (esker_status::ESKER_OK, None));
        let not_found = outcome(|| Err(Failure::not_found()));
        assert_eq!(not_found, (esker_status::ESKER_NOT_FOUND, None));
    }

    #[test]
    fn a_zero_in_a_text_does_not_end_it() {
        let (_, text) = outcome(|| Err(Failure::invalid("a\0b")));
        assert_eq!(text.unwrap(), "a\\0b");
    }
}
