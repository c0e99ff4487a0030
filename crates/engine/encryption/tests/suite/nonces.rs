//! A nonce is used for one text only.

use crate::spy::Spy;
use crate::{expect, keys, small, write};
use esker_base::{FileKind, Rng, WriteHint};
use esker_encryption::EncryptedStorage;
use esker_lsm::{Db, Env};
use esker_storage::{FaultStorage, MemoryStorage, Storage};
use std::sync::Arc;

#[test]
#[should_panic(expected = "other bytes at 88")]
fn the_spy_sees_a_position_that_is_written_twice() {
    let spy = Spy::default();
    let storage = spy.over(MemoryStorage::new());
    let log = storage.create_log("log", 1000).unwrap();
    log.write_at(0, &[7; 88]).unwrap();
    log.write_at(88, b"one").unwrap();
    log.write_at(88, b"two").unwrap();
}

#[test]
fn a_file_that_is_made_again_has_another_key() {
    let spy = Spy::default();
    let memory = MemoryStorage::new();
    let storage = EncryptedStorage::new(Arc::new(spy.over(memory)), keys(&[1]));
    for round in 0..3u8 {
        for kind in [FileKind::Table, FileKind::Meta] {
            let mut file = storage.create("same", WriteHint::of(kind)).unwrap();
            for _ in 0..3 {
                file.append(&[round; 5000]).unwrap();
                file.sync().unwrap();
            }
            storage.remove("same").unwrap();
        }
        let log = storage.create_log("same", 10_000).unwrap();
        log.write_at(0, &[round; 64]).unwrap();
        storage.remove("same").unwrap();
    }
    assert_eq!(spy.files(), 9);
}

#[test]
fn power_losses_and_failed_writes_of_a_database_lead_to_no_second_use() {
    let spy = Spy::default();
    let mut disk = FaultStorage::new(Rng::new(3));
    let mut rng = Rng::new(4);
    for round in 0..20 {
        let storage = EncryptedStorage::new(Arc::new(spy.over(disk.clone())), keys(&[1]));
        let db = Db::open_with(Env::over(Arc::new(storage)), small()).unwrap();
        write(&db, round);
        db.flush().unwrap();
        // Some of these writes fail, in the middle of whatever the background does.
        let kind = esker_storage::fault::FaultKind::ShortWrite;
        match round % 3 {
            0 => disk.fail_after(rng.below(300), kind),
            1 => disk.crash_after(rng.below(300)),
            _ => {}
        }
        let extra = db.keyspace("extra", Default::default());
        for number in 0..200u32 {
            let put = extra.as_ref().map(|extra| extra.put(number.to_be_bytes(), [1; 50]));
            if !matches!(put, Ok(Ok(()))) {
                break;
            }
        }
        let image = disk.crash();
        drop(db);
        disk = image;
        let storage = EncryptedStorage::new(Arc::new(spy.over(disk.clone())), keys(&[1]));
        let db = Db::open_with(Env::over(Arc::new(storage)), small()).unwrap();
        expect(&db, round);
        drop(db);
        disk = disk.kill();
    }
    assert!(spy.files() > 100);
}
