//! What the paper on write-behind logging reports, beside what is measured here.

use esker_bench::results::{Comparison, Published, PublishedRow};

/// Where the figures stand.
const SOURCE: &str = "Y. Choi, Write Behind Logging (WBL): Optimizing LSM-Tree based Key-Value \
                      Store with Persistent Memory, Seoul National University, 2022";

/// What the paper compared, and what is different here.
const ABOUT: &str = "It compares the throughput of WBL in RocksDB 6.24 with that of RocksDB: 40 GB of 1 KB records, \
     4 million operations of each workload, 16 MB MemTables, 32 GB of DRAM, 256 GB of Optane, a \
     hard disk. Its F is read-modify-writes alone, and so is F here. Its second version, in \
     LevelDB, is told to be 30% faster than NoveLSM. Here persistent memory is emulated by DRAM, \
     and WBL is Esker's: of the differences to RocksDB, only what remains against Esker with a log \
     in a file is the log's. Sustained: the operations by their time and that of settling \
     afterwards. Burst: what fits into the pool, until its last operation.";

/// Throughput with WBL by that of RocksDB, workload by workload.
const RATIOS: [(&str, f64); 7] = [
    ("A", 1.0282),
    ("B", 0.9755),
    ("C", 1.0228),
    ("D", 1.0086),
    ("F", 1.0334),
    ("G", 1.1383),
    ("H", 1.0997),
];

/// The engines that WBL is compared with, and what they are called in the table.
const BASELINES: [(&str, &str); 4] = [
    ("rocksdb-wal", "RocksDB"),
    ("esker-wal", "Esker with a log"),
    ("esker-nolog", "Esker without a log"),
    ("esker-novelsm", "Esker as NoveLSM"),
];

/// The table, for a run of `engines`. None without WBL among them.
pub(super) fn published(engines: &[String]) -> Option<Published> {
    let is_there = |name: &str| engines.iter().any(|engine| engine == name);
    if !is_there(super::WBL) {
        return None;
    }
    let baselines = BASELINES.into_iter().filter(|(name, _)| is_there(name));
    let comparisons = baselines.flat_map(|(baseline, title)| {
        [("sustained", "sustained_throughput"), ("burst", "throughput")].map(|(shape, metric)| {
            Comparison {
                title: format!("Esker's WBL against {title}, {shape}"),
                engine: super::WBL.to_owned(),
                baseline: baseline.to_owned(),
                metric: metric.to_owned(),
            }
        })
    });
    let comparisons: Vec<Comparison> = comparisons.collect();
    let row = |(name, ratio): (&str, f64)| PublishedRow {
        name: name.to_owned(),
        ratio,
        cases: (0..comparisons.len())
            .map(|at| if at % 2 == 0 { name.to_owned() } else { super::cases::burst(name) })
            .collect(),
    };
    Some(Published {
        source: SOURCE.to_owned(),
        about: ABOUT.to_owned(),
        column: "The paper's WBL against RocksDB".to_owned(),
        rows: RATIOS.into_iter().map(row).collect(),
        comparisons,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_measured_is_compared() {
        let engines =
            |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let few = published(&engines(&["esker-wbl", "esker-wal"])).unwrap();
        let baselines: Vec<&str> = few.comparisons.iter().map(|one| &one.baseline[..]).collect();
        assert_eq!(baselines, ["esker-wal", "esker-wal"]);
        assert_eq!(few.rows[5].cases, ["G", "G-burst"]);
        assert_eq!(published(&engines(&["esker-wal"])), None);
    }
}
