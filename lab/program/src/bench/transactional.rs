//! `esker-lab bench linkbench` and `esker-lab bench tpcc`.

use super::campaign::{Campaign, Case, Places, Rate};
use super::options::{CampaignOptions, parse_transaction_engines};
use super::plan::{LinkBenchTask, Task, TpccTask};
use crate::failure::Outcome;
use clap::Args;
use esker_bench::results::Settings;

/// A social graph: nodes, links and their counts, in transactions
///
/// Each engine loads the graph and then serves requests in LinkBench's mix. Engines *-log-DEVICE sync
/// their log at every commit.
#[derive(Args)]
pub struct LinkBench {
    /// Nodes to begin with; each has about five links
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    nodes: u64,
    /// Requests of all clients together
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    requests: u64,
    /// Clients, each a thread
    #[arg(long, value_name = "N", default_value_t = 10)]
    clients: usize,
    #[command(flatten)]
    campaign: CampaignOptions,
}

/// A supplier's orders: TPC-C's five transactions over nine tables
///
/// No TPC-C result: terminals do not think. Engines *-log-DEVICE sync their log at every commit.
#[derive(Args)]
pub struct Tpcc {
    /// Warehouses, of ten districts each
    #[arg(long, value_name = "N", default_value_t = 1)]
    warehouses: u32,
    /// Items that are stocked: fewer than specified for quick tests
    #[arg(long, value_name = "N", default_value_t = esker_workload::tpcc::Options::default().items)]
    items: u32,
    /// Customers of a district: fewer than specified for quick tests
    #[arg(long, value_name = "N", default_value_t = esker_workload::tpcc::Options::default().customers)]
    customers: u32,
    /// Transactions of all clients together
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    transactions: u64,
    /// Clients, each a thread
    #[arg(long, value_name = "N", default_value_t = 10)]
    clients: usize,
    #[command(flatten)]
    campaign: CampaignOptions,
}

impl LinkBench {
    pub fn run(self) -> Outcome {
        let seed = self.campaign.seed;
        let task = LinkBenchTask {
            nodes: self.nodes,
            requests: self.requests,
            clients: self.clients,
            seed,
        };
        task.options().check()?;
        let given = [("nodes", self.nodes), ("requests", self.requests)];
        let (load, run) = (Task::LinkBenchLoad(task.clone()), Task::LinkBench(task));
        measure("linkbench", &given, self.clients, load, run, &self.campaign)
    }
}

impl Tpcc {
    pub fn run(self) -> Outcome {
        let task = TpccTask {
            warehouses: self.warehouses,
            items: self.items,
            customers: self.customers,
            transactions: self.transactions,
            clients: self.clients,
            seed: self.campaign.seed,
        };
        task.options().check()?;
        let given = [
            ("warehouses", self.warehouses.into()),
            ("items", self.items.into()),
            ("customers", self.customers.into()),
            ("transactions", self.transactions),
        ];
        let (load, run) = (Task::TpccLoad(task.clone()), Task::Tpcc(task));
        measure("tpcc", &given, self.clients, load, run, &self.campaign)
    }
}

fn measure(
    name: &str,
    given: &[(&str, u64)],
    clients: usize,
    load: Task,
    run: Task,
    common: &CampaignOptions,
) -> Outcome {
    common.check()?;
    let settings = common.settings();
    let engines = parse_transaction_engines(&common.engines, &settings, run.pair_bytes()?)?;
    let mut run_settings: Settings =
        given.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    run_settings.insert("clients".to_owned(), clients.to_string());
    run_settings.extend(common.named());
    let campaign = Campaign {
        experiment: name.to_owned(),
        scale: crate::units::counted(given[0].1, given[0].0.trim_end_matches('s')),
        engines,
        settings,
        rounds: common.rounds,
        load: Some(Case::new("load", load, clients)),
        shared: None,
        cases: vec![Case {
            duration: common.duration,
            rate: common.rate.map(Rate::Fixed),
            ..Case::new(&format!("{name}-{clients}"), run, clients)
        }],
        warm_up: common.warm_up.into(),
        seed: common.seed,
        run_settings,
        groups: Vec::new(),
        published: Vec::new(),
        analysis: None,
        uses_memory: false,
        memory_limit: None,
    };
    let places = Places { dir: common.dir.clone(), out: common.out.clone() };
    campaign.run(&places)
}
