//! import.

use crate::Scratch;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

const ROWS: &[u8] = b"id\tname\n1\tone\n2\ttwo\n3\tthree\n";

#[test]
fn the_format_follows_from_the_name_or_is_said() {
    let scratch = Scratch::new();
    for (name, text) in [
        ("a.tsv", &b"id\tname\n1\tone\n"[..]),
        ("a.csv", b"id,name\r\n1,one\r\n"),
        ("a.jsonl", b"{\"id\":1,\"name\":\"one\"}\n"),
        ("a.ndjson", b"{\"id\":1,\"name\":\"one\"}"),
    ] {
        let file = scratch.file(name, text);
        let arguments = ["import", "db", &file, "--key", "id", "--value", "name", "-k", name];
        let done = scratch.run(&arguments).expect_status(0);
        assert!(done.text().starts_with(&format!("imported 1 record into {name} (")), "{done:?}");
        scratch.run(&["scan", "db", "-k", name]).expect("1\tone\n");
    }
    let file = scratch.file("a.txt", ROWS);
    scratch.run(&["import", "db", &file, "--key", "id"]).expect_failure(2, "add --format tsv");
    scratch.run(&["import", "db", "-", "--key", "id"]).expect_failure(2, "add --format");
    scratch.run(&["import", "db", &file, "--key", "id", "--format", "tsv"]).expect_status(0);
}

#[test]
fn the_whole_record_is_the_value_by_default() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", ROWS);
    scratch.run(&["import", "db", &file, "--key", "1", "--key-prefix", "row/"]).expect_status(0);
    scratch.run(&["get", "db", "row/2"]).expect("{\"id\":\"2\",\"name\":\"two\"}\n");
}

#[test]
fn a_bad_line_stops_the_import_after_what_came_before() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", b"id\tname\n1\tone\n2\ttwo\nbroken\n4\tfour\n");
    let import = ["import", "db", &file, "--key", "id", "--value", "name"];
    scratch.run(&import).expect_failure(
        2,
        "rows.tsv:4: 1 fields where the first line has 2 (--on-error skip goes on); 2 records before it were imported",
    );
    scratch.run(&["scan", "db", "--keys-only"]).expect("1\n2\n");

    let done = scratch.run(&[&import[..], &["--on-error", "skip"]].concat()).expect_status(0);
    assert!(
        done.err.contains("rows.tsv:4: 1 fields") && done.err.contains("; skipped"),
        "{done:?}"
    );
    assert!(
        done.text().contains("imported 3 records") && done.text().contains("1 bad line skipped")
    );
    scratch.run(&["scan", "db", "--keys-only"]).expect("1\n2\n4\n");
}

#[test]
fn many_bad_lines_are_counted_rather_than_listed() {
    let scratch = Scratch::new();
    let done = scratch
        .run_with(
            &[
                "import",
                "db",
                "-",
                "--format",
                "jsonl",
                "--key",
                "id",
                "--on-error",
                "skip",
                "--json",
            ],
            "not json\n".repeat(100).as_bytes(),
        )
        .expect_status(0);
    assert_eq!(done.err.lines().count(), 21, "{done:?}");
    assert!(done.err.contains("80 more bad lines skipped"), "{done:?}");
    let json = done.json();
    assert_eq!(
        (&json["records"], &json["skipped"], &json["complete"]),
        (&0.into(), &100.into(), &true.into())
    );
}

#[test]
fn keys_that_cannot_be_are_bad_lines() {
    let scratch = Scratch::new();
    let rows = format!("k\tv\n\t1\n{}\t2\nok\t3\n", "x".repeat(65_537));
    let file = scratch.file("rows.tsv", rows.as_bytes());
    let arguments = ["import", "db", &file, "--key", "k", "--value", "v", "--on-error", "skip"];
    let done = scratch.run(&arguments).expect_status(0);
    assert!(done.err.contains("rows.tsv:3: the key is 65537 bytes long"), "{done:?}");
    scratch.run(&["scan", "db"]).expect("\t1\nok\t3\n");
}

#[test]
fn a_value_too_large_for_the_log_is_imported() {
    let scratch = Scratch::new();
    let long = "x".repeat(100_000);
    let rows = format!("k\tv\n1\t{long}\n2\t{}\n", "y".repeat(10_000));
    let file = scratch.file("rows.tsv", rows.as_bytes());
    let small = ["--segment", "256K", "--memory", "16M"];
    let import = ["import", "db", &file, "--key", "k", "--value", "v"];
    scratch.run(&[&import[..], &small].concat()).expect_status(0);
    scratch.run(&["scan", "db", "--keys-only"]).expect("1\n2\n");
    scratch.run(&["get", "db", "1", "--raw"]).expect(&long);
}

#[test]
fn a_value_too_large_for_the_log_is_a_bad_line_of_a_bulk_load() {
    let scratch = Scratch::new();
    let rows = format!("k\tv\n1\t{}\n2\t{}\n", "x".repeat(100_000), "y".repeat(10_000));
    let file = scratch.file("rows.tsv", rows.as_bytes());
    let small = ["--segment", "256K", "--memory", "16M", "--on-error", "skip"];
    let import = ["import", "db", &file, "--key", "k", "--value", "v", "--bulk"];
    let done = scratch.run(&[&import[..], &small].concat()).expect_status(0);
    assert!(done.err.contains("rows.tsv:2: ") && done.err.contains("a quarter of a log segment"));
    scratch.run(&["scan", "db", "--keys-only"]).expect("2\n");
}

#[test]
fn a_wrong_column_is_named_with_those_there_are() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", ROWS);
    scratch
        .run(&["import", "db", &file, "--key", "nme"])
        .expect_failure(2, "there is no column nme; the columns are id, name");
    scratch.run(&["import", "db", &file]).expect_failure(2, "--key COLUMN, one of id, name");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let scratch = Scratch::new();
    scratch
        .run(&["import", "db", "missing.tsv", "--key", "1"])
        .expect_failure(2, "could not open missing.tsv");
    std::fs::create_dir(scratch.path("dir.tsv")).unwrap();
    scratch.run(&["import", "db", "dir.tsv", "--key", "1"]).expect_failure(2, "dir.tsv");
    assert!(!scratch.path("db").exists(), "a database was made for nothing");
}

#[test]
fn more_records_than_a_batch_or_a_segment_holds_go_in() {
    let scratch = Scratch::new();
    let rows: String = (0..30_000).map(|n| format!("{n:06}\t{}\n", "v".repeat(n % 50))).collect();
    let arguments = ["import", "db", "-", "--format", "tsv", "--no-header", "--key", "1"];
    let small = ["--value", "2", "--segment", "256K", "--memory", "16M"];
    let done = scratch.run_with(&[&arguments[..], &small].concat(), rows.as_bytes());
    assert!(done.expect_status(0).text().contains("imported 30,000 records"));
    let scan = scratch.run(&["scan", "db"]).expect_status(0);
    assert_eq!(scan.text(), rows);
}

#[test]
fn a_bad_first_record_is_skipped_like_any_other() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.csv", b"\"a\"b,1\n\"c\"d,2\ne,3\n");
    let import = ["import", "db", &file, "--no-header", "--key", "1", "--value", "2"];
    let done = scratch.run(&[&import[..], &["--on-error", "skip"]].concat()).expect_status(0);
    assert!(done.err.contains("rows.csv:1: text follows a closing quote"), "{done:?}");
    assert!(done.err.contains("rows.csv:2: ") && done.err.contains("; skipped"), "{done:?}");
    scratch.run(&["scan", "db"]).expect("e\t3\n");
    scratch
        .run(&[&["import", "db2"][..], &import[2..]].concat())
        .expect_failure(2, "rows.csv:1: text follows a closing quote");
}

#[test]
fn an_interrupt_commits_what_was_read_so_far_and_says_so() {
    let scratch = Scratch::new();
    let mut child = scratch
        .command(&[
            "import",
            "db",
            "-",
            "--format",
            "tsv",
            "--no-header",
            "--key",
            "1",
            "--value",
            "2",
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // More than the program's first read, so that it has certainly begun when the pipe takes it all.
    let mut stdin = child.stdin.take().unwrap();
    for n in 0..100_000 {
        writeln!(stdin, "{n:06}\tvalue").unwrap();
    }
    stdin.flush().unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    drop(stdin);

    let number = said.strip_prefix("esker: interrupted; ").and_then(|rest| rest.split(' ').next());
    let committed: usize = number.unwrap().replace(',', "").parse().unwrap();
    assert!(committed <= 100_000 && said.contains("committed"), "{said}");
    let keys = scratch.run(&["scan", "db", "--keys-only"]).expect_status(0);
    let expected: String = (0..committed).map(|n| format!("{n:06}\n")).collect();
    assert_eq!(keys.text(), expected);
}

#[test]
fn an_interrupt_is_heard_while_the_input_is_silent() {
    let scratch = Scratch::new();
    let mut child = scratch
        .command(&["import", "db", "-", "--format", "jsonl", "--key", "id"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"id\":1}\n").unwrap();
    // The database appears after the program has begun to listen for signals.
    while !scratch.path("db").exists() {
        std::thread::yield_now();
    }
    let kill = || Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill().success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.starts_with("esker: interrupted; "), "{said}");
    drop(stdin);
}

#[test]
fn a_message_that_nobody_hears_costs_no_record() {
    let scratch = Scratch::new();
    let rows = format!("id\tname\nbroken\n{}", "1\tone\n2\ttwo\n".repeat(20_000));
    let file = scratch.file("rows.tsv", rows.as_bytes());
    let import = ["import", "db", &file, "--key", "id", "--value", "name", "--on-error", "skip"];
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let done = scratch.command(&import).stderr(full).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    scratch.run(&["scan", "db"]).expect("1\tone\n2\ttwo\n");

    // The same of a pipe whose reader has gone, and of the message that says why the program failed.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = scratch.command(&import[..7]).stderr(writer).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{done:?}");
}

#[test]
fn two_columns_of_a_name_are_told_apart_by_their_numbers() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", b"id\tid\n1\t2\n");
    let import = ["import", "db", &file, "--key"];
    scratch
        .run(&[&import[..], &["id"]].concat())
        .expect_failure(2, "two columns are called id; give the number of one");
    scratch
        .run(&[&import[..], &["1"]].concat())
        .expect_failure(2, "which a JSON object can't hold; give a column as --value");
    assert!(!scratch.path("db").exists());
    scratch.run(&[&import[..], &["2", "--value", "1"]].concat()).expect_status(0);
    scratch.run(&["scan", "db"]).expect("2\t1\n");
}

#[test]
fn flags_of_other_formats_are_refused_for_json_lines() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.jsonl", b"{\"id\":1}\n");
    for flag in ["--no-header", "--escaped"] {
        scratch
            .run(&["import", "db", &file, "--key", "id", flag])
            .expect_failure(2, "are for TSV and CSV");
    }
}

#[test]
fn a_quote_that_swallows_records_stops_the_import_and_says_how_many_lines() {
    let scratch = Scratch::new();
    let rest: String = (3..=1000).map(|n| format!("{n},x\n")).collect();
    let file = scratch.file("rows.csv", format!("k,v\n1,a\n2,\"open\n{rest}").as_bytes());
    let import = ["import", "db", &file, "--key", "k", "--value", "v", "--on-error"];
    for on_error in ["fail", "skip"] {
        scratch.run(&[&import[..], &[on_error]].concat()).expect_failure(
            2,
            "rows.csv:3: a quote is never closed; the record takes 999 lines, up to line 1,001, and records \
             may be among them: close or double its first quote; 1 record before it was imported",
        );
        scratch.run(&["scan", "db"]).expect("1\ta\n");
    }
}

#[test]
fn every_line_of_a_bad_record_is_counted() {
    let scratch = Scratch::new();
    let rows = b"k,v\n1,\"one\"oops\n2,b\n3,\"open\n4\"\n5,\"last";
    let file = scratch.file("rows.csv", rows);
    let import = ["import", "db", &file, "--key", "k", "--value", "v", "--on-error", "skip"];
    let done = scratch.run(&[&import[..], &["--json"]].concat()).expect_status(0);
    assert_eq!(done.json()["skipped"], 2, "{done:?}");
    let what =
        "rows.csv:2: text follows a closing quote; double a quote that is meant; skipped\"}\n";
    assert!(done.err.contains(what), "{done:?}");
    assert!(done.err.contains("rows.csv:6: a quote is never closed; skipped\"}\n"), "{done:?}");
    scratch.run(&["scan", "db"]).expect("2\tb\n3\topen\\n4\n");
}

#[test]
fn a_bad_record_of_several_lines_may_hold_sound_ones_and_stops_an_import_that_skips() {
    let scratch = Scratch::new();
    let sound: String = (2..50).map(|number| format!("{number},x\n")).collect();
    let rows = format!("k,v\n0,a\n1,\"abc\n{sound}50,\"y\"\n51,z\n");
    let file = scratch.file("rows.csv", rows.as_bytes());
    let import = ["import", "db", &file, "--key", "k", "--value", "v", "--on-error", "skip"];
    scratch.run(&import).expect_failure(2, "the record takes 50 lines, up to line 52");
    scratch.run(&["scan", "db"]).expect("0\ta\n");
}

#[test]
fn no_control_character_reaches_the_terminal() {
    let scratch = Scratch::new();
    let file = scratch.file("old\r\x1b[2J.tsv", b"id\rname\x1b[31m\r1\rone\r");
    let done = scratch.run(&["import", "db", &file, "--key", "nme"]).expect_status(2);
    assert!(done.err.contains("the columns are id\\rname\\x1b[31m"), "{done:?}");
    scratch.run(&["put", "--create", "db", "k\r", "v\x7f\u{85}"]).expect("");
    let mut all = vec![done];
    for arguments in [
        &["scan", "db"][..],
        &["scan", "db", "--json"],
        &["get", "db", "k\r"],
        &["get", "db", "k\r", "--json"],
        &["get", "db", "none\r"],
        &["get", "d\rb", "k"],
        &["get", "db", "k", "--no\rflag"],
        &["get", "db", "k", "-k", "no\rkeyspace"],
        &["export", "db", "-", "--format", "jsonl"],
        &["export", "db", "no\r/file.tsv"],
        &["dump-frames", "db"],
        &["dump-frames", "db", "--json"],
        &["levels", "db"],
        &["stats", "db"],
        &["check", "d\rb"],
        &["checkpoint", "db", "co\rpy"],
    ] {
        all.push(scratch.run(arguments));
    }
    for done in all {
        let text = format!("{}{}", done.text(), done.err);
        let is_bad = |character: char| character.is_control() && !"\n\t".contains(character);
        assert!(!text.contains(is_bad), "{done:?}");
    }
    assert_eq!(scratch.run(&["get", "db", "k\r", "--json"]).json()["value"], "v\x7f\u{85}");
}

#[test]
fn sorted_records_become_tables_and_others_are_named() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", ROWS);
    let import = ["import", "db", &file, "--key", "id", "--value", "name", "--sorted"];
    let done = scratch.run(&import).expect_status(0);
    assert!(done.text().starts_with("imported 3 records into default ("), "{done:?}");
    scratch.run(&["scan", "db"]).expect("1\tone\n2\ttwo\n3\tthree\n");

    let file = scratch.file("mixed.tsv", b"id\tname\n5\tfive\n4\tfour\n6\tsix\n");
    let import = ["import", "db", &file, "--key", "id", "--value", "name", "--sorted"];
    let told = "mixed.tsv:3: entry 2 to ingest is out of order: its key 4 is not above";
    scratch.run(&import).expect_failure(2, told);
    scratch.run(&["scan", "db", "--keys-only"]).expect("1\n2\n3\n");
    scratch.run(&["check", "db"]).expect_status(0);
}

#[test]
fn a_bulk_import_sorts_records_and_keeps_the_last_of_each_key() {
    let scratch = Scratch::new();
    let file = scratch.file("rows.tsv", b"id\tname\n3\tc\n1\told\n2\tb\n1\ta\n");
    let import = ["import", "db", &file, "--key", "id", "--value", "name", "--bulk", "--json"];
    let done = scratch.run(&import).expect_status(0);
    assert!(done.text().contains("\"records\":3"), "{done:?}");
    scratch.run(&["scan", "db"]).expect("1\ta\n2\tb\n3\tc\n");

    let file = scratch.file("bad.tsv", b"id\tname\n9\tnine\nbroken\n");
    let import = ["import", "db", &file, "--key", "id", "--value", "name", "--bulk"];
    scratch.run(&import).expect_failure(2, "0 records before it were imported");
    scratch.run(&["scan", "db", "--keys-only"]).expect("1\n2\n3\n");
    scratch.run(&[&import[..], &["--sorted"]].concat()).expect_status(2);
}
