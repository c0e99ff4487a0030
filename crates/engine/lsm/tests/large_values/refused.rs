//! Which keyspaces and calls take no large value, and what they say.

use crate::support::*;
use esker_base::{Error, LargeValueError};
use esker_lsm::{Dedup, KeyspaceSettings, Ratio, Shape};
use std::time::Duration;

const BYTES: usize = 100_000;

#[track_caller]
fn refused(settings: KeyspaceSettings, reason: &str) {
    let world = World::with(settings);
    let value = large("v", BYTES);
    let mut batch = world.db.batch();
    batch.put(&world.keyspace, "v", &value);
    let errors = [
        world.keyspace.put_reader("v", &value[..]).unwrap_err(),
        world.keyspace.put("v", &value).unwrap_err(),
        world.db.write(&batch).unwrap_err(),
    ];
    for error in errors {
        let said = error.to_string();
        assert!(said.contains("keyspace \"k\"") && said.contains(reason), "{said}");
        let Error::LargeValue(error) = error else { panic!("{said}") };
        assert!(matches!(*error, LargeValueError::Refused { limit: 16_384, .. }), "{said}");
    }
    assert_eq!(world.keyspace.count(..).unwrap(), 0);
    assert_eq!((names(&*world.storage, ".ingest"), world.value_files()), (vec![], vec![]));
    // What fits a log entry is taken.
    assert_eq!(world.keyspace.put_reader("v", &value[..8]).unwrap(), 8);
}

#[test]
fn a_keyspace_that_has_some_takes_no_space_amplification_limit() {
    let world = World::with(KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 }));
    world.put("v", &large("v", 300_000));
    let set = |change: &str| world.db.set(&change.parse().unwrap());
    let error = set("k.dedup=space-goal:1.5").unwrap_err().to_string();
    assert!(error.contains("`k` has 1 large value, each in a file of its own"), "{error}");
    set("k.compression=none").unwrap();
    world.keyspace.delete("v").unwrap();
    world.db.compact().unwrap();
    set("k.dedup=space-goal:1.5").unwrap();
}

#[test]
fn a_keyspace_with_a_merge_operator_takes_none() {
    refused(KeyspaceSettings::default().merge("append"), "merge operator");
}

#[test]
fn a_keyspace_with_a_compaction_filter_takes_none() {
    refused(KeyspaceSettings::default().compaction_filter("live"), "compaction filter");
}

#[test]
fn a_keyspace_with_a_space_amplification_limit_takes_none() {
    let goal = KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 });
    refused(
        goal.dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) }),
        "space-amplification limit",
    );
}

#[test]
fn a_keyspace_with_indexes_takes_none() {
    let world = World::new();
    let index = world.keyspace.index("all", |_, value, keys| keys.add(&value[..1])).unwrap();
    index.wait_ready().unwrap();
    let value = large("v", BYTES);
    for error in [
        world.keyspace.put_reader("v", &value[..]).unwrap_err(),
        world.keyspace.put("v", &value).unwrap_err(),
    ] {
        assert!(matches!(error, Error::LargeValue(_)), "{error}");
        assert!(error.to_string().contains("its indexes"), "{error}");
    }
    let other = world.db.keyspace("other", KeyspaceSettings::default()).unwrap();
    let mut batch = world.db.batch();
    batch.put(&other, "v", &value);
    batch.put(&world.keyspace, "row", b"row");
    let error = world.db.write(&batch).unwrap_err();
    assert!(error.to_string().contains("its indexes"), "{error}");
    assert_eq!((world.keyspace.count(..).unwrap(), other.count(..).unwrap()), (0, 0));
}

/// They say what to do.
#[test]
fn calls_that_take_none_say_so() {
    let world = World::new();
    let value = large("v", BYTES);
    let keyspace = &world.keyspace;
    let too_large = |error: Error| {
        assert!(matches!(error, Error::ValueTooLarge { .. }), "{error}");
        assert!(error.to_string().contains("put it by a plain put or batch"), "{error}");
    };
    too_large(world.db.transact(|transaction| transaction.put(keyspace, "v", &value)).unwrap_err());
    too_large(world.db.put_if_absent(keyspace, "v", &value).map(|_| ()).unwrap_err());
    too_large(keyspace.put_with_ttl("v", &value, Duration::from_secs(9)).unwrap_err());
    too_large(world.db.ingest(keyspace, [("v", &value)]).map(|_| ()).unwrap_err());
    too_large(world.db.bulk_loader(keyspace).unwrap().put("v", &value).unwrap_err());
    let merging = KeyspaceSettings::default().merge("append");
    let merging = world.db.keyspace("merging", merging).unwrap();
    too_large(merging.merge("v", &value).unwrap_err());
    assert_eq!(keyspace.count(..).unwrap() + merging.count(..).unwrap(), 0);
}

#[test]
fn a_transaction_that_read_the_key_conflicts() {
    let world = World::new();
    world.put("v", b"before");
    let mut transaction = world
        .db
        .transaction_with(
            esker_api::TransactionOptions::default()
                .concurrency(esker_api::Concurrency::Optimistic),
        )
        .unwrap();
    transaction.get_for_update(&world.keyspace, "v").unwrap();
    transaction.put(&world.keyspace, "v", b"of the transaction").unwrap();
    world.put("v", &large("v", BYTES));
    let error = transaction.commit().unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    world.expect("v", &large("v", BYTES));
}

#[test]
fn a_database_that_is_open_for_reading_takes_none() {
    let dir = tempfile::tempdir().unwrap();
    esker_lsm::Db::open(dir.path(), settings()).unwrap().close().unwrap();
    let db = esker_lsm::Db::open_read_only(dir.path(), settings()).unwrap();
    let error = db.put_reader(&db.default_keyspace(), "v", &large("v", BYTES)[..]).unwrap_err();
    assert!(matches!(error, Error::ReadOnly), "{error}");
}
