//! The functions that the tests call, as a C program declares them, and helpers around them.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;
// The library has the functions.
use rocksdb as _;

/// A pointer to something of the library.
pub type P = *mut c_void;
/// A pointer to the start of bytes.
pub type B = *const c_char;

macro_rules! functions {
    ($(fn $name:ident($($type:ty),*) $(-> $answer:ty)?;)*) => {
        // SAFETY: these are functions of `rocksdb/c.h`, with its signatures. The tests pass pointers that the
        // library returned, or null.
        unsafe extern "C" {
            $(pub safe fn $name($(_: $type),*) $(-> $answer)?;)*
        }
    };
}

functions! {
    fn rocksdb_options_create() -> P;
    fn rocksdb_options_destroy(P);
    fn rocksdb_options_set_create_if_missing(P, c_uchar);
    fn rocksdb_options_set_create_missing_column_families(P, c_uchar);
    fn rocksdb_options_set_prefix_extractor(P, P);
    fn rocksdb_options_set_comparator(P, P);
    fn rocksdb_options_set_uint64add_merge_operator(P);
    fn rocksdb_slicetransform_create_fixed_prefix(usize) -> P;
    fn rocksdb_comparator_create(P, P, P, Name) -> P;
    fn rocksdb_comparator_destroy(P);
    fn rocksdb_open(P, B, *mut *mut c_char) -> P;
    fn rocksdb_open_as_secondary(P, B, B, *mut *mut c_char) -> P;
    fn rocksdb_open_column_families(
        P, B, c_int, *const B, *const P, *mut P, *mut *mut c_char
    ) -> P;
    fn rocksdb_try_catch_up_with_primary(P, *mut *mut c_char);
    fn rocksdb_close(P);
    fn rocksdb_destroy_db(P, B, *mut *mut c_char);
    fn rocksdb_column_family_handle_destroy(P);
    fn rocksdb_writeoptions_create() -> P;
    fn rocksdb_writeoptions_destroy(P);
    fn rocksdb_readoptions_create() -> P;
    fn rocksdb_readoptions_destroy(P);
    fn rocksdb_readoptions_set_prefix_same_as_start(P, c_uchar);
    fn rocksdb_put(P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_put_cf(P, P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_merge(P, P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_get(P, P, B, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    fn rocksdb_create_iterator(P, P) -> P;
    fn rocksdb_iter_destroy(P);
    fn rocksdb_iter_seek(P, B, usize);
    fn rocksdb_iter_seek_to_last(P);
    fn rocksdb_iter_seek_to_first(P);
    fn rocksdb_iter_valid(P) -> c_uchar;
    fn rocksdb_iter_next(P);
    fn rocksdb_iter_prev(P);
    fn rocksdb_iter_key(P, *mut usize) -> B;
    fn rocksdb_writebatch_wi_create(usize, c_uchar) -> P;
    fn rocksdb_writebatch_wi_destroy(P);
    fn rocksdb_writebatch_wi_put(P, B, usize, B, usize);
    fn rocksdb_writebatch_wi_delete(P, B, usize);
    fn rocksdb_writebatch_wi_create_iterator_with_base(P, P) -> P;
    fn rocksdb_transactiondb_options_create() -> P;
    fn rocksdb_transactiondb_options_destroy(P);
    fn rocksdb_transactiondb_open(P, P, B, *mut *mut c_char) -> P;
    fn rocksdb_transactiondb_close(P);
    fn rocksdb_transaction_options_create() -> P;
    fn rocksdb_transaction_options_destroy(P);
    fn rocksdb_transaction_options_set_lock_timeout(P, i64);
    fn rocksdb_transaction_begin(P, P, P, P) -> P;
    fn rocksdb_transaction_put(P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_transaction_commit(P, *mut *mut c_char);
    fn rocksdb_transaction_destroy(P);
    fn rocksdb_transactiondb_get(P, P, B, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    fn rocksdb_sstfilewriter_create(P, P) -> P;
    fn rocksdb_sstfilewriter_open(P, B, *mut *mut c_char);
    fn rocksdb_sstfilewriter_put(P, B, usize, B, usize, *mut *mut c_char);
    fn rocksdb_sstfilewriter_finish(P, *mut *mut c_char);
    fn rocksdb_sstfilewriter_destroy(P);
    fn rocksdb_ingestexternalfileoptions_create() -> P;
    fn rocksdb_ingestexternalfileoptions_destroy(P);
    fn rocksdb_ingest_external_file(P, *const B, usize, P, *mut *mut c_char);
    fn rocksdb_free(P);
}

/// Returns a name.
pub type Name = extern "C" fn(P) -> B;

/// Calls `call` with an `errptr`, and returns its answer, or its error.
pub fn with_error<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error = null_mut();
    let answer = call(&mut error);
    match error.is_null() {
        true => Ok(answer),
        false => Err(text(error)),
    }
}

fn text(text: *mut c_char) -> String {
    // SAFETY: the library gave a text that a zero ends, which is freed once.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    rocksdb_free(text.cast());
    copy
}

/// A path as C has it.
pub fn path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// The start of bytes.
pub fn start(bytes: &[u8]) -> B {
    bytes.as_ptr().cast()
}

/// A copy of what a get returned.
pub fn taken(value: *mut c_char, length: usize) -> Option<Vec<u8>> {
    if value.is_null() {
        return None;
    }
    // SAFETY: the library gave so many bytes, which are freed once.
    let copy = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec();
    rocksdb_free(value.cast());
    Some(copy)
}

/// The key of an iterator.
pub fn key_of(iterator: P) -> Vec<u8> {
    let mut length = 0;
    let key = rocksdb_iter_key(iterator, &mut length);
    // SAFETY: the iterator is at an entry, and has not moved since.
    unsafe { std::slice::from_raw_parts(key.cast::<u8>(), length) }.to_vec()
}
