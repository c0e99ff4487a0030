//! Why a follower, or what serves followers, cannot go on.

use std::sync::Arc;

/// Why a follower, or what serves followers, cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationError {
    /// The primary cannot be reached, or the address to listen at not be used.
    #[error("could not {action} {address}: {source}")]
    Unreachable {
        /// The operation, as a verb phrase.
        action: &'static str,
        /// The address.
        address: String,
        /// The error of the system.
        #[source]
        source: Arc<std::io::Error>,
    },

    /// The connection ended.
    #[error("the connection to {address} was lost: {why}")]
    Lost {
        /// The address of the peer.
        address: String,
        /// Why.
        why: String,
    },

    /// The peer sent what it must not send here. Nothing of it was applied.
    #[error("{address} broke the protocol: {what}")]
    Protocol {
        /// The address of the peer.
        address: String,
        /// What it sent.
        what: String,
    },

    /// The peer refuses to go on.
    #[error("{address} refused: {why}")]
    Refused {
        /// The address of the peer.
        address: String,
        /// Its reason.
        why: String,
    },

    /// One side could not prove who it is.
    #[error("authentication failed: {why}")]
    Authentication {
        /// Why.
        why: String,
    },

    /// The primary does not take the follower by its name.
    #[error("{why}")]
    NameTaken {
        /// Why.
        why: String,
    },

    /// A call of the database failed.
    #[error(transparent)]
    Database(#[from] esker_base::Error),
}

impl ReplicationError {
    /// Whether another connection may do better. Otherwise an operator has to act.
    pub fn is_passing(&self) -> bool {
        use esker_base::{ChangesError, Error};
        match self {
            ReplicationError::Database(Error::Changes(error)) => {
                matches!(**error, ChangesError::Misfit { .. })
            }
            // The disk may have space again, and another process end.
            ReplicationError::Database(
                Error::Io { .. } | Error::LogFailed { .. } | Error::Locked { .. },
            ) => true,
            ReplicationError::Database(_) => false,
            _ => true,
        }
    }

    /// Whether the peer sent what does not fit the database.
    pub(crate) fn is_misfit(&self) -> bool {
        use esker_base::{ChangesError, Error};
        let ReplicationError::Database(Error::Changes(error)) = self else { return false };
        matches!(**error, ChangesError::Misfit { .. })
    }

    /// Whether the database takes no more writes until it is opened again.
    pub(crate) fn wants_reopen(&self) -> bool {
        matches!(self, ReplicationError::Database(esker_base::Error::LogFailed { .. }))
    }
}

/// A result whose error is [`ReplicationError`] by default.
pub type Result<T, E = ReplicationError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{ChangesError, Error};

    #[test]
    fn a_full_disk_and_a_lock_end_and_another_database_does_not() {
        let is_passing = |error: Error| ReplicationError::from(error).is_passing();
        let full = || Error::io("write", "00000007.log", std::io::ErrorKind::StorageFull.into());
        assert!(is_passing(full()));
        assert!(is_passing(Error::LogFailed { cause: Arc::new(full()) }));
        assert!(is_passing(Error::Locked { dir: "copy".into(), pid: "7".into() }));
        assert!(!is_passing(ChangesError::NoCopy { dir: "copy".into() }.into()));
        assert!(!is_passing(Error::corruption("00000007.tables", 0, "it is damaged")));
    }
}
