//! What an open accepts, refuses and removes.

mod support;

use esker::{Db, KeyspaceSettings, Log, Settings};
use esker_openraft::Error;
use openraft::RaftSnapshotBuilder;
use openraft::storage::{RaftLogStorage, RaftStateMachine};
use std::path::Path;
use support::{Config, Map, Store, id, put};
use tokio::io::AsyncReadExt;

fn open(db: &Db, dir: &Path) -> Result<(), Error> {
    esker_openraft::open::<Config, _>(db, dir.join("snapshots"), Map).map(drop)
}

#[test]
fn a_database_without_a_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings::default().log(Log::None);
    let db = Db::open(dir.path().join("data"), settings).unwrap();
    let error = open(&db, dir.path()).unwrap_err();
    assert!(matches!(error, Error::Settings(_)), "{error}");
}

#[test]
fn segments_that_cannot_take_each_command_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = |segment_bytes| {
        let settings = Settings::default().segment_bytes(segment_bytes);
        let db = Db::open(dir.path().join("data"), settings).unwrap();
        let opened = open(&db, dir.path());
        db.close().unwrap();
        opened
    };
    let error = open(16 << 20).unwrap_err();
    assert!(error.to_string().contains("segment_bytes to 33554432"), "{error}");
    open(32 << 20).unwrap();
}

#[test]
fn a_database_has_one_group_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    assert!(matches!(open(&store.db, dir.path()), Err(Error::InUse)));
    let state = store.machine.state();
    drop((store.log, store.machine));
    assert!(matches!(open(&store.db, dir.path()), Err(Error::InUse)), "its state is in use");
    drop(state);
    open(&store.db, dir.path()).unwrap();
}

#[tokio::test]
async fn a_state_whose_keyspace_is_missing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    store.machine.apply([put(1, "a", b"1")]).await.unwrap();
    let db = store.db.clone();
    drop(store);
    db.drop_keyspace(&db.open_keyspace("raft.state.0").unwrap()).unwrap();
    let error = open(&db, dir.path()).unwrap_err();
    assert!(error.to_string().contains("raft.state.0"), "{error}");
    let all = db.keyspaces();
    assert!(all.iter().all(|keyspace| keyspace.name != "raft.state.0"), "it is not created");
    // One of the program's is left alone.
    db.keyspace("raft.state.0", KeyspaceSettings::default()).unwrap();
    open(&db, dir.path()).unwrap();
}

#[test]
fn unfinished_files_of_snapshots_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = dir.path().join("snapshots");
    std::fs::create_dir(&snapshots).unwrap();
    for name in ["building", "incoming", "installing", "other"] {
        std::fs::write(snapshots.join(name), name).unwrap();
    }
    drop(Store::open(dir.path()));
    let names: Vec<_> = std::fs::read_dir(&snapshots).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[tokio::test]
async fn a_damaged_current_snapshot_is_built_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    store.append([put(1, "a", b"1"), put(2, "b", b"2")]).await;
    store.machine.apply([put(1, "a", b"1")]).await.unwrap();
    store.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    store.machine.apply([put(2, "b", b"2")]).await.unwrap();
    store.log.purge(id(1)).await.unwrap();
    let current = dir.path().join("snapshots/current");
    let sound = std::fs::read(&current).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() - 20] ^= 1;
    for damaged in [&flipped[..], &sound[..sound.len() - 1], &sound[..4], &[]] {
        std::fs::write(&current, damaged).unwrap();
        store = store.reopen(dir.path());
        let mut snapshot = store.machine.get_current_snapshot().await.unwrap().unwrap();
        assert_eq!(snapshot.meta.last_log_id, Some(id(2)));
        let mut bytes = Vec::new();
        snapshot.snapshot.read_to_end(&mut bytes).await.unwrap();
        assert!(bytes.len() > sound.len(), "it has both entries");
        assert_eq!(bytes, std::fs::read(&current).unwrap());
    }
}
