//! Files that are appended to, and read at any place.

use crate::{keys, over};
use esker_base::{Error, FileKind, Rng, WriteHint};
use esker_encryption::EncryptedStorage;
use esker_storage::{FaultStorage, MemoryStorage, ReadableFile, Storage};
use std::sync::Arc;

const KINDS: [FileKind; 3] = [FileKind::Table, FileKind::Scratch, FileKind::Manifest];

fn write(storage: &dyn Storage, name: &str, kind: FileKind, bytes: &[u8]) {
    let mut file = storage.create(name, WriteHint::of(kind)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    storage.sync_names().unwrap();
}

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    Rng::new(seed).fill(&mut out);
    out
}

#[track_caller]
fn expect_reads(file: &dyn ReadableFile, expected: &[u8], rng: &mut Rng) {
    assert_eq!(file.len().unwrap(), expected.len() as u64);
    for _ in 0..20 {
        let start = rng.below(expected.len() as u64 + 1) as usize;
        let end = start + rng.below((expected.len() - start) as u64 + 1) as usize;
        let mut out = vec![0; end - start];
        file.read_exact_at(start as u64, &mut out).unwrap();
        assert!(out == expected[start..end], "{start}..{end}");
    }
    for start in [expected.len() as u64, u64::MAX] {
        let error = file.read_exact_at(start, &mut [0]).unwrap_err();
        assert!(matches!(error, Error::Corruption { offset, .. } if offset == start), "{error}");
    }
}

#[test]
fn what_was_appended_is_read_back_while_the_file_grows() {
    for kind in KINDS {
        let storage = over(MemoryStorage::new());
        let mut rng = Rng::new(5);
        let mut expected = Vec::new();
        let mut file = storage.create("a", WriteHint::of(kind)).unwrap();
        let growing = storage.open("a").unwrap();
        for round in 0..60u32 {
            let bytes = random(u64::from(round), rng.below(1 << (round % 19)) as usize);
            file.append(&bytes).unwrap();
            expected.extend_from_slice(&bytes);
            assert_eq!(file.len(), expected.len() as u64);
            if round % 7 == 0 {
                if round % 2 == 0 { file.sync() } else { file.publish() }.unwrap();
                expect_reads(&*growing, &expected, &mut rng);
                expect_reads(&*storage.open("a").unwrap(), &expected, &mut rng);
            }
        }
        file.sync().unwrap();
        expect_reads(&*storage.open_for_caching("a").unwrap(), &expected, &mut rng);
    }
}

#[test]
fn every_length_is_kept() {
    for kind in KINDS {
        let storage = over(MemoryStorage::new());
        let lengths = [0, 1, 7, 8, 9, 4063, 4064, 4065, 8128, 65535, 65536, 65537, 200_000];
        for length in lengths {
            let (name, bytes) = (length.to_string(), random(3, length));
            write(&storage, &name, kind, &bytes);
            expect_reads(&*storage.open(&name).unwrap(), &bytes, &mut Rng::new(1));
        }
    }
}

/// What a read of the whole file shows of damage: an error, or `0xFF`.
fn shows_damage(storage: &dyn Storage, name: &str, expected: &[u8]) -> bool {
    let file = storage.open(name).unwrap();
    let Ok(length) = file.len() else { return true };
    let mut found = vec![0; length as usize];
    match file.read_exact_at(0, &mut found) {
        Err(error) => error.is_corruption(),
        // Only a tail may be missing, and nothing else may be there.
        Ok(()) => {
            assert!(found.iter().zip(expected).all(|(a, b)| a == b || *a == 0xFF), "other bytes");
            found != expected
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    for kind in KINDS {
        let disk = FaultStorage::new(Rng::new(1));
        let storage = over(disk.clone());
        let expected = random(9, 9000);
        write(&storage, "a", kind, &expected);
        let whole = disk.read_all("a").unwrap();
        for at in (0..whole.len()).step_by(7).chain(whole.len() - 50..whole.len()) {
            disk.bit_flip("a", at as u64, (at % 8) as u8);
            assert!(shows_damage(&storage, "a", &expected), "{kind:?}: byte {at}");
            disk.write_all("a", &whole);
        }
        assert!(!shows_damage(&storage, "a", &expected));
    }
}

#[test]
fn a_truncated_file_never_has_other_bytes() {
    for kind in KINDS {
        let disk = FaultStorage::new(Rng::new(1));
        let storage = over(disk.clone());
        let expected = random(9, 9000);
        write(&storage, "a", kind, &expected);
        let whole = disk.read_all("a").unwrap();
        for length in (0..whole.len()).step_by(97) {
            disk.write_all("a", &whole[..length]);
            assert!(shows_damage(&storage, "a", &expected), "{kind:?}: {length} bytes");
        }
    }
}

#[test]
fn records_that_are_swapped_within_a_file_or_between_files_are_found() {
    const STRIDE: usize = 4096;
    let disk = FaultStorage::new(Rng::new(1));
    let storage = over(disk.clone());
    let expected = random(9, 20_000);
    write(&storage, "a", FileKind::Table, &expected);
    write(&storage, "b", FileKind::Table, &expected);
    let (a, b) = (disk.read_all("a").unwrap(), disk.read_all("b").unwrap());
    let header = a.len() - (a.len() - 88) / STRIDE * STRIDE - (a.len() - 88) % STRIDE;
    let slot = |number: usize| header + number * STRIDE..header + (number + 1) * STRIDE;
    let mut swapped = a.clone();
    swapped[slot(0)].copy_from_slice(&a[slot(1)]);
    swapped[slot(1)].copy_from_slice(&a[slot(0)]);
    let mut foreign = a.clone();
    foreign[slot(2)].copy_from_slice(&b[slot(2)]);
    for changed in [swapped, foreign] {
        disk.write_all("a", &changed);
        assert!(shows_damage(&storage, "a", &expected));
    }
    // The header of another file goes with no record of this one.
    let mut headed = a.clone();
    headed[..header].copy_from_slice(&b[..header]);
    disk.write_all("a", &headed);
    assert!(shows_damage(&storage, "a", &expected));
}

#[test]
fn a_file_is_read_with_its_own_key_only() {
    let memory = MemoryStorage::new();
    for kind in KINDS {
        let name = format!("{kind:?}");
        write(&over(memory.clone()), &name, kind, b"secret");
        let other = EncryptedStorage::new(Arc::new(memory.clone()), keys(&[2]));
        let read = other.open(&name).unwrap().read_exact_at(0, &mut [0; 6]).unwrap_err();
        assert!(matches!(read, Error::Encryption(_)), "{read}");
        let both = EncryptedStorage::new(Arc::new(memory.clone()), keys(&[2, 1]));
        let mut out = [0; 6];
        both.open(&name).unwrap().read_exact_at(0, &mut out).unwrap();
        assert_eq!(&out, b"secret");
        assert!(both.has_old_key(&name).unwrap());
        assert!(!over(memory.clone()).has_old_key(&name).unwrap());
    }
    write(&memory, "plain", FileKind::Table, &[7; 500]);
    let read = over(memory).open("plain").unwrap().read_exact_at(0, &mut [0; 6]).unwrap_err();
    assert!(read.is_corruption(), "{read}");
}

#[test]
fn a_file_goes_as_it_is_to_a_storage_of_the_same_keys_and_to_no_other() {
    let (here, there) = (MemoryStorage::new(), MemoryStorage::new());
    let (source, target) = (over(here.clone()), over(there.clone()));
    write(&source, "a", FileKind::Table, b"shared");
    source.link_to("a", &target).unwrap();
    let read = |storage: &dyn Storage| {
        let file = storage.open("a").unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(read(&target), b"shared");
    assert_eq!(read(&here), read(&there));
    let plain = MemoryStorage::new();
    let refused = source.link_to("a", &plain).unwrap_err();
    assert!(matches!(refused, Error::Encryption(_)), "{refused}");
    assert!(plain.list().unwrap().is_empty());
}
