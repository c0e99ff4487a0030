//! export, and import of what it wrote.

use crate::{Done, Scratch, names};
use esker_base::Rng;
use std::io::Read;
use std::process::{Command, Stdio};

/// Entries of bytes that every format finds hard.
fn hard_pairs() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rng = Rng::new(3);
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = [
        "\t",
        "\n",
        "\r\n",
        ",",
        "\"",
        "\"\"",
        "\\",
        "\\x41",
        "\\n",
        " padded ",
        "{\"a\":1}",
        "\u{feff}",
        "é",
        "\u{85}",
        "\0",
        "#",
        "'",
        ";",
        "key",
        "esker:key",
    ]
    .iter()
    .flat_map(|text| [((*text).into(), Vec::new()), (format!("v{text}").into(), (*text).into())])
    .collect();
    for _ in 0..300 {
        let mut bytes = vec![0; 1 + rng.below(20) as usize];
        rng.fill(&mut bytes);
        pairs.push((bytes.clone(), bytes));
    }
    pairs.sort();
    pairs.dedup_by(|a, b| a.0 == b.0);
    pairs
}

fn contents(scratch: &Scratch, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = esker::Db::open_read_only(scratch.path(name), Default::default()).unwrap();
    let keyspace = db.default_keyspace();
    let pairs = db.range(&keyspace, ..).map(|pair| pair.unwrap());
    pairs.map(|(key, value)| (key.into_vec(), value.into_vec())).collect()
}

#[test]
fn any_bytes_survive_export_and_import_in_every_format() {
    let scratch = Scratch::new();
    let db = scratch.open();
    for (key, value) in hard_pairs() {
        db.put(&db.default_keyspace(), &key, &value).unwrap();
    }
    db.close().unwrap();
    assert_eq!(contents(&scratch, "db"), hard_pairs());

    for format in ["tsv", "csv", "jsonl"] {
        let file = format!("all.{format}");
        let done = scratch.run(&["export", "db", &file]).expect_status(0);
        assert!(done.err.starts_with("esker: exported ") && done.out.is_empty(), "{done:?}");
        let copy = format!("copy-{format}");
        scratch.run(&["import", &copy, &file]).expect_status(0);
        assert_eq!(contents(&scratch, &copy), hard_pairs(), "{format}");
    }
    let left: Vec<_> =
        names(&scratch.path(".")).into_iter().filter(|n| n.ends_with(".partial")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_export_goes_through_a_pipe() {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2")]);
    let exported = scratch.run(&["export", "db"]).expect_status(0);
    assert_eq!(exported.text(), "esker:key\tesker:value\na\t1\nb\t2\n");
    scratch.run_with(&["import", "copy", "-", "--format", "tsv"], &exported.out).expect_status(0);
    assert_eq!(contents(&scratch, "copy"), contents(&scratch, "db"));
}

#[test]
fn a_range_can_be_exported() {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2"), ("c", "3")]);
    scratch
        .run(&["export", "db", "-", "--format", "jsonl", "--from", "b", "--to", "c"])
        .expect("{\"key\":\"b\",\"value\":\"2\"}\n");
    scratch
        .run(&["export", "db", "-", "--format", "csv", "--prefix", "c"])
        .expect("esker:key,esker:value\nc,3\n");
}

#[test]
fn an_export_leaves_other_files_alone_and_follows_a_link() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    scratch.file("x.tsv.partial", b"mine");
    scratch.file("real.tsv", b"old");
    std::os::unix::fs::symlink("real.tsv", scratch.path("x.tsv")).unwrap();
    std::os::unix::fs::symlink("new.tsv", scratch.path("dangling.tsv")).unwrap();
    let exported = b"esker:key\tesker:value\na\t1\n";
    for (link, real) in [("x.tsv", "real.tsv"), ("dangling.tsv", "new.tsv")] {
        scratch.run(&["export", "db", link]).expect_status(0);
        assert!(scratch.path(link).is_symlink(), "{link}");
        assert_eq!(std::fs::read(scratch.path(real)).unwrap(), exported);
    }
    assert_eq!(std::fs::read(scratch.path("x.tsv.partial")).unwrap(), b"mine");
    let partial: Vec<_> =
        names(&scratch.path(".")).into_iter().filter(|name| name.ends_with(".partial")).collect();
    assert_eq!(partial, ["x.tsv.partial"]);
}

#[test]
fn an_export_that_cannot_be_written_leaves_nothing_behind() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    let done = scratch.run(&["export", "db", "no/where.tsv"]).expect_status(2);
    let why = "No such file or directory (os error 2)";
    assert_eq!(done.err, format!("esker: could not create no/where.tsv: {why}\n"));
    scratch.run(&["export", "db", "file.xml"]).expect_failure(2, "add --format");
    let old = scratch.file("old.tsv", b"old");
    scratch.run(&["export", "db", &old, "-k", "none"]).expect_failure(2, "there is no keyspace");
    assert_eq!(std::fs::read(scratch.path("old.tsv")).unwrap(), b"old");
}

#[test]
fn a_long_value_of_zeros_survives_every_format() {
    let scratch = Scratch::new();
    scratch.run_with(&["put", "--create", "db", "k", "-"], &vec![0; 12 << 20]).expect_status(0);
    for format in ["tsv", "csv", "jsonl"] {
        let (file, copy) = (format!("all.{format}"), format!("copy-{format}"));
        scratch.run(&["export", "db", &file]).expect_status(0);
        scratch.run(&["import", &copy, &file]).expect_status(0);
        assert!(contents(&scratch, &copy) == contents(&scratch, "db"), "{format}");
    }
}

#[test]
fn hexadecimal_digits_are_what_json_lines_hold_and_are_read_back() {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2")]);
    let export = ["export", "db", "-", "--format", "jsonl", "--hex", "--from", "62"];
    scratch.run(&export).expect("{\"key_hex\":\"62\",\"value_hex\":\"32\"}\n");
    scratch.run(&["export", "db", "all.jsonl", "--hex"]).expect_status(0);
    scratch.run(&["import", "copy", "all.jsonl"]).expect_status(0);
    assert_eq!(contents(&scratch, "copy"), contents(&scratch, "db"));
    // TSV has no column for digits: its fields are escaped, whatever the bounds are given as.
    scratch
        .run(&["export", "db", "--hex", "--from", "62"])
        .expect("esker:key\tesker:value\nb\t2\n");
}

#[test]
fn an_interrupt_ends_an_export_which_says_that_it_is_not_whole() {
    let scratch = Scratch::new();
    let rows: String = (0..100_000).map(|n| format!("{n:06}\t{}\n", "v".repeat(80))).collect();
    let import = ["import", "db", "-", "--format", "tsv", "--no-header", "--key", "1"];
    let import = [&import[..], &["--value", "2"]].concat();
    scratch.run_with(&import, rows.as_bytes()).expect_status(0);

    // A pipe, so that the program waits in the middle of its work until it was interrupted.
    assert!(Command::new("mkfifo").arg(scratch.path("pipe")).status().unwrap().success());
    let mut command = scratch.command(&["export", "db", "pipe", "--format", "tsv"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = std::fs::File::open(scratch.path("pipe")).unwrap();
    pipe.read_exact(&mut [0; 1000]).unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).unwrap();
    let done = Done::of(child.wait_with_output().unwrap());
    assert!(rest.len() < rows.len() / 2, "{} bytes were written all the same", rest.len());
    done.expect_failure(130, "the export is not whole");
}

#[test]
fn values_in_hexadecimal_are_for_json_lines() {
    let scratch = Scratch::with_pairs(&[("a", "1")]);
    scratch.run(&["export", "db", "--value-hex"]).expect_failure(2, "use --format jsonl");
    scratch
        .run(&["export", "db", "--value-hex", "--format", "jsonl"])
        .expect("{\"key\":\"a\",\"value_hex\":\"31\"}\n");
    scratch
        .run(&["export", "db", "--key-hex", "--from", "61"])
        .expect("esker:key\tesker:value\na\t1\n");
}
