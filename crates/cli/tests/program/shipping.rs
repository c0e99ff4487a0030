//! `esker backup --every`: what is written is backed up again and again, next to the process that writes.

use crate::Scratch;
use esker::{Db, Settings};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A backup that goes on.
struct Shipping {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Shipping {
    fn start(scratch: &Scratch) -> Shipping {
        let arguments = ["backup", "db", "repo", "--every", "20ms", "--json"];
        let mut child = scratch.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Shipping { child, lines }
    }

    /// Waits until the repository has all writes up to `seqno`.
    fn wait_for(&mut self, seqno: u64) {
        loop {
            let line = self.lines.next().expect("it goes on").unwrap();
            let said: serde_json::Value = serde_json::from_str(&line).unwrap();
            if said["seqno"].as_u64().unwrap() >= seqno {
                return;
            }
        }
    }

    fn interrupt(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn writer(scratch: &Scratch) -> Db {
    let settings = Settings::default().segment_bytes(64 << 10).memory_bytes(16 << 20);
    Db::open(scratch.path("db"), settings.answers_requests(true)).unwrap()
}

fn last(db: &Db) -> u64 {
    db.snapshot().seqno()
}

#[test]
fn each_write_of_another_process_can_be_restored() {
    let scratch = Scratch::new();
    let db = writer(&scratch);
    let keyspace = db.default_keyspace();
    keyspace.put("k", "1").unwrap();
    let mut shipping = Shipping::start(&scratch);
    shipping.wait_for(1);
    keyspace.put("k", "2").unwrap();
    shipping.wait_for(2);
    // The log has many segments by then, and they are flushed.
    (0..200_u8).for_each(|key| keyspace.put([b'x', key], [key; 3_000]).unwrap());
    db.flush().unwrap();
    let users = db.keyspace("users", Default::default()).unwrap();
    users.put("ada", "1815").unwrap();
    shipping.wait_for(last(&db));
    db.ingest(&keyspace, [("y", "ingested")]).unwrap();
    keyspace.put("k", "3").unwrap();
    shipping.wait_for(last(&db));
    shipping.interrupt();
    let end = last(&db).to_string();
    db.close().unwrap();
    for (seqno, value) in [("1", "1\n"), ("2", "2\n"), ("100", "2\n"), (&end[..], "3\n")] {
        let to = format!("to-{seqno}");
        scratch.run(&["restore", "repo", &to, "--to-seqno", seqno]).expect_status(0);
        scratch.run(&["get", &to, "k"]).expect(value);
    }
    scratch.run(&["count", "to-100"]).expect("99\n");
    let to = format!("to-{end}");
    scratch.run(&["get", &to, "y"]).expect("ingested\n");
    scratch.run(&["get", &to, "ada", "--keyspace", "users"]).expect("1815\n");
    scratch.run(&["backups", "repo", "--verify"]).expect_status(0);
}

#[test]
fn a_backup_goes_on_where_it_was_interrupted() {
    let scratch = Scratch::new();
    let db = writer(&scratch);
    for round in 1..4_u64 {
        let mut shipping = Shipping::start(&scratch);
        db.default_keyspace().put("k", round.to_string()).unwrap();
        shipping.wait_for(round);
        // Not by an interrupt.
        drop(shipping);
    }
    db.close().unwrap();
    let backups = scratch.run(&["backups", "repo", "--json"]).expect_status(0).json();
    assert_eq!(backups["backups"].as_array().unwrap().len(), 1, "{backups}");
    scratch.run(&["restore", "repo", "to", "--to-seqno", "2"]).expect_status(0);
    scratch.run(&["get", "to", "k"]).expect("2\n");
}

#[test]
fn a_database_that_no_process_has_open_can_be_opened_meanwhile() {
    let scratch = Scratch::with_pairs(&[("k", "1")]);
    let mut shipping = Shipping::start(&scratch);
    shipping.wait_for(1);
    for round in 2..5_u64 {
        // The two may want the lock at the same time.
        loop {
            let done = scratch.run(&["put", "db", "k", &round.to_string()]);
            if done.status == 0 {
                break;
            }
            assert!(done.err.contains("is in use by"), "{}", done.err);
        }
        shipping.wait_for(round);
    }
    shipping.interrupt();
    scratch.run(&["restore", "repo", "to", "--to-seqno", "3"]).expect_status(0);
    scratch.run(&["get", "to", "k"]).expect("3\n");
}

#[test]
fn a_backup_of_no_database_makes_no_repository() {
    let scratch = Scratch::new();
    scratch
        .run(&["backup", "db", "repo", "--every", "1s"])
        .expect_failure(2, "not an Esker database");
    assert!(!scratch.path("repo").exists());
    scratch.run(&["backup", "db", "repo", "--every", "soon"]).expect_status(2);
}
