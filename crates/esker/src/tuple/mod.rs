//! Keys that consist of several values, and sort as these values do.
//!
//! Esker compares keys bytewise. This codec encodes a tuple, such as a tenant, a time and a number,
//! into bytes that compare as the tuple does, element by element. So a range of keys is a range of
//! tuples, and tuples with the same first elements are adjacent.
//!
//! ```
//! use esker::tuple;
//!
//! let early = tuple::encode(&("orders", 42u64, -3i64));
//! let late = tuple::encode(&("orders", 42u64, 7i64));
//! assert!(early < late);
//!
//! let (table, customer, day): (String, u64, i64) = tuple::decode(&late)?;
//! assert_eq!((table.as_str(), customer, day), ("orders", 42, 7));
//! # Ok::<(), tuple::DecodeError>(())
//! ```
//!
//! Each element is self-delimiting. So the bytes of a tuple are a prefix of the bytes of every
//! longer tuple that starts with it, and of no other tuple:
//!
//! ```
//! use esker::{KeyRange, tuple};
//!
//! let of_customer = KeyRange::prefix(&tuple::encode(&("orders", 42u64)));
//! assert!(of_customer.contains(&tuple::encode(&("orders", 42u64, 7i64))));
//! assert!(!of_customer.contains(&tuple::encode(&("orders", 420u64, 7i64))));
//! ```
//!
//! `docs/formats/tuple.md` specifies the bytes. The format never changes, because keys are stored
//! in it.

mod element;
mod format;
mod typed;

pub use element::Element;
pub use format::{decode_elements, encode_elements};
pub use typed::{Bytes, FromElement, FromTuple, ToElement, ToTuple, decode, encode};

/// The error of bytes that are not an encoded tuple, or not one of the expected type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the tuple expected, at byte {offset}: {what}")]
pub struct DecodeError {
    /// The offset of the error in bytes or, if a type does not match, the index of the element.
    pub offset: usize,
    /// What is wrong there.
    pub what: String,
}

#[cfg(test)]
mod tests;
