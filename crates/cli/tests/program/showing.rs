//! keyspaces, stats, levels, compact, checkpoint, bench: what there is, and what it costs.

use crate::Scratch;
use esker::{Db, Settings};
use serde_json::{Value, json};

fn flushed() -> Scratch {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2"), ("c", "3")]);
    scratch.run(&["delete", "db", "b"]).expect("");
    scratch.run(&["compact", "db"]).expect_status(0);
    scratch
}

#[track_caller]
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(|key| &key[..]).collect()
}

#[test]
fn keyspaces_are_listed_with_their_settings() {
    let scratch = Scratch::with_pairs(&[]);
    let settings = ["--shape", "tiered:4", "--compression", "zstd", "--filter-bits", "16"];
    scratch
        .run(&[&["put", "--create", "db", "k", "v", "-k", "logs"][..], &settings].concat())
        .expect("");
    let list = scratch.run(&["keyspaces", "db"]).expect_status(0);
    assert!(list.text().contains("default  leveled:10, lz4, 10 filter bits"), "{list:?}");
    assert!(list.text().contains("logs     tiered:4, zstd, 16 filter bits"), "{list:?}");
    let json = scratch.run(&["keyspaces", "db", "--json"]).json();
    let logs =
        json["keyspaces"].as_array().unwrap().iter().find(|one| one["name"] == "logs").unwrap();
    assert_eq!(logs["shape"], "tiered:4");
    assert_eq!(
        fields(logs),
        [
            "compaction_filter",
            "compression",
            "dedup",
            "filter_bits",
            "id",
            "merge",
            "name",
            "separation_threshold",
            "shape",
            "ttl_seconds"
        ]
    );
}

#[test]
fn settings_of_an_existing_keyspace_stand_and_the_user_is_told() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    let done =
        scratch.run(&["put", "--create", "db", "k", "v", "--compression", "zstd"]).expect_status(0);
    assert!(
        done.err.contains("default exists already and stays as it is: leveled:10, lz4"),
        "{done:?}"
    );
    scratch.run(&["put", "--create", "db", "k", "v", "--compression", "lz4"]).expect("");
    scratch.run(&["get", "db", "k"]).expect("v\n");
}

#[test]
fn a_new_database_has_the_default_keyspace_that_was_asked_for() {
    let scratch = Scratch::with_pairs(&[]);
    let settings = ["--shape", "tiered:8", "--dedup", "space-goal:1.2"];
    scratch.run(&[&["put", "--create", "new", "k", "v"][..], &settings].concat()).expect("");
    let list = scratch.run(&["keyspaces", "new"]).expect_status(0);
    assert!(list.text().contains("default  tiered:8, space-goal:1.2"), "{list:?}");
}

#[test]
fn a_goal_s_ceiling_goes_by_the_segments_that_the_database_was_written_with() {
    let scratch = Scratch::with_pairs(&[]);
    let goal = ["--shape", "tiered:8", "--dedup", "space-goal:1.2"];
    let small = ["--segment", "1MiB", "--memory", "16MiB"];
    scratch.run(&[&["put", "--create", "new", "k", "v"][..], &goal, &small].concat()).expect("");
    let json = scratch.run(&["stats", "new", "--json"]).json();
    let ceiling = json["goals"]["default"]["ceiling_bytes"].as_u64().unwrap();
    assert!((4 << 20..5 << 20).contains(&ceiling), "{json}");
}

#[test]
fn what_compression_saves_brings_no_tree_nearer_to_the_limit_line() {
    let scratch = Scratch::with_pairs(&[]);
    for key in ["a", "b", "a", "b", "a", "b"] {
        scratch.run(&["put", "--create", "db", key, &"v".repeat(50_000)]).expect("");
    }
    scratch.run(&["compact", "db"]).expect_status(0);
    let stats = scratch.run(&["stats", "db", "--json"]).json();
    let distance = |stats: &serde_json::Value| stats["cost"]["limit_line_distance"].as_f64();
    assert!(distance(&stats).unwrap() > 0.5, "{stats}");
    for key in ["a", "b"] {
        scratch.run(&["delete", "db", key]).expect("");
    }
    scratch.run(&["compact", "db"]).expect_status(0);
    let stats = scratch.run(&["stats", "db", "--json"]).json();
    assert_eq!(distance(&stats), None, "{stats}");
}

#[test]
fn a_keyspace_can_be_dropped_and_made_again() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    scratch.run(&["put", "--create", "db", "k", "v", "-k", "logs"]).expect("");
    scratch.run(&["drop-keyspace", "db", "logs"]).expect("");
    scratch.run(&["get", "db", "k", "-k", "logs"]).expect_failure(2, "there is no keyspace");
    scratch.run(&["drop-keyspace", "db", "logs"]).expect_failure(2, "there is no keyspace");
    scratch.run(&["drop-keyspace", "db", "default"]).expect_failure(2, "can't be dropped");
    scratch.run(&["put", "--create", "db", "k2", "v", "-k", "logs"]).expect("");
    scratch.run(&["scan", "db", "-k", "logs"]).expect("k2\tv\n");
    scratch.run(&["scan", "db"]).expect("a\t1\n");
}

#[test]
fn a_compaction_says_what_it_left() {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2")]);
    let json = scratch.run(&["compact", "db", "--json"]).expect_status(0).json();
    assert_eq!((&json["tables"], fields(&json).len()), (&json!(1), 3), "{json}");
}

#[test]
fn stats_add_up() {
    let scratch = flushed();
    let json = scratch.run(&["stats", "db", "--json"]).json();
    assert_eq!(json["keyspaces"], 1);
    assert_eq!(json["entries"], 2, "{json}");
    assert_eq!(json["visible_seqno"], 4, "{json}");
    assert!(json["table_bytes"].as_u64().unwrap() > 0);
    assert_eq!(
        fields(&json),
        [
            "background_error",
            "cache_bytes",
            "cache_capacity_bytes",
            "cache_part_bytes",
            "cost",
            "deletes",
            "dram_table",
            "duplicate_rates",
            "entries",
            "flushed_seqno",
            "goals",
            "keyspaces",
            "log_fences",
            "log_flushed_lines",
            "log_segments",
            "lost_files",
            "memory_use",
            "memtable_bytes",
            "memtables",
            "open_tables",
            "pool_domain",
            "range_tombstones",
            "raw_bytes",
            "runs",
            "table_bytes",
            "table_memory_bytes",
            "tables",
            "unreadable_tables",
            "visible_seqno",
        ]
    );
    let text = scratch.run(&["stats", "db"]).expect_status(0);
    assert!(text.text().contains("entries                    2\n"), "{text:?}");
    let used = &scratch.run(&["stats", "db", "--json"]).json()["memory_use"];
    let names = ["cache", "dram_table", "memtables", "read_buffers", "tables", "transient"];
    assert_eq!(fields(used), names);
    assert!(used["tables"].as_u64().unwrap() > 0, "{used}");
    assert!(text.text().contains("memory_use                 "), "{text:?}");
}

#[test]
fn what_stats_tell_of_costs_and_goals_is_there_under_its_names() {
    let scratch = Scratch::with_pairs(&[]);
    let goal = ["--shape", "tiered:8", "--dedup", "space-goal:1.2"];
    scratch.run(&[&["put", "--create", "new", "k", "v"][..], &goal].concat()).expect("");
    let json = scratch.run(&["stats", "new", "--json"]).json();
    assert_eq!(
        fields(&json["cost"]),
        [
            "compaction_bytes",
            "compaction_read_bytes",
            "compactions",
            "flush_bytes",
            "flushes",
            "limit_line_distance",
            "limit_line_write_amp",
            "live_bytes",
            "live_keys",
            "log_bytes",
            "pinned_bytes",
            "predicted_reclaim_bytes",
            "reclaim_errors",
            "reclaimed_bytes",
            "reclaims_within_tenth",
            "space_amp",
            "space_amp_mean",
            "space_amp_peak",
            "stalled_us",
            "table_block_bytes_read",
            "table_blocks_read",
            "table_blocks_read_per_get",
            "table_bytes_read_per_get",
            "table_file_bytes_peak",
            "table_hits",
            "table_misses",
            "table_reads_per_hit",
            "table_reads_per_miss",
            "table_runs_per_get",
            "user_bytes",
            "write_amp",
        ]
    );
    assert_eq!(fields(&json["cost"]["write_amp"]), ["compaction", "flush", "log"]);
    assert_eq!(
        fields(&json["goals"]["default"]),
        ["above_bytes", "amp", "ceiling_bytes", "live_bytes", "pinned_bytes", "table_bytes"]
    );
    assert_eq!(json["goals"]["default"]["amp"], 1.2);
    assert_eq!((&json["cost"]["live_keys"], &json["cost"]["user_bytes"]), (&json!(1), &json!(2)));
}

#[test]
fn what_a_database_has_cost_outlives_the_processes_that_used_it() {
    let scratch = flushed();
    let cost = || scratch.run(&["stats", "db", "--json"]).json()["cost"].clone();
    let before = cost();
    // Keys and values of one byte each, and the key of a delete.
    assert_eq!(before["user_bytes"], 7, "{before}");
    assert!(before["write_amp"]["compaction"].as_f64().unwrap() > 0.0, "{before}");
    assert!(before["live_bytes"].as_u64().unwrap() > 0, "{before}");
    scratch.run(&["put", "--create", "db", "d", "44"]).expect("");
    scratch.run(&["put", "--create", "db", "e", ""]).expect("");
    let after = cost();
    assert_eq!(after["user_bytes"], 11, "{after}");
    let grown = |name: &str| after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
    assert_eq!((grown("flushes"), grown("compactions")), (2, 0), "{after}");
    assert!(grown("flush_bytes") > 0 && grown("log_bytes") > 0, "{after}");
    let mean = after["space_amp_mean"].as_f64().unwrap();
    assert!(mean > 0.5 && mean <= after["space_amp_peak"].as_f64().unwrap(), "{after}");
    let text = scratch.run(&["stats", "db"]).expect_status(0);
    assert!(text.text().contains("user_bytes                 11 B\n"), "{text:?}");
}

#[test]
fn levels_are_drawn_and_listed() {
    let scratch = flushed();
    let drawn = scratch.run(&["levels", "db"]).expect_status(0);
    assert!(drawn.text().starts_with("default (leveled:10, lz4)  1 run  1 table"), "{drawn:?}");
    assert!(drawn.text().contains("└─ L") && drawn.text().contains("a … c"), "{drawn:?}");
    let with_tables = scratch.run(&["levels", "db", "--tables"]).expect_status(0);
    assert!(with_tables.text().contains("2 entries"), "{with_tables:?}");

    let json = scratch.run(&["levels", "db", "--json"]).json();
    let run = &json["keyspaces"][0]["levels"][0]["runs"][0];
    let table = &run["tables"][0];
    assert_eq!((&table["smallest"], &table["largest"]), (&json!("a"), &json!("c")));
    assert_eq!(table["bytes"], run["bytes"]);
    scratch.run(&["levels", "db", "-k", "none"]).expect_failure(2, "there is no keyspace");
}

#[test]
fn a_checkpoint_is_made_by_the_process_that_has_the_database_open() {
    let scratch = flushed();
    let settings = Settings::default().answers_requests(true);
    let db = Db::open(scratch.path("db"), settings).unwrap();
    db.put(&db.default_keyspace(), b"new", b"unflushed").unwrap();
    scratch.run(&["checkpoint", "db", "copy"]).expect("checkpoint copy\n");
    scratch.run(&["get", "copy", "new"]).expect("unflushed\n");
    let refused = scratch.run(&["checkpoint", "db", "copy"]);
    refused.expect_failure(2, "holds a database already: give");
    db.close().unwrap();
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let scratch = flushed();
    scratch.run(&["checkpoint", "db", "copy"]).expect("checkpoint copy\n");
    scratch.run(&["put", "--create", "db", "d", "4"]).expect("");
    scratch.run(&["scan", "copy", "--keys-only"]).expect("a\nc\n");
    scratch.run(&["put", "--create", "copy", "e", "5"]).expect("");
    scratch.run(&["get", "db", "e"]).expect_failure(1, "key e not found");
    let done = scratch.run(&["checkpoint", "db", "copy"]).expect_status(2);
    assert!(done.err.contains("copy"), "{done:?}");
}

#[test]
fn an_import_says_what_a_compaction_would_gain() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", b"k\tv\na\t1\nb\t2\n");
    let import = ["import", "db", &file, "--key", "k", "--value", "v"];
    let first = scratch.run(&import).expect_status(0);
    assert!(!first.text().contains("esker compact"), "{first:?}");
    let second = scratch.run(&import).expect_status(0);
    assert!(
        second.text().contains("`esker compact db` would merge the 2 runs of keyspace default"),
        "{second:?}"
    );
    assert_eq!(scratch.run(&[&import[..], &["--json"]].concat()).json()["runs"], 3);
}

#[test]
fn labels_of_stats_are_names_in_its_json() {
    let scratch = flushed();
    let json = scratch.run(&["stats", "db", "--json"]).json();
    let text = scratch.run(&["stats", "db"]).expect_status(0);
    let labels = text.text().lines().filter(|line| line.starts_with("  "));
    let mut number = 0;
    for line in labels {
        let label = line.trim_start().split(' ').next().unwrap();
        let places = [label.to_owned(), format!("cost.{label}")];
        let found = |place: &String| {
            place.split('.').try_fold(&json, |json, name| json.get(name)).is_some()
        };
        assert!(places.iter().any(found), "{label}");
        number += 1;
    }
    assert!(number > 20, "{text:?}");
    assert!(text.text().contains("limit_line_distance"), "{text:?}");
    let young = Scratch::with_pairs(&[("a", "1")]);
    let text = young.run(&["stats", "db"]).expect_status(0);
    assert!(!text.text().contains("limit_line"), "{text:?}");
    assert_eq!(
        young.run(&["stats", "db", "--json"]).json()["cost"]["limit_line_distance"],
        Value::Null
    );
}

#[test]
fn a_checkpoint_that_fails_leaves_no_directory() {
    let scratch = flushed();
    scratch.run(&["checkpoint", "db", "db"]).expect_failure(2, "db");
    scratch.run(&["checkpoint", "db", "copy"]).expect_status(0);
    let refused = scratch.run(&["checkpoint", "db", "copy"]);
    refused.expect_failure(2, "copy holds a database already: give an empty or a new directory");
    scratch
        .run(&["checkpoint", "none", "other"])
        .expect_failure(2, "none is not an Esker database");
    assert!(!scratch.path("other").exists());
}
