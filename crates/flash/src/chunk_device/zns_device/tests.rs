//! Tests of zones, on a disk in memory. `tests/interop` tests the kernel's.

mod append;
mod disk;

use super::*;
use crate::FlashStorage;
use disk::{CAPACITY, MemoryDisk, ZONE_BYTES};
use esker_base::WriteHint;
use esker_storage::Storage;
use std::sync::Arc;

fn open(disk: &MemoryDisk) -> ZnsDevice {
    ZnsDevice::of(disk.clone()).unwrap()
}

fn store(disk: &MemoryDisk) -> Result<FlashStorage> {
    FlashStorage::open(Arc::new(open(disk)))
}

/// Blocks of bytes that say where they are.
fn blocks(count: usize, seed: u8) -> Vec<u8> {
    (0..count * 4096).map(|at| (at / 512) as u8 ^ seed).collect()
}

fn content(zones: &ZnsDevice, chunk: Chunk) -> Vec<u8> {
    let mut out = vec![0; zones.written(chunk).unwrap() as usize];
    zones.read(chunk, 0, &mut out).unwrap();
    out
}

#[test]
fn zones_that_are_written_in_sequence_are_chunks_and_others_are_not() {
    let disk = MemoryDisk::new(12);
    disk.change(|state| {
        state.zones[0].condition = Condition::Conventional;
        state.zones[1].condition = Condition::Conventional;
        state.zones[11].bytes /= 2;
        state.zones[5].capacity -= 512;
    });
    let zones = open(&disk);
    let chunk_bytes = (CAPACITY - 4096) as u32;
    assert_eq!(zones.geometry(), Geometry::of_blocks(1, 1, 9, chunk_bytes));
    zones.write(zones.geometry().chunk(0), 0, &blocks(1, 0)).unwrap();
    assert_eq!(disk.zone(2).written, 4096);
}

#[test]
fn disks_without_zones_in_sequence_and_with_few_are_refused() {
    let disk = MemoryDisk::new(20);
    disk.change(|state| {
        state.zones.iter_mut().for_each(|zone| zone.condition = Condition::Conventional);
    });
    let refused = ZnsDevice::of(disk).err().unwrap();
    assert!(refused.to_string().contains("no zones that are written in sequence"), "{refused}");
    assert!(matches!(ZnsDevice::of(MemoryDisk::new(7)), Err(Error::InvalidSetting { .. })));
}

#[test]
fn what_is_written_is_read_and_a_zone_goes_on_where_it_was_left() {
    let disk = MemoryDisk::new(8);
    let zones = open(&disk);
    let chunk = zones.geometry().chunk(3);
    zones.write(chunk, 0, &blocks(2, 1)).unwrap();
    let again = open(&disk);
    assert_eq!(content(&again, chunk), blocks(2, 1));
    again.write(chunk, 8192, &blocks(1, 2)).unwrap();
    assert_eq!(content(&again, chunk)[8192..], blocks(1, 2));
    for wrong in [0, 8192, 16384] {
        let refused = again.write(chunk, wrong, &blocks(1, 3)).unwrap_err();
        assert!(refused.to_string().contains("zone 3 of a zoned disk"), "{refused}");
    }
    assert!(again.read(chunk, 8192, &mut [0; 8192]).unwrap_err().is_corruption());
    again.reset(chunk).unwrap();
    assert_eq!((again.written(chunk).unwrap(), disk.zone(3).written), (0, 0));
}

#[test]
fn a_write_that_stopped_inside_of_a_block_is_gone_on_behind_that_block() {
    let disk = MemoryDisk::new(8);
    let zones = open(&disk);
    let chunk = zones.geometry().chunk(0);
    zones.write(chunk, 0, &blocks(1, 1)).unwrap();
    disk.change(|state| state.tear = Some(1536));
    zones.write(chunk, 4096, &blocks(2, 2)).unwrap_err();
    for zones in [&zones, &open(&disk)] {
        assert_eq!(zones.written(chunk).unwrap(), 8192);
        let torn = [blocks(1, 2)[..1536].to_vec(), vec![0; 4096 - 1536]].concat();
        assert_eq!(content(zones, chunk), [blocks(1, 1), torn].concat());
    }
    zones.write(chunk, 8192, &blocks(1, 3)).unwrap();
    let found = content(&zones, chunk);
    assert_eq!(found[..4096 + 1536], [blocks(1, 1), blocks(1, 2)[..1536].to_vec()].concat());
    assert_eq!(found[8192..], blocks(1, 3));
}

#[test]
fn a_zone_that_takes_more_than_a_chunk_is_full_with_it() {
    let disk = MemoryDisk::new(8);
    disk.change(|state| state.zones[7].capacity -= 4096);
    let zones = open(&disk);
    let count = (CAPACITY / 4096 - 1) as usize;
    zones.write(zones.geometry().chunk(0), 0, &blocks(count, 1)).unwrap();
    zones.write(zones.geometry().chunk(7), 0, &blocks(count, 1)).unwrap();
    assert_eq!(disk.zone(0).condition, Condition::Full);
    assert_eq!(disk.zone(7).condition, Condition::Full);
    assert_eq!(open(&disk).written(zones.geometry().chunk(0)).unwrap(), CAPACITY - 4096);
}

#[test]
fn a_zone_that_is_offline_is_bad_and_one_that_can_only_be_read_when_it_should_be_reset() {
    let disk = MemoryDisk::new(8);
    let zones = open(&disk);
    let chunk = zones.geometry().chunk(4);
    zones.write(chunk, 0, &blocks(2, 1)).unwrap();
    disk.change(|state| {
        state.zones[4].condition = Condition::ReadOnly;
        state.zones[5].condition = Condition::Offline;
    });
    let again = open(&disk);
    let bad = |number| again.is_bad(again.geometry().chunk(number));
    assert_eq!([3, 4, 5].map(bad), [false, false, true]);
    assert_eq!(content(&again, chunk)[..8192], blocks(2, 1));
    again.reset(chunk).unwrap_err();
    assert!(bad(4));
}

#[test]
fn a_disk_with_data_of_others_is_refused_until_it_is_erased() {
    let disk = MemoryDisk::new(16);
    open(&disk).write(open(&disk).geometry().chunk(9), 0, &blocks(1, 1)).unwrap();
    let refused = store(&disk).err().unwrap();
    assert!(refused.to_string().contains("not Esker's"), "{refused}");
    assert_eq!(disk.zone(9).written, 4096);
    open(&disk).erase().unwrap();
    assert!(store(&disk).is_ok());
    assert_eq!(disk.zone(9).written, 0);
}

/// Of five generations of the journal the newest is in the first zone, and the one before it knows one file less.
#[test]
fn a_disk_whose_erase_was_interrupted_is_as_it_was_or_refused() {
    let mut was_erased = false;
    for resets in 0..16 {
        let disk = MemoryDisk::new(16);
        for round in 0..5 {
            let storage = store(&disk).unwrap();
            let mut file = storage.create(&format!("file-{round}"), WriteHint::table(1)).unwrap();
            file.append(&blocks(20, round)).unwrap();
            file.sync().unwrap();
        }
        disk.change(|state| state.resets_left = Some(resets));
        was_erased = open(&disk).erase().is_ok();
        disk.change(|state| state.resets_left = None);
        match store(&disk) {
            Ok(storage) if was_erased => assert!(storage.list().unwrap().is_empty()),
            Ok(storage) => assert_eq!(storage.list().unwrap().len(), 5, "{resets} resets"),
            Err(refused) => assert!(refused.to_string().contains("journal is lost"), "{refused}"),
        }
    }
    assert!(was_erased);
}

#[test]
fn one_user_at_a_time_has_the_disk_and_finds_what_the_last_one_wrote() {
    let disk = MemoryDisk::new(16);
    let early = open(&disk);
    let first = store(&disk).unwrap();
    assert_eq!(store(&disk).err().unwrap().io_kind(), Some(ErrorKind::ResourceBusy));
    let mut file = first.create("a", WriteHint::table(1)).unwrap();
    file.append(&blocks(30, 1)).unwrap();
    file.sync().unwrap();
    drop((file, first));
    // It was opened before any of that.
    let second = FlashStorage::open(Arc::new(early)).unwrap();
    let mut out = vec![0; 30 * 4096];
    second.open("a").unwrap().read_exact_at(0, &mut out).unwrap();
    assert_eq!(out, blocks(30, 1));
    assert!(disk.change(|state| state.zones.iter().all(|zone| zone.start % ZONE_BYTES == 0)));
}

/// A disk that has space for few active zones.
fn narrow(zones: u64) -> MemoryDisk {
    let disk = MemoryDisk::new(zones);
    disk.change(|state| state.active_max = Some(ACTIVE_MIN));
    disk
}

fn expect_content(storage: &FlashStorage, name: &str, expected: &[u8]) {
    let file = storage.open(name).unwrap();
    assert_eq!(file.len().unwrap(), expected.len() as u64, "{name}");
    let mut out = vec![0; expected.len()];
    file.read_exact_at(0, &mut out).unwrap();
    assert!(out == expected, "{name}");
}

#[test]
fn a_disk_with_room_for_too_few_active_zones_is_refused() {
    let disk = MemoryDisk::new(32);
    disk.change(|state| state.active_max = Some(ACTIVE_MIN - 1));
    let refused = ZnsDevice::of(disk).err().unwrap();
    assert!(refused.to_string().contains("7 zones may be written at a time"), "{refused}");
}

#[test]
fn files_of_all_lifetimes_that_are_written_at_a_time_share_the_active_zones() {
    let disk = narrow(200);
    let storage = store(&disk).unwrap();
    let names: Vec<String> = (0..30).map(|number| format!("file-{number}")).collect();
    let mut files: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(number, name)| storage.create(name, WriteHint::table(number as u8 % 8)).unwrap())
        .collect();
    let logs: Vec<_> = (0..6)
        .map(|number| storage.create_log(&format!("log-{number}"), 200_000).unwrap())
        .collect();
    for round in 0..20 {
        for (number, file) in files.iter_mut().enumerate() {
            file.append(&blocks(2, number as u8)).unwrap();
            file.sync().unwrap();
        }
        for log in &logs {
            log.write_at(round * 8192, &blocks(2, round as u8)).unwrap();
        }
    }
    drop((files, logs, storage));
    let again = store(&disk).unwrap();
    for (number, name) in names.iter().enumerate() {
        expect_content(&again, name, &blocks(2, number as u8).repeat(20));
    }
    for number in 0..6 {
        let rounds: Vec<u8> = (0..20).flat_map(|round| blocks(2, round)).collect();
        let expected = [rounds, vec![0; 200_000 - 20 * 8192]].concat();
        expect_content(&again, &format!("log-{number}"), &expected);
    }
    assert_eq!(disk.change(|state| state.active_most), ACTIVE_MIN);
}

#[test]
fn what_waits_for_a_writer_is_not_finished_for_data() {
    let disk = narrow(200);
    let storage = store(&disk).unwrap();
    for number in 0..100 {
        let mut file =
            storage.create(&format!("file-{number}"), WriteHint::table(number % 8)).unwrap();
        file.append(&blocks(5, 1)).unwrap();
        file.sync().unwrap();
    }
    // 500 blocks in zones of 24.
    let used = disk.change(|state| state.zones.iter().filter(|zone| zone.written > 0).count());
    assert!(used <= 500 / 24 + ACTIVE_MIN, "{used} zones");
}

#[test]
fn writers_at_work_at_the_same_time_wait_for_zones() {
    let disk = narrow(400);
    let storage = store(&disk).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..12u8 {
            let storage = &storage;
            scope.spawn(move || {
                let log = storage.create_log(&format!("log-{thread}"), 40_960).unwrap();
                for round in 0..10u64 {
                    log.write_at(round * 4096, &blocks(1, thread)).unwrap();
                    let name = format!("file-{thread}-{round}");
                    let mut file = storage.create(&name, WriteHint::table(thread)).unwrap();
                    for _ in 0..4 {
                        file.append(&blocks(3, thread)).unwrap();
                        file.sync().unwrap();
                    }
                    if round % 2 == 1 {
                        storage.remove(&name).unwrap();
                    }
                }
            });
        }
    });
    for thread in 0..12 {
        expect_content(&storage, &format!("file-{thread}-8"), &blocks(3, thread).repeat(4));
        expect_content(&storage, &format!("log-{thread}"), &blocks(1, thread).repeat(10));
    }
    assert!(disk.change(|state| state.active_most) <= ACTIVE_MIN);
}

#[test]
fn what_a_process_left_behind_takes_no_places() {
    let disk = narrow(100);
    for round in 0..10u8 {
        let storage = store(&disk).unwrap();
        let log = storage.create_log(&format!("log-{round}"), 10_000).unwrap();
        log.write_at(0, &blocks(1, round)).unwrap();
        for level in 0..8 {
            let mut file =
                storage.create(&format!("{round}-{level}"), WriteHint::table(level)).unwrap();
            file.append(&blocks(1, round)).unwrap();
            file.sync().unwrap();
        }
    }
    let again = store(&disk).unwrap();
    let old = again.open_log("log-3").unwrap();
    old.write_at(4096, &[9; 100]).unwrap();
    let mut out = [0; 100];
    again.open("log-3").unwrap().read_exact_at(4096, &mut out).unwrap();
    assert_eq!(out, [9; 100]);
    expect_content(&again, "7-7", &blocks(1, 7));
}

/// As programs leave them that opened a zone and wrote nothing.
#[test]
fn active_zones_without_a_byte_are_written_as_empty_ones_are() {
    for zone in 0..16 {
        let disk = narrow(16);
        drop(store(&disk).unwrap());
        if disk.zone(zone).written == 0 {
            disk.change(|state| state.zones[zone].condition = Condition::Active);
        }
        let storage = store(&disk).unwrap();
        for number in 0..6 {
            let mut file = storage.create(&format!("file-{number}"), WriteHint::table(1)).unwrap();
            file.append(&blocks(24, number)).unwrap();
            file.sync().unwrap();
        }
        (0..6).for_each(|number| {
            expect_content(&storage, &format!("file-{number}"), &blocks(24, number))
        });
    }
}

#[test]
fn a_disk_with_a_zone_that_can_only_be_read_is_erased_and_laid_out() {
    for zone in [1, 7] {
        let disk = narrow(16);
        open(&disk).write(open(&disk).geometry().chunk(zone), 0, &blocks(1, 1)).unwrap();
        disk.change(|state| {
            let zone = &mut state.zones[zone];
            (zone.condition, zone.written) = (Condition::ReadOnly, zone.capacity);
        });
        open(&disk).erase().unwrap();
        for _ in 0..5 {
            drop(store(&disk).unwrap());
        }
        let storage = store(&disk).unwrap();
        let mut file = storage.create("a", WriteHint::table(1)).unwrap();
        file.append(&blocks(100, 3)).unwrap();
        file.sync().unwrap();
        expect_content(&storage, "a", &blocks(100, 3));
    }
}

#[test]
fn active_zones_that_are_no_chunks_take_places() {
    let disk = MemoryDisk::new(33);
    disk.change(|state| {
        state.active_max = Some(ACTIVE_MIN);
        state.zones[32].bytes /= 2;
    });
    assert_eq!(open(&disk).active_max(), Some(ACTIVE_MIN));
    disk.change(|state| state.zones[32].condition = Condition::Active);
    let refused = ZnsDevice::of(disk.clone()).err().unwrap();
    assert!(
        refused.to_string().contains("7 zones may be written at a time in addition to 1"),
        "{refused}"
    );
    disk.change(|state| state.active_max = Some(ACTIVE_MIN + 1));
    assert_eq!(open(&disk).active_max(), Some(ACTIVE_MIN));
}

#[test]
fn a_flush_is_the_disks_and_one_that_failed_fails_for_good() {
    let disk = MemoryDisk::new(8);
    let zones = open(&disk);
    zones.flush().unwrap();
    zones.flush().unwrap();
    assert_eq!(disk.change(|state| state.flushes), 2);
    disk.change(|state| state.fails_to_flush = true);
    zones.flush().unwrap_err();
    disk.change(|state| state.fails_to_flush = false);
    let again = zones.flush().unwrap_err();
    assert!(again.to_string().contains("it lost what it had"), "{again}");
}
