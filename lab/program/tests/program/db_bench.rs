//! bench db.

use crate::scratch::interrupt;
use crate::{Done, Scratch, names};
use std::process::{Command, Stdio};

#[test]
fn a_bench_gives_rows_whose_reads_found_what_was_written() {
    let scratch = Scratch::new();
    let arguments = ["bench", "db", "--cases", "fillseq,readrandom", "--num", "2000", "--json"];
    let small = ["--segment", "1M", "--memory", "16M"];
    let json = scratch.run(&[&arguments[..], &small].concat()).expect_status(0).json();
    let value = |case: &str, metric: &str| {
        let rows = json["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["case"] == case && row["metric"] == metric);
        row.unwrap_or_else(|| panic!("{case} {metric}"))["value"].as_f64().unwrap()
    };
    assert_eq!(json["rows"][0]["engine"], "esker-wal");
    assert_eq!(value("fillseq", "operations"), 2000.0);
    assert_eq!(value("readrandom", "found"), 1.0);
    assert!(value("fillseq", "log_bytes") > 2000.0 * 116.0);

    let table = ["bench", "db", "--cases", "fillseq", "--num", "100", "--log", "none"];
    let table = scratch.run(&[&table[..], &small].concat()).expect_status(0);
    assert!(table.text().contains("fillseq") && table.text().contains("CPU s"), "{table:?}");
    assert!(!table.text().contains("99.99%"), "{table:?}");
    let ladder = ["bench", "db", "--cases", "fillseq", "--num", "100", "--histogram"];
    let ladder = scratch.run(&[&ladder[..], &small].concat()).expect_status(0);
    assert!(ladder.text().contains("99.99%"), "{ladder:?}");
    scratch.run(&["bench", "db", "--cases", "fillsek"]).expect_failure(2, "fillsek");
    scratch.run(&["bench", "db", "--threads", "0"]).expect_status(2);
}

#[test]
fn an_interrupted_bench_says_where_it_was_and_what_it_left() {
    let scratch = Scratch::new();
    let bench = ["bench", "db", "--cases", "fillseq", "--num", "1000000000", "--dir", "kept"];
    let small = ["--segment", "1M", "--memory", "16M"];
    let mut command = scratch.command(&[&bench[..], &small].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A log: it has begun, and listens for signals.
    let has_begun = || {
        let files = scratch.path("kept").read_dir().ok()?;
        files.flatten().find(|file| file.path().extension().is_some_and(|kind| kind == "log"))
    };
    while has_begun().is_none() {
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let done = Done::of(child.wait_with_output().unwrap()).expect_status(130);
    assert!(done.err.starts_with("esker-lab: interrupted"), "{done:?}");
    assert!(done.err.ends_with("; the database in kept stays as it is\n"), "{done:?}");
    let settings = esker::Settings::default();
    let db = esker::Db::open_existing(scratch.path("kept"), settings).unwrap();
    db.put(&db.default_keyspace(), b"k", b"v").unwrap();
    db.close().unwrap();
}

#[test]
fn benchmarks_that_cannot_be_meant_are_wrong_usage() {
    let scratch = Scratch::new();
    let bench = ["bench", "db", "--cases", "nope"];
    scratch.run(&bench).expect_failure(2, "--cases is nope: there are fillseq");
    let sync = ["bench", "db", "--log", "none", "--sync", "always"];
    scratch.run(&sync).expect_failure(2, "no log to sync");
}

#[test]
fn batches_and_threads_that_cannot_be_are_refused_before_any_file_is_made() {
    let scratch = Scratch::new();
    for (more, part) in [
        (["--value-size", "20000000"], "a quarter of a log"),
        (["--batch", "1000000000"], "the batch takes"),
        (["--threads", "1025"], "threads is 1025: it is from 1 to 1024"),
    ] {
        scratch.run(&[&["bench", "db", "--dir", "db"][..], &more].concat()).expect_failure(2, part);
        assert!(names(&scratch.path(".")).is_empty(), "{more:?}");
    }
}

#[test]
fn an_interrupted_bench_cleans_up_after_itself() {
    interrupt(&["bench", "db", "--cases", "fillrandom", "--duration", "600"], "-INT");
}
