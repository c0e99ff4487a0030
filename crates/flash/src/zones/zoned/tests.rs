//! What is done with zones, on a disk in memory. `tests/interop` has the kernel's.

mod disk;

use super::*;
use crate::FlashStorage;
use disk::{CAPACITY, MemoryDisk, ZONE_BYTES};
use esker_base::Hint;
use esker_storage::Storage;
use std::sync::Arc;

fn open(disk: &MemoryDisk) -> ZonedDisk {
    ZonedDisk::of(disk.clone()).unwrap()
}

fn store(disk: &MemoryDisk) -> Result<FlashStorage> {
    FlashStorage::open(Arc::new(open(disk)))
}

/// Blocks of bytes that tell where they are.
fn blocks(count: usize, seed: u8) -> Vec<u8> {
    (0..count * 4096).map(|at| (at / 512) as u8 ^ seed).collect()
}

fn content(zones: &ZonedDisk, chunk: Chunk) -> Vec<u8> {
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
    let refused = ZonedDisk::of(disk).err().unwrap();
    assert!(refused.to_string().contains("no zones that are written in sequence"), "{refused}");
    assert!(matches!(ZonedDisk::of(MemoryDisk::new(7)), Err(Error::InvalidSetting { .. })));
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

#[test]
fn one_user_at_a_time_has_the_disk_and_finds_what_the_last_one_wrote() {
    let disk = MemoryDisk::new(16);
    let early = open(&disk);
    let first = store(&disk).unwrap();
    assert_eq!(store(&disk).err().unwrap().io_kind(), Some(ErrorKind::ResourceBusy));
    let mut file = first.create("a", Hint::table(1)).unwrap();
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
