//! Handles of another database, or of an earlier open, are refused by every call that takes one.

use esker_api::{KeyRange, Keyspaces, Kv, Ordered};
use esker_base::{Error, KeyspaceId, Result};
use esker_lsm::{Db, Keyspace, KeyspaceSettings, Settings, Snapshot};
use std::path::Path;

fn settings() -> Settings {
    Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20)
}

fn open(dir: &Path) -> Db {
    Db::open(dir, settings()).unwrap()
}

fn keyspace(db: &Db, name: &str) -> Keyspace {
    db.keyspace(name, KeyspaceSettings::default()).unwrap()
}

#[track_caller]
fn refused<T>(answer: Result<T>) {
    match answer.map(|_| ()) {
        Err(error @ Error::ForeignHandle { .. }) => {
            let told = error.to_string();
            assert!(told.contains("get the handle from this database"), "{told}");
        }
        other => panic!("a foreign handle was not refused: {other:?}"),
    }
}

/// Every call of `db` that takes a keyspace refuses `foreign`.
#[track_caller]
fn refuses_keyspace(db: &Db, foreign: &Keyspace) {
    let own = db.snapshot();
    refused(db.get(foreign, b"k"));
    refused(db.try_get(foreign, b"k"));
    // A snapshot reads through the keyspace, and says so if the database of that is closed.
    let is_closed = matches!(foreign.get(b"k"), Err(Error::Closed));
    let by_snapshot = [
        own.get(foreign, b"k").map(drop),
        own.multi_get(foreign, ["a", "b"]).map(drop),
        own.cursor(foreign, KeyRange::all()).map(drop),
        own.range(foreign, ..).next().unwrap().map(drop),
    ];
    for answer in by_snapshot {
        match answer {
            Err(Error::Closed) => assert!(is_closed),
            answer => refused(answer),
        }
    }
    refused(db.multi_get(foreign, [b"k"]));
    refused(db.cursor(foreign, KeyRange::all()));
    refused(db.range(foreign, ..).next().unwrap());
    refused(db.prefix(foreign, b"k").next().unwrap());
    refused(Keyspaces::resolve(db, foreign.into()));
    let store = db.store(foreign);
    refused(store.get(b"k"));
    refused(store.try_get(b"k"));
    refused(store.multi_get(&[b"k"]));
    refused(store.cursor(KeyRange::all()));
}

/// Every call of `db` that writes to a keyspace refuses `foreign`.
#[track_caller]
fn refuses_writes(db: &Db, foreign: &Keyspace) {
    refused(db.put(foreign, b"k", b"foreign"));
    refused(db.delete(foreign, b"k"));
    refused(db.delete_range(foreign, b"a"..b"z"));
    refused(db.compact_keyspace(foreign));
    refused(db.drop_keyspace(foreign));
    refused(db.store(foreign).put(b"k", b"foreign"));
    refused(db.store(foreign).delete(b"k"));
    let own = db.default_keyspace();
    for foreign_first in [false, true] {
        let mut batch = db.batch();
        let order = if foreign_first { [foreign, &own] } else { [&own, foreign] };
        order.iter().for_each(|keyspace| batch.put(*keyspace, b"k", b"foreign"));
        refused(db.write(&batch));
    }
}

#[track_caller]
fn refuses_snapshot(db: &Db, foreign: &Snapshot) {
    let keyspace = db.default_keyspace();
    refused(foreign.get(&keyspace, b"k"));
    refused(foreign.cursor(&keyspace, KeyRange::all()));
    refused(foreign.multi_get(&keyspace, ["a", "b"]));
    refused(foreign.range(&keyspace, ..).next().unwrap());
    refused(db.store(&keyspace).get_at(b"k", foreign));
    refused(db.store(&keyspace).cursor_at(KeyRange::all(), foreign));
    let id = KeyspaceId::DEFAULT;
    refused(Keyspaces::get_at(db, id, b"k", foreign));
    refused(Keyspaces::cursor_at(db, id, KeyRange::all(), foreign));
    refused(db.changed_since(id, b"k", foreign));
    refused(db.range_changed_since(id, &KeyRange::all(), foreign));
}

fn values(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = |info: &esker_lsm::KeyspaceInfo| {
        let keyspace = db.open_keyspace(&info.name).unwrap();
        let pairs = db.range(&keyspace, ..).map(Result::unwrap);
        pairs.map(|(key, value)| (key.into_vec(), value.into_vec())).collect::<Vec<_>>()
    };
    db.keyspaces().iter().flat_map(pairs).collect()
}

#[test]
fn the_handles_of_another_database_are_refused_by_every_call() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (db, other) = (open(here.path()), open(there.path()));
    // Both keyspaces have the same id, so without the test a write would land in the wrong one.
    let (own, foreign) = (keyspace(&db, "mine"), keyspace(&other, "theirs"));
    assert_eq!(own.id(), foreign.id());
    db.put(&own, b"k", b"mine").unwrap();
    other.put(&foreign, b"k", b"theirs").unwrap();
    for foreign in [&foreign, &other.default_keyspace()] {
        refuses_keyspace(&db, foreign);
        refuses_writes(&db, foreign);
    }
    refuses_snapshot(&db, &other.snapshot());
    assert_eq!(values(&db), [(b"k".to_vec(), b"mine".to_vec())]);
    assert_eq!(values(&other), [(b"k".to_vec(), b"theirs".to_vec())]);
}

#[test]
fn the_handles_of_a_reader_and_its_writer_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path());
    writer.put(&writer.default_keyspace(), b"k", b"1").unwrap();
    let reader = Db::open_read_only(dir.path(), settings()).unwrap();
    refuses_keyspace(&reader, &writer.default_keyspace());
    refuses_snapshot(&reader, &writer.snapshot());
    refuses_keyspace(&writer, &reader.default_keyspace());
    refuses_writes(&writer, &reader.default_keyspace());
    refuses_snapshot(&writer, &reader.snapshot());
}

#[test]
fn the_handles_from_before_a_close_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (old, snapshot) = (keyspace(&db, "mine"), db.snapshot());
    db.put(&old, b"k", b"1").unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    refuses_keyspace(&db, &old);
    refuses_writes(&db, &old);
    refuses_snapshot(&db, &snapshot);
    let now = db.open_keyspace(old.name()).unwrap();
    assert_eq!(db.get(&now, b"k").unwrap().as_deref(), Some(&b"1"[..]));
    assert_ne!(now, old, "a handle is equal to another only if it can take its place");
}

#[test]
fn the_handle_of_a_dropped_keyspace_never_reaches_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let old = keyspace(&db, "mine");
    db.put(&old, b"k", b"old").unwrap();
    db.drop_keyspace(&old).unwrap();
    let new = keyspace(&db, "mine");
    let unknown =
        |answer: Result<()>| assert!(matches!(answer, Err(Error::UnknownKeyspace { .. })));
    unknown(db.get(&old, b"k").map(drop));
    unknown(db.put(&old, b"k", b"late"));
    unknown(db.cursor(&old, KeyRange::all()).map(drop));
    unknown(db.compact_keyspace(&old));
    unknown(db.drop_keyspace(&old));
    assert_eq!(db.get(&new, b"k").unwrap(), None);
}
