//! Keys made of several values, whose byte order is the order of the values.
//!
//! Esker compares keys bytewise. This codec turns a tuple, say a tenant, a time and a number, into
//! bytes that compare as the tuple does, element by element, so that a range of keys is a range of
//! tuples and all tuples that begin alike are neighbours.
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
//! Each element is self-delimiting, so a tuple's bytes are a prefix of the bytes of every longer
//! tuple that begins with it, and of no other:
//!
//! ```
//! use esker::{KeyRange, tuple};
//!
//! let of_customer = KeyRange::prefix(&tuple::encode(&("orders", 42u64)));
//! assert!(of_customer.contains(&tuple::encode(&("orders", 42u64, 7i64))));
//! assert!(!of_customer.contains(&tuple::encode(&("orders", 420u64, 7i64))));
//! ```
//!
//! The bytes are described in `docs/formats/tuple.md`. They never change: they are in your keys.

mod element;
mod format;
mod typed;

pub use element::Element;
pub use format::{decode_elements, encode_elements};
pub use typed::{Bytes, FromElement, FromTuple, ToElement, ToTuple, decode, encode};

/// Why bytes are not an encoded tuple, or not one of the type asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the tuple expected, at byte {offset}: {what}")]
pub struct DecodeError {
    /// Where in the bytes, or for a type that does not fit, which element.
    pub offset: usize,
    /// What does not hold there.
    pub what: String,
}

#[cfg(test)]
mod tests;
