//! `esker-lab bench`: loads, measured.
//!
//! `db` runs in this process, on one database. The others are campaigns: several engines take turns,
//! each in a process of its own, so that none inherits another's memory and what the system says of
//! a process is said of one engine.
//!
//! * [`plan`]: what a process is to do, and what it reports meanwhile;
//! * [`worker`]: such a process; [`child`]: how it looks from the outside; [`reading`]: reads after
//!   updates; [`probes`]: single operations; [`large`]: a store larger than memory;
//! * [`campaign`]: who runs when, and what becomes of the results;
//! * [`cgroup`]: a limit of a worker's memory;
//! * [`workspace`]: the directories that stores are in; [`scratch`]: those of pools and logs; [`output`]: where results go;
//! * [`engines`]: the engines by name; [`novelsm`]: the one that is a model of another; [`pool`]: the
//!   persistent memory of those that have some; [`log_device`]: what logs are on;
//! * [`fabric`]: engines with a storage node between them and their device; [`node`]: such a node;
//!   [`node_process`]: it from the outside; [`node_store`]: its keys; [`network`]: what is between, emulated;
//! * [`transactions`]: loads of transactions, in a worker; [`audit`]: what they must leave;
//!   [`transaction_engine`]: peers that run them.

mod audit;
pub mod campaign;
mod cgroup;
mod child;
mod db;
mod display;
mod engine;
pub mod engine_settings;
pub mod engines;
pub mod fabric;
pub mod large;
pub mod log_device;
pub mod network;
mod node;
mod node_process;
mod node_store;
mod novelsm;
pub mod options;
mod output;
pub mod plan;
pub mod pool;
mod probes;
mod process;
mod reading;
mod report;
mod scratch;
mod transaction_engine;
mod transactional;
mod transactions;
mod updates;
mod used_memory;
mod worker;
mod workspace;
pub mod ycsb;

use crate::failure::Outcome;
use clap::{Args, Subcommand};

/// Measure loads
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Db(Box<db::DbBench>),
    Ycsb(Box<ycsb::Ycsb>),
    Updates(Box<updates::Updates>),
    Linkbench(Box<transactional::LinkBench>),
    Tpcc(Box<transactional::Tpcc>),
    Report(report::Report),
    #[command(hide = true)]
    Worker(worker::Worker),
    #[command(hide = true)]
    Node(node::Node),
}

impl Bench {
    pub fn run(self) -> Outcome {
        match self.what {
            What::Db(bench) => bench.run(),
            What::Ycsb(bench) => bench.run(),
            What::Updates(bench) => bench.run(),
            What::Linkbench(bench) => bench.run(),
            What::Tpcc(bench) => bench.run(),
            What::Report(report) => report.run(),
            What::Worker(worker) => worker.run(),
            What::Node(node) => node.run(),
        }
    }
}
