//! Memory that the C program frees with `rocksdb_free` or `free`.

use std::ffi::{c_char, c_void};

// SAFETY: these are the functions of the C library, with its signatures.
unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// Allocates memory for `count` values of type `T`, which are not initialised.
///
/// # Panics
/// If there is no memory.
fn allocate<T>(count: usize) -> *mut T {
    let bytes = count.checked_mul(size_of::<T>()).expect("a size that fits");
    // SAFETY: any size may be asked for. One byte at least, so that null means failure.
    let memory = unsafe { malloc(bytes.max(1)) };
    assert!(!memory.is_null(), "out of memory: {bytes} bytes");
    memory.cast()
}

/// Returns a copy of `values` that C frees.
pub fn copy<T: Copy>(values: &[T]) -> *mut T {
    let memory = allocate::<T>(values.len());
    // SAFETY: the new memory has room for all values, and overlaps nothing.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), memory, values.len()) };
    memory
}

/// Returns a copy of `bytes` that C frees.
pub fn copy_bytes(bytes: &[u8]) -> *mut c_char {
    copy(bytes).cast()
}

/// Returns a copy of `text` with a zero at its end. C frees it. A zero within ends the text.
pub fn copy_text(text: &str) -> *mut c_char {
    let bytes: Vec<u8> = text.bytes().take_while(|&byte| byte != 0).chain([0]).collect();
    copy_bytes(&bytes)
}

/// Frees memory from `malloc`; null is fine.
pub fn release<T>(memory: *mut T) {
    // SAFETY: the C program passes what a function of this library, or its own `malloc`, returned, and
    // has not freed it.
    unsafe { free(memory.cast()) };
}
