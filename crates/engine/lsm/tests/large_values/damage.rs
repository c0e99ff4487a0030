//! A damaged or missing file of a large value.

use crate::support::*;
use esker_base::background::Stepped;
use esker_base::{Error, WriteHint};
use esker_lsm::inspect::{Inspector, MissingLogPolicy};
use esker_lsm::manifest::version_edit::VersionChange;
use esker_lsm::{Db, Env};
use esker_storage::{MemoryStorage, Storage};
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

const BYTES: usize = 3 * BLOCK;

/// A database with two large values and others, whose file of `v` is changed while it is closed.
fn changed(change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) -> (World, String) {
    let world = World::new();
    world.put("v", &large("v", BYTES));
    let name = world.value_files().remove(0);
    world.put("other", &large("other", BYTES));
    world.put("small", b"small");
    let World { storage, db, .. } = world;
    db.close().unwrap();
    let file = storage.open(&name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    drop(file);
    storage.remove(&name).unwrap();
    if let Some(bytes) = change(bytes) {
        let mut file = storage.create(&name, WriteHint::table(0)).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
    }
    let db = open(&storage);
    let keyspace = db.open_keyspace("k").unwrap();
    (World { storage, db, keyspace }, name)
}

fn remove_manifests(storage: &MemoryStorage) {
    for name in storage.list().unwrap() {
        if name.contains("manifest") || name == "CURRENT" {
            storage.remove(&name).unwrap();
        }
    }
}

fn repaired(storage: &Arc<MemoryStorage>) -> World {
    let inspector = Inspector::of(storage.clone(), storage.clone());
    inspector.repair(MissingLogPolicy::Refuse).unwrap();
    let db = open(storage);
    let keyspace = db.open_keyspace("k").unwrap();
    World { storage: storage.clone(), db, keyspace }
}

/// Reads fail and name the file, and the offset of what is damaged. Everything else goes on. A check names the
/// key, and a repair keeps the rest.
#[track_caller]
fn expect_lost(world: World, name: &str, offset: u64) {
    let error = world.keyspace.get("v").unwrap_err();
    let Error::Corruption { file, offset: at, .. } = &error else { panic!("{error}") };
    assert!(file.contains(name) && *at == offset, "{error}");
    world.expect("other", &large("other", BYTES));
    world.expect("small", b"small");
    world.put("later", &large("later", BYTES));
    world.db.compact().unwrap();
    let storage = world.storage.clone();
    let problems = world.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains(name) && problems[0].contains("\"v\""), "{problems:?}");
    let world = repaired(&storage);
    assert!(world.keyspace.get("v").unwrap().is_none());
    world.expect("other", &large("other", BYTES));
    world.expect("small", b"small");
    world.expect("later", &large("later", BYTES));
    assert_eq!(world.problems(), [""; 0]);
}

/// The offset of a block.
fn block(number: usize) -> usize {
    24 + number * (BLOCK + 4)
}

#[test]
fn a_flipped_bit_fails_its_block_and_the_error_names_it() {
    for at in [block(1) + 77, block(2) - 1] {
        let (world, name) = changed(|mut bytes| {
            bytes[at] ^= 1;
            Some(bytes)
        });
        let number = (at - 24) / (BLOCK + 4);
        let mut reader = world.keyspace.get_reader("v").unwrap().unwrap();
        let mut read = Vec::new();
        let error = reader.read_to_end(&mut read).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert!(read == large("v", BYTES)[..number * BLOCK], "what comes before is right");
        // It fails again, and goes on with nothing else.
        assert!(reader.read(&mut [0]).is_err());
        drop(reader);
        expect_lost(world, &name, block(number) as u64);
    }
}

/// What the read of a damaged block left is not taken for the block that was read before.
#[test]
fn a_reader_goes_back_from_a_damaged_block_to_the_one_before() {
    let (world, _) = changed(|mut bytes| {
        bytes[block(2) + 77] ^= 1;
        Some(bytes)
    });
    let value = large("v", BYTES);
    let mut reader = world.keyspace.get_reader("v").unwrap().unwrap();
    for from in [0, BLOCK, 0] {
        for _ in 0..2 {
            reader.seek(SeekFrom::Start(from as u64)).unwrap();
            let mut read = [0; 100];
            reader.read_exact(&mut read).unwrap();
            assert_eq!(read, value[from..from + 100], "{from}");
            reader.seek(SeekFrom::Start(2 * BLOCK as u64)).unwrap();
            assert!(reader.read(&mut read).is_err());
        }
    }
}

#[test]
fn a_missing_file_fails_the_reads_of_its_value_only() {
    let (world, name) = changed(|_| None);
    expect_lost(world, &name, 24);
}

#[test]
fn a_file_that_ends_early_is_damaged_where_it_ends() {
    for (length, offset) in [(block(2) + 9, block(2)), (block(1), block(1)), (10, 24), (0, 24)] {
        let (world, name) = changed(|bytes| Some(bytes[..length].to_vec()));
        expect_lost(world, &name, offset as u64);
    }
}

/// Blocks of another file, which are right there.
#[test]
fn blocks_of_another_value_are_no_blocks_of_this_one() {
    let mut other = Vec::new();
    let world = World::new();
    world.put("filler", &large("filler", BYTES));
    world.put("w", &large("w", BYTES));
    let name = world.value_files().remove(1);
    let file = world.storage.open(&name).unwrap();
    other.resize(file.len().unwrap() as usize, 0);
    file.read_exact_at(0, &mut other).unwrap();
    let (world, name) = changed(|_| Some(other));
    expect_lost(world, &name, 24);
}

#[test]
fn damage_of_the_header_or_of_the_last_bytes_loses_nothing() {
    for at in [0, 9, 13, 21] {
        let (world, _) = changed(|mut bytes| {
            bytes[at] ^= 1;
            let end = bytes.len() - 1 - at / 2;
            bytes[end] ^= 1;
            Some(bytes)
        });
        world.expect("v", &large("v", BYTES));
        assert_eq!(world.problems(), [""; 0]);
    }
}

#[test]
fn a_rebuilt_manifest_has_large_values_and_counts_them() {
    for is_damaged in [false, true] {
        let (world, _) = changed(|mut bytes| {
            let end = bytes.len() - 1;
            bytes[end] ^= u8::from(is_damaged);
            Some(bytes)
        });
        let World { storage, db, .. } = world;
        db.close().unwrap();
        remove_manifests(&storage);
        let world = repaired(&storage);
        world.expect("v", &large("v", BYTES));
        world.expect("other", &large("other", BYTES));
        assert_eq!((world.values().files, world.values().live_values), (2, 2));
        world.put("v", b"small");
        world.db.compact().unwrap();
        assert_eq!(world.value_files().len(), 1);
        world.expect("other", &large("other", BYTES));
        assert_eq!(world.problems(), [""; 0]);
    }
}

/// Tables alone say which of two values is newer, and the upload began before the other was put.
#[test]
fn a_rebuilt_manifest_has_a_large_value_above_what_was_put_during_its_upload() {
    let world = World::new();
    let value = large("v", BYTES);
    let during = Between(Some(|| {
        world.put("other", b"value");
        world.put("v", b"during the upload");
        world.db.flush().unwrap();
    }));
    world.keyspace.put_reader("v", value.chain(during)).unwrap();
    let World { storage, db, .. } = world;
    db.close().unwrap();
    remove_manifests(&storage);
    let world = repaired(&storage);
    world.expect("v", &value);
}

/// The value was acknowledged. So its file is no obsolete one, although nothing names it.
#[test]
fn a_manifest_without_the_edit_of_an_acknowledged_value_keeps_its_file() {
    let world = World::new();
    world.put("small", b"small");
    world.put("v", &large("v", BYTES));
    let name = world.value_files().remove(0);
    let manifest = Inspector::of(world.storage.clone(), world.storage.clone()).manifest().unwrap();
    let adds = |change: &VersionChange| matches!(change, VersionChange::AddValueFile { .. });
    let record = manifest.records.iter().find(|it| it.edit.changes.iter().any(adds)).unwrap();
    let cut = Arc::new(MemoryStorage::new());
    for of in world.storage.list().unwrap() {
        let file = world.storage.open(&of).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        if of.ends_with(".manifest") {
            bytes.truncate(record.offset as usize);
        }
        let mut copy = cut.create(&of, WriteHint::table(0)).unwrap();
        copy.append(&bytes).unwrap();
        copy.sync().unwrap();
    }
    let env = Env::over(cut.clone()).background(Arc::new(Stepped));
    match Db::open_with(env, settings()) {
        Err(error) => assert!(error.is_corruption(), "{error}"),
        Ok(_) => assert!(names(&*cut, ".values").contains(&format!("lost-{name}"))),
    }
    assert!(names(&*cut, ".values").iter().any(|it| it.ends_with(&name)));
}
