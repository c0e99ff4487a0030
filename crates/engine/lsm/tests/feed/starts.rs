//! Where a feed starts, and what it says if it cannot.

use crate::support::*;
use esker_base::{ChangesError, Error};
use esker_lsm::{ChangeEvent, Db, Log, SyncPolicy};
use std::time::Duration;

fn put(db: &Db, key: u32, bytes: usize) {
    db.default_keyspace().put(key.to_be_bytes(), vec![1; bytes]).unwrap();
}

fn first(db: &Db, from: u64) -> u64 {
    let mut changes = db.changes(from).unwrap();
    match changes.try_next().unwrap().unwrap() {
        ChangeEvent::Batch(batch) => batch.first_seqno(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_feed_starts_at_the_batch_with_the_seqno() {
    let db = open(&disk());
    let mut batch = db.batch();
    (0..5_u8).for_each(|key| batch.put(&db.default_keyspace(), [key], [key]));
    db.write(&batch).unwrap();
    put(&db, 6, 10);
    assert_eq!([0, 1, 2, 5, 6].map(|from| first(&db, from)), [1, 1, 1, 1, 6]);
    assert!(db.changes(7).unwrap().try_next().unwrap().is_none());
}

#[test]
fn a_seqno_that_no_write_has_is_refused() {
    let db = open(&disk());
    put(&db, 1, 10);
    let error = db.changes(3).unwrap_err().to_string();
    assert!(
        error.contains("seqno 3") && error.contains("the last write of the database is 1"),
        "{error}"
    );
}

#[test]
fn what_was_flushed_is_gone_unless_a_consumer_needs_it() {
    let db = open(&disk());
    put(&db, 1, 10);
    let mut early = db.changes(1).unwrap();
    db.flush().unwrap();
    put(&db, 2, 10);
    assert_eq!(oldest_in(&early.try_next().unwrap_err()), 2);
    assert_eq!(first(&db, 2), 2);
    let _consumer = db.change_consumer("c", 1 << 20).unwrap();
    db.flush().unwrap();
    // The log with the second write was not yet flushed, but before the consumer.
    assert_eq!(oldest_in(&db.changes(2).unwrap().try_next().unwrap_err()), 3);
    put(&db, 3, 10);
    db.flush().unwrap();
    assert_eq!(first(&db, 3), 3);
}

#[test]
fn batches_of_several_frames_and_logs_are_yielded_whole() {
    let db = open(&disk());
    let consumer = db.change_consumer("c", 1 << 20).unwrap();
    put(&db, 0, 10);
    let mut batch = db.batch();
    for key in 0..12_u8 {
        batch.put(&db.default_keyspace(), [key], vec![key; 15_000]);
    }
    db.write(&batch).unwrap();
    put(&db, 1, 10);
    let check = |from: u64| {
        let mut changes = db.changes(from).unwrap();
        let Some(ChangeEvent::Batch(batch)) = changes.try_next().unwrap() else { panic!() };
        assert_eq!((batch.first_seqno(), batch.last_seqno()), (2, 13), "from {from}");
        assert_eq!(batch.changes().count(), 12);
        let Some(ChangeEvent::Batch(batch)) = changes.try_next().unwrap() else { panic!() };
        assert_eq!(batch.first_seqno(), 14);
    };
    check(2);
    check(3);
    db.flush().unwrap();
    check(2);
    check(3);
    let inside = db.changes(13).unwrap().try_next().unwrap_err();
    let Error::Changes(inside) = inside else { panic!("{inside}") };
    assert_eq!(*inside, ChangesError::InsideBatch { wanted: 13, next: 14 });
    // Of the logs with the batch, all or none are kept.
    consumer.acknowledge(13).unwrap();
    assert_eq!(oldest_in(&db.changes(2).unwrap().try_next().unwrap_err()), 14);
}

#[test]
fn a_database_without_a_log_has_no_feed() {
    let db = open_as(&disk(), settings().log(Log::None)).unwrap();
    let error = db.changes(1).unwrap_err().to_string();
    assert!(error.contains("opened without a log"), "{error}");
    let error = db.change_consumer("c", 1 << 20).unwrap_err().to_string();
    assert!(error.contains("\"c\"") && error.contains("opened without a log"), "{error}");
}

/// With syncs on request, visible is not durable.
#[test]
fn a_feed_of_synced_changes_leaves_what_a_power_loss_could_take() {
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    let db = open_as(&disk(), settings().log(log)).unwrap();
    let (mut all, mut synced) = (db.changes(1).unwrap(), db.changes(1).unwrap().synced_only());
    put(&db, 1, 10);
    assert!(all.try_next().unwrap().is_some());
    assert!(synced.try_next().unwrap().is_none());
    db.sync().unwrap();
    assert!(synced.try_next().unwrap().is_some());
}

/// What a failed commit left behind may be in memory, but was not acknowledged.
#[test]
fn a_batch_whose_commit_failed_is_not_yielded() {
    let disk = disk();
    let db = open(&disk);
    let mut changes = db.changes(1).unwrap();
    put(&db, 1, 10);
    disk.fail_after(1, esker_storage::fault::FaultKind::Io);
    db.default_keyspace().put("lost", "lost").unwrap_err();
    let Some(ChangeEvent::Batch(batch)) = changes.try_next().unwrap() else { panic!() };
    assert_eq!(batch.last_seqno(), 1);
    assert!(changes.try_next().unwrap().is_none());
    assert!(matches!(changes.next(Duration::from_secs(60)), Err(Error::LogFailed { .. })));
}

#[test]
fn a_feed_ends_with_its_database() {
    let db = open(&disk());
    put(&db, 1, 10);
    let (mut changes, mut consumer) =
        (db.changes(1).unwrap(), db.change_consumer("c", 1 << 20).unwrap());
    db.close().unwrap();
    assert!(matches!(changes.try_next(), Err(Error::Closed)));
    assert!(matches!(consumer.next(Duration::from_secs(60)), Err(Error::Closed)));
    assert!(matches!(consumer.acknowledge(1), Err(Error::Closed)));
}
