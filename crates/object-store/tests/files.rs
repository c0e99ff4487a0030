//! Files of an object store: what the trait of storages promises, as far as an object can.

use esker::Error;
use esker::env::{FileKind, MemoryStorage, Storage, WritableFile, WriteHint};
use esker_object_store::ObjectStorage;
use object_store::memory::InMemory;
use std::io::ErrorKind;
use std::sync::Arc;

fn storage() -> ObjectStorage {
    ObjectStorage::with(Arc::new(InMemory::new()), "files", "objects").unwrap()
}

fn create(storage: &ObjectStorage, name: &str) -> Box<dyn WritableFile> {
    storage.create(name, WriteHint::of(FileKind::Table)).unwrap()
}

/// Bytes that differ at each multiple of four.
fn content(bytes: u32) -> Vec<u8> {
    (0..bytes / 4).flat_map(u32::to_le_bytes).collect()
}

#[track_caller]
fn expect_io<T>(result: esker::Result<T>, kind: ErrorKind) {
    match result {
        Err(Error::Io { source, .. }) => assert_eq!(source.kind(), kind, "{source}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[test]
fn a_large_file_is_written_in_parts_and_read_back() {
    let (storage, content) = (storage(), content(50 << 20));
    let mut file = create(&storage, "large");
    for piece in content.chunks(3 << 20) {
        file.append(piece).unwrap();
    }
    assert!(!storage.exists("large").unwrap(), "it appears once it is synced");
    file.sync().unwrap();
    assert_eq!(file.len(), content.len() as u64);
    expect_io(file.append(b"more"), ErrorKind::Unsupported);

    let reader = storage.open("large").unwrap();
    let mut read = vec![0; content.len()];
    for (piece, at) in read.chunks_mut(1 << 20).zip((0..).step_by(1 << 20)) {
        reader.read_exact_at(at, piece).unwrap();
    }
    assert!(read == content);
    // Backwards, and over the ends of what was read before.
    for at in [40 << 20, 8 << 20, (8 << 20) - 100, 1, 0_usize] {
        let mut read = [0; 200];
        reader.read_exact_at(at as u64, &mut read).unwrap();
        assert_eq!(read[..], content[at..at + 200]);
    }
}

#[test]
fn a_small_file_grows_after_a_sync() {
    let storage = storage();
    let mut file = create(&storage, "small");
    file.append(b"one").unwrap();
    file.sync().unwrap();
    file.append(b" two").unwrap();
    file.sync().unwrap();
    let mut read = [0; 7];
    storage.open("small").unwrap().read_exact_at(0, &mut read).unwrap();
    assert_eq!(&read, b"one two");
}

#[test]
fn a_read_past_the_end_is_corruption() {
    let storage = storage();
    let mut file = create(&storage, "short");
    file.append(b"1234").unwrap();
    file.sync().unwrap();
    let reader = storage.open("short").unwrap();
    for (offset, bytes) in [(1, 4), (5, 1), (u64::MAX, 2)] {
        let error = reader.read_exact_at(offset, &mut vec![0; bytes]).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
    }
}

#[test]
fn a_file_that_is_dropped_without_a_sync_is_not_there() {
    let storage = storage();
    for bytes in [10, 20 << 20] {
        let mut file = create(&storage, "dropped");
        file.append(&content(bytes)).unwrap();
        drop(file);
        assert!(storage.list().unwrap().is_empty());
    }
}

#[test]
fn names_are_listed_renamed_and_removed() {
    let storage = storage();
    let _lock = storage.lock().unwrap();
    create(&storage, "a").sync().unwrap();
    expect_io(storage.create("a", WriteHint::of(FileKind::Meta)), ErrorKind::AlreadyExists);
    storage.rename("a", "b").unwrap();
    assert_eq!(storage.list().unwrap(), ["b"], "the lock is not a file");
    expect_io(storage.open("a"), ErrorKind::NotFound);
    expect_io(storage.remove("a"), ErrorKind::NotFound);
    expect_io(storage.rename("a", "b"), ErrorKind::NotFound);
    storage.remove("b").unwrap();
    assert!(!storage.exists("b").unwrap());
}

#[test]
fn names_that_are_no_files_are_refused() {
    for name in ["", ".", "..", "a/b", "a\\b", "LOCK"] {
        expect_io(storage().exists(name), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_file_is_copied_into_another_storage() {
    let (storage, target) = (storage(), MemoryStorage::new());
    let mut file = create(&storage, "copied");
    file.append(&content(20 << 20)).unwrap();
    file.sync().unwrap();
    storage.link_to("copied", &target).unwrap();
    assert_eq!(target.open("copied").unwrap().len().unwrap(), 20 << 20);
    expect_io(storage.link_to("copied", &target), ErrorKind::AlreadyExists);
}

#[test]
fn a_database_is_refused() {
    expect_io(storage().create_log("1.log", 4096), ErrorKind::Unsupported);
    expect_io(storage().open_log("1.log"), ErrorKind::Unsupported);
}

#[test]
fn calls_from_a_thread_of_another_runtime_work() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let storage = storage();
        create(&storage, "inside").sync().unwrap();
        assert!(storage.exists("inside").unwrap());
        drop(storage.lock().unwrap());
        drop(storage);
    });
}

#[test]
fn urls_that_name_no_store_are_refused_with_the_reason() {
    for (url, reason) in [
        ("backups", "relative URL"),
        ("gopher://x", "gopher"),
        ("s3://user:secret@bucket/x", "variables of the environment"),
        ("s3://bucket/x?token=secret", "variables of the environment"),
        ("gopher://user:secret@x:port", "port"),
    ] {
        let message = ObjectStorage::open(url).unwrap_err().to_string();
        assert!(message.contains(reason), "{url}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn a_file_that_another_writes_meanwhile_is_not_replaced() {
    let storage = storage();
    let mut files = ["1", "2"].map(|content| {
        let mut file = create(&storage, "same");
        file.append(content.as_bytes()).unwrap();
        file
    });
    files[0].sync().unwrap();
    expect_io(files[1].sync(), ErrorKind::AlreadyExists);
    let mut read = [0; 1];
    storage.open("same").unwrap().read_exact_at(0, &mut read).unwrap();
    assert_eq!(&read, b"1");
}
