//! Journals that were written by earlier versions are read: `tests/golden` has the journal's chunk of a device of each.
//! They never change. Before the format does, with the code that writes it:
//! `ESKER_WRITE_GOLDEN=1 cargo test -p esker-flash --test suite golden::` writes that of the version which is written now.

use esker_base::WriteHint;
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::{ChunkDevice, FlashStorage, Geometry};
use esker_storage::Storage;
use std::path::PathBuf;
use std::sync::Arc;

const CHUNK_BYTES: u32 = 64 << 10;

/// The version that is written.
const NOW: u32 = 4;

fn device() -> MemoryChunkDevice {
    MemoryChunkDevice::new(Geometry::of_blocks(1, 2, 8, CHUNK_BYTES))
}

fn path(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/journal-v{version}.bin"))
}

fn open(device: &MemoryChunkDevice) -> FlashStorage {
    FlashStorage::open(Arc::new(device.clone())).unwrap()
}

/// A table of two pieces, one that was renamed, one that was removed, and a log.
fn fill(device: &MemoryChunkDevice) {
    let storage = open(device);
    for (name, level, len) in [("a", 3, 70_000), ("b", 3, 5_000), ("c", 1, 9_000)] {
        // Nobody could be told that before version 3; files that are all expected to live as long lie as they did.
        let hint = WriteHint::table(level).living(Some(1 << 20));
        let mut file = storage.create(name, hint).unwrap();
        file.append(&vec![name.as_bytes()[0]; len]).unwrap();
        file.sync().unwrap();
    }
    storage.create_log("log", 10_000).unwrap();
    storage.rename("b", "renamed").unwrap();
    storage.remove("c").unwrap();
    storage.sync_names().unwrap();
}

/// What was written into each chunk.
fn content(device: &MemoryChunkDevice) -> Vec<Vec<u8>> {
    let geometry = device.geometry();
    let of_one = |index| {
        let chunk = geometry.chunk(index);
        let mut bytes = vec![0; device.written(chunk).unwrap() as usize];
        device.read(chunk, 0, &mut bytes).unwrap();
        bytes
    };
    (0..geometry.chunks()).map(of_one).collect()
}

/// A device as `fill` leaves it, whose journal is the golden one.
fn device_of(version: u32) -> MemoryChunkDevice {
    let (now, then) = (device(), device());
    fill(&now);
    let journal = std::fs::read(path(version)).unwrap();
    for (index, bytes) in content(&now).into_iter().enumerate() {
        let bytes = if index == 0 { &journal } else { &bytes };
        if !bytes.is_empty() {
            then.write(then.geometry().chunk(index), 0, bytes).unwrap();
        }
    }
    then
}

#[test]
fn a_journal_of_an_earlier_version_is_read_and_gone_on_with() {
    if std::env::var_os("ESKER_WRITE_GOLDEN").is_some() {
        let device = device();
        fill(&device);
        std::fs::write(path(NOW), &content(&device)[0]).unwrap();
    }
    for version in 1..=NOW {
        let device = device_of(version);
        for round in 0..2 {
            let storage = open(&device);
            assert_eq!(storage.list().unwrap(), ["a", "log", "renamed"], "{version}, {round}");
            for (name, byte, len) in [("a", b'a', 70_000), ("renamed", b'b', 5_000)] {
                let mut bytes = vec![0; len];
                storage.open(name).unwrap().read_exact_at(0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|found| *found == byte), "{version}: {name}");
            }
            assert_eq!(storage.open("log").unwrap().len().unwrap(), 10_000);
            assert_eq!(storage.usage().erases.most, 0, "nothing was reset");
        }
    }
}
