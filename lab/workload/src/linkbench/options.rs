//! How large the graph is, and who asks for it.

use crate::worker::check_threads;
use esker_api::{Isolation, TransactionOptions};
use esker_base::{Error, Result};

/// The most nodes: ids of links go a little beyond, and shuffles multiply two of them.
const MAX_NODES: u64 = 1 << 40;

/// A graph and its clients.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Nodes to begin with; each has about five links. The published default is ten million.
    pub nodes: u64,
    /// Requests that all clients together are to make.
    pub requests: u64,
    /// Clients, and as many threads.
    pub threads: usize,
    /// What transactions see of each other. All that they read to write, they read for update, so that
    /// counts are right at any level; the weakest has the fewest retries.
    pub isolation: Isolation,
    /// What the graph and the requests follow from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            nodes: 100_000,
            requests: 100_000,
            threads: 10,
            isolation: Isolation::ReadCommitted,
            seed: 1,
        }
    }
}

impl Options {
    /// Refuses what can't be run.
    pub fn check(&self) -> Result<()> {
        let refuse = |setting, value: u64, reason: &str| {
            Err(Error::InvalidSetting {
                setting,
                value: value.to_string(),
                reason: reason.to_owned(),
            })
        };
        if !(1..=MAX_NODES).contains(&self.nodes) {
            return refuse("nodes", self.nodes, "a graph has 1 to 2^40 nodes");
        }
        check_threads("clients", self.threads)
    }

    pub(super) fn transaction(&self) -> TransactionOptions {
        TransactionOptions::default().isolation(self.isolation)
    }
}
