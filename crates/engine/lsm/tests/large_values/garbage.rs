//! What becomes of the file of a value that is not needed any more, and what compactions do with the others.

use crate::support::*;
use esker_base::Clock;
use esker_base::background::Stepped;
use esker_lsm::{Db, Env, KeyspaceSettings};
use esker_storage::MemoryStorage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the version says, in values and their bytes as they are stored, and which files are there.
fn state(world: &World) -> (u64, u64, u64, Vec<String>) {
    let values = world.values();
    (values.live_values, values.live_bytes, values.files, world.value_files())
}

const BYTES: usize = 300_000;
/// With the checksums of two blocks.
const STORED: u64 = BYTES as u64 + 8;

#[test]
fn a_value_that_is_overwritten_frees_its_file() {
    let world = World::new();
    world.put("v", &large("first", BYTES));
    let first = world.value_files();
    world.put("v", &large("second", BYTES));
    assert_eq!(state(&world).0, 2, "no compaction has met both");
    world.db.compact().unwrap();
    let (live, bytes, files, names) = state(&world);
    assert_eq!((live, bytes, files, names.len()), (1, STORED, 1, 1));
    assert_ne!(names, first);
    world.expect("v", &large("second", BYTES));
    world.put("v", b"small");
    world.db.compact().unwrap();
    assert_eq!(state(&world), (0, 0, 0, Vec::new()));
    assert_eq!(world.problems(), [""; 0]);
}

/// A clock that goes on by a minute whenever it is asked: nothing is written for long.
#[derive(Default)]
struct Minutes(AtomicU64);

impl Clock for Minutes {
    fn now(&self) -> Duration {
        Duration::from_secs(60 * self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn sleep(&self, _: Duration) {}
}

fn idle_world() -> World {
    let storage = Arc::new(MemoryStorage::new());
    let env = Env::over(storage.clone()).background(Arc::new(Stepped));
    let db = Db::open_with(env.clock(Arc::new(Minutes::default())), settings()).unwrap();
    let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
    World { storage, db, keyspace }
}

/// Does what an idle database does.
fn idle(world: &World) {
    while world.db.run_background_job() {}
}

/// Levels are compacted by the bytes of their tables, which are tiny here.
#[test]
fn background_work_frees_the_files_of_values_that_are_overwritten_or_deleted() {
    let world = idle_world();
    // Beside small rows, which a compaction that frees a value rewrites.
    (0..1000).for_each(|n| world.put(&format!("row{n}"), &[7; 50]));
    world.db.flush().unwrap();
    for round in 0..8 {
        world.put("v", &large(&round.to_string(), BYTES));
        idle(&world);
        assert_eq!(world.value_files().len(), 1, "after {round}");
    }
    world.put("w", &large("w", BYTES));
    world.keyspace.delete("v").unwrap();
    world.db.flush().unwrap();
    idle(&world);
    assert_eq!(world.value_files().len(), 1);
    world.expect("w", &large("w", BYTES));
    world.put("w", b"small");
    world.db.flush().unwrap();
    idle(&world);
    assert_eq!(world.value_files(), [""; 0], "by a small value");
    world.put("w", &large("w", BYTES));
    world.keyspace.delete_range("v".."x").unwrap();
    world.db.flush().unwrap();
    idle(&world);
    assert_eq!(world.value_files(), [""; 0]);
    assert_eq!(world.problems(), [""; 0]);
}

/// Only what every reader sees may go, and it goes once it may.
#[test]
fn background_work_waits_for_snapshots_of_values_that_are_overwritten() {
    let world = idle_world();
    world.put("v", &large("first", BYTES));
    let snapshot = world.db.snapshot();
    world.put("v", &large("second", BYTES));
    idle(&world);
    assert_eq!(world.value_files().len(), 2);
    let found = snapshot.get(&world.keyspace, "v").unwrap().unwrap();
    assert!(found == large("first", BYTES)[..]);
    drop(snapshot);
    idle(&world);
    assert_eq!(world.value_files().len(), 1);
}

/// New keys between those of a table hide nothing: they go down the levels once.
#[test]
fn background_work_comes_to_an_end_between_values_that_are_not_overwritten() {
    let world = idle_world();
    let written = || world.db.stats().account.compaction_bytes;
    for key in ["a", "z", "m", "f", "s"] {
        let before = written();
        world.put(key, &large(key, BYTES));
        idle(&world);
        // Tables of a few hundred bytes each, down from level 0 at most.
        assert!(written() - before < 7 * 5 * 2_000, "{}", written() - before);
    }
    assert_eq!(world.value_files().len(), 5);
}

#[test]
fn a_value_that_is_deleted_frees_its_file() {
    let world = World::new();
    for key in ["a", "b", "c"] {
        world.put(key, &large(key, BYTES));
    }
    world.keyspace.delete("a").unwrap();
    world.db.compact().unwrap();
    assert_eq!(state(&world).0, 2);
    world.keyspace.delete_range("b".."c").unwrap();
    world.db.compact().unwrap();
    assert_eq!((state(&world).0, state(&world).3.len()), (1, 1));
    world.expect("c", &large("c", BYTES));
    let World { storage, db, keyspace } = world;
    db.drop_keyspace(&keyspace).unwrap();
    assert_eq!(names(&*storage, ".values"), [""; 0]);
    db.close().unwrap();
    assert_eq!(problems(&storage), [""; 0]);
}

#[test]
fn a_snapshot_keeps_the_file_of_a_value_that_is_overwritten() {
    let world = World::new();
    world.put("v", &large("first", BYTES));
    let snapshot = world.db.snapshot();
    world.put("v", b"small");
    world.db.compact().unwrap();
    assert_eq!(state(&world).0, 1);
    let found = snapshot.get(&world.keyspace, "v").unwrap().unwrap();
    assert!(found == large("first", BYTES)[..]);
    drop(snapshot);
    world.put("v", b"again");
    world.db.compact().unwrap();
    assert_eq!(state(&world).0, 0);
}

/// Neither moves such a value to a table or to a file with others, nor copies it.
#[test]
fn compactions_leave_live_values_where_they_are() {
    for settings in [
        KeyspaceSettings::default(),
        KeyspaceSettings::default().separation_threshold(100),
        KeyspaceSettings::default().separation_threshold(1 << 20),
    ] {
        let world = World::with(settings);
        let keys: Vec<_> = (0..6).map(|n| format!("large{n}")).collect();
        keys.iter().for_each(|key| world.put(key, &large(key, BYTES)));
        let files = world.value_files();
        for round in 0..3_u8 {
            (0..20).for_each(|n| world.put(&format!("long{n}"), &[round; 400]));
            world.db.compact().unwrap();
        }
        world.db.set(&"k.separation_threshold=none".parse().unwrap()).unwrap();
        (0..20).for_each(|n| world.put(&format!("long{n}"), &[9; 400]));
        world.db.compact().unwrap();
        let now = world.value_files();
        assert!(files.iter().all(|name| now.contains(name)), "{files:?} {now:?}");
        keys.iter().for_each(|key| world.expect(key, &large(key, BYTES)));
        let levels = world.db.levels();
        let tree = levels.iter().find(|tree| tree.name == "k").unwrap();
        let runs = tree.levels.iter().flat_map(|level| &level.runs);
        assert!(runs.map(|run| run.bytes()).sum::<u64>() < BYTES as u64);
        assert_eq!(world.problems(), [""; 0]);
    }
}

#[test]
fn a_put_of_a_large_value_counts_as_written_by_the_user_and_by_a_flush() {
    let world = World::new();
    let account = || world.db.stats().account;
    let before = account();
    world.put("v", &large("v", BYTES));
    let after = account();
    let written = [after.flush_bytes - before.flush_bytes, after.user_bytes - before.user_bytes];
    for bytes in written {
        assert!((STORED..STORED + 10_000).contains(&bytes), "{written:?}");
    }
}
