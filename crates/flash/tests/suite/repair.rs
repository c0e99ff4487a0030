//! A device whose journal or whose chunks are damaged: the damage is reported, a repair keeps what is sound, and nothing that is
//! damaged passes for an older state.

use esker_base::{Result, WriteHint};
use esker_flash::chunk_device::FileChunkDevice;
use esker_flash::storage::{RepairReport, look, repair};
use esker_flash::{FlashStorage, Geometry};
use esker_storage::Storage;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK: u64 = 4096;

fn open(dir: &Path) -> Result<FlashStorage> {
    FlashStorage::open(Arc::new(FileChunkDevice::open(dir)?))
}

fn repaired(dir: &Path) -> Result<RepairReport> {
    let repaired = repair(Arc::new(FileChunkDevice::open(dir)?))?;
    // What is repaired needs no second repair.
    let again = repair(Arc::new(FileChunkDevice::open(dir)?))?;
    assert!(!again.is_changed, "{:?}", again.problems);
    assert_eq!(again.names, repaired.names);
    Ok(repaired)
}

fn write(storage: &FlashStorage, name: &str, byte: u8) {
    let mut file = storage.create(name, WriteHint::table(1)).unwrap();
    file.append(&[byte; 9_000]).and_then(|()| file.sync()).unwrap();
}

/// The bytes of all files, as far as they can be read.
fn content(storage: &FlashStorage) -> BTreeMap<String, Option<Vec<u8>>> {
    let read = |name: String| {
        let file = storage.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        let read = file.read_exact_at(0, &mut bytes);
        (name, read.is_ok().then_some(bytes))
    };
    storage.list().unwrap().into_iter().map(read).collect()
}

/// A device with two generations of the journal: in the second, ten files were made after its snapshot, one of them was
/// renamed and one removed, and a log was written.
fn device() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry::of_blocks(1, 1, 40, 128 << 10);
    drop(
        FlashStorage::open(Arc::new(FileChunkDevice::create(dir.path(), geometry).unwrap()))
            .unwrap(),
    );
    for round in 0..2 {
        let storage = open(dir.path()).unwrap();
        let count = if round == 0 { 3 } else { 10 };
        (0..count).for_each(|number| write(&storage, &format!("{round}-{number}"), number));
        if round == 1 {
            let log = storage.create_log("log", 100_000).unwrap();
            (0..4).for_each(|at| log.write_at(at * 100, &[b'l'; 100]).unwrap());
            log.sync().unwrap();
            storage.rename("1-3", "renamed").unwrap();
            storage.remove("1-4").unwrap();
            storage.sync_names().unwrap();
            write(&storage, "last", 77);
        }
    }
    dir
}

fn chunk(dir: &Path, place: usize) -> PathBuf {
    dir.join(format!("zone-{place:05}"))
}

fn change(path: &Path, at: u64, change: impl FnOnce(&mut [u8])) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut block = vec![0; BLOCK as usize];
    file.read_exact_at(&mut block, at).unwrap();
    change(&mut block);
    file.write_all_at(&block, at).unwrap();
}

/// The chunk of the journal that was written last, and its blocks.
fn newest(dir: &Path) -> (PathBuf, u64) {
    let generation = |place: usize| {
        let mut header = [0; 32];
        let file = fs::File::open(chunk(dir, place)).ok()?;
        file.read_exact_at(&mut header, 0).ok()?;
        Some((u64::from_le_bytes(header[24..32].try_into().unwrap()), place))
    };
    let (_, place) = (0..4).filter_map(generation).max().unwrap();
    let path = chunk(dir, place);
    let blocks = fs::metadata(&path).unwrap().len() / BLOCK;
    (path, blocks)
}

fn copy(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

#[test]
fn a_damaged_block_of_the_newest_journal_refuses_writers_and_a_repair_keeps_all_other_files() {
    let dir = device();
    let expected = content(&open(copy(dir.path()).path()).unwrap());
    let (path, blocks) = newest(dir.path());
    let name = path.file_name().unwrap();
    assert!(blocks > 20, "{blocks}");
    for at in 0..blocks {
        let dir = copy(dir.path());
        change(&dir.path().join(name), at * BLOCK, |block| block[9] ^= 4);
        let before = fs::read(dir.path().join(name)).unwrap();
        if at == 0 {
            // The snapshot behind the header says all itself.
            assert!(open(dir.path()).is_err());
        } else {
            let refused = open(dir.path()).err().unwrap().to_string();
            assert!(refused.contains("is not what was written"), "{at}: {refused}");
            let zones = FileChunkDevice::open_to_look(dir.path()).unwrap();
            assert!(look(&zones).unwrap().doubt.is_some());
        }
        assert!(fs::read(dir.path().join(name)).unwrap() == before, "block {at}");
        let repaired = repaired(dir.path()).unwrap();
        assert!(repaired.is_changed && !repaired.problems.is_empty());
        let found = content(&open(dir.path()).unwrap());
        let same = expected.iter().filter(|(name, bytes)| found.get(*name) == Some(bytes)).count();
        // One edit is lost: it made or extended one file, removed one, or gave one its name.
        // The header says nothing that the snapshot does not.
        let most = if at == 0 { 0 } else { 1 };
        assert!(same + most >= expected.len(), "block {at}: {same} of {}", expected.len());
        let is_log = |bytes: &Option<Vec<u8>>| {
            bytes.as_ref().is_some_and(|bytes| bytes.starts_with(&[b'l'; 400]))
        };
        assert!(found.values().any(is_log), "block {at}: the log has no name, and is there");
    }
}

#[test]
fn without_any_snapshot_a_repair_refuses_and_changes_nothing() {
    let dir = device();
    for place in 0..4 {
        let path = chunk(dir.path(), place);
        if path.exists() {
            change(&path, BLOCK, |block| block.fill(7));
        }
    }
    let (path, _) = newest(dir.path());
    let before = fs::read(&path).unwrap();
    let refused =
        repair(Arc::new(FileChunkDevice::open(dir.path()).unwrap())).unwrap_err().to_string();
    assert!(refused.contains("restore a copy"), "{refused}");
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_sound_device_is_not_changed_by_a_repair() {
    let dir = device();
    let (path, _) = newest(dir.path());
    let before = fs::read(&path).unwrap();
    let repaired = repair(Arc::new(FileChunkDevice::open(dir.path()).unwrap())).unwrap();
    assert!(!repaired.is_changed && repaired.problems.is_empty(), "{:?}", repaired.problems);
    assert_eq!(repaired.names.len(), 14);
    assert!(fs::read(&path).unwrap() == before && newest(dir.path()).0 == path);
}

#[test]
fn what_a_device_is_made_of_is_found_in_its_journal_again() {
    let dir = device();
    let path = dir.path().join("GEOMETRY");
    let text = fs::read(&path).unwrap();
    assert!(!FileChunkDevice::restore_geometry(dir.path()).unwrap());
    for damaged in [None, Some(b"esker zones 1\ngroups 1\n".to_vec()), Some(vec![0; 60])] {
        match damaged {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert!(FileChunkDevice::open(dir.path()).is_err());
        assert!(FileChunkDevice::restore_geometry(dir.path()).unwrap());
        assert_eq!(fs::read(&path).unwrap(), text);
    }
    assert_eq!(content(&open(dir.path()).unwrap()).len(), 14);
}

/// The chunk and the block in which the records of the log begin.
fn log_chunk(dir: &Path) -> PathBuf {
    let is_log = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        // A record that names an edit of the journal.
        bytes.len() >= 4 * BLOCK as usize && bytes[..4] == 0x4d46_4b45u32.to_le_bytes()
    };
    (4..40).map(|place| chunk(dir, place)).filter(|path| path.exists()).find(is_log).unwrap()
}

#[test]
fn a_damaged_record_of_a_log_hides_none_behind_it_and_does_not_look_like_nothing() {
    let dir = device();
    for record in 0..4 {
        for byte in [0, 5, 20, 60] {
            let dir = copy(dir.path());
            change(&log_chunk(dir.path()), record * BLOCK, |block| block[byte] ^= 1);
            let storage = open(dir.path()).unwrap();
            let mut bytes = vec![0; 400];
            storage.open("log").unwrap().read_exact_at(0, &mut bytes).unwrap();
            let parts: Vec<bool> =
                bytes.chunks(100).map(|part| part.iter().all(|byte| *byte == b'l')).collect();
            for (other, is_whole) in parts.iter().enumerate() {
                // Damage of a header leaves the bytes as they were.
                assert!(*is_whole || other as u64 == record, "{record}, {byte}: {parts:?}");
            }
            assert!(bytes[record as usize * 100..][..100].iter().any(|byte| *byte != 0));
        }
    }
}

#[test]
fn a_chunk_that_was_shortened_loses_its_files_by_name_and_is_not_written_on() {
    let dir = device();
    let expected = content(&open(copy(dir.path()).path()).unwrap());
    let tables = (4..40).map(|place| chunk(dir.path(), place)).filter(|path| path.exists());
    let log = log_chunk(dir.path());
    let longest =
        tables.filter(|path| *path != log).max_by_key(|path| fs::metadata(path).unwrap().len());
    let longest = longest.unwrap();
    let bytes = fs::metadata(&longest).unwrap().len();
    fs::File::options().write(true).open(&longest).unwrap().set_len(bytes - 2 * BLOCK).unwrap();
    let lost = look(&FileChunkDevice::open_to_look(dir.path()).unwrap()).unwrap().lost;
    assert!(!lost.is_empty() && lost.iter().all(|lost| !lost.is_log), "{lost:?}");
    let storage = open(dir.path()).unwrap();
    (0..5).for_each(|number| write(&storage, &format!("more-{number}"), 200 + number));
    let found = content(&storage);
    for (name, bytes) in &expected {
        match lost.iter().any(|lost| lost.name == *name) {
            true => assert_eq!(found[name], None, "{name}"),
            false => assert_eq!(found[name], *bytes, "{name}"),
        }
    }
    assert!(
        (0..5).all(|number| found[&format!("more-{number}")] == Some(vec![200 + number; 9_000]))
    );
    drop(storage);
    let repaired = repair(Arc::new(FileChunkDevice::open(dir.path()).unwrap())).unwrap();
    assert!(!repaired.problems.is_empty());
    assert!(found.keys().all(|name| repaired.names.contains(name)), "{:?}", repaired.names);
}

/// A device whose newest journal has place `place` and follows an abandoned history: power loss took edit `s`, and kept the renames
/// behind it. The names of the abandoned history begin with "stale".
fn device_with_an_abandoned_history(place: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry::of_blocks(1, 1, 40, 128 << 10);
    drop(
        FlashStorage::open(Arc::new(FileChunkDevice::create(dir.path(), geometry).unwrap()))
            .unwrap(),
    );
    // Each open begins a generation in the next chunk. The device was made with one in chunk 0.
    let opens = (place + 2) % 4;
    for number in 0..opens {
        write(&open(dir.path()).unwrap(), &format!("early-{number}"), 1);
    }
    let storage = open(dir.path()).unwrap();
    (0..8).for_each(|number| write(&storage, &format!("kept-{number}"), number));
    let (path, first_lost) = newest(dir.path());
    // No sync: these edits are not durable.
    storage.remove("kept-0").unwrap();
    storage.remove("kept-1").unwrap();
    (2..8).for_each(|it| storage.rename(&format!("kept-{it}"), &format!("stale-{it}")).unwrap());
    let left = copy(dir.path());
    drop(storage);
    let path = left.path().join(path.file_name().unwrap());
    change(&path, first_lost * BLOCK, |block| block.fill(0));
    let storage = open(left.path()).unwrap();
    assert!(content(&storage).keys().all(|name| !name.starts_with("stale")));
    (0..3).for_each(|number| write(&storage, &format!("new-{number}"), 100 + number));
    drop(storage);
    assert_eq!(newest(left.path()).0, chunk(left.path(), place));
    left
}

#[test]
fn a_repair_takes_nothing_of_a_history_that_a_power_loss_ended() {
    for place in 0..4 {
        let dir = device_with_an_abandoned_history(place);
        let expected = content(&open(copy(dir.path()).path()).unwrap());
        let (path, blocks) = newest(dir.path());
        // The header, and each edit behind the snapshot.
        for at in (0..blocks).filter(|at| *at != 1) {
            let dir = copy(dir.path());
            change(&dir.path().join(path.file_name().unwrap()), at * BLOCK, |block| block[9] ^= 4);
            let repaired = repaired(dir.path()).unwrap();
            assert!(repaired.is_changed, "chunk {place}, block {at}");
            let found = content(&open(dir.path()).unwrap());
            assert!(
                found.keys().all(|name| !name.starts_with("stale")),
                "chunk {place}, block {at}: {:?}",
                repaired.names
            );
            let same =
                expected.iter().filter(|(name, bytes)| found.get(*name) == Some(bytes)).count();
            let most = if at == 0 { 0 } else { 1 };
            assert!(
                same + most >= expected.len(),
                "chunk {place}, block {at}: {:?}",
                repaired.names
            );
        }
    }
}

#[test]
fn a_repair_without_the_newest_snapshot_takes_nothing_of_an_abandoned_history() {
    let dir = device_with_an_abandoned_history(1);
    let expected = content(&open(copy(dir.path()).path()).unwrap());
    let (path, blocks) = newest(dir.path());
    assert!(blocks >= 4, "{blocks}");
    // The snapshot, and more and more of the edits behind it.
    for last in 1..blocks {
        let dir = copy(dir.path());
        let path = dir.path().join(path.file_name().unwrap());
        (1..=last).for_each(|at| change(&path, at * BLOCK, |block| block[30] ^= 4));
        let repaired = repaired(dir.path()).unwrap();
        let found = content(&open(dir.path()).unwrap());
        let is_stale = |name: &String| name.starts_with("stale");
        assert!(!found.keys().any(is_stale), "{last} blocks: {:?}", repaired.names);
        for (name, bytes) in expected.iter().filter(|(name, _)| name.starts_with("kept")) {
            assert_eq!(found.get(name), Some(bytes), "{last} blocks, {name}");
        }
    }
}

#[test]
fn a_file_whose_removal_is_lost_never_reads_what_took_its_place() {
    const PIECE: usize = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry::of_blocks(1, 1, 24, 64 << 10);
    let storage =
        FlashStorage::open(Arc::new(FileChunkDevice::create(dir.path(), geometry).unwrap()))
            .unwrap();
    let write = |name: &str, pieces: usize| {
        let mut file = storage.create(name, WriteHint::table(1)).unwrap();
        let byte = name.as_bytes()[0];
        (0..pieces).for_each(|_| file.append(&[byte; PIECE]).unwrap());
        file.sync().unwrap();
    };
    // Together they take most of the device, so the second ones get the chunks of the first.
    write("keeps", 8);
    write("a-removed", 40);
    write("b-replaced", 40);
    storage.remove("a-removed").unwrap();
    storage.sync_names().unwrap();
    write("c-new", 40);
    storage.rename("c-new", "b-replaced").unwrap();
    storage.sync_names().unwrap();
    write("d-new", 40);
    drop(storage);
    let (path, blocks) = newest(dir.path());
    let mut dropped = 0;
    for at in 2..blocks {
        let dir = copy(dir.path());
        change(&dir.path().join(path.file_name().unwrap()), at * BLOCK, |block| block[9] ^= 4);
        let repaired = repaired(dir.path()).unwrap();
        assert!(repaired.is_changed);
        let lost = |name: &str| {
            let is_lost = |problem: &String| {
                problem.starts_with(&format!("{name}: ")) && problem.contains("pieces are lost")
            };
            repaired.problems.iter().any(is_lost)
        };
        dropped += usize::from(lost("a-removed")) + usize::from(lost("b-replaced"));
        for (name, bytes) in content(&open(dir.path()).unwrap()) {
            let bytes = bytes.unwrap();
            // If the edit with its pieces is lost, a file is empty.
            let Some(&byte) = bytes.first() else { continue };
            assert!(bytes.iter().all(|it| *it == byte), "block {at}: {name}");
            // A renamed file has the byte of its old name.
            let is_own = byte == name.as_bytes()[0]
                || name.starts_with("lost-")
                || (name == "b-replaced" && byte == b'c');
            assert!(is_own, "block {at}: {name} has {byte}");
        }
    }
    assert!(dropped >= 2, "no chunk was used again");
}

/// Cuts a file off within a block, or makes the block zeros.
fn lose(path: &Path, block: u64, is_cut: bool) {
    match is_cut {
        true => {
            fs::File::options().write(true).open(path).unwrap().set_len(block * BLOCK + 7).unwrap()
        }
        false => change(path, block * BLOCK, |bytes| bytes.fill(0)),
    }
}

/// Flips a bit of the sequence number of an edit, or of the version of a header.
fn flip(path: &Path, block: u64) {
    change(path, block * BLOCK, |bytes| bytes[9] ^= 4);
}

#[test]
fn a_journal_without_the_edits_that_a_log_proves_refuses_writers_and_is_repaired() {
    let dir = device();
    let storage = open(dir.path()).unwrap();
    write(&storage, "newest", 9);
    let log = storage.create_log("newest-log", 100_000).unwrap();
    for at in 0..3 {
        log.write_at(at * 100, &[b'n'; 100]).and_then(|()| log.sync()).unwrap();
    }
    drop((log, storage));
    let (path, blocks) = newest(dir.path());
    let name = path.file_name().unwrap();
    assert!(blocks >= 4, "{blocks}");
    for (at, is_cut) in (0..blocks).flat_map(|at| [(at, true), (at, false)]) {
        let dir = copy(dir.path());
        lose(&dir.path().join(name), at, is_cut);
        let refused = open(dir.path()).err().unwrap().to_string();
        assert!(refused.contains("durable"), "{at}, {is_cut}: {refused}");
        assert!(look(&FileChunkDevice::open_to_look(dir.path()).unwrap()).unwrap().doubt.is_some());
        let repaired = repaired(dir.path()).unwrap();
        let is_told = repaired.problems.iter().any(|problem| problem.contains("are lost"));
        assert!(is_told || at == 0 && !is_cut, "{at}, {is_cut}: {:?}", repaired.problems);
        let found = content(&open(dir.path()).unwrap());
        let is_log = |bytes: &Option<Vec<u8>>| {
            bytes.as_ref().is_some_and(|bytes| bytes.starts_with(&[b'n'; 300]))
        };
        assert!(found.values().any(is_log), "{at}, {is_cut}: {:?}", found.keys());
    }
}

#[test]
fn no_lost_block_of_a_closed_journal_shows_an_older_directory() {
    let dir = device();
    let storage = open(dir.path()).unwrap();
    let user = storage.lock().unwrap();
    write(&storage, "newest", 9);
    storage.remove("1-5").unwrap();
    // Several edits name its pieces, which are one piece of a chunk.
    let mut file = storage.create("long", WriteHint::table(6)).unwrap();
    (0..2).for_each(|_| file.append(&[5; 8192]).and_then(|()| file.sync()).unwrap());
    drop((file, user, storage));
    let expected = content(&open(copy(dir.path()).path()).unwrap());
    assert!(expected.contains_key("newest") && !expected.contains_key("1-5"));
    let (_, blocks) = newest(dir.path());
    assert_eq!(blocks, 2, "a header and a snapshot");
    for place in 0..4 {
        let blocks = fs::metadata(chunk(dir.path(), place)).unwrap().len() / BLOCK;
        for (at, is_cut) in (0..blocks).flat_map(|at| [(at, true), (at, false)]) {
            let dir = copy(dir.path());
            lose(&chunk(dir.path(), place), at, is_cut);
            assert!(content(&open(dir.path()).unwrap()) == expected, "{place}, {at}, {is_cut}");
        }
        for at in 0..blocks {
            let dir = copy(dir.path());
            flip(&chunk(dir.path(), place), at);
            assert!(content(&open(dir.path()).unwrap()) == expected, "{place}, {at}, a flip");
        }
    }
}

#[test]
fn a_close_without_changes_writes_nothing() {
    let dir = device();
    let chunks = || -> Vec<Vec<u8>> {
        let read = |place| fs::read(chunk(dir.path(), place)).unwrap_or_default();
        (0..4).map(read).collect()
    };
    let storage = open(dir.path()).unwrap();
    let before = chunks();
    drop(storage.lock().unwrap());
    assert!(chunks() == before);
    write(&storage, "newest", 9);
    drop(storage.lock().unwrap());
    let closed = chunks();
    assert!(closed != before);
    drop(storage.lock().unwrap());
    assert!(chunks() == closed);
}
