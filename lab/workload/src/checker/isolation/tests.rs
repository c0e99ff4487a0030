//! Histories by hand: those that are sound, and each anomaly planted once.

use super::*;
use Action::{Read, ReadForUpdate, Write};
use Isolation::{ReadCommitted, Serializable, Snapshot};
use Outcome::{Aborted, Committed};

const X: Key = 1;
const Y: Key = 2;
const Z: Key = 3;

/// Transactions that all run at the same time, and commit at the end.
fn concurrent(isolation: Isolation, transactions: &[&[(Key, Action)]]) -> History {
    let recorded = |operations: &&[(Key, Action)]| {
        let operation = |&(key, action): &(Key, Action)| Operation { at: 50, key, action };
        Recorded {
            isolation,
            begun: 0,
            operations: operations.iter().map(operation).collect(),
            ending: 10,
            ended: 100,
            outcome: Committed,
        }
    };
    History { transactions: transactions.iter().map(recorded).collect() }
}

/// One after another.
fn in_a_row(isolation: Isolation, transactions: &[&[(Key, Action)]]) -> History {
    let mut history = concurrent(isolation, transactions);
    for (n, one) in (0..).zip(&mut history.transactions) {
        let from = 1000 * n;
        (one.begun, one.ending, one.ended) = (from, from + 60, from + 70);
        one.operations.iter_mut().for_each(|operation| operation.at = from + 50);
    }
    history
}

/// The history has this anomaly, at every level from `from` on, and none at the levels below.
#[track_caller]
fn excluded_from(from: Isolation, transactions: &[&[(Key, Action)]], is: fn(&Anomaly) -> bool) {
    for level in Isolation::ALL {
        let found = check(&concurrent(level, transactions));
        let excluded = level >= from;
        assert_eq!(found.iter().any(is), excluded, "{level}: {found:?}");
        assert!(excluded || found.is_empty(), "{level}: {found:?}");
    }
}

#[track_caller]
fn finds(history: &History, is: fn(&Anomaly) -> bool) {
    let found = check(history);
    assert!(found.iter().any(is), "{found:?}");
}

fn circle(anomaly: &Anomaly, wanted: &str) -> bool {
    matches!(anomaly, Anomaly::Circle { name, .. } if *name == wanted)
}

#[test]
fn nothing_is_wrong_with_transactions_in_a_row() {
    let history: [&[_]; 3] = [
        &[(X, Read(None)), (X, Write(1)), (X, Read(Some(1)))],
        &[(X, Read(Some(1))), (Y, Read(None)), (Y, Write(2)), (X, Write(3))],
        &[(X, Read(Some(3))), (Y, Read(Some(2)))],
    ];
    for level in Isolation::ALL {
        assert_eq!(check(&in_a_row(level, &history)), []);
        assert_eq!(check(&concurrent(level, &history)), []);
    }
}

#[test]
fn a_read_of_what_was_rolled_back_is_found() {
    let mut history = concurrent(ReadCommitted, &[&[(X, Write(1))], &[(X, Read(Some(1)))]]);
    history.transactions[0].outcome = Aborted;
    finds(&history, |one| *one == Anomaly::AbortedRead { reader: 1, writer: 0, key: X });
}

#[test]
fn a_read_of_what_its_writer_replaced_is_found() {
    let intermediate: [&[_]; 2] = [&[(X, Write(1)), (X, Write(2))], &[(X, Read(Some(1)))]];
    excluded_from(ReadCommitted, &intermediate, |one| {
        *one == Anomaly::IntermediateRead { reader: 1, writer: 0, key: X }
    });
}

#[test]
fn a_read_before_the_commit_is_found() {
    let mut history = concurrent(ReadCommitted, &[&[(X, Write(1))], &[(X, Read(Some(1)))]]);
    assert_eq!(check(&history), []);
    history.transactions[0].ending = 60;
    finds(&history, |one| *one == Anomaly::DirtyRead { reader: 1, writer: 0, key: X });
}

#[test]
fn a_read_of_what_nobody_wrote_is_found() {
    let unknown = |one: &Anomaly| matches!(one, Anomaly::UnknownVersion { .. });
    excluded_from(ReadCommitted, &[&[(X, Read(Some(9)))]], unknown);
    excluded_from(ReadCommitted, &[&[(X, Write(1))], &[(Y, Read(Some(1)))]], unknown);
}

#[test]
fn an_own_write_that_is_not_seen_is_found() {
    let missed = |one: &Anomaly| matches!(one, Anomaly::OwnWriteMissed { reader: 0, key: X });
    excluded_from(ReadCommitted, &[&[(X, Write(1)), (X, Read(None))]], missed);
}

#[test]
fn a_read_that_does_not_repeat_is_found() {
    let history: [&[_]; 2] = [&[(X, Read(None)), (X, Read(Some(1)))], &[(X, Write(1))]];
    let again = |one: &Anomaly| matches!(one, Anomaly::NonRepeatableRead { reader: 0, key: X });
    excluded_from(Snapshot, &history, again);
}

#[test]
fn a_lost_update_is_found() {
    let lost = |one: &Anomaly| matches!(one, Anomaly::LostUpdate { key: X, .. });
    let update: fn(WriteId) -> [(Key, Action); 2] = |id| [(X, Read(None)), (X, Write(id))];
    excluded_from(Snapshot, &[&update(1), &update(2)], lost);
    let for_update = |id| [(X, ReadForUpdate(None)), (X, Write(id))];
    excluded_from(ReadCommitted, &[&for_update(1), &for_update(2)], lost);
}

#[test]
fn writes_in_two_orders_are_found() {
    // The second's X replaced the first's, and the first's Y the second's.
    let history: [&[_]; 2] = [
        &[(X, Write(1)), (Y, ReadForUpdate(Some(3))), (Y, Write(2))],
        &[(Y, Write(3)), (X, ReadForUpdate(Some(1))), (X, Write(4))],
    ];
    // They have read each other, too, which is as wrong.
    finds(&concurrent(ReadCommitted, &history), |one| circle(one, "G0") || circle(one, "G1c"));
}

#[test]
fn two_that_have_seen_each_others_writes_are_found() {
    let history: [&[_]; 2] =
        [&[(X, Write(1)), (Y, Read(Some(2)))], &[(Y, Write(2)), (X, Read(Some(1)))]];
    excluded_from(ReadCommitted, &history, |one| circle(one, "G1c"));
}

#[test]
fn read_skew_is_found() {
    let history: [&[_]; 2] = [
        &[(X, Read(None)), (Y, Read(Some(2)))],
        &[(X, ReadForUpdate(None)), (X, Write(1)), (Y, ReadForUpdate(None)), (Y, Write(2))],
    ];
    excluded_from(Snapshot, &history, |one| circle(one, "G-single"));
}

#[test]
fn write_skew_is_found() {
    let history: [&[_]; 2] = [
        &[(X, Read(None)), (Y, ReadForUpdate(None)), (Y, Write(1))],
        &[(Y, Read(None)), (X, ReadForUpdate(None)), (X, Write(2))],
    ];
    excluded_from(Serializable, &history, |one| circle(one, "G2"));
}

#[test]
fn the_anomaly_of_a_read_only_transaction_is_found() {
    // Fekete, O'Neil and O'Neil, SIGMOD Record 33(3), 2004: X is checking, Y savings.
    let history: [&[_]; 3] = [
        &[(Y, Read(None)), (Y, Write(1))],
        &[(X, Read(None)), (Y, Read(None)), (X, Write(2))],
        &[(X, Read(None)), (Y, Read(Some(1)))],
    ];
    assert_eq!(check(&concurrent(Snapshot, &history)), []);
    assert_eq!(check(&concurrent(Serializable, &history[..2])), []);
    finds(&concurrent(Serializable, &history), |one| circle(one, "G2"));
}

#[test]
fn a_read_older_than_what_had_ended_before_is_found() {
    let stale: [&[_]; 2] = [&[(X, Read(None)), (X, Write(1))], &[(X, Read(None)), (Z, Write(2))]];
    for level in [Snapshot, Serializable] {
        assert_eq!(check(&concurrent(level, &stale)), []);
        finds(&in_a_row(level, &stale), |one| circle(one, "G-single"));
    }
}

#[test]
fn levels_are_checked_by_themselves_in_a_mixed_history() {
    let mut history = concurrent(
        Serializable,
        &[
            &[(X, Read(None)), (Y, ReadForUpdate(None)), (Y, Write(1))],
            &[(Y, Read(None)), (X, ReadForUpdate(None)), (X, Write(2))],
        ],
    );
    history.transactions[0].isolation = Snapshot;
    assert_eq!(check(&history), []);
}
