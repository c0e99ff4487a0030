//! Transactions: their ends, their conflicts, their cursors.

use crate::cursors::{agrees, both_ways, filled, next};
use crate::support::*;
use esker_c::cursor::*;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::prepared::*;
use esker_c::settings::*;
use esker_c::transaction::*;
use std::ptr::null;

pub fn begin(db: &esker_db, flags: u32) -> Box<esker_transaction> {
    make!(esker_begin, Some(db), flags, 1).unwrap()
}

pub fn tx_put(
    transaction: &esker_transaction,
    keyspace: &esker_keyspace,
    key: &str,
    value: &str,
) -> Outcome {
    let (key, value) = (key.as_bytes(), value.as_bytes());
    call!(
        esker_transaction_put,
        Some(transaction),
        Some(keyspace),
        key.as_ptr(),
        key.len(),
        value.as_ptr(),
        value.len()
    )
}

fn tx_get(tx: &esker_transaction, keyspace: &esker_keyspace, key: &str) -> Outcome<Vec<u8>> {
    take!(esker_transaction_get, Some(tx), Some(keyspace), key.as_ptr(), key.len())
}

fn tx_lock(tx: &esker_transaction, keyspace: &esker_keyspace, key: &str) -> Outcome<Vec<u8>> {
    take!(esker_transaction_get_for_update, Some(tx), Some(keyspace), key.as_ptr(), key.len())
}

#[test]
fn a_commit_shows_all_writes_and_a_rollback_none() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    put(&users, "eve", "auditor").unwrap();
    let tx = begin(&db, 0);
    tx_put(&tx, &users, "ada", "analyst").unwrap();
    call!(esker_transaction_delete, Some(&tx), Some(&users), b"eve".as_ptr(), 3).unwrap();
    assert_eq!(tx_get(&tx, &users, "ada").unwrap(), b"analyst");
    assert_eq!(status(tx_get(&tx, &users, "eve")), ESKER_NOT_FOUND);
    assert_eq!(status(get(&users, "ada")), ESKER_NOT_FOUND);
    call!(esker_commit, Some(&tx)).unwrap();
    assert_eq!(get(&users, "ada").unwrap(), b"analyst");
    assert_eq!(status(get(&users, "eve")), ESKER_NOT_FOUND);
    for ended in [
        call!(esker_commit, Some(&tx)),
        call!(esker_rollback, Some(&tx)),
        tx_put(&tx, &users, "ada", ""),
        tx_get(&tx, &users, "ada").map(|_| ()),
        call!(esker_transaction_set_savepoint, Some(&tx)),
        call!(esker_prepare, Some(&tx), b"id".as_ptr(), 2),
    ] {
        let (status, text) = failure(ended);
        assert_eq!(status, ESKER_TRANSACTION_ENDED);
        assert!(text.contains("committed"), "{text}");
    }
    for free in [false, true] {
        let tx = begin(&db, ESKER_OPTIMISTIC);
        tx_put(&tx, &users, "bob", "builder").unwrap();
        if !free {
            call!(esker_rollback, Some(&tx)).unwrap();
            assert_eq!(failure(call!(esker_commit, Some(&tx))).0, ESKER_TRANSACTION_ENDED);
        }
        esker_transaction_free(Some(tx));
        assert_eq!(status(get(&users, "bob")), ESKER_NOT_FOUND);
    }
}

#[test]
fn conflicts_are_codes() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    // Of two optimistic transactions the second to commit fails.
    let (one, two) = (begin(&db, ESKER_OPTIMISTIC), begin(&db, ESKER_OPTIMISTIC));
    for tx in [&one, &two] {
        assert_eq!(status(tx_get(tx, &users, "ada")), ESKER_NOT_FOUND);
        tx_put(tx, &users, "ada", "analyst").unwrap();
    }
    call!(esker_commit, Some(&one)).unwrap();
    let (status_two, text) = failure(call!(esker_commit, Some(&two)));
    assert_eq!(status_two, ESKER_CONFLICT);
    assert!(text.contains("ada"), "{text}");
    assert_eq!(failure(call!(esker_commit, Some(&two))).0, ESKER_TRANSACTION_ENDED);

    // A lock that another one has.
    let (one, two) = (begin(&db, 0), begin(&db, 0));
    assert_eq!(tx_lock(&one, &users, "ada").unwrap(), b"analyst");
    assert_eq!(failure(tx_lock(&two, &users, "ada")).0, ESKER_LOCK_TIMEOUT);
    call!(esker_rollback, Some(&one)).unwrap();
    assert_eq!(tx_lock(&two, &users, "ada").unwrap(), b"analyst");

    // A serializable one fails if what it read has changed, other levels do not.
    for (flags, expected) in [
        (ESKER_SERIALIZABLE | ESKER_OPTIMISTIC, ESKER_CONFLICT),
        (ESKER_READ_COMMITTED | ESKER_OPTIMISTIC, ESKER_OK),
        (ESKER_OPTIMISTIC, ESKER_OK),
    ] {
        put(&users, "read", "1").unwrap();
        let tx = begin(&db, flags);
        assert_eq!(tx_get(&tx, &users, "read").unwrap(), b"1");
        put(&users, "read", "2").unwrap();
        let seen = tx_get(&tx, &users, "read").unwrap();
        assert_eq!(seen == b"2", flags & ESKER_READ_COMMITTED != 0);
        tx_put(&tx, &users, "written", "").unwrap();
        assert_eq!(status(call!(esker_commit, Some(&tx))), expected, "{flags}");
    }
}

#[test]
fn savepoints_nest() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let tx = begin(&db, 0);
    let back = || call!(esker_transaction_rollback_to_savepoint, Some(&tx));
    assert_eq!(failure(back()).0, ESKER_NO_SAVEPOINT);
    for name in ["a", "b", "c"] {
        tx_put(&tx, &users, name, name).unwrap();
        call!(esker_transaction_set_savepoint, Some(&tx)).unwrap();
    }
    tx_put(&tx, &users, "d", "d").unwrap();
    back().unwrap();
    assert_eq!(status(tx_get(&tx, &users, "d")), ESKER_NOT_FOUND);
    back().unwrap();
    call!(esker_commit, Some(&tx)).unwrap();
    assert_eq!(["a", "b", "c"].map(|key| get(&users, key).is_ok()), [true, true, false]);
}

#[test]
fn merges_and_expiries_of_a_transaction_commit_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut settings = make!(esker_keyspace_settings_new).unwrap();
    let (name, value) = (c"merge".as_ptr(), c"append".as_ptr());
    call!(esker_keyspace_settings_set, Some(&mut settings), name, value).unwrap();
    let log = make!(esker_keyspace_create, Some(&db), c"log".as_ptr(), Some(&settings)).unwrap();
    let tx = begin(&db, 0);
    for word in ["one", "two"] {
        let (key, word, len) = (b"k".as_ptr(), word.as_ptr(), word.len());
        call!(esker_transaction_merge, Some(&tx), Some(&log), key, 1, word, len).unwrap();
    }
    let (key, hour) = (b"t".as_ptr(), 3_600_000);
    call!(esker_transaction_put_with_ttl, Some(&tx), Some(&log), key, 1, key, 1, hour).unwrap();
    call!(esker_commit, Some(&tx)).unwrap();
    assert_eq!(get(&log, "k").unwrap(), b"onetwo");
    assert_eq!(get(&log, "t").unwrap(), b"t");
}

/// The ids of the prepared transactions.
fn prepared(db: &esker_db) -> Outcome<Vec<String>> {
    let list = make!(esker_prepared_new, Some(db))?;
    let len = esker_prepared_len(Some(&list));
    let id = |index: usize| {
        let (mut id, mut id_len, mut is_damaged) = (null(), 7, true);
        let place = (&mut id, &mut id_len);
        call!(esker_prepared_entry, Some(&list), index, place.0, place.1, &mut is_damaged)?;
        assert!(!is_damaged);
        // SAFETY: the list lends as many bytes.
        let id = unsafe { std::slice::from_raw_parts(id, id_len) };
        Ok(String::from_utf8(id.to_vec()).unwrap())
    };
    let ids = (0..len).map(id).collect();
    assert_eq!(status(id(len)), ESKER_NOT_FOUND);
    esker_prepared_free(Some(list));
    ids
}

#[test]
fn a_prepared_transaction_is_decided_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = open(dir.path());
    for id in ["one", "two"] {
        let users = keyspace(&db, "users");
        let tx = begin(&db, 0);
        tx_put(&tx, &users, id, "prepared").unwrap();
        call!(esker_prepare, Some(&tx), id.as_ptr(), id.len()).unwrap();
        assert_eq!(status(get(&users, id)), ESKER_NOT_FOUND);
        let other = begin(&db, 0);
        assert_eq!(failure(tx_lock(&other, &users, id)).0, ESKER_LOCK_TIMEOUT);
        let outcome = call!(esker_prepare, Some(&other), id.as_ptr(), id.len());
        assert_eq!(failure(outcome).0, ESKER_PREPARED);
    }
    assert_eq!(prepared(&db).unwrap(), ["one", "two"]);
    call!(esker_close, Some(db)).unwrap();
    db = open(dir.path());
    assert_eq!(prepared(&db).unwrap(), ["one", "two"]);
    call!(esker_commit_prepared, Some(&db), b"one".as_ptr(), 3).unwrap();
    call!(esker_rollback_prepared, Some(&db), b"two".as_ptr(), 3).unwrap();
    let outcome = call!(esker_commit_prepared, Some(&db), b"two".as_ptr(), 3);
    assert_eq!(failure(outcome).0, ESKER_PREPARED);
    assert!(prepared(&db).unwrap().is_empty());
    let users = keyspace(&db, "users");
    assert_eq!(get(&users, "one").unwrap(), b"prepared");
    assert_eq!(status(get(&users, "two")), ESKER_NOT_FOUND);
}

#[test]
fn a_cursor_of_a_transaction_sees_its_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let mut model = filled(&users);
    let tx = begin(&db, 0);
    let both = (Some(&*tx), Some(&*users));
    let mut cursor =
        make!(esker_transaction_cursor_range, both.0, both.1, null(), 0, null(), 0).unwrap();
    agrees(&mut cursor, &model);
    for number in (1..100).step_by(7) {
        let (key, value) = (format!("{number:03}"), format!("own {number}"));
        tx_put(&tx, &users, &key, &value).unwrap();
        model.insert(key.into_bytes(), value.into_bytes());
    }
    agrees(&mut cursor, &model);
    let mut prefix =
        make!(esker_transaction_cursor_prefix, both.0, both.1, b"05".as_ptr(), 2).unwrap();
    let fifties = model.iter().filter(|(key, _)| key.starts_with(b"05")).count();
    assert_eq!(both_ways(&mut prefix).unwrap().0.len(), fifties);
}

/// A write is seen by the next step, whatever was read ahead.
#[test]
fn a_cursor_sees_writes_that_are_made_while_it_moves() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let keys = filled(&users);
    let tx = begin(&db, 0);
    let both = (Some(&*tx), Some(&*users));
    let mut cursor =
        make!(esker_transaction_cursor_range, both.0, both.1, null(), 0, null(), 0).unwrap();
    call!(esker_cursor_first, Some(&mut cursor)).unwrap();
    let mut seen = 1;
    while let Some((key, value)) = next(&mut cursor).unwrap() {
        seen += 1;
        let after = format!("{}+", String::from_utf8(key.clone()).unwrap());
        if key.ends_with(b"+") {
            assert_eq!(value, b"added");
            continue;
        }
        // One after this entry is seen next, and the deletion of this one changes no more.
        tx_put(&tx, &users, &after, "added").unwrap();
        call!(esker_transaction_delete, both.0, both.1, key.as_ptr(), key.len()).unwrap();
    }
    assert_eq!(seen, 1 + 2 * (keys.len() - 1));
    call!(esker_commit, Some(&tx)).unwrap();
    let outcome = call!(esker_cursor_first, Some(&mut cursor));
    assert_eq!(failure(outcome).0, ESKER_TRANSACTION_ENDED);
    let outcome = call!(esker_cursor_next, Some(&mut cursor));
    assert_eq!(failure(outcome).0, ESKER_TRANSACTION_ENDED);
}
