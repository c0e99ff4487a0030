//! repair: what it refuses, and what it does to files whose content is unknown.

use crate::damage::{file, flip, open_still, sample};
use crate::{Scratch, names};
use esker::{Log, Settings, SyncPolicy};
use esker_base::checksum::crc32c;
use std::path::{Path, PathBuf};

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in names(from) {
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

fn logging_to(dir: PathBuf) -> Settings {
    Settings::default().log(Log::File { dir: Some(dir), sync: SyncPolicy::Os })
}

/// Tables with `a` in `db`; then, only in the logs in `logs`, `b`.
fn with_log_directory() -> Scratch {
    let scratch = Scratch::new();
    scratch.run(&["put", "--create", "live", "a", "1", "--log-dir", "live-logs"]).expect("");
    // A writer that ends without closing leaves its log behind.
    let db = open_still(scratch.path("live"), Some(scratch.path("live-logs")));
    db.put(&db.default_keyspace(), b"b", b"2").unwrap();
    copy_all(&scratch.path("live"), &scratch.path("db"));
    copy_all(&scratch.path("live-logs"), &scratch.path("logs"));
    db.close().unwrap();
    scratch
}

#[test]
fn a_repair_that_is_not_told_where_the_logs_are_changes_nothing() {
    let scratch = with_log_directory();
    let before = names(&scratch.path("db"));
    scratch
        .run(&["repair", "db"])
        .expect_failure(2, "that the manifest lists is not there; is it in a pool? give --pool");
    assert_eq!(names(&scratch.path("db")), before);
    scratch.run(&["repair", "db", "--log-dir", "logs"]).expect_status(0);
    scratch.run(&["scan", "db", "--log-dir", "logs"]).expect("a\t1\nb\t2\n");
}

#[test]
fn a_log_directory_of_another_database_is_refused() {
    let scratch = with_log_directory();
    scratch.run(&["put", "--create", "other", "x", "1", "--log-dir", "theirs"]).expect("");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    for command in ["repair", "check"] {
        scratch
            .run(&[command, "db", "--log-dir", "theirs"])
            .expect_failure(2, "it belongs to another database");
        scratch
            .run(&[command, "db", "--log-dir", "empty"])
            .expect_failure(2, "it belongs to no database");
    }
    assert!(names(&scratch.path("empty")).is_empty());
    scratch.run(&["scan", "db", "--log-dir", "logs"]).expect("a\t1\nb\t2\n");
}

#[test]
fn a_repair_takes_the_lock_of_the_log_directory_too() {
    let scratch = with_log_directory();
    // A copy of the database has the log directory in use.
    copy_all(&scratch.path("db"), &scratch.path("twin"));
    let twin = esker::Db::open(scratch.path("twin"), logging_to(scratch.path("logs"))).unwrap();
    for command in ["repair", "check"] {
        scratch
            .run(&[command, "db", "--log-dir", "logs"])
            .expect_failure(2, "logs is in use by process");
    }
    twin.close().unwrap();
}

#[test]
fn the_database_directory_may_be_named_as_the_log_directory() {
    let scratch = sample();
    let done = scratch.run(&["repair", "copy", "--log-dir", "./copy"]).expect_status(0);
    assert!(done.text().contains("nothing had to be dropped"), "{done:?}");
}

#[test]
fn check_and_repair_work_where_nothing_can_be_written() {
    let scratch = sample();
    for command in ["check", "repair"] {
        let mut shell = std::process::Command::new("sh");
        // No file may grow, as on a full disk: the holder's number cannot be written into LOCK.
        let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
        shell.args(["-c", script, env!("CARGO_BIN_EXE_esker"), command, "copy"]);
        let output = shell.current_dir(scratch.path("")).output().unwrap();
        crate::Done::of(output).expect_status(0);
    }
}

#[test]
fn what_cannot_be_read_for_another_reason_is_no_damage() {
    let scratch = sample();
    // One table damaged, and another one unreadable: neither may be renamed.
    scratch.run(&["put", "--create", "copy", "e", "5"]).expect("");
    let tables: Vec<_> =
        names(&scratch.path("copy")).into_iter().filter(|name| name.ends_with(".tables")).collect();
    let last = tables.last().unwrap();
    assert_ne!(last, &tables[0]);
    flip(&scratch.path("copy").join(&tables[0]), 3);
    let unreadable = scratch.path("copy").join(last);
    std::fs::rename(&unreadable, scratch.path("safe")).unwrap();
    std::fs::create_dir(&unreadable).unwrap();
    let before = names(&scratch.path("copy"));
    scratch.run(&["repair", "copy"]).expect_failure(2, "could not read");
    assert_eq!(names(&scratch.path("copy")), before);

    std::fs::remove_dir(&unreadable).unwrap();
    std::fs::rename(scratch.path("safe"), &unreadable).unwrap();
    let done = scratch.run(&["repair", "copy"]).expect_status(0);
    assert!(done.text().contains(&format!("renamed {0} to {0}.damaged", tables[0])), "{done:?}");
    scratch.run(&["get", "copy", "e"]).expect("5\n");
}

#[test]
fn a_manifest_of_a_newer_format_is_not_passed_over() {
    let scratch = sample();
    let manifest = file(&scratch, ".manifest");
    let mut bytes = std::fs::read(&manifest).unwrap();
    std::fs::write(scratch.path("copy/00000001.manifest"), &bytes).unwrap();
    bytes[8] = 99;
    let crc = crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&manifest, bytes).unwrap();
    let before = names(&scratch.path("copy"));
    scratch.run(&["repair", "copy"]).expect_failure(2, "has format version 99");
    assert_eq!(names(&scratch.path("copy")), before);
}

/// `sample`, with an older manifest left next to the current one, which is damaged.
fn with_damaged_manifest() -> (Scratch, String) {
    let scratch = sample();
    let manifest = file(&scratch, ".manifest");
    let older = scratch.path("copy/00000001.manifest");
    std::fs::copy(&manifest, older).unwrap();
    flip(&manifest, 40);
    (scratch, manifest.file_name().unwrap().to_str().unwrap().to_owned())
}

#[test]
fn a_manifest_that_is_given_up_is_named_and_kept() {
    let (scratch, manifest) = with_damaged_manifest();
    scratch.file("copy/00000077.tables", b"who knows");
    scratch.file("copy/00000078.log", b"who knows");
    let json = scratch.run(&["repair", "copy", "--json"]).expect_status(0).json();
    assert_eq!(json["manifest"], "00000001.manifest", "{json}");
    let given_up = json["given_up_manifests"].as_array().unwrap();
    assert!(given_up[0].as_str().unwrap().contains(&manifest), "{json}");
    let left = names(&scratch.path("copy"));
    for name in [&manifest[..], "00000077.tables", "00000078.log"] {
        assert!(left.contains(&format!("{name}.damaged")), "{name}: {left:?}");
        assert!(json["set_aside"].as_array().unwrap().contains(&name.into()), "{name}: {json}");
    }
    scratch.run(&["scan", "copy"]).expect("a\t1\nc\t3\nd\t4\n");
    scratch.run(&["put", "--create", "copy", "e", "5"]).expect("");
    scratch.run(&["check", "copy"]).expect_status(0);
}

#[test]
fn a_current_file_that_names_a_missing_manifest_says_which() {
    let scratch = sample();
    let manifest = file(&scratch, ".manifest");
    std::fs::remove_file(&manifest).unwrap();
    let name = manifest.file_name().unwrap().to_str().unwrap();
    let what = format!("CURRENT is damaged at offset 0: it names {name}, which is missing");
    scratch.run(&["put", "--create", "copy", "k", "v"]).expect_failure(2, &what);
    scratch.run(&["stats", "copy"]).expect_failure(2, &what);
}

#[test]
fn a_fallback_says_so() {
    let (scratch, manifest) = with_damaged_manifest();
    let done = scratch.run(&["repair", "copy"]).expect_status(0);
    assert!(done.text().contains(&format!("dropped a manifest: copy/{manifest}")), "{done:?}");
    assert!(done.text().contains("went by an older one: 00000001.manifest"), "{done:?}");
    assert!(!done.text().contains("nothing had to be dropped"), "{done:?}");
}

#[test]
fn an_older_manifest_without_its_tables_is_not_gone_by() {
    let (scratch, manifest) = with_damaged_manifest();
    std::fs::remove_file(file(&scratch, ".tables")).unwrap();
    let done = scratch.run(&["repair", "copy"]).expect_status(0);
    let missing = "the manifest lists the file and it is missing";
    for what in
        [&manifest[..], missing, "writes 1 to 3 are in no sound file", "rebuilt the manifest"]
    {
        assert!(done.text().contains(what), "{what}: {done:?}");
    }
    // What the log has, without what the table had.
    scratch.run(&["scan", "copy"]).expect("d\t4\n");
    scratch.run(&["check", "copy"]).expect_status(0);
}
