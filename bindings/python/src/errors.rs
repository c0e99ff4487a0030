//! The exceptions, whose classes are in `esker/errors.py`.

use esker::Error;
use esker::changes::ChangesError;
use pyo3::prelude::*;

/// The exception of an error.
#[cold]
pub(crate) fn raised(error: Error) -> PyErr {
    Python::attach(|py| new(py, class_of(&error), error.to_string()))
}

/// The exception for a setting or an argument that is not valid.
#[cold]
pub(crate) fn invalid(py: Python<'_>, message: String) -> PyErr {
    new(py, "InvalidSettingError", message)
}

/// The exception for the use of what is closed.
#[cold]
pub(crate) fn closed(message: &str) -> PyErr {
    Python::attach(|py| new(py, "ClosedError", message.to_owned()))
}

#[cold]
fn new(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = py
        .import("esker.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Turns errors of the engine into exceptions.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for esker::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(raised)
    }
}

fn class_of(error: &Error) -> &'static str {
    if matches!(error, Error::LogFailed { .. }) {
        return "LogFailedError";
    }
    if error.is_out_of_space() {
        return "OutOfSpaceError";
    }
    if error.is_corruption() {
        return "CorruptionError";
    }
    if error.is_lost() {
        return "LostError";
    }
    match error {
        Error::Io { .. } | Error::TableUnreadable { .. } | Error::DropUndecided { .. } => "IoError",
        Error::TornLog { .. } => "TornLogError",
        Error::EmptyKey
        | Error::EmptyRange
        | Error::NotSorted { .. }
        | Error::OverlappingWriters { .. } => "InvalidArgumentError",
        Error::InvalidSetting { .. } => "InvalidSettingError",
        Error::KeyTooLong { .. }
        | Error::ValueTooLarge { .. }
        | Error::ValueTooLong { .. }
        | Error::LargeValue(_)
        | Error::OpenRangeTooLarge { .. }
        | Error::BatchTooLarge { .. }
        | Error::TooManyRangeDeletes { .. } => "TooLargeError",
        Error::UnknownKeyspace { .. } => "UnknownKeyspaceError",
        Error::ForeignHandle { .. } => "ForeignHandleError",
        Error::KeyspaceSettingsDiffer { .. } => "KeyspaceSettingsDifferError",
        Error::BadKeyspaceName { .. } => "BadKeyspaceNameError",
        Error::NoMergeOperator { .. } | Error::MergeFailed { .. } => "MergeError",
        Error::Locked { .. } => "LockedError",
        Error::Forked { .. } => "ForkedError",
        Error::NotADatabase { .. } => "NotADatabaseError",
        Error::DatabaseExists { .. } => "DatabaseExistsError",
        Error::NewerVersion { .. } | Error::UnknownFeatures { .. } => "NewerFormatError",
        Error::PoolRefused { .. } => "PoolError",
        Error::ReadOnly => "ReadOnlyError",
        Error::Closed => "ClosedError",
        Error::WouldBlock => "WouldBlockError",
        Error::Conflict { .. } => "ConflictError",
        Error::Deadlock { .. } => "DeadlockError",
        Error::LockTimeout { .. } => "LockTimeoutError",
        Error::TransactionEnded { .. } => "TransactionEndedError",
        Error::NoSavepoint => "NoSavepointError",
        Error::Prepared(_) => "PreparedError",
        Error::Backup(_) => "BackupError",
        Error::Encryption(_) => "EncryptionError",
        Error::Changes(error) => match **error {
            ChangesError::Follows { .. } => "ReadOnlyError",
            _ => "FollowerError",
        },
        _ => "EskerError",
    }
}
