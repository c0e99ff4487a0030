//! Checkpoints, followers and other copies have the value files too.

use crate::replaced_file::replace;
use crate::support::{World, key, long, open, separating};
use esker_lsm::{Db, LiveFiles, Settings};
use esker_storage::MemoryStorage;
use std::sync::Arc;

#[test]
fn a_checkpoint_has_the_values_of_its_tables() {
    let world = World::new();
    world.fill(1);
    world.fill(2);
    let copy = Arc::new(MemoryStorage::new());
    world.db.checkpoint_to(&*copy).unwrap();
    world.fill(3);
    world.compact();
    let db = open(&copy, Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    assert_eq!(db.get(&keyspace, key(11)).unwrap().unwrap(), &long(&key(11), 2)[..]);
    assert_eq!(db.iter(&keyspace).count(), 50);
}

#[test]
fn live_files_name_value_files_and_verify_them() {
    let world = World::new();
    world.fill(1);
    let files = world.db.live_files().unwrap();
    let names = files.tables();
    let values: Vec<_> = names.iter().filter(|name| name.ends_with(".values")).collect();
    assert_eq!(values.len(), 1);
    for name in &names {
        files.verify(name).unwrap();
    }
    let mut bytes = vec![0; files.open(values[0]).unwrap().len().unwrap() as usize];
    files.open(values[0]).unwrap().read_exact_at(0, &mut bytes).unwrap();
    let value = long(&key(25), 1);
    let in_value = bytes.windows(value.len()).position(|it| it == value).unwrap();
    // Nothing that a table refers to is damaged with a header or a head.
    let cases = [(0, false), (9, false), (21, false), (24, false), (28, false)];
    let cases = cases.into_iter().chain([(in_value, true), (bytes.len() - 1, true)]);
    for (at, is_lost) in cases {
        bytes[at] ^= 1;
        // What verifies has not opened the file before.
        let copy = Arc::new(MemoryStorage::new());
        world.db.checkpoint_to(&*copy).unwrap();
        replace(&*copy, values[0], &bytes);
        let files = LiveFiles::of_checkpoint_in(copy, 1).unwrap();
        match files.verify(values[0]) {
            Err(error) => {
                let named = error.to_string().contains(&values[0][..]);
                assert!(is_lost && error.is_corruption() && named, "{at}: {error}");
            }
            Ok(()) => assert!(!is_lost, "{at}"),
        }
        bytes[at] ^= 1;
    }
}

#[test]
fn a_follower_reads_the_values_that_the_writer_has_separated() {
    let dir = tempfile::tempdir().unwrap();
    let settings = || Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20);
    let db = Db::open(dir.path(), settings()).unwrap();
    let keyspace = db.keyspace("k", separating()).unwrap();
    db.put(&keyspace, "a", long("a", 1)).unwrap();
    db.flush().unwrap();
    let follower = Db::open_follower(dir.path(), settings(), None).unwrap();
    let followed = follower.open_keyspace("k").unwrap();
    let read = || follower.get(&followed, "a").unwrap().unwrap();
    db.put(&keyspace, "a", long("a", 2)).unwrap();
    db.compact().unwrap();
    assert_eq!(read(), &long("a", 1)[..], "of a file that is removed");
    follower.catch_up().unwrap();
    db.put(&keyspace, "a", long("a", 3)).unwrap();
    db.compact().unwrap();
    assert_eq!(read(), &long("a", 2)[..], "of a file that is removed");
    follower.catch_up().unwrap();
    assert_eq!(read(), &long("a", 3)[..]);
}

#[test]
fn a_database_that_is_open_for_reading_keeps_the_values_that_a_writer_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let settings = || Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20);
    let db = Db::open(dir.path(), settings()).unwrap();
    let keyspace = db.keyspace("k", separating()).unwrap();
    db.put(&keyspace, "a", long("a", 1)).unwrap();
    db.flush().unwrap();
    let reader = Db::open_read_only(dir.path(), settings()).unwrap();
    db.put(&keyspace, "a", long("a", 2)).unwrap();
    db.compact().unwrap();
    let read = reader.open_keyspace("k").unwrap();
    assert_eq!(reader.get(&read, "a").unwrap().unwrap(), &long("a", 1)[..]);
}
