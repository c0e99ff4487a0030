//! Settings by their names, before the open and while the database is open.

use crate::support::*;
use esker_c::database::*;
use esker_c::open::*;
use esker_c::settings::*;

fn set(settings: &mut esker_settings, name: &str, value: &str) -> Outcome {
    let (name, value) = (c_text(name), c_text(value));
    call!(esker_settings_set, Some(settings), name.as_ptr(), value.as_ptr())
}

fn set_open(db: &esker_db, name: &str, value: &str) -> Outcome {
    let (name, value) = (c_text(name), c_text(value));
    call!(esker_set, Some(db), name.as_ptr(), value.as_ptr())
}

#[test]
fn a_wrong_name_or_value_is_in_the_text() {
    let mut settings = make!(esker_settings_new).unwrap();
    let mut of_keyspace = make!(esker_keyspace_settings_new).unwrap();
    for (name, value, texts) in [
        ("memory_byte", "1GiB", ["memory_byte", "did you mean \"memory_bytes\"?"]),
        ("memory_bytes", "much", ["memory_bytes", "\"much\" is not a size"]),
        ("compression", "zstd", ["compression", "default.compression"]),
        ("write_buffer_size", "1", ["write_buffer_size", "it has log, sync"]),
    ] {
        let (status, text) = failure(set(&mut settings, name, value));
        assert_eq!(status, ESKER_INVALID_SETTING);
        assert!(texts.iter().all(|part| text.contains(part)), "{text}");
    }
    let (name, value) = (c"filterbits".as_ptr(), c"10".as_ptr());
    let outcome = call!(esker_keyspace_settings_set, Some(&mut of_keyspace), name, value);
    let (status, text) = failure(outcome);
    assert_eq!(status, ESKER_INVALID_SETTING);
    assert!(text.contains("filterbits") && text.contains("\"filter_bits\""), "{text}");
}

#[test]
fn the_open_checks_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = small();
    set(&mut settings, "memory_bytes", "1").unwrap();
    let dir = c_path(dir.path());
    let outcome = make!(esker_open, dir.as_ptr(), Some(&settings));
    let (status, text) = failure(outcome);
    assert_eq!(status, ESKER_INVALID_SETTING);
    assert!(text.contains("memory_bytes is 1"), "{text}");
}

#[test]
fn all_log_modes_open() {
    for (log, is_kept) in [("files", true), ("none", true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = small();
        set(&mut settings, "log", log).unwrap();
        set(&mut settings, "default.compression", "zstd").unwrap();
        if log == "files" {
            set(&mut settings, "sync", "always").unwrap();
        }
        let path = c_path(dir.path());
        let db = make!(esker_open, path.as_ptr(), Some(&settings)).unwrap();
        put(&keyspace(&db, "users"), "ada", "analyst").unwrap();
        call!(esker_close, Some(db)).unwrap();
        let db = make!(esker_open, path.as_ptr(), Some(&settings)).unwrap();
        let users = keyspace(&db, "users");
        assert_eq!(get(&users, "ada").is_ok(), is_kept, "{log}: a close flushes");
        let text = take!(esker_current_settings, Some(&db)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("default.compression=zstd\n"), "{text}");
    }
    let mut settings = small();
    set(&mut settings, "log", "pmem:/missing/pool").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = c_path(dir.path());
    let outcome = make!(esker_open, dir.as_ptr(), Some(&settings));
    assert!(matches!(failure(outcome).0, ESKER_IO | ESKER_POOL_REFUSED));
}

#[test]
fn settings_change_while_the_database_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let _users = keyspace(&db, "users");
    let current = || String::from_utf8(take!(esker_current_settings, Some(&db)).unwrap()).unwrap();
    for (name, value) in [("background_write_rate", "20MiB"), ("users.compression", "zstd")] {
        set_open(&db, name, value).unwrap();
        assert!(current().lines().any(|line| line == format!("{name}={value}")), "{}", current());
    }
    for (name, value, expected) in [
        ("background_write_rat", "20MiB", ESKER_INVALID_SETTING),
        ("background_threads", "0", ESKER_INVALID_SETTING),
        ("sync", "always", ESKER_INVALID_SETTING),
        ("missing.compression", "zstd", ESKER_UNKNOWN_KEYSPACE),
    ] {
        let (status, text) = failure(set_open(&db, name, value));
        assert_eq!(status, expected, "{name}: {text}");
        assert!(text.contains(name.split('.').next().unwrap()), "{text}");
    }
}
