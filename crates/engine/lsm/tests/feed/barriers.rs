//! What does not come through the log.

use crate::support::*;
use esker_lsm::ChangeEvent;

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
    let [ChangeEvent::Ingested { seqno: 2, name: Some(name), .. }, ChangeEvent::Batch(_)] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(&**name, "users");
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
