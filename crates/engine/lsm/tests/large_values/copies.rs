//! What reads the files of a database next to its writer, or copies them.

use crate::replaced_file::replace;
use crate::support::*;
use esker_lsm::{ChangeEvent, Db, KeyspaceSettings, LiveFiles};
use esker_storage::MemoryStorage;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

const BYTES: usize = 700_000;

#[test]
fn a_checkpoint_has_large_values() {
    let world = World::new();
    world.put("v", &large("v", BYTES));
    let copy = Arc::new(MemoryStorage::new());
    world.db.checkpoint_to(&*copy).unwrap();
    world.put("v", b"small");
    world.db.compact().unwrap();
    let files = LiveFiles::of_checkpoint_in(copy.clone(), 1).unwrap();
    files.tables().iter().for_each(|name| files.verify(name).unwrap());
    let db = open(&copy);
    let keyspace = db.open_keyspace("k").unwrap();
    World { storage: copy, db, keyspace }.expect("v", &large("v", BYTES));
}

#[test]
fn live_files_find_the_damage_of_a_large_value() {
    let world = World::new();
    world.put("v", &large("v", BYTES));
    let name = world.value_files().remove(0);
    let copy = Arc::new(MemoryStorage::new());
    world.db.checkpoint_to(&*copy).unwrap();
    let file = esker_storage::Storage::open(&*copy, &name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    // A header and a trailer say nothing that a table needs.
    let cases = [(9, false), (bytes.len() - 1, false), (24, true), (bytes.len() - 17, true)];
    for (at, is_lost) in cases {
        bytes[at] ^= 1;
        let copy = Arc::new(MemoryStorage::new());
        world.db.checkpoint_to(&*copy).unwrap();
        replace(&*copy, &name, &bytes);
        let verified = LiveFiles::of_checkpoint_in(copy, 1).unwrap().verify(&name);
        assert_eq!(verified.is_err_and(|error| error.is_corruption()), is_lost, "{at}");
        bytes[at] ^= 1;
    }
}

fn files(dir: &Path, end: &str) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(end)).count()
}

/// While the file of the value is there and nothing names it, and afterwards.
#[test]
fn a_reader_beside_the_writer_removes_no_file_and_finds_the_value() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
    keyspace.put("v", b"before").unwrap();
    let value = large("v", BYTES);
    let read = |db: &Db| db.open_keyspace("k").unwrap().get("v").unwrap().unwrap().to_vec();
    let beside = Between(Some(|| {
        assert_eq!(files(dir.path(), ".ingest"), 1);
        for reader in [
            Db::open_read_only(dir.path(), settings()).unwrap(),
            Db::open_follower(dir.path(), settings(), None).unwrap(),
        ] {
            assert_eq!(read(&reader), b"before");
        }
        assert_eq!(files(dir.path(), ".ingest"), 1);
    }));
    let rest = std::io::Cursor::new(value[BYTES / 2..].to_vec());
    let half = std::io::Cursor::new(value[..BYTES / 2].to_vec());
    keyspace.put_reader("v", half.chain(beside).chain(rest)).unwrap();
    assert_eq!((files(dir.path(), ".ingest"), files(dir.path(), ".values")), (0, 1));
    assert!(read(&Db::open_read_only(dir.path(), settings()).unwrap()) == value);
    assert!(read(&db) == value);
}

#[test]
fn a_follower_sees_a_large_value_and_keeps_it_until_it_catches_up() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
    keyspace.put("v", b"before").unwrap();
    let follower = Db::open_follower(dir.path(), settings(), None).unwrap();
    let followed = follower.open_keyspace("k").unwrap();
    keyspace.put("v", large("first", BYTES)).unwrap();
    assert_eq!(follower.get(&followed, "v").unwrap().unwrap(), b"before");
    follower.catch_up().unwrap();
    let mut reader = follower.get_reader(&followed, "v").unwrap().unwrap();
    keyspace.put("v", large("second", BYTES)).unwrap();
    db.compact().unwrap();
    assert!(follower.get(&followed, "v").unwrap().unwrap() == large("first", BYTES)[..]);
    follower.catch_up().unwrap();
    assert!(follower.get(&followed, "v").unwrap().unwrap() == large("second", BYTES)[..]);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == large("first", BYTES));
}

/// Its value is in no log: a consumer is asked to read the keyspace, as after an ingest, whether it was registered
/// before or after.
#[test]
fn a_change_feed_names_the_keyspace_of_a_large_value() {
    let world = World::new();
    let consumers = [world.db.change_consumer("before", 1 << 20).unwrap()];
    world.put("a", b"1");
    world.put("v", &large("v", BYTES));
    let mut batch = world.db.batch();
    batch.put(&world.keyspace, "w", large("w", BYTES));
    batch.put(&world.keyspace, "small", b"small");
    batch.put(&world.db.default_keyspace(), "small", b"small");
    world.db.write(&batch).unwrap();
    world.put("z", b"2");
    drop(consumers);
    let after = world.db.change_consumer("after", 1 << 20).unwrap();
    world.put("after", &large("after", BYTES));
    drop(after);
    let kinds = |name: &str| -> Vec<String> {
        let mut consumer = world.db.open_change_consumer(name).unwrap();
        let kind = |event| match event {
            ChangeEvent::Batch(batch) => Some(format!("batch of {}", batch.changes().count())),
            ChangeEvent::Ingested { keyspaces, .. } => {
                let names = keyspaces.iter().map(|it| it.name.as_deref().unwrap());
                Some(format!("read {}", names.collect::<Vec<_>>().join(" and ")))
            }
            _ => None,
        };
        std::iter::from_fn(|| consumer.try_next().unwrap()).filter_map(kind).collect()
    };
    assert_eq!(
        kinds("before"),
        ["batch of 1", "read k", "read default and k", "batch of 1", "read k"]
    );
    assert_eq!(kinds("after"), ["read k"]);
}

#[test]
fn an_open_removes_what_a_killed_writer_left() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let beside = Between(Some(|| {
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "LOCK" {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
        }
    }));
    let value = std::io::Cursor::new(large("v", BYTES));
    db.default_keyspace().put_reader("v", value.chain(beside)).unwrap();
    assert_eq!(files(copy.path(), ".ingest"), 1);
    let reader = Db::open_read_only(copy.path(), settings()).unwrap();
    assert!(reader.default_keyspace().get("v").unwrap().is_none());
    drop(reader);
    assert_eq!(files(copy.path(), ".ingest"), 1, "a reader removes nothing");
    let db = Db::open(copy.path(), settings()).unwrap();
    assert!(db.default_keyspace().get("v").unwrap().is_none());
    assert_eq!(files(copy.path(), ".ingest"), 0);
}

/// Copies the files with this ending from `from` that `to` does not have, and returns how many.
fn copy_missing(from: &Path, to: &Path, end: &str) -> usize {
    let entries = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap());
    let missing = entries.filter(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.ends_with(end) && !to.join(name).exists()
    });
    let copied =
        |entry: std::fs::DirEntry| std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    missing.map(copied).collect::<Vec<_>>().len()
}

/// Value files may be large, and what is set aside stays. So only those are that a table which is set aside needs.
#[test]
fn an_open_sets_aside_only_the_value_files_that_it_may_need() {
    let [dir, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in [&dir, &other] {
        Db::open(dir.path(), settings()).unwrap().close().unwrap();
    }
    // Its files get IDs that the first has not given out.
    for _ in 0..5 {
        Db::open(other.path(), settings()).unwrap().close().unwrap();
    }
    let db = Db::open(other.path(), settings()).unwrap();
    db.default_keyspace().ingest([("a", "ingested")]).unwrap();
    assert_eq!(copy_missing(other.path(), dir.path(), ".tables"), 1);
    db.default_keyspace().put_reader("v", &large("v", BYTES)[..]).unwrap();
    assert_eq!(copy_missing(other.path(), dir.path(), ".values"), 1);
    let opened = || Db::open(dir.path(), settings()).unwrap().close().unwrap();
    opened();
    assert_eq!([files(dir.path(), ".tables"), files(dir.path(), ".values")], [1, 0]);
    // Now with the table that refers to the value.
    let ends = [".values", ".tables"];
    let aside = || ends.map(|end| files(dir.path(), end));
    assert_eq!(ends.map(|end| copy_missing(other.path(), dir.path(), end)), [1, 2]);
    opened();
    assert_eq!(aside(), [1, 3], "all are set aside");
}
