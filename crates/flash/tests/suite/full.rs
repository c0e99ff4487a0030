//! A full device, one with bad chunks, and how much of it can be used.

use esker_base::WriteHint;
use esker_flash::chunk_device::MemoryChunkDevice;
use esker_flash::interference::Overwrite;
use esker_flash::placement::{AllUnits, Balanced, PlacementPolicy, Rotating};
use esker_flash::storage::LIFETIMES;
use esker_flash::{FlashStorage, Geometry};
use esker_storage::Storage;
use std::sync::Arc;

fn open(device: &MemoryChunkDevice) -> FlashStorage {
    FlashStorage::open(Arc::new(device.clone())).unwrap()
}

/// Writes a file of `len` bytes that are all `byte`. Fails as the storage does, and leaves nothing then.
fn write(
    storage: &dyn Storage,
    name: &str,
    level: u8,
    len: usize,
    byte: u8,
) -> esker_base::Result<()> {
    let mut file = storage.create(name, WriteHint::table(level))?;
    let done = file.append(&vec![byte; len]).and_then(|()| file.sync());
    drop(file);
    if done.is_err() {
        storage.remove(name).unwrap();
    }
    done
}

fn check(storage: &dyn Storage, name: &str, len: usize, byte: u8) {
    let file = storage.open(name).unwrap();
    assert_eq!(file.len().unwrap(), len as u64, "{name}");
    let mut bytes = vec![0; len];
    file.read_exact_at(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|found| *found == byte), "{name}");
}

#[test]
fn a_full_device_says_so_keeps_what_it_has_and_takes_more_when_something_is_removed() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 8, 64 << 10));
    let storage = open(&device);
    let mut count = 0;
    let full = loop {
        match write(&storage, &format!("{count}"), 3, 50_000, count as u8) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(full.is_out_of_space(), "{full}");
    assert!(count >= 30, "{count} of 28 chunks' 35 files");
    storage.remove("0").unwrap();
    storage.remove("1").unwrap();
    write(&storage, "new", 3, 50_000, 200).unwrap();
    drop(storage);
    let again = open(&device);
    (2..count).for_each(|number| check(&again, &format!("{number}"), 50_000, number as u8));
    check(&again, "new", 50_000, 200);
}

/// Only tables of level 0 make logs' chunks free. What a merge deeper down finds no space for can be done later.
#[test]
fn tables_of_deeper_levels_leave_the_room_of_those_that_logs_become() {
    const LOG_BYTES: usize = 300_000;
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 8, 64 << 10));
    let storage = open(&device);
    storage.create_log("log", LOG_BYTES as u64).unwrap();
    let mut count = 0;
    while write(&storage, &format!("{count}"), 3, 50_000, 1).is_ok() {
        count += 1;
    }
    assert!(
        count >= 10,
        "{count} of 28 chunks' 35 files, without 5 chunks of a log and as many for its table"
    );
    write(&storage, "flushed", 0, LOG_BYTES, 2).unwrap();
    check(&storage, "flushed", LOG_BYTES, 2);
}

#[test]
fn what_is_alive_is_moved_when_no_chunk_is_free_and_is_counted() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 8, 64 << 10));
    let storage = open(&device);
    for number in 0..100u8 {
        write(&storage, &format!("{number}"), 3, 15_000, number).unwrap();
    }
    assert_eq!(storage.usage().moved_bytes, 0);
    // Of every four in a chunk, one stays.
    (0..100u8)
        .filter(|number| number % 4 > 0)
        .for_each(|number| storage.remove(&format!("{number}")).unwrap());
    for number in 0..50u8 {
        write(&storage, &format!("new-{number}"), 3, 15_000, number).unwrap();
    }
    assert!(storage.usage().moved_bytes > 0);
    drop(storage);
    let again = open(&device);
    (0..100u8).step_by(4).for_each(|number| check(&again, &format!("{number}"), 15_000, number));
    (0..50u8).for_each(|number| check(&again, &format!("new-{number}"), 15_000, number));
}

/// Every failure while something is moved, but those after which the journal is dropped.
#[test]
fn what_was_copied_when_a_move_failed_is_free_again() {
    let mut failed_moves = 0;
    for calls in 1..200 {
        let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 8, 64 << 10));
        let storage = open(&device);
        for number in 0..100u8 {
            write(&storage, &format!("{number}"), 3, 15_000, number).unwrap();
        }
        (0..100u8)
            .filter(|number| number % 4 > 1)
            .for_each(|number| storage.remove(&format!("{number}")).unwrap());
        storage.sync_names().unwrap();
        device.fail_after(calls);
        let mut number = 0..50u8;
        let create = |number: u8| storage.create(&format!("new-{number}"), WriteHint::table(3));
        while let Some(Ok(mut file)) = number.next().map(create)
            && file.append(&[1; 15_000]).and_then(|()| file.sync()).is_ok()
        {}
        device.fail_after(u64::MAX);
        if storage.sync_names().is_err() {
            continue;
        }
        failed_moves += u32::from(storage.usage().moved_bytes > 0);
        for name in storage.list().unwrap() {
            storage.remove(&name).unwrap();
        }
        // What is removed is given back when a chunk is looked for: the only one of its level has none.
        write(&storage, "last", 6, 15_000, 1).unwrap();
        let usage = storage.usage();
        assert_eq!((usage.live_bytes, usage.free_chunks), (16_384, 27), "{calls}");
    }
    assert!(failed_moves > 10, "{failed_moves}");
}

#[test]
fn chunks_that_are_bad_or_go_bad_are_passed_over() {
    let geometry = Geometry::of_blocks(2, 2, 8, 64 << 10);
    let device = MemoryChunkDevice::new(geometry);
    for index in [0, 5, 9, 30] {
        device.break_chunk(geometry.chunk(index));
    }
    let storage = open(&device);
    for round in 0..120u8 {
        (0..8u8).for_each(|number| {
            write(&storage, &format!("{number}"), 2, 60_000, round ^ number).unwrap();
        });
        if round == 20 {
            (10..13).for_each(|index| device.break_chunk(geometry.chunk(index)));
        }
        if round < 119 {
            (0..8).for_each(|number| storage.remove(&format!("{number}")).unwrap());
        }
    }
    assert_eq!(storage.usage().good_bytes, (32 - 4 - 3 - 3) * (64 << 10));
    (0..8u8).for_each(|number| check(&storage, &format!("{number}"), 60_000, 119 ^ number));
    let worn = storage.usage().erases;
    assert!(worn.most - worn.least <= 20, "{worn:?}");
    assert!(worn.mean > 20.0, "{worn:?}");
    drop(storage);
    // What was reset after the last edit of the journal is forgotten.
    let again = open(&device).usage().erases;
    assert!(worn.mean - again.mean < 0.1 && again.most + 1 >= worn.most, "{again:?}, {worn:?}");
}

/// The goal: 93% of the good bytes are files' when the device is full for the first time, and no more than 2% more is
/// written than files are.
#[test]
fn tables_that_were_overwritten_five_times_fill_the_device() {
    let geometry = Geometry::of_blocks(4, 4, 64, 256 << 10);
    let policies: [Box<dyn PlacementPolicy + Send>; 3] =
        [Box::new(AllUnits), Box::new(Rotating::new(LIFETIMES, false, 4)), Box::new(Balanced)];
    for policy in policies {
        let name = policy.name();
        let overwrite = Overwrite { table_bytes: 2 << 20, kept: 0.85, times: 5, seed: 1 };
        let filled = overwrite.run(&MemoryChunkDevice::new(geometry), policy).unwrap();
        println!("{name}: {filled:?}");
        assert!(filled.live >= 0.93, "{name}: {filled:?}");
        assert!(filled.media_over_host <= 1.02, "{name}: {filled:?}");
    }
}

#[test]
fn a_log_that_is_longer_than_the_device_is_refused_and_the_device_goes_on() {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 8, 64 << 10));
    let storage = open(&device);
    let free = storage.usage().free_chunks;
    for bytes in [33 * (64 << 10), 1 << 52, u64::MAX] {
        let refused = storage.create_log("log", bytes).err().unwrap();
        assert!(refused.is_out_of_space(), "{bytes}: {refused}");
    }
    assert_eq!(storage.usage().free_chunks, free);
    write(&storage, "a", 3, 50_000, 5).unwrap();
    drop(storage);
    let again = open(&device);
    assert_eq!(again.list().unwrap(), ["a"]);
    check(&again, "a", 50_000, 5);
}
