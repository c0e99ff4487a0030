//! check, repair, dump-frames, dump-table, dump-manifest.

use crate::{Done, Scratch, names};
use esker::Settings;
use esker::env::Env;
use esker_base::background::Stepped;
use esker_storage::{PosixStorage, Storage};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

/// A database without threads: no file is made, changed or removed while its directory is copied.
pub fn open_still(dir: PathBuf, logs: Option<PathBuf>) -> esker::Db {
    let storage = |dir| -> Arc<dyn Storage> { Arc::new(PosixStorage::open(dir).unwrap()) };
    let mut env = Env::over(storage(dir)).background(Arc::new(Stepped));
    env.log_storage = logs.map(storage);
    let settings = Settings::default().segment_bytes(1 << 20);
    esker::Db::open_with(env, settings).unwrap()
}

/// Tables with `a`, `b`, `c`; then, only in the log, `d` and no `b`.
pub fn sample() -> Scratch {
    let scratch = Scratch::with_pairs(&[("a", "1"), ("b", "2"), ("c", "3")]);
    scratch.run(&["compact", "db"]).expect_status(0);
    // A writer that ends without closing leaves its log behind.
    let db = open_still(scratch.path("db"), None);
    db.put(&db.default_keyspace(), b"d", b"4").unwrap();
    db.delete(&db.default_keyspace(), b"b").unwrap();
    std::fs::create_dir(scratch.path("copy")).unwrap();
    for name in names(&scratch.path("db")) {
        std::fs::copy(scratch.path("db").join(&name), scratch.path("copy").join(&name)).unwrap();
    }
    db.close().unwrap();
    scratch
}

pub fn file(scratch: &Scratch, ending: &str) -> PathBuf {
    let dir = scratch.path("copy");
    let names: Vec<_> = names(&dir).into_iter().filter(|name| name.ends_with(ending)).collect();
    dir.join(names.last().unwrap_or_else(|| panic!("no file ends in {ending}")))
}

pub fn flip(path: &PathBuf, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

/// The JSON objects that were printed, one a line.
fn objects(done: &Done) -> Vec<serde_json::Value> {
    done.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_sound_database_passes_and_is_not_changed_by_repair() {
    let scratch = sample();
    let done = scratch.run(&["check", "copy"]).expect_status(0);
    assert!(done.text().ends_with("no problems found\n"), "{done:?}");
    let json = scratch.run(&["check", "copy", "--json"]).json();
    assert_eq!((&json["tables"], &json["table_entries"]), (&1.into(), &3.into()), "{json}");
    assert_eq!(
        (&json["log_entries"], &json["problems"].as_array().unwrap().len()),
        (&2.into(), &0)
    );
    let before = names(&scratch.path("copy"));
    let done = scratch.run(&["repair", "copy"]).expect_status(0);
    assert!(done.text().contains("nothing had to be dropped"), "{done:?}");
    assert_eq!(names(&scratch.path("copy")), before);
    scratch.run(&["scan", "copy"]).expect("a\t1\nc\t3\nd\t4\n");
}

#[test]
fn a_damaged_table_is_found_and_can_be_given_up() {
    let scratch = sample();
    let table = file(&scratch, ".tables");
    flip(&table, 3);
    let done = scratch.run(&["check", "copy"]).expect_status(1);
    let name = table.file_name().unwrap().to_str().unwrap();
    let place = format!("copy/{name} is damaged at offset 0");
    assert!(done.text().contains(&place), "{done:?}");
    assert!(done.err.contains("has 1 problem"), "{done:?}");
    let read = scratch.run(&["get", "copy", "a"]).expect_status(2);
    assert!(read.err.contains("is damaged at offset"), "{read:?}");

    let json = scratch.run(&["repair", "copy", "--json"]).expect_status(0).json();
    assert_eq!((&json["lost_tables"][0]["smallest"], &json["tables"]), (&"a".into(), &0.into()));
    scratch.run(&["scan", "copy"]).expect("d\t4\n");
    scratch.run(&["check", "copy"]).expect_status(0);
    assert!(names(&scratch.path("copy")).contains(&format!("{name}.damaged")));
    scratch.run(&["put", "--create", "copy", "e", "5"]).expect("");
    scratch.run(&["scan", "copy"]).expect("d\t4\ne\t5\n");
}

#[test]
fn a_check_whose_reader_has_gone_still_has_its_exit_status() {
    let scratch = sample();
    flip(&file(&scratch, ".tables"), 3);
    let mut check = scratch.command(&["check", "copy"]);
    let mut child = check.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_log_that_is_missing_is_found_and_given_up_only_when_asked_for() {
    let scratch = sample();
    for name in names(&scratch.path("copy")) {
        if name.ends_with(".log") {
            std::fs::remove_file(scratch.path("copy").join(name)).unwrap();
        }
    }
    let done = scratch.run(&["check", "copy"]).expect_status(1);
    assert!(done.text().contains("missing"), "{done:?}");
    scratch.run(&["put", "--create", "copy", "k", "v"]).expect_failure(2, "missing");
    let before = names(&scratch.path("copy"));
    scratch
        .run(&["repair", "copy"])
        .expect_failure(2, "give --log-dir; if lost, `--give-up-logs` drops");
    assert_eq!(names(&scratch.path("copy")), before);
    let done = scratch.run(&["repair", "copy", "--give-up-logs"]).expect_status(0);
    assert!(done.text().contains("cut the log"), "{done:?}");
    scratch.run(&["scan", "copy"]).expect("a\t1\nb\t2\nc\t3\n");
    scratch.run(&["check", "copy"]).expect_status(0);
}

#[test]
fn a_lost_current_file_is_found_again() {
    let scratch = sample();
    flip(&scratch.path("copy/CURRENT"), 2);
    let done = scratch.run(&["check", "copy"]).expect_status(1);
    assert!(done.text().contains("CURRENT is damaged"), "{done:?}");
    scratch.run(&["repair", "copy"]).expect_status(0);
    scratch.run(&["scan", "copy"]).expect("a\t1\nc\t3\nd\t4\n");
    scratch.run(&["check", "copy"]).expect_status(0);
}

#[test]
fn a_log_whose_entry_in_the_manifest_is_damaged_is_found_again() {
    let scratch = sample();
    let manifest = file(&scratch, ".manifest");
    let len = std::fs::read(&manifest).unwrap().len();
    flip(&manifest, len - 1);
    let done = scratch.run(&["check", "copy"]).expect_status(1);
    assert!(done.text().contains("holds writes that nothing else has"), "{done:?}");
    let done = scratch.run(&["repair", "copy"]).expect_status(0);
    assert!(done.text().contains("found a log again"), "{done:?}");
    scratch.run(&["scan", "copy"]).expect("a\t1\nc\t3\nd\t4\n");
    scratch.run(&["check", "copy"]).expect_status(0);
}

#[test]
fn no_flipped_byte_goes_unnoticed_or_crashes_the_check() {
    let scratch = sample();
    for ending in [".tables", ".manifest"] {
        let path = file(&scratch, ending);
        let len = std::fs::read(&path).unwrap().len();
        for at in (0..len).step_by(len.div_ceil(12)) {
            flip(&path, at);
            let done = scratch.run(&["check", "copy"]);
            assert!(done.status == 1 && !done.err.contains("panicked"), "{ending} {at}: {done:?}");
            flip(&path, at);
        }
    }
    scratch.run(&["check", "copy"]).expect_status(0);
}

#[test]
fn a_repair_needs_the_database_for_itself_and_a_check_does_not() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let beside = scratch.run(&["check", "db"]).expect_status(0);
    let said = String::from_utf8_lossy(&beside.out);
    assert!(said.contains("another process has the database open"), "{said}");
    scratch.run(&["repair", "db"]).expect_failure(2, "is in use by process");
    db.close().unwrap();
    scratch.run(&["check", "none"]).expect_failure(2, "none is not an Esker database");
    scratch.run(&["repair", "none"]).expect_failure(2, "none is not an Esker database");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    scratch.run(&["check", "empty"]).expect_failure(2, "is not an Esker database");
    scratch.run(&["repair", "empty"]).expect_failure(2, "is not an Esker database");
    assert!(names(&scratch.path("empty")).is_empty());
}

#[test]
fn dumps_show_every_write() {
    let scratch = sample();
    let frames = scratch.run(&["dump-frames", "copy"]).expect_status(0);
    assert!(frames.text().contains(" keyspace 0 put d 4\n"), "{frames:?}");
    assert!(frames.text().contains(" keyspace 0 delete b \n"), "{frames:?}");
    let json = scratch.run(&["dump-frames", "copy", "--json"]).expect_status(0);
    let lines = objects(&json);
    assert_eq!(lines[0]["object"], "segment");
    assert_eq!(lines[0]["alignment"], 8);
    let of =
        |object: &str| lines.iter().filter(|line| line["object"] == object).collect::<Vec<_>>();
    let kinds: Vec<_> = of("entry").iter().map(|entry| entry["kind"].clone()).collect();
    assert_eq!(kinds, ["put", "delete"]);
    let frames = of("frame");
    assert_eq!(frames.iter().map(|frame| frame["entries"].as_u64().unwrap()).sum::<u64>(), 2);
    assert_eq!((of("end").len(), &of("end")[0]["reason"]), (1, &"nothing follows".into()));
    scratch.run(&["dump-frames", "copy", "999"]).expect_failure(2, "there is no log segment 999");

    let levels = scratch.run(&["levels", "copy", "--json"]).json();
    let table = &levels["keyspaces"][0]["levels"][0]["runs"][0]["tables"][0];
    let name = format!("{}+{}", table["file"], table["offset"]);
    let dump = scratch.run(&["dump-table", "copy", &name]).expect_status(0);
    for line in [" put a 1\n", " put b 2\n", " put c 3\n"] {
        assert!(dump.text().contains(line), "{dump:?}");
    }
    assert!(dump.text().contains("  keys a … c\n"), "{dump:?}");
    assert!(dump.text().contains("  entries 3\n"), "{dump:?}");
    let json = objects(&scratch.run(&["dump-table", "copy", &name, "--json"]).expect_status(0));
    assert_eq!((json.len(), &json[0]["object"]), (4, &"table".into()));
    assert_eq!(json[0]["properties"]["entries"], 3);
    assert_eq!(json[0]["manifest"]["largest"], "c");
    scratch.run(&["dump-table", "copy", "999+0"]).expect_failure(2, "the tree has no table 999+0");
    scratch.run(&["dump-table", "copy", "x"]).expect_failure(2, "is not a table such as");

    let manifest = scratch.run(&["dump-manifest", "copy"]).expect_status(0);
    assert!(manifest.text().contains("create keyspace 0 \"default\""), "{manifest:?}");
    assert!(manifest.text().contains("add table "), "{manifest:?}");
    let json = scratch.run(&["dump-manifest", "copy", "--json"]).expect_status(0);
    let lines = objects(&json);
    assert_eq!(lines[0]["object"], "manifest");
    assert_eq!(lines[0]["identity"].as_str().unwrap().len(), 16);
    let created = lines.iter().find(|line| line["change"] == "create-keyspace").unwrap();
    assert_eq!((&created["shape"], &created["filter_bits"]), (&"leveled:10".into(), &10.into()));
}

#[test]
fn a_log_that_is_empty_or_torn_is_dumped_with_its_end() {
    let scratch = sample();
    let lines = objects(&scratch.run(&["dump-frames", "copy", "--json"]).expect_status(0));
    let first = lines.iter().find(|line| line["object"] == "frame").unwrap();
    let segment = first["segment"].to_string();
    let log = scratch.path("copy").join(format!("{segment:0>8}.log"));
    let dump = ["dump-frames", "copy", &segment, "--json"];
    let at = std::fs::read(&log).unwrap().iter().rposition(|&byte| byte != 0).unwrap();
    flip(&log, at);
    let lines = objects(&scratch.run(&dump).expect_status(0));
    let end = lines.iter().rfind(|line| line["object"] == "end").unwrap();
    assert_eq!(end["is_damaged"], true, "{end}");

    let bytes = std::fs::read(&log).unwrap();
    let mut blank = vec![0; bytes.len()];
    let header = first["frame_offset"].as_u64().unwrap() as usize;
    blank[..header].copy_from_slice(&bytes[..header]);
    std::fs::write(&log, blank).unwrap();
    let lines = objects(&scratch.run(&dump).expect_status(0));
    let kinds: Vec<_> = lines.iter().map(|line| line["object"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["segment", "end"]);
}

/// A copy in which a bit of the first of two frames is flipped, none of which was synced.
fn sample_with_a_frame_behind_a_bad_one() -> Scratch {
    let scratch = sample();
    let lines = objects(&scratch.run(&["dump-frames", "copy", "--json"]).expect_status(0));
    let first = lines.iter().find(|line| line["object"] == "frame").unwrap();
    let log = scratch.path("copy").join(format!("{:0>8}.log", first["segment"].to_string()));
    flip(&log, first["frame_offset"].as_u64().unwrap() as usize + 34);
    scratch
}

/// Without a sync, a power loss and damage leave the same, so it is for the user to decide.
#[test]
fn whole_frames_behind_a_bad_one_are_given_up_only_when_asked_for() {
    let scratch = sample_with_a_frame_behind_a_bad_one();
    let told = "1 whole frame follows in copy/";
    let done = scratch.run(&["check", "copy"]).expect_status(1);
    assert!(done.text().contains(told) && !done.text().contains("no problems found"), "{done:?}");
    let json = scratch.run(&["check", "copy", "--json"]).expect_status(1).json();
    assert!(json["torn_log"].as_str().unwrap().contains(told), "{json}");
    assert_eq!(json["problems"].as_array().unwrap().len(), 1, "{json}");
    let done = scratch.run(&["scan", "copy"]).expect_status(0);
    assert!(done.err.contains(told), "{done:?}");
    let before = names(&scratch.path("copy"));
    scratch.run(&["put", "--create", "copy", "e", "5"]).expect_failure(2, "--accept-torn-log");
    assert_eq!(names(&scratch.path("copy")), before);
    let done =
        scratch.run(&["put", "--create", "copy", "e", "5", "--accept-torn-log"]).expect_status(0);
    assert!(done.err.contains("writes from seqno 4 on are rejected"), "{done:?}");
    assert!(done.err.contains("kept in lost-"), "{done:?}");
    let done = scratch.run(&["check", "copy"]).expect_status(0);
    assert!(done.text().ends_with("no problems found\n"), "{done:?}");
    let names = names(&scratch.path("copy"));
    let lost = names.iter().find(|name| name.starts_with("lost-")).unwrap();
    let listed = format!("set aside by earlier opens, and yours to remove: {lost}\n");
    assert!(done.text().contains(&listed), "{done:?}");
    let done = scratch.run(&["stats", "copy"]).expect_status(0);
    assert!(done.text().contains("(lost_files)\n") && done.text().contains(lost), "{done:?}");
    let json = scratch.run(&["stats", "copy", "--json"]).expect_status(0).json();
    assert_eq!(json["lost_files"][0]["name"], lost[..], "{json}");
}

#[test]
fn a_repair_gives_up_whole_frames_behind_a_bad_one_and_keeps_a_copy() {
    let scratch = sample_with_a_frame_behind_a_bad_one();
    let done = scratch.run(&["repair", "copy"]).expect_status(0);
    assert!(done.text().contains("renamed 00000009.log to 00000009.log.damaged"), "{done:?}");
    scratch.run(&["put", "--create", "copy", "e", "5"]).expect("");
    let done = scratch.run(&["check", "copy"]).expect_status(0);
    assert!(done.text().ends_with("no problems found\n"), "{done:?}");
}
