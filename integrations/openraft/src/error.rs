//! What can fail.

use std::{fmt, io};

/// Why the database or the directory of snapshots cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An error of the database.
    Database(esker::Error),
    /// An error of a file of a snapshot.
    Io(io::Error),
    /// A command wrote more than it may, and did not answer that.
    Limit(LimitError),
    /// The application, or the store, panicked. The message of the panic is in the process's output.
    Panicked,
    /// The entries to append follow a snapshot that could not be installed: the state machine failed.
    NotInstalled {
        /// The index of the last entry that the snapshot contains.
        index: u64,
    },
    /// The database has an open Raft group.
    InUse,
    /// The database was opened with settings that a Raft group cannot have. It says which, and what to do.
    Settings(String),
    /// Stored or received bytes that are not what they should be.
    Corrupted(String),
}

/// Why a command may not write an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// The key is too long.
    KeyTooLong {
        /// The length of the key, in bytes.
        bytes: usize,
        /// The greatest length.
        limit: usize,
    },
    /// The writes of the command take too many bytes.
    TooManyBytes {
        /// What they take with this one, as they are encoded.
        bytes: usize,
        /// What they may take.
        limit: usize,
    },
    /// The command has so many puts and deletes.
    TooManyWrites {
        /// The most of them.
        limit: usize,
    },
    /// The command has so many range deletes.
    TooManyRangeDeletes {
        /// The most of them.
        limit: usize,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LimitError::KeyTooLong { bytes, limit } => {
                write!(f, "the key has {bytes} bytes, and keys have at most {limit}")
            }
            LimitError::TooManyBytes { bytes, limit } => {
                write!(f, "the command writes {bytes} bytes, and may write {limit}; split it")
            }
            LimitError::TooManyWrites { limit } => {
                write!(f, "the command has more than {limit} puts and deletes; split it")
            }
            LimitError::TooManyRangeDeletes { limit } => {
                write!(f, "the command has more than {limit} range deletes; split it")
            }
        }
    }
}

impl std::error::Error for LimitError {}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Database(error) => error.fmt(f),
            Error::Io(error) => write!(f, "snapshot file: {error}"),
            Error::Limit(error) => error.fmt(f),
            Error::Panicked => f.write_str("a thread of the store or the application panicked"),
            Error::NotInstalled { index } => {
                write!(
                    f,
                    "the snapshot up to entry {index} was not installed; start the node again"
                )
            }
            Error::InUse => f.write_str(
                "the database has a Raft group that is open: one database holds one group; \
                 drop its log, state machine and states first",
            ),
            Error::Settings(what) | Error::Corrupted(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Database(error) => Some(error),
            Error::Io(error) => Some(error),
            Error::Limit(error) => Some(error),
            _ => None,
        }
    }
}

impl From<esker::Error> for Error {
    fn from(error: esker::Error) -> Self {
        Error::Database(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

impl From<LimitError> for Error {
    fn from(error: LimitError) -> Self {
        Error::Limit(error)
    }
}
