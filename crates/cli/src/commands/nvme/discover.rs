//! `esker nvme discover`: which subsystems a node has.

use super::Node;
use crate::commands::stdout;
use crate::failure::Outcome;
use esker_base::SystemEntropy;
use std::io::Write;

/// List the subsystems that a node has for this host
#[derive(clap::Args)]
pub struct Discover {
    #[command(flatten)]
    node: Node,
}

impl Discover {
    pub fn run(self) -> Outcome {
        let found = esker_initiator::discover(&self.node.settings()?, &SystemEntropy)?;
        let mut out = stdout();
        for entry in found {
            writeln!(out, "{}\t{}", entry.subsystem, entry.address)?;
        }
        Ok(out.flush()?)
    }
}
