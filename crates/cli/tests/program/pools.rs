//! pmem create, pmem info, pmem check.
#![cfg(target_os = "linux")]

use crate::Scratch;
use crate::damage::flip;
use esker_memtable::SegmentHeader;
use esker_pmem::{Accept, Pool};
use serde_json::json;
use std::path::PathBuf;

/// A pool with an empty segment, on tmpfs.
fn sample() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, 1 << 20, Accept::Emulated).unwrap();
    pool.claim(0xabc).unwrap();
    let capacity = pool.extent_bytes() as u64;
    let header = SegmentHeader { epoch: 3, capacity, alignment: 64, key_id: 0, salt: 0, flags: 0 };
    pool.acquire(3, &header.encode()).unwrap().unwrap();
    (dir, path)
}

#[test]
fn a_pool_is_created_once_and_says_that_it_is_emulated() {
    let scratch = Scratch::new();
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("pool");
    let path = path.to_str().unwrap();
    let create = ["pmem", "create", path, "--bytes", "1MiB"];
    let done = scratch.run(&create).expect_status(2);
    assert!(done.err.contains("by name"), "{done:?}");
    let create = [&create[..], &["--emulated"]].concat();
    let created = scratch.run(&create).expect_status(0);
    assert!(created.text().contains("emulated"), "{created:?}");
    let done = scratch.run(&create).expect_status(2);
    assert!(done.err.contains("could not create"), "{done:?}");
    let json = scratch.run(&["pmem", "info", path, "--json"]).json();
    assert_eq!((&json["survives_power_loss"], &json["bytes"]), (&false.into(), &1048576.into()));
    assert_eq!((&json["database"], &json["used"]), (&serde_json::Value::Null, &json!([])));
    let stores = json["stores"].as_str().unwrap();
    assert!(created.text().contains(&format!("\nstores    {stores}\n")), "{created:?}");
}

#[test]
fn a_pool_on_a_disk_is_refused_even_as_an_emulation() {
    let scratch = Scratch::new();
    // More than there is room for: it is not space that is missing.
    let create = ["pmem", "create", "pool", "--bytes", "16384G", "--emulated"];
    let done = scratch.run(&create);
    // Where the temporary directory is memory, there is nothing to refuse.
    if done.status == 1 {
        assert!(done.err.contains("MAP_SYNC"), "{done:?}");
        assert!(!scratch.path("pool").exists());
    }
}

#[test]
fn a_creation_that_was_not_finished_is_said_to_be_in_the_way() {
    let scratch = Scratch::new();
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("pool");
    for length in [0, 1 << 20] {
        std::fs::File::create(&path).unwrap().set_len(length).unwrap();
        let create = ["pmem", "create", path.to_str().unwrap(), "--bytes", "1MiB", "--emulated"];
        let done = scratch.run(&create).expect_status(2);
        assert!(
            done.err.contains("was not finished") && done.err.contains("remove it"),
            "{done:?}"
        );
    }
}

#[test]
fn a_sound_pool_passes() {
    let (_dir, path) = sample();
    let scratch = Scratch::new();
    let path = path.to_str().unwrap();
    let done = scratch.run(&["pmem", "check", path]).expect_status(0);
    assert!(done.text().ends_with("no problems found\n"), "{done:?}");
    let json = scratch.run(&["pmem", "check", path, "--json"]).json();
    assert_eq!((&json["segments"], &json["database"]), (&1.into(), &"0000000000000abc".into()));
    let done = scratch.run(&["pmem", "info", path]).expect_status(0);
    assert!(done.text().contains("for segments 3"), "{done:?}");
}

#[test]
fn damage_is_named_with_its_offset() {
    let scratch = Scratch::new();
    let data_at = 8192;
    for (at, says) in [
        (20, "offset 60: the header's checksum"),
        (4096, "offset 4096: the state word of extent 0"),
        (64, "offset 64: the owner"),
        (data_at + 20, "extent 0 at offset 8252: the segment header's checksum"),
    ] {
        let (_dir, path) = sample();
        flip(&path, at);
        let done = scratch.run(&["pmem", "check", path.to_str().unwrap()]).expect_status(1);
        let text = format!("{}{}", done.text(), done.err);
        assert!(text.contains(says), "{at}: {done:?}");
    }
}
