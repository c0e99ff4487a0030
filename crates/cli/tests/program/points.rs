//! get, put, delete.

use crate::{Done, Scratch};

#[test]
fn what_was_put_is_got_until_it_is_deleted() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "ada", "1815"]).expect("");
    scratch.run(&["get", "db", "ada"]).expect("1815\n");
    scratch.run(&["put", "--create", "db", "ada", "1816"]).expect("");
    scratch.run(&["get", "db", "ada"]).expect("1816\n");
    scratch.run(&["delete", "db", "ada", "never there"]).expect("");
    scratch.run(&["get", "db", "ada"]).expect_failure(1, "key ada not found");
}

#[test]
fn bytes_go_in_and_out_as_hex_raw_and_escaped() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "00ff", "fe0a41", "--hex"]).expect("");
    scratch.run(&["get", "db", "00FF", "--hex"]).expect("fe0a41\n");
    let raw = scratch.run(&["get", "db", "00ff", "--hex", "--raw"]).expect_status(0);
    assert_eq!(raw.out, b"\xfe\x0aA");
    scratch.run(&["scan", "db"]).expect("\\x00\\xff\t\\xfe\\nA\n");
    scratch.run(&["scan", "db", "--hex"]).expect("00ff\tfe0a41\n");
    scratch.run(&["get", "db", "0", "--hex"]).expect_failure(2, "not whole bytes");
    scratch.run(&["get", "db", "xy", "--hex"]).expect_failure(2, "not hexadecimal");
}

#[test]
fn a_value_that_a_terminal_can_show_is_shown_as_it_is() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "text", "two\nlines \\ \"naïve\""]).expect("");
    scratch.run(&["get", "db", "text"]).expect("two\nlines \\ \"naïve\"\n");
    scratch.run(&["put", "--create", "db", "code", "\x1b[31m"]).expect("");
    scratch.run(&["get", "db", "code"]).expect("\\x1b[31m\n");
}

#[test]
fn a_value_comes_from_standard_input() {
    let scratch = Scratch::new();
    let value: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    scratch.run_with(&["put", "--create", "db", "big", "-"], &value).expect("");
    let read = scratch.run(&["get", "db", "big", "--raw"]).expect_status(0);
    assert_eq!(read.out, value);
}

#[test]
fn json_says_key_and_value_as_text_or_hex() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "k", "é"]).expect("");
    assert_eq!(
        scratch.run(&["get", "db", "k", "--json"]).json(),
        serde_json::json!({ "key": "k", "value": "é" })
    );
    scratch.run(&["put", "--create", "db", "6b", "ff", "--hex"]).expect("");
    assert_eq!(
        scratch.run(&["get", "db", "k", "--json"]).json(),
        serde_json::json!({ "key": "k", "value_hex": "ff" })
    );
}

#[test]
fn keys_beyond_the_limits_are_refused_and_nothing_is_written() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    let longest = "k".repeat(65_536);
    scratch.run(&["put", "--create", "db", &longest, "v"]).expect("");
    scratch.run(&["get", "db", &longest]).expect("v\n");
    let too_long = "k".repeat(65_537);
    scratch.run(&["put", "--create", "db", &too_long, "v"]).expect_failure(2, "65537 bytes long");
    scratch.run(&["scan", "db", "--keys-only", "--limit", "1"]).expect("a\n");
}

#[test]
fn a_value_beyond_a_quarter_of_a_segment_that_expires_is_refused() {
    let scratch = Scratch::new();
    let value = vec![b'v'; 100_000];
    let small = ["--segment", "256K", "--memory", "16M", "--ttl", "1h"];
    let arguments = [&["put", "--create", "db", "k", "-"][..], &small].concat();
    scratch.run_with(&arguments, &value).expect_failure(2, "a quarter of a log segment");
    scratch.run_with(&arguments, &value[..50_000]).expect("");
}

#[test]
fn a_value_of_any_size_is_put_from_standard_input_and_printed() {
    let scratch = Scratch::new();
    let value = "value ".repeat(200_000);
    let small = ["--segment", "256K", "--memory", "16M"];
    let put = [&["put", "--create", "db", "k", "-"][..], &small].concat();
    scratch.run_with(&put, value.as_bytes()).expect("");
    scratch.run(&["get", "db", "k", "--raw"]).expect(&value);
    scratch.run(&["get", "db", "k"]).expect(&(value + "\n"));
    scratch.run(&["check", "db"]).expect_status(0);
}

#[test]
fn a_range_or_a_prefix_is_deleted_as_one() {
    let pairs = [("a", "1"), ("b1", "2"), ("b2", "3"), ("c", "4"), ("d", "5")];
    let scratch = Scratch::with_pairs(&pairs);
    scratch.run(&["delete", "db", "--prefix", "b"]).expect("");
    scratch.run(&["scan", "db", "--keys-only"]).expect("a\nc\nd\n");
    scratch.run(&["delete", "db", "--from", "a", "--to", "d"]).expect("");
    scratch.run(&["scan", "db", "--keys-only"]).expect("d\n");
}

#[test]
fn an_open_range_is_deleted_to_its_end() {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    scratch.run(&["delete", "db", "--from", "d"]).expect("");
    scratch.run(&["scan", "db", "--keys-only"]).expect("a\nb\nc\n");
    scratch.run(&["delete", "db", "--to", "b"]).expect("");
    scratch.run(&["scan", "db", "--keys-only"]).expect("b\nc\n");
    scratch.run(&["delete", "db", "--all", "--to", "c"]).expect_failure(2, "cannot be used with");
    scratch.run(&["delete", "db", "--all"]).expect("");
    scratch.run(&["scan", "db", "--keys-only"]).expect("");
}

#[test]
fn the_empty_key_is_a_key() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    scratch.run(&["put", "--create", "db", "", "nothing"]).expect("");
    scratch.run(&["get", "db", ""]).expect("nothing\n");
    scratch.run(&["scan", "db"]).expect("\tnothing\na\t1\n");
    scratch.run(&["delete", "db", ""]).expect("");
    scratch.run(&["scan", "db", "--keys-only"]).expect("a\n");
}

#[test]
fn an_empty_bound_deletes_nothing() {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2")]);
    scratch.run(&["delete", "db", "--prefix", ""]).expect_failure(2, "use --all for that");
    scratch.run(&["delete", "db", "--from", ""]).expect_failure(2, "use --all for that");
    // A bound that was left out is not the next flag.
    scratch.run(&["delete", "db", "--from", "--to", "b"]).expect_failure(2, "--from");
    scratch.run(&["delete", "db", "--prefix", "--", "a"]).expect_failure(2, "--prefix");
    scratch.run(&["scan", "db"]).expect("a\t1\nb\t2\n");
    scratch.run(&["delete", "db", "--from", "", "--to", "b"]).expect("");
    scratch.run(&["scan", "db"]).expect("b\t2\n");
}

#[test]
fn an_empty_range_is_not_deleted() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    scratch.run(&["delete", "db"]).expect_failure(2, "say what to delete");
    scratch.run(&["delete", "db", "--from", "b", "--to", "a"]).expect_failure(2, "range is empty");
    scratch.run(&["get", "db", "a"]).expect("1\n");
}

#[test]
fn a_value_without_end_that_expires_is_refused_before_there_is_a_database() {
    let scratch = Scratch::new();
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let small = ["--segment", "256K", "--memory", "16M", "--ttl", "1h"];
    let put = [&["put", "--create", "db", "k", "-"][..], &small].concat();
    let output = scratch.command(&put).stdin(zero).output().unwrap();
    Done::of(output).expect_failure(2, "standard input holds more than 65,");
    assert!(!scratch.path("db").exists());
}

#[test]
fn keys_and_values_are_hexadecimal_each_for_itself() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "00ff", "text", "--key-hex"]).expect("");
    scratch.run(&["put", "--create", "db", "text", "ff00", "--value-hex"]).expect("");
    scratch.run(&["get", "db", "00ff", "--key-hex"]).expect("text\n");
    scratch.run(&["get", "db", "text", "--value-hex"]).expect("ff00\n");
    scratch.run(&["scan", "db", "--key-hex"]).expect("00ff\ttext\n74657874\t\\xff\\x00\n");
    scratch.run(&["scan", "db", "--value-hex", "--prefix", "t"]).expect("text\tff00\n");
    let json = scratch.run(&["get", "db", "text", "--value-hex", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "key": "text", "value_hex": "ff00" }));
    scratch.run(&["delete", "db", "00ff", "--key-hex"]).expect("");
    scratch.run(&["delete", "db", "74657874", "--hex"]).expect("");
    scratch.run(&["scan", "db"]).expect("");
    scratch.run(&["get", "db", "k", "--hex", "--escaped"]).expect_failure(2, "cannot be used with");
}

#[test]
fn what_scan_prints_can_be_pasted_back() {
    let scratch = Scratch::new();
    let db = scratch.open();
    for key in [&b"\x00\xff"[..], b"a\tb\nc\r", b"C:\\new", b"\\x00", "é\u{85}".as_bytes()] {
        db.put(&db.default_keyspace(), key, [key, b"\\"].concat()).unwrap();
    }
    for like_a_flag in [&b"-"[..], b"-x"] {
        db.put(&db.default_keyspace(), like_a_flag, like_a_flag).unwrap();
    }
    db.close().unwrap();
    let pairs = scratch.run(&["scan", "db"]).expect_status(0);
    let lines: Vec<_> = pairs.text().lines().map(|line| line.split_once('\t').unwrap()).collect();
    for (key, value) in &lines {
        scratch.run(&["get", "db", "--escaped", "--", key]).expect(&format!("{value}\n"));
        scratch.run(&["put", "--create", "copy", "--escaped", "--", key, value]).expect("");
        let prefix = format!("--prefix={key}");
        let found = scratch.run(&["scan", "db", "--escaped", &prefix, "--keys-only"]);
        assert_eq!(found.text().lines().next(), Some(*key), "{found:?}");
    }
    scratch.run(&["scan", "copy"]).expect(pairs.text());
    for (key, _) in &lines {
        scratch.run(&["delete", "copy", "--escaped", "--", key]).expect("");
    }
    scratch.run(&["scan", "copy"]).expect("");
    // Without the flag a backslash is a backslash, and a key that was pasted is told.
    scratch
        .run(&["get", "db", "\\xc3\\xa9"])
        .expect_failure(1, "use --escaped if the key is as `esker scan` prints it");
    scratch.run(&["get", "db", "\\q", "--escaped"]).expect_failure(2, "\\q is no escape");
}

#[test]
fn a_key_that_is_not_there_and_a_failure_have_a_status_each() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    scratch.run(&["get", "db", "b"]).expect_failure(1, "key b not found");
    scratch.run(&["get", "db", "b", "-k", "none"]).expect_failure(2, "there is no keyspace");
    scratch.run(&["get", "none", "a"]).expect_failure(2, "is not an Esker database");
    scratch.run(&["get", "db"]).expect_failure(2, "required");
    scratch.run(&["delete", "db", "b"]).expect("");
}
