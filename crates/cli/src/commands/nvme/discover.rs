//! `esker nvme discover`: which subsystems a node has.

use super::Node;
use crate::failure::Outcome;
use crate::output::show;
use esker_base::{Clock, SystemClock, SystemEntropy};
use esker_nvme::log_page::DiscoveryEntry;
use serde_json::json;
use std::sync::Arc;

/// List the subsystems that this host may use on a node
///
/// One per line: its name, its address, and `TLS` if this host must use it.
#[derive(clap::Args)]
pub struct Discover {
    #[command(flatten)]
    node: Node,
}

impl Discover {
    pub fn run(self) -> Outcome {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let found = esker_initiator::discover(&self.node.settings()?, &clock, &SystemEntropy)?;
        let object = |entry: &DiscoveryEntry| {
            json!({
                "subsystem": entry.subsystem.to_string(),
                "address": entry.address.to_string(),
                "tls": entry.requires_tls,
            })
        };
        let line = |entry: &DiscoveryEntry| {
            let tls = if entry.requires_tls { "\tTLS" } else { "" };
            format!("{}\t{}{tls}\n", entry.subsystem, entry.address)
        };
        show(
            || json!({ "subsystems": found.iter().map(object).collect::<Vec<_>>() }),
            || found.iter().map(line).collect(),
        )
    }
}
