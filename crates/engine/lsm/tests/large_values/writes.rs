//! What is written, and when.

use crate::support::*;
use esker_base::Error;
use std::io::Read;

#[test]
fn a_large_value_is_read_as_it_was_written() {
    let world = World::new();
    for bytes in [20_000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 700_001] {
        let value = large("v", bytes);
        world.put("v", &value);
        world.expect("v", &value);
    }
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_large_value_is_there_after_a_reopen() {
    let world = World::new();
    let value = large("v", 700_001);
    world.put("v", &value);
    let world = world.reopened();
    world.expect("v", &value);
    assert_eq!((world.values().files, world.values().live_bytes), (1, 700_001 + 3 * 4));
}

#[test]
fn a_value_that_fits_a_log_entry_makes_no_file() {
    let world = World::new();
    let value = large("v", 16_000);
    world.put("v", &value);
    world.expect("v", &value);
    world.put("empty", b"");
    world.expect("empty", b"");
    world.db.flush().unwrap();
    assert_eq!((world.value_files(), world.values().files), (Vec::new(), 0));
}

/// The largest that fits, and one byte more.
#[test]
fn the_limit_of_a_log_entry_decides() {
    let world = World::new();
    let limit = settings().max_entry_bytes();
    let mut files = 0;
    for bytes in limit - 20..limit + 20 {
        let value = large("v", bytes);
        world.put("v", &value);
        world.expect("v", &value);
        let names = world.value_files();
        assert!(names.len() >= files, "{bytes}");
        files = names.len().min(1);
    }
    assert_eq!(files, 1);
}

#[test]
fn a_large_value_replaces_what_the_memtable_has_and_a_later_put_replaces_it() {
    let world = World::new();
    world.put("v", b"small");
    let value = large("v", 100_000);
    world.put("v", &value);
    world.expect("v", &value);
    world.put("v", b"small again");
    world.expect("v", b"small again");
    let world = world.reopened();
    world.expect("v", b"small again");
}

#[test]
fn a_reader_that_fails_leaves_the_key_as_it_was_and_no_file() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the tape broke"))
        }
    }
    let world = World::new();
    world.put("v", b"before");
    let error = world.keyspace.put_reader("v", [7; 600_000].chain(Fails)).unwrap_err();
    assert!(error.to_string().contains("the tape broke"), "{error}");
    world.expect("v", b"before");
    assert_eq!(names(&*world.storage, ".ingest"), [""; 0]);
    assert_eq!(world.value_files(), [""; 0]);
}

#[test]
fn a_key_that_no_put_takes_is_refused_before_anything_is_read() {
    struct Unread;
    impl Read for Unread {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            panic!("it was read")
        }
    }
    let world = World::new();
    let error = world.keyspace.put_reader(vec![0; 65_537], Unread).unwrap_err();
    assert!(matches!(error, Error::KeyTooLong { bytes: 65_537 }), "{error}");
}

#[test]
fn the_longest_and_the_edge_keys_take_large_values() {
    let world = World::new();
    let keys = [vec![], vec![0], vec![0xff; 17], vec![7; 65_536]];
    for (n, key) in keys.iter().enumerate() {
        let value = large(&n.to_string(), 50_000);
        world.keyspace.put_reader(key, &value[..]).unwrap();
    }
    for (n, key) in keys.iter().enumerate() {
        let value = large(&n.to_string(), 50_000);
        assert!(world.keyspace.get(key).unwrap().unwrap() == value[..], "{n}");
    }
}

/// It may be a terminal, or free what it has.
#[test]
fn a_reader_that_was_at_its_end_is_not_asked_again() {
    struct Once(bool);
    impl Read for Once {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "it was at its end");
            Ok(0)
        }
    }
    let world = World::new();
    // Each fits a log entry, and both do not.
    let (key, value) = ("k".repeat(10_000), large("v", 10_000));
    for bytes in [10, 10_000, BLOCK, BLOCK + 10] {
        let value = large("v", bytes);
        let put = world.keyspace.put_reader(&key, value.chain(Once(false))).unwrap();
        assert_eq!(put, bytes as u64);
    }
    world.put(&key, &value);
    world.expect(&key, &value);
}
