//! What the paper on a key-value store on the storage server reports, next to what is measured here.

use esker_bench::results::{Comparison, Published, PublishedRow};

/// Where the figures are.
const SOURCE: &str = "Y. Park et al., Design and Implementation of a Storage Server-based Key-Value Store in a \
                      Storage Disaggregation Environment";

const ABOUT: &str = "\
    It ran RocksDB on a compute node, its files on a remote NVMe device, against a hash store in the storage node: \
    db_bench's fillseq, 4 B keys, 32 KB values, 15 million pairs, 15 client threads, two nodes of 10 cores with 10 GbE \
    between them. Here both sides share this machine's cores, and loopback is the network. The paper does not say \
    whether all threads wrote the same keys, so that both are measured.";

/// The store of the paper by its RocksDB.
const RATIOS: [(&str, &str, f64); 3] = [
    ("Mean latency", "latency_mean_us", 735.0 / 1_835.0),
    ("99th percentile", "latency_p99_us", 1_853.0 / 21_224.0),
    ("Throughput", "throughput", 638.0 / 255.0),
];

/// The fills that it may have meant.
const FILLS: [&str; 2] = ["paper-same-32k", "paper-own-32k"];

/// The tables, one for each of its figures, if both sides are measured.
pub(super) fn published(engines: &[String]) -> Vec<Published> {
    let is_there = |name: &str| engines.iter().any(|engine| engine == name);
    if !is_there("hashstore-node") || !is_there("rocksdb-compute") {
        return Vec::new();
    }
    let table = |&(title, metric, ratio): &(&str, &str, f64)| Published {
        source: SOURCE.to_owned(),
        about: ABOUT.to_owned(),
        column: format!("The paper: {title}"),
        rows: FILLS
            .iter()
            .map(|case| PublishedRow {
                name: format!("fillseq, 32 KB ({case})"),
                ratio,
                cases: vec![(*case).to_owned()],
            })
            .collect(),
        comparisons: vec![Comparison {
            title: format!("{title}, hashstore-node by rocksdb-compute"),
            engine: "hashstore-node".to_owned(),
            baseline: "rocksdb-compute".to_owned(),
            metric: metric.to_owned(),
        }],
        figures: Vec::new(),
    };
    RATIOS.iter().map(table).collect()
}
