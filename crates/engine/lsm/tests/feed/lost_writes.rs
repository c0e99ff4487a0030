//! Writes that a power loss takes back: other writes get their sequence numbers, and no consumer misses those.

use crate::support::*;
use esker_base::Rng;
use esker_lsm::{ChangeEvent, Db, KeyspaceSettings, Log, SyncPolicy};
use esker_storage::FaultStorage;

const NAME: &str = "c";

/// A disk, on which a power loss takes what was not synced.
fn disk(seed: u64) -> FaultStorage {
    FaultStorage::new(Rng::new(seed))
}

/// With syncs on request.
fn open(disk: &FaultStorage) -> Db {
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    open_as(disk, settings().log(log)).unwrap()
}

fn put(db: &Db, writes: u32) {
    for write in 0..writes {
        db.default_keyspace().put(write.to_be_bytes(), "value").unwrap();
    }
}

#[test]
fn what_a_consumer_has_acknowledged_survives() {
    for seed in 0..8 {
        let disk = disk(seed);
        let db = open(&disk);
        let consumer = db.change_consumer(NAME, 1 << 30).unwrap();
        put(&db, 20);
        consumer.acknowledge(12).unwrap();
        let db = open(&disk.crash());
        let kept = last_seqno(&db);
        assert!(kept >= 12, "seed {seed}: {kept} writes survived");
        put(&db, 20);
        let mut consumer = db.open_change_consumer(NAME).unwrap();
        assert_eq!(consumer.next_seqno(), 13);
        let mut mirror = Mirror::new();
        assert_eq!(mirror.follow(&mut consumer, 12).unwrap(), kept + 20, "seed {seed}");
    }
}

#[test]
fn what_comes_before_a_new_consumer_survives() {
    for (seed, is_anew) in [(0, false), (1, false), (2, true), (3, true)] {
        let disk = disk(seed);
        let db = open(&disk);
        put(&db, 20);
        match is_anew {
            false => drop(db.change_consumer(NAME, 1 << 30).unwrap()),
            true => drop(db.change_consumer_or_anew(NAME, 1 << 30).unwrap()),
        }
        put(&db, 5);
        let db = open(&disk.crash());
        assert!(last_seqno(&db) >= 20, "seed {seed}");
        assert_eq!(db.open_change_consumer(NAME).unwrap().next_seqno(), 21);
    }
}

/// The creation is in the manifest, and the writes before it are lost.
#[test]
fn a_keyspace_is_created_before_its_first_change_after_lost_writes() {
    for seed in 0..8 {
        let disk = disk(seed);
        let db = open(&disk);
        db.change_consumer(NAME, 1 << 30).unwrap();
        put(&db, 10);
        db.sync().unwrap();
        put(&db, 10);
        db.keyspace("users", KeyspaceSettings::default()).unwrap();
        let mut disk = disk.crash();
        // The place is durable, too: twice.
        for _ in 0..2 {
            let db = open(&disk);
            let users = db.open_keyspace("users").unwrap();
            (0..20_u8).for_each(|key| users.put([key], "user").unwrap());
            db.sync().unwrap();
            let mut consumer = db.open_change_consumer(NAME).unwrap();
            let mut mirror = Mirror::new();
            mirror.follow(&mut consumer, 0).unwrap();
            assert_eq!(mirror, Mirror::of(&db), "seed {seed}");
            disk = disk.crash();
        }
    }
}

#[test]
fn a_consumer_gets_the_creation_of_a_keyspace_in_its_place() {
    let db = open(&disk(1));
    let mut consumer = db.change_consumer(NAME, 1 << 30).unwrap();
    put(&db, 1);
    db.keyspace("users", KeyspaceSettings::default()).unwrap();
    put(&db, 1);
    let is_batch = |event: ChangeEvent| matches!(event, ChangeEvent::Batch(_));
    let events = std::iter::from_fn(|| consumer.try_next().unwrap());
    assert_eq!(events.map(is_batch).collect::<Vec<_>>(), [true, false, true]);
}
