//! `experiment scale` on small stores: what is kept between cases, what is reported, and what a case
//! that fails leaves.

use crate::{PROGRAM, Scratch, names};
use std::process::Command;

/// Stores that are small enough for a test. Each case takes two seconds.
const SMALL: [&str; 4] = ["experiment", "scale", "--engines", "esker-wal"];

fn results(scratch: &Scratch) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(scratch.path("out/results.json")).unwrap()).unwrap()
}

/// The value of a metric in a case.
fn value(results: &serde_json::Value, case: &str, metric: &str) -> Option<f64> {
    let is_of = |row: &&serde_json::Value| row["case"] == case && row["metric"] == metric;
    results["rows"].as_array().unwrap().iter().find(is_of)?["value"].as_f64()
}

#[test]
#[cfg(target_os = "linux")]
fn stores_of_several_sizes_are_measured_and_drawn_over_their_size() {
    let scratch = Scratch::new();
    let more = ["--memory", "4MiB", "--sizes", "1,2x", "--cases", "1kb-get,1kb-files64"];
    let places = ["--dir", "work", "--out", "out"];
    let done = scratch.run(&[&SMALL[..], &more, &places].concat()).expect_status(0);
    let results = results(&scratch);
    assert_eq!(results["complete"], true);
    for size in ["1kb-1x", "1kb-2x"] {
        let of = |load: &str, metric: &str| {
            let found = value(&results, &format!("{size}-{load}"), metric);
            found.unwrap_or_else(|| panic!("{size} {load} {metric}"))
        };
        // Keys and values of about 1,023 B.
        let records = if size == "1kb-1x" { 4_098.0 } else { 8_197.0 };
        assert!((of("load", "operations") / records - 1.0).abs() < 0.01);
        assert!(of("load", "write_amp") > 1.0 && of("load", "disk_bytes") > records * 1_000.0);
        assert_eq!(of("get", "found"), 1.0);
        assert!(of("get", "read_calls_per_get") >= 0.0);
        assert!(of("get", "first_read_ms") >= of("get", "open_ms"));
        for load in ["load", "get", "files64"] {
            assert!(of(load, "resident_peak_mib") > 1.0);
            assert!(of(load, "descriptors_peak") >= 3.0);
        }
        assert!(of("files64", "descriptors_peak") <= 64.0 && of("files64", "throughput") > 0.0);
    }
    let limit = results["settings"]["run"]["limit of memory"].as_str().unwrap();
    assert!(limit.contains("cgroup"), "{limit}");
    assert_eq!(results["settings"]["esker-wal"]["separation_threshold"], "none");
    let page = std::fs::read_to_string(scratch.path("out/report.html")).unwrap();
    assert!(page.contains("store, times the memory"));
    assert!(done.text().contains("reads/op") && done.text().contains("1kb-2x-files64"));
    assert!(!scratch.path("work").exists(), "the stores are gone");
}

#[test]
fn a_case_that_fails_is_named_and_the_run_goes_on_and_fails_in_the_end() {
    let scratch = Scratch::new();
    let sizes = ["--memory", "16MiB", "--sizes", "1,2", "--cases", "100b-get"];
    let more = ["--dir", "work", "--out", "out"];
    // Files of less than 1 MiB, in units of 512 or 1,024 B. A log segment has that, so every load fails.
    let done = Command::new("sh")
        .args(["-c", "ulimit -f 900; exec \"$0\" \"$@\"", PROGRAM])
        .args([&SMALL[..], &sizes, &more].concat())
        .current_dir(scratch.path("."))
        .output()
        .unwrap();
    let message = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{message}");
    assert!(message.contains("100b-1x-load") && message.contains("2 cases failed"), "{message}");
    let results = results(&scratch);
    let told = &results["settings"]["run"];
    for load in ["failed: 100b-1x-load, esker-wal", "failed: 100b-2x-load, esker-wal"] {
        assert!(told[load].as_str().is_some_and(|why| why.contains("esker-wal")), "{told}");
    }
    assert_eq!(value(&results, "100b-1x-get", "throughput"), None, "its load has failed");
    assert!(!names(&scratch.path(".")).contains(&"work".to_owned()));
}

#[test]
fn what_is_not_there_to_measure_is_refused() {
    let scratch = Scratch::new();
    for (flag, value) in [("--sizes", "0"), ("--cases", "2kb"), ("--memory", "1")] {
        let arguments = ["experiment", "scale", "--engines", "esker-wal", "--out", "new"];
        scratch.run(&[&arguments[..], &[flag, value]].concat()).expect_status(2);
        assert!(!scratch.path("new").exists());
    }
}
