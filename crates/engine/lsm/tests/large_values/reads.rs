//! Who reads a large value, and what they see.

use crate::support::*;
use esker_base::background::Stepped;
use esker_base::{Clock, Error};
use esker_lsm::{Db, Env, KeyspaceSettings};
use esker_storage::MemoryStorage;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn every_way_to_read_finds_it() {
    let world = World::new();
    let value = large("v", 300_000);
    world.put("a", b"1");
    world.put("v", &value);
    world.put("z", b"2");
    let keyspace = &world.keyspace;
    let found = keyspace.multi_get(["a", "v", "z", "no"]).unwrap();
    let found: Vec<_> = found.iter().map(|it| it.as_ref().map(|it| it.len())).collect();
    assert_eq!(found, [Some(1), Some(300_000), Some(1), None]);
    assert!(keyspace.contains_key("v").unwrap());
    for found in [keyspace.range("b".."y").next(), keyspace.range("b".."y").next_back()] {
        let (key, found) = found.unwrap().unwrap();
        assert!(key == *b"v" && found == value[..]);
    }
    assert_eq!(keyspace.count(..).unwrap(), 3);
    assert!(matches!(keyspace.try_get("v"), Err(Error::WouldBlock)));
    assert!(keyspace.get_reader("no").unwrap().is_none());
}

#[test]
fn a_snapshot_sees_what_was_there() {
    let world = World::new();
    let (first, second) = (large("first", 300_000), large("second", 400_000));
    let before = world.db.snapshot();
    world.put("v", &first);
    let between = world.db.snapshot();
    world.put("v", &second);
    world.db.compact().unwrap();
    assert!(before.get_reader(&world.keyspace, "v").unwrap().is_none());
    let mut read = Vec::new();
    between.get_reader(&world.keyspace, "v").unwrap().unwrap().read_to_end(&mut read).unwrap();
    assert!(read == first);
    assert!(between.get(&world.keyspace, "v").unwrap().unwrap() == first[..]);
    world.expect("v", &second);
}

#[test]
fn a_reader_goes_on_after_its_value_is_overwritten_and_compacted() {
    let world = World::new();
    let value = large("v", 700_000);
    world.put("v", &value);
    let mut reader = world.keyspace.get_reader("v").unwrap().unwrap();
    let mut start = vec![0; 1000];
    reader.read_exact(&mut start).unwrap();
    world.put("v", b"other");
    world.db.compact().unwrap();
    assert_eq!(world.values().files, 0);
    assert_eq!(world.value_files().len(), 1, "the reader has it");
    reader.read_to_end(&mut start).unwrap();
    assert!(start == value);
    drop(reader);
    assert_eq!(world.value_files(), [""; 0]);
}

#[test]
fn a_reader_goes_anywhere_in_the_value() {
    let world = World::new();
    let value = large("v", 3 * BLOCK + 77);
    world.put("v", &value);
    world.put("small", b"0123456789");
    let mut reader = world.keyspace.get_reader("v").unwrap().unwrap();
    for at in [2 * BLOCK, 5, BLOCK - 3, 3 * BLOCK + 70, 0, BLOCK] {
        reader.seek(SeekFrom::Start(at as u64)).unwrap();
        let mut read = vec![0; 7];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(read, value[at..at + 7], "{at}");
        assert_eq!(reader.stream_position().unwrap(), at as u64 + 7);
    }
    assert_eq!(reader.seek(SeekFrom::End(-5)).unwrap(), value.len() as u64 - 5);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert_eq!(read, value[value.len() - 5..]);
    reader.seek(SeekFrom::Current(10)).unwrap();
    assert_eq!(reader.read(&mut [0; 4]).unwrap(), 0);
    assert!(reader.seek(SeekFrom::Current(i64::MIN)).is_err());
    let mut reader = world.keyspace.get_reader("small").unwrap().unwrap();
    reader.seek(SeekFrom::Start(4)).unwrap();
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert_eq!((read.as_str(), reader.len(), reader.is_empty()), ("456789", 10, false));
}

#[test]
fn a_reader_fails_once_the_database_is_closed() {
    let world = World::new();
    world.put("v", &large("v", 300_000));
    let mut reader = world.keyspace.get_reader("v").unwrap().unwrap();
    world.db.close().unwrap();
    let error = reader.read(&mut [0; 4]).unwrap_err();
    let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    assert!(matches!(error, Some(Error::Closed)), "{error:?}");
}

#[test]
fn a_handle_and_a_snapshot_of_another_database_are_refused() {
    let (world, other) = (World::new(), World::new());
    let foreign = |error: Error| matches!(error, Error::ForeignHandle { .. });
    assert!(foreign(world.db.get_reader(&other.keyspace, "v").unwrap_err()));
    assert!(foreign(world.db.put_reader(&other.keyspace, "v", &b"v"[..]).unwrap_err()));
    let snapshot = other.db.snapshot();
    assert!(foreign(snapshot.get_reader(&world.keyspace, "v").unwrap_err()));
}

/// A clock that is set by hand, in seconds.
struct Seconds(AtomicU64);

impl Clock for Seconds {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_secs(), Ordering::Relaxed);
    }

    fn calendar(&self) -> Duration {
        self.now() + Duration::from_secs(1_700_000_000)
    }
}

#[test]
fn a_large_value_expires_with_its_keyspace_and_frees_its_file() {
    let (storage, clock) =
        (Arc::new(MemoryStorage::new()), Arc::new(Seconds(AtomicU64::new(1_000))));
    let env = Env::over(storage.clone()).background(Arc::new(Stepped)).clock(clock.clone());
    let db = Db::open_with(env, settings()).unwrap();
    let ttl = KeyspaceSettings::default().ttl(Duration::from_secs(100));
    let keyspace = db.keyspace("k", ttl).unwrap();
    keyspace.put_reader("v", &large("v", 300_000)[..]).unwrap();
    let pass = |seconds| {
        for _ in 0..seconds {
            clock.sleep(Duration::from_secs(1));
            while db.run_background_job() {}
        }
    };
    pass(90);
    assert_eq!(keyspace.get("v").unwrap().unwrap().len(), 300_000);
    pass(20);
    assert!(keyspace.get("v").unwrap().is_none());
    assert!(keyspace.get_reader("v").unwrap().is_none());
    db.compact().unwrap();
    assert_eq!(names(&*storage, ".values"), [""; 0]);
}
