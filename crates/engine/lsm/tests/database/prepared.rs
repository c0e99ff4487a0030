//! Two-phase commit: what is prepared is durable, locked and invisible until it is decided, over
//! restarts, flushes and copies.

use esker_api::{Concurrency, Isolation, TransactionOptions};
use esker_base::{Error, PreparedError, Result, Rng};
use esker_lsm::{Db, Env, IndexSettings, KeyspaceSettings, Log, Settings, SyncPolicy, Transaction};
use esker_storage::FaultStorage;
use esker_storage::fault::FaultKind;
use std::sync::Arc;
use std::time::Duration;

fn settings() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    Settings::default().log(log).segment_bytes(256 << 10).memory_bytes(8 << 20)
}

fn disk() -> FaultStorage {
    FaultStorage::new(Rng::new(7))
}

fn open(disk: &FaultStorage) -> Db {
    Db::open_with(Env::over(Arc::new(disk.clone())), settings()).unwrap()
}

/// Opens what is left after a power loss.
fn after_power_loss(db: Db, disk: &mut FaultStorage) -> Db {
    *disk = disk.crash();
    drop(db);
    open(disk)
}

/// Options with which a transaction that would have to wait fails at once.
fn impatient() -> TransactionOptions {
    TransactionOptions::default().lock_timeout(Duration::ZERO)
}

fn all_options() -> impl Iterator<Item = TransactionOptions> {
    let both = [Concurrency::Pessimistic, Concurrency::Optimistic];
    let levels = Isolation::ALL.into_iter();
    levels.flat_map(move |level| both.map(|way| impatient().isolation(level).concurrency(way)))
}

fn get(db: &Db, key: &str) -> Option<String> {
    let value = db.get(&db.default_keyspace(), key).unwrap();
    value.map(|value| String::from_utf8(value.into_vec()).unwrap())
}

fn put(db: &Db, tx: &mut Transaction, key: &str, value: &str) -> Result<()> {
    tx.put(&db.default_keyspace(), key, value)
}

/// Prepares a put of `key` to `value` under `id`.
fn prepare(db: &Db, id: &str, key: &str, value: &str) {
    let mut tx = db.transaction_with(impatient()).unwrap();
    put(db, &mut tx, key, value).unwrap();
    tx.prepare(id).unwrap();
}

#[track_caller]
fn assert_locked(db: &Db, key: &str, is_locked: bool) {
    let mut tx = db.transaction_with(impatient()).unwrap();
    match put(db, &mut tx, key, "") {
        Err(Error::LockTimeout { key: named, holder, .. }) => {
            assert!(is_locked && named == key, "{key}");
            assert!(holder.starts_with("the prepared transaction "), "{holder}");
        }
        other => assert!(!is_locked && other.is_ok(), "{key} is not locked: {other:?}"),
    }
}

fn ids(db: &Db) -> Vec<String> {
    let prepared = db.prepared().unwrap();
    prepared.into_iter().map(|one| String::from_utf8(one.id).unwrap()).collect()
}

#[test]
fn what_is_prepared_is_invisible_and_locked_until_it_is_decided() {
    for options in all_options() {
        for commits in [false, true] {
            let db = open(&disk());
            let mut tx = db.transaction_with(options).unwrap();
            put(&db, &mut tx, "a", "1").unwrap();
            tx.get_for_update(&db.default_keyspace(), "read").unwrap();
            tx.prepare("id").unwrap();
            assert_eq!((get(&db, "a"), ids(&db)), (None, vec!["id".to_owned()]));
            assert_locked(&db, "a", true);
            assert_locked(&db, "read", true);
            assert_locked(&db, "other", false);
            match commits {
                true => db.commit_prepared("id").unwrap(),
                false => db.rollback_prepared("id").unwrap(),
            }
            assert_eq!(get(&db, "a").is_some(), commits);
            assert!(ids(&db).is_empty());
            assert_locked(&db, "a", false);
            assert_locked(&db, "read", false);
        }
    }
}

/// After a power loss each transaction is as before, until it is decided; then it stays decided.
#[test]
fn it_survives_power_losses_flushes_and_compactions_with_its_locks() {
    let moves: [fn(&Db); 3] =
        [|_| (), |db| db.flush().unwrap(), |db| db.flush().and_then(|()| db.compact()).unwrap()];
    for options in all_options() {
        for move_on in moves {
            let mut disk = disk();
            let mut db = open(&disk);
            for (id, key) in [("keep", "k"), ("commit", "c"), ("roll back", "r")] {
                let mut tx = db.transaction_with(options).unwrap();
                put(&db, &mut tx, key, id).unwrap();
                tx.delete(&db.default_keyspace(), format!("{key} too")).unwrap();
                tx.get_for_update(&db.default_keyspace(), format!("{key} read")).unwrap();
                tx.prepare(id).unwrap();
            }
            let check_undecided = |db: &Db| {
                for key in ["k", "k too", "k read"] {
                    assert_locked(db, key, true);
                }
                assert_locked(db, "other", false);
                assert_eq!(get(db, "k"), None);
            };
            move_on(&db);
            db = after_power_loss(db, &mut disk);
            assert_eq!(ids(&db), ["commit", "keep", "roll back"]);
            check_undecided(&db);
            assert_eq!(db.prepared().unwrap()[1].writes, 2);
            assert_eq!(db.prepared().unwrap()[1].locks, 3);
            db.commit_prepared("commit").unwrap();
            db.rollback_prepared("roll back").unwrap();
            move_on(&db);
            db = after_power_loss(db, &mut disk);
            check_undecided(&db);
            assert_eq!(ids(&db), ["keep"]);
            assert_eq!((get(&db, "c").unwrap(), get(&db, "r")), ("commit".to_owned(), None));
            for key in ["c", "c too", "c read", "r", "r too", "r read"] {
                assert_locked(&db, key, false);
            }
        }
    }
}

#[test]
fn an_id_is_refused_while_it_is_in_use() {
    let mut disk = disk();
    let mut db = open(&disk);
    prepare(&db, "id", "a", "1");
    for _ in 0..2 {
        let mut tx = db.transaction_with(impatient()).unwrap();
        put(&db, &mut tx, "b", "2").unwrap();
        let refused = tx.prepare("id").unwrap_err();
        assert!(
            matches!(&refused, Error::Prepared(PreparedError::IdInUse { id }) if id == "id"),
            "{refused}"
        );
        assert_locked(&db, "b", false);
        db = after_power_loss(db, &mut disk);
    }
    db.commit_prepared("id").unwrap();
    prepare(&db, "id", "b", "2");
    db.rollback_prepared("id").unwrap();
    assert_eq!((get(&db, "a").unwrap(), get(&db, "b")), ("1".to_owned(), None));
}

#[test]
fn ids_that_are_unknown_or_have_a_bad_length_are_refused() {
    let db = open(&disk());
    for _ in 0..2 {
        for decided in [db.commit_prepared("id"), db.rollback_prepared("id")] {
            let error = decided.unwrap_err();
            assert!(
                matches!(&error, Error::Prepared(PreparedError::Unknown { id }) if id == "id"),
                "{error}"
            );
        }
        for id in [&[][..], &[b'x'; 256]] {
            let error = db.transaction().unwrap().prepare(id).unwrap_err();
            assert!(matches!(error, Error::Prepared(PreparedError::BadId { .. })), "{error}");
        }
        let longest = [0xff; 255];
        db.transaction().unwrap().prepare(longest).unwrap();
        db.commit_prepared(longest).unwrap();
    }
}

#[test]
fn a_copy_has_what_was_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), settings()).unwrap();
    prepare(&db, "id", "a", "1");
    db.checkpoint(dir.path().join("copy")).unwrap();
    db.rollback_prepared("id").unwrap();
    let copy = Db::open(dir.path().join("copy"), settings()).unwrap();
    assert_locked(&copy, "a", true);
    copy.commit_prepared("id").unwrap();
    assert_eq!((get(&copy, "a").unwrap(), get(&db, "a")), ("1".to_owned(), None));
}

#[test]
fn a_read_only_open_lists_and_decides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    prepare(&db, "id", "a", "1");
    let reader = Db::open_read_only(dir.path(), settings()).unwrap();
    assert_eq!(ids(&reader), ["id"]);
    assert!(matches!(reader.commit_prepared("id"), Err(Error::ReadOnly)));
    assert!(matches!(reader.rollback_prepared("id"), Err(Error::ReadOnly)));
    assert_eq!(ids(&reader), ["id"]);
    db.commit_prepared("id").unwrap();
}

#[test]
fn writes_to_a_keyspace_that_was_dropped_are_left_out_of_the_commit() {
    let mut disk = disk();
    let mut db = open(&disk);
    let dropped = db.keyspace("dropped", KeyspaceSettings::default()).unwrap();
    let mut tx = db.transaction().unwrap();
    put(&db, &mut tx, "a", "1").unwrap();
    tx.put(&dropped, "b", "2").unwrap();
    tx.prepare("id").unwrap();
    db.drop_keyspace(&dropped).unwrap();
    db = after_power_loss(db, &mut disk);
    db.commit_prepared("id").unwrap();
    assert_eq!(get(&db, "a").unwrap(), "1");
    assert!(ids(&after_power_loss(db, &mut disk)).is_empty());
}

/// Larger than a segment: its record has several parts, and is in several frames.
#[test]
fn a_large_transaction_is_prepared_in_parts() {
    let mut disk = disk();
    let mut db = open(&disk);
    let mut tx = db.transaction().unwrap();
    let value = "v".repeat(30 << 10);
    for key in 0..40 {
        put(&db, &mut tx, &format!("{key}"), &value).unwrap();
    }
    tx.prepare("id").unwrap();
    db = after_power_loss(db, &mut disk);
    assert_eq!(db.prepared().unwrap()[0].writes, 40);
    db.commit_prepared("id").unwrap();
    db = after_power_loss(db, &mut disk);
    assert!((0..40).all(|key| get(&db, &format!("{key}")).as_deref() == Some(&value)));
    assert!(ids(&db).is_empty());
    // The record of one that just fits does not fit.
    let mut tx = db.transaction().unwrap();
    let full = (0..).find_map(|key| put(&db, &mut tx, &format!("{key}"), &value[..200]).err());
    assert!(matches!(full, Some(Error::BatchTooLarge { .. })), "{full:?}");
    let refused = tx.prepare("id").map(|()| ids(&db));
    assert!(matches!(refused, Err(Error::BatchTooLarge { .. })), "{refused:?}");
    assert!(ids(&db).is_empty());
}

#[test]
fn of_threads_that_decide_one_transaction_one_succeeds() {
    let db = open(&disk());
    for round in 0..20 {
        let id = format!("{round}");
        prepare(&db, &id, &id, "");
        let decided: Vec<Result<()>> = std::thread::scope(|scope| {
            let commit = || db.commit_prepared(&id);
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(commit)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(decided.iter().filter(|decided| decided.is_ok()).count(), 1, "{decided:?}");
        let unknown = |decided: &&Result<()>| {
            matches!(decided, Err(Error::Prepared(PreparedError::Unknown { .. })))
        };
        assert_eq!(decided.iter().filter(unknown).count(), 3, "{decided:?}");
    }
}

/// Write skew between a prepared transaction and one that begins before it is decided.
#[test]
fn what_a_prepared_serializable_transaction_read_is_protected() {
    let serializable = || impatient().isolation(Isolation::Serializable);
    for restarts in [false, true] {
        let mut disk = disk();
        let mut db = open(&disk);
        let mut tx = db.transaction_with(serializable()).unwrap();
        assert_eq!(tx.get(&db.default_keyspace(), "x").unwrap(), None);
        put(&db, &mut tx, "y", "1").unwrap();
        tx.prepare("id").unwrap();
        if restarts {
            db = after_power_loss(db, &mut disk);
        }
        for decides in [false, true] {
            let mut other = db.transaction_with(serializable()).unwrap();
            assert_eq!(other.get(&db.default_keyspace(), "y").unwrap(), None);
            put(&db, &mut other, "x", "1").unwrap();
            if decides {
                db.commit_prepared("id").unwrap();
            }
            assert!(matches!(other.commit(), Err(Error::Conflict { .. })));
        }
        let mut other = db.transaction_with(serializable()).unwrap();
        assert!(other.get(&db.default_keyspace(), "y").unwrap().is_some());
        put(&db, &mut other, "x", "1").unwrap();
        other.commit().unwrap();
    }
}

#[test]
fn a_prepare_fails_as_a_commit_would() {
    let db = open(&disk());
    let mut tx = db.transaction_with(impatient().concurrency(Concurrency::Optimistic)).unwrap();
    tx.get(&db.default_keyspace(), "a").unwrap();
    put(&db, &mut tx, "a", "1").unwrap();
    db.put(&db.default_keyspace(), "a", "other").unwrap();
    assert!(matches!(tx.prepare("id"), Err(Error::Conflict { .. })));
    assert!(ids(&db).is_empty());
    assert_locked(&db, "a", false);
    prepare(&db, "id", "a", "1");
}

/// The coordinator can still roll back then.
#[test]
fn a_prepare_is_refused_what_the_store_refuses() {
    let db = open(&disk());
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    let dropped = db.keyspace("dropped", KeyspaceSettings::default()).unwrap();
    let mut tx = db.transaction_with(impatient()).unwrap();
    put(&db, &mut tx, "a", "1").unwrap();
    tx.put(&dropped, "a", "1").unwrap();
    db.drop_keyspace(&dropped).unwrap();
    assert!(matches!(tx.prepare("id"), Err(Error::UnknownKeyspace { .. })));
    assert_locked(&db, "a", false);

    let by_value = IndexSettings::new("by_value").unique(true);
    let index = users.index(by_value, |_, value, keys| keys.add(value)).unwrap();
    index.wait_ready().unwrap();
    users.put("ada", "1").unwrap();
    let put_user = |key: &str, value: &str| {
        let mut tx = db.transaction_with(impatient()).unwrap();
        tx.put(&users, key, value).unwrap();
        tx.prepare("id")
    };
    let error = put_user("bob", "1").unwrap_err();
    assert!(
        matches!(error, Error::Index(ref error) if error.to_string().contains("ada")),
        "{error}"
    );
    assert!(ids(&db).is_empty() && users.get("bob").unwrap().is_none());
    // Until the commit, another row may take the key.
    put_user("bob", "2").unwrap();
    users.put("ada", "2").unwrap();
    assert!(matches!(db.commit_prepared("id"), Err(Error::Index(_))));
    assert_eq!(ids(&db), ["id"]);
    users.put("ada", "3").unwrap();
    db.commit_prepared("id").unwrap();
    assert_eq!(index.get("2").next().unwrap().unwrap().key.as_ref(), b"bob");
}

/// The commit adds the deletes of the record, and stores some keys with two bytes more.
#[test]
fn what_can_be_prepared_can_be_committed() {
    for is_full in [false, true] {
        let db = open(&disk());
        let keyspace = db.default_keyspace();
        let key = |number: u32| [&[0; 123][..], &number.to_be_bytes()].concat();
        let put = |tx: &mut Transaction, number, bytes| {
            tx.put(&keyspace, key(number), vec![7; bytes]).is_ok()
        };
        let mut tx = db.transaction_with(impatient()).unwrap();
        let full = (0..).find(|&number| !put(&mut tx, number, 1000)).unwrap();
        if is_full {
            (0..1000).rev().find(|&bytes| put(&mut tx, full, bytes)).unwrap();
        } else {
            tx = db.transaction_with(impatient()).unwrap();
            (0..full - 5).for_each(|number| assert!(put(&mut tx, number, 1000)));
        }
        let prepared = tx.prepare("id");
        let is_too_large = matches!(prepared, Err(Error::BatchTooLarge { .. }));
        assert_eq!((prepared.is_ok(), is_too_large), (!is_full, is_full), "{prepared:?}");
        if prepared.is_ok() {
            db.commit_prepared("id").unwrap();
        }
        assert!(ids(&db).is_empty());
    }
}

#[test]
fn a_decision_whose_write_fails_leaves_it_prepared() {
    for commits in [false, true] {
        let disk = disk();
        let db = open(&disk);
        prepare(&db, "id", "a", "1");
        (0..100).for_each(|calls| disk.fail_after(calls, FaultKind::Io));
        let decide = |db: &Db| match commits {
            true => db.commit_prepared("id"),
            false => db.rollback_prepared("id"),
        };
        assert!(matches!(decide(&db), Err(Error::LogFailed { .. })));
        assert_locked(&db, "a", true);
        assert_eq!((ids(&db), get(&db, "a")), (vec!["id".to_owned()], None));
    }
}

/// Without a log, a prepare and its decision go to tables.
#[test]
fn it_is_durable_without_a_log() {
    let mut disk = disk();
    let open = |disk: &FaultStorage| {
        Db::open_with(Env::over(Arc::new(disk.clone())), settings().log(Log::None)).unwrap()
    };
    let mut db = open(&disk);
    prepare(&db, "commit", "a", "1");
    prepare(&db, "roll back", "b", "1");
    for _ in 0..2 {
        disk = disk.crash();
        db = open(&disk);
        if ids(&db) == ["commit", "roll back"] {
            db.commit_prepared("commit").unwrap();
            db.rollback_prepared("roll back").unwrap();
        }
    }
    assert!(ids(&db).is_empty());
    assert_eq!((get(&db, "a").unwrap(), get(&db, "b")), ("1".to_owned(), None));
}

/// The caller may try again, commit or roll back.
#[test]
fn a_prepare_that_fails_may_keep_the_transaction() {
    for ends in ["prepare", "commit", "rollback"] {
        let disk = disk();
        let settings = settings().log(Log::None);
        let db = Db::open_with(Env::over(Arc::new(disk.clone())), settings).unwrap();
        prepare(&db, "first", "b", "1");
        let mut tx = db.transaction_with(impatient()).unwrap();
        put(&db, &mut tx, "a", "1").unwrap();
        (0..100).for_each(|calls| disk.fail_after(calls, FaultKind::Io));
        assert!(matches!(tx.prepare_or_keep("id"), Err(Error::Io { .. })), "{ends}");
        assert!(matches!(
            tx.prepare_or_keep(""),
            Err(Error::Prepared(PreparedError::BadId { .. }))
        ));
        let mut other = db.transaction_with(impatient()).unwrap();
        assert!(matches!(put(&db, &mut other, "a", ""), Err(Error::LockTimeout { .. })));
        assert_eq!(tx.get(&db.default_keyspace(), "a").unwrap().as_deref(), Some(&b"1"[..]));
        // Each failure is used up by a call.
        let again = || (0..200).find_map(|_| db.flush().ok());
        again().unwrap();
        match ends {
            "prepare" => {
                tx.prepare_or_keep("id").unwrap();
                assert!(matches!(tx.prepare_or_keep("id"), Err(Error::TransactionEnded { .. })));
                assert_eq!(ids(&db), ["first", "id"]);
                db.commit_prepared("id").unwrap();
            }
            "commit" => tx.commit().unwrap(),
            _ => tx.rollback(),
        }
        let expected = (ends != "rollback").then(|| "1".to_owned());
        assert_eq!(get(&db, "a"), expected, "{ends}");
        assert_locked(&db, "a", false);
    }
}

#[test]
fn users_cannot_name_the_keyspace_of_the_records() {
    let db = open(&disk());
    prepare(&db, "id", "a", "1");
    let name = "\u{1}prepared";
    assert_eq!(db.keyspaces().len(), 1);
    assert!(matches!(db.open_keyspace(name), Err(Error::UnknownKeyspace { .. })));
    let made = db.keyspace(name, KeyspaceSettings::default());
    assert!(matches!(made, Err(Error::BadKeyspaceName { .. })));
    assert_eq!(ids(&db), ["id"]);
}
