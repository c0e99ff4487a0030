//! Bytes that the library gives to the caller.

use crate::border::quietly;
use esker::Value;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;

/// Bytes that the library returned: a value, or a text. The caller frees them with `esker_bytes_free`.
///
/// A copy of the struct refers to the same bytes, so free one of them only. The bytes live until then,
/// also after the database is closed. A text ends with a zero, which `len` does not count.
#[repr(C)]
pub struct esker_bytes {
    /// The bytes. Never NULL after a call that returned `ESKER_OK`; NULL after any other.
    pub data: *const u8,
    /// Their number.
    pub len: usize,
    /// What the library frees.
    pub owner: *mut c_void,
    /// What the library needs to free it.
    pub owner_len: usize,
}

/// From this length on, a value is not copied out of its block.
const SHARED_FROM_BYTES: usize = 4096;

impl esker_bytes {
    pub(crate) const NOTHING: esker_bytes =
        esker_bytes { data: ptr::null(), len: 0, owner: ptr::null_mut(), owner_len: 0 };

    #[inline]
    pub(crate) fn of_value(value: Value) -> Self {
        if value.len() < SHARED_FROM_BYTES {
            let value = value.into_vec();
            let len = value.len();
            return esker_bytes::of_vec(value, len);
        }
        // Freed as a value, as `owner_len` is 0.
        let value = Box::new(value);
        let (data, len) = (value.as_ptr(), value.len());
        esker_bytes { data, len, owner: Box::into_raw(value).cast(), owner_len: 0 }
    }

    /// The text, with a zero after it.
    pub(crate) fn of_text(text: String) -> Self {
        let len = text.len();
        let mut text = text.into_bytes();
        text.push(0);
        esker_bytes::of_vec(text, len)
    }

    /// The first `len` bytes of `bytes`.
    #[inline]
    fn of_vec(bytes: Vec<u8>, len: usize) -> Self {
        if bytes.capacity() == 0 {
            return esker_bytes { data: c"".as_ptr().cast(), ..esker_bytes::NOTHING };
        }
        let mut bytes = ManuallyDrop::new(bytes);
        let data = bytes.as_mut_ptr();
        esker_bytes { data, len, owner: data.cast(), owner_len: bytes.capacity() }
    }
}

/// Frees what a call put into `bytes`, and sets `*bytes` to nothing, so that a second call does
/// nothing. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_bytes_free(bytes: Option<&mut esker_bytes>) {
    let Some(bytes) = bytes else { return };
    let esker_bytes { owner, owner_len, .. } = std::mem::replace(bytes, esker_bytes::NOTHING);
    quietly((), || match (owner.is_null(), owner_len) {
        (true, _) => {}
        // SAFETY: `of_value` made it with this length, and it is freed once.
        (false, 0) => drop(unsafe { Box::from_raw(owner.cast::<Value>()) }),
        // SAFETY: `of_vec` took it from a vector of this capacity, and it is freed once.
        (false, capacity) => drop(unsafe { Vec::from_raw_parts(owner.cast::<u8>(), 0, capacity) }),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds_are_given_and_freed() {
        for len in [0, 1, 30, 31, SHARED_FROM_BYTES - 1, SHARED_FROM_BYTES, 1 << 20] {
            let value = vec![7; len];
            let mut bytes = esker_bytes::of_value(Value::from(value.clone()));
            assert!(!bytes.data.is_null());
            // SAFETY: there are as many bytes until they are freed.
            let given = unsafe { std::slice::from_raw_parts(bytes.data, bytes.len) };
            assert_eq!(given, value, "{len}");
            esker_bytes_free(Some(&mut bytes));
            assert!(bytes.data.is_null() && bytes.owner.is_null());
            esker_bytes_free(Some(&mut bytes));
        }
        esker_bytes_free(None);
    }

    #[test]
    fn a_text_ends_with_a_zero_that_is_not_counted() {
        for text in ["", "a text"] {
            let mut bytes = esker_bytes::of_text(text.to_owned());
            assert_eq!(bytes.len, text.len());
            // SAFETY: there is a zero after the text.
            let given = unsafe { std::slice::from_raw_parts(bytes.data, bytes.len + 1) };
            assert_eq!(given, [text.as_bytes(), b"\0"].concat());
            esker_bytes_free(Some(&mut bytes));
        }
    }
}
