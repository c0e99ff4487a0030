//! Errors of two-phase commits.

/// Why a transaction cannot be prepared, or a prepared one not decided.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreparedError {
    /// The id cannot name a prepared transaction: it is empty or too long.
    #[error("the id of a prepared transaction has 1 to {limit} bytes, not {bytes}")]
    BadId {
        /// The length of the id, in bytes.
        bytes: usize,
        /// The longest id, in bytes.
        limit: usize,
    },

    /// Another prepared transaction has the id.
    ///
    /// Commit it or roll it back, or use another id. The transaction that asked was rolled back.
    #[error(
        "a transaction is already prepared under the id {id}; commit it or roll it back, or use \
         another id"
    )]
    IdInUse {
        /// The id, with unprintable bytes escaped.
        id: String,
    },

    /// No transaction is prepared under the id. `Db::prepared` lists those that are.
    #[error(
        "no transaction is prepared under the id {id}; it may have been committed or rolled back"
    )]
    Unknown {
        /// The id, with unprintable bytes escaped.
        id: String,
    },
}
