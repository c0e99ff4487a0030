//! How much the experiment measures.

use super::super::Scale;
use crate::bench::plan::{LinkBenchTask, Task, TpccTask};
use crate::failure::{Failure, Outcome};
use std::time::Duration;

/// The cases: a benchmark and its clients.
pub(super) const ALL: &str = "linkbench-10,linkbench-64,tpcc-10,tpcc-64";
pub(super) const QUICK: &str = "linkbench-10";

/// Rounds, each of which measures every engine once, in alternating order.
const QUICK_ROUNDS: u32 = 3;
const FULL_ROUNDS: u32 = 40;

/// What each run takes.
const QUICK_SECONDS: f64 = 1.0;
const FULL_SECONDS: f64 = 2.0;
const WARM_UP: Duration = Duration::from_millis(300);

/// LinkBench's default is ten million; these fit into memory, so that the log is what is measured.
const QUICK_NODES: u64 = 20_000;
const FULL_NODES: u64 = 200_000;

/// A district for each of 64 clients.
const WAREHOUSES: u32 = 7;
/// A tenth of what is specified: 100,000 items and 3,000 customers of a district.
const QUICK_ITEMS: u32 = 10_000;
const QUICK_CUSTOMERS: u32 = 300;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sizes {
    pub(super) rounds: u32,
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
    nodes: u64,
    items: u32,
    customers: u32,
}

/// A benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Benchmark {
    LinkBench,
    Tpcc,
}

impl Benchmark {
    pub(super) fn name(self) -> &'static str {
        match self {
            Benchmark::LinkBench => "linkbench",
            Benchmark::Tpcc => "tpcc",
        }
    }
}

impl Sizes {
    pub(super) fn of(scale: Scale) -> Sizes {
        let is_full = scale == Scale::Full;
        let specified = esker_workload::tpcc::Options::default();
        Sizes {
            rounds: if is_full { FULL_ROUNDS } else { QUICK_ROUNDS },
            duration: Duration::from_secs_f64(if is_full { FULL_SECONDS } else { QUICK_SECONDS }),
            warm_up: WARM_UP,
            nodes: if is_full { FULL_NODES } else { QUICK_NODES },
            items: if is_full { specified.items } else { QUICK_ITEMS },
            customers: if is_full { specified.customers } else { QUICK_CUSTOMERS },
        }
    }

    /// The load of a benchmark and its run by so many clients.
    pub(super) fn tasks(&self, benchmark: Benchmark, clients: usize) -> (Task, Task) {
        let seed = 1;
        match benchmark {
            Benchmark::LinkBench => {
                let (nodes, requests) = (self.nodes, u64::MAX);
                let task = LinkBenchTask { nodes, requests, clients, seed };
                (Task::LinkBenchLoad(task.clone()), Task::LinkBench(task))
            }
            Benchmark::Tpcc => {
                let Sizes { items, customers, .. } = *self;
                let (warehouses, transactions) = (WAREHOUSES, u64::MAX);
                let task = TpccTask { warehouses, items, customers, transactions, clients, seed };
                (Task::TpccLoad(task.clone()), Task::Tpcc(task))
            }
        }
    }

    /// The sizes by name, for the report.
    pub(super) fn named(&self) -> Vec<(String, String)> {
        let given = [
            ("seconds of each run", self.duration.as_secs_f64().to_string()),
            ("LinkBench nodes", self.nodes.to_string()),
            ("TPC-C warehouses", WAREHOUSES.to_string()),
            ("TPC-C items", self.items.to_string()),
            ("TPC-C customers of a district", self.customers.to_string()),
        ];
        given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The cases of a list, none twice: benchmark and clients, with the name.
pub(super) fn parse_cases(list: &str) -> Outcome<Vec<(String, Benchmark, usize)>> {
    let mut parsed: Vec<(String, Benchmark, usize)> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let wrong = || Failure::Usage(format!("{name:?} is not a case such as {ALL}"));
        let (benchmark, clients) = name.split_once('-').ok_or_else(wrong)?;
        let known = [Benchmark::LinkBench, Benchmark::Tpcc];
        let benchmark = known.into_iter().find(|known| known.name() == benchmark);
        let clients = clients.parse().ok().filter(|clients| (1..=1024).contains(clients));
        if parsed.iter().any(|earlier| earlier.0 == name) {
            return Err(Failure::Usage(format!("case {name} is named twice")));
        }
        let (benchmark, clients) = benchmark.zip(clients).ok_or_else(wrong)?;
        parsed.push((name.to_owned(), benchmark, clients));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_benchmarks_with_clients() {
        let parsed = parse_cases("tpcc-10, linkbench-64").unwrap();
        assert_eq!(parsed[0], ("tpcc-10".to_owned(), Benchmark::Tpcc, 10));
        assert_eq!(parsed[1], ("linkbench-64".to_owned(), Benchmark::LinkBench, 64));
        for bad in ["", "tpcc", "tpcc-0", "tpcc-x", "ycsb-10", "tpcc-10,tpcc-10"] {
            assert!(matches!(parse_cases(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }
}
