//! Databases on flash devices. `tests/interop/zoned` has those on zoned disks.

use crate::Scratch;
use std::path::PathBuf;

#[test]
fn a_database_lies_on_the_chunks_of_a_directory() {
    let scratch = Scratch::new();
    scratch
        .run(&["flash", "create", "device", "--bytes", "256MiB", "--chunk", "1MiB"])
        .expect_status(0);
    scratch.run(&["put", "--create", "device", "key", "value"]).expect_status(0);
    let found = scratch.run(&["get", "device", "key"]);
    assert_eq!(found.out, b"value\n");
    let info = String::from_utf8(scratch.run(&["flash", "info", "device"]).out).unwrap();
    assert!(info.contains("16 units of 16 chunks each, of 1.00 MiB"), "{info}");
}

#[test]
fn reads_leave_every_byte_of_a_device_as_it_is() {
    let scratch = Scratch::new();
    scratch.run(&["flash", "create", "d", "--bytes", "256MiB", "--chunk", "1MiB"]).expect_status(0);
    scratch.run(&["put", "--create", "d", "key", "value"]).expect_status(0);
    let before = chunks(&scratch);
    for command in [&["get", "d", "key"][..], &["scan", "d"], &["stats", "d"], &["levels", "d"]] {
        scratch.run(command).expect_status(0);
        scratch.run(&["flash", "info", "d"]).expect_status(0);
        assert!(chunks(&scratch) == before, "{command:?}");
    }
}

#[test]
fn what_can_be_no_device_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    scratch.file("letter", b"dear");
    scratch.run(&["flash", "create", "letter", "--bytes", "64MiB"]).expect_status(2);
    scratch.run(&["flash", "info", "letter"]).expect_status(2);
    assert_eq!(std::fs::read(scratch.path("letter")).unwrap(), b"dear");
    for wrong in [&["device"][..], &["device", "--bytes", "64MiB", "--overwrite"]] {
        let refused = scratch.run(&[&["flash", "create"], wrong].concat());
        refused.expect_status(2);
    }
    assert!(!scratch.path("device").exists());
}

#[test]
fn a_device_that_is_too_small_is_told_and_one_of_no_chunks_is_refused() {
    let scratch = Scratch::new();
    let create = |name: &str, bytes: &str| {
        scratch.run(&["flash", "create", name, "--bytes", bytes, "--chunk", "4MiB"])
    };
    create("none", "32MiB").expect_failure(2, "choose a larger --bytes");
    assert!(!scratch.path("none").exists());
    // Six segments of 64 MiB and a chunk, beside the journal's four.
    for (name, bytes, is_told) in
        [("tiny", "64MiB", true), ("small", "400MiB", true), ("enough", "404MiB", false)]
    {
        let created = scratch.run(&["flash", "create", name, "--bytes", bytes, "--units", "1"]);
        let created = created.expect_status(0);
        let told = created.err.contains("is too small for a database with default settings");
        assert_eq!(told, is_told, "{created:?}");
    }
    let refused = scratch.run(&["put", "--create", "tiny", "key", "value"]);
    refused.expect_failure(2, "find space for a log");
    scratch.run(&["put", "--create", "enough", "key", "value"]).expect_status(0);
}

#[test]
fn a_database_on_a_device_is_written_to_by_every_command_that_may() {
    let scratch = Scratch::new();
    scratch.run(&["flash", "create", "d", "--bytes", "512MiB", "--chunk", "1MiB"]).expect_status(0);
    scratch.run(&["put", "--create", "d", "k", "v"]).expect_status(0);
    scratch.run(&["put", "--create", "d", "l", "v"]).expect_status(0);
    scratch.run(&["delete", "d", "k"]).expect_status(0);
    scratch.run(&["compact", "d"]).expect_status(0);
    scratch.run(&["scan", "d"]).expect("l\tv\n");
    let done = scratch.run(&["repair", "d"]).expect_status(0);
    assert!(done.text().contains("nothing had to be dropped"), "{done:?}");
    scratch.run(&["dump-manifest", "d"]).expect_failure(2, "flash device");
}

/// What is in the chunks of the device `d`.
fn chunks(scratch: &Scratch) -> Vec<(PathBuf, Vec<u8>)> {
    let names = crate::names(&scratch.path("d")).into_iter();
    let names = names.filter(|name| name.starts_with("zone-"));
    let paths = names.map(|name| scratch.path("d").join(name));
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn a_database_on_a_device_is_checked_and_every_byte_left_as_it_is() {
    let scratch = Scratch::new();
    scratch.run(&["flash", "create", "d", "--bytes", "512MiB", "--chunk", "1MiB"]).expect_status(0);
    scratch.run(&["check", "d"]).expect_failure(2, "no database");
    scratch.run(&["put", "--create", "d", "key", "in a table"]).expect_status(0);
    scratch.run(&["compact", "d"]).expect_status(0);
    scratch.run(&["put", "--create", "d", "key", "newer"]).expect_status(0);
    let before = chunks(&scratch);
    let checked = scratch.run(&["check", "d", "--json"]).expect_status(0).json();
    assert!(checked["table_entries"].as_u64() >= Some(1), "{checked}");
    assert_eq!(checked["problems"].as_array().map(Vec::len), Some(0), "{checked}");
    assert!(chunks(&scratch) == before);
    scratch.run(&["check", "d", "--log-dir", "logs"]).expect_failure(2, "flash device");
}

#[test]
fn a_check_of_a_device_names_the_file_in_which_something_does_not_hold() {
    let scratch = Scratch::new();
    scratch.run(&["flash", "create", "d", "--bytes", "512MiB", "--chunk", "1MiB"]).expect_status(0);
    scratch.run(&["put", "--create", "d", "key", "kept in a table"]).expect_status(0);
    scratch.run(&["compact", "d"]).expect_status(0);
    let value = b"kept in a table";
    let mut damaged = 0;
    for (path, mut bytes) in chunks(&scratch) {
        let found = bytes.windows(value.len()).position(|window| window == value);
        let Some(at) = found else { continue };
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
        damaged += 1;
    }
    assert!(damaged > 0, "the value lies somewhere");
    let done = scratch.run(&["check", "d"]).expect_status(1);
    assert!(done.text().contains(".tables"), "{done:?}");
    assert!(done.err.contains("see `esker repair --help`"), "{done:?}");
}

#[test]
fn a_read_leaves_a_device_alone_that_nobody_laid_out() {
    let scratch = Scratch::new();
    let create = ["flash", "create", "d", "--bytes", "64MiB", "--chunk", "1MiB"];
    scratch.run(&create).expect_status(0);
    let chunks = || {
        let names = crate::names(&scratch.path("d")).into_iter();
        names.filter(|name| name.starts_with("zone-")).collect::<Vec<_>>()
    };
    chunks().iter().for_each(|name| std::fs::remove_file(scratch.path("d").join(name)).unwrap());
    scratch.run(&["get", "d", "k"]).expect_failure(2, "no database");
    assert!(chunks().is_empty());
}
