//! Tests disks with placement on an emulated disk. `tests/interop` tests the kernel's.

use super::*;
use crate::FlashStorage;
use crate::device::fdp::{EmulatedDisk, Statistics};
use esker_base::{Rng, WriteHint};
use esker_storage::Storage;
use std::collections::VecDeque;
use std::sync::Arc;

const UNIT_BYTES: usize = 64 << 10;

/// A disk of 64 reclaim units and what the header takes.
fn disk(identifiers: u16) -> EmulatedDisk {
    EmulatedDisk::new(64 + HEADER_BYTES as usize / UNIT_BYTES, UNIT_BYTES, identifiers)
}

fn laid_out(disk: &EmulatedDisk) -> FlashStorage {
    FlashStorage::open(Arc::new(FdpDevice::lay_out(disk.clone()).unwrap())).unwrap()
}

fn reopened(disk: &EmulatedDisk) -> FlashStorage {
    FlashStorage::open(Arc::new(FdpDevice::of(disk.clone()).unwrap())).unwrap()
}

fn write(storage: &FlashStorage, name: &str, level: u8, bytes: &[u8]) -> Result<()> {
    let mut file = storage.create(name, WriteHint::table(level))?;
    file.append(bytes)?;
    file.sync()
}

fn content(storage: &FlashStorage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut content = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut content).unwrap();
    content
}

#[test]
fn chunks_are_as_long_as_reclaim_units_or_equal_parts_of_long_ones() {
    let of_64 = geometry_of(HEADER_BYTES + 64 * (8 << 20) + 4096, 8 << 20);
    assert_eq!(of_64, Geometry::of_blocks(1, 1, 64, 8 << 20));
    let unit_bytes = 13_079_937_024;
    let long = geometry_of(4 << 40, unit_bytes);
    let parts = unit_bytes / u64::from(long.chunk_bytes);
    assert_eq!((parts, u64::from(long.chunk_bytes)), (13, unit_bytes / 13 / 4096 * 4096));
    assert_eq!(long.chunks() as u64, ((4 << 40) - HEADER_BYTES) / u64::from(long.chunk_bytes));
}

#[test]
fn a_disk_that_was_not_laid_out_is_refused_and_left_as_it_is() {
    let disk = disk(4);
    disk.write_at(5 << 12, &[7; 4096], 0).unwrap();
    let refused = FdpDevice::of(disk.clone()).err().unwrap();
    assert!(refused.to_string().contains("create --overwrite"), "{refused}");
    assert_eq!(disk.calls(), 1);
    drop(laid_out(&disk));
    assert!(reopened(&disk).list().unwrap().is_empty());
}

#[test]
fn a_disk_that_became_shorter_is_refused() {
    let long = disk(4);
    drop(laid_out(&long));
    let mut first = Buffer::zeroed(4096);
    long.read_at(0, &mut first).unwrap();
    let short = EmulatedDisk::new(40, UNIT_BYTES, 4);
    short.write_at(0, &first, 0).unwrap();
    let refused = FdpDevice::of(short).err().unwrap();
    assert!(refused.to_string().contains("it was laid out with 5242880 bytes"), "{refused}");
}

#[test]
fn power_loss_while_a_disk_is_laid_out_leaves_one_that_is_or_one_that_is_not() {
    let (mut refused, mut opened) = (0, 0);
    for calls in 0.. {
        let disk = disk(4);
        disk.fail_after(calls);
        let made = FdpDevice::lay_out(disk.clone());
        let made = made.and_then(|zones| FlashStorage::open(Arc::new(zones)));
        let is_done = made.is_ok();
        drop(made);
        disk.lose_power(&mut Rng::new(calls));
        match FdpDevice::of(disk.clone()) {
            Ok(zones) => {
                let storage = FlashStorage::open(Arc::new(zones)).unwrap();
                write(&storage, "a", 1, &[1; 10_000]).unwrap();
                opened += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("was not laid out"), "{error}");
                assert!(!is_done);
                refused += 1;
            }
        }
        if is_done {
            break;
        }
    }
    assert!(refused > 3 && opened > 0, "{refused}, {opened}");
}

#[test]
fn power_loss_while_a_disk_is_laid_out_anew_leaves_all_that_it_had_or_nothing() {
    let (mut kept, mut refused, mut new) = (0, 0, 0);
    // The first calls empty the disk, which may leave any of its blocks.
    for number in 0..200 {
        let calls = if number < 160 { number % 4 } else { number - 160 };
        let disk = EmulatedDisk::new(16 + HEADER_BYTES as usize / UNIT_BYTES, UNIT_BYTES, 4);
        write(&laid_out(&disk), "a", 1, &[7; 300_000]).unwrap();
        disk.fail_after(calls);
        let made = FdpDevice::lay_out(disk.clone());
        drop(made.and_then(|zones| FlashStorage::open(Arc::new(zones))));
        disk.lose_power(&mut Rng::new(number));
        match FdpDevice::of(disk.clone()) {
            Ok(zones) => {
                let storage = FlashStorage::open(Arc::new(zones)).unwrap();
                let is_kept = storage.exists("a").unwrap();
                assert!(!is_kept || content(&storage, "a") == [7; 300_000], "call {calls}");
                *(if is_kept { &mut kept } else { &mut new }) += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(kept > 0 && refused > 3 && new > 20, "{kept}, {refused}, {new}");
}

#[test]
fn one_user_at_a_time_has_the_disk_and_finds_what_the_last_one_wrote() {
    let disk = disk(4);
    let early = laid_out(&disk);
    let waiting = FdpDevice::of(disk.clone()).unwrap();
    let refused = FdpDevice::of(disk.clone()).map(|zones| FlashStorage::open(Arc::new(zones)));
    assert_eq!(refused.unwrap().err().unwrap().io_kind(), Some(ErrorKind::ResourceBusy));
    write(&early, "a", 1, &[1; 100_000]).unwrap();
    drop(early);
    assert_eq!(content(&FlashStorage::open(Arc::new(waiting)).unwrap(), "a"), [1; 100_000]);
}

#[test]
fn a_chunk_goes_on_behind_its_files_when_the_disk_is_opened_again() {
    let disk = disk(4);
    drop(laid_out(&disk));
    let free = reopened(&disk).usage().free_chunks;
    for number in 0..12u8 {
        write(&reopened(&disk), &format!("{number}"), 3, &[number; 5_000]).unwrap();
    }
    let storage = reopened(&disk);
    for number in 0..12u8 {
        assert_eq!(content(&storage, &format!("{number}")), [number; 5_000]);
    }
    // 12 files of two blocks each in chunks of 16.
    assert_eq!(free - storage.usage().free_chunks, 2);
}

#[test]
fn what_a_chunk_held_before_is_not_read_as_a_record_of_a_log() {
    let disk = disk(4);
    drop(laid_out(&disk));
    for round in 0..200u8 {
        let storage = reopened(&disk);
        // Made anew each time, it gets the same number again, as no file has one any more.
        let log = storage.create_log("log", 30_000).unwrap();
        for part in 0..3 - u64::from(round % 3) {
            log.write_at(part * 10_000, &[round | 1; 10_000]).unwrap();
        }
        log.sync().unwrap();
        storage.sync_names().unwrap();
        drop((log, storage));
        disk.lose_power(&mut Rng::new(round.into()));
        let storage = reopened(&disk);
        let written = 30_000 - usize::from(round % 3) * 10_000;
        let expected = [vec![round | 1; written], vec![0; 30_000 - written]].concat();
        assert!(content(&storage, "log") == expected, "round {round}");
        storage.remove("log").unwrap();
    }
}

/// Media bytes over host bytes of an engine-like load: files of long life, and of short life that are overwritten.
fn amplification(identifiers: u16) -> f64 {
    let disk = disk(identifiers);
    let storage = laid_out(&disk);
    let mut live: [VecDeque<String>; 3] = Default::default();
    let [most_young, most_middle, most_old] = [12, 24, 66];
    for number in 0..1_500 {
        for (kind, level, every, most) in
            [(0, 0, 1, most_young), (1, 3, 3, most_middle), (2, 6, 9, most_old)]
        {
            if number % every == 0 {
                let name = format!("{kind}-{number}");
                write(&storage, &name, level, &vec![number as u8; UNIT_BYTES / 3]).unwrap();
                live[kind].push_back(name);
                if live[kind].len() > most {
                    storage.remove(&live[kind].pop_front().unwrap()).unwrap();
                }
            }
        }
    }
    assert_eq!(storage.usage().moved_bytes, 0);
    let Statistics { host_bytes, media_bytes } = disk.statistics().unwrap();
    media_bytes as f64 / host_bytes as f64
}

#[test]
fn the_disk_moves_hardly_anything_where_lifetimes_have_their_own_identifiers() {
    let (apart, together) = (amplification(9), amplification(1));
    println!("{apart:.3} times what the host wrote with nine identifiers, {together:.3} with one");
    assert!(apart < 1.01 && together > 1.03, "{apart}, {together}");
}
