//! Operators that gather: appended bytes, and sets.

use super::{MergeError, MergeOperator};
use esker_base::coding::{put_bytes, take_bytes};

/// Appends operands to the value, oldest first. Its name is `append`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let bytes = operands.iter().map(|operand| operand.len()).sum::<usize>();
        let mut value = Vec::with_capacity(base.map_or(0, <[u8]>::len) + bytes);
        value.extend_from_slice(base.unwrap_or_default());
        operands.iter().for_each(|operand| value.extend_from_slice(operand));
        Ok(value)
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

/// Unites sets of byte strings. Its name is `set_union`.
///
/// Values and operands are sets as [`set_of`] encodes them: each element is a varint length and so
/// many bytes, in ascending order, once.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetUnion;

/// Returns the set of `elements` for [`SetUnion`], encoded.
pub fn set_of<'a>(elements: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut elements: Vec<&[u8]> = elements.into_iter().collect();
    elements.sort_unstable();
    elements.dedup();
    let mut out = Vec::new();
    elements.iter().for_each(|element| put_bytes(&mut out, element));
    out
}

/// Returns the elements of an encoded set, ascending, or `None` if `set` is not one.
pub fn set_elements(mut set: &[u8]) -> Option<Vec<&[u8]>> {
    let mut elements: Vec<&[u8]> = Vec::new();
    while !set.is_empty() {
        let element = take_bytes(&mut set)?;
        if elements.last().is_some_and(|last| *last >= element) {
            return None;
        }
        elements.push(element);
    }
    Some(elements)
}

fn elements(set: &[u8]) -> Result<Vec<&[u8]>, MergeError> {
    set_elements(set).ok_or_else(|| MergeError::new("it is not an encoded set"))
}

impl MergeOperator for SetUnion {
    fn name(&self) -> &str {
        "set_union"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let mut all = base.map_or(Ok(Vec::new()), elements)?;
        for operand in operands {
            all.extend(elements(operand)?);
        }
        Ok(set_of(all))
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let mut all = set_elements(older)?;
        all.extend(set_elements(newer)?);
        Some(set_of(all))
    }

    fn check(&self, _key: &[u8], operand: &[u8]) -> Result<(), MergeError> {
        elements(operand).map(drop)
    }
}
