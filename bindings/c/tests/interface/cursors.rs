//! Cursors move in both directions within their range, and lend their entries.

use crate::support::*;
use esker_c::cursor::*;
use esker_c::database::esker_flush;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::snapshot::*;
use std::collections::BTreeMap;
use std::ptr::null;

pub type Entry = (Vec<u8>, Vec<u8>);

/// The entry that the cursor is on.
pub fn entry(cursor: &esker_cursor) -> Outcome<Entry> {
    let (mut key, mut value, mut key_len, mut value_len) = (null(), null(), 0, 0);
    let (key_out, len_out) = (&mut key, &mut key_len);
    call!(esker_cursor_entry, Some(cursor), key_out, len_out, &mut value, &mut value_len)?;
    // SAFETY: the cursor lends as many bytes until it moves.
    let copy = |data, len| unsafe { std::slice::from_raw_parts(data, len) }.to_vec();
    Ok((copy(key, key_len), copy(value, value_len)))
}

/// What a move has led to: an entry, or `None` at the end.
pub fn led(cursor: &esker_cursor, moved: Outcome) -> Outcome<Option<Entry>> {
    match moved {
        Ok(()) => entry(cursor).map(Some),
        Err((ESKER_NOT_FOUND, _)) => {
            assert_eq!(status(entry(cursor)), ESKER_NOT_FOUND);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn first(cursor: &mut esker_cursor) -> Outcome<Option<Entry>> {
    let moved = call!(esker_cursor_first, Some(cursor));
    led(cursor, moved)
}

fn last(cursor: &mut esker_cursor) -> Outcome<Option<Entry>> {
    let moved = call!(esker_cursor_last, Some(cursor));
    led(cursor, moved)
}

pub fn next(cursor: &mut esker_cursor) -> Outcome<Option<Entry>> {
    let moved = call!(esker_cursor_next, Some(cursor));
    led(cursor, moved)
}

fn prev(cursor: &mut esker_cursor) -> Outcome<Option<Entry>> {
    let moved = call!(esker_cursor_prev, Some(cursor));
    led(cursor, moved)
}

fn seek(cursor: &mut esker_cursor, key: &[u8]) -> Outcome<Option<Entry>> {
    let moved = call!(esker_cursor_seek, Some(cursor), key.as_ptr(), key.len());
    led(cursor, moved)
}

fn seek_back(cursor: &mut esker_cursor, key: &[u8]) -> Outcome<Option<Entry>> {
    let moved = call!(esker_cursor_seek_back, Some(cursor), key.as_ptr(), key.len());
    led(cursor, moved)
}

/// All entries forward, and all entries backward, in order of their keys.
pub fn both_ways(cursor: &mut esker_cursor) -> Outcome<(Vec<Entry>, Vec<Entry>)> {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    let mut at = first(cursor)?;
    while let Some(entry) = at {
        forward.push(entry);
        at = next(cursor)?;
    }
    assert_eq!(next(cursor)?, None, "it stays without a position");
    let mut at = last(cursor)?;
    while let Some(entry) = at {
        backward.push(entry);
        at = prev(cursor)?;
    }
    backward.reverse();
    Ok((forward, backward))
}

/// Compares each move of a cursor with a map of the entries of its range.
pub fn agrees(cursor: &mut esker_cursor, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    let all: Vec<_> = model.iter().map(owned).collect();
    assert_eq!(both_ways(cursor).unwrap(), (all.clone(), all));
    for number in 0..110 {
        let key = format!("{number:03}").into_bytes();
        let after = model.range(key.clone()..).next().map(owned);
        let before = model.range(..=key.clone()).next_back().map(owned);
        assert_eq!(seek(cursor, &key).unwrap(), after, "{number}");
        assert_eq!(seek_back(cursor, &key).unwrap(), before, "{number}");
        // And on from there, to and fro.
        let Some((here, _)) = before else { continue };
        let beyond = model.range(here.clone()..).nth(1).map(owned);
        assert_eq!(next(cursor).unwrap(), beyond, "{number}");
        if beyond.is_some() {
            assert_eq!(prev(cursor).unwrap().unwrap().0, here);
        }
        let below = model.range(..here.clone()).next_back().map(owned);
        seek(cursor, &here).unwrap();
        assert_eq!(prev(cursor).unwrap(), below, "{number}");
    }
}

pub fn filled(keyspace: &esker_keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    for number in (0..100).step_by(3) {
        let (key, value) = (format!("{number:03}"), format!("value {number}"));
        put(keyspace, &key, &value).unwrap();
        model.insert(key.into_bytes(), value.into_bytes());
    }
    model
}

#[test]
fn a_cursor_sees_the_entries_of_its_range() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let model = filled(&users);
    call!(esker_flush, Some(&db)).unwrap();
    let ks = Some(&*users);
    let mut all = make!(esker_cursor_range, ks, None, null(), 0, null(), 0).unwrap();
    assert_eq!(status(entry(&all)), ESKER_NOT_FOUND, "a new cursor has no position");
    assert_eq!(status(call!(esker_cursor_next, Some(&mut all))), ESKER_NOT_FOUND);
    agrees(&mut all, &model);
    let (from, to) = (b"010", b"060");
    let mut part = make!(esker_cursor_range, ks, None, from.as_ptr(), 3, to.as_ptr(), 3).unwrap();
    let within = |range: std::ops::Range<&[u8]>| {
        let within = model.iter().filter(move |(key, _)| range.contains(&&key[..]));
        within.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    agrees_within(&mut part, &within(from..to));
    let mut prefix = make!(esker_cursor_prefix, ks, None, b"05".as_ptr(), 2).unwrap();
    agrees_within(&mut prefix, &within(b"05"..b"06"));
    let mut none = make!(esker_cursor_prefix, ks, None, b"x".as_ptr(), 1).unwrap();
    agrees_within(&mut none, &BTreeMap::new());
}

/// As [`agrees`], without moves to keys outside of the range.
fn agrees_within(cursor: &mut esker_cursor, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let all: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(both_ways(cursor).unwrap(), (all.clone(), all));
}

#[test]
fn a_cursor_reads_at_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    put(&users, "a", "1").unwrap();
    let snapshot = make!(esker_snapshot_new, Some(&db)).unwrap();
    put(&users, "b", "2").unwrap();
    let ks = Some(&*users);
    let mut old = make!(esker_cursor_range, ks, Some(&snapshot), null(), 0, null(), 0).unwrap();
    let mut new = make!(esker_cursor_range, ks, None, null(), 0, null(), 0).unwrap();
    esker_snapshot_free(Some(snapshot));
    put(&users, "c", "3").unwrap();
    assert_eq!(both_ways(&mut old).unwrap().0.len(), 1);
    assert_eq!(both_ways(&mut new).unwrap().0.len(), 2);
}

#[test]
fn a_cursor_outlives_its_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    filled(&users);
    call!(esker_flush, Some(&db)).unwrap();
    let ks = Some(&*users);
    let mut cursor = make!(esker_cursor_range, ks, None, null(), 0, null(), 0).unwrap();
    let here = first(&mut cursor).unwrap();
    call!(esker_close, Some(db)).unwrap();
    assert_eq!(entry(&cursor).ok(), here, "the entry is that of the cursor");
    assert_eq!(failure(next(&mut cursor)).0, ESKER_CLOSED);
    assert_eq!(failure(prev(&mut cursor)).0, ESKER_CLOSED);
    assert_eq!(failure(first(&mut cursor)).0, ESKER_CLOSED);
    assert_eq!(failure(seek(&mut cursor, b"0")).0, ESKER_CLOSED);
    let outcome = make!(esker_cursor_range, ks, None, null(), 0, null(), 0);
    assert_eq!(failure(outcome).0, ESKER_CLOSED);
    esker_keyspace_free(Some(users));
    esker_cursor_free(Some(cursor));
}
