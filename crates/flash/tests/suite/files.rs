//! Files on chunks behave as files do, and are there again after the storage was closed.

use esker_base::{Error, FileKind, WriteHint};
use esker_flash::chunk_device::{FileChunkDevice, MemoryChunkDevice};
use esker_flash::storage::look;
use esker_flash::{ChunkDevice, FlashStorage, Geometry};
use esker_storage::{MemoryStorage, Storage};
use std::io::ErrorKind;
use std::sync::Arc;

const TABLE: WriteHint = WriteHint::table(1);

/// 32 chunks of 64 KiB on 4 units.
fn geometry() -> Geometry {
    Geometry::of_blocks(2, 2, 8, 64 << 10)
}

fn device() -> MemoryChunkDevice {
    MemoryChunkDevice::new(geometry())
}

fn open(device: &MemoryChunkDevice) -> FlashStorage {
    FlashStorage::open(Arc::new(device.clone())).unwrap()
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

fn write(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name, TABLE).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn content(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn appends_and_syncs_of_every_size_are_read_back_at_every_place() {
    let device = device();
    let storage = open(&device);
    let expected = pattern(300_000, 7);
    let mut file = storage.create("a", TABLE).unwrap();
    let mut rest = &expected[..];
    for step in [1, 4095, 4096, 4097, 70_000, 3, 100_000].into_iter().cycle() {
        let (part, after) = rest.split_at(rest.len().min(step));
        file.append(part).unwrap();
        if step % 2 == 1 {
            file.sync().unwrap();
        }
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    file.sync().unwrap();
    assert_eq!((file.len(), content(&storage, "a")), (300_000, expected.clone()));
    drop((file, storage));
    let again = open(&device);
    let reader = again.open("a").unwrap();
    for (offset, len) in [(0, 1), (4095, 2), (4096, 4096), (69_999, 70_002), (299_999, 1)] {
        let mut out = vec![0; len];
        reader.read_exact_at(offset as u64, &mut out).unwrap();
        assert_eq!(out, expected[offset..offset + len]);
    }
    assert!(reader.read_exact_at(299_999, &mut [0; 2]).unwrap_err().is_corruption());
}

#[test]
fn names_are_made_renamed_and_removed_once() {
    let device = device();
    let storage = open(&device);
    write(&storage, "a", b"one");
    write(&storage, "b", b"two");
    assert_eq!(storage.create("a", TABLE).err().unwrap().io_kind(), Some(ErrorKind::AlreadyExists));
    assert_eq!(storage.open("c").err().unwrap().io_kind(), Some(ErrorKind::NotFound));
    assert_eq!(storage.remove("c").unwrap_err().io_kind(), Some(ErrorKind::NotFound));
    assert!(storage.create("x/y", TABLE).is_err());
    let old = storage.open("b").unwrap();
    storage.rename("a", "b").unwrap();
    let mut out = [0; 3];
    old.read_exact_at(0, &mut out).unwrap();
    assert_eq!((&out, content(&storage, "b")), (b"two", b"one".to_vec()));
    drop((old, storage));
    let again = open(&device);
    assert_eq!(again.list().unwrap(), ["b"]);
    assert_eq!(content(&again, "b"), b"one");
    again.remove("b").unwrap();
    assert!(!again.exists("b").unwrap());
}

#[test]
fn a_log_is_zeros_and_what_was_written_into_it() {
    let device = device();
    let storage = open(&device);
    let mut expected = vec![0; 150_000];
    let log = storage.create_log("log", 150_000).unwrap();
    assert_eq!(content(&storage, "log"), expected);
    // The last one goes over what the second wrote, as a log that is used again does.
    for (offset, len) in [(0usize, 100usize), (100, 70_000), (80_000, 10), (50, 5_000)] {
        let bytes = pattern(len, offset as u8);
        log.write_at(offset as u64, &bytes).unwrap();
        expected[offset..offset + len].copy_from_slice(&bytes);
    }
    log.sync().unwrap();
    let outside = log.write_at(149_999, &[1, 2]).unwrap_err();
    assert_eq!(outside.io_kind(), Some(ErrorKind::InvalidInput));
    drop((log, storage));
    let again = open(&device);
    assert_eq!(content(&again, "log"), expected);
    let log = again.open_log("log").unwrap();
    log.write_at(149_000, &[9; 1000]).unwrap();
    expected[149_000..].fill(9);
    assert_eq!(content(&again, "log"), expected);
}

#[test]
fn many_small_writes_of_a_log_take_more_chunks() {
    let storage = open(&device());
    let log = storage.create_log("log", 60_000).unwrap();
    for number in 0..60u64 {
        log.write_at(number * 1000, &[number as u8 + 1; 1000]).unwrap();
    }
    let expected: Vec<u8> = (0..60).flat_map(|number| [number + 1; 1000]).collect();
    assert_eq!(content(&storage, "log"), expected);
    assert_eq!(storage.usage().live_bytes, 4 * (64 << 10));
}

#[test]
fn the_journal_goes_on_in_another_chunk_when_one_is_full() {
    let device = device();
    let storage = open(&device);
    for round in 0..100 {
        write(&storage, &format!("file-{}", round % 3), &pattern(5_000, round));
        if round % 3 == 2 {
            (0..3).for_each(|number| storage.remove(&format!("file-{number}")).unwrap());
        }
    }
    storage.rename("file-0", "kept").unwrap();
    drop(storage);
    assert_eq!(content(&open(&device), "kept"), pattern(5_000, 99));
}

#[test]
fn what_fills_blocks_is_not_counted_as_written_by_users() {
    let storage = open(&device());
    let log = storage.create_log("log", 64 << 10).unwrap();
    (0..100).for_each(|number| log.write_at(number * 100, &[1; 100]).unwrap());
    write(&storage, "a", &pattern(5_000, 1));
    let usage = storage.usage();
    assert_eq!((usage.host_bytes, usage.padding_bytes), (15_000, 102 * 4_096 - 15_000));
    assert!(usage.media_over_host() > 27.0, "{usage:?}");
}

#[test]
fn a_copy_goes_to_another_storage() {
    let (storage, memory) = (open(&device()), MemoryStorage::new());
    write(&storage, "a", &pattern(100_000, 1));
    storage.link_to("a", &memory).unwrap();
    assert_eq!(content(&memory, "a"), pattern(100_000, 1));
}

#[test]
fn files_on_a_directory_of_chunks_are_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let zones = Arc::new(FileChunkDevice::create(dir.path(), geometry()).unwrap());
    let storage = FlashStorage::open(zones).unwrap();
    write(&storage, "a", &pattern(200_000, 1));
    let log = storage.create_log("log", 10_000).unwrap();
    log.write_at(0, &[5; 10]).unwrap();
    let second: Arc<dyn ChunkDevice> = Arc::new(FileChunkDevice::open(dir.path()).unwrap());
    assert!(matches!(FlashStorage::open(second.clone()), Err(Error::Locked { .. })));
    assert_eq!(look(&*second).unwrap().names, ["a", "log"]);
    drop((log, storage));
    let again = FlashStorage::open(second).unwrap();
    assert_eq!(content(&again, "a"), pattern(200_000, 1));
    assert_eq!(content(&again, "log")[..11], [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0]);
}

#[test]
fn a_directory_whose_creation_was_cut_off_is_made_a_device_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let unfinished = dir.path().join("GEOMETRY.new");
    std::fs::write(&unfinished, "esker zones 1\ngro").unwrap();
    assert!(!esker_flash::chunk_device::is_device(dir.path()));
    FileChunkDevice::create(dir.path(), geometry()).unwrap();
    assert!(!unfinished.exists());
    assert_eq!(FileChunkDevice::open(dir.path()).unwrap().geometry(), geometry());
}

#[test]
fn foreign_data_and_another_geometry_are_refused_and_left_as_they_are() {
    let device = device();
    let chunk = geometry().chunk(20);
    device.write(chunk, 0, &[3; 4096]).unwrap();
    let refused = FlashStorage::open(Arc::new(device.clone())).err().unwrap();
    assert!(refused.to_string().contains("not Esker's"), "{refused}");
    assert_eq!((device.calls(), device.written(chunk).unwrap()), (1, 4096));

    let dir = tempfile::tempdir().unwrap();
    let zones = FileChunkDevice::create(dir.path(), geometry()).unwrap();
    drop(FlashStorage::open(Arc::new(zones)).unwrap());
    let text = std::fs::read_to_string(dir.path().join("GEOMETRY")).unwrap();
    let text = text.replace("groups 2", "groups 1");
    std::fs::write(dir.path().join("GEOMETRY"), text).unwrap();
    let zones = FileChunkDevice::open(dir.path()).unwrap();
    let refused = FlashStorage::open(Arc::new(zones)).err().unwrap();
    assert!(refused.to_string().contains("as it was made"), "{refused}");
}

#[test]
fn a_deep_table_is_settled_when_others_of_its_level_have_filled_a_unit() {
    // 64 units of 32 chunks.
    let zones = MemoryChunkDevice::new(Geometry::of_blocks(8, 8, 32, 64 << 10));
    let storage = open(&zones);
    let write = |name: String, level| {
        let mut file = storage.create(&name, WriteHint::table(level)).unwrap();
        file.append(&[1; 64 << 10]).unwrap();
        file.sync().unwrap();
        name
    };
    let first = write("first".into(), 6);
    assert!(!storage.is_settled(&first));
    assert!(storage.is_settled(&write("upper".into(), 2)), "it is not for upper levels");
    (0..40).for_each(|number| _ = write(format!("upper-{number}"), 2));
    assert!(!storage.is_settled(&first), "others' writes go elsewhere");
    let behind = (0..64).find(|number| {
        write(format!("deep-{number}"), 6);
        storage.is_settled(&first)
    });
    assert!((10..32).contains(&behind.expect("it is settled in the end")), "{behind:?}");
    assert!(!storage.is_settled("deep-10"));
    drop(storage);
    assert!(open(&zones).is_settled("deep-10"), "nobody knows what was written last");
}

#[test]
fn nothing_waits_to_be_settled_on_a_device_without_room() {
    let zones = MemoryChunkDevice::new(Geometry::of_blocks(8, 8, 32, 64 << 10));
    let storage = open(&zones);
    let mut unsettled = 0;
    for number in 0.. {
        let name = number.to_string();
        let Ok(mut file) = storage.create(&name, WriteHint::table(6)) else { break };
        if file.append(&[1; 128 << 10]).and_then(|()| file.sync()).is_err() {
            break;
        }
        unsettled += u32::from(!storage.is_settled(&name));
    }
    let names = storage.list().unwrap();
    assert!(names.len() > 900 && unsettled > 800, "{} and {unsettled}", names.len());
    assert!(names.iter().all(|name| storage.is_settled(name)), "there is no room for two");
}

#[test]
fn hints_decide_which_files_share_chunks() {
    let storage = open(&device());
    for (name, hint) in [
        ("a", WriteHint::table(2)),
        ("b", WriteHint::table(2)),
        ("c", WriteHint::table(6)),
        ("d", WriteHint::of(FileKind::Meta)),
    ] {
        let mut file = storage.create(name, hint).unwrap();
        file.append(&[1; 5000]).unwrap();
        file.sync().unwrap();
    }
    // Two of the same level are in one chunk; each of the others has one of its own.
    assert_eq!(storage.usage().free_chunks, 32 - 4 - 3);
}
