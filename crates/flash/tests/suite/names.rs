//! More names than the journal takes: what is refused leaves nothing, and what was taken stays reachable.

use esker_base::{Result, WriteHint};
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::{FlashStorage, Geometry};
use esker_storage::Storage;
use std::sync::Arc;

fn open(device: &MemoryChunkDevice) -> FlashStorage {
    FlashStorage::open(Arc::new(device.clone())).unwrap()
}

/// Chunks of 32 KiB take few names.
fn device() -> MemoryChunkDevice {
    MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 32, 32 << 10))
}

fn name(number: usize) -> String {
    format!("{number:0200}")
}

/// Makes names until one is refused, and says how many there are.
fn fill(make: impl Fn(&str) -> Result<()>) -> usize {
    for number in 0.. {
        if let Err(refused) = make(&name(number)) {
            assert!(refused.is_out_of_space(), "{refused}");
            assert!(refused.to_string().contains("so many names"), "{refused}");
            return number;
        }
    }
    unreachable!()
}

fn create(storage: &FlashStorage, name: &str) -> Result<()> {
    storage.create(name, WriteHint::table(1)).map(drop)
}

#[test]
fn a_name_too_many_is_refused_and_others_go_on_when_some_were_removed() {
    let device = device();
    let storage = open(&device);
    let count = fill(|name| create(&storage, name));
    assert!(count > 40, "{count}");
    assert!(!storage.exists(&name(count)).unwrap());
    storage.sync_names().unwrap();
    storage.rename(&name(0), "renamed").unwrap();
    (1..10).for_each(|number| storage.remove(&name(number)).unwrap());
    create(&storage, "new").unwrap();
    storage.sync_names().unwrap();
    let names = storage.list().unwrap();
    assert_eq!(names.len(), count - 10 + 2);
    drop(storage);
    assert_eq!(open(&device).list().unwrap(), names);
}

#[test]
fn a_device_of_as_many_names_as_it_takes_opens_again_and_again() {
    let device = device();
    let storage = open(&device);
    let count = fill(|name| create(&storage, name));
    let names = storage.list().unwrap();
    drop(storage);
    for _ in 0..3 {
        assert_eq!(open(&device).list().unwrap(), names);
    }
    let again = open(&device);
    (0..count).for_each(|number| again.remove(&name(number)).unwrap());
    create(&again, "new").unwrap();
    drop(again);
    assert_eq!(open(&device).list().unwrap(), ["new"]);
}

#[test]
fn a_log_that_is_refused_leaves_its_chunks() {
    let device = device();
    let storage = open(&device);
    let count = fill(|name| create(&storage, name));
    let live = storage.usage().live_bytes;
    for _ in 0..500 {
        assert!(storage.create_log("log", 100_000).err().unwrap().is_out_of_space());
    }
    assert!(!storage.exists("log").unwrap());
    (0..count).for_each(|number| storage.remove(&name(number)).unwrap());
    let log = storage.create_log("log", 100_000).unwrap();
    assert_eq!((live, storage.usage().live_bytes), (0, 4 * (32 << 10)));
    log.write_at(0, &[7; 10]).unwrap();
    log.sync().unwrap();
    drop((log, storage));
    let mut found = [0; 10];
    open(&device).open("log").unwrap().read_exact_at(0, &mut found).unwrap();
    assert_eq!(found, [7; 10]);
}
