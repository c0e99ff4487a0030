//! A device that is opened to be read: nothing on it is changed, and it may be one on which nothing can be.

use esker_base::{Result, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::storage::look;
use esker_flash::{ChunkDevice, FlashStorage, Geometry};
use esker_storage::Storage;
use std::io::ErrorKind;
use std::sync::Arc;

fn open(device: &MemoryChunkDevice) -> FlashStorage {
    FlashStorage::open(Arc::new(device.clone())).unwrap()
}

fn open_to_read(device: &MemoryChunkDevice) -> FlashStorage {
    FlashStorage::open_to_read(Arc::new(device.clone())).unwrap()
}

/// A device with a table and a log.
fn device() -> MemoryChunkDevice {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, 32 << 10));
    add(&device, "table");
    let log = open(&device).create_log("log", 10_000).unwrap();
    log.write_at(0, &[7; 100]).unwrap();
    log.sync().unwrap();
    device
}

fn add(device: &MemoryChunkDevice, name: &str) {
    let storage = open(device);
    let mut file = storage.create(name, WriteHint::table(1)).unwrap();
    file.append(&[9; 50_000]).unwrap();
    file.sync().unwrap();
    storage.sync_names().unwrap();
}

fn check(storage: &FlashStorage) {
    for (name, byte, len) in [("table", 9, 50_000), ("log", 7, 100)] {
        let mut bytes = vec![0; len];
        storage.open(name).unwrap().read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|found| *found == byte), "{name}");
    }
}

#[test]
fn reading_changes_nothing_and_changes_are_refused() {
    let device = device();
    let calls = device.calls();
    let storage = open_to_read(&device);
    check(&storage);
    let refused: [Result<()>; 6] = [
        storage.create("new", WriteHint::table(1)).map(drop),
        storage.create_log("new", 100).map(drop),
        storage.recycle_log("log", "new", 100).map(drop),
        storage.open_log("log").map(drop),
        storage.remove("table"),
        storage.rename("table", "new"),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().io_kind(), Some(ErrorKind::ReadOnlyFilesystem));
    }
    assert_eq!(storage.list().unwrap(), ["log", "table"]);
    check(&storage);
    assert_eq!(device.calls(), calls);
}

#[test]
fn a_reader_and_a_writer_are_not_there_at_a_time() {
    let device = device();
    let reader = open_to_read(&device);
    assert!(FlashStorage::open(Arc::new(device.clone())).is_err());
    drop(reader);
    let _writer = open(&device);
    assert!(FlashStorage::open_to_read(Arc::new(device)).is_err());
}

#[test]
fn a_device_that_was_never_written_is_read_as_empty_and_not_laid_out() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 24, 32 << 10));
    assert!(open_to_read(&device).list().unwrap().is_empty());
    assert_eq!(device.calls(), 0);
}

#[test]
fn a_writer_that_changes_nothing_begins_no_generation() {
    let device = device();
    let written = device.written_in_all();
    (0..9).for_each(|_| check(&open(&device)));
    assert_eq!(device.written_in_all(), written);
    add(&device, "another");
    check(&open(&device));
}

#[test]
fn a_device_whose_journal_can_be_written_nowhere_can_be_read() {
    let device = device();
    let storage = open(&device);
    let journal = [0, 1, 2, 3].map(|place| device.geometry().chunk(place));
    journal.iter().for_each(|chunk| device.break_chunk(*chunk));
    let refused = storage.create("new", WriteHint::table(1)).err().unwrap();
    assert!(refused.to_string().contains("copy the files"), "{refused}");
    check(&storage);
    drop(storage);
    let storage = open_to_read(&device);
    check(&storage);
    // Those that could not be emptied may have had a newer one, for what is known now.
    let doubt = storage.doubt().unwrap();
    assert!(doubt.contains("may have had the newest journal"), "{doubt}");
    assert_eq!(look(&device).unwrap().doubt.as_deref(), Some(doubt));
    assert!(open_to_read(&self::device()).doubt().is_none());
}
