//! Errors of secondary indexes.

use super::Error;
use std::sync::Arc;

/// Why a call failed because of a secondary index.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The keyspace has an index whose function this open was not given yet, so a write could not keep
    /// the index up to date.
    ///
    /// Register the index with `Keyspace::index`, or drop it with `Keyspace::drop_index`.
    #[error(
        "could not write to keyspace {keyspace:?}: its index {index:?} is not registered since the \
         database was opened; register it with `Keyspace::index`, or drop it with \
         `Keyspace::drop_index`"
    )]
    NotRegistered {
        /// The name of the keyspace.
        keyspace: String,
        /// The name of the index.
        index: String,
    },

    /// The index does not cover all rows yet, or not at the snapshot.
    ///
    /// Wait with `Index::wait_ready`. A snapshot from before the index was built never sees it.
    #[error("index {index:?} is not ready: {state}; wait with `Index::wait_ready`")]
    NotReady {
        /// The name of the index.
        index: String,
        /// How far it is.
        state: String,
    },

    /// The build of the index failed.
    ///
    /// Fix the cause, and call `Keyspace::index` again.
    #[error(
        "the build of index {index:?} failed: {cause}; fix the cause, and call `Keyspace::index` again"
    )]
    BuildFailed {
        /// The name of the index.
        index: String,
        /// What failed.
        cause: Arc<Error>,
    },

    /// Two rows have the same key in a unique index.
    #[error(
        "index {index:?} is unique, and key {index_key} would be that of two rows, {other} and {key}; \
         change or delete one of them"
    )]
    NotUnique {
        /// The name of the index.
        index: String,
        /// The key in the index, with unprintable bytes escaped.
        index_key: String,
        /// The key of the row that was refused, with unprintable bytes escaped.
        key: String,
        /// The key of the row that has the index key, with unprintable bytes escaped.
        other: String,
    },

    /// The function of an index panicked. Nothing was written.
    #[error(
        "the function of index {index:?} panicked for the row {key}: {message}; correct the function, \
         or the row"
    )]
    FunctionPanicked {
        /// The name of the index.
        index: String,
        /// The key of the row, with unprintable bytes escaped.
        key: String,
        /// The message of the panic.
        message: String,
    },

    /// A row would have an entry in the index that is longer than a key may be. An entry has the key in
    /// the index and, unless the index is unique, the key of the row.
    #[error(
        "index {index:?} would have an entry of {bytes} bytes for the row {key}, and at most {limit} \
         are possible; correct the function, or the row"
    )]
    EntryTooLong {
        /// The name of the index.
        index: String,
        /// The key of the row, with unprintable bytes escaped.
        key: String,
        /// The length of the entry.
        bytes: usize,
        /// The length that is possible.
        limit: usize,
    },

    /// The index exists with another version, or differs in whether it is unique, and the caller asked
    /// not to rebuild it.
    #[error(
        "index {index:?} exists as {stored}, and {asked} was asked for; ask for the stored one, allow \
         a rebuild, or drop the index"
    )]
    Differs {
        /// The name of the index.
        index: String,
        /// What is stored.
        stored: String,
        /// What was asked for.
        asked: String,
    },

    /// No index can have this name.
    #[error("{name:?} can't name an index: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
    },

    /// The keyspace has a compaction filter, which changes values without their indexes.
    #[error(
        "could not index keyspace {keyspace:?}: it has the compaction filter {filter:?}; create a \
         keyspace without one"
    )]
    Filtered {
        /// The name of the keyspace.
        keyspace: String,
        /// The name of the filter.
        filter: String,
    },

    /// The keyspace has no index of this name.
    #[error(
        "keyspace {keyspace:?} has no index {index:?}; list its indexes with `Keyspace::indexes`"
    )]
    Unknown {
        /// The name of the keyspace.
        keyspace: String,
        /// The name that was asked for.
        index: String,
    },

    /// The operation would bypass the indexes of the keyspace.
    #[error("could not {what} keyspace {keyspace:?}, which has indexes; {instead}")]
    Bypassed {
        /// The name of the keyspace.
        keyspace: String,
        /// The operation.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },

    /// The index has an entry for a row that does not exist.
    ///
    /// Check the index with `Db::check_index`. Drop it and create it again.
    #[error(
        "index {index:?} has an entry {index_key} for the row {key}, which does not exist; drop the \
         index, and create it again"
    )]
    Dangling {
        /// The name of the index.
        index: String,
        /// The key in the index, with unprintable bytes escaped.
        index_key: String,
        /// The key of the row, with unprintable bytes escaped.
        key: String,
    },
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        Error::Index(Box::new(error))
    }
}
