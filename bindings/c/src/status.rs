//! What a call returns: one stable number for each kind of error.

use esker::Error;
use esker::changes::ChangesError;

/// What a call returns. Numbers never change their meaning; later releases may add some, so treat an
/// unknown one as a failure.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum esker_status {
    /// The call did what was asked.
    ESKER_OK = 0,
    /// There is no such key, or the cursor is past the end. This is an answer and no failure: `*error`
    /// is NULL.
    ESKER_NOT_FOUND = 1,
    /// An argument is not valid: NULL where it is not allowed, text that is not UTF-8, an empty range,
    /// unknown flags.
    ESKER_INVALID_ARGUMENT = 2,
    /// A setting has an unknown name or a value that is not valid.
    ESKER_INVALID_SETTING = 3,
    /// The database of the handle is closed.
    ESKER_CLOSED = 4,
    /// The database is open for reading.
    ESKER_READ_ONLY = 5,
    /// The buffer of the caller is too small.
    ESKER_BUFFER_TOO_SMALL = 6,
    /// The library has a bug: the call panicked. Close the database and open it again.
    ESKER_PANICKED = 7,
    /// The operating system failed an operation on a file.
    ESKER_IO = 10,
    /// The disk is full, or a quota is exceeded.
    ESKER_OUT_OF_SPACE = 11,
    /// A file is damaged.
    ESKER_CORRUPTION = 12,
    /// The storage has permanently lost a part of a file.
    ESKER_LOST = 13,
    /// The log is torn, and the setting `recovery` is `strict`.
    ESKER_TORN_LOG = 14,
    /// The log failed, so further writes are rejected until the database is opened again.
    ESKER_LOG_FAILED = 15,
    /// The directory holds no database, or files of another program.
    ESKER_NOT_A_DATABASE = 16,
    /// The directory holds a database already.
    ESKER_DATABASE_EXISTS = 17,
    /// A newer release wrote the files.
    ESKER_NEWER_FORMAT = 18,
    /// Another process, or another handle of this one, has the database or the repository open.
    ESKER_LOCKED = 19,
    /// The handle was made before a fork, and this is the child.
    ESKER_FORKED = 20,
    /// The pool of persistent memory cannot be used.
    ESKER_POOL_REFUSED = 21,
    /// The files are encrypted, or the keys are not theirs.
    ESKER_ENCRYPTION = 22,
    /// There is no keyspace of this name, or it was dropped.
    ESKER_UNKNOWN_KEYSPACE = 30,
    /// The keyspace exists with other settings.
    ESKER_KEYSPACE_SETTINGS_DIFFER = 31,
    /// No keyspace can have this name, or this one cannot be dropped.
    ESKER_BAD_KEYSPACE_NAME = 32,
    /// The handle is of another database, or of an earlier open.
    ESKER_FOREIGN_HANDLE = 33,
    /// A key, a value or a batch exceeds its limit.
    ESKER_TOO_LARGE = 34,
    /// The keyspace has no merge operator.
    ESKER_NO_MERGE_OPERATOR = 35,
    /// The merge operator rejected an operand.
    ESKER_MERGE_FAILED = 36,
    /// A transaction conflicts with another: roll back and run it again.
    ESKER_CONFLICT = 40,
    /// Transactions waited for each other in a cycle: roll back and run this one again.
    ESKER_DEADLOCK = 41,
    /// Another transaction held a lock for too long: roll back and run this one again.
    ESKER_LOCK_TIMEOUT = 42,
    /// The transaction was committed or rolled back already.
    ESKER_TRANSACTION_ENDED = 43,
    /// The transaction has no savepoint.
    ESKER_NO_SAVEPOINT = 44,
    /// The id of a prepared transaction is not valid, in use, or unknown.
    ESKER_PREPARED = 45,
    /// The repository is none, is one of another database, or lacks the backup.
    ESKER_BACKUP = 50,
    /// The database is no follower, or cannot follow on.
    ESKER_FOLLOWER = 51,
    /// A secondary index does not allow the call.
    ESKER_INDEX = 52,
    /// Another failure. The text describes it.
    ESKER_OTHER = 99,
}

/// Whether the same transaction may succeed if it runs again from its start. True for
/// `ESKER_CONFLICT`, `ESKER_DEADLOCK` and `ESKER_LOCK_TIMEOUT`.
#[unsafe(no_mangle)]
pub extern "C" fn esker_is_transient(status: i32) -> bool {
    use esker_status::*;
    [ESKER_CONFLICT, ESKER_DEADLOCK, ESKER_LOCK_TIMEOUT].iter().any(|it| *it as i32 == status)
}

/// The number of an error.
pub(crate) fn status_of(error: &Error) -> esker_status {
    use esker_status::*;
    if error.is_out_of_space() && !matches!(error, Error::LogFailed { .. }) {
        return ESKER_OUT_OF_SPACE;
    }
    if error.is_corruption() {
        return ESKER_CORRUPTION;
    }
    if error.is_lost() {
        return ESKER_LOST;
    }
    match error {
        Error::Io { .. } | Error::TableUnreadable { .. } | Error::DropUndecided { .. } => ESKER_IO,
        Error::TornLog { .. } => ESKER_TORN_LOG,
        Error::LogFailed { .. } => ESKER_LOG_FAILED,
        Error::EmptyKey
        | Error::EmptyRange
        | Error::NotSorted { .. }
        | Error::OverlappingWriters { .. } => ESKER_INVALID_ARGUMENT,
        Error::InvalidSetting { .. } => ESKER_INVALID_SETTING,
        Error::KeyTooLong { .. }
        | Error::ValueTooLarge { .. }
        | Error::ValueTooLong { .. }
        | Error::LargeValue(_)
        | Error::OpenRangeTooLarge { .. }
        | Error::BatchTooLarge { .. }
        | Error::TooManyRangeDeletes { .. } => ESKER_TOO_LARGE,
        Error::UnknownKeyspace { .. } => ESKER_UNKNOWN_KEYSPACE,
        Error::ForeignHandle { .. } => ESKER_FOREIGN_HANDLE,
        Error::KeyspaceSettingsDiffer { .. } => ESKER_KEYSPACE_SETTINGS_DIFFER,
        Error::BadKeyspaceName { .. } => ESKER_BAD_KEYSPACE_NAME,
        Error::NoMergeOperator { .. } => ESKER_NO_MERGE_OPERATOR,
        Error::MergeFailed { .. } => ESKER_MERGE_FAILED,
        Error::Locked { .. } => ESKER_LOCKED,
        Error::Forked { .. } => ESKER_FORKED,
        Error::NotADatabase { .. } => ESKER_NOT_A_DATABASE,
        Error::DatabaseExists { .. } => ESKER_DATABASE_EXISTS,
        Error::NewerVersion { .. } | Error::UnknownFeatures { .. } => ESKER_NEWER_FORMAT,
        Error::PoolRefused { .. } => ESKER_POOL_REFUSED,
        Error::ReadOnly => ESKER_READ_ONLY,
        Error::Closed => ESKER_CLOSED,
        Error::Conflict { .. } => ESKER_CONFLICT,
        Error::Deadlock { .. } => ESKER_DEADLOCK,
        Error::LockTimeout { .. } => ESKER_LOCK_TIMEOUT,
        Error::TransactionEnded { .. } => ESKER_TRANSACTION_ENDED,
        Error::NoSavepoint => ESKER_NO_SAVEPOINT,
        Error::Prepared(_) => ESKER_PREPARED,
        Error::Index(_) => ESKER_INDEX,
        Error::Backup(_) => ESKER_BACKUP,
        Error::Encryption(_) => ESKER_ENCRYPTION,
        Error::Changes(error) => match **error {
            ChangesError::Follows { .. } => ESKER_READ_ONLY,
            _ => ESKER_FOLLOWER,
        },
        _ => ESKER_OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_status::*;

    #[test]
    fn errors_have_the_number_of_their_kind() {
        let text = || String::from("x");
        let io = |kind| std::sync::Arc::new(std::io::Error::from(kind));
        let file = |kind| Error::Io { action: "read", path: text(), source: io(kind) };
        let full = || file(std::io::ErrorKind::StorageFull);
        let damage = Error::Corruption { file: text(), offset: 1, what: text() };
        let unreadable = |cause| Error::TableUnreadable {
            file: text(),
            smallest: text(),
            largest: text(),
            cause: std::sync::Arc::new(cause),
        };
        let lost = Error::Lost { file: text(), offset: 1, what: text() };
        let torn = Error::TornLog { file: text(), offset: 1, what: text(), first_seqno: 1 };
        let newer = Error::NewerVersion { file: text(), found: 2, supported: 1 };
        let refused = Error::PoolRefused { pool: text(), reason: text() };
        let deadlock = Error::Deadlock { key: text(), waits: Box::new([]) };
        for (error, status) in [
            (file(std::io::ErrorKind::NotFound), ESKER_IO),
            (full(), ESKER_OUT_OF_SPACE),
            (Error::LogFailed { cause: std::sync::Arc::new(full()) }, ESKER_LOG_FAILED),
            (damage.clone(), ESKER_CORRUPTION),
            (unreadable(damage), ESKER_CORRUPTION),
            (unreadable(lost.clone()), ESKER_LOST),
            (unreadable(file(std::io::ErrorKind::NotFound)), ESKER_IO),
            (lost, ESKER_LOST),
            (torn, ESKER_TORN_LOG),
            (newer, ESKER_NEWER_FORMAT),
            (refused, ESKER_POOL_REFUSED),
            (Error::Forked { what: text() }, ESKER_FORKED),
            (deadlock, ESKER_DEADLOCK),
            (Error::WouldBlock, ESKER_OTHER),
        ] {
            assert_eq!(status_of(&error), status, "{error}");
        }
    }
}
