//! The types of arguments and answers, each with the layout of a pointer.

use super::memory::{self, copy_text};
use super::{Code, Fallback, Result, Status};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`. A panic ends here, with the answer that stands for none.
pub fn guard<T: Fallback>(body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| T::fallback())
}

/// Runs `body`, and returns its panic as an error.
///
/// # Errors
/// If it panics, as for an argument that is invalid.
pub fn caught<T>(body: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| Status::of_panic(&*panic))
}

/// A pointer to a value of this library that a C program holds.
///
/// The program promises that it came from the function that creates such values, that it was not
/// destroyed, and that no other thread changes it during the call.
#[repr(transparent)]
pub struct Handle<T>(*mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> Handle<T> {
    /// Gives `value` to the C program, which destroys it.
    pub fn new(value: T) -> Self {
        Handle(Box::into_raw(Box::new(value)))
    }

    /// The null pointer.
    pub fn null() -> Self {
        Handle(std::ptr::null_mut())
    }

    /// The value, or `None` for the null pointer.
    pub fn optional(&self) -> Option<&T> {
        // SAFETY: it is null or valid: see the type. The borrow ends with the call, whose argument
        // `self` is.
        unsafe { self.0.as_ref() }
    }

    /// The value.
    ///
    /// # Panics
    /// If it is the null pointer.
    pub fn get(&self) -> &T {
        self.optional().unwrap_or_else(|| null::<T>())
    }

    /// Changes the value.
    ///
    /// # Panics
    /// If it is the null pointer.
    pub fn change<R>(self, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: it is null or valid, and no other thread uses it: see the type. `change` is given no
        // other way to it.
        change(unsafe { self.0.as_mut() }.unwrap_or_else(|| null::<T>()))
    }

    /// Takes the value back from the C program, which does not use it any more.
    pub fn take(self) -> Option<Box<T>> {
        // SAFETY: `new` made it, and it was not destroyed: see the type.
        (!self.0.is_null()).then(|| unsafe { Box::from_raw(self.0) })
    }

    /// Gives a copy of `value` to the C program, which frees it with `free`.
    pub fn plain(value: T) -> Self
    where
        T: Copy,
    {
        Handle(memory::copy(&[value]))
    }

    /// Frees a value that [`Handle::plain`] gave.
    pub fn free(self) {
        memory::release(self.0);
    }
}

#[cold]
fn null<T>() -> ! {
    panic!("a null pointer was passed as {}", std::any::type_name::<T>())
}

/// Panics unless an array may have so many values. `ErrorOut::guard` reports it.
#[inline]
fn check<T>(is_null: bool, length: usize) {
    if is_null {
        panic!("a null pointer was passed with the length {length}");
    }
    if length.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        panic!("a length was passed that cannot be: {length}");
    }
}

/// The start of bytes whose length is another argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Bytes(*const c_char);

impl Bytes {
    /// The bytes. A null pointer is fine if there are none.
    ///
    /// # Panics
    /// If it is the null pointer and has a length, or if the length is negative.
    pub fn of(&self, length: usize) -> &[u8] {
        if length == 0 {
            return &[];
        }
        check::<u8>(self.0.is_null(), length);
        // SAFETY: the C program promises that `length` bytes are there, and do not change during the
        // call, whose argument `self` is.
        unsafe { std::slice::from_raw_parts(self.0.cast(), length) }
    }

    /// The start of bytes that C reads.
    pub fn at(bytes: Option<&[u8]>) -> Self {
        Bytes(bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast()))
    }

    /// The bytes, or `None` for a null pointer, whatever its length.
    pub fn optional(&self, length: usize) -> Option<&[u8]> {
        (!self.0.is_null()).then(|| self.of(length))
    }
}

/// A text that ends with a zero.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// The text, or `None` for a null pointer.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn optional(&self) -> Result<Option<&str>> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the C program promises that a zero ends it, and that it does not change during the
        // call, whose argument `self` is.
        let text = unsafe { CStr::from_ptr(self.0) };
        let wrong = |_| {
            Status::new(Code::InvalidArgument, "a path or a name is not UTF-8; Esker needs UTF-8")
        };
        text.to_str().map(Some).map_err(wrong)
    }

    /// The text.
    ///
    /// # Errors
    /// If it is null or not UTF-8.
    pub fn get(&self) -> Result<&str> {
        let null = || {
            Status::new(Code::InvalidArgument, "a path or a name is a null pointer; pass a text")
        };
        self.optional()?.ok_or_else(null)
    }
}

/// The start of an array that the C program made, whose length is another argument.
#[repr(transparent)]
pub struct Array<T>(*const T);

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

impl<T> Array<T> {
    /// The values. A null pointer is fine if there are none.
    ///
    /// # Panics
    /// If it is the null pointer and has a length, or if there cannot be so many values.
    pub fn of(&self, length: usize) -> &[T] {
        if length == 0 {
            return &[];
        }
        check::<T>(self.0.is_null(), length);
        // SAFETY: the C program promises that there are so many values, and that they do not change
        // during the call, whose argument `self` is.
        unsafe { std::slice::from_raw_parts(self.0, length) }
    }

    /// Whether it is the null pointer.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Frees an array that `memory` gave.
    pub fn free(self) {
        memory::release(self.0.cast_mut());
    }
}

/// Keys or values: an array of their starts, and one of their lengths.
pub fn slices<'a>(
    starts: &'a Array<Bytes>,
    lengths: &'a Array<usize>,
    count: usize,
) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
    starts.of(count).iter().zip(lengths.of(count)).map(|(start, length)| start.of(*length))
}

/// As [`slices`], with an error for each key whose bytes cannot be.
pub fn caught_slices<'a>(
    starts: &'a Array<Bytes>,
    lengths: &'a Array<usize>,
    count: usize,
) -> impl Iterator<Item = Result<&'a [u8]>> + use<'a> {
    let all = starts.of(count).iter().zip(lengths.of(count));
    all.map(|(start, length)| caught(|| start.of(*length)))
}

/// Where an answer goes: one value, or an array of them.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Writes the answer, unless the pointer is null.
    pub fn set(self, value: T) {
        self.set_at(0, value);
    }

    /// Writes one of several answers, unless the pointer is null.
    pub fn set_at(self, at: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: the C program promises room for the answer, or for as many as it asked for.
            unsafe { self.0.add(at).write(value) };
        }
    }

    /// Whether it is the null pointer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// Where an error goes: RocksDB's `errptr`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ErrorOut(*mut *mut c_char);

impl ErrorOut {
    /// Runs `body`, and reports its error, or its panic.
    pub fn guard<T: Fallback>(self, body: impl FnOnce() -> Result<T>) -> T {
        let status = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(answer)) => return answer,
            Ok(Err(status)) => status,
            Err(panic) => Status::of_panic(&*panic),
        };
        self.set(&status);
        T::fallback()
    }

    /// Reports an error. An earlier one is freed.
    pub fn set(self, status: &Status) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: it points to null or to a text from `malloc`, as `c.h` demands of every `errptr`.
        let earlier = unsafe { self.0.replace(copy_text(&status.to_string())) };
        memory::release(earlier);
    }
}
