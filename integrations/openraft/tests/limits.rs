//! A command may write only what each node can apply, and what a snapshot can have.

mod support;

use openraft::RaftSnapshotBuilder;
use openraft::storage::RaftStateMachine;
use support::{Store, Write, all_of, put};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const KIB: usize = 1 << 10;

fn put_of(key: impl Into<String>, length: usize) -> Write {
    Write::Put(key.into(), length)
}

fn ranges(count: usize) -> Vec<Write> {
    (0..count).map(|i| Write::DeleteRange(format!("{i:05}"), format!("{i:05}x"))).collect()
}

/// Applies commands, each in turn, and returns their answers.
async fn answers(store: &mut Store, commands: Vec<Vec<Write>>) -> Vec<Option<String>> {
    let entries = commands.into_iter().zip(1..).map(|(writes, index)| all_of(index, writes));
    let answers = store.machine.apply(entries.collect::<Vec<_>>()).await.unwrap();
    answers.into_iter().map(|answer| answer.map(|text| String::from_utf8(text).unwrap())).collect()
}

#[tokio::test]
async fn what_is_within_the_limits_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    let commands = vec![
        vec![put_of("k".repeat(64 * KIB), 1)],
        vec![put_of("large", 4096 * KIB - 100)],
        vec![put_of("a", 4000 * KIB), Write::DeleteRange("large".to_owned(), "m".to_owned())],
        ranges(512),
        (0..32_768).map(|i| put_of(format!("many{i}"), 0)).collect(),
        vec![Write::DeleteRange("b".to_owned(), "b".to_owned())],
    ];
    assert_eq!(answers(&mut store, commands).await, vec![None; 6]);
    assert_eq!(store.get("large"), None);
    assert_eq!(store.get("a").unwrap().len(), 4000 * KIB);
    assert_eq!(store.machine.state().read(|state| state.prefix("many").count()), 32_768);
}

#[tokio::test]
async fn what_is_beyond_a_limit_is_an_answer_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    let beyond = [
        put_of("k".repeat(64 * KIB + 1), 1),
        Write::Delete("k".repeat(64 * KIB + 1)),
        Write::DeleteRange("k".to_owned(), "k".repeat(64 * KIB + 1)),
        put_of("v", 4096 * KIB),
    ];
    let mut commands: Vec<_> =
        beyond.into_iter().map(|write| vec![put_of("k", 1), write]).collect();
    commands.push(ranges(513));
    commands.push((0..32_769).map(|i| put_of(format!("k{i}"), 0)).collect());
    commands.push((0..5).map(|i| put_of(format!("k{i}"), 1 << 20)).collect());
    // One after another and each with a batch of its own: what a command may do is the same.
    let key = "the key has 65537 bytes";
    let expected = [key, key, key, "bytes", "512 range deletes", "32768 puts and deletes", "bytes"];
    let refused = answers(&mut store, commands.clone()).await;
    for (answer, expected) in refused.iter().zip(expected) {
        let answer = answer.as_ref().expect(expected);
        assert!(answer.contains(expected), "{answer}: {expected}");
    }
    for (command, expected) in commands.into_iter().zip(&refused) {
        assert_eq!(&answers(&mut store, vec![command]).await[0], expected);
    }
    assert_eq!(store.machine.state().read(|state| state.iter().count()), 0);
}

/// A batch of the database has at most 1,024 range deletes.
#[tokio::test]
async fn commands_with_many_range_deletes_are_applied_in_several_batches() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    let commands = (0..3_000).map(|i| {
        let key = format!("{i:05}");
        vec![put_of(&key, 1), Write::DeleteRange(key.clone(), key + "x")]
    });
    assert_eq!(answers(&mut store, commands.collect()).await, vec![None; 3_000]);
    let commands = (0..4).map(|_| ranges(512)).collect();
    assert_eq!(answers(&mut store, commands).await, vec![None; 4]);
    assert_eq!(store.machine.state().read(|state| state.iter().count()), 0);
}

#[tokio::test]
async fn commands_after_one_that_was_undone_see_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    let refused = all_of(2, vec![put_of("a", 9), put_of("v", 4096 * KIB)]);
    let commands = [put(1, "a", b"1"), refused, put(3, "a", b"2")];
    let answers = store.machine.apply(commands).await.unwrap();
    assert_eq!((&answers[0], &answers[2]), (&None, &Some(b"1".to_vec())));
    assert!(answers[1].is_some());
    assert_eq!(store.get("a"), Some(b"2".to_vec()));
}

#[tokio::test]
async fn a_snapshot_has_the_largest_entries() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut leader = Store::open(dirs[0].path());
    let commands = vec![vec![put_of("k".repeat(64 * KIB), 3900 * KIB)], vec![put_of("", 0)]];
    assert_eq!(answers(&mut leader, commands).await, [None, None]);
    let mut built = leader.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let mut bytes = Vec::new();
    built.snapshot.read_to_end(&mut bytes).await.unwrap();

    let mut follower = Store::open(dirs[1].path());
    let mut file = follower.machine.begin_receiving_snapshot().await.unwrap();
    file.write_all(&bytes).await.unwrap();
    follower.machine.install_snapshot(&built.meta, file).await.unwrap();
    assert_eq!(follower.get(&"k".repeat(64 * KIB)).unwrap().len(), 3900 * KIB);
    assert_eq!(follower.get(""), Some(vec![]));
}
