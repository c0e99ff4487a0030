//! `esker nvme discover`: which subsystems a node has.

use super::Node;
use crate::failure::Outcome;
use crate::output::stdout;
use esker_base::{Clock, SystemClock, SystemEntropy};
use std::io::Write;
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
        let mut out = stdout();
        for entry in found {
            writeln!(out, "{}\t{}", entry.subsystem, entry.address)?;
        }
        Ok(out.flush()?)
    }
}
