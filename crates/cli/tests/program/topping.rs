//! `esker top`, of a database that this process has open.

use super::scratch::Scratch;
use esker::env::{Clock, SystemClock};
use esker::{Db, Settings};
use serde_json::Value as Json;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

fn open(scratch: &Scratch, answers: bool) -> Db {
    Db::open(scratch.path("db"), Settings::default().answers_requests(answers)).unwrap()
}

#[test]
fn samples_are_lines_of_json() {
    let scratch = Scratch::new();
    let db = open(&scratch, true);
    let keyspace = db.default_keyspace();
    (0..50_u32).for_each(|n| keyspace.put(n.to_be_bytes(), "value").unwrap());
    db.flush().unwrap();
    let arguments = ["--json", "top", "db", "--interval", "0.2", "--samples", "2"];
    let done = scratch.run(&arguments).expect_status(0);
    let samples: Vec<Json> =
        done.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(samples.len(), 2);
    for sample in &samples {
        assert_eq!(sample["pid"], std::process::id());
        assert!(sample["seconds"].as_f64().unwrap() >= 0.2, "{sample}");
        assert_eq!(sample["metrics"]["esker_writes_total"], 50.0);
        assert_eq!(sample["per_second"]["esker_writes_total"], 0.0);
        assert_eq!(sample["calls"]["get"]["per_second"], 0.0);
        assert_eq!(sample["calls"]["get"]["p99_9_us"], Json::Null);
        assert_eq!(sample["levels"][0]["keyspace"], "default");
        assert_eq!(sample["compactions"], Json::Array(Vec::new()));
        // A writer may have waited for the first segment.
        let mut events = sample["events"].as_array().unwrap().iter();
        assert!(events.any(|it| it.as_str().unwrap().starts_with("flush of ")), "{sample}");
    }
}

#[test]
fn a_database_that_is_closed_or_does_not_exist_is_named() {
    let scratch = Scratch::new();
    open(&scratch, false).close().unwrap();
    let closed = scratch.run(&["top", "db", "--json"]).expect_status(2);
    assert!(closed.err.contains("no process has the database"), "{closed:?}");
    scratch.run(&["top", "nodb"]).expect_failure(2, "no database at");
    assert!(!scratch.path("nodb").exists());
    scratch.run(&["top", "db"]).expect_failure(2, "standard output is no terminal");
    scratch.run(&["top", "db", "--interval", "0"]).expect_failure(2, "0.2 to 60 seconds");
}

/// The program `script` lends it a terminal, which goes when that is killed.
#[test]
#[cfg(target_os = "linux")]
fn it_ends_with_its_terminal() {
    let scratch = Scratch::new();
    let _db = open(&scratch, true);
    let top = format!("exec {} top db", env!("CARGO_BIN_EXE_esker"));
    let script = Command::new("script")
        .args(["-qfec", &top, "/dev/null"])
        .current_dir(scratch.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut script) = script else {
        return esker_base::skipped(
            "it_ends_with_its_terminal",
            "there is no `script`: apt-get install bsdutils",
        );
    };
    let (mut out, mut seen) = (script.stdout.take().unwrap(), Vec::new());
    // It has the screen.
    while !String::from_utf8_lossy(&seen).contains("\u{1b}[?1049h") {
        let mut part = [0; 4096];
        let read = out.read(&mut part).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&part[..read]);
    }
    let id = script.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let top: u32 = children.trim().parse().unwrap();
    script.kill().unwrap();
    script.wait().unwrap();
    let is_there = || {
        let status = std::fs::read_to_string(format!("/proc/{top}/status"));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    };
    let clock = SystemClock::new();
    for _ in 0..6_000 {
        if !is_there() {
            return;
        }
        clock.sleep(Duration::from_millis(10));
    }
    let _ = Command::new("kill").args(["-9", &top.to_string()]).status();
    panic!("it goes on after a minute");
}
