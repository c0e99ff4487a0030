//! Errors as RocksDB words them: programs distinguish them by the text before the colon.

use esker::Error;
use std::any::Any;
use std::fmt;

/// What a merge fails with if its column family was opened without an operator.
pub const WITHOUT_OPERATOR: &str = "the column family was opened without its merge operator";

/// The kinds of errors of RocksDB that this library reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// Not found.
    NotFound,
    /// A file is damaged.
    Corruption,
    /// It cannot be done by Esker.
    NotSupported,
    /// An argument is invalid.
    InvalidArgument,
    /// The system failed.
    IoError,
    /// The answer is not in memory.
    Incomplete,
    /// The answer is operands alone.
    MergeInProgress,
    /// The database is closed.
    ShutdownInProgress,
    /// A lock was not granted in time.
    TimedOut,
    /// The call was aborted.
    Aborted,
    /// A conflict, or a deadlock.
    Busy,
    /// The transaction has expired.
    Expired,
}

impl Code {
    /// The text that begins a message of this kind.
    fn text(self) -> &'static str {
        match self {
            Code::NotFound => "NotFound",
            Code::Corruption => "Corruption",
            Code::NotSupported => "Not implemented",
            Code::InvalidArgument => "Invalid argument",
            Code::IoError => "IO error",
            Code::Incomplete => "Result incomplete",
            Code::MergeInProgress => "Merge in progress",
            Code::ShutdownInProgress => "Shutdown in progress",
            Code::TimedOut => "Operation timed out",
            Code::Aborted => "Operation aborted",
            Code::Busy => "Resource busy",
            Code::Expired => "Operation expired",
        }
    }
}

/// An error: its kind, and what happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    code: Code,
    message: String,
}

impl Status {
    /// The error of a merge into a family without an operator.
    pub fn no_operator() -> Self {
        Status::unsupported("Provide a merge_operator when opening DB")
    }

    /// Returns an error.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Status { code, message: message.into() }
    }

    /// Returns an error about an argument that is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Status::new(Code::InvalidArgument, message)
    }

    /// Returns an error about something that Esker cannot do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Status::new(Code::NotSupported, message)
    }

    /// Returns an error about a file of the system.
    pub fn io(action: &str, path: impl fmt::Display, error: &std::io::Error) -> Self {
        Status::new(Code::IoError, format!("could not {action} {path}: {error}"))
    }

    /// Returns the error that reports a panic.
    pub fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let texts = (panic.downcast_ref::<&str>().copied(), panic.downcast_ref::<String>());
        let what = texts.0.or(texts.1.map(String::as_str)).unwrap_or("no message");
        let is_argument = ["a null pointer", "a length"].iter().any(|it| what.starts_with(it));
        let code = if is_argument { Code::InvalidArgument } else { Code::Aborted };
        Status::new(code, format!("the call failed: {what}"))
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.text(), self.message)
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Io { .. } | Error::LogFailed { .. } | Error::Locked { .. } => Code::IoError,
            Error::NoMergeOperator { .. } => return Status::no_operator(),
            Error::ReadOnly => Code::NotSupported,
            Error::MergeFailed { what, .. } if what == WITHOUT_OPERATOR => {
                return Status::no_operator();
            }
            Error::MergeFailed { .. } => {
                let what = format!("Merge operator failed: {error}");
                return Status::new(Code::Corruption, what);
            }
            Error::Closed => Code::ShutdownInProgress,
            Error::WouldBlock => Code::Incomplete,
            Error::Conflict { .. } => return Status::new(Code::Busy, error.to_string()),
            Error::Deadlock { .. } => return Status::new(Code::Busy, format!("Deadlock: {error}")),
            Error::LockTimeout { .. } => {
                let what = format!("Timeout waiting to lock key: {error}");
                return Status::new(Code::TimedOut, what);
            }
            Error::NoSavepoint => return Status::new(Code::NotFound, String::new()),
            Error::Backup(_) => Code::Corruption,
            error if error.is_corruption() || error.is_lost() => Code::Corruption,
            error if error.io_kind().is_some() => Code::IoError,
            _ => Code::InvalidArgument,
        };
        Status::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_begin_as_those_of_rocksdb() {
        let conflict = Error::Conflict { key: "a".into() };
        let cases = [
            (Status::from(conflict), "Resource busy: "),
            (Status::from(Error::Closed), "Shutdown in progress: "),
            (Status::from(Error::EmptyRange), "Invalid argument: "),
            (Status::from(Error::corruption("1.tbl", 7, "a bad checksum")), "Corruption: "),
            (Status::of_panic(&"a null pointer was passed as x"), "Invalid argument: "),
            (Status::of_panic(&String::from("x")), "Operation aborted: "),
        ];
        for (status, start) in cases {
            assert!(status.to_string().starts_with(start), "{status}");
        }
    }
}
