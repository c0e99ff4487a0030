//! When times to live begin and end: in each kind of write, and where the calendar jumps.

use crate::expiry::{Place, ms};
use esker_lsm::Keyspace;
use std::time::Duration;

fn get(keyspace: &Keyspace, key: &str) -> Option<String> {
    let found = keyspace.get(key).unwrap();
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn a_time_of_zero_ends_at_once_and_the_longest_never() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    for is_flushed in [false, true] {
        keyspace.put("zero", "older").unwrap();
        keyspace.put_with_ttl("zero", "v", Duration::ZERO).unwrap();
        keyspace.put_with_ttl("nanosecond", "v", Duration::from_nanos(1)).unwrap();
        keyspace.put_with_ttl("longest", "v", Duration::MAX).unwrap();
        if is_flushed {
            db.flush().unwrap();
            db.compact().unwrap();
        }
        assert_eq!(get(&keyspace, "zero"), None);
        assert!(get(&keyspace, "nanosecond").is_some(), "it is rounded up");
        place.clock.pass(1);
        assert_eq!(get(&keyspace, "nanosecond"), None);
        place.clock.pass(1 << 45);
        assert_eq!(get(&keyspace, "longest").as_deref(), Some("v"));
        assert_eq!(keyspace.count(..).unwrap(), 1);
    }
}

#[test]
fn in_an_indexed_batch_it_begins_with_the_write() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    let mut batch = db.indexed_batch();
    batch.put_with_ttl(&keyspace, "k", "v", ms(10));
    place.clock.pass(100);
    assert_eq!(batch.get(&keyspace, "k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(batch.iter(&keyspace).count(), 1);
    batch.write().unwrap();
    place.clock.pass(9);
    assert_eq!(get(&keyspace, "k").as_deref(), Some("v"));
    place.clock.pass(1);
    assert_eq!(get(&keyspace, "k"), None);
    // A read through a batch finds what the database has.
    keyspace.put_with_ttl("theirs", "v", ms(10)).unwrap();
    let mut batch = db.indexed_batch();
    batch.put(&keyspace, "own", "v");
    assert_eq!(batch.iter(&keyspace).count(), 2);
    place.clock.pass(10);
    assert_eq!(batch.iter(&keyspace).count(), 1);
    assert_eq!(batch.get(&keyspace, "theirs").unwrap(), None);
}

/// However long it stays prepared, and over restarts.
#[test]
fn in_a_prepared_transaction_it_begins_with_the_commit() {
    for is_reopened in [false, true] {
        let place = Place::new();
        let mut db = place.open();
        let mut tx = db.transaction().unwrap();
        tx.put_with_ttl(&db.default_keyspace(), "k", "v", ms(10)).unwrap();
        tx.put_with_ttl(&db.default_keyspace(), "zero", "v", ms(0)).unwrap();
        tx.prepare("pay").unwrap();
        place.clock.pass(1_000);
        if is_reopened {
            db.close().unwrap();
            db = place.open();
        }
        let prepared = db.prepared().unwrap();
        assert_eq!(prepared.len(), 1);
        db.commit_prepared("pay").unwrap();
        let keyspace = db.default_keyspace();
        assert_eq!(get(&keyspace, "zero"), None);
        place.clock.pass(9);
        assert_eq!(get(&keyspace, "k").as_deref(), Some("v"));
        place.clock.pass(1);
        assert_eq!(get(&keyspace, "k"), None);
    }
}

/// It does not last longer either, while the database is open.
#[test]
fn a_calendar_that_jumps_back_does_not_make_an_entry_last_longer() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    keyspace.put_with_ttl("before", "v", ms(100)).unwrap();
    place.clock.set_back(1_000_000);
    keyspace.put_with_ttl("after", "v", ms(100)).unwrap();
    place.clock.pass(99);
    assert_eq!(get(&keyspace, "before").as_deref(), Some("v"));
    assert_eq!(get(&keyspace, "after").as_deref(), Some("v"));
    place.clock.pass(1);
    assert_eq!((get(&keyspace, "before"), get(&keyspace, "after")), (None, None));
}

/// What was written meanwhile lives as long as it says, with the calendar wrong and after that.
#[test]
fn a_calendar_that_jumps_forward_and_back_ends_what_was_there_and_nothing_later() {
    let place = Place::new();
    let mut db = place.open();
    let keyspace = db.default_keyspace();
    keyspace.put_with_ttl("before", "v", ms(100_000)).unwrap();
    place.clock.jump(1_000_000);
    assert_eq!(get(&keyspace, "before"), None);
    keyspace.put_with_ttl("meanwhile", "v", ms(100_000)).unwrap();
    place.clock.set_back(1_000_000);
    keyspace.put_with_ttl("after", "v", ms(100_000)).unwrap();
    db.close().unwrap();
    db = place.open();
    let keyspace = db.default_keyspace();
    assert_eq!(get(&keyspace, "before"), None);
    place.clock.pass(99_000);
    for key in ["meanwhile", "after"] {
        assert_eq!(get(&keyspace, key).as_deref(), Some("v"), "{key}");
    }
    place.clock.pass(1_000);
    for key in ["meanwhile", "after"] {
        assert_eq!(get(&keyspace, key), None, "{key}");
    }
}
