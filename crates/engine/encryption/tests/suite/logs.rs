//! Log files.

use crate::{keys, over};
use esker_base::Rng;
use esker_encryption::EncryptedStorage;
use esker_storage::{FaultStorage, MemoryStorage, Pace, Storage};
use std::io::ErrorKind;
use std::sync::Arc;

const BYTES: u64 = 64 << 10;

/// Writes of the sizes that frames have, one behind the other, and what they make.
fn writes(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    let mut left = BYTES as usize;
    let mut writes = Vec::new();
    while left >= 40 {
        let most = if rng.one_in(20) { 20_000 } else { 200 };
        let bytes = (40 + 8 * rng.below(most / 8) as usize).min(left / 8 * 8);
        let mut write = vec![0; bytes];
        rng.fill(&mut write);
        left -= bytes;
        writes.push(write);
    }
    writes
}

fn read(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    // As recovery does: the begin first, then all of it in parts.
    file.read_exact_at(0, &mut bytes[..64]).unwrap();
    for (at, part) in (0..).zip(bytes.chunks_mut(5000)) {
        file.read_exact_at(at * 5000, part).unwrap();
    }
    bytes
}

#[test]
fn a_log_takes_as_many_frames_as_fit_and_is_read_while_it_grows() {
    for seed in 0..3 {
        let storage = over(MemoryStorage::new());
        let log = storage.create_log("log", BYTES).unwrap();
        assert!(read(&storage, "log") == vec![0; BYTES as usize]);
        let growing = storage.open("log").unwrap();
        let (mut expected, mut end) = (vec![0; BYTES as usize], 0);
        for (number, write) in writes(seed).into_iter().enumerate() {
            log.write_at(end as u64, &write).unwrap();
            expected[end..end + write.len()].copy_from_slice(&write);
            end += write.len();
            if number % 30 == 0 {
                let mut found = vec![1; BYTES as usize];
                growing.read_exact_at(0, &mut found).unwrap();
                assert!(found == expected, "write {number}");
            }
        }
        assert!(read(&storage, "log") == expected);
    }
}

#[test]
fn the_shortest_frames_fill_a_log() {
    let storage = over(FaultStorage::new(Rng::new(1)));
    let log = storage.create_log_in_steps("log", BYTES, 1000).unwrap();
    for number in 0..BYTES / 40 {
        if number % 20 == 0 {
            log.prepare((number * 40 + 800).min(BYTES), Pace::AheadOfSyncs).unwrap();
        }
        log.write_at(number * 40, &[number as u8 | 1; 40]).unwrap();
    }
    assert_eq!(
        log.write_at(BYTES - 8, &[1; 16]).unwrap_err().io_kind(),
        Some(ErrorKind::InvalidInput)
    );
    assert!(read(&storage, "log")[..40] == [1; 40]);
}

/// Few records need less than the file has for the shortest ones. The next use of the file may have those.
#[test]
fn a_log_that_is_prepared_to_its_end_can_be_used_again() {
    let disk = FaultStorage::new(Rng::new(1));
    let storage = over(disk);
    let log = storage.create_log_in_steps("old", BYTES, 4 << 10).unwrap();
    log.write_at(0, &[7; 4000]).unwrap();
    log.prepare(BYTES, Pace::AheadOfWrites).unwrap();
    drop(log);
    assert!(storage.recycle_log("old", "log", BYTES).unwrap().is_some());
}

/// Below where it gave space back, the shortest frames still fit.
#[test]
fn a_log_that_gives_space_back_keeps_enough_for_what_comes_before() {
    let disk = FaultStorage::new(Rng::new(1));
    let storage = over(disk.clone());
    storage.create_log("old", BYTES).unwrap();
    let log = storage.recycle_log("old", "log", BYTES).unwrap().expect("it has the length");
    let write = |from: u64, to: u64| {
        (from..to).for_each(|number| log.write_at(number * 40, &[7; 40]).unwrap());
    };
    write(0, 100);
    let before = disk.used_bytes();
    assert!(log.give_back(8_000));
    assert!(disk.used_bytes() < before / 2);
    write(100, 200);
    assert!(log.write_at(8_000, &[7; 20_000]).is_err(), "it is not prepared");
    assert!(read(&storage, "log")[..8_000] == [7; 8_000]);
}

#[test]
fn a_write_that_failed_ends_the_use_of_a_log() {
    let disk = FaultStorage::new(Rng::new(1));
    let storage = over(disk.clone());
    let log = storage.create_log("log", BYTES).unwrap();
    log.write_at(0, &[1; 64]).unwrap();
    disk.fail_after(0, esker_storage::fault::FaultKind::ShortWrite);
    log.write_at(64, &[2; 64]).unwrap_err();
    let before = disk.read_all("log");
    log.write_at(64, &[3; 64]).unwrap_err();
    assert!(disk.read_all("log") == before, "another text at the same position");
}

#[test]
fn a_log_that_exists_takes_its_own_bytes_only_and_encrypts_none_again() {
    let disk = FaultStorage::new(Rng::new(1));
    let storage = over(disk.clone());
    let log = storage.create_log("log", BYTES).unwrap();
    log.write_at(0, &[1; 64]).unwrap();
    log.write_at(64, &[2; 100]).unwrap();
    drop(log);
    let before = disk.read_all("log").unwrap();
    let log = storage.open_log("log").unwrap();
    log.write_at(64, &[2; 100]).unwrap();
    log.sync().unwrap();
    assert!(disk.read_all("log").unwrap() == before);
    for (offset, bytes) in [(64, [3; 100]), (100, [2; 100]), (164, [2; 100])] {
        assert!(log.write_at(offset, &bytes).is_err(), "{offset}");
    }
    assert!(disk.read_all("log").unwrap() == before);
}

#[test]
fn a_damaged_record_reads_as_ones_and_those_after_it_as_they_were() {
    let disk = FaultStorage::new(Rng::new(1));
    let storage = over(disk.clone());
    let log = storage.create_log("log", BYTES).unwrap();
    for (number, offset) in [(1, 0), (2, 64), (3, 128), (4, 192)] {
        log.write_at(offset, &[number; 64]).unwrap();
    }
    // Behind the header of 88 bytes, records of 64 + 32.
    for (damaged, at) in [(2, 88 + 96 + 20), (2, 88 + 96), (2, 88 + 96 + 4), (2, 88 + 96 + 90)] {
        disk.bit_flip("log", at, 3);
        let found = read(&storage, "log");
        for number in 1..=4u8 {
            let expected = if number == damaged { 0xFF } else { number };
            assert!(
                found[64 * (usize::from(number) - 1)..][..64] == [expected; 64],
                "{number} {at}"
            );
        }
        assert!(found[256..].iter().all(|&byte| byte == 0));
        disk.bit_flip("log", at, 3);
    }
    // The last one looks like a torn write.
    disk.bit_flip("log", 88 + 3 * 96 + 40, 3);
    let found = read(&storage, "log");
    assert!(found[128..192] == [3; 64] && found[192..256] == [0xFF; 64]);
    assert!(found[256..].iter().all(|&byte| byte == 0));
}

/// The earlier records are still in the file, under another key. What they say is nowhere.
#[test]
fn a_log_that_is_used_again_has_its_new_writes_only() {
    let disk = FaultStorage::new(Rng::new(1));
    let storage = over(disk.clone());
    assert!(storage.recycles_logs());
    let old = storage.create_log("old", BYTES).unwrap();
    let mut end = 0;
    for write in writes(1) {
        old.write_at(end, &write).unwrap();
        end += write.len() as u64;
    }
    old.sync().unwrap();
    drop(old);
    let log = storage.recycle_log("old", "new", BYTES).unwrap().expect("it has the length");
    assert!(!storage.exists("old").unwrap());
    let (mut expected, mut end) = (Vec::new(), 0);
    for write in writes(2).into_iter().take(20) {
        log.prepare(end + write.len() as u64, Pace::AheadOfSyncs).unwrap();
        log.write_at(end, &write).unwrap();
        end += write.len() as u64;
        expected.extend(write);
    }
    log.sync().unwrap();
    for image in [disk.clone(), disk.crash_image(Rng::new(5))] {
        let found = read(&over(image), "new");
        assert_eq!(found.len() as u64, BYTES);
        assert!(found.starts_with(&expected));
        let rest = &found[expected.len()..];
        assert!(rest.iter().all(|&byte| byte == 0xFF || byte == 0), "something else is readable");
    }
}

#[test]
fn a_log_is_used_again_with_its_key_and_its_length_only() {
    let disk = FaultStorage::new(Rng::new(1));
    let before = EncryptedStorage::new(Arc::new(disk.clone()), keys(&[1]));
    for name in ["a", "b"] {
        before.create_log(name, BYTES).unwrap().write_at(0, &[7; 100]).unwrap();
    }
    assert!(before.recycle_log("a", "c", 2 * BYTES).unwrap().is_none(), "another length");
    let error = before.recycle_log("a", "b", BYTES).map(drop).unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::AlreadyExists));
    let error = before.recycle_log("x", "c", BYTES).map(drop).unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::NotFound));
    // A new key comes first.
    let after = EncryptedStorage::new(Arc::new(disk.clone()), keys(&[2, 1]));
    assert!(after.recycle_log("a", "c", BYTES).unwrap().is_none(), "an old key");
    assert!(before.recycle_log("a", "c", BYTES).unwrap().is_some());
}
