//! What the public types can do in every program: be shared, be sent, be printed, iterate.

mod metrics;
mod serialized;
mod transact;
mod typed;
mod types;

use esker::api::{KeyspaceRef, TransactionDb};
use esker::options::{Compression, Shape};
use esker::transaction::{Concurrency, Isolation};
use esker::*;
use std::sync::Barrier;
use std::time::Duration;

#[test]
fn a_keyspace_with_other_settings_is_not_opened_as_if_it_had_those_asked_for() {
    let (dir, db, _) = letters();
    let default = KeyspaceSettings::default();
    let tiered = default.shape(Shape::Tiered { runs: 8 }).filter_bits(12);
    db.keyspace("events", tiered).unwrap().put("a", "1").unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    let difference = |name: &str, settings| match db.keyspace(name, settings) {
        Err(Error::KeyspaceSettingsDiffer { difference, .. }) => Some(difference),
        other => {
            assert_eq!(other.unwrap().settings().unwrap(), settings);
            None
        }
    };
    let text = "shape is tiered:8, not leveled:10; filter_bits is 12, not 10";
    assert_eq!(difference("events", default).as_deref(), Some(text));
    assert_eq!(difference("events", tiered), None);
    assert_eq!(difference("default", default), None);
    assert!(difference("default", default.compression(Compression::Zstd)).is_some());

    // Nothing was changed, and callers that do not care get it.
    let events = db.open_keyspace("events").unwrap();
    assert_eq!(events.settings().unwrap(), tiered);
    let by_trait = api::Transactional::keyspace(&TransactionDb::new(db.clone()), "events").unwrap();
    assert_eq!(by_trait, api::KeyspaceRef::from(&events));
    db.drop_keyspace(&events).unwrap();
    assert!(matches!(events.settings(), Err(Error::UnknownKeyspace { .. })));
    assert_eq!(difference("events", default), None);
}

#[test]
fn a_snapshot_and_a_transaction_read_as_a_keyspace_does() {
    let (_dir, db, keyspace) = letters();
    let (_other_dir, _other, theirs) = letters();
    let snapshot = db.snapshot();
    keyspace.put("h", "late").unwrap();
    keyspace.delete("a").unwrap();
    let is = |key: &str, entry: Option<(Value, Value)>| entry.unwrap().0 == key.as_bytes();
    assert_eq!(text(snapshot.iter(&keyspace)), "abcdefg");
    assert_eq!(text(snapshot.range(&keyspace, "c"..).rev()), "gfedc");
    assert_eq!(text(snapshot.prefix(&keyspace, "a")), "a");
    assert!(is("a", snapshot.first(&keyspace).unwrap()));
    assert!(is("g", snapshot.last(&keyspace).unwrap()));
    assert!(snapshot.contains_key(&keyspace, "a").unwrap());
    assert_eq!(snapshot.get(&keyspace, "h").unwrap(), None);
    let counts = (snapshot.count(&keyspace, "b"..), keyspace.count("b"..));
    assert_eq!((counts.0.unwrap(), counts.1.unwrap()), (6, 7));
    assert!(matches!(snapshot.count(&theirs, ..), Err(Error::ForeignHandle { .. })));
    assert!(matches!(snapshot.first(&theirs), Err(Error::ForeignHandle { .. })));

    let mut tx = db.transaction().unwrap();
    tx.put(&keyspace, "i", "own").unwrap();
    assert_eq!(text(tx.iter(&keyspace)), "bcdefghi");
    assert!(is("b", tx.first(&keyspace).unwrap()));
    assert!(is("i", tx.last(&keyspace).unwrap()));
}

#[test]
fn the_length_is_estimated_from_tables_and_memtables() {
    let (_dir, db, _) = letters();
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    assert_eq!(users.approximate_len().unwrap(), 0);
    for number in 0..2_000u32 {
        users.put(number.to_be_bytes(), "").unwrap();
        users.put(number.to_be_bytes(), "again").unwrap();
    }
    db.flush().unwrap();
    let flushed = users.approximate_len().unwrap();
    assert!((1_900..=2_100).contains(&flushed), "{flushed}");
    (0..50u32).for_each(|number| users.put((9_000 + number).to_be_bytes(), "").unwrap());
    assert_eq!(users.approximate_len().unwrap(), flushed + 50);
    db.drop_keyspace(&users).unwrap();
    assert!(matches!(users.approximate_len(), Err(Error::UnknownKeyspace { .. })));
}

fn letters() -> (tempfile::TempDir, Db, Keyspace) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    let keyspace = db.default_keyspace();
    for letter in b'a'..=b'g' {
        db.put(&keyspace, [letter], []).unwrap();
    }
    (dir, db, keyspace)
}

/// The letters that an iterator gives.
fn text(pairs: impl Iterator<Item = Result<(Value, Value)>>) -> String {
    pairs.map(|pair| char::from(pair.unwrap().0[0])).collect()
}

#[test]
fn a_range_is_an_iterator_from_both_ends() {
    let (_dir, db, keyspace) = letters();
    let all = || db.range(&keyspace, ..);
    assert_eq!(text(all()), "abcdefg");
    assert_eq!(text(all().rev()), "gfedcba");
    assert_eq!(text(all().skip(1).step_by(2)), "bdf");
    assert_eq!(text(db.prefix(&keyspace, b"c")), "c");
}

#[test]
fn both_ends_of_a_range_meet_once() {
    let (_dir, db, keyspace) = letters();
    for from_front in 0..=8 {
        let mut range = db.range(&keyspace, ..);
        let front = text(range.by_ref().take(from_front));
        let back = text(range.by_ref().rev());
        let all = front + &back.chars().rev().collect::<String>();
        assert_eq!(all, "abcdefg", "{from_front} from the front");
        assert!(range.next().is_none() && range.next_back().is_none());
    }
    // In turns.
    let mut range = db.range(&keyspace, ..);
    let mut seen = Vec::new();
    while let Some(pair) = if seen.len() % 2 == 0 { range.next() } else { range.next_back() } {
        seen.push(pair.unwrap().0[0]);
    }
    assert_eq!(seen, b"agbfced");
}

#[test]
fn a_range_ends_after_its_first_error_and_an_empty_one_at_once() {
    let (_dir, db, keyspace) = letters();
    assert!(db.range(&keyspace, b"x".as_slice()..).next().is_none());
    assert!(db.range(&keyspace, b"x".as_slice()..).next_back().is_none());
    let (_other_dir, other, _) = letters();
    for mut steps in [db.range(&keyspace, ..), other.snapshot().range(&keyspace, ..)] {
        other.clone().close().unwrap_or(());
        let foreign = steps.next().unwrap().is_err();
        assert_eq!(steps.next().is_none(), foreign, "an error is the last item");
    }
}

#[test]
fn a_range_reads_at_one_time_whatever_is_written_meanwhile() {
    let (_dir, db, keyspace) = letters();
    let mut range = db.range(&keyspace, ..);
    assert_eq!(range.next().unwrap().unwrap().0, b"a");
    db.delete(&keyspace, b"g").unwrap();
    db.put(&keyspace, b"h", b"").unwrap();
    assert_eq!(range.next_back().unwrap().unwrap().0, b"g");
}

#[test]
fn a_keyspace_reads_and_writes_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    assert!(users.is_empty().unwrap() && users.first().unwrap().is_none());
    users.put("ada", "analyst").unwrap();
    users.put(String::from("grace"), vec![1, 2]).unwrap();
    users.put([b'z'], []).unwrap();
    let before = db.snapshot();
    users.delete("ada").unwrap();
    assert!(!users.contains_key("ada").unwrap() && db.contains_key(&users, "grace").unwrap());
    assert_eq!(before.get(&users, "ada").unwrap().as_deref(), Some(&b"analyst"[..]));
    assert_eq!(users.first().unwrap().unwrap().0, b"grace");
    assert_eq!(users.last().unwrap().unwrap().0, b"z");
    assert_eq!((users.count(..).unwrap(), users.count("h"..).unwrap()), (2, 1));
    assert_eq!(text(users.range("a"..="z").rev()), "zg");
    assert_eq!(users.multi_get(["z", "ada"]).unwrap(), [Some(Value::default()), None]);
    db.close().unwrap();
    assert!(matches!(users.get("grace"), Err(Error::Closed)));
    assert!(matches!(users.put("grace", ""), Err(Error::Closed)));
    assert!(matches!(users.iter().next(), Some(Err(Error::Closed))));
}

/// A transaction whose writes fail at once if they would have to wait for a lock.
fn impatient() -> TransactionOptions {
    TransactionOptions::default().lock_timeout(Duration::ZERO)
}

#[test]
fn a_transaction_is_owned_and_keeps_the_database_open() {
    let (dir, db, keyspace) = letters();
    let mut tx = db.transaction().unwrap();
    drop(db);
    let work = move || {
        tx.put(&keyspace, "x", "new")?;
        tx.set_savepoint()?;
        tx.delete(KeyspaceRef::DEFAULT, String::from("a"))?;
        tx.rollback_to_savepoint()?;
        assert!(tx.contains_key(&keyspace, "a")? && keyspace.get("x")?.is_none());
        tx.commit()
    };
    std::thread::scope(|scope| scope.spawn(work).join()).unwrap().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    assert_eq!(text(db.default_keyspace().iter()), "abcdefgx");
}

#[test]
fn a_transaction_that_ends_without_a_commit_leaves_nothing_behind() {
    let (_dir, db, keyspace) = letters();
    let mut tx = db.transaction().unwrap();
    tx.put(&keyspace, "a", "lost").unwrap();
    drop(tx);
    let mut tx = db.transaction_with(impatient()).unwrap();
    tx.delete(&keyspace, "a").unwrap();
    tx.rollback();
    let failed: Result<()> = db.transact(|tx| {
        tx.delete(&keyspace, "a")?;
        Err(Error::EmptyKey)
    });
    assert!(matches!(failed, Err(Error::EmptyKey)));
    db.transact_with(impatient(), |tx| tx.put(&keyspace, "b", "kept")).unwrap();
    assert_eq!(
        keyspace.multi_get(["a", "b"]).unwrap(),
        [Some(b"".as_slice().into()), Some(b"kept".as_slice().into())]
    );
}

#[test]
fn clones_of_a_database_share_the_locks_of_their_transactions() {
    let (_dir, db, keyspace) = letters();
    let mut holder = db.transaction().unwrap();
    holder.put(&keyspace, "k", "1").unwrap();
    let mut other = db.clone().transaction_with(impatient()).unwrap();
    assert!(matches!(other.put(&keyspace, "k", "2"), Err(Error::LockTimeout { .. })));
    // A plain write does not wait.
    keyspace.put("k", "plain").unwrap();
    holder.commit().unwrap();
    other.put(&keyspace, "k", "2").unwrap();
}

#[test]
fn a_range_of_a_transaction_has_its_own_writes_and_two_ends() {
    let (_dir, db, keyspace) = letters();
    for isolation in Isolation::ALL {
        let options = TransactionOptions::default().isolation(isolation);
        let mut tx = db.transaction_with(options).unwrap();
        tx.delete(&keyspace, "c").unwrap();
        tx.put(&keyspace, "h", "").unwrap();
        assert_eq!(text(tx.range(&keyspace, .."f").rev()), "edba");
        assert_eq!(text(tx.prefix(&keyspace, "h")), "h");
        for from_front in 0..=8 {
            let mut range = tx.range(&keyspace, ..);
            let front = text(range.by_ref().take(from_front));
            let back = text(range.by_ref().rev());
            assert_eq!(front + &back.chars().rev().collect::<String>(), "abdefgh");
            assert!(range.next().is_none() && range.next_back().is_none());
        }
        let mut range = tx.range(&keyspace, ..);
        let mut seen = Vec::new();
        while let Some(pair) = if seen.len() % 2 == 0 { range.next() } else { range.next_back() } {
            seen.push(pair.unwrap().0[0]);
        }
        assert_eq!(seen, b"ahbgdfe");
    }
}

#[test]
fn a_conflict_runs_the_closure_again() {
    let (_dir, db, keyspace) = letters();
    for concurrency in [Concurrency::Pessimistic, Concurrency::Optimistic] {
        let options = TransactionOptions::default().concurrency(concurrency);
        let mut runs = 0;
        let seen = db.transact_with(options, |tx| {
            runs += 1;
            let seen = tx.get(&keyspace, "a")?;
            if runs == 1 {
                keyspace.put("a", "theirs")?;
            }
            tx.put(&keyspace, "a", "ours")?;
            Ok(seen)
        });
        assert_eq!((seen.unwrap().as_deref(), runs), (Some(&b"theirs"[..]), 2));
        assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b"ours"[..]));
    }
}

#[test]
fn a_deadlock_is_resolved_and_its_victim_runs_again() {
    let (_dir, db, keyspace) = letters();
    let options = TransactionOptions::default().lock_timeout(Duration::from_secs(100));
    let both_hold_one = Barrier::new(2);
    let run = |first: &str, second: &str| {
        let mut runs = 0;
        db.transact_with(options, |tx| {
            runs += 1;
            tx.put(&keyspace, first, first)?;
            if runs == 1 {
                both_hold_one.wait();
            }
            tx.put(&keyspace, second, first)
        })
        .map(|()| runs)
    };
    let runs = std::thread::scope(|scope| {
        let other = scope.spawn(|| run("y", "x"));
        run("x", "y").unwrap() + other.join().unwrap().unwrap()
    });
    assert_eq!(runs, 3, "one is the victim, once");
    assert_eq!(keyspace.get("x").unwrap(), keyspace.get("y").unwrap());
}

#[test]
fn attempts_are_bounded_and_the_last_error_is_returned() {
    let (_dir, db, keyspace) = letters();
    let attempts = |error: &dyn Fn(u32) -> Error| {
        let mut runs = 0;
        let failed: Result<()> = db.transact(|tx| {
            runs += 1;
            tx.put(&keyspace, "a", "lost")?;
            Err(error(runs))
        });
        (runs, failed.unwrap_err().to_string())
    };
    let (runs, error) = attempts(&|run| Error::Conflict { key: format!("key{run}") });
    assert!(runs == 100 && error.contains("key100"), "{runs}: {error}");
    let mut holder = db.transaction().unwrap();
    holder.delete(&keyspace, "a").unwrap();
    let mut runs = 0;
    let failed = db.transact_with(impatient(), |tx| {
        runs += 1;
        tx.delete(&keyspace, "a")
    });
    assert!(matches!(failed, Err(Error::LockTimeout { .. })) && runs == 3, "{runs}: {failed:?}");
    drop(holder);
    assert_eq!(attempts(&|_| Error::ReadOnly).0, 1);
    assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b""[..]));
}

#[test]
fn a_transaction_refuses_keyspaces_of_other_databases() {
    let (_dir, db, _) = letters();
    let (_other_dir, _other, theirs) = letters();
    let mut tx = db.transaction().unwrap();
    let is_foreign = |error: Error| matches!(error, Error::ForeignHandle { .. });
    assert!(is_foreign(tx.get(&theirs, "a").unwrap_err()));
    assert!(is_foreign(tx.get_for_update(KeyspaceRef::from(&theirs), "a").unwrap_err()));
    assert!(is_foreign(tx.put(&theirs, "a", "").unwrap_err()));
    assert!(is_foreign(tx.delete(&theirs, "a").unwrap_err()));
    assert!(is_foreign(tx.range(&theirs, ..).next().unwrap().unwrap_err()));
}

#[test]
fn transactions_of_a_closed_database_fail() {
    let (_dir, db, keyspace) = letters();
    let mut written = db.transaction().unwrap();
    written.put(&keyspace, "a", "lost").unwrap();
    let (mut tx, other) = (db.transaction().unwrap(), db.clone());
    db.close().unwrap();
    assert!(matches!(tx.get(&keyspace, "a"), Err(Error::Closed)));
    assert!(matches!(tx.get_for_update(&keyspace, "b"), Err(Error::Closed)));
    assert!(matches!(tx.put(&keyspace, "b", ""), Err(Error::Closed)));
    assert!(matches!(tx.range(&keyspace, ..).next(), Some(Err(Error::Closed))));
    assert!(matches!(written.commit(), Err(Error::Closed)));
    assert!(matches!(other.transaction(), Err(Error::Closed)));
    let mut runs = 0;
    let ran = other.transact(|_| {
        runs += 1;
        Ok(())
    });
    assert!(matches!(ran, Err(Error::Closed)));
    assert_eq!(runs, 0);
}
