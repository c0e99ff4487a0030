//! Steps of Diffie-Hellman, and their results.

use esker_nvme::auth::{Group, KeyPair};

/// What is to be computed.
pub(crate) enum Step {
    Pair { group: Group, private: Box<[u8; Group::PRIVATE_BYTES]> },
    Session { pair: Box<KeyPair>, theirs: Vec<u8> },
}

/// What came of it.
pub(crate) enum DhResult {
    Pair(Box<KeyPair>),
    /// None if the other side's key is none.
    Session(Option<Vec<u8>>),
}

impl Step {
    pub(crate) fn compute(self) -> DhResult {
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
