//! Value files, as `docs/formats/values.md` describes them. Of version 1: values as they are, and one of each
//! compression. Of version 2: a large value, in one block and in three.

use super::large_value::LargeValueFile;
use super::value_output::ValueOutput;
use crate::fold::values::Values;
use crate::version::{ValueFile, ValueFileMeta, ValueFiles, describe_value_file, value_file_name};
use esker_base::checksum::crc32c;
use esker_base::{KeyspaceId, ValuePlace, WriteHint};
use esker_storage::{MemoryStorage, Storage};
use esker_table::Compression;
use std::sync::Arc;

const FILE: u64 = 7;
const GOLDEN: &[u8] = include_bytes!("../../tests/golden/version_1.values");

/// Where a value is: offset, bytes, compression and checksum.
type Place = (u64, u64, u8, u32);

/// The values, with their places.
fn values() -> [(Vec<u8>, Place); 4] {
    [
        (b"a value".to_vec(), (30, 7, 0, 0x1b9a_37fd)),
        ((0..200).collect(), (44, 200, 0, 0x63f9_b3c1)),
        (vec![b'a'; 100], (250, 15, 1, 0x6379_2a92)),
        (vec![b'b'; 100], (271, 14, 2, 0x76e1_9efd)),
    ]
}

fn place(value: &[u8], (offset, bytes, compression, checksum): Place) -> ValuePlace {
    let value_bytes = value.len() as u64;
    ValuePlace { file: FILE, offset, bytes, compression, value_bytes, checksum }
}

fn storage_of(bytes: &[u8]) -> Arc<dyn Storage> {
    let storage = MemoryStorage::new();
    let mut file = storage.create(&value_file_name(FILE), WriteHint::table(0)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    Arc::new(storage)
}

#[test]
fn a_value_file_of_version_1_is_read_for_ever() {
    let storage = storage_of(GOLDEN);
    let meta = describe_value_file(&*storage, FILE).unwrap();
    let value_bytes = values().iter().map(|(_, (_, bytes, ..))| bytes).sum();
    let expected =
        ValueFileMeta { values: 4, value_bytes, ..ValueFileMeta::new(FILE, GOLDEN.len() as u64) };
    assert_eq!(meta, expected);
    ValueFile::new(storage.clone(), &meta).verify().unwrap();
    let mut files = ValueFiles::default();
    files.add(KeyspaceId(1), meta, &storage).unwrap();
    for (value, at) in values() {
        assert_eq!(files.read(&place(&value, at).encode()).unwrap(), value);
    }
}

#[test]
fn a_value_file_of_version_1_is_written() {
    let storage = MemoryStorage::new();
    let create = || Ok((FILE, storage.create(&value_file_name(FILE), WriteHint::table(0))?));
    let files = ValueFiles::default();
    let mut output = ValueOutput::new(Some(1), Compression::None, files, create);
    for (value, at) in &values()[..2] {
        assert_eq!(output.put(value).unwrap(), place(value, *at));
    }
    output.finish().unwrap();
    let file = storage.open(&value_file_name(FILE)).unwrap();
    let mut written = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut written).unwrap();
    assert!(written.len() > 200 && GOLDEN.starts_with(&written));
}

#[test]
fn a_damaged_byte_fails_what_it_is_part_of() {
    for at in 0..GOLDEN.len() {
        let mut bytes = GOLDEN.to_vec();
        bytes[at] ^= 1;
        let storage = storage_of(&bytes);
        let meta = describe_value_file(&*storage_of(GOLDEN), FILE).unwrap();
        let file = ValueFile::new(storage.clone(), &meta);
        assert!(file.verify().unwrap_err().is_corruption(), "{at}");
        for (value, place_of) in values() {
            let (offset, bytes, ..) = place_of;
            let is_lost = (offset..offset + bytes).contains(&(at as u64));
            let read = file.read(&place(&value, place_of));
            match read {
                Ok(read) => assert!(!is_lost && read == value, "{at}"),
                Err(error) => {
                    let named = error.to_string().contains(&format!("offset {offset}"));
                    assert!(is_lost && error.is_corruption() && named, "{at}: {error}");
                }
            }
        }
        // What the heads say is never more than the file.
        let described = describe_value_file(&*storage, FILE).unwrap();
        assert!(described.value_bytes <= described.bytes, "{at}: {described:?}");
    }
}

const GOLDEN_IN_BLOCKS: &[u8] = include_bytes!("../../tests/golden/version_2.values");

/// The value of the golden file of version 2.
fn large_value() -> Vec<u8> {
    (0..300_u32).map(|n| (n * 7) as u8).collect()
}

/// Its place there.
fn large_place() -> ValuePlace {
    ValuePlace::in_blocks(FILE, 24, 304, 300, 0x18d2_07ec)
}

fn written_in_blocks(value: &[u8]) -> (Vec<u8>, ValuePlace, ValueFileMeta) {
    let storage = MemoryStorage::new();
    let file = storage.create(&value_file_name(FILE), WriteHint::table(0)).unwrap();
    let mut file = LargeValueFile::begin(FILE, file).unwrap();
    value.chunks(LargeValueFile::BLOCK_BYTES).for_each(|block| file.add(block).unwrap());
    let (place, meta) = file.finish().unwrap();
    let file = storage.open(&value_file_name(FILE)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    (bytes, place, meta)
}

#[test]
fn a_value_file_of_version_2_is_read_for_ever() {
    let storage = storage_of(GOLDEN_IN_BLOCKS);
    let meta = describe_value_file(&*storage, FILE).unwrap();
    let (values, value_bytes, in_blocks) = (1, 304, true);
    let file = ValueFileMeta::new(FILE, 344);
    assert_eq!(meta, ValueFileMeta { values, value_bytes, in_blocks, ..file });
    let file = ValueFile::new(storage, &meta);
    file.verify().unwrap();
    assert_eq!(file.read(&large_place()).unwrap(), large_value());
}

#[test]
fn a_value_file_of_version_2_is_written() {
    let (bytes, place, meta) = written_in_blocks(&large_value());
    assert_eq!(bytes, GOLDEN_IN_BLOCKS);
    assert_eq!((place, meta.bytes), (large_place(), 344));
}

/// What the page says, by hand.
#[test]
fn the_blocks_of_a_value_are_where_the_page_says() {
    let value: Vec<u8> = (0..2 * 262_144 + 1_u32).map(|n| (n / 13) as u8).collect();
    let (bytes, place, _) = written_in_blocks(&value);
    let mut sums = FILE.to_le_bytes().to_vec();
    let mut at = 24;
    for block in value.chunks(262_144) {
        let mut covered = [FILE.to_le_bytes(), (at as u64).to_le_bytes()].concat();
        covered.push(3);
        covered.extend_from_slice(block);
        let checksum = crc32c(&covered).to_le_bytes();
        assert!(bytes[at..at + block.len()] == *block);
        assert_eq!(bytes[at + block.len()..at + block.len() + 4], checksum);
        at += block.len() + 4;
        sums.extend_from_slice(&checksum);
    }
    let mut trailer = (value.len() as u64).to_le_bytes().to_vec();
    trailer.extend_from_slice(&crc32c(&sums).to_le_bytes());
    let covered = [&FILE.to_le_bytes()[..], &trailer].concat();
    trailer.extend_from_slice(&crc32c(&covered).to_le_bytes());
    assert_eq!(bytes[at..], trailer);
    assert_eq!((place.offset, place.bytes), (24, at as u64 - 24));
}

/// Its blocks are right, and another value was there when the table was written.
#[test]
fn blocks_that_are_not_of_the_value_are_refused() {
    let meta = describe_value_file(&*storage_of(GOLDEN_IN_BLOCKS), FILE).unwrap();
    let file = ValueFile::new(storage_of(GOLDEN_IN_BLOCKS), &meta);
    let other = ValuePlace { checksum: large_place().checksum ^ 1, ..large_place() };
    assert!(file.read(&other).unwrap_err().is_corruption());
    assert!(file.check(&other).unwrap_err().is_corruption());
}

#[test]
fn a_damaged_byte_of_version_2_fails_what_it_is_part_of() {
    let meta = describe_value_file(&*storage_of(GOLDEN_IN_BLOCKS), FILE).unwrap();
    for at in 0..GOLDEN_IN_BLOCKS.len() {
        let mut bytes = GOLDEN_IN_BLOCKS.to_vec();
        bytes[at] ^= 1;
        let file = ValueFile::new(storage_of(&bytes), &meta);
        assert!(file.verify().unwrap_err().is_corruption(), "{at}");
        let is_lost = (24..328).contains(&at);
        assert_eq!(file.read(&large_place()).is_err(), is_lost, "{at}");
        assert_eq!(file.check(&large_place()).is_err(), is_lost, "{at}");
    }
}
