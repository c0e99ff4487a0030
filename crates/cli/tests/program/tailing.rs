//! tail, consumers.

use crate::Scratch;
use esker::{Db, Settings};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn lines(scratch: &Scratch, arguments: &[&str]) -> Vec<Json> {
    let output = scratch.run(&[&["tail", "db"], arguments].concat()).expect_status(0);
    output.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn put(scratch: &Scratch, key: &str) {
    scratch.run(&["put", "--create", "db", key, "1"]).expect("");
}

#[test]
fn a_consumer_gets_each_change_once() {
    let scratch = Scratch::new();
    put(&scratch, "before");
    assert_eq!(lines(&scratch, &["--name", "mirror"]), [] as [Json; 0]);
    put(&scratch, "a");
    scratch.run(&["delete", "db", "a"]).expect("");
    let found = lines(&scratch, &["--name", "mirror"]);
    let put_a = json!({
        "seqno": 2, "keyspace": "default", "operation": "put", "key": "a", "value": "1",
    });
    assert_eq!(found[0], json!({ "seqno": 2, "first_seqno": 2, "changes": [put_a] }));
    assert_eq!(found[1]["changes"][0]["operation"], "delete");
    assert_eq!(found.len(), 2);
    assert_eq!(lines(&scratch, &["--name", "mirror"]), [] as [Json; 0]);

    let listed = scratch.run(&["consumers", "db"]).expect_status(0);
    assert!(
        listed.text().starts_with("mirror\tacknowledged 3, keeps 0 B of at most 1"),
        "{listed:?}"
    );
    let listed = scratch.run(&["consumers", "db", "--json"]).json();
    assert_eq!(listed["consumers"][0]["acknowledged"], 3);
    scratch.run(&["consumers", "db", "--drop", "mirror"]).expect("");
    scratch.run(&["consumers", "db"]).expect("");
    scratch.run(&["consumers", "db", "--drop", "mirror"]).expect_failure(2, "no change consumer");
}

#[test]
fn changes_are_read_while_another_process_writes() {
    let scratch = Scratch::new();
    let db = Db::open(scratch.path("db"), Settings::default()).unwrap();
    db.keyspace("users", Default::default()).unwrap().put("ada", [0xff]).unwrap();
    let found = lines(&scratch, &[]);
    // The history of keyspaces is in the other process.
    assert_eq!(found[0], json!({ "event": "keyspaces-unknown", "through": 1 }));
    let change = &found[1]["changes"][0];
    assert_eq!((&change["keyspace"], &change["value_hex"]), (&json!("users"), &json!("ff")));
    scratch.run(&["tail", "db", "--name", "mirror"]).expect_failure(2, "in use by process");
    scratch
        .run(&["tail", "db", "--from", "9"])
        .expect_failure(2, "the last write of the database is 1");
    db.flush().unwrap();
    let gone = scratch.run(&["tail", "db", "--from", "1"]).expect_status(2);
    assert!(gone.err.contains("the oldest that the logs still have is 2"), "{gone:?}");
    assert_eq!(lines(&scratch, &[]), [] as [Json; 0]);
}

/// A closed database has all of its writes in tables, and their logs are gone.
#[test]
fn where_the_logs_are_gone_it_is_said_from_where_on_they_are_read() {
    let scratch = Scratch::new();
    put(&scratch, "a");
    let none = scratch.run(&["tail", "db"]).expect_status(0);
    assert_eq!(none.text(), "");
    assert!(none.err.contains("no changes before seqno 2, which comes next"), "{none:?}");
    let none = scratch.run(&["tail", "db", "--json"]).expect_status(0);
    assert!(none.err.starts_with("{\"message\":"), "{none:?}");
    // A consumer that has all is told nothing.
    scratch.run(&["tail", "db", "--name", "mirror"]).expect("");
    put(&scratch, "b");
    let some = scratch.run(&["tail", "db"]).expect_status(0);
    assert!(some.text().contains("\"seqno\":2") && some.err.is_empty(), "{some:?}");
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn changes_are_followed_until_an_interrupt() {
    let scratch = Scratch::new();
    let db = Db::open(scratch.path("db"), Settings::default()).unwrap();
    db.default_keyspace().put("a", "1").unwrap();
    let mut command = scratch.command(&["tail", "db", "--follow"]);
    let mut tail = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(tail.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("keyspaces-unknown"));
    assert!(lines.next().unwrap().contains("\"key\":\"a\""));
    db.default_keyspace().put("b", "1").unwrap();
    assert!(lines.next().unwrap().contains("\"key\":\"b\""));
    let killed = Command::new("kill").args(["-INT", &tail.0.id().to_string()]).status().unwrap();
    assert!(killed.success() && tail.0.wait().unwrap().success());
    assert_eq!(lines.next(), None);
}

/// Each look opens the database anew. What comes between two of them is printed once, events without a batch after
/// them included.
#[test]
fn a_followed_feed_loses_and_repeats_nothing() {
    let scratch = Scratch::new();
    let db = Db::open(scratch.path("db"), Settings::default()).unwrap();
    // So the history of keyspaces is in the manifest.
    let _consumer = db.change_consumer("c", 1 << 30).unwrap();
    db.default_keyspace().put("a", "1").unwrap();
    let mut command = scratch.command(&["tail", "db", "--follow"]);
    let mut tail = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(tail.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("\"key\":\"a\""));
    // Each is printed in a look of its own, whose successor must pass over all that are printed.
    for name in ["one", "two"] {
        db.keyspace(name, Default::default()).unwrap();
        let line = lines.next().unwrap();
        assert!(line.contains("keyspace-created") && line.contains(name), "{line}");
    }
    db.default_keyspace().put("b", "1").unwrap();
    assert!(lines.next().unwrap().contains("\"key\":\"b\""));
    let users = db.open_keyspace("one").unwrap();
    db.drop_keyspace(&users).unwrap();
    assert!(lines.next().unwrap().contains("keyspace-dropped"));
    db.default_keyspace().put("c", "1").unwrap();
    assert!(lines.next().unwrap().contains("\"key\":\"c\""));
}

/// `--from` may name the next write: then events come before any batch.
#[test]
fn a_followed_feed_from_the_next_write_repeats_no_event() {
    let scratch = Scratch::new();
    let db = Db::open(scratch.path("db"), Settings::default()).unwrap();
    let _consumer = db.change_consumer("c", 1 << 30).unwrap();
    db.default_keyspace().put("a", "1").unwrap();
    db.keyspace("one", Default::default()).unwrap();
    let mut command = scratch.command(&["tail", "db", "--from", "2", "--follow"]);
    let mut tail = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(tail.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    for name in ["one", "two", "three"] {
        if name != "one" {
            db.keyspace(name, Default::default()).unwrap();
        }
        let line = lines.next().unwrap();
        assert!(line.contains("keyspace-created") && line.contains(name), "{line}");
    }
}
