//! Reads and writes of keyspaces, batches and snapshots.

use crate::support::*;
use esker_c::batch::*;
use esker_c::bytes::esker_bytes;
use esker_c::database::*;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::snapshot::*;

#[test]
fn values_of_any_length_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let value = |len: usize| (0..len).map(|at| at as u8).collect::<Vec<_>>();
    let lengths = [0, 1, 30, 31, 100, 4095, 4096, 50_000];
    for len in lengths {
        put(&users, len.to_string(), value(len)).unwrap();
    }
    for flush in [false, true] {
        if flush {
            call!(esker_flush, Some(&db)).unwrap();
            call!(esker_compact, Some(&db), Some(&users)).unwrap();
            call!(esker_compact, Some(&db), None).unwrap();
        }
        for len in lengths {
            assert_eq!(get(&users, len.to_string()).unwrap(), value(len), "{len}");
        }
        assert_eq!(status(get(&users, "missing")), ESKER_NOT_FOUND);
    }
    let contains = |key: &str| call!(esker_contains, Some(&users), key.as_ptr(), key.len());
    assert_eq!(status(contains("30")), ESKER_OK);
    assert_eq!(status(contains("29")), ESKER_NOT_FOUND);
}

#[test]
fn bytes_outlive_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    put(&users, "long", vec![7; 50_000]).unwrap();
    call!(esker_flush, Some(&db)).unwrap();
    let mut bytes = nothing();
    call!(esker_get, Some(&users), b"long".as_ptr(), 4, &mut bytes).unwrap();
    call!(esker_close, Some(db)).unwrap();
    esker_keyspace_free(Some(users));
    assert_eq!(taken(Ok(()), bytes).unwrap(), vec![7; 50_000]);
}

#[test]
fn deletes_remove_keys_and_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let fill = || ["a", "b", "c", "d"].map(|key| put(&users, key, key).unwrap());
    let there = || ["a", "b", "c", "d"].map(|key| get(&users, key).is_ok());
    fill();
    call!(esker_delete, Some(&users), b"a".as_ptr(), 1).unwrap();
    assert_eq!(there(), [false, true, true, true]);
    for (start, end, left) in [
        (Some("b"), Some("d"), [true, false, false, true]),
        (None, Some("c"), [false, false, true, true]),
        (Some("c"), None, [true, true, false, false]),
        (None, None, [false; 4]),
    ] {
        fill();
        let bound = |bound: Option<&str>| {
            bound.map_or((std::ptr::null(), 0), |bound| (bound.as_ptr(), bound.len()))
        };
        let ((start, start_len), (end, end_len)) = (bound(start), bound(end));
        call!(esker_delete_range, Some(&users), start, start_len, end, end_len).unwrap();
        assert_eq!(there(), left);
    }
}

#[test]
fn a_key_is_put_only_if_it_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let mut was_put = false;
    let (key, value) = (b"ada".as_ptr(), b"analyst".as_ptr());
    let null = std::ptr::null_mut();
    let both = (Some(&*db), Some(&*users));
    call!(esker_put_if_absent, both.0, both.1, key, 3, value, 7, &mut was_put, null).unwrap();
    assert!(was_put);
    let mut present = nothing();
    let admiral = b"admiral".as_ptr();
    call!(esker_put_if_absent, both.0, both.1, key, 3, admiral, 7, &mut was_put, &mut present)
        .unwrap();
    assert!(!was_put);
    assert_eq!(taken(Ok(()), present).unwrap(), b"analyst");
    call!(esker_put_if_absent, both.0, both.1, key, 3, admiral, 7, &mut was_put, null).unwrap();
    assert_eq!((was_put, get(&users, "ada").unwrap()), (false, b"analyst".to_vec()));
}

#[test]
fn entries_that_expire_are_there_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let hour = 3_600_000;
    let (key, value) = (b"ada".as_ptr(), b"analyst".as_ptr());
    call!(esker_put_with_ttl, Some(&users), key, 3, value, 7, hour).unwrap();
    assert_eq!(get(&users, "ada").unwrap(), b"analyst");
    call!(esker_put_with_ttl, Some(&users), key, 3, value, 7, 0).unwrap();
    assert_eq!(status(get(&users, "ada")), ESKER_NOT_FOUND);
}

#[test]
fn a_batch_is_written_whole_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (users, roles) = (keyspace(&db, "users"), keyspace(&db, "roles"));
    put(&users, "eve", "auditor").unwrap();
    let mut batch = make!(esker_batch_new).unwrap();
    let (key, value) = (b"ada".as_ptr(), b"analyst".as_ptr());
    call!(esker_batch_put, Some(&mut batch), Some(&users), key, 3, value, 7).unwrap();
    call!(esker_batch_put, Some(&mut batch), Some(&roles), value, 7, key, 3).unwrap();
    call!(esker_batch_delete, Some(&mut batch), Some(&users), b"eve".as_ptr(), 3).unwrap();
    call!(esker_batch_set_sync, Some(&mut batch), true).unwrap();
    assert_eq!(esker_batch_len(Some(&batch)), 3);
    assert_eq!(status(get(&users, "ada")), ESKER_NOT_FOUND);
    call!(esker_write, Some(&db), Some(&batch)).unwrap();
    assert_eq!(get(&users, "ada").unwrap(), b"analyst");
    assert_eq!(get(&roles, "analyst").unwrap(), b"ada");
    assert_eq!(status(get(&users, "eve")), ESKER_NOT_FOUND);

    let (from, to) = (b"a".as_ptr(), b"b".as_ptr());
    call!(esker_batch_delete_range, Some(&mut batch), Some(&users), from, 1, to, 1).unwrap();
    call!(esker_batch_put_with_ttl, Some(&mut batch), Some(&users), to, 1, value, 7, 3_600_000)
        .unwrap();
    call!(esker_write, Some(&db), Some(&batch)).unwrap();
    assert_eq!(status(get(&users, "ada")), ESKER_NOT_FOUND, "later writes win");
    assert_eq!(get(&users, "b").unwrap(), b"analyst");

    esker_batch_clear(Some(&mut batch));
    assert_eq!(esker_batch_len(Some(&batch)), 0);
    call!(esker_batch_merge, Some(&mut batch), Some(&users), key, 3, value, 7).unwrap();
    let outcome = call!(esker_write, Some(&db), Some(&batch));
    assert_eq!(failure(outcome).0, ESKER_NO_MERGE_OPERATOR, "it is checked when it is written");
    esker_batch_free(Some(batch));
}

#[test]
fn a_batch_of_another_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (open(&dir.path().join("one")), open(&dir.path().join("two")));
    let users = keyspace(&one, "users");
    let mut batch = make!(esker_batch_new).unwrap();
    call!(esker_batch_delete, Some(&mut batch), Some(&users), b"a".as_ptr(), 1).unwrap();
    let outcome = call!(esker_write, Some(&two), Some(&batch));
    assert_eq!(failure(outcome).0, ESKER_FOREIGN_HANDLE);
}

#[test]
fn a_snapshot_sees_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    put(&users, "ada", "analyst").unwrap();
    let snapshot = make!(esker_snapshot_new, Some(&db)).unwrap();
    put(&users, "ada", "admiral").unwrap();
    put(&users, "bob", "builder").unwrap();
    let at = |key: &str| {
        take!(esker_snapshot_get, Some(&snapshot), Some(&users), key.as_ptr(), key.len())
    };
    assert_eq!(at("ada").unwrap(), b"analyst");
    assert_eq!(status(at("bob")), ESKER_NOT_FOUND);
    call!(esker_sync, Some(&db)).unwrap();
    call!(esker_compact, Some(&db), None).unwrap();
    assert_eq!(at("ada").unwrap(), b"analyst");
    call!(esker_close, Some(db)).unwrap();
    assert_eq!(failure(at("ada")).0, ESKER_CLOSED);
}

/// The values of several keys; `None` for those that do not exist.
fn values_of(
    keys: &[&str],
    call: impl FnOnce(*const *const u8, *const usize, usize, *mut esker_bytes) -> Outcome,
) -> Outcome<Vec<Option<Vec<u8>>>> {
    let starts: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
    let lengths: Vec<_> = keys.iter().map(|key| key.len()).collect();
    let mut values: Vec<_> = keys
        .iter()
        .map(|_| esker_bytes { data: std::ptr::dangling(), len: 7, ..nothing() })
        .collect();
    let outcome = call(starts.as_ptr(), lengths.as_ptr(), keys.len(), values.as_mut_ptr());
    let is_failure = outcome.is_err();
    let value = |bytes: esker_bytes| match bytes.data.is_null() {
        true => None,
        false => Some(taken(Ok(()), bytes).unwrap()),
    };
    let values: Vec<_> = values.into_iter().map(value).collect();
    assert!(!is_failure || values.iter().all(Option::is_none), "no value comes with a failure");
    outcome.map(|()| values)
}

#[test]
fn several_keys_are_read_by_one_call() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    for (key, value) in [("ada", vec![1; 10]), ("", vec![2; 9_000]), ("bob", Vec::new())] {
        put(&users, key, value).unwrap();
    }
    let snapshot = make!(esker_snapshot_new, Some(&db)).unwrap();
    put(&users, "ada", "later").unwrap();
    let keys = ["bob", "none", "ada", "", "ada"];
    let present = || {
        values_of(&keys, |starts, lengths, count, values| {
            call!(esker_multi_get, Some(&users), starts, lengths, count, values)
        })
    };
    let before = || {
        values_of(&keys, |starts, lengths, count, values| {
            let both = (Some(&*snapshot), Some(&*users));
            call!(esker_snapshot_multi_get, both.0, both.1, starts, lengths, count, values)
        })
    };
    for flush in [false, true] {
        if flush {
            call!(esker_flush, Some(&db)).unwrap();
        }
        let expected = |ada: &[u8]| {
            [Some(vec![]), None, Some(ada.into()), Some(vec![2; 9_000]), Some(ada.into())]
        };
        assert_eq!(present().unwrap(), expected(b"later"));
        assert_eq!(before().unwrap(), expected(&[1; 10]));
    }
    let null = (std::ptr::null(), std::ptr::null(), std::ptr::null_mut());
    call!(esker_multi_get, Some(&users), null.0, null.1, 0, null.2).unwrap();
    call!(esker_close, Some(db)).unwrap();
    assert_eq!(failure(present()).0, ESKER_CLOSED);
    assert_eq!(failure(before()).0, ESKER_CLOSED);
}

#[test]
fn keys_are_counted_and_estimated() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    for number in 0..100 {
        put(&users, format!("{number:03}"), "value").unwrap();
    }
    let count = |start: &str, end: &str| {
        let bound = |key: &str| match key.is_empty() {
            true => (std::ptr::null(), 0),
            false => (key.as_ptr(), key.len()),
        };
        let ((start, start_len), (end, end_len)) = (bound(start), bound(end));
        let (mut count, keyspace) = (7, Some(&*users));
        call!(esker_count, keyspace, start, start_len, end, end_len, &mut count).map(|()| count)
    };
    let mut estimate = 7;
    call!(esker_approximate_len, Some(&users), &mut estimate).unwrap();
    assert_eq!(estimate, 100);
    call!(esker_flush, Some(&db)).unwrap();
    call!(esker_approximate_len, Some(&users), &mut estimate).unwrap();
    assert!((90..=110).contains(&estimate), "{estimate}");
    assert_eq!(count("", "").unwrap(), 100);
    assert_eq!(count("010", "").unwrap(), 90);
    assert_eq!(count("", "010").unwrap(), 10);
    assert_eq!(count("0105", "015").unwrap(), 4);
    assert_eq!((count("020", "010").unwrap(), count("010", "010").unwrap()), (0, 0));
    call!(esker_close, Some(db)).unwrap();
    assert_eq!(failure(count("", "")).0, ESKER_CLOSED);
    let outcome = call!(esker_approximate_len, Some(&users), &mut estimate);
    assert_eq!((failure(outcome).0, estimate), (ESKER_CLOSED, 0));
}

#[test]
fn keyspaces_are_listed_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let _keyspaces = (keyspace(&db, "users"), keyspace(&db, "a name"));
    let names = String::from_utf8(take!(esker_keyspace_names, Some(&db)).unwrap()).unwrap();
    let mut names: Vec<_> = names.lines().collect();
    names.sort();
    assert_eq!(names, ["a name", "default", "users"]);
}
