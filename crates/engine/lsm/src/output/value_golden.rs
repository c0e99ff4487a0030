//! A value file of version 1, as `docs/formats/values.md` describes it: values as they are, and one of each
//! compression.

use super::value_output::ValueOutput;
use crate::fold::values::Values;
use crate::version::{ValueFile, ValueFileMeta, ValueFiles, describe_value_file, value_file_name};
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
    let expected = ValueFileMeta { file: FILE, bytes: GOLDEN.len() as u64, values: 4, value_bytes };
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
