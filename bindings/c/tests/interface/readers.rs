//! Values that are written from a function of the caller, and read a part at a time.

use crate::support::*;
use esker_c::database::*;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::reader::*;
use esker_c::snapshot::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// A value that a function gives in parts.
struct Given {
    bytes: Vec<u8>,
    at: usize,
    /// What it returns in place of its last byte.
    end: isize,
}

extern "C" fn next(context: *mut c_void, buffer: *mut u8, capacity: usize) -> isize {
    // SAFETY: the test gives a `Given`, and the library a buffer of this capacity.
    unsafe {
        let given = &mut *context.cast::<Given>();
        let left = given.bytes.len() - given.at;
        if left <= 1 && given.end != 0 {
            return given.end;
        }
        let count = left.min(capacity).min(10_000);
        buffer.copy_from_nonoverlapping(given.bytes[given.at..].as_ptr(), count);
        given.at += count;
        count as isize
    }
}

fn put_given(keyspace: &esker_keyspace, key: &str, bytes: &[u8], end: isize) -> Outcome<u64> {
    let mut given = Given { bytes: bytes.to_vec(), at: 0, end };
    let (mut len, context) = (7, std::ptr::from_mut(&mut given).cast());
    let (at, key_len) = (key.as_ptr(), key.len());
    call!(esker_put_reader, Some(keyspace), at, key_len, Some(next), context, &mut len)
        .map(|()| len)
}

fn reader(keyspace: &esker_keyspace, key: &str) -> Outcome<Box<esker_value_reader>> {
    make!(esker_get_reader, Some(keyspace), key.as_ptr(), key.len())
}

fn read(reader: &mut esker_value_reader, capacity: usize) -> Outcome<Vec<u8>> {
    let (mut buffer, mut count) = (vec![0; capacity], 7);
    let at = buffer.as_mut_ptr();
    call!(esker_value_reader_read, Some(reader), at, capacity, &mut count)?;
    buffer.truncate(count);
    Ok(buffer)
}

fn value(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7) as u8).collect()
}

#[test]
fn values_of_any_size_are_written_and_read_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let films = keyspace(&db, "films");
    // The last is larger than a segment of the log.
    for len in [0, 1, 100, 50_000, 3 << 20] {
        let key = len.to_string();
        assert_eq!(put_given(&films, &key, &value(len), 0).unwrap(), len as u64);
        let mut film = reader(&films, &key).unwrap();
        assert_eq!(esker_value_reader_len(Some(&film)), len as u64);
        let mut all = Vec::new();
        loop {
            let part = read(&mut film, 30_000).unwrap();
            all.extend_from_slice(&part);
            // A part is short only at the end.
            if part.len() < 30_000 {
                break;
            }
        }
        assert!(all == value(len), "{len}");
        assert_eq!(read(&mut film, 10).unwrap(), b"");
        call!(esker_value_reader_seek, Some(&mut film), len as u64 / 2).unwrap();
        assert_eq!(read(&mut film, 9).unwrap(), value(len)[len / 2..][..9.min(len - len / 2)]);
        call!(esker_value_reader_seek, Some(&mut film), len as u64 + 5).unwrap();
        assert_eq!(read(&mut film, 9).unwrap(), b"");
        assert_eq!(read(&mut film, 0).unwrap(), b"");
        esker_value_reader_free(Some(film));
    }
    assert_eq!(status(reader(&films, "none")), ESKER_NOT_FOUND);
    let key = b"no length".as_ptr();
    let mut given = Given { bytes: value(5), at: 0, end: 0 };
    let context = std::ptr::from_mut(&mut given).cast();
    call!(esker_put_reader, Some(&films), key, 9, Some(next), context, null_mut()).unwrap();
    assert_eq!(get(&films, "no length").unwrap(), value(5));
}

#[test]
fn a_function_that_fails_leaves_the_key_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let films = keyspace(&db, "films");
    put(&films, "k", "before").unwrap();
    for len in [1, 100, 3 << 20] {
        let (status, text) = failure(put_given(&films, "k", &value(len), -5));
        assert_eq!(status, ESKER_IO, "{text}");
        assert!(text.ends_with("it returned -5"), "{text}");
        let (status, text) = failure(put_given(&films, "k", &value(len), isize::MAX));
        assert_eq!(status, ESKER_INVALID_ARGUMENT, "{text}");
        assert_eq!(get(&films, "k").unwrap(), b"before");
    }
}

#[test]
fn a_reader_keeps_its_value_and_outlives_what_made_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let films = keyspace(&db, "films");
    put_given(&films, "k", &value(3 << 20), 0).unwrap();
    let snapshot = make!(esker_snapshot_new, Some(&db)).unwrap();
    let mut first = reader(&films, "k").unwrap();
    assert_eq!(read(&mut first, 100).unwrap(), value(100));
    put(&films, "k", "after").unwrap();
    call!(esker_compact, Some(&db), None).unwrap();
    let at = |key: &str| {
        make!(esker_snapshot_get_reader, Some(&snapshot), Some(&films), key.as_ptr(), key.len())
    };
    let mut second = at("k").unwrap();
    assert_eq!(status(at("none")), ESKER_NOT_FOUND);
    esker_snapshot_free(Some(snapshot));
    for film in [&mut first, &mut second] {
        call!(esker_value_reader_seek, Some(film), 0).unwrap();
        assert!(read(film, 4 << 20).unwrap() == value(3 << 20));
        call!(esker_value_reader_seek, Some(film), 0).unwrap();
    }
    call!(esker_close, Some(db)).unwrap();
    esker_keyspace_free(Some(films));
    assert_eq!(failure(read(&mut first, 10)).0, ESKER_CLOSED);
    esker_value_reader_free(Some(first));
    esker_value_reader_free(Some(second));
}

/// A damaged part is an error, and the position stays.
#[test]
fn damage_is_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let films = keyspace(&db, "films");
    put_given(&films, "k", &value(3 << 20), 0).unwrap();
    let files = dir.path().read_dir().unwrap().map(|file| file.unwrap().path());
    let large = files.filter(|path| path.metadata().unwrap().len() >= 3 << 20);
    let large = large.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&large).unwrap();
    bytes[2 << 20] ^= 1;
    std::fs::write(&large, bytes).unwrap();
    let mut film = reader(&films, "k").unwrap();
    assert_eq!(failure(read(&mut film, 3 << 20)).0, ESKER_CORRUPTION);
    assert_eq!(read(&mut film, 100).unwrap(), value(100));
    let outcome = call!(esker_value_reader_read, Some(&mut film), null_mut(), 1, &mut 0);
    assert_eq!(failure(outcome).1, "buffer is NULL");
    let outcome = call!(esker_put_reader, Some(&films), null(), 0, None, null_mut(), null_mut());
    assert_eq!(failure(outcome).1, "read is NULL");
    esker_value_reader_free(Some(film));
}
