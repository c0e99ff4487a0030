//! set: of a database that is closed, of one that this test has open, and in the shell.

use crate::Scratch;
use esker::{Db, Settings};
use serde_json::json;

/// The settings of a database with one keyspace.
fn listed(compression: &str, filter_bits: u8) -> String {
    format!(
        "default.compression={compression}\ndefault.dedup=none\ndefault.filter_bits={filter_bits}\n\
         default.separation_threshold=none\n"
    )
}

#[test]
fn a_setting_of_a_keyspace_is_stored_and_listed() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    scratch.run(&["set", "db"]).expect(&listed("lz4", 10));
    scratch.run(&["set", "db", "default.compression=zstd", "default.filter_bits=12"]).expect("");
    scratch.run(&["set", "db"]).expect(&listed("zstd", 12));
    let json = scratch.run(&["set", "db", "--json"]).json();
    let first = json!({ "name": "default.compression", "value": "zstd", "is_persisted": true });
    assert_eq!(json["settings"][0], first);
    let keyspaces = scratch.run(&["keyspaces", "db"]).expect_status(0);
    assert!(keyspaces.text().contains("zstd, 12 filter bits"), "{keyspaces:?}");
    scratch.run(&["scan", "db"]).expect("a\t1\n");
}

#[test]
fn what_cannot_be_set_is_named() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    for (change, reason) in [
        ("default.compresion=zstd", "did you mean \"compression\"?"),
        ("memory=1G", "did you mean"),
        ("compression=zstd", "KEYSPACE.compression=zstd"),
        ("default.compression", "NAME=VALUE"),
        ("default.dedup=space-goal", "tiered keyspaces"),
        ("default.filter_bits=33", "between 0 and 32"),
        ("none.compression=zstd", "no keyspace"),
        ("background_threads=3", "no process has it open"),
    ] {
        scratch.run(&["set", "db", change]).expect_failure(2, reason);
    }
    scratch.run(&["set", "none", "default.compression=zstd"]).expect_failure(2, "no database");
}

#[test]
fn the_process_that_has_the_database_open_makes_the_change() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    let settings = Settings::default().answers_requests(true);
    let db = Db::open(scratch.path("db"), settings).unwrap();
    scratch.run(&["set", "db", "background_write_rate=5MiB..50MiB"]).expect("");
    assert_eq!(db.stats().background_write_rate, Some(5 << 20));
    let done = scratch.run(&["set", "db", "default.compression=none", "sync=always"]);
    done.expect_failure(2, "given when the database is opened");
    assert_eq!(db.default_keyspace().settings().unwrap().compression.to_string(), "none");
    db.close().unwrap();
    scratch.run(&["set", "db"]).expect_status(0).text().lines().next().map_or_else(
        || panic!("nothing is listed"),
        |first| assert_eq!(first, "default.compression=none"),
    );
}

#[test]
fn a_shell_sets_and_lists_what_lasts_until_it_ends() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    let lines = "set background_write_rate=20MiB default.filter_bits=8\nset\n";
    let done = scratch.run_with(&["shell", "db"], lines.as_bytes()).expect_status(0);
    let text = done.text();
    assert!(text.contains("background_write_rate=20MiB  (until the database closes)\n"), "{text}");
    assert!(text.contains("default.filter_bits=8\n"), "{text}");
    let listed = scratch.run(&["set", "db"]).expect_status(0);
    assert!(listed.text().contains("default.filter_bits=8\n"), "{listed:?}");
    assert!(!listed.text().contains("rate"), "{listed:?}");
}
