//! What openraft's suite does not test: answers, restarts, and snapshots with content.

mod support;

use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{RaftLogReader, RaftSnapshotBuilder, SnapshotMeta, Vote};
use support::{PANICS, Store, delete, id, put};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn commands_see_those_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    let commands = [put(1, "a", b"1"), put(2, "a", b"2"), delete(3, "a"), put(4, "b", b"3")];
    let answers = store.machine.apply(commands).await.unwrap();
    assert_eq!(answers, [None, Some(b"1".to_vec()), Some(b"2".to_vec()), None]);
    assert_eq!((store.get("a"), store.get("b")), (None, Some(b"3".to_vec())));
}

#[tokio::test]
async fn many_bytes_are_applied_in_several_batches() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    let value = vec![7; 300_000];
    let commands = (1..=20).map(|index| put(index, &format!("{index:02}"), &value));
    store.machine.apply(commands.collect::<Vec<_>>()).await.unwrap();
    assert_eq!(store.machine.applied_state().await.unwrap().0, Some(id(20)));
    assert_eq!(store.machine.state().read(|state| state.iter().count()), 20);
}

async fn expect_that_a_panic_fails_the_apply() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    store.machine.apply([put(1, PANICS, b"x")]).await.unwrap_err();
    assert_eq!(store.machine.applied_state().await.unwrap().0, None);
}

/// openraft stops a node whose state machine fails, but waits for one whose thread has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_application_fails_the_apply() {
    expect_that_a_panic_fails_the_apply().await;
}

#[tokio::test]
async fn a_panic_of_the_application_fails_the_apply_on_one_thread() {
    expect_that_a_panic_fails_the_apply().await;
}

#[tokio::test]
async fn a_restart_keeps_log_vote_and_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    store.log.save_vote(&Vote::new_committed(1, 7)).await.unwrap();
    store.append((1..=9).map(|index| put(index, &index.to_string(), b"x"))).await;
    store.machine.apply((1..=6).map(|index| put(index, &index.to_string(), b"x"))).await.unwrap();
    store.log.save_committed(Some(id(8))).await.unwrap();
    store.log.truncate(id(9)).await.unwrap();
    store.log.purge(id(3)).await.unwrap();
    store.db.close().unwrap();
    drop((store.log, store.machine));

    let mut store = Store::open(dir.path());
    assert_eq!(store.log.read_vote().await.unwrap(), Some(Vote::new_committed(1, 7)));
    assert_eq!(store.log.read_committed().await.unwrap(), Some(id(8)));
    let state = store.log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(3)), Some(id(8))));
    let entries = store.log.try_get_log_entries(..).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.log_id.index).collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    assert_eq!(store.machine.applied_state().await.unwrap().0, Some(id(6)));
    assert_eq!((store.get("6"), store.get("7")), (Some(b"x".to_vec()), None));
}

#[tokio::test]
async fn a_reader_for_replication_stops_at_a_size() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    let value = vec![1; 1 << 20];
    store.append((1..=9).map(|index| put(index, "k", &value))).await;
    let read = store.log.limited_get_log_entries(2, 10).await.unwrap();
    assert!((1..8).contains(&read.len()), "{} entries", read.len());
    assert_eq!(read[0].log_id, id(2));
    // An entry above the limit is returned alone.
    store.append([put(10, "k", &vec![1; 6 << 20])]).await;
    assert_eq!(store.log.limited_get_log_entries(10, 11).await.unwrap().len(), 1);
}

/// The snapshot of a state machine, as it is sent.
async fn snapshot_of(store: &mut Store) -> (SnapshotMeta<u64, openraft::BasicNode>, Vec<u8>) {
    let mut snapshot = store.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let mut bytes = Vec::new();
    snapshot.snapshot.read_to_end(&mut bytes).await.unwrap();
    (snapshot.meta, bytes)
}

#[tokio::test]
async fn a_snapshot_replaces_the_state_and_outlives_a_restart() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut leader = Store::open(dirs[0].path());
    let commands = (1..=2_000).map(|index| put(index, &format!("{index:04}"), &[3; 50]));
    leader.machine.apply(commands.collect::<Vec<_>>()).await.unwrap();
    let (meta, bytes) = snapshot_of(&mut leader).await;
    assert_eq!(meta.last_log_id, Some(id(2_000)));

    let mut follower = Store::open(dirs[1].path());
    follower.machine.apply([put(1, "old", b"x")]).await.unwrap();
    // Twice: what replaced the state is replaced as well.
    for _ in 0..2 {
        let mut file = follower.machine.begin_receiving_snapshot().await.unwrap();
        file.write_all(&bytes).await.unwrap();
        follower.machine.install_snapshot(&meta, file).await.unwrap();
    }
    follower.db.close().unwrap();
    drop((follower.log, follower.machine));

    let mut follower = Store::open(dirs[1].path());
    assert_eq!(follower.get("old"), None);
    assert_eq!(follower.get("1999"), Some(vec![3; 50]));
    assert_eq!(follower.machine.state().read(|state| state.iter().count()), 2_000);
    assert_eq!(follower.machine.applied_state().await.unwrap().0, Some(id(2_000)));
    let states = follower.db.keyspaces().into_iter().filter(|k| k.name.starts_with("raft.state."));
    assert_eq!(states.count(), 1, "the keyspaces of earlier states are dropped");
    // The same entries give the same bytes, whichever node builds them.
    assert_eq!(follower.machine.get_current_snapshot().await.unwrap().unwrap().meta, meta);
    assert!(snapshot_of(&mut follower).await == (meta, bytes));
}

#[tokio::test]
async fn a_damaged_snapshot_changes_nothing() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut leader = Store::open(dirs[0].path());
    leader.machine.apply([put(1, "a", b"1"), put(2, "b", b"2")]).await.unwrap();
    let (meta, bytes) = snapshot_of(&mut leader).await;

    let mut follower = Store::open(dirs[1].path());
    follower.machine.apply([put(1, "old", b"x")]).await.unwrap();
    let (mut flipped, short) = (bytes.clone(), bytes[..bytes.len() - 1].to_vec());
    let middle = flipped.len() - 20;
    flipped[middle] ^= 1;
    for bad in [flipped, short] {
        let mut file = follower.machine.begin_receiving_snapshot().await.unwrap();
        file.write_all(&bad).await.unwrap();
        assert!(follower.machine.install_snapshot(&meta, file).await.is_err());
        assert_eq!((follower.get("old"), follower.get("a")), (Some(b"x".to_vec()), None));
        assert!(follower.machine.get_current_snapshot().await.unwrap().is_none());
    }
    let mut file = follower.machine.begin_receiving_snapshot().await.unwrap();
    file.write_all(&bytes).await.unwrap();
    follower.machine.install_snapshot(&meta, file).await.unwrap();
    assert_eq!((follower.get("old"), follower.get("a")), (None, Some(b"1".to_vec())));
}
