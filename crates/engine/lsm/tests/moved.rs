//! A directory that is renamed, replaced or removed while its database is open, and a working
//! directory that changes under a relative path: a database keeps to the directory that it opened,
//! and never touches what is at the old path now.

use esker_base::Error;
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

fn settings(logs: Option<PathBuf>) -> Settings {
    let log = Log::File { dir: logs, sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(256 << 10).memory_bytes(8 << 20)
}

fn put_all(db: &Db, mark: u8, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let key = format!("{}{number:06}", mark as char);
        db.put(&db.default_keyspace(), key.as_bytes(), [mark; 300]).unwrap();
    }
}

#[track_caller]
fn expect_all(db: &Db, mark: u8, numbers: std::ops::Range<u32>) {
    let pairs: Vec<_> = db.range(&db.default_keyspace(), ..).collect();
    let found = pairs.into_iter().map(|pair| pair.unwrap().0);
    let put = numbers.map(|number| format!("{}{number:06}", mark as char).into_bytes());
    assert!(found.eq(put));
}

/// Enough for several segments, so that logs and tables come and go.
const MANY: u32 = 4_000;

/// The sizes of all files, by name.
fn files(dir: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_renamed_database_keeps_to_its_directory_and_leaves_a_new_one_at_the_old_path_alone() {
    let parent = tempfile::tempdir().unwrap();
    let [path, moved] = ["d", "moved"].map(|name| parent.path().join(name));
    let first = Db::open(&path, settings(None)).unwrap();
    put_all(&first, b'a', 0..100);
    fs::rename(&path, &moved).unwrap();

    let second = Db::open(&path, settings(None)).unwrap();
    put_all(&second, b'b', 0..100);
    let before = files(&path);
    put_all(&first, b'a', 100..MANY);
    first.compact().unwrap();
    first.close().unwrap();
    assert_eq!(files(&path), before);

    put_all(&second, b'b', 100..200);
    // As a crash leaves it.
    let copy = parent.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for (name, _) in files(&path) {
        fs::copy(path.join(&name), copy.join(&name)).unwrap();
    }
    expect_all(&Db::open(&copy, settings(None)).unwrap(), b'b', 0..200);
    second.close().unwrap();
    expect_all(&Db::open(&path, settings(None)).unwrap(), b'b', 0..200);
    expect_all(&Db::open(&moved, settings(None)).unwrap(), b'a', 0..MANY);
}

#[test]
fn a_renamed_log_directory_is_followed() {
    let parent = tempfile::tempdir().unwrap();
    let [path, logs, moved] = ["d", "logs", "moved"].map(|name| parent.path().join(name));
    let first = Db::open(&path, settings(Some(logs.clone()))).unwrap();
    put_all(&first, b'a', 0..100);
    fs::rename(&logs, &moved).unwrap();

    let other = parent.path().join("other");
    let second = Db::open(&other, settings(Some(logs.clone()))).unwrap();
    put_all(&second, b'b', 0..100);
    let before = files(&logs);
    put_all(&first, b'a', 100..MANY);
    first.close().unwrap();
    assert_eq!(files(&logs), before);
    second.close().unwrap();
    expect_all(&Db::open(&path, settings(Some(moved))).unwrap(), b'a', 0..MANY);
    expect_all(&Db::open(&other, settings(Some(logs))).unwrap(), b'b', 0..100);
}

#[test]
fn a_relative_path_is_looked_up_once() {
    let parent = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| parent.path().join(name));
    for dir in [&here, &there] {
        fs::create_dir(dir).unwrap();
    }
    let relative = settings(Some("logs".into()));
    // The only test in this file that depends on the working directory.
    std::env::set_current_dir(&here).unwrap();
    let first = Db::open("d", relative.clone()).unwrap();
    put_all(&first, b'a', 0..100);
    std::env::set_current_dir(&there).unwrap();
    let second = Db::open("d", relative.clone()).unwrap();
    put_all(&second, b'b', 0..100);
    let before = (files(&there.join("d")), files(&there.join("logs")));
    put_all(&first, b'a', 100..MANY);
    let reader = Db::open_read_only("d", relative.clone()).unwrap();
    std::env::set_current_dir("/").unwrap();
    expect_all(&reader, b'b', 0..100);
    first.close().unwrap();
    assert_eq!((files(&there.join("d")), files(&there.join("logs"))), before);
    second.close().unwrap();
    assert!(!Path::new("/d").exists());
    for (dir, mark, puts) in [(here, b'a', MANY), (there, b'b', 100)] {
        let db = Db::open(dir.join("d"), settings(Some(dir.join("logs")))).unwrap();
        expect_all(&db, mark, 0..puts);
    }
}

#[test]
fn a_read_only_database_reads_the_directory_that_it_opened() {
    let parent = tempfile::tempdir().unwrap();
    let [path, moved] = ["d", "moved"].map(|name| parent.path().join(name));
    let first = Db::open(&path, settings(None)).unwrap();
    put_all(&first, b'a', 0..MANY);
    first.close().unwrap();
    let reader = Db::open_read_only(&path, settings(None)).unwrap();
    fs::rename(&path, &moved).unwrap();
    put_all(&Db::open(&path, settings(None)).unwrap(), b'b', 0..100);
    expect_all(&reader, b'a', 0..MANY);
}

#[test]
fn a_checkpoint_follows_its_target() {
    use esker_storage::PosixStorage;
    let parent = tempfile::tempdir().unwrap();
    let [path, copy, moved] = ["d", "copy", "moved"].map(|name| parent.path().join(name));
    let db = Db::open(path, settings(None)).unwrap();
    put_all(&db, b'a', 0..MANY);
    let target = PosixStorage::create(&copy).unwrap();
    fs::rename(&copy, &moved).unwrap();
    fs::create_dir(&copy).unwrap();
    db.checkpoint_to(&target).unwrap();
    assert_eq!(files(&copy), []);
    drop(target);
    expect_all(&Db::open(moved, settings(None)).unwrap(), b'a', 0..MANY);
}

#[test]
fn writes_into_a_directory_that_was_removed_end_in_an_error_that_names_it() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("d");
    let db = Db::open(&path, settings(None)).unwrap();
    put_all(&db, b'a', 0..10);
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error: Error = db.flush().unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::NotFound), "{error}");
    let said = error.to_string();
    assert!(said.contains(path.to_str().unwrap()) && said.contains("was removed"), "{said}");
    db.close().unwrap_err();
    assert_eq!(files(&path), []);
}
