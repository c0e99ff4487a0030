//! LinkBench under power losses: after each, every count is the number of visible links, and every list
//! shows just those.
//!
//! The graph begins empty and is small, so that requests meet links that others made.

use crate::settings::LogMode;
pub use crate::transactions::Outcome;
use crate::transactions::{CLIENTS, Running, Scenario};
use esker_api::Transactional;
use esker_base::Result;
use esker_workload::linkbench::{self, Options, Requests};
use esker_workload::tpcc::Acknowledged;
use esker_workload::{Differences, Workload};

/// Runs the graph of `seed` through so many power losses. The error says what was wrong.
pub fn run(seed: u64, log: LogMode, crashes: u64) -> Result<Outcome, String> {
    let options = Options { nodes: 20, threads: CLIENTS, seed, ..Options::default() };
    crate::transactions::run(&Graph(options), seed, log, crashes)
}

struct Graph(Options);

impl Scenario for Graph {
    fn load<'s>(&self, _: &'s dyn Transactional) -> Result<Option<Box<dyn Workload + 's>>> {
        Ok(None)
    }

    fn begin<'s>(&self, store: &'s dyn Transactional) -> Result<Box<dyn Running + 's>> {
        Ok(Box::new(Requests::new(&self.0, store)?))
    }

    fn check(&self, store: &dyn Transactional, _: &[Acknowledged]) -> Result<Differences> {
        linkbench::check(store)
    }
}

impl Running for Requests<'_> {
    fn workload(&self) -> &dyn Workload {
        self
    }

    fn acknowledged(&self) -> Vec<Acknowledged> {
        Vec::new()
    }
}
