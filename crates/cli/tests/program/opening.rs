//! Which directories are opened, how, and while which others have them open.

use crate::{Scratch, names};

#[test]
fn commands_that_read_make_nothing() {
    let scratch = Scratch::new();
    for arguments in [
        &["get", "db", "k"][..],
        &["scan", "db"],
        &["export", "db"],
        &["stats", "db"],
        &["levels", "db"],
        &["keyspaces", "db"],
        &["delete", "db", "k"],
        &["compact", "db"],
        &["checkpoint", "db", "copy"],
    ] {
        scratch.run(arguments).expect_failure(2, "db is not an Esker database");
    }
    assert!(names(&scratch.path(".")).is_empty());
}

#[test]
fn commands_that_only_read_do_not_make_a_log_directory() {
    let scratch = Scratch::with_pairs(&[("k", "v")]);
    let before = names(&scratch.path("."));
    for command in [
        &["get", "db", "k"][..],
        &["scan", "db"],
        &["export", "db"],
        &["stats", "db"],
        &["levels", "db"],
        &["keyspaces", "db"],
        &["dump-frames", "db"],
        &["dump-manifest", "db"],
        &["check", "db"],
        &["repair", "db"],
    ] {
        let done = scratch.run(&[command, &["--log-dir", "lgos"]].concat()).expect_status(2);
        assert!(done.err.contains("lgos"), "{done:?}");
        assert_eq!(names(&scratch.path(".")), before, "{command:?}");
    }
}

#[test]
fn input_that_is_refused_leaves_no_database_behind() {
    let scratch = Scratch::new();
    scratch.file("rows.csv", b"id,name\n1,one\n");
    scratch.file("bad.csv", b"\"open\n");
    let longer = "k".repeat(65_537);
    let before = names(&scratch.path("."));
    for (arguments, part) in [
        (&["put", "--create", "db", &longer, "v"][..], "the key is 65537 bytes long"),
        (&["put", "--create", "db", "k", "v", "-k", "a\nb"], "can't name a keyspace"),
        (&["put", "--create", "db", "k", "v", "--memory", "1M"], "--memory is 1048576"),
        (&["import", "db", "rows.csv", "--key", "nope"], "rows.csv: there is no column nope"),
        (&["import", "db", "rows.csv", "--key", "id", "-k", ""], "can't name a keyspace"),
        (&["import", "db", "bad.csv", "--key", "1", "--no-header"], "bad.csv:1: a quote"),
        (&["import", "db", "bad.csv", "--key", "1"], "bad.csv: line 1, the header: a quote"),
        (&["import", "db", "none.csv", "--key", "1"], "none.csv"),
        (&["bench", "--dir", ".", "--value-size", "20000000"], "a quarter of a log"),
    ] {
        scratch.run(arguments).expect_failure(2, part);
        assert_eq!(names(&scratch.path(".")), before, "{arguments:?}");
    }
    let long = "v".repeat(100_000);
    let small = ["--segment", "256K", "--memory", "16M"];
    let put = [&["put", "--create", "db", "k", "-", "--ttl", "1h"][..], &small].concat();
    scratch.run_with(&put, long.as_bytes()).expect_failure(2, "a quarter of a log segment");
    assert_eq!(names(&scratch.path(".")), before);
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("db")).unwrap();
    scratch.file("db/letter.txt", b"dear");
    for arguments in
        [&["put", "--create", "db", "k", "v"][..], &["get", "db", "k"], &["stats", "db"]]
    {
        scratch.run(arguments).expect_failure(2, "db is not an Esker database");
    }
    assert_eq!(names(&scratch.path("db")), ["letter.txt"]);
}

#[test]
fn a_file_is_no_database() {
    let scratch = Scratch::new();
    let file = scratch.file("file", b"text");
    for arguments in [["put", "--create", &file, "k", "v"].as_slice(), &["scan", &file]] {
        let done = scratch.run(arguments).expect_status(2);
        assert!(done.err.starts_with("esker: ") && done.err.contains("file"), "{done:?}");
    }
    assert_eq!(std::fs::read(scratch.path("file")).unwrap(), b"text");
}

#[test]
fn a_second_writer_is_refused_with_the_first_ones_pid() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let pid = format!("process {}", std::process::id());
    for arguments in
        [&["put", "--create", "db", "k", "v"][..], &["delete", "db", "k"], &["compact", "db"]]
    {
        scratch.run(arguments).expect_failure(2, &pid);
    }
    db.close().unwrap();
    scratch.run(&["put", "--create", "db", "k", "v"]).expect("");
}

#[test]
fn reading_works_beside_a_live_writer() {
    let scratch = Scratch::new();
    let db = scratch.open();
    db.put(&db.default_keyspace(), b"flushed", b"1").unwrap();
    db.flush().unwrap();
    db.put(&db.default_keyspace(), b"in the log", b"2").unwrap();
    scratch.run(&["scan", "db"]).expect("flushed\t1\nin the log\t2\n");
    scratch.run(&["get", "db", "in the log"]).expect("2\n");
    for command in ["stats", "levels", "keyspaces"] {
        scratch.run(&[command, "db"]).expect_status(0);
    }
    db.put(&db.default_keyspace(), b"later", b"3").unwrap();
    scratch.run(&["get", "db", "later"]).expect("3\n");
    db.close().unwrap();
}

#[test]
fn nonsense_settings_are_wrong_usage() {
    let scratch = Scratch::new();
    for (flag, value, part) in [
        ("--segment", "lots", "is not a size"),
        ("--segment", "1K", "--segment is 1024"),
        ("--memory", "1M", "--memory is 1048576"),
        ("--background-threads", "0", "--background-threads is 0"),
        ("--shape", "round", "is not a shape"),
        ("--shape", "tiered:1", "--shape tiered is 1"),
        ("--compression", "rar", "neither none, nor lz4, nor zstd"),
        ("--dedup", "twice", "is not none"),
        ("--dedup", "per-level:1.6", "--dedup is per-level:1.6: it is for tiered keyspaces"),
        ("--filter-bits", "33", "--filter-bits is 33"),
        ("--filter-bits", "-1", "unexpected argument '-1'"),
        ("--keyspace", "", "can't name a keyspace"),
    ] {
        let done = scratch.run(&["put", "--create", "db", "k", "v", flag, value]);
        done.expect_failure(2, part);
    }
    for (value, part) in [("often", "neither always, nor os"), ("0", "--sync is 0ns")] {
        let done = scratch.run(&["shell", "--create", "db", "--sync", value]);
        done.expect_failure(2, part);
    }
    // Each of these syncs its write, or writes nothing to the log.
    for arguments in [
        &["put", "--create", "db", "k", "v"][..],
        &["merge", "db", "k", "v"],
        &["delete", "db", "k"],
        &["compact", "db"],
    ] {
        let done = scratch.run(&[arguments, &["--sync", "os"]].concat());
        done.expect_failure(2, "unexpected argument '--sync'");
    }
    assert!(names(&scratch.path(".")).is_empty());
}

#[test]
fn wrong_usage_says_so_with_status_2() {
    let scratch = Scratch::new();
    for arguments in
        [&["frobnicate"][..], &["get", "db"], &["get", "db", "k", "--hex", "--escaped"]]
    {
        let done = scratch.run(arguments).expect_status(2);
        assert!(done.out.is_empty() && done.err.starts_with("esker: "), "{done:?}");
    }
    for arguments in [&[][..], &["hash"]] {
        let bare = scratch.run(arguments).expect_status(2);
        assert!(bare.out.is_empty() && bare.err.contains("Usage:"), "{bare:?}");
        assert!(!bare.err.contains("esker: "), "{bare:?}");
    }
    let help = scratch.run(&["--help"]).expect_status(0);
    assert!(help.text().contains("Commands:") && help.err.is_empty());
    assert!(!help.text().contains("demo-writer"));
    let version = scratch.run(&["--version"]).expect_status(0);
    assert_eq!(version.text(), format!("esker {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_pool_that_is_no_file_is_refused_and_leaves_no_directory() {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "db", "k", "v", "--pool", "nope"]).expect_failure(2, "nope");
    let made = std::process::Command::new("mkfifo").arg(scratch.path("fifo")).status().unwrap();
    assert!(made.success());
    let put = ["put", "--create", "db", "k", "v", "--pool", "fifo", "--emulated"];
    scratch.run(&put).expect_failure(2, "it is no regular file");
    scratch.run(&["pmem", "info", "fifo"]).expect_failure(2, "it is no regular file");
    assert_eq!(names(&scratch.path(".")), ["fifo"]);
}

#[test]
fn a_mistyped_path_makes_no_database() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("empty")).unwrap();
    let before = names(&scratch.path("."));
    for path in ["dbb", "empty"] {
        scratch.run(&["put", path, "k", "v"]).expect_failure(
            2,
            "there is no database in it: check the path, or create one with --create",
        );
        scratch.run(&["serve", path]).expect_failure(2, "there is no database in it");
    }
    assert_eq!(names(&scratch.path(".")), before);
    assert!(names(&scratch.path("empty")).is_empty());
    scratch.run(&["put", "db", "k", "v", "--create"]).expect("");
    scratch.run(&["put", "db", "k", "w"]).expect("");
    scratch.run(&["get", "db", "k"]).expect("w\n");
}
