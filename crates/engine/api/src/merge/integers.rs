//! Operators on numbers, and on values as byte strings.

use super::{MergeError, MergeOperator};

/// Adds integers: operands and values are 64-bit, little-endian, signed. Wraps around on overflow.
///
/// A missing value counts as 0. Its name is `add_i64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddI64;

/// Returns the integer that [`AddI64`] has stored as `value`, or `None` if that has not eight bytes.
pub fn decode_i64(value: &[u8]) -> Option<i64> {
    value.try_into().ok().map(i64::from_le_bytes)
}

fn integer(value: &[u8]) -> Result<i64, MergeError> {
    let wrong = || MergeError::new(format!("an integer has 8 bytes, and this has {}", value.len()));
    decode_i64(value).ok_or_else(wrong)
}

impl MergeOperator for AddI64 {
    fn name(&self) -> &str {
        "add_i64"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let mut sum = base.map_or(Ok(0), integer)?;
        for operand in operands {
            sum = sum.wrapping_add(integer(operand)?);
        }
        Ok(sum.to_le_bytes().to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(decode_i64(older)?.wrapping_add(decode_i64(newer)?).to_le_bytes().to_vec())
    }

    fn check(&self, _key: &[u8], operand: &[u8]) -> Result<(), MergeError> {
        integer(operand).map(drop)
    }
}

/// Keeps the greatest of all values and operands, compared bytewise. Its name is `max`.
///
/// Big-endian numbers of one length, and the keys of `esker::tuple`, compare as what they encode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

/// Keeps the least of all values and operands, compared bytewise. Its name is `min`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "max"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let all = base.into_iter().chain(operands.iter().copied());
        Ok(all.max().unwrap_or_default().to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.max(newer).to_vec())
    }
}

impl MergeOperator for Min {
    fn name(&self) -> &str {
        "min"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let all = base.into_iter().chain(operands.iter().copied());
        Ok(all.min().unwrap_or_default().to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.min(newer).to_vec())
    }
}
