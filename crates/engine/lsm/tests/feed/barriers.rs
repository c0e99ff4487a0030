//! What does not come through the log.

use crate::support::*;
use esker_lsm::{ChangeEvent, IngestedKeyspace, KeyspaceSettings};

fn events(db: &esker_lsm::Db, from: u64) -> Vec<ChangeEvent> {
    let mut changes = db.changes(from).unwrap();
    std::iter::from_fn(|| changes.try_next().unwrap()).collect()
}

#[test]
fn an_ingest_is_a_barrier() {
    let db = open(&disk());
    let users = db.keyspace("users", Default::default()).unwrap();
    users.put("a", "1").unwrap();
    db.ingest(&users, [("b", "2")]).unwrap();
    users.put("c", "3").unwrap();
    let events = events(&db, 2);
    let [ChangeEvent::Ingested { seqno: 2, keyspaces }, ChangeEvent::Batch(_)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(names_of(keyspaces), ["users"]);
}

fn names_of(keyspaces: &[IngestedKeyspace]) -> Vec<&str> {
    keyspaces.iter().map(|it| it.name.as_deref().unwrap()).collect()
}

/// Ingests an entry into each of `count` keyspaces at once, and returns which of them the event names, in order.
fn named_of(count: usize) -> (Vec<String>, Vec<String>) {
    let disk = disk();
    let db = open(&disk);
    let consumer = db.change_consumer("c", 1 << 20).unwrap();
    let names: Vec<_> = (100..100 + count).map(|n| format!("k{n}")).collect();
    let writers = names.iter().map(|name| {
        let keyspace = db.keyspace(name, Default::default()).unwrap();
        let mut writer = db.sorted_writer(&keyspace).unwrap();
        writer.put("key", name).unwrap();
        writer
    });
    let ingested = db.ingest_writers(writers).unwrap();
    drop(consumer);
    db.close().unwrap();
    let db = open(&disk);
    let mut consumer = db.open_change_consumer("c").unwrap();
    let mut events = std::iter::from_fn(|| consumer.try_next().unwrap());
    let event = events.find_map(|event| match event {
        ChangeEvent::Ingested { seqno, keyspaces } => Some((seqno, keyspaces)),
        _ => None,
    });
    let (seqno, keyspaces) = event.expect("there was an ingest");
    assert_eq!(Some(seqno), ingested.seqno);
    let mut named: Vec<_> = names_of(&keyspaces).into_iter().map(str::to_owned).collect();
    named.sort_unstable();
    (named, names)
}

#[test]
fn an_ingest_into_several_keyspaces_names_all_of_them() {
    for count in [2, 5, 100] {
        let (named, names) = named_of(count);
        assert_eq!(named, names);
    }
}

/// With those that it did not change: reading them again does no harm.
#[test]
fn an_ingest_into_more_keyspaces_than_a_mark_names_names_all_that_there_are() {
    let (named, mut names) = named_of(101);
    names.insert(0, "default".to_owned());
    assert_eq!(named, names);
}

#[test]
fn keyspaces_come_and_go_between_batches() {
    let disk = disk();
    let db = open(&disk);
    let consumer = db.change_consumer("c", 1 << 20).unwrap();
    let names = |db: &esker_lsm::Db| -> Vec<String> {
        let name = |event| match event {
            ChangeEvent::Batch(batch) => format!("batch {}", batch.last_seqno()),
            ChangeEvent::KeyspaceCreated { at, name, .. } => format!("create {name} after {at}"),
            ChangeEvent::KeyspaceDropped { at, name, .. } => format!("drop {name} after {at}"),
            other => panic!("{other:?}"),
        };
        events(db, 1).into_iter().map(name).collect()
    };
    let users = db.keyspace("users", Default::default()).unwrap();
    users.put("a", "1").unwrap();
    db.keyspace("empty", Default::default()).unwrap();
    users.put("b", "1").unwrap();
    db.drop_keyspace(&users).unwrap();
    db.default_keyspace().put("c", "1").unwrap();
    let expected = [
        "create users after 0",
        "batch 1",
        "create empty after 1",
        "batch 2",
        "drop users after 2",
        "batch 3",
    ];
    assert_eq!(names(&db), expected);
    db.flush().unwrap();
    drop((consumer, users));
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(names(&db), expected);
}

/// The first process had no consumer, so it left no history.
#[test]
fn a_history_of_keyspaces_that_is_not_known_is_said_to_be_so() {
    let disk = disk();
    let db = open(&disk);
    db.keyspace("users", Default::default()).unwrap().put("a", "1").unwrap();
    assert!(matches!(events(&db, 1)[0], ChangeEvent::KeyspaceCreated { .. }));
    let disk = disk.kill();
    drop(db);
    let db = open(&disk);
    assert!(matches!(
        events(&db, 1)[..],
        [ChangeEvent::KeyspacesUnknown { through: 1 }, ChangeEvent::Batch(_)]
    ));
    db.default_keyspace().put("a", "1").unwrap();
    assert!(matches!(events(&db, 2)[..], [ChangeEvent::Batch(_)]));
}

/// The entries of an index follow from the rows.
#[test]
fn entries_of_the_engine_itself_are_left_out() {
    let db = open(&disk());
    let users = db.keyspace("users", Default::default()).unwrap();
    let index = users.index("by_value", |_, value, keys| keys.add(value)).unwrap();
    index.wait_ready().unwrap();
    let from = last_seqno(&db) + 1;
    users.put("a", "1").unwrap();
    let events = events(&db, from);
    let [ChangeEvent::Batch(batch)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((batch.changes().count(), batch.last_seqno() - batch.first_seqno() + 1), (1, 2));
}

/// Of a keyspace that is not there any more, only the record of its drop says whose it was. There is no consumer.
#[test]
fn entries_of_a_dropped_index_are_left_out_after_a_restart() {
    let disk = disk();
    let db = open(&disk);
    let users = db.keyspace("users", Default::default()).unwrap();
    let index = users.index("by_value", |_, value, keys| keys.add(value)).unwrap();
    index.wait_ready().unwrap();
    let from = last_seqno(&db) + 1;
    users.put("a", "1").unwrap();
    users.drop_index("by_value").unwrap();
    users.put("b", "1").unwrap();
    let crashed = disk.kill();
    drop((index, users, db));
    let db = open(&crashed);
    let events = events(&db, from);
    let changes = |event: &ChangeEvent| match event {
        ChangeEvent::Batch(batch) => batch.changes().count(),
        _ => 0,
    };
    assert_eq!(events.iter().map(changes).sum::<usize>(), 2, "{events:?}");
    assert!(last_seqno(&db) - from + 1 > 2, "the entry of the index is in the log");
}

#[test]
fn a_created_keyspace_has_its_time_to_live_after_a_restart() {
    let disk = disk();
    let db = open(&disk);
    let _consumer = db.change_consumer("c", 1 << 20).unwrap();
    let filtered = KeyspaceSettings::default().compaction_filter("live");
    let day = std::time::Duration::from_secs(86_400);
    let plain = KeyspaceSettings::default();
    let aging = [plain.ttl(day), filtered.ttl(day)];
    let expected = [&[plain, filtered, filtered.merge("add_i64")], &aging[..]].concat();
    for (number, settings) in expected.iter().enumerate() {
        db.keyspace(&format!("k{number}"), *settings).unwrap();
    }
    let created = |db: &esker_lsm::Db| -> Vec<KeyspaceSettings> {
        let of = |event| match event {
            ChangeEvent::KeyspaceCreated { settings, .. } => settings,
            other => panic!("{other:?}"),
        };
        let mut consumer = db.open_change_consumer("c").unwrap();
        std::iter::from_fn(|| consumer.try_next().unwrap()).map(of).collect()
    };
    assert_eq!(created(&db), expected);
    let crashed = disk.kill();
    drop(db);
    assert_eq!(created(&open(&crashed)), expected);
}
