//! A device in a directory keeps to the directory that it opened, whatever happens to the path.

use esker_base::{Error, Result, WriteHint};
use esker_flash::chunk_device::FileChunkDevice;
use esker_flash::{FlashStorage, Geometry};
use esker_storage::Storage;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn geometry() -> Geometry {
    Geometry::of_blocks(2, 2, 8, 64 << 10)
}

fn create(dir: &Path) -> FlashStorage {
    FlashStorage::open(Arc::new(FileChunkDevice::create(dir, geometry()).unwrap())).unwrap()
}

fn open(dir: &Path) -> FlashStorage {
    FlashStorage::open(Arc::new(FileChunkDevice::open(dir).unwrap())).unwrap()
}

fn write(storage: &dyn Storage, name: &str, byte: u8) -> Result<()> {
    let mut file = storage.create(name, WriteHint::table(1))?;
    file.append(&[byte; 70_000])?;
    file.sync()
}

fn assert_has(storage: &dyn Storage, files: impl Iterator<Item = u8>, byte: u8) {
    let mut expected: Vec<String> = files.map(|number| format!("{number}")).collect();
    for name in &expected {
        let mut bytes = vec![0; 70_000];
        storage.open(name).unwrap().read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|found| *found == byte), "{name}");
    }
    expected.sort();
    assert_eq!(storage.list().unwrap(), expected);
}

#[test]
fn two_devices_that_had_one_path_after_the_other_keep_to_their_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("device"), dir.path().join("moved"));
    let first = create(&path);
    write(&first, "0", b'a').unwrap();
    fs::rename(&path, &moved).unwrap();
    let second = create(&path);
    for number in 1..12 {
        write(&second, &number.to_string(), b'b').unwrap();
        write(&first, &number.to_string(), b'a').unwrap();
    }
    for number in 1..6 {
        first.remove(&number.to_string()).unwrap();
    }
    first.sync_names().unwrap();
    drop((first, second));
    assert_has(&open(&moved), [0].into_iter().chain(6..12), b'a');
    assert_has(&open(&path), 1..12, b'b');
}

#[test]
fn the_lock_is_that_of_the_directory_that_was_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("device"), dir.path().join("moved"));
    let first = FileChunkDevice::create(&path, geometry()).unwrap();
    fs::rename(&path, &moved).unwrap();
    let second = create(&path);
    let first = FlashStorage::open(Arc::new(first)).unwrap();
    let taken = FlashStorage::open(Arc::new(FileChunkDevice::open(&moved).unwrap()));
    assert!(matches!(taken, Err(Error::Locked { .. })));
    drop((first, second));
}

#[test]
fn a_device_is_not_lost_when_the_working_directory_changes() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::env::set_current_dir(dir.path()).unwrap();
    let storage = create(Path::new("device"));
    std::env::set_current_dir(elsewhere.path()).unwrap();
    (0..12).for_each(|number| write(&storage, &number.to_string(), b'a').unwrap());
    drop(storage);
    assert_has(&open(&dir.path().join("device")), 0..12, b'a');
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

/// The message of the first write that fails, of as many as a device has chunks.
fn first_failure(storage: &FlashStorage) -> String {
    let failed = (0..40).find_map(|number| write(storage, &format!("more-{number}"), 1).err());
    let error: Error = failed.expect("a write fails");
    assert!(!error.is_out_of_space(), "{error}");
    error.to_string()
}

#[test]
fn writes_to_a_device_whose_directory_was_removed_fail_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    let storage = create(&path);
    write(&storage, "0", b'a').unwrap();
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let failed = write(&storage, "1", b'a').unwrap_err().to_string();
    assert!(failed.contains("device/zone-"), "{failed}");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn a_chunk_that_was_removed_or_shortened_while_in_use_is_noticed_by_the_next_sync() {
    let longest = |dir: &Path| {
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let chunks = files.filter(|path| path.to_str().unwrap().contains("zone-0000"));
        let mut chunks: Vec<_> = chunks.collect();
        // The journal's chunk is the first.
        chunks.sort();
        chunks.pop().unwrap()
    };
    for (is_removed, expected) in
        [(true, "removed while in use"), (false, "shortened while in use")]
    {
        let dir = tempfile::tempdir().unwrap();
        let storage = create(dir.path());
        let mut file = storage.create("a", WriteHint::table(3)).unwrap();
        file.append(&[1; 10_000]).and_then(|()| file.sync()).unwrap();
        let chunk = longest(dir.path());
        match is_removed {
            true => fs::remove_file(&chunk).unwrap(),
            false => fs::File::options().write(true).open(&chunk).unwrap().set_len(4096).unwrap(),
        }
        let failed = file.append(&[1; 10_000]).and_then(|()| file.sync()).unwrap_err().to_string();
        assert!(failed.contains(expected), "{failed}");
        assert!(failed.contains(chunk.to_str().unwrap()), "{failed}");
        let journal = first_failure(&storage);
        assert!(journal.contains("zone-0000"), "{journal}");
    }
}
