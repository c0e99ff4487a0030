//! A namespace that could not be opened. It keeps its id, so that the others keep theirs, and says
//! that it is not ready.
//!
//! Hosts see that by NSTAT (Base 2.0, Identify CNS 08h) and by the status of every I/O command:
//! Namespace Not Ready with Do Not Retry, because only a new start of the node opens it.

use super::{Description, Namespace, NamespaceHealth};
use esker_nvme::command::CommandSet;

/// See the file's head.
pub struct FailedNamespace {
    guid: [u8; 16],
    set: CommandSet,
    failures: NamespaceHealth,
}

impl FailedNamespace {
    /// Stands for a namespace of `set` that could not be opened because of `why`.
    pub fn new(guid: [u8; 16], set: CommandSet, why: String) -> Self {
        FailedNamespace { guid, set, failures: NamespaceHealth::unopened(why) }
    }
}

impl Namespace for FailedNamespace {
    fn guid(&self) -> [u8; 16] {
        self.guid
    }

    /// Without capacity: hosts that do not read NSTAT leave such a namespace out.
    fn description(&self) -> Description {
        match self.set {
            CommandSet::KeyValue => Description::Keys { capacity_bytes: 0, value_bytes_max: 0 },
            CommandSet::Nvm => Description::Blocks { bytes: 0, block_bytes_log2: 12 },
        }
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn failures(&self) -> Option<&NamespaceHealth> {
        Some(&self.failures)
    }
}
