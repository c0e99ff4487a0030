//! What only a directory of the operating system does.

use esker_base::{Error, Hint};
use esker_storage::{PosixStorage, Storage};
use std::io::ErrorKind;

#[test]
fn opening_a_missing_directory_says_which() {
    let parent = tempfile::tempdir().unwrap();
    let missing = parent.path().join("missing");
    let error = PosixStorage::open(&missing).unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::NotFound));
    assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");
}

#[test]
fn creating_makes_missing_parents_and_takes_an_existing_directory() {
    let parent = tempfile::tempdir().unwrap();
    let deep = parent.path().join("a/b/c");
    for _ in 0..2 {
        let storage = PosixStorage::create(&deep).unwrap();
        assert_eq!(storage.directory(), Some(&*deep));
    }
}

#[test]
fn a_plain_file_is_no_directory() {
    let parent = tempfile::tempdir().unwrap();
    let plain = parent.path().join("plain");
    std::fs::write(&plain, b"").unwrap();
    for refused in [PosixStorage::open(&plain), PosixStorage::create(&plain)] {
        assert_eq!(refused.unwrap_err().io_kind(), Some(ErrorKind::NotADirectory));
    }
}

#[test]
fn two_storages_of_one_directory_share_one_lock() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [(); 2].map(|()| PosixStorage::create(directory.path()).unwrap());
    let held = first.lock().unwrap();
    assert!(matches!(second.lock().err(), Some(Error::Locked { .. })));
    drop(held);
    drop(second.lock().unwrap());
}

#[test]
fn a_lock_left_by_a_dead_process_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("LOCK"), b"4194304999").unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    let _held = storage.lock().unwrap();
    let written = std::fs::read_to_string(directory.path().join("LOCK")).unwrap();
    assert_eq!(written, std::process::id().to_string());
}

#[test]
fn a_link_shares_the_blocks() {
    use std::os::unix::fs::MetadataExt;
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let storage = PosixStorage::open(here.path()).unwrap();
    let mut file = storage.create("a", Hint::table(1)).unwrap();
    file.append(b"bytes").unwrap();
    file.sync().unwrap();
    storage.link_to("a", &PosixStorage::open(there.path()).unwrap()).unwrap();
    let inode = |directory: &tempfile::TempDir| {
        std::fs::metadata(directory.path().join("a")).unwrap().ino()
    };
    assert_eq!(inode(&here), inode(&there));
}

#[test]
fn directories_inside_are_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("sub")).unwrap();
    std::fs::write(directory.path().join("file"), b"").unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    assert_eq!(storage.list().unwrap(), ["file"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_can_not_be_allocated_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    assert!(storage.create_log("log", u64::MAX).is_err());
    assert_eq!(storage.list().unwrap(), [""; 0]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_has_all_its_blocks_from_the_start() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    drop(storage.create_log("log", 3 << 20).unwrap());
    let metadata = std::fs::metadata(directory.path().join("log")).unwrap();
    assert!(metadata.blocks() * 512 >= 3 << 20, "{} blocks", metadata.blocks());
}
