//! A power loss in every call: what recovery keeps, the feed yields, and nothing else.

use crate::support::*;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Log, SyncPolicy};
use esker_storage::FaultStorage;
use esker_storage::fault::FaultKind;

const NAME: &str = "c";

/// Registers, writes, flushes, acknowledges, drops and registers again.
fn run(db: &Db) -> Result<()> {
    let consumer = db.change_consumer(NAME, 1 << 30)?;
    let users = db.keyspace("users", appending())?;
    for round in 0..4_u8 {
        for key in 0..6_u8 {
            users.put([key], vec![round; 4_000])?;
            users.merge([key], [round])?;
        }
        db.flush()?;
        if round == 1 {
            consumer.acknowledge(6)?;
        }
    }
    let other = db.keyspace("other", appending())?;
    other.put("a", "1")?;
    db.drop_keyspace(&other)?;
    users.put("last", "1")?;
    db.drop_change_consumer(NAME)?;
    let again = db.change_consumer(NAME, 1 << 30)?;
    users.put("later", "2")?;
    db.flush()?;
    again.acknowledge(last_seqno(db))
}

/// Replays what the consumer has onto the database as it was where it acknowledged.
fn check(disk: &FaultStorage, history: &[Mirror], call: u64) -> bool {
    let db = open_as(disk, settings()).unwrap_or_else(|error| panic!("call {call}: {error}"));
    let Ok(mut consumer) = db.open_change_consumer(NAME) else {
        // Not registered, or dropped: then nothing is kept.
        assert!(db.change_consumers().is_empty());
        return false;
    };
    let from = consumer.next_seqno() - 1;
    let mut mirror = history[from as usize].clone();
    let last = mirror.follow(&mut consumer, from).unwrap_or_else(|error| panic!("{call}: {error}"));
    assert_eq!(last, last_seqno(&db), "call {call}");
    assert_eq!(mirror, Mirror::of(&db), "call {call}");
    // It goes on.
    db.default_keyspace().put("more", "1").unwrap();
    mirror.follow(&mut consumer, last).unwrap();
    assert_eq!(mirror, Mirror::of(&db), "call {call}");
    true
}

/// The database after each seqno, as a reader that goes on there finds it: with all changes of keyspaces up to
/// that seqno that come before the events which the reader gets.
fn history() -> (Vec<Mirror>, u64) {
    let disk = disk();
    let db = open(&disk);
    let _keeps = db.change_consumer("all", 1 << 40).unwrap();
    let mut changes = db.changes(1).unwrap();
    let before = disk.operations();
    run(&db).unwrap();
    let calls = disk.operations() - before;
    let (mut history, mut mirror) = (vec![Mirror::new()], Mirror::new());
    while let Some(event) = changes.try_next().unwrap() {
        mirror.apply(&event);
        if let esker_lsm::ChangeEvent::Batch(batch) = &event {
            history.resize(batch.last_seqno() as usize + 1, mirror.clone());
        }
    }
    (history, calls)
}

#[test]
fn a_power_loss_in_any_call_leaves_a_feed_of_what_recovery_keeps() {
    let (history, calls) = history();
    assert!(calls > 60, "{calls}");
    let mut checked = 0;
    for call in 0..calls {
        for seed in 0..2 {
            let disk = FaultStorage::new(Rng::new(call * 7 + seed));
            let db = open(&disk);
            disk.crash_after(call);
            let _ = run(&db);
            drop(db);
            checked += u64::from(check(&disk.crash(), &history, call));
        }
    }
    assert!(checked > calls, "{checked} of {calls}");
}

/// The same with a call that fails, after which the process is killed: what was appended is there.
#[test]
fn a_failed_call_and_a_kill_leave_a_feed_of_what_recovery_keeps() {
    let (history, calls) = history();
    for call in 0..calls {
        let disk = FaultStorage::new(Rng::new(call));
        let db = open(&disk);
        disk.fail_after(call, FaultKind::Io);
        let _ = run(&db);
        let disk = disk.kill();
        drop(db);
        check(&disk, &history, call);
    }
}

/// Tables are synced at a flush, and without a consumer the log need not be.
#[test]
fn a_kept_log_is_as_durable_as_the_tables_with_its_writes() {
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    let disk = disk();
    let db = open_as(&disk, settings().log(log.clone())).unwrap();
    let _consumer = db.change_consumer(NAME, 1 << 30).unwrap();
    for key in 0..10_u8 {
        db.default_keyspace().put([key], vec![key; 4_000]).unwrap();
    }
    db.flush().unwrap();
    let flushed = Mirror::of(&db);
    for seed in 0..8 {
        let db = open_as(&disk.crash_image(Rng::new(seed)), settings().log(log.clone())).unwrap();
        let mut mirror = Mirror::new();
        let mut consumer = db.open_change_consumer(NAME).unwrap();
        mirror.follow(&mut consumer, 0).unwrap();
        assert_eq!(mirror, flushed);
    }
}
