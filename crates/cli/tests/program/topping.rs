//! `esker top`, of a database that this process has open.

use super::scratch::Scratch;
use esker::env::{Clock, SystemClock};
use esker::{Db, Settings};
use serde_json::Value as Json;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
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

/// `esker top` at a terminal that the program `script` lends it.
#[cfg(target_os = "linux")]
struct AtTerminal {
    script: Child,
    shown: ChildStdout,
    top: u32,
}

#[cfg(target_os = "linux")]
impl AtTerminal {
    /// Waits until it has the screen. `None`, and the test is skipped, if there is no `script`.
    fn start(scratch: &Scratch, test: &str) -> Option<AtTerminal> {
        let top = format!("exec {} top db", env!("CARGO_BIN_EXE_esker"));
        let script = Command::new("script")
            .args(["-qfec", &top, "/dev/null"])
            .current_dir(scratch.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut script) = script else {
            esker_base::skipped(test, "there is no `script`: apt-get install bsdutils");
            return None;
        };
        let mut shown = script.stdout.take().unwrap();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("\u{1b}[?1049h") {
            let mut part = [0; 4096];
            let read = shown.read(&mut part).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&part[..read]);
        }
        let id = script.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let top = children.trim().parse().unwrap();
        Some(AtTerminal { script, shown, top })
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.top.to_string()]).status();
        assert!(kill.unwrap().success());
    }

    fn expect_end(&self) {
        let is_there = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.top));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        let clock = SystemClock::new();
        for _ in 0..6_000 {
            if !is_there() {
                return;
            }
            clock.sleep(Duration::from_millis(10));
        }
        self.signal("-9");
        panic!("it goes on after a minute");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn it_ends_with_its_terminal() {
    let scratch = Scratch::new();
    let _db = open(&scratch, true);
    let started = AtTerminal::start(&scratch, "it_ends_with_its_terminal");
    let Some(mut terminal) = started else { return };
    terminal.script.kill().unwrap();
    terminal.script.wait().unwrap();
    terminal.expect_end();
}

#[test]
#[cfg(target_os = "linux")]
fn a_hangup_leaves_a_terminal_that_goes_on_as_it_was() {
    let scratch = Scratch::new();
    let _db = open(&scratch, true);
    let started = AtTerminal::start(&scratch, "a_hangup_leaves_a_terminal_that_goes_on_as_it_was");
    let Some(mut terminal) = started else { return };
    terminal.signal("-HUP");
    terminal.expect_end();
    let mut rest = Vec::new();
    terminal.shown.read_to_end(&mut rest).unwrap();
    terminal.script.wait().unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\u{1b}[?1049l"), "it is not restored: {rest:?}");
}
