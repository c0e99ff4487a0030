//! Named consumers: what is kept for them, and for how long.

use crate::support::*;
use esker_base::Error;
use esker_lsm::Db;

fn logs(disk: &esker_storage::FaultStorage) -> usize {
    disk.files().iter().filter(|name| name.ends_with(".log")).count()
}

/// Fills a segment, and flushes it.
fn fill(db: &Db) {
    for key in 0..10_u8 {
        db.default_keyspace().put([key], vec![key; 5_000]).unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn logs_are_kept_until_they_are_acknowledged() {
    let disk = disk();
    let db = open(&disk);
    let consumer = db.change_consumer("c", 1 << 30).unwrap();
    let without = logs(&disk);
    (0..4).for_each(|_| fill(&db));
    assert_eq!(logs(&disk), without + 4);
    let info = &db.change_consumers()[0];
    assert!((200_000..300_000).contains(&info.kept_bytes) && !info.fell_behind, "{info:?}");
    consumer.acknowledge(25).unwrap();
    assert_eq!(db.change_consumers()[0].acknowledged, 25);
    // The oldest are used again, or removed.
    assert_eq!(db.changes(21).unwrap().try_next().unwrap().unwrap().seqno(), 21);
    assert_eq!(oldest_in(&db.changes(20).unwrap().try_next().unwrap_err()), 21);
    consumer.acknowledge(40).unwrap();
    assert_eq!(db.change_consumers()[0].kept_bytes, 0);
    fill(&db);
    db.close().unwrap();
    assert_eq!(logs(&disk), 1);
}

#[test]
fn a_consumer_survives_restarts_and_goes_on_where_it_acknowledged() {
    let mut disk = disk();
    let db = open(&disk);
    db.change_consumer("c", 1 << 30).unwrap();
    (0..3).for_each(|_| fill(&db));
    db.open_change_consumer("c").unwrap().acknowledge(13).unwrap();
    db.close().unwrap();
    for how in 0..3 {
        let db = open(&disk);
        let mut consumer = db.change_consumer("c", 1 << 30).unwrap();
        assert_eq!(consumer.next_seqno(), 14);
        assert_eq!(consumer.try_next().unwrap().unwrap().seqno(), 14);
        disk = if how == 0 { disk.kill() } else { disk.crash() };
    }
}

#[test]
fn a_consumer_that_falls_behind_is_told_where_it_can_go_on() {
    let disk = disk();
    let db = open(&disk);
    let mut slow = db.change_consumer("slow", 2 * SEGMENT_BYTES).unwrap();
    let mut patient = db.change_consumer("patient", 1 << 30).unwrap();
    (0..5).for_each(|_| fill(&db));
    // What one keeps, all may read.
    assert!(!db.change_consumers().iter().any(|info| info.fell_behind));
    patient.acknowledge(50).unwrap();
    let error = slow.try_next().unwrap_err();
    assert_eq!(oldest_in(&error), 31);
    let told = error.to_string();
    assert!(told.contains("\"slow\" fell behind") && told.contains("is 31"), "{told}");
    assert!(db.change_consumers().iter().any(|info| info.name == "slow" && info.fell_behind));
    db.close().unwrap();
    let db = open(&disk);
    let mut slow = db.open_change_consumer("slow").unwrap();
    assert_eq!(oldest_in(&slow.try_next().unwrap_err()), 31);
    slow.acknowledge(30).unwrap();
    let mut slow = db.open_change_consumer("slow").unwrap();
    assert_eq!(slow.try_next().unwrap().unwrap().seqno(), 31);
    patient = db.open_change_consumer("patient").unwrap();
    assert!(patient.try_next().unwrap().is_none());
}

/// A reader that has a kept log open, whose file is used again meanwhile.
#[test]
fn a_log_that_is_let_go_under_a_reader_is_gone_and_not_damaged() {
    let disk = disk();
    let db = open(&disk);
    let consumer = db.change_consumer("c", 1 << 30).unwrap();
    for key in 0..200_u8 {
        db.default_keyspace().put([key], vec![key; 2_500]).unwrap();
    }
    db.flush().unwrap();
    let mut changes = db.changes(1).unwrap();
    changes.try_next().unwrap().unwrap();
    consumer.acknowledge(200).unwrap();
    (0..20).for_each(|_| fill(&db));
    let error = loop {
        match changes.try_next() {
            Ok(event) => assert!(event.is_some()),
            Err(error) => break error,
        }
    };
    assert!(oldest_in(&error) > 200, "{error}");
}

#[test]
fn consumers_are_listed_and_dropped() {
    let disk = disk();
    let db = open(&disk);
    let without = logs(&disk);
    let (a, _b) =
        (db.change_consumer("a", 1 << 30).unwrap(), db.change_consumer("b", 1 << 20).unwrap());
    (0..3).for_each(|_| fill(&db));
    let listed: Vec<_> = db.change_consumers().into_iter().map(|info| info.name).collect();
    assert_eq!(listed, ["a", "b"]);
    db.drop_change_consumer("a").unwrap();
    assert_eq!(logs(&disk), without + 3, "the other needs them");
    db.drop_change_consumer("b").unwrap();
    db.close().unwrap();
    assert_eq!(logs(&disk), 0);
    let db = open(&disk);
    assert!(db.change_consumers().is_empty());
    let error = db.drop_change_consumer("b").unwrap_err().to_string();
    assert!(error.contains("no change consumer \"b\""), "{error}");
    assert!(matches!(a.acknowledge(1), Err(Error::Closed)));
}

/// A copy is another database: it keeps nothing for the consumers of the first.
#[test]
fn a_checkpoint_has_no_consumers() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), settings()).unwrap();
    let _consumer = db.change_consumer("c", 1 << 30).unwrap();
    fill(&db);
    db.checkpoint(dir.path().join("copy")).unwrap();
    let copy = Db::open(dir.path().join("copy"), settings()).unwrap();
    assert!(copy.change_consumers().is_empty());
}

#[test]
fn bounds_and_names_that_cannot_be_meant_are_refused() {
    let db = open(&disk());
    assert!(matches!(
        db.change_consumer("c", SEGMENT_BYTES - 1),
        Err(Error::InvalidSetting { .. })
    ));
    for name in ["", "a\n", &"x".repeat(256)] {
        let error = db.change_consumer(name, 1 << 30).unwrap_err().to_string();
        assert!(error.contains("cannot be the name"), "{error}");
    }
    let consumer = db.change_consumer("c", 1 << 20).unwrap();
    let error = consumer.acknowledge(1).unwrap_err().to_string();
    assert!(error.contains("no changes from seqno 1 on"), "{error}");
    db.change_consumer("c", 1 << 21).unwrap();
    assert_eq!(db.change_consumers()[0].bound_bytes, 1 << 21);
}

/// Opened without the log in files, flushed logs are not kept. The consumer gets an error.
#[test]
fn writes_that_were_not_logged_are_never_left_out_in_silence() {
    let disk = disk();
    let db = open(&disk);
    drop(db.change_consumer("c", 1 << 30).unwrap());
    fill(&db);
    db.close().unwrap();
    let db = open_as(&disk, settings().log(esker_lsm::Log::None)).unwrap();
    fill(&db);
    db.close().unwrap();
    let db = open(&disk);
    fill(&db);
    let mut consumer = db.open_change_consumer("c").unwrap();
    assert_eq!(oldest_in(&consumer.try_next().unwrap_err()), 21);
}

/// A damaged kept log holds nothing that tables do not have: the database opens, and only readers of it fail.
#[test]
fn damage_of_a_kept_log_is_found_named_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    let consumer = db.change_consumer("c", 1 << 30).unwrap();
    (0..3).for_each(|_| fill(&db));
    drop(consumer);
    db.close().unwrap();
    let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "log");
    let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> = files.filter(is_log).collect();
    logs.sort();
    let inspector = || esker_lsm::inspect::Inspector::open(dir.path(), None).unwrap();
    assert_eq!(inspector().check(&mut |problem| panic!("{problem}")).unwrap().problems, 0);
    let mut bytes = std::fs::read(&logs[1]).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(&logs[1], bytes).unwrap();
    let name = logs[1].file_name().unwrap().to_str().unwrap();

    let mut problems = Vec::new();
    inspector().check(&mut |problem| problems.push(problem.to_string())).unwrap();
    assert!(problems.len() == 1 && problems[0].contains(name), "{problems:?}");
    let db = Db::open(dir.path(), settings()).unwrap();
    let mut consumer = db.open_change_consumer("c").unwrap();
    let error = loop {
        match consumer.try_next() {
            Ok(event) => assert!(event.unwrap().seqno() <= 20),
            Err(error) => break error,
        }
    };
    assert!(error.is_corruption() && error.to_string().contains(name), "{error}");
    drop(consumer);
    db.close().unwrap();

    let repaired = inspector().repair(esker_lsm::inspect::MissingLogPolicy::Refuse).unwrap();
    assert_eq!(repaired.cut_logs.len(), 1, "{repaired:?}");
    assert_eq!(inspector().check(&mut |problem| panic!("{problem}")).unwrap().problems, 0);
    let db = Db::open(dir.path(), settings()).unwrap();
    let mut consumer = db.open_change_consumer("c").unwrap();
    assert_eq!(oldest_in(&consumer.try_next().unwrap_err()), 21);
}
