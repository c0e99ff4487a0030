//! scan.

use crate::Scratch;
use std::io::Read;
use std::process::Stdio;

fn letters() -> Scratch {
    Scratch::with_pairs(&[("a", "1"), ("b", "2"), ("ba", "3"), ("c", "4")])
}

#[test]
fn a_scan_is_in_key_order_or_backward() {
    letters().run(&["scan", "db"]).expect("a\t1\nb\t2\nba\t3\nc\t4\n");
    letters().run(&["scan", "db", "--reverse", "--keys-only"]).expect("c\nba\nb\na\n");
}

#[test]
fn bounds_and_limits_hold_in_both_directions() {
    let scratch = letters();
    scratch.run(&["scan", "db", "--from", "b", "--to", "c"]).expect("b\t2\nba\t3\n");
    scratch.run(&["scan", "db", "--from", "b", "--to", "c", "--reverse"]).expect("ba\t3\nb\t2\n");
    scratch.run(&["scan", "db", "--prefix", "b", "--limit", "1"]).expect("b\t2\n");
    scratch.run(&["scan", "db", "--prefix", "b", "--limit", "1", "--reverse"]).expect("ba\t3\n");
    scratch.run(&["scan", "db", "--limit", "0"]).expect("");
    scratch.run(&["scan", "db", "--from", "c", "--to", "a"]).expect("");
    scratch.run(&["scan", "db", "--prefix", "b", "--from", "a"]).expect_failure(2, "--prefix");
}

#[test]
fn json_is_one_object_a_line() {
    let done = letters().run(&["scan", "db", "--json", "--limit", "2"]);
    done.expect("{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n");
    letters()
        .run(&["scan", "db", "--json", "--keys-only", "--hex", "--limit", "1"])
        .expect("{\"key_hex\":\"61\"}\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_scan_quietly() {
    let scratch = Scratch::new();
    let rows: String = (0..20_000).map(|n| format!("{n}\tsome value to fill the pipe\n")).collect();
    let file = scratch.file("rows.tsv", rows.as_bytes());
    scratch
        .run(&["import", "db", &file, "--no-header", "--key", "1", "--value", "2"])
        .expect_status(0);
    let mut child = scratch
        .command(&["scan", "db"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut few = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut few).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

#[test]
fn keyspaces_are_separate() {
    let scratch = letters();
    scratch.run(&["put", "--create", "db", "x", "y", "-k", "other"]).expect("");
    scratch.run(&["scan", "db", "-k", "other"]).expect("x\ty\n");
    scratch.run(&["scan", "db", "--from", "x"]).expect("");
    scratch.run(&["scan", "db", "-k", "none"]).expect_failure(2, "there is no keyspace \"none\"");
    scratch.run(&["delete", "db", "x", "-k", "none"]).expect_failure(2, "there is no keyspace");
}
