//! Errors of values that are larger than a log entry may be.

use super::Error;

/// Why a large value is not written. [`Error::ValueTooLarge`] is for calls that take none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LargeValueError {
    /// The value is longer than any may be. Split it.
    #[error("the value is longer than {limit} bytes, the most that a value may have; split it")]
    TooLong {
        /// The most bytes of a value.
        limit: u64,
    },

    /// The keyspace takes no value that is larger than a log entry.
    #[error(
        "the entry takes more than {limit} bytes, and keyspace {keyspace:?} takes no such value, because \
         {reason}; split the value, or put it to another keyspace"
    )]
    Refused {
        /// The name of the keyspace.
        keyspace: String,
        /// Why.
        reason: &'static str,
        /// The most bytes of a log entry.
        limit: usize,
    },

    /// A batch with such a value has something else than puts and deletes of single keys.
    #[error(
        "an entry of the batch takes more than {limit} bytes; such a batch has puts and deletes of single \
         keys only; write the rest in another batch, or split the value"
    )]
    Mixed {
        /// The most bytes of a log entry.
        limit: usize,
    },
}

impl From<LargeValueError> for Error {
    fn from(error: LargeValueError) -> Self {
        Error::LargeValue(Box::new(error))
    }
}
