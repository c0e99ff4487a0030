//! Crashes that once went wrong, or that are easy to get wrong.

use crate::common::{disk, env, key, lose_power, open, pairs, put, settings};
use esker_base::Error;
use esker_lsm::{Db, Log, SyncPolicy};
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use esker_storage::FaultStorage;
use esker_storage::fault::FaultKind;
use std::sync::Arc;

/// The calls of an open that are worth cutting; it makes fewer.
const CALLS: u64 = 30;

/// After a failed sync the system shows bytes that the device may not have. A recovery that only
/// synced them again relied on what the next power loss took away.
#[test]
fn what_was_recovered_after_a_failed_sync_survives_the_next_power_loss() {
    for seed in 0..60 {
        let disk = disk(seed);
        let db = open(&disk, SyncPolicy::Always).unwrap();
        put(&db, 1, 1500).unwrap();
        // The put's write succeeds, its sync does not.
        disk.fail_after(1, FaultKind::Io);
        assert!(matches!(put(&db, 2, 1500), Err(Error::LogFailed { .. })));
        let disk = {
            let next = disk.kill();
            drop(db);
            next
        };
        let db = open(&disk, SyncPolicy::Always).unwrap();
        let recovered = pairs(&db).unwrap();
        let disk = lose_power(&disk, db);
        let db =
            open(&disk, SyncPolicy::Always).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(pairs(&db).unwrap(), recovered, "seed {seed}");
    }
}

/// If neither the edit that drops a keyspace nor the manifest that undoes it can be made durable, the next
/// open may find the keyspace dropped. So it takes no writes until one of both is durable.
#[test]
fn a_keyspace_whose_drop_is_undecided_takes_no_writes_until_it_is_decided() {
    for seed in 0..60 {
        let disk = disk(seed);
        let db = open(&disk, SyncPolicy::Always).unwrap();
        let keyspace = db.keyspace("x", Default::default()).unwrap();
        db.put(&keyspace, b"before", b"value").unwrap();
        // The sync of the edit, and the creation of the manifest that would undo it.
        disk.fail_after(1, FaultKind::Io);
        disk.fail_after(2, FaultKind::Io);
        db.drop_keyspace(&keyspace).unwrap_err();
        disk.fail_after(0, FaultKind::Io);
        let refused = db.put(&keyspace, b"key", b"value");
        assert!(matches!(refused, Err(Error::DropUndecided { .. })), "seed {seed}: {refused:?}");
        assert!(db.get(&keyspace, b"before").unwrap().is_some(), "reads go on");
        disk.fail_after(3, FaultKind::Io);
        put(&db, 1, 10).unwrap();
        // This one makes a manifest that has the keyspace.
        while let Err(refused) = db.put(&keyspace, b"key", b"value") {
            assert!(matches!(refused, Error::DropUndecided { .. }), "seed {seed}: {refused}");
        }
        let disk = lose_power(&disk, db);
        let db = open(&disk, SyncPolicy::Always).unwrap();
        let keyspace = db.open_keyspace("x").unwrap_or_else(|_| panic!("seed {seed}: it is gone"));
        assert!(db.get(&keyspace, b"key").unwrap().is_some(), "seed {seed}");
    }
}

/// A log directory that was claimed by a database that never came to be barred its next creation.
#[test]
fn a_creation_that_was_cut_off_anywhere_can_be_tried_again() {
    for on_log_disk in [false, true] {
        for calls in 0..CALLS {
            let (disk, log_disk) = (disk(calls), disk(calls + 100));
            let struck = if on_log_disk { &log_disk } else { &disk };
            struck.crash_after(calls);
            let first = Db::open_with(env(&disk, Some(&log_disk), 1), settings(SyncPolicy::Always));
            let (disk, log_disk) = (disk.crash(), log_disk.crash());
            drop(first);
            // The next process draws another identity.
            let again = env(&disk, Some(&log_disk), 2);
            let db = Db::open_with(again, settings(SyncPolicy::Always))
                .unwrap_or_else(|error| panic!("cut off at call {calls}: {error}"));
            put(&db, 1, 10).unwrap();
        }
    }
}

/// The same if the creation failed before its name was durable, and the next open was truncated.
#[test]
fn a_creation_that_failed_and_was_cut_off_can_be_tried_again() {
    for (failing, calls) in (0..CALLS).flat_map(|failing| (0..6).map(move |calls| (failing, calls)))
    {
        let (disk, log_disk) = (disk(failing), disk(calls + 100));
        let open = |disk: &FaultStorage, log_disk: &FaultStorage, seed| {
            Db::open_with(env(disk, Some(log_disk), seed), settings(SyncPolicy::Always))
        };
        disk.fail_after(failing, FaultKind::Io);
        if open(&disk, &log_disk, 1).is_ok() {
            continue;
        }
        disk.crash_after(calls);
        let second = open(&disk, &log_disk, 2);
        let (disk, log_disk) = (disk.crash(), log_disk.crash());
        drop(second);
        let db = open(&disk, &log_disk, 3)
            .unwrap_or_else(|error| panic!("call {failing} failed, then {calls}: {error}"));
        put(&db, 1, 10).unwrap();
    }
}

/// The edit of a drop that failed may be on the device all the same; a crash must not bring it back
/// and take away what was written to the keyspace since.
#[test]
fn a_keyspace_that_could_not_be_dropped_stays() {
    for seed in 0..30 {
        for call in 0..2 {
            let disk = disk(seed);
            let db = open(&disk, SyncPolicy::Always).unwrap();
            let keyspace = db.keyspace("other", Default::default()).unwrap();
            db.put(&keyspace, b"before", b"1").unwrap();
            disk.fail_after(call, FaultKind::Io);
            db.drop_keyspace(&keyspace).unwrap_err();
            db.put(&keyspace, b"after", b"2").unwrap();
            let disk = lose_power(&disk, db);
            let db = open(&disk, SyncPolicy::Always).unwrap();
            let keyspace = db
                .open_keyspace("other")
                .unwrap_or_else(|error| panic!("seed {seed}, call {call}: {error}"));
            for (key, value) in [(b"before".as_slice(), b"1"), (b"after", b"2")] {
                assert_eq!(db.get(&keyspace, key).unwrap().as_deref(), Some(value.as_slice()));
            }
        }
    }
}

/// Writes that a crash left unsynced, so that some recovery finds holes in them.
fn torn_disk(seed: u64) -> FaultStorage {
    let disk = disk(seed);
    let db = open(&disk, SyncPolicy::Os).unwrap();
    (0..60).for_each(|number| put(&db, number, 1500).unwrap());
    lose_power(&disk, db)
}

/// What is behind a hole is rejected, and stays so, however often recovery is truncated and
/// whatever is written after it.
#[test]
fn nothing_rejected_comes_back() {
    let mut rejected = 0;
    for seed in 0..40 {
        for calls in 0..12 {
            let mut disk = torn_disk(seed);
            for calls in [calls, calls / 2] {
                disk.crash_after(calls);
                let cut_off = open(&disk, SyncPolicy::Os);
                disk = disk.crash();
                drop(cut_off);
            }
            let db = open(&disk, SyncPolicy::Os).unwrap();
            let mut expected = pairs(&db).unwrap();
            let prefix = (0..expected.len() as u32).map(key);
            assert!(expected.keys().cloned().eq(prefix), "seed {seed}, call {calls}: no prefix");
            rejected += u32::from(expected.len() < 60);
            for number in 100..110 {
                put(&db, number, 700).unwrap();
                expected.insert(key(number), vec![number as u8; 700]);
            }
            db.sync().unwrap();
            let disk = lose_power(&disk, db);
            let db = open(&disk, SyncPolicy::Os).unwrap();
            assert_eq!(pairs(&db).unwrap(), expected, "seed {seed}, call {calls}");
        }
    }
    assert!(rejected > 100, "only {rejected} recoveries rejected anything");
}

/// A frame that could not be read once, and what was behind it, stay rejected even if a later read
/// would find them sound: other writes have their seqnos by then.
#[test]
fn what_heals_after_it_was_rejected_stays_rejected() {
    let disk = disk(1);
    let db = open(&disk, SyncPolicy::Os).unwrap();
    (0..20).for_each(|number| put(&db, number, 600).unwrap());
    let disk = {
        let next = disk.kill();
        drop(db);
        next
    };
    let log = disk.files().into_iter().find(|name| name.ends_with(".log")).unwrap();
    let inside_the_eleventh = 64 + 10 * 664;
    disk.bit_flip(&log, inside_the_eleventh, 0);
    let db = open(&disk, SyncPolicy::Os).unwrap();
    let mut expected = pairs(&db).unwrap();
    assert_eq!(expected.len(), 10);
    put(&db, 100, 600).unwrap();
    db.sync().unwrap();
    expected.insert(key(100), vec![100; 600]);
    let disk = lose_power(&disk, db);
    disk.bit_flip(&log, inside_the_eleventh, 0);
    assert_eq!(pairs(&open(&disk, SyncPolicy::Os).unwrap()).unwrap(), expected);
}

/// An extent that a crash left, and that no manifest knows, has an epoch. A log file of the same
/// epoch, from a time when the log was in files, would be taken for that extent.
#[test]
fn an_extent_that_was_never_listed_hides_no_log_file() {
    let in_pool =
        settings(SyncPolicy::Always).log(Log::Pmem { pool: "pool".into(), emulated: true });
    let mut strays = 0;
    for (calls, opens) in (0..CALLS).flat_map(|calls| (0..5).map(move |opens| (calls, opens))) {
        let named = |what: &str| format!("call {calls}, {opens} opens between: {what}");
        let mut disk = disk(calls);
        let memory = Arc::new(SimRegion::new(256 << 10));
        Pool::format(memory.clone(), "pool", 7).unwrap();
        let env_of = |disk: &FaultStorage| {
            env(disk, None, 1).pool(Pool::over(memory.clone(), "pool").unwrap())
        };
        let killed = |disk: &FaultStorage, db: Option<Db>| {
            let next = disk.kill();
            drop(db);
            next
        };
        let db = Db::open_with(env_of(&disk), in_pool.clone()).unwrap();
        // Takes a file id each time, and no edit says so.
        (0..3).for_each(|_| db.compact().unwrap());
        (calls..calls + 30).for_each(|call| disk.fail_after(call, FaultKind::Io));
        if put(&db, 1, 10).is_ok() {
            continue;
        }
        disk = killed(&disk, Some(db));
        strays += Pool::over(memory.clone(), "pool").unwrap().used().len();
        for _ in 0..opens {
            let db = Db::open_with(env_of(&disk), settings(SyncPolicy::Always));
            disk = killed(&disk, db.ok());
        }
        let Ok(db) = Db::open_with(env_of(&disk), settings(SyncPolicy::Always)) else { continue };
        put(&db, 2, 10).unwrap();
        let expected = pairs(&db).unwrap();
        disk = killed(&disk, Some(db));
        if let Ok(db) = Db::open_with(env_of(&disk), in_pool.clone()) {
            assert_eq!(pairs(&db).unwrap(), expected, "{}", named("in the pool"));
            disk = killed(&disk, Some(db));
        }
        let db = Db::open_with(env_of(&disk), settings(SyncPolicy::Always))
            .unwrap_or_else(|error| panic!("{}", named(&error.to_string())));
        assert_eq!(pairs(&db).unwrap(), expected, "{}", named("in files"));
    }
    assert!(strays > 0);
}
