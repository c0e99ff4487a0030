//! `esker nvme discover`: which subsystems a node has.

use super::Node;
use crate::failure::Outcome;
use crate::output::show;
use esker_base::{Clock, SystemClock, SystemEntropy};
use esker_nvme::log_page::DiscoveryEntry;
use serde_json::json;
use std::sync::Arc;

/// List the subsystems that a node has for this host
#[derive(clap::Args)]
pub struct Discover {
    #[command(flatten)]
    node: Node,
}

impl Discover {
    pub fn run(self) -> Outcome {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let found = esker_initiator::discover(&self.node.settings()?, &clock, &SystemEntropy)?;
        let json = || -> Vec<_> {
            let text =
                |entry: &DiscoveryEntry| (entry.subsystem.to_string(), entry.address.to_string());
            let object =
                |(subsystem, address)| json!({ "subsystem": subsystem, "address": address });
            found.iter().map(text).map(object).collect()
        };
        let line = |entry: &DiscoveryEntry| format!("{}\t{}\n", entry.subsystem, entry.address);
        show(|| json!({ "subsystems": json() }), || found.iter().map(line).collect())
    }
}
