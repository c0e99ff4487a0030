//! Crashes and power losses next to snapshots: the store is one that openraft can start with.

mod support;

use esker::env::{Env, Storage};
use esker::{Db, Settings};
use esker_base::Rng;
use esker_storage::FaultStorage;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{RaftLogReader, RaftSnapshotBuilder, SnapshotMeta, StorageHelper};
use std::path::Path;
use std::sync::{Arc, mpsc};
use support::{Store, id, put};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Applies commands `from..=to`, which are in the log.
async fn apply(store: &mut Store, from: u64, to: u64) {
    let commands = || (from..=to).map(|index| put(index, &index.to_string(), b"x"));
    store.append(commands()).await;
    store.log.save_committed(Some(id(to))).await.unwrap();
    store.machine.apply(commands().collect::<Vec<_>>()).await.unwrap();
}

async fn snapshot(store: &mut Store) -> (SnapshotMeta<u64, openraft::BasicNode>, Vec<u8>) {
    let mut built = store.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let mut bytes = Vec::new();
    built.snapshot.read_to_end(&mut bytes).await.unwrap();
    (built.meta, bytes)
}

/// What openraft requires at a start: purged <= snapshot <= committed.
async fn expect_start(store: &mut Store, applied: u64) {
    let state = StorageHelper::new(&mut store.log, &mut store.machine).get_initial_state().await;
    drop(state.unwrap());
    let snapshot = store.machine.get_current_snapshot().await.unwrap();
    let snapshot = snapshot.and_then(|snapshot| snapshot.meta.last_log_id);
    let purged = store.log.get_log_state().await.unwrap().last_purged_log_id;
    let committed = store.log.read_committed().await.unwrap();
    assert!(purged <= snapshot, "purged {purged:?} > snapshot {snapshot:?}");
    assert!(snapshot <= committed, "snapshot {snapshot:?} > committed {committed:?}");
    let now = store.machine.applied_state().await.unwrap().0;
    assert_eq!(now, Some(id(applied)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_after_the_batch_of_an_install_leaves_no_older_snapshot() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut leader = Store::open(dirs[0].path());
    apply(&mut leader, 1, 10).await;
    let (meta, bytes) = snapshot(&mut leader).await;

    let mut follower = Store::open(dirs[1].path());
    apply(&mut follower, 1, 5).await;
    snapshot(&mut follower).await;
    let installing = dirs[1].path().join("snapshots/installing");
    let reads = follower.machine.state();
    let (began, begins) = mpsc::channel();
    // The install writes its batch after this read. Then the file for the rename is missing: as far
    // as files and database go, that is a crash between the two.
    let reader = tokio::task::spawn_blocking(move || {
        reads.read(|_| {
            began.send(()).unwrap();
            while std::fs::remove_file(&installing).is_err() {
                std::thread::yield_now();
            }
        });
    });
    begins.recv().unwrap();
    let mut file = follower.machine.begin_receiving_snapshot().await.unwrap();
    file.write_all(&bytes).await.unwrap();
    follower.machine.install_snapshot(&meta, file).await.unwrap_err();
    reader.await.unwrap();
    follower.db.close().unwrap();
    drop((follower.log, follower.machine));

    let mut follower = Store::open(dirs[1].path());
    expect_start(&mut follower, 10).await;
    assert_eq!(follower.get("10"), Some(b"x".to_vec()));
    let current = follower.machine.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(current.meta.last_log_id, Some(id(10)), "it was built from the state");
}

fn open(disk: &FaultStorage, dir: &Path) -> Store {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    Store::of(Db::open_with(Env::over(storage), Settings::default()).unwrap(), dir)
}

#[tokio::test]
async fn a_power_loss_leaves_no_snapshot_that_is_newer_than_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultStorage::new(Rng::new(1));
    let mut store = open(&disk, dir.path());
    apply(&mut store, 0, 10).await;
    snapshot(&mut store).await;
    for seed in 0..4 {
        let copy = tempfile::tempdir().unwrap();
        std::fs::create_dir(copy.path().join("snapshots")).unwrap();
        let names = ["snapshots/current"];
        for name in names {
            std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
        }
        let mut rebooted = open(&disk.crash_image(Rng::new(seed)), copy.path());
        expect_start(&mut rebooted, 10).await;
        rebooted.db.close().unwrap();
    }
}

#[tokio::test]
async fn what_an_install_applied_is_committed() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut leader = Store::open(dirs[0].path());
    apply(&mut leader, 1, 10).await;
    let (meta, bytes) = snapshot(&mut leader).await;
    let mut follower = Store::open(dirs[1].path());
    let mut file = follower.machine.begin_receiving_snapshot().await.unwrap();
    file.write_all(&bytes).await.unwrap();
    follower.machine.install_snapshot(&meta, file).await.unwrap();
    assert_eq!(follower.log.read_committed().await.unwrap(), Some(id(10)));
    expect_start(&mut follower, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_current_snapshot_is_there_while_another_one_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    for round in 0..20 {
        apply(&mut store, round * 10 + 1, round * 10 + 10).await;
        let mut builder = store.machine.get_snapshot_builder().await;
        let build = tokio::spawn(async move { builder.build_snapshot().await.unwrap().meta });
        let current = store.machine.get_current_snapshot().await.unwrap();
        assert!(round == 0 || current.is_some());
        assert_eq!(build.await.unwrap().last_log_id, Some(id(round * 10 + 10)));
    }
}

/// A follower with entries 0 to 8, of which 0 to 5 are applied, and the snapshot of a leader at 10.
async fn behind(
    dirs: &[tempfile::TempDir; 2],
) -> (Store, (SnapshotMeta<u64, openraft::BasicNode>, Vec<u8>)) {
    let mut leader = Store::open(dirs[0].path());
    apply(&mut leader, 0, 10).await;
    let snapshot = snapshot(&mut leader).await;
    let mut follower = Store::open(dirs[1].path());
    apply(&mut follower, 0, 5).await;
    follower.append((6..=8).map(|index| put(index, &index.to_string(), b"x"))).await;
    (follower, snapshot)
}

async fn indexes(store: &mut Store) -> Vec<u64> {
    let entries = store.log.try_get_log_entries(..).await.unwrap();
    entries.iter().map(|entry| entry.log_id.index).collect()
}

#[tokio::test]
async fn a_crash_before_an_install_keeps_the_entries_that_were_purged_for_it() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (mut follower, _) = behind(&dirs).await;
    // openraft purges while the install runs.
    follower.log.purge(id(10)).await.unwrap();
    let state = follower.log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(10)), Some(id(10))));
    assert!(indexes(&mut follower).await.is_empty());

    let mut follower = follower.reopen(dirs[1].path());
    let state = follower.log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (None, Some(id(8))));
    assert_eq!(indexes(&mut follower).await, (0..=8).collect::<Vec<_>>());
    expect_start(&mut follower, 5).await;
}

/// The entries could be acknowledged, and the gap before them would be there after a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_past_a_gap_fails_if_the_snapshot_is_not_installed() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (mut follower, _) = behind(&dirs).await;
    follower.log.purge(id(10)).await.unwrap();
    let mut log = follower.log.clone();
    let append = tokio::spawn(async move { log.blocking_append([put(11, "11", b"x")]).await });
    let Store { db, log, machine } = follower;
    drop(machine);
    let error = append.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("up to entry 10 was not installed"), "{error}");
    db.close().unwrap();
    drop(log);
    assert_eq!(indexes(&mut Store::open(dirs[1].path())).await, (0..=8).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_past_a_gap_is_written_once_the_snapshot_is_installed() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (mut follower, (meta, bytes)) = behind(&dirs).await;
    follower.log.purge(id(10)).await.unwrap();
    let mut log = follower.log.clone();
    let append = tokio::spawn(async move { log.blocking_append([put(11, "11", b"x")]).await });
    let mut file = follower.machine.begin_receiving_snapshot().await.unwrap();
    file.write_all(&bytes).await.unwrap();
    follower.machine.install_snapshot(&meta, file).await.unwrap();
    append.await.unwrap().unwrap();
    assert_eq!(indexes(&mut follower).await, [11]);

    let mut follower = follower.reopen(dirs[1].path());
    let state = follower.log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(10)), Some(id(11))));
    assert_eq!(indexes(&mut follower).await, [11]);
    expect_start(&mut follower, 10).await;
}

/// The log has the last entry of the snapshot and more: no gap, so nothing waits.
#[tokio::test]
async fn an_append_to_a_log_that_has_the_snapshot_does_not_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut follower = Store::open(dir.path());
    apply(&mut follower, 0, 5).await;
    follower.append((6..=12).map(|index| put(index, &index.to_string(), b"x"))).await;
    follower.log.purge(id(10)).await.unwrap();
    follower.append([put(13, "13", b"x")]).await;
    assert_eq!(indexes(&mut follower).await, [11, 12, 13]);
    let mut follower = follower.reopen(dir.path());
    assert_eq!(indexes(&mut follower).await, (0..=13).collect::<Vec<_>>());
}
