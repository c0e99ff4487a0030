//! What the paper on write-behind logging reports, next to what is measured here.

use esker_bench::results::{Comparison, Published, PublishedRow};

/// Where the figures are.
const SOURCE: &str = "Y. Choi, Write Behind Logging (WBL): Optimizing LSM-Tree based Key-Value \
                      Store with Persistent Memory, Seoul National University, 2022";

/// What the paper compared, and what is different here.
const ABOUT: &str = "\
    It compares the throughput of WBL in RocksDB 6.24 with that of RocksDB: 40 GB of 1 KB \
    records, 4 million operations of each workload, 16 MB MemTables, 32 GB of DRAM, 256 GB \
    of Optane, a hard disk. Its F is read-modify-writes alone, and so is F here. Here \
    persistent memory is emulated by DRAM, and WBL is Esker's: of the differences to \
    RocksDB, only what remains against Esker with a log in a file is the log's. Sustained: \
    the operations by their time and that of settling afterwards. Burst: what fits into the \
    pool, until its last operation.";

/// What a run says that has it not.
const WITHOUT_ROCKSDB: &str = "RocksDB itself is not among the engines of this run.";

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

/// The engines that WBL is compared with there, and what they are called in the table.
const BASELINES: [(&str, &str); 3] = [
    ("rocksdb-wal", "RocksDB"),
    ("esker-wal", "Esker with a log"),
    ("esker-nolog", "Esker without a log"),
];

/// What its second comparison was.
const ABOUT_NOVELSM: &str = "\
    Its second version, in the LevelDB code of NoveLSM, is told to do about 20,000 \
    operations a second with 1 KB records on 1 to 10 GB, 30% more than NoveLSM. Here NoveLSM \
    is a model of its write path, made of Esker's parts: with fewer fences than the \
    original, but each flush passes through another MemTable, in the background, which \
    costs processor time where no core is idle.";

/// Throughput of that by NoveLSM's.
const RATIOS_NOVELSM: [(&str, f64); 1] = [("G", 1.30)];

const BASELINE_NOVELSM: (&str, &str) = ("esker-novelsm", "Esker as NoveLSM");

/// The tables, for a run of `engines`. None without WBL among them.
pub(super) fn published(engines: &[String]) -> Vec<Published> {
    let is_there = |name: &str| engines.iter().any(|engine| engine == name);
    if !is_there(super::WBL) {
        return Vec::new();
    }
    let there = |baselines: &[(&'static str, &'static str)]| {
        baselines.iter().filter(|(name, _)| is_there(name)).copied().collect::<Vec<_>>()
    };
    let about = if is_there("rocksdb-wal") { ABOUT } else { &format!("{ABOUT} {WITHOUT_ROCKSDB}") };
    let all = [
        table("RocksDB", about, &RATIOS, &there(&BASELINES)),
        table("NoveLSM", ABOUT_NOVELSM, &RATIOS_NOVELSM, &there(&[BASELINE_NOVELSM])),
    ];
    all.into_iter().filter(|table| !table.comparisons.is_empty()).collect()
}

/// The ratios of the paper to `against`, and the same here next to each of `baselines`, in either shape.
fn table(
    against: &str,
    about: &str,
    ratios: &[(&str, f64)],
    baselines: &[(&str, &str)],
) -> Published {
    let comparisons = baselines.iter().flat_map(|&(baseline, title)| {
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
    let row = |&(name, ratio): &(&str, f64)| PublishedRow {
        name: name.to_owned(),
        ratio,
        cases: (0..comparisons.len())
            .map(|at| if at % 2 == 0 { name.to_owned() } else { super::cases::burst(name) })
            .collect(),
    };
    Published {
        source: SOURCE.to_owned(),
        about: about.to_owned(),
        column: format!("The paper's WBL against {against}"),
        rows: ratios.iter().map(row).collect(),
        comparisons,
        figures: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_measured_is_compared() {
        let engines =
            |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let baselines = |table: &Published| {
            table.comparisons.iter().map(|one| one.baseline.clone()).collect::<Vec<_>>()
        };
        let few = published(&engines(&["esker-wbl", "esker-wal"]));
        assert_eq!(few.iter().map(baselines).collect::<Vec<_>>(), [["esker-wal"; 2]]);
        assert_eq!(few[0].rows[5].cases, ["G", "G-burst"]);
        assert!(few[0].about.ends_with(WITHOUT_ROCKSDB));
        let with = published(&engines(&["esker-wbl", "rocksdb-wal"]));
        assert_eq!(
            (baselines(&with[0]), &with[0].about[..]),
            (vec!["rocksdb-wal".into(); 2], ABOUT)
        );
        let both = published(&engines(&["esker-wbl", "esker-novelsm", "esker-wal"]));
        assert_eq!(baselines(&both[1]), ["esker-novelsm"; 2]);
        assert_eq!(both[1].rows[0].ratio, 1.30);
        assert_eq!(published(&engines(&["esker-wal"])), []);
    }
}
