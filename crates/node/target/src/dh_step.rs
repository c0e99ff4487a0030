//! Steps of Diffie-Hellman, and their results.

use esker_nvme::auth::{Group, KeyPair};

/// What is to be computed.
pub enum Step {
    /// A key pair.
    Pair {
        /// The group.
        group: Group,
        /// The private key.
        private: Box<[u8; Group::PRIVATE_BYTES]>,
    },
    /// What both sides share.
    Session {
        /// The own key pair.
        pair: Box<KeyPair>,
        /// The public key of the other side.
        theirs: Vec<u8>,
    },
}

/// What came of it.
pub enum DhResult {
    /// The key pair.
    Pair(Box<KeyPair>),
    /// None if the other side's key is none.
    Session(Option<Vec<u8>>),
}

impl Step {
    /// Computes it, which takes a millisecond or more.
    pub fn compute(self) -> DhResult {
        match self {
            Step::Pair { group, private } => {
                DhResult::Pair(Box::new(KeyPair::new(group, &private)))
            }
            Step::Session { pair, theirs } => DhResult::Session(pair.session(&theirs)),
        }
    }
}

impl std::fmt::Debug for DhResult {
    /// Without what is secret.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            DhResult::Pair(_) => "Pair",
            DhResult::Session(_) => "Session",
        })
    }
}
