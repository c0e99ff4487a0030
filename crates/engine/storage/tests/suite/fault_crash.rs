//! What a power loss and a process death leave of bytes and names.

use esker_base::{Rng, WriteHint};
use esker_storage::{FaultStorage, Storage, WritableFile, fault::FaultKind};
use std::collections::BTreeSet;

const TABLE: WriteHint = WriteHint::table(0);

fn disk(seed: u64) -> FaultStorage {
    FaultStorage::new(Rng::new(seed))
}

/// A file `name` with `bytes`, synced, name and all.
fn synced(storage: &FaultStorage, name: &str, bytes: &[u8]) -> Box<dyn WritableFile> {
    let mut file = storage.create(name, TABLE).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    storage.sync_names().unwrap();
    file
}

#[test]
fn synced_bytes_always_survive_and_unsynced_ones_may_vanish_or_tear() {
    let (mut vanished, mut kept, mut partial, mut torn) = (0, 0, 0, 0);
    for seed in 0..400 {
        let storage = disk(seed);
        let mut file = synced(&storage, "a", &[1; 700]);
        file.append(&[2; 3000]).unwrap();
        let left = storage.crash().read_all("a").unwrap();
        assert_eq!(left[..700], [1; 700], "seed {seed}: synced bytes");
        let tail = &left[700..];
        vanished += u32::from(tail.is_empty());
        kept += u32::from(tail == [2; 3000]);
        partial += u32::from(!tail.is_empty() && tail.len() < 3000);
        torn += u32::from(tail.iter().any(|&byte| byte != 2));
    }
    assert!(
        vanished > 0 && kept > 0 && partial > 0 && torn > 0,
        "{vanished} {kept} {partial} {torn}"
    );
}

#[test]
fn log_sectors_survive_independently_and_synced_ones_always() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..400 {
        let storage = disk(seed);
        let log = storage.create_log("log", 4096).unwrap();
        log.write_at(0, &[1; 600]).unwrap();
        log.sync().unwrap();
        storage.sync_names().unwrap();
        log.write_at(600, &[2; 1448]).unwrap();
        let left = storage.crash().read_all("log").unwrap();
        assert_eq!(left[..600], [1; 600], "seed {seed}: bytes synced in a sector written again");
        assert_eq!(left[2048..], [0; 2048], "seed {seed}: bytes never written");
        let is_new = |at: usize| left[at] == 2;
        outcomes.insert((is_new(600), is_new(1024), is_new(1536), is_new(2047)));
    }
    assert!(outcomes.contains(&(false, true, true, true)), "a later sector without an earlier one");
    assert!(outcomes.contains(&(true, true, true, true)) && outcomes.len() > 8);
}

#[test]
fn unsynced_names_survive_in_any_combination() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..400 {
        let storage = disk(seed);
        drop(synced(&storage, "old", b"1"));
        drop(storage.create("new", TABLE).unwrap());
        storage.remove("old").unwrap();
        outcomes.insert(storage.crash().files());
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

#[test]
fn a_removed_file_that_comes_back_has_its_synced_bytes() {
    let came_back = (0..50).filter(|&seed| {
        let storage = disk(seed);
        drop(synced(&storage, "a", b"bytes"));
        storage.remove("a").unwrap();
        let left = storage.crash().read_all("a");
        assert!(left.is_none() || left.as_deref() == Some(b"bytes"));
        left.is_some()
    });
    assert!(came_back.count() > 0);
}

#[test]
fn synced_names_always_survive() {
    for seed in 0..100 {
        let storage = disk(seed);
        drop(synced(&storage, "a", b"a"));
        drop(synced(&storage, "b", b"b"));
        storage.rename("a", "b").unwrap();
        storage.sync_names().unwrap();
        let rebooted = storage.crash();
        assert_eq!(rebooted.files(), ["b"]);
        assert_eq!(rebooted.read_all("b").unwrap(), b"a");
    }
}

#[test]
fn what_survived_one_crash_survives_the_next() {
    for seed in 0..50 {
        let storage = disk(seed);
        let mut file = synced(&storage, "a", b"start");
        file.append(&[9; 5000]).unwrap();
        storage.create_log("log", 2048).unwrap().write_at(0, &[9; 2048]).unwrap();
        let first = storage.crash();
        let second = first.crash();
        assert_eq!(first.files(), second.files());
        assert_eq!(first.read_all("a"), second.read_all("a"));
    }
}

#[test]
fn a_failed_sync_is_not_made_good_by_a_later_one() {
    let mut lost = 0;
    for seed in 0..100 {
        let storage = disk(seed);
        let mut file = synced(&storage, "a", &[1; 600]);
        file.append(&[2; 600]).unwrap();
        storage.fail_after(0, FaultKind::Io);
        file.sync().unwrap_err();
        file.append(&[3; 600]).unwrap();
        file.sync().unwrap();
        assert_eq!(
            storage.read_all("a").unwrap()[600..1200],
            [2; 600],
            "the system still shows it"
        );
        let left = storage.crash().read_all("a").unwrap();
        assert_eq!((left.len(), &left[..600], &left[1200..]), (1800, &[1; 600][..], &[3; 600][..]));
        lost += u32::from(left[600..1200] != [2; 600]);
    }
    assert!(lost > 0);
}

#[test]
fn a_process_death_keeps_synced_bytes_log_writes_and_names() {
    let mut lost_gathered = false;
    for seed in 0..50 {
        let storage = disk(seed);
        let mut file = storage.create("a", TABLE).unwrap();
        file.append(&[1; 1000]).unwrap();
        file.sync().unwrap();
        file.append(&[2; 1000]).unwrap();
        let log = storage.create_log("log", 100).unwrap();
        log.write_at(10, b"frame").unwrap();
        let next = storage.kill();
        assert_eq!(next.files(), ["a", "log"]);
        assert_eq!(next.read_all("log").unwrap()[10..15], *b"frame");
        let left = next.read_all("a").unwrap();
        assert!(left.len() >= 1000 && [[1; 1000], [2; 1000]].concat().starts_with(&left));
        lost_gathered |= left.len() < 2000;
    }
    assert!(lost_gathered);
}

#[test]
fn a_power_loss_after_a_process_death_still_drops_what_was_not_synced() {
    let lost = (0..50).any(|seed| {
        let storage = disk(seed);
        let log = storage.create_log("log", 100).unwrap();
        storage.sync_names().unwrap();
        log.write_at(0, b"frame").unwrap();
        storage.kill().crash().read_all("log").unwrap()[..5] != *b"frame"
    });
    assert!(lost);
}

#[test]
fn handles_from_before_an_event_are_dead() {
    for event in [FaultStorage::crash, FaultStorage::kill] {
        let storage = disk(1);
        let mut writer = synced(&storage, "a", b"bytes");
        let reader = storage.open("a").unwrap();
        let log = storage.create_log("log", 100).unwrap();
        let next = event(&storage);
        let operations = next.operations();
        assert!(writer.append(b"x").is_err() && writer.sync().is_err());
        assert!(reader.read_exact_at(0, &mut [0]).is_err() && reader.len().is_err());
        assert!(log.write_at(0, b"x").is_err() && log.sync().is_err());
        assert!(storage.open("a").is_err() && storage.list().is_err() && storage.lock().is_err());
        assert!(storage.create("b", TABLE).is_err() && storage.remove("a").is_err());
        drop((writer, reader, log));
        assert_eq!(next.operations(), operations, "the dead do nothing");
        assert_eq!(next.read_all("a").unwrap(), b"bytes");
    }
}

#[test]
fn an_event_releases_the_lock_and_the_dead_cannot_release_the_next_one() {
    for event in [FaultStorage::crash, FaultStorage::kill] {
        let storage = disk(1);
        let dead = storage.lock().unwrap();
        let next = event(&storage);
        let _held = next.lock().unwrap();
        drop(dead);
        assert!(next.lock().is_err());
    }
}

#[test]
fn a_crash_image_leaves_the_process_alone() {
    let storage = disk(1);
    let mut file = synced(&storage, "a", b"start");
    file.append(&[2; 2000]).unwrap();
    let image = |seed| storage.crash_image(Rng::new(seed)).read_all("a").unwrap();
    let lengths: BTreeSet<_> = (0..50).map(|seed| image(seed).len()).collect();
    assert!(lengths.len() > 3, "{lengths:?}");
    assert_eq!(image(3), image(3));
    file.sync().unwrap();
    assert_eq!(image(3).len(), 2005);
    assert_eq!(storage.read_all("a").unwrap().len(), 2005);
}
