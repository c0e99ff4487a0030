//! What programs ask of an error, and how errors are made.

use super::messages::damaged;
use super::{BackupError, Error};
use std::sync::Arc;

impl Error {
    /// Returns an I/O error for `path`.
    pub fn io(action: &'static str, path: impl Into<String>, source: std::io::Error) -> Self {
        Error::Io { action, path: path.into(), source: Arc::new(source) }
    }

    /// Returns a corruption error.
    pub fn corruption(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { file: file.into(), offset, what: what.into() }
    }

    /// Returns what happened, and to what: the message without the advice on damage.
    ///
    /// This is for a tool that gives its own advice.
    pub fn fact(&self) -> String {
        match self {
            Error::Corruption { file: of, offset, what }
            | Error::PoolDamaged { pool: of, offset, what }
            | Error::HashStoreDamaged { store: of, offset, what } => damaged(of, *offset, what),
            Error::TornLog { file, offset, what, .. } => {
                format!("{file} is torn or damaged at offset {offset}: {what}")
            }
            other => other.to_string(),
        }
    }

    /// Whether the same transaction may succeed if it runs again from its start.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Conflict { .. } | Error::Deadlock { .. } | Error::LockTimeout { .. })
    }

    /// Returns the kind of the system error that is the root cause, or `None`.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        match self {
            Error::Io { source, .. } => Some(source.kind()),
            Error::LogFailed { cause }
            | Error::DropUndecided { cause, .. }
            | Error::TableUnreadable { cause, .. } => cause.io_kind(),
            _ => None,
        }
    }

    /// Whether the root cause is a full disk or an exceeded quota.
    pub fn is_out_of_space(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self.io_kind(), Some(StorageFull | QuotaExceeded))
    }

    /// Whether the storage has permanently lost a part of a file.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::TableUnreadable { cause, .. } => cause.is_lost(),
            other => matches!(other, Error::Lost { .. }),
        }
    }

    /// Whether a file, a pool or a hash store is damaged.
    pub fn is_corruption(&self) -> bool {
        match self {
            Error::TableUnreadable { cause, .. } => cause.is_corruption(),
            Error::Corruption { .. }
            | Error::PoolDamaged { .. }
            | Error::HashStoreDamaged { .. } => true,
            Error::Backup(error) => matches!(**error, BackupError::Damaged { .. }),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn the_chain_of_sources_ends_at_the_system_error() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let cause = Arc::new(Error::io("sync", "1.log", full()));
        let keys = || String::from("a");
        let errors = [
            Error::LogFailed { cause: cause.clone() },
            Error::DropUndecided { keyspace: keys(), cause: cause.clone() },
            Error::TableUnreadable { file: keys(), smallest: keys(), largest: keys(), cause },
        ];
        for error in errors {
            assert!(error.is_out_of_space());
            let root = error.source().and_then(|cause| cause.source()).expect("two sources");
            assert_eq!(root.to_string(), full().to_string());
        }
    }
}
