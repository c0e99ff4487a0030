//! What only a directory of the operating system does.

use esker_base::{Error, WriteHint};
use esker_storage::{Pace, PosixStorage, Storage};
use rustix::process::{Signal, getpid, kill_process};
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
        assert_eq!(storage.describe(), deep.display().to_string());
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
    let mut file = storage.create("a", WriteHint::table(1)).unwrap();
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

/// Every call on a storage, each with a sign of where it took place.
fn use_every_call(storage: &PosixStorage) {
    let mut table = storage.create("table", WriteHint::table(1)).unwrap();
    table.append(b"bytes").unwrap();
    table.sync().unwrap();
    assert_eq!(storage.open("table").unwrap().len().unwrap(), 5);
    drop(storage.create_log("log", 4096).unwrap());
    storage.open_log("log").unwrap().sync().unwrap();
    assert!(storage.recycle_log("log", "next", 4096).unwrap().is_some());
    storage.rename("table", "kept").unwrap();
    drop(storage.create("gone", WriteHint::table(1)).unwrap());
    storage.remove("gone").unwrap();
    storage.sync_names().unwrap();
    let mut found = storage.list().unwrap();
    found.sort();
    assert_eq!(found, ["kept", "next"]);
    assert!(storage.exists("kept").unwrap() && !storage.exists("theirs").unwrap());
}

/// The names in a directory.
fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_renamed_directory_is_followed_and_the_one_in_its_place_is_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let [path, moved] = ["d", "moved"].map(|name| parent.path().join(name));
    let storage = PosixStorage::create(&path).unwrap();
    let held = storage.lock().unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let other = PosixStorage::create(&path).unwrap();
    for name in ["theirs", "log", "gone", "table"] {
        std::fs::write(path.join(name), "theirs").unwrap();
    }
    let _theirs = other.lock().unwrap();

    use_every_call(&storage);
    assert_eq!(names(&moved), ["LOCK", "kept", "next"]);
    assert_eq!(names(&path), ["LOCK", "gone", "log", "table", "theirs"]);
    for name in ["theirs", "log", "gone", "table"] {
        assert_eq!(std::fs::read(path.join(name)).unwrap(), b"theirs");
    }
    let again = PosixStorage::open(&moved).unwrap();
    assert!(matches!(again.lock().err(), Some(Error::Locked { .. })));
    drop(held);
    drop(again.lock().unwrap());
}

#[test]
fn a_link_goes_to_the_directory_that_was_opened() {
    let parent = tempfile::tempdir().unwrap();
    let [path, moved] = ["copy", "moved"].map(|name| parent.path().join(name));
    let storage = PosixStorage::create(parent.path().join("d")).unwrap();
    storage.create("a", WriteHint::table(1)).unwrap().sync().unwrap();
    let target = PosixStorage::create(&path).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    std::fs::create_dir(&path).unwrap();
    storage.link_to("a", &target).unwrap();
    assert_eq!((names(&path), names(&moved)), (vec![], vec!["a".to_owned()]));
}

#[test]
fn another_directory_at_the_path_is_noticed() {
    let parent = tempfile::tempdir().unwrap();
    let [path, moved] = ["d", "moved"].map(|name| parent.path().join(name));
    let storage = PosixStorage::create(&path).unwrap();
    assert!(!storage.is_replaced());
    std::fs::rename(&path, &moved).unwrap();
    assert!(!storage.is_replaced(), "nothing is there");
    std::fs::create_dir(&path).unwrap();
    assert!(storage.is_replaced());
    assert!(!PosixStorage::open(&path).unwrap().is_replaced());
}

#[test]
fn nothing_is_created_in_a_directory_that_was_removed() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("d");
    let storage = PosixStorage::create(&path).unwrap();
    drop(storage.create_log("old", 0).unwrap());
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let refused = [
        storage.create("a", WriteHint::table(1)).err(),
        storage.create_log("a", 4096).err(),
        storage.lock().err(),
    ];
    for error in refused.map(|error| error.expect("the directory is gone")) {
        assert_eq!(error.io_kind(), Some(ErrorKind::NotFound));
        let said = error.to_string();
        assert!(said.contains(path.to_str().unwrap()), "{said}");
        assert!(said.contains("directory was removed"), "{said}");
    }
    assert_eq!(names(&path), [""; 0]);
}

#[test]
fn removing_the_lock_file_lets_nobody_in() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [(); 2].map(|()| PosixStorage::open(directory.path()).unwrap());
    let held = first.lock().unwrap();
    std::fs::remove_file(directory.path().join("LOCK")).unwrap();
    assert!(matches!(second.lock().err(), Some(Error::Locked { .. })));
    drop(held);
    drop(second.lock().unwrap());
}

#[test]
fn an_empty_directory_is_removed_unless_its_path_names_another() {
    let parent = tempfile::tempdir().unwrap();
    let [path, moved] = ["d", "moved"].map(|name| parent.path().join(name));
    PosixStorage::create(&path).unwrap().remove_if_empty().unwrap();
    assert!(!path.exists());
    let storage = PosixStorage::create(&path).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    std::fs::create_dir(&path).unwrap();
    storage.remove_if_empty().unwrap();
    assert!(path.exists() && moved.exists());
}

#[test]
fn a_forked_child_that_drops_the_lock_leaves_it_to_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    let mut held = Some(storage.lock().unwrap());
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            drop(held.take());
            // Nothing of the parent's may run.
            let _ = kill_process(getpid(), Signal::KILL);
            unreachable!("the signal ends the child");
        }
        fork::Fork::Parent(child) => _ = fork::waitpid(child).unwrap(),
    }
    assert!(matches!(storage.lock().err(), Some(Error::Locked { .. })));
    drop(held);
    drop(storage.lock().unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_in_steps_has_the_blocks_that_are_prepared_and_takes_no_write_beyond() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::open(directory.path()).unwrap();
    let log = storage.create_log_in_steps("log", 64 << 20, 64 << 10).unwrap();
    let has = |bytes: u64| {
        let metadata = std::fs::metadata(directory.path().join("log")).unwrap();
        assert_eq!(metadata.len(), 64 << 20);
        let allocated = metadata.blocks() * 512;
        assert!((bytes..bytes + (1 << 20)).contains(&allocated), "{allocated} for {bytes}");
        assert!(log.write_at(bytes, b"1").is_err(), "nothing is prepared there");
    };
    has(64 << 10);
    log.prepare(2 << 20, Pace::AheadOfSyncs).unwrap();
    has(2 << 20);
    log.prepare(4 << 20, Pace::Hurried).unwrap();
    has(4 << 20);
    log.prepare(1 << 20, Pace::AheadOfWrites).unwrap();
    has(4 << 20);
}
