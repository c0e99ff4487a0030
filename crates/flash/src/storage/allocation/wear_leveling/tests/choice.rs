//! What is moved, where to, and how often.

use super::super::{RESETS_BETWEEN, SPREAD_MAX};
use super::*;
use crate::FdpDevice;
use crate::device::fdp::EmulatedDisk;
use crate::storage::format::JOURNAL_CHUNKS;
use std::collections::BTreeSet;

#[test]
fn what_is_in_the_least_worn_chunk_is_moved_into_the_most_worn_free_one() {
    let (device, storage) = filled(3);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    let usage = storage.usage();
    assert_eq!((usage.moved_bytes, usage.levelled_bytes), (CHUNK as u64, CHUNK as u64));
    assert_eq!(usage.live_bytes, 3 * CHUNK as u64);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("1", 1, CHUNK), ("2", 2, CHUNK)]);
}

/// Files that are written on and on, each of them removed when eight others were written.
fn overwrite(storage: &FlashStorage, times: std::ops::Range<u64>) {
    for time in times {
        let mut file = storage.create(&format!("hot-{time}"), WriteHint::table(3)).unwrap();
        file.append(&[time as u8; CHUNK]).and_then(|()| file.sync()).unwrap();
        if let Some(old) = time.checked_sub(8) {
            storage.remove(&format!("hot-{old}")).unwrap();
        }
    }
}

/// A device of 4 units of 12 chunks, half of them with files that stay.
fn half_cold() -> (MemoryChunkDevice, FlashStorage) {
    let device = MemoryChunkDevice::new(Geometry::of_blocks(2, 2, 12, CHUNK as u32));
    let storage = FlashStorage::open(Arc::new(device.clone())).unwrap();
    for number in 0..24 {
        write(&storage, &format!("cold-{number}"), number, CHUNK).unwrap();
    }
    (device, storage)
}

#[test]
fn chunks_with_what_is_never_overwritten_wear_as_others_do() {
    let (device, storage) = half_cold();
    overwrite(&storage, 0..12_000);
    let usage = storage.usage();
    println!("{usage:?}");
    assert!(usage.erases.mean > 3.0 * f64::from(SPREAD_MAX), "{usage:?}");
    assert!(usage.erases.most - usage.erases.least <= SPREAD_MAX + SPREAD_MAX / 4, "{usage:?}");
    // Nothing else has to be moved.
    assert_eq!(usage.moved_bytes, usage.levelled_bytes);
    assert!((1..usage.host_bytes / 50).contains(&usage.levelled_bytes), "{usage:?}");
    assert_eq!(usage.levelling_failures, 0);
    drop(storage);
    let storage = FlashStorage::open(Arc::new(device)).unwrap();
    (0..24).for_each(|number| check(&storage, &format!("cold-{number}"), number, CHUNK));
}

#[test]
fn nothing_is_moved_while_chunks_wear_about_alike() {
    let (_, storage) = half_cold();
    overwrite(&storage, 0..1_000);
    let usage = storage.usage();
    assert!((40..=SPREAD_MAX).contains(&usage.erases.most), "{usage:?}");
    assert_eq!(usage.levelled_bytes, 0);
}

#[test]
fn moves_are_few_however_wide_the_spread_is() {
    let (_, storage) = half_cold();
    let is_free = |index: &usize| storage.core.state.lock().space.live(*index as u32) == 0;
    let free: Vec<usize> = (JOURNAL_CHUNKS..48).filter(is_free).collect();
    wear(&storage, &free, 1_000);
    let before = storage.usage().host_bytes;
    overwrite(&storage, 0..160);
    let usage = storage.usage();
    let most = (usage.host_bytes - before) / RESETS_BETWEEN + CHUNK as u64;
    assert!((1..=most).contains(&usage.levelled_bytes), "{usage:?}");
}

#[test]
fn nobody_looks_again_before_16_chunks_more_were_reset() {
    let (_, storage) = filled(3);
    wear(&storage, &[TO - 1], 100);
    level(&storage);
    level(&storage);
    wear(&storage, &[TO - 1], 7);
    level(&storage);
    assert_eq!(
        [0, 1, 2].map(|name| chunks_of(&storage, &name.to_string())[0]),
        [TO, 5, 6].map(|chunk| chunk as u32)
    );
    wear(&storage, &[TO - 1], 1);
    level(&storage);
    assert_eq!(chunks_of(&storage, "1"), [TO as u32 - 1]);
}

#[test]
fn nothing_is_moved_where_a_deep_table_would_find_no_chunk() {
    let (_, storage) = filled((CHUNKS - FROM - 1) as u8);
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(storage.usage().levelled_bytes, 0);
    write(&storage, "new", 77, CHUNK).unwrap_err();
}

/// It is as worn as the one that is taken, and has space.
#[test]
fn what_is_moved_does_not_go_on_where_other_data_are() {
    let (device, storage) = cold(3);
    write(&storage, "begun", 9, CHUNK / 2).unwrap();
    wear(&storage, &[chunks_of(&storage, "begun")[0] as usize], 200);
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK), ("begun", 9, CHUNK / 2)]);
}

#[test]
fn nothing_is_written_behind_what_was_moved() {
    let (device, storage) = device();
    write(&storage, "0", 0, CHUNK / 2).unwrap();
    wear(&storage, &[TO], 100);
    level(&storage);
    assert_eq!(chunks_of(&storage, "0"), [TO as u32]);
    write(&storage, "new", 7, CHUNK / 2).unwrap();
    assert_ne!(chunks_of(&storage, "new"), [TO as u32]);
    check_twice(&device, storage, &[("0", 0, CHUNK / 2), ("new", 7, CHUNK / 2)]);
}

#[test]
fn out_of_chunks_of_more_than_64_mib_nothing_is_moved() {
    for (chunk_bytes, moved) in [(64 << 20, 4096), ((64 << 20) + 4096, 0)] {
        let device = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, CHUNKS as u16, chunk_bytes));
        let storage = FlashStorage::open(Arc::new(device)).unwrap();
        write(&storage, "0", 0, 4096).unwrap();
        wear(&storage, &[TO], 100);
        level(&storage);
        assert_eq!(storage.usage().levelled_bytes, moved);
    }
}

#[test]
fn a_disk_that_spreads_wear_itself_is_left_alone() {
    let disk = EmulatedDisk::new(CHUNKS + 16, CHUNK, 4);
    let zones = FdpDevice::lay_out(disk).unwrap();
    let storage = FlashStorage::open(Arc::new(zones)).unwrap();
    write(&storage, "0", 0, CHUNK).unwrap();
    let free = storage.core.state.lock().space.most_worn_free(&BTreeSet::new()).unwrap();
    wear(&storage, &[free as usize], 100);
    level(&storage);
    assert_eq!(storage.usage().levelled_bytes, 0);
}
