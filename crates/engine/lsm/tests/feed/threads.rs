//! Writers, flushes and readers at once.

use crate::support::*;
use esker_lsm::{ChangeEvent, Db, Log, SyncPolicy};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WRITERS: u32 = 4;
const WRITES: u32 = 3_000;

#[test]
fn readers_see_every_batch_of_concurrent_writers_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings().log(Log::File { dir: None, sync: SyncPolicy::Os });
    let db = Db::open(dir.path(), settings).unwrap();
    let total = u64::from(WRITERS * WRITES * 2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = ["a", "b"].map(|name| {
            let mut consumer = db.change_consumer(name, 1 << 40).unwrap();
            scope.spawn(move || {
                let (mut mirror, mut last) = (Mirror::new(), 0);
                while last < total {
                    let event = consumer.next(Duration::from_secs(60)).unwrap().expect("an event");
                    let ChangeEvent::Batch(batch) = &event else { panic!("{event:?}") };
                    assert_eq!((batch.first_seqno(), batch.changes().count()), (last + 1, 2));
                    last = batch.last_seqno();
                    mirror.apply(&event);
                    if last % 4_096 == 0 {
                        consumer.acknowledge(last).unwrap();
                    }
                }
                assert!(consumer.next(Duration::ZERO).unwrap().is_none());
                mirror
            })
        });
        let writers = [0; WRITERS as usize].map(|_| ()).into_iter().enumerate().map(|(id, ())| {
            let db = db.clone();
            scope.spawn(move || {
                for number in 0..WRITES {
                    let mut batch = db.batch();
                    let key = number % 50;
                    batch.put(&db.default_keyspace(), key.to_be_bytes(), [id as u8; 100]);
                    batch.put(&db.default_keyspace(), [id as u8, 1], number.to_be_bytes());
                    db.write(&batch).unwrap();
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Mirror::of(&db));
        }
    });
    assert!(done.into_inner() && db.stats().flushes > 3);
}

/// A reader that sleeps is woken by a write, and by the close.
#[test]
fn a_reader_that_sleeps_is_woken() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    let mut changes = db.changes(1).unwrap();
    let (saw, seen) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let event = changes.next(Duration::from_secs(600)).unwrap().expect("an event");
            saw.send(event.seqno()).unwrap();
            changes.next(Duration::from_secs(600))
        });
        db.default_keyspace().put("a", "1").unwrap();
        // A close flushes and removes the log: a reader that has not read yet would find the write
        // gone.
        assert_eq!(seen.recv(), Ok(1));
        db.close().unwrap();
        assert!(reader.join().unwrap().is_err());
    });
}
