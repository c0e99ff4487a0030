//! `--json`: one object for the facts of a command, one for its error, one for each message.

use crate::serving::Serving;
use crate::{Done, Scratch};
use serde_json::{Value, json};

/// The last line of standard error, which is the error's object.
#[track_caller]
fn error(done: &Done) -> Value {
    let lines: Vec<Value> =
        done.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let error = &lines.last().unwrap_or_else(|| panic!("{done:?}"))["error"];
    assert_eq!(error["status"], done.status, "{done:?}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{done:?}");
    error.clone()
}

#[test]
fn commands_that_write_say_what_they_wrote() {
    let scratch = Scratch::new();
    let facts = |arguments: &[&str]| {
        let done = scratch.run(&[arguments, &["--json"]].concat()).expect_status(0);
        assert_eq!(done.err, "", "{done:?}");
        done.json()
    };
    assert_eq!(
        facts(&["put", "--create", "db", "a", "1", "-k", "logs"]),
        json!({ "keyspace": "logs", "puts": 1 })
    );
    assert_eq!(
        facts(&["delete", "db", "a", "b"]),
        json!({ "keyspace": "default", "deletes": 2, "range_deletes": 0 })
    );
    assert_eq!(
        facts(&["delete", "db", "--all", "-k", "logs"]),
        json!({ "keyspace": "logs", "deletes": 0, "range_deletes": 1 })
    );
    assert_eq!(facts(&["drop-keyspace", "db", "logs"]), json!({ "dropped": "logs" }));
    facts(&["put", "db", "a", "1"]);
    assert_eq!(facts(&["export", "db", "a.tsv"]), json!({ "pairs": 1, "file": "a.tsv" }));
    assert_eq!(facts(&["hash", "create", "h", "--bytes", "4MiB"])["bytes"], 4 << 20);
    let flash = facts(&["flash", "create", "f", "--bytes", "1GiB"]);
    assert_eq!((&flash["units"], &flash["chunk_bytes"]), (&16.into(), &(4 << 20).into()));
    assert_eq!(facts(&["flash", "info", "f"]), flash);
}

#[test]
fn an_error_is_an_object_with_its_kind_and_status() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    let of = |arguments: &[&str], status: i32| {
        let done = scratch.run(&[arguments, &["--json"]].concat()).expect_status(status);
        assert!(done.out.is_empty(), "{done:?}");
        error(&done)
    };
    assert_eq!(of(&["get", "db", "b"], 1)["kind"], "not_found");
    let failed = of(&["get", "none", "b"], 2);
    assert_eq!(failed["kind"], "failed");
    assert!(failed["message"].as_str().unwrap().starts_with("none is not an Esker"), "{failed}");
    assert_eq!(of(&["delete", "db"], 2)["kind"], "usage");
    assert_eq!(of(&["get", "db"], 2)["kind"], "usage");
    assert_eq!(of(&[], 2)["kind"], "usage");
    assert_eq!(of(&["hash"], 2)["kind"], "usage");
    assert_eq!(of(&["demo"], 2)["kind"], "usage");
    assert_eq!(of(&["get", "db", "a", "--raw"], 2)["kind"], "usage");
    // Behind `--` it is a key, and the error is text.
    let text = scratch.run(&["get", "db", "--", "--json"]);
    text.expect_failure(1, "key --json not found");
}

#[test]
fn a_message_is_an_object_too() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", b"k\tv\nbroken\na\t1\n");
    let import = ["import", "db", &file, "--key", "k", "--value", "v", "--json", "--on-error"];
    let done = scratch.run(&[&import[..], &["skip"]].concat()).expect_status(0);
    let message: Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(
        message,
        json!({ "message": "rows.tsv:2: 1 fields where the first line has 2; skipped" })
    );
    let done = scratch.run(&[&import[..], &["fail"]].concat()).expect_status(2);
    assert_eq!(done.json()["complete"], false);
    assert_eq!(error(&done)["kind"], "failed");
}

#[test]
fn the_initiator_s_commands_print_objects() {
    let scratch = Scratch::new();
    let node = Serving::start(&scratch, &["--memory", "1MiB"]);
    let facts = |arguments: &[&str]| {
        let done = node.nvme(&scratch, &[arguments, &["--json"]].concat(), b"").expect_status(0);
        done.json()
    };
    assert_eq!(facts(&["store", "k", "v"]), json!({ "stored": true }));
    assert_eq!(facts(&["retrieve", "k"]), json!({ "key": "k", "value": "v" }));
    assert_eq!(facts(&["exist", "k"]), json!({ "exists": true }));
    assert_eq!(facts(&["list"]), json!({ "key": "k" }));
    assert_eq!(facts(&["discover"])["subsystems"][0]["subsystem"], "nqn.2024-01.io.esker:node");
    assert_eq!(facts(&["ping", "--count", "3"])["round_trips"], 3);
    let refused = node.nvme(&scratch, &["store", "k", "w", "--if-absent", "--json"], b"");
    assert_eq!(error(&refused.expect_status(1))["kind"], "exists");
    assert_eq!(facts(&["delete", "k"]), json!({ "deleted": true }));
    let absent = node.nvme(&scratch, &["delete", "k", "--json"], b"").expect_status(1);
    assert_eq!(error(&absent)["kind"], "not_found");
    node.stop();
}
