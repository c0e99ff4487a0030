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
    /// The application, or the store, panicked. The message of the panic is in the process's output.
    Panicked,
    /// Stored or received bytes that are not what they should be.
    Corrupted(String),
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Database(error) => error.fmt(f),
            Error::Io(error) => write!(f, "snapshot file: {error}"),
            Error::Panicked => f.write_str("a thread of the store or the application panicked"),
            Error::Corrupted(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Database(error) => Some(error),
            Error::Io(error) => Some(error),
            Error::Panicked | Error::Corrupted(_) => None,
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
