//! put --ttl, and what other commands say of entries that expire.

use crate::Scratch;

#[test]
fn an_entry_is_there_until_it_expires() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "stays", "1"]).expect("");
    scratch.run(&["put", "db", "k", "v", "--ttl", "12h"]).expect("");
    scratch.run(&["get", "db", "k"]).expect("v\n");
    scratch.run(&["put", "db", "gone", "v", "--ttl", "0s"]).expect("");
    scratch.run(&["get", "db", "gone"]).expect_status(1);
    scratch.run(&["export", "db"]).expect("esker:key\tesker:value\nk\tv\nstays\t1\n");
    let manifest = scratch.run(&["dump-manifest", "db"]).expect_status(0);
    assert!(String::from_utf8_lossy(&manifest.out).contains("time is at least"));
    scratch.run(&["compact", "db"]).expect_status(0);
    let levels = scratch.run(&["levels", "db", "--json"]).json();
    let levels = levels["keyspaces"][0]["levels"].as_array().unwrap();
    let runs = levels.iter().flat_map(|level| level["runs"].as_array().unwrap());
    let table = &runs.map(|run| &run["tables"][0]).next().unwrap();
    let name = format!("{}+{}", table["file"], table["offset"]);
    let dump = scratch.run(&["dump-table", "db", &name]).expect_status(0);
    assert!(dump.text().contains(" expiring-put k until "), "{dump:?}");
    assert!(dump.text().contains(" ms v\n") && !dump.text().contains("gone"), "{dump:?}");
    scratch.run(&["check", "db"]).expect_status(0);
    scratch.run(&["export", "db"]).expect("esker:key\tesker:value\nk\tv\nstays\t1\n");
}

#[test]
fn a_time_to_live_has_a_unit() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "k", "v", "--ttl", "10"]).expect_failure(2, "10m");
}
