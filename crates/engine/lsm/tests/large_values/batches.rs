//! Batches with large values, and plain puts of them.

use crate::support::*;
use esker_base::{Error, LargeValueError};
use esker_lsm::KeyspaceSettings;

const BYTES: usize = 300_000;

#[test]
fn a_plain_put_takes_a_value_of_any_size() {
    let world = World::new();
    let value = large("v", BYTES);
    world.db.put(&world.keyspace, "db", &value).unwrap();
    world.keyspace.put("keyspace", &value).unwrap();
    world.expect("db", &value);
    world.expect("keyspace", &value);
    assert_eq!(world.value_files().len(), 2);
}

#[test]
fn a_batch_with_large_values_is_written_as_a_whole() {
    let world = World::new();
    let other = world.db.keyspace("other", KeyspaceSettings::default()).unwrap();
    world.put("deleted", &large("deleted", BYTES));
    world.put("kept", b"kept");
    world.db.compact().unwrap();
    let before = world.db.snapshot();
    let mut batch = world.db.batch();
    batch.put(&world.keyspace, "large", large("first", BYTES));
    batch.put(&world.keyspace, "small", b"small");
    batch.put(&world.keyspace, "twice", large("twice", BYTES));
    batch.delete(&world.keyspace, "deleted");
    batch.put(&other, "other", large("other", BYTES));
    batch.put(&world.keyspace, "large", large("second", BYTES));
    batch.put(&world.keyspace, "twice", b"the last one counts");
    batch.delete(&other, "nothing");
    world.db.write(&batch).unwrap();
    let check = |world: &World| {
        let other = world.db.open_keyspace("other").unwrap();
        world.expect("large", &large("second", BYTES));
        world.expect("small", b"small");
        world.expect("twice", b"the last one counts");
        world.expect("kept", b"kept");
        assert!(world.keyspace.get("deleted").unwrap().is_none());
        assert!(other.get("other").unwrap().unwrap() == large("other", BYTES)[..]);
        assert_eq!(world.keyspace.count(..).unwrap(), 4);
    };
    check(&world);
    assert!(before.get(&world.keyspace, "deleted").unwrap().is_some());
    assert_eq!(before.count(&world.keyspace, ..).unwrap(), 2);
    assert!(before.get(&other, "other").unwrap().is_none());
    drop((before, other));
    let world = world.reopened();
    check(&world);
    world.db.compact().unwrap();
    check(&world);
    assert_eq!((world.value_files().len(), world.values().live_values), (2, 1));
    assert_eq!(world.problems(), [""; 0]);
}

/// The delete is in a table that hides the value in a deeper level, and a later put is above it.
#[test]
fn a_delete_in_such_a_batch_hides_deeper_levels_and_no_later_put() {
    let world = World::new();
    for n in 0..50 {
        world.put(&format!("key{n:02}"), b"deep");
    }
    world.db.compact().unwrap();
    let mut batch = world.db.batch();
    batch.put(&world.keyspace, "a", large("a", BYTES));
    (0..50).for_each(|n| batch.delete(&world.keyspace, format!("key{n:02}")));
    world.db.write(&batch).unwrap();
    assert_eq!(world.keyspace.count(..).unwrap(), 1);
    world.put("key07", b"later");
    assert_eq!(world.keyspace.count(..).unwrap(), 2);
    for _ in 0..2 {
        world.db.compact().unwrap();
        assert_eq!(world.keyspace.count(..).unwrap(), 2);
        world.expect("key07", b"later");
    }
}

#[test]
fn what_such_a_batch_may_not_have_is_named_and_nothing_is_written() {
    let world = World::new();
    let merging = KeyspaceSettings::default().merge("add_i64");
    let merging = world.db.keyspace("merging", merging).unwrap();
    let mixed = |add: &dyn Fn(&mut esker_api::WriteBatch)| {
        let mut batch = world.db.batch();
        batch.put(&world.keyspace, "small", b"small");
        batch.put(&world.keyspace, "large", large("large", BYTES));
        add(&mut batch);
        let Error::LargeValue(error) = world.db.write(&batch).unwrap_err() else { panic!() };
        assert!(matches!(*error, LargeValueError::Mixed { .. }), "{error}");
    };
    mixed(&|batch| batch.delete_range(&world.keyspace, "a".."b"));
    mixed(&|batch| batch.merge(&merging, "a", 7_i64.to_le_bytes()));
    let hour = std::time::Duration::from_secs(3_600);
    mixed(&|batch| batch.put_with_ttl(&world.keyspace, "a", b"a", hour));
    assert_eq!(world.keyspace.count(..).unwrap(), 0);
    assert_eq!(names(&*world.storage, ".ingest"), [""; 0]);
}

#[test]
fn the_small_entries_of_such_a_batch_have_the_limits_of_any_batch() {
    let world = World::new();
    let limit = settings().max_batch_bytes();
    let mut batch = world.db.batch();
    batch.put(&world.keyspace, "large", large("large", 2 * limit));
    world.db.write(&batch).unwrap();
    (0..=limit / 10_000).for_each(|n| batch.put(&world.keyspace, n.to_be_bytes(), [7; 10_000]));
    let error = world.db.write(&batch).unwrap_err();
    assert!(matches!(error, Error::BatchTooLarge { .. }), "{error}");
    assert_eq!(world.keyspace.count(..).unwrap(), 1);
}
