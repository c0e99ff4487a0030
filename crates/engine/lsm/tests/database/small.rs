//! A database that holds little takes little, and grows as it fills.

use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use esker_storage::FaultStorage;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put(db: &Db, number: u32) -> Result<()> {
    db.put(&db.default_keyspace(), key(number), [7; 100])
}

fn has(db: &Db, number: u32) -> bool {
    db.get(&db.default_keyspace(), key(number)).unwrap().is_some()
}

/// What the files of a directory take on the device, in bytes.
fn allocated(dir: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[test]
fn a_thousand_pairs_take_about_a_mebibyte_of_memory_and_of_disk() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Settings::default()).unwrap();
    (0..1000).for_each(|number| put(&db, number).unwrap());
    let held = db.stats().memtable_bytes;
    assert!(held < 2 << 20, "{held} bytes of MemTables");
    let on_disk = allocated(dir.path());
    assert!(on_disk < 3 << 20, "{on_disk} bytes of files");
}

#[test]
fn a_segment_grows_as_it_fills_and_the_next_is_prepared_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings::default().segment_bytes(2 << 20);
    let db = Db::open(dir.path(), settings.clone()).unwrap();
    for number in 0..60_000 {
        put(&db, number).unwrap();
    }
    assert!((0..60_000).all(|number| has(&db, number)));
    drop(db);
    let db = Db::open(dir.path(), settings).unwrap();
    assert!((0..60_000).all(|number| has(&db, number)));
}

#[test]
fn a_batch_larger_than_the_room_there_is_waits_until_the_segment_has_grown() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Settings::default()).unwrap();
    let keyspace = db.default_keyspace();
    let value = vec![9; 10 << 20];
    db.put(&keyspace, b"large", &value).unwrap();
    let mut batch = db.batch();
    (0..100_000u32).for_each(|number| batch.put(&keyspace, key(number), b""));
    db.write(&batch).unwrap();
    assert_eq!(db.get(&keyspace, b"large").unwrap().as_deref(), Some(&value[..]));
    assert!((0..100_000).all(|number| has(&db, number)));
}

#[test]
fn a_segment_with_its_most_range_deletes_is_followed_by_another_however_little_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Settings::default()).unwrap();
    let keyspace = db.default_keyspace();
    for number in 0..1500 {
        put(&db, number).unwrap();
        db.delete_range(&keyspace, key(number)..key(number + 1)).unwrap();
    }
    // A flush that is just ending is counted a little later than its MemTable is gone.
    db.wait_for_compactions().unwrap();
    assert!(db.stats().flushes > 0);
    assert!(!(0..1500).any(|number| has(&db, number)));
}

#[test]
fn a_log_that_is_not_whole_is_not_used_again() {
    let storage = FaultStorage::new(Rng::new(3));
    let db = over(&storage);
    // The first segment is filled, so that those after the next are whole from the start.
    (0..10_000).for_each(|number| put(&db, number).unwrap());
    db.flush().unwrap();
    for round in 0..4 {
        put(&db, round).unwrap();
        db.flush().unwrap();
        (0..10_000).for_each(|number| put(&db, number).unwrap());
    }
    let after = over(&storage.crash());
    assert!(after.torn_tail().is_none(), "what is left of a file's last use is no damage");
    assert!((0..10_000).all(|number| has(&after, number)));
}

fn over(storage: &FaultStorage) -> Db {
    let env = Env::over(Arc::new(storage.clone())).background(Arc::new(Stepped));
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    let settings = Settings::default().log(log).segment_bytes(1 << 20);
    Db::open_with(env, settings).unwrap()
}

#[test]
fn a_full_disk_shows_before_a_write_is_promised_a_place_in_the_next_step() {
    let storage = FaultStorage::new(Rng::new(1));
    let db = over(&storage);
    put(&db, 0).unwrap();
    storage.set_space_limit(Some(storage.used_bytes() + 100_000));
    let mut written = 1;
    let error = loop {
        match put(&db, written) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_out_of_space(), "{error}");
    assert!(written > 300, "{written} were written");
    assert!((0..written).all(|number| has(&db, number)) && !has(&db, written));
    assert!(put(&db, written).unwrap_err().is_out_of_space(), "it is tried again, and fails again");
    // As a power loss would leave it: what was acknowledged is there, and nothing else.
    let after = over(&storage.crash_image(Rng::new(2)));
    assert!((0..written).all(|number| has(&after, number)) && !has(&after, written));

    storage.set_space_limit(None);
    for number in written..20_000 {
        put(&db, number).unwrap();
    }
    let after = over(&storage.crash());
    assert!((0..20_000).all(|number| has(&after, number)));
}

#[test]
fn the_flush_of_a_log_that_cannot_grow_makes_room() {
    let storage = FaultStorage::new(Rng::new(3));
    let db = over(&storage);
    put(&db, 0).unwrap();
    // Less than the segment needs, and enough for a table of what is in it.
    storage.set_space_limit(Some(storage.used_bytes() + 300_000));
    (1..4_000).for_each(|number| put(&db, number).unwrap());
    assert!(db.stats().flushes > 0);
    let after = over(&storage.crash_image(Rng::new(4)));
    assert!((0..4_000).all(|number| has(&after, number)));
}
