//! What the paper on the log of RocksDB reports, next to what is measured here.

use esker_bench::results::{Comparison, Published, PublishedRow};

/// Where the figures are.
const SOURCE: &str = "H. Sung, S. Park, Overhead Analysis of WAL on RocksDB";

const ABOUT: &str = "\
    It ran RocksDB under LinkBench (10 million pairs, 3.5 GB; 18,977 requests a second without a log) and \
    TPC-C (7 GB, 10 clients; 13,977 tpmC without), with only the log's device changing. It does not say \
    whether the log was synced, nor how many clients LinkBench had. Here the log is synced at every commit, \
    and the device is emulated. A ratio of 0.34 is a loss of 66%.";

/// Throughput with the log on a device by that without a log: LinkBench, TPC-C.
const RATIOS: [(&str, &str, f64, f64); 3] = [
    ("sata", "a SATA SSD", 6_455.0 / 18_977.0, 9_270.0 / 13_977.0),
    ("nvme", "an NVMe SSD (P3700)", 15_580.0 / 18_977.0, 11_100.0 / 13_977.0),
    ("nvram", "an NVRAM card (NV1600)", 17_174.0 / 18_977.0, 13_490.0 / 13_977.0),
];

/// The tables, one for each device that engines of the run log to.
pub(super) fn published(engines: &[String]) -> Vec<Published> {
    let is_there = |name: &str| engines.iter().any(|engine| engine == name);
    let table = |&(device, words, linkbench, tpcc): &(&str, &str, f64, f64)| {
        let families = ["esker", "rocksdb"].into_iter();
        let comparisons: Vec<Comparison> = families
            .map(|family| Comparison {
                title: format!("{family}, throughput by that without a log"),
                engine: format!("{family}-log-{device}"),
                baseline: format!("{family}-nolog"),
                metric: "throughput".to_owned(),
            })
            .filter(|compared| is_there(&compared.engine) && is_there(&compared.baseline))
            .collect();
        let row = |name: &str, ratio, case: &str| PublishedRow {
            name: name.to_owned(),
            ratio,
            cases: vec![case.to_owned(); comparisons.len()],
        };
        Published {
            source: SOURCE.to_owned(),
            about: ABOUT.to_owned(),
            column: format!("The paper's RocksDB, log on {words}"),
            rows: vec![row("LinkBench", linkbench, "linkbench-10"), row("TPC-C", tpcc, "tpcc-10")],
            comparisons,
            figures: Vec::new(),
        }
    };
    RATIOS.iter().map(table).filter(|table| !table.comparisons.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_the_papers() {
        let percent = |ratio: f64| ((1.0 - ratio) * 100.0).round();
        let losses: Vec<_> = RATIOS.iter().map(|row| (percent(row.2), percent(row.3))).collect();
        assert_eq!(losses, [(66.0, 34.0), (18.0, 21.0), (10.0, 3.0)]);
    }

    #[test]
    fn only_what_is_measured_is_compared() {
        let names = ["esker-log-nvme", "esker-nolog", "rocksdb-log-nvme", "rocksdb-log-sata"];
        let tables = published(&names.map(str::to_owned));
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].comparisons.len(), 1);
        assert_eq!(tables[0].comparisons[0].engine, "esker-log-nvme");
    }
}
