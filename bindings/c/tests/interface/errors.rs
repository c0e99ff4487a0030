//! Errors are values: each has its number and a text.

use crate::support::*;
use esker_c::database::*;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::settings::*;
use esker_c::snapshot::esker_snapshot_get;
use esker_c::snapshot::esker_snapshot_new;
use std::fs;
use std::path::Path;

fn opened(dir: &Path) -> Outcome<Box<esker_db>> {
    let dir = c_path(dir);
    make!(esker_open, dir.as_ptr(), Some(&small()))
}

#[test]
fn a_directory_of_another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let files: [(&str, &[(&str, &str)]); 3] = [
        (
            "rocksdb",
            &[
                ("CURRENT", "MANIFEST-000005\n"),
                ("MANIFEST-000005", "V\u{1}leveldb"),
                ("000004.log", ""),
                ("IDENTITY", "7f"),
            ],
        ),
        (
            "leveldb",
            &[("CURRENT", "MANIFEST-000002\n"), ("000005.ldb", "x"), ("MANIFEST-000002", "x")],
        ),
        ("letters", &[("letter.txt", "Dear Ada")]),
    ];
    for (name, files) in files {
        let dir = dir.path().join(name);
        fs::create_dir(&dir).unwrap();
        for (file, text) in files {
            fs::write(dir.join(file), text).unwrap();
        }
        let (status, text) = failure(opened(&dir));
        assert_eq!(status, ESKER_NOT_A_DATABASE, "{name}: {text}");
        assert!(text.contains(name), "{text}");
        for (file, text) in files {
            assert_eq!(fs::read_to_string(dir.join(file)).unwrap(), *text, "{name}/{file}");
        }
    }
    let missing = c_path(&dir.path().join("missing"));
    let outcome = make!(esker_open_existing, missing.as_ptr(), None);
    assert_eq!(failure(outcome).0, ESKER_NOT_A_DATABASE);
    let file = dir.path().join("letters/letter.txt/db");
    assert_eq!(failure(opened(&file)).0, ESKER_IO);
}

#[test]
fn a_database_that_is_open_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    assert_eq!(failure(opened(dir.path())).0, ESKER_LOCKED);
    call!(esker_close, Some(db)).unwrap();
    assert_eq!(status(opened(dir.path())), ESKER_OK);
}

#[test]
fn a_damaged_manifest_is_corruption() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    put(&keyspace(&db, "users"), "ada", "analyst").unwrap();
    call!(esker_close, Some(db)).unwrap();
    let is_manifest = |name: &str| name.to_ascii_lowercase().contains("manifest");
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let manifests: Vec<_> = files
        .filter(|path| path.file_name().is_some_and(|name| is_manifest(&name.to_string_lossy())))
        .collect();
    assert!(!manifests.is_empty());
    for manifest in manifests {
        let mut bytes = fs::read(&manifest).unwrap();
        let middle = bytes.len() / 3;
        bytes[middle] ^= 0xff;
        fs::write(&manifest, bytes).unwrap();
    }
    assert_eq!(failure(opened(dir.path())).0, ESKER_CORRUPTION);
}

#[test]
fn keyspaces_have_errors_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    let outcome = make!(esker_keyspace_open, Some(&db), c"missing".as_ptr());
    let (status, text) = failure(outcome);
    assert_eq!(status, ESKER_UNKNOWN_KEYSPACE);
    assert!(text.contains("missing"), "{text}");

    let mut settings = make!(esker_keyspace_settings_new).unwrap();
    let (name, value) = (c"compression".as_ptr(), c"zstd".as_ptr());
    call!(esker_keyspace_settings_set, Some(&mut settings), name, value).unwrap();
    let outcome = make!(esker_keyspace_create, Some(&db), c"users".as_ptr(), Some(&settings));
    let (status, text) = failure(outcome);
    assert_eq!(status, ESKER_KEYSPACE_SETTINGS_DIFFER);
    assert!(text.contains("compression is lz4, not zstd"), "{text}");

    let outcome = make!(esker_keyspace_create, Some(&db), c"a\nb".as_ptr(), None);
    assert_eq!(failure(outcome).0, ESKER_BAD_KEYSPACE_NAME);
    let default = make!(esker_keyspace_default, Some(&db)).unwrap();
    let outcome = call!(esker_keyspace_drop, Some(&db), Some(&default));
    assert_eq!(failure(outcome).0, ESKER_BAD_KEYSPACE_NAME);

    call!(esker_keyspace_drop, Some(&db), Some(&users)).unwrap();
    assert_eq!(failure(put(&users, "a", "b")).0, ESKER_UNKNOWN_KEYSPACE);
    assert_eq!(failure(get(&users, "a")).0, ESKER_UNKNOWN_KEYSPACE);
}

#[test]
fn handles_of_another_database_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (open(&dir.path().join("one")), open(&dir.path().join("two")));
    let users = keyspace(&one, "users");
    let outcome = call!(esker_compact, Some(&two), Some(&users));
    assert_eq!(failure(outcome).0, ESKER_FOREIGN_HANDLE);
    let outcome = call!(esker_keyspace_drop, Some(&two), Some(&users));
    assert_eq!(failure(outcome).0, ESKER_FOREIGN_HANDLE);
    let snapshot = make!(esker_snapshot_new, Some(&two)).unwrap();
    let outcome = take!(esker_snapshot_get, Some(&snapshot), Some(&users), b"a".as_ptr(), 1);
    assert_eq!(failure(outcome).0, ESKER_FOREIGN_HANDLE);
}

#[test]
fn limits_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    assert_eq!(failure(put(&users, vec![b'k'; 65_537], "")).0, ESKER_TOO_LARGE);
    // More than an entry of the log may have: a put stores it in a file of its own, and this call does not.
    let (key, value) = (b"key", vec![0; 1 << 20]);
    let (key, at, bytes) = (key.as_ptr(), value.as_ptr(), value.len());
    let (mut was_put, null) = (false, std::ptr::null_mut());
    let (db, to) = (Some(&*db), Some(&*users));
    let outcome = call!(esker_put_if_absent, db, to, key, 3, at, bytes, &mut was_put, null);
    let (status, text) = failure(outcome);
    assert_eq!(status, ESKER_TOO_LARGE);
    assert!(text.contains("1048576 bytes"), "{text}");
    let outcome = call!(esker_delete_range, Some(&users), b"b".as_ptr(), 1, b"a".as_ptr(), 1);
    assert_eq!(failure(outcome).0, ESKER_INVALID_ARGUMENT);
}

#[test]
fn merges_need_an_operator_and_an_operand_of_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let plain = keyspace(&db, "plain");
    let merge = |keyspace: &esker_keyspace, operand: &[u8]| {
        call!(esker_merge, Some(keyspace), b"k".as_ptr(), 1, operand.as_ptr(), operand.len())
    };
    assert_eq!(failure(merge(&plain, b"x")).0, ESKER_NO_MERGE_OPERATOR);
    let mut settings = make!(esker_keyspace_settings_new).unwrap();
    let (name, value) = (c"merge".as_ptr(), c"add_i64".as_ptr());
    call!(esker_keyspace_settings_set, Some(&mut settings), name, value).unwrap();
    let visits =
        make!(esker_keyspace_create, Some(&db), c"visits".as_ptr(), Some(&settings)).unwrap();
    assert_eq!(failure(merge(&visits, b"x")).0, ESKER_MERGE_FAILED);
    merge(&visits, &40_i64.to_le_bytes()).unwrap();
    merge(&visits, &2_i64.to_le_bytes()).unwrap();
    assert_eq!(get(&visits, "k").unwrap(), 42_i64.to_le_bytes());
}

#[test]
fn a_database_for_reading_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    put(&keyspace(&db, "users"), "ada", "analyst").unwrap();
    call!(esker_close, Some(db)).unwrap();
    let dir = c_path(dir.path());
    let db = make!(esker_open_read_only, dir.as_ptr(), Some(&small())).unwrap();
    let users = make!(esker_keyspace_open, Some(&db), c"users".as_ptr()).unwrap();
    assert_eq!(get(&users, "ada").unwrap(), b"analyst");
    assert_eq!(failure(put(&users, "ada", "")).0, ESKER_READ_ONLY);
    assert_eq!(failure(call!(esker_flush, Some(&db))).0, ESKER_READ_ONLY);
    let outcome = make!(esker_keyspace_create, Some(&db), c"new".as_ptr(), None);
    assert_eq!(failure(outcome).0, ESKER_READ_ONLY);
    let outcome = call!(esker_catch_up, Some(&db), std::ptr::null_mut());
    assert_eq!(failure(outcome).0, ESKER_FOLLOWER);
}

#[test]
fn a_buffer_that_is_too_small_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let users = keyspace(&db, "users");
    put(&users, "ada", "analyst").unwrap();
    let mut buffer = [7_u8; 8];
    let mut len = 0;
    let read = |capacity: usize, buffer: &mut [u8; 8], len: &mut usize| {
        let (key, buffer) = (b"ada".as_ptr(), buffer.as_mut_ptr());
        call!(esker_get_into, Some(&users), key, 3, buffer, capacity, len)
    };
    assert_eq!(failure(read(6, &mut buffer, &mut len)).0, ESKER_BUFFER_TOO_SMALL);
    assert_eq!((len, buffer), (7, [7; 8]));
    assert_eq!(read(7, &mut buffer, &mut len), Ok(()));
    assert_eq!((len, &buffer), (7, b"analyst\x07"));
    let outcome =
        call!(esker_get_into, Some(&users), b"bob".as_ptr(), 3, buffer.as_mut_ptr(), 8, &mut len);
    assert_eq!((status(outcome), len), (ESKER_NOT_FOUND, 0));
}
