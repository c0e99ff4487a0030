//! Merge operators whose functions a C program gives.

use crate::border::callback::{Destructor, State, start};
use crate::border::{Handle, c_api, memory};
use esker::merge::MergeError;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};

type FullMerge = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        *const c_char,
        usize,
        *const *const c_char,
        *const usize,
        c_int,
        *mut c_uchar,
        *mut usize,
    ) -> *mut c_char,
>;
type PartialMerge = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        *const *const c_char,
        *const usize,
        c_int,
        *mut c_uchar,
        *mut usize,
    ) -> *mut c_char,
>;
type DeleteValue = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
/// Returns the name of what callbacks implement.
pub type Name = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;

/// RocksDB's `rocksdb_mergeoperator_t`.
pub enum Operator {
    /// One whose functions a C program gave.
    Given(Functions),
    /// Adds 64-bit numbers.
    AddU64,
}

/// The functions of an operator.
pub struct Functions {
    state: State,
    full: FullMerge,
    partial: PartialMerge,
    delete_value: DeleteValue,
    name: Name,
}

impl Operator {
    /// Returns the operator that adds 64-bit numbers, little endian.
    pub fn add_u64() -> Self {
        Operator::AddU64
    }

    /// The value of `key` after `operands`, oldest first, on `base`.
    ///
    /// # Errors
    /// If the operator fails.
    pub fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        match self {
            Operator::Given(functions) => functions.full(key, base, operands),
            Operator::AddU64 => Ok(sum(base.into_iter().chain(operands.iter().copied()))),
        }
    }

    /// One operand that does what `operands` do, or `None`.
    pub fn partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        match self {
            Operator::Given(functions) => functions.partial(key, operands),
            Operator::AddU64 => Some(sum(operands.iter().copied())),
        }
    }
}

/// The sum of numbers of 8 bytes. What is no such number counts as zero, as in RocksDB.
fn sum<'a>(numbers: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    numbers.map(number).fold(0, u64::wrapping_add).to_le_bytes().to_vec()
}

/// The name that a callback returns.
pub fn name_of(state: &State, name: Name) -> String {
    let Some(name) = name else { return String::new() };
    // SAFETY: the C program gave both for this call, and returns a text that a zero ends.
    let text = unsafe {
        let text = name(state.get());
        (!text.is_null()).then(|| CStr::from_ptr(text))
    };
    text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Functions {
    /// The bytes that a callback returned, which are freed.
    fn taken(&self, value: *mut c_char, length: usize, success: c_uchar) -> Option<Vec<u8>> {
        let bytes = if value.is_null() {
            Vec::new()
        } else {
            // SAFETY: the callback returned so many bytes.
            unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec()
        };
        if !value.is_null() {
            match self.delete_value {
                // SAFETY: the C program gave this function to free what the callback returned.
                Some(delete) => unsafe { delete(self.state.get(), value, length) },
                None => memory::release(value),
            }
        }
        (success != 0).then_some(bytes)
    }

    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let full = self.full.ok_or_else(|| MergeError::new("the operator has no function"))?;
        let (starts, lengths) = parts(operands);
        let (mut success, mut length) = (1, 0);
        let base_start = base.map_or(std::ptr::null(), start);
        // SAFETY: the arguments are those of `c.h`, and live during the call.
        let value = unsafe {
            full(
                self.state.get(),
                start(key),
                key.len(),
                base_start,
                base.map_or(0, <[u8]>::len),
                starts.as_ptr(),
                lengths.as_ptr(),
                starts.len() as c_int,
                &mut success,
                &mut length,
            )
        };
        let failed = || MergeError::new(format!("{} failed", name_of(&self.state, self.name)));
        self.taken(value, length, success).ok_or_else(failed)
    }

    fn partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial = self.partial?;
        let (starts, lengths) = parts(operands);
        let (mut success, mut length) = (1, 0);
        // SAFETY: the arguments are those of `c.h`, and live during the call.
        let value = unsafe {
            partial(
                self.state.get(),
                start(key),
                key.len(),
                starts.as_ptr(),
                lengths.as_ptr(),
                starts.len() as c_int,
                &mut success,
                &mut length,
            )
        };
        self.taken(value, length, success)
    }
}

fn parts(operands: &[&[u8]]) -> (Vec<*const c_char>, Vec<usize>) {
    operands.iter().map(|operand| (start(operand), operand.len())).unzip()
}

c_api! {
    fn rocksdb_mergeoperator_create(
        state: *mut c_void,
        destructor: Destructor,
        full: FullMerge,
        partial: PartialMerge,
        delete_value: DeleteValue,
        name: Name,
    ) -> Handle<Operator> {
        let state = State::new(state, destructor);
        Handle::new(Operator::Given(Functions { state, full, partial, delete_value, name }))
    }

    fn rocksdb_mergeoperator_destroy(operator: Handle<Operator>) {
        drop(operator.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added() {
        let (one, two) = (1_u64.to_le_bytes(), 2_u64.to_le_bytes());
        let sum = Operator::add_u64().full(b"k", Some(&one), &[&two, b"no number"]);
        assert_eq!(sum, Ok(3_u64.to_le_bytes().to_vec()));
        assert_eq!(
            Operator::add_u64().partial(b"k", &[&two, &two]),
            Some(4_u64.to_le_bytes().into())
        );
    }
}
