//! bench.

use crate::{Scratch, names};

#[test]
fn a_bench_measures_five_phases_and_leaves_nothing() {
    let scratch = Scratch::new();
    let bench = ["bench", "--keys", "2000", "--seconds", "1", "--memory", "16M", "--threads", "2"];
    let json = scratch.run(&[&bench[..], &["--json"]].concat()).expect_status(0).json();
    let phases = json["phases"].as_array().unwrap();
    let names_of: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(names_of, ["fill", "overwrite", "read", "scan", "mixed"]);
    assert_eq!(phases[0]["operations"], 2000);
    for (number, phase) in phases.iter().enumerate() {
        assert!(phase["operations_per_second"].as_f64().unwrap() > 0.0, "{phase}");
        let latency = |name: &str| phase["latency_us"][name].as_f64().unwrap();
        assert!(latency("p50") <= latency("p99") && latency("p99") <= latency("max"), "{phase}");
        // A thread does one operation after the other, so their latencies add up to its time.
        let all = latency("mean") * phase["operations"].as_f64().unwrap() / 1e6;
        let seconds = phase["seconds"].as_f64().unwrap();
        assert!(all <= 2.0 * seconds + 1e-3, "two threads: {phase}");
        // The first phase is over in a moment, most of which may be the start of its threads.
        assert!(number == 0 || all > 0.1 * seconds, "{phase}");
    }
    assert!(names(&scratch.path(".")).is_empty());
}

#[test]
fn commands_that_moved_to_the_laboratory_name_it() {
    let scratch = Scratch::new();
    scratch
        .run(&["bench", "ycsb", "--records", "5"])
        .expect_failure(2, "cargo run --release -p esker-lab -- bench ycsb --records 5");
    for help in [&["experiment", "--help"][..], &["experiment", "ycsb", "--help"]] {
        scratch.run(help).expect_failure(2, "cargo run --release -p esker-lab -- experiment");
    }
    scratch.run(&["bench", "/mnt/disk"]).expect_failure(2, "use --dir DIR");
    scratch.run(&["bench", "--memory", "64K"]).expect_failure(2, "at least 1.00 MiB is needed");
    scratch
        .run(&["experiment", "wbl", "--quick"])
        .expect_failure(2, "cargo run --release -p esker-lab -- experiment wbl --quick");
    let help = scratch.run(&["--help"]).expect_status(0);
    assert!(!help.text().contains("experiment"), "{help:?}");
}

#[test]
fn a_bench_in_a_directory_that_is_not_there_names_it() {
    let scratch = Scratch::new();
    scratch.run(&["bench", "--dir", "nowhere"]).expect_failure(2, "nowhere");
}
