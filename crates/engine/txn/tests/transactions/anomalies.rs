//! Which anomalies each level allows, and which it excludes. `docs/guide/transactions.md` names these tests.
//!
//! Where two transactions get in each other's way, the second does not wait (its timeout is zero) but
//! fails, so that each test is one thread.

use crate::support::{BOTH, Text, assert_nothing_held, committed, impatient, options, store_of};
use esker_api::Concurrency::{Optimistic, Pessimistic};
use esker_api::Isolation::{ReadCommitted, Serializable, Snapshot};
use esker_api::{Concurrency, Isolation, Transactional};
use esker_base::{Error, Result};

/// Every level from `from` on, in both ways.
fn from(from: Isolation) -> impl Iterator<Item = (Isolation, Concurrency)> {
    let levels = Isolation::ALL.into_iter().filter(move |level| *level >= from);
    levels.flat_map(|level| BOTH.map(|way| (level, way)))
}

#[track_caller]
fn assert_conflict<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
}

#[test]
fn dirty_reads_are_excluded_at_every_level() {
    for (level, way) in from(ReadCommitted) {
        let store = store_of(&[("x", "old")]);
        let mut writer = store.begin(&options(level, way)).unwrap();
        writer.write("x", "new").unwrap();
        let mut reader = store.begin(&options(level, way)).unwrap();
        assert_eq!(reader.read("x").unwrap(), "old", "{level}");
        assert_eq!(reader.scan("a", "z"), ["x=old"]);
        writer.rollback().unwrap();
        assert_eq!(reader.read("x").unwrap(), "old");
    }
}

#[test]
fn dirty_writes_are_excluded_at_every_level() {
    for level in Isolation::ALL {
        let store = store_of(&[("x", "old")]);
        let mut first = store.begin(&options(level, Pessimistic)).unwrap();
        first.write("x", "first").unwrap();
        let mut second = store.begin(&impatient(level, Pessimistic)).unwrap();
        assert!(matches!(second.write("x", "second"), Err(Error::LockTimeout { .. })));
        let mut third = store.begin(&impatient(level, Optimistic)).unwrap();
        third.write("x", "third").unwrap();
        assert!(matches!(third.commit(), Err(Error::LockTimeout { .. })));
        first.commit().unwrap();
        drop(second);
        assert_eq!(committed(&store, "x").unwrap(), "first");
        assert_nothing_held(&store);
    }
}

#[test]
fn non_repeatable_reads_are_allowed_under_read_committed() {
    for way in BOTH {
        let store = store_of(&[("x", "old")]);
        let mut reader = store.begin(&options(ReadCommitted, way)).unwrap();
        assert_eq!(reader.read("x").unwrap(), "old");
        let mut writer = store.begin(&options(ReadCommitted, way)).unwrap();
        writer.write("x", "new").unwrap();
        writer.commit().unwrap();
        assert_eq!(reader.read("x").unwrap(), "new");
        reader.commit().unwrap();
    }
}

#[test]
fn non_repeatable_reads_are_excluded_from_snapshot_on() {
    for (level, way) in from(Snapshot) {
        let store = store_of(&[("x", "old")]);
        let mut reader = store.begin(&options(level, way)).unwrap();
        assert_eq!(reader.read("x").unwrap(), "old");
        let mut writer = store.begin(&options(level, way)).unwrap();
        writer.write("x", "new").unwrap();
        writer.commit().unwrap();
        assert_eq!(reader.read("x").unwrap(), "old");
        assert_eq!(reader.scan("a", "z"), ["x=old"]);
    }
}

/// Reads `x`, lets another write `x` and `y`, and reads `y`.
fn read_around_a_commit(level: Isolation, way: Concurrency) -> (String, String) {
    let store = store_of(&[("x", "old"), ("y", "old")]);
    let mut reader = store.begin(&options(level, way)).unwrap();
    let x = reader.read("x").unwrap();
    let mut writer = store.begin(&options(level, way)).unwrap();
    writer.write("x", "new").unwrap();
    writer.write("y", "new").unwrap();
    writer.commit().unwrap();
    (x, reader.read("y").unwrap())
}

#[test]
fn read_skew_is_allowed_under_read_committed() {
    for way in BOTH {
        let (x, y) = read_around_a_commit(ReadCommitted, way);
        assert_eq!((&x[..], &y[..]), ("old", "new"));
    }
}

#[test]
fn read_skew_is_excluded_from_snapshot_on() {
    for (level, way) in from(Snapshot) {
        let (x, y) = read_around_a_commit(level, way);
        assert_eq!((&x[..], &y[..]), ("old", "old"), "{level}");
    }
}

/// Two transactions read `x` and then write it. The second's outcome.
fn update_lost(level: Isolation, way: Concurrency) -> Result<()> {
    let store = store_of(&[("x", "0")]);
    let mut first = store.begin(&options(level, way)).unwrap();
    let mut second = store.begin(&options(level, way)).unwrap();
    assert_eq!(first.read("x").unwrap(), "0");
    assert_eq!(second.read("x").unwrap(), "0");
    first.write("x", "1").unwrap();
    first.commit().unwrap();
    let outcome = second.write("x", "2").and_then(|()| second.commit());
    let expected = if outcome.is_ok() { "2" } else { "1" };
    assert_eq!(committed(&store, "x").unwrap(), expected);
    drop(second);
    assert_nothing_held(&store);
    outcome
}

#[test]
fn lost_updates_are_allowed_under_read_committed() {
    for way in BOTH {
        update_lost(ReadCommitted, way).unwrap();
    }
}

#[test]
fn lost_updates_are_excluded_from_snapshot_on() {
    for (level, way) in from(Snapshot) {
        assert_conflict(update_lost(level, way));
    }
}

#[test]
fn a_read_for_update_excludes_lost_updates_at_every_level() {
    for level in Isolation::ALL {
        let store = store_of(&[("x", "0")]);
        let mut first = store.begin(&options(level, Pessimistic)).unwrap();
        assert_eq!(first.read_for_update("x").unwrap().unwrap(), "0");
        let mut second = store.begin(&impatient(level, Pessimistic)).unwrap();
        assert!(matches!(second.read_for_update("x"), Err(Error::LockTimeout { .. })));
        first.write("x", "1").unwrap();
        first.commit().unwrap();
        assert_eq!(second.read_for_update("x").unwrap().unwrap(), "1", "{level}");

        let mut third = store.begin(&options(level, Optimistic)).unwrap();
        second.rollback().unwrap();
        assert_eq!(third.read_for_update("x").unwrap().unwrap(), "1");
        let mut fourth = store.begin(&options(level, Optimistic)).unwrap();
        fourth.write("x", "2").unwrap();
        fourth.commit().unwrap();
        third.write("y", "from x = 1").unwrap();
        assert_conflict(third.commit());
        assert_nothing_held(&store);
    }
}

/// Two transactions each see both on call, and each takes another one off. The second's outcome.
fn write_skew(level: Isolation, way: Concurrency) -> Result<()> {
    let store = store_of(&[("ann", "on"), ("bob", "on")]);
    let mut first = store.begin(&options(level, way)).unwrap();
    let mut second = store.begin(&options(level, way)).unwrap();
    for doctors in [&mut first, &mut second] {
        assert_eq!(doctors.read("ann").unwrap(), "on");
        assert_eq!(doctors.read("bob").unwrap(), "on");
    }
    first.write("ann", "off").unwrap();
    second.write("bob", "off").unwrap();
    first.commit().unwrap();
    let outcome = second.commit();
    assert_nothing_held(&store);
    outcome
}

#[test]
fn write_skew_is_allowed_up_to_snapshot() {
    for level in [ReadCommitted, Snapshot] {
        for way in BOTH {
            write_skew(level, way).unwrap();
        }
    }
}

#[test]
fn write_skew_is_excluded_under_serializable() {
    for way in BOTH {
        assert_conflict(write_skew(Serializable, way));
    }
}

#[test]
fn a_phantom_appears_under_read_committed() {
    for way in BOTH {
        let store = store_of(&[("k1", "1")]);
        let mut reader = store.begin(&options(ReadCommitted, way)).unwrap();
        assert_eq!(reader.scan("k", "l"), ["k1=1"]);
        let mut writer = store.begin(&options(ReadCommitted, way)).unwrap();
        writer.write("k2", "2").unwrap();
        writer.commit().unwrap();
        assert_eq!(reader.scan("k", "l"), ["k1=1", "k2=2"]);
    }
}

#[test]
fn no_phantom_appears_from_snapshot_on() {
    for (level, way) in from(Snapshot) {
        let store = store_of(&[("k1", "1")]);
        let mut reader = store.begin(&options(level, way)).unwrap();
        assert_eq!(reader.scan("k", "l"), ["k1=1"]);
        let mut writer = store.begin(&options(level, way)).unwrap();
        writer.write("k2", "2").unwrap();
        writer.commit().unwrap();
        assert_eq!(reader.scan("k", "l"), ["k1=1"]);
    }
}

/// Two transactions each count the entries in a range, and add one of that number. The second's outcome.
fn phantom_write_skew(level: Isolation, way: Concurrency) -> Result<()> {
    let store = store_of(&[("k1", "1")]);
    let mut first = store.begin(&options(level, way)).unwrap();
    let mut second = store.begin(&options(level, way)).unwrap();
    assert_eq!(first.scan("k", "l").len(), 1);
    assert_eq!(second.scan("k", "l").len(), 1);
    first.write("k2a", "the second").unwrap();
    second.write("k2b", "the second").unwrap();
    first.commit().unwrap();
    second.commit()
}

#[test]
fn write_skew_by_phantoms_is_allowed_up_to_snapshot() {
    for level in [ReadCommitted, Snapshot] {
        for way in BOTH {
            phantom_write_skew(level, way).unwrap();
        }
    }
}

#[test]
fn write_skew_by_phantoms_is_excluded_under_serializable() {
    for way in BOTH {
        assert_conflict(phantom_write_skew(Serializable, way));
    }
}

#[test]
fn a_serializable_cursor_conflicts_only_with_what_it_went_over() {
    for way in BOTH {
        let outcome = |other: &str| {
            let store = store_of(&[("k1", "1"), ("k5", "5"), ("k9", "9")]);
            let mut first = store.begin(&options(Serializable, way)).unwrap();
            {
                let range = esker_api::KeyRange::prefix(b"k");
                let mut cursor = first.cursor(crate::support::KEYSPACE, range).unwrap();
                cursor.seek(b"k2").unwrap();
                assert_eq!(cursor.current().unwrap().0, b"k5");
            }
            let mut second = store.begin(&options(Snapshot, way)).unwrap();
            second.write(other, "new").unwrap();
            second.commit().unwrap();
            first.write("elsewhere", "new").unwrap();
            let outcome = first.commit();
            drop(first);
            outcome
        };
        for before_or_behind in ["k1", "k1z", "k51", "k6", "k9"] {
            outcome(before_or_behind).unwrap();
        }
        for met in ["k5", "k3", "k2"] {
            assert_conflict(outcome(met));
        }
    }
}

#[test]
fn a_read_only_transaction_sees_no_order_that_serializable_writers_exclude() {
    // Fekete, O'Neil and O'Neil, "A read-only transaction anomaly under snapshot isolation", 2004.
    for way in BOTH {
        let store = store_of(&[("checking", "0"), ("savings", "0")]);
        let mut withdrawal = store.begin(&options(Serializable, way)).unwrap();
        assert_eq!(withdrawal.read("checking").unwrap(), "0");
        assert_eq!(withdrawal.read("savings").unwrap(), "0");
        let mut deposit = store.begin(&options(Serializable, way)).unwrap();
        assert_eq!(deposit.read("savings").unwrap(), "0");
        deposit.write("savings", "20").unwrap();
        deposit.commit().unwrap();
        let mut report = store.begin(&options(Serializable, way)).unwrap();
        assert_eq!(report.read("checking").unwrap(), "0");
        assert_eq!(report.read("savings").unwrap(), "20");
        report.commit().unwrap();
        // With the penalty, as if it came before the deposit, which the report has seen.
        withdrawal.write("checking", "-11").unwrap();
        assert_conflict(withdrawal.commit());
    }
}

#[test]
fn a_transaction_that_only_writes_conflicts_with_nobody() {
    for (level, way) in from(ReadCommitted) {
        let store = store_of(&[("x", "old")]);
        let mut first = store.begin(&options(level, way)).unwrap();
        let mut second = store.begin(&options(level, way)).unwrap();
        second.write("x", "second").unwrap();
        second.commit().unwrap();
        first.write("x", "first").unwrap();
        first.commit().unwrap();
        assert_eq!(committed(&store, "x").unwrap(), "first");
    }
}
