//! What can go wrong with a node.

use esker_nvme::Status;
use esker_nvme::pdu::{FatalError, Termination};
use std::io;
use std::sync::Arc;

/// What can go wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The node could not be reached.
    #[error("could not reach {address}: {source}; check that the node runs and listens there")]
    Unreachable {
        /// Where.
        address: String,
        /// The system's own error.
        source: Arc<io::Error>,
    },

    /// The connection ended. A store, a delete or a write was not sent whole then, and not done.
    #[error("the connection to {address} was lost: {why}")]
    Lost {
        /// Where.
        address: String,
        /// How.
        why: String,
    },

    /// A store, a delete or a write was sent and not answered, or answered and not flushed.
    #[error(
        "the outcome of the {what} is unknown, it was done or it was not: {source}; read to see"
    )]
    Unknown {
        /// What was sent.
        what: &'static str,
        /// Why there is no answer.
        source: Box<RemoteError>,
    },

    /// Of a batch, or of what takes several commands, not all was answered or sent, and some of it was.
    #[error(
        "the {what} was interrupted: {source}; each part of it was done or was not, in any order; read to see, or write all of it again"
    )]
    PartUnknown {
        /// What was sent.
        what: &'static str,
        /// What cut it off.
        source: Box<RemoteError>,
    },

    /// The time was over. A store, a delete or a write was not sent then, and not done: once sent, it would be unknown.
    #[error("timeout: the node did not respond, or stopped receiving")]
    Deadline,

    /// The node refused.
    #[error("the node refused to {action}: {status}")]
    Refused {
        /// What was asked.
        action: &'static str,
        /// Its status.
        status: Status,
    },

    /// What came is not the protocol.
    #[error("the node does not keep to the protocol: {what}")]
    Protocol {
        /// What came.
        what: String,
    },

    /// The node did not prove who it is, or this host could not.
    #[error("authentication failed: {why}; check the secrets on both sides")]
    Authentication {
        /// How.
        why: &'static str,
    },

    /// TLS failed, most likely because the node does not have this host's key.
    #[error("TLS with {address} failed: {why}; check the TLS key on both sides")]
    Tls {
        /// Where.
        address: String,
        /// How.
        why: String,
    },

    /// After a lost connection the node has another namespace, or one of another size.
    #[error("the node's namespace {namespace} is not the one that was connected to; connect anew")]
    Replaced {
        /// Its id.
        namespace: u32,
    },

    /// The system gave no random bytes for the host's id.
    #[error("could not draw the host's id: {why}")]
    Entropy {
        /// The reason.
        why: String,
    },

    /// What keeps connections alive could not be started.
    #[error("could not start the thread that keeps the connection alive: {why}")]
    Thread {
        /// The reason.
        why: String,
    },

    /// A key that the namespace does not take.
    #[error("the key is {bytes} bytes long, and the namespace has keys of 1 to {limit} bytes")]
    Key {
        /// Its length.
        bytes: usize,
        /// The longest.
        limit: usize,
    },

    /// A value that the namespace does not take.
    #[error("the value is {bytes} bytes long, and the namespace takes at most {limit}")]
    Value {
        /// Its length.
        bytes: usize,
        /// The longest.
        limit: usize,
    },
}

impl RemoteError {
    /// Whether the same may well succeed on a new connection.
    pub fn is_of_connection(&self) -> bool {
        matches!(self, RemoteError::Unreachable { .. } | RemoteError::Lost { .. })
    }

    /// What a failure of one of the parts says of the whole `what`: the parts before the first one that fails were done. The whole may be a
    /// single command.
    pub(crate) fn of_part(self, what: &'static str, is_first: bool, is_single: bool) -> Self {
        match self {
            RemoteError::Refused { .. } => self,
            error if is_single => error,
            RemoteError::Unknown { source, .. } => RemoteError::PartUnknown { what, source },
            error if is_first => error,
            error => RemoteError::PartUnknown { what, source: Box::new(error) },
        }
    }

    /// What this failure says of `what`, which was sent.
    pub(crate) fn of_sent(self, what: &'static str) -> Self {
        RemoteError::Unknown { what, source: Box::new(self) }
    }

    pub(crate) fn terminated(by: Termination) -> Self {
        RemoteError::Protocol { what: format!("it ended the connection with {by:?}") }
    }
}

impl From<FatalError> for RemoteError {
    fn from(fatal: FatalError) -> Self {
        RemoteError::Protocol { what: fatal.what.to_owned() }
    }
}

impl From<RemoteError> for esker_base::Error {
    fn from(error: RemoteError) -> Self {
        esker_base::Error::io("use", "the storage node", io::Error::other(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cut_a_write_off_is_told() {
        let lost =
            || RemoteError::Lost { address: "the node".to_owned(), why: "a cable".to_owned() };
        for (error, cause) in [
            (lost().of_sent("write").of_part("write", true, false), lost()),
            (lost().of_part("write", false, false), lost()),
            (RemoteError::Deadline.of_part("batch", false, false), RemoteError::Deadline),
            (RemoteError::Deadline.of_sent("store"), RemoteError::Deadline),
        ] {
            let (told, cause) = (error.to_string(), cause.to_string());
            assert!(told.contains(&cause), "{told}");
            assert_eq!(std::error::Error::source(&error).map(ToString::to_string), Some(cause));
        }
    }

    #[test]
    fn what_failed_behind_its_first_part_may_be_done_in_part() {
        let unknown = || RemoteError::Deadline.of_sent("store");
        let lost = || RemoteError::Lost { address: String::new(), why: String::new() };
        let refused = RemoteError::Refused { action: "store", status: Status::CAPACITY_EXCEEDED };
        let is_part = |error| matches!(error, RemoteError::PartUnknown { what: "batch", .. });
        assert!(is_part(unknown().of_part("batch", true, false)));
        assert!(is_part(lost().of_part("batch", false, false)));
        assert!(is_part(RemoteError::Deadline.of_part("batch", false, false)));
        assert!(!is_part(lost().of_part("batch", true, false)), "nothing was sent");
        assert!(!is_part(unknown().of_part("batch", true, true)), "it has no parts");
        assert!(!is_part(refused.of_part("batch", false, false)), "the node says more");
    }
}
