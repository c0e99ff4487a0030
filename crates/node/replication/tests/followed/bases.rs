//! A base that replaces a copy which is there.

use crate::damage::{greet, send};
use crate::following::copy_files;
use crate::support::{
    PATIENCE, Place, catch_up, contents, expect_error, expect_same, follow, follower, last, serve,
    settings,
};
use esker_lsm::Db;
use esker_replication::{Follower, Message, ReplicationError};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// The primary is lost halfway through a base, and the follower takes its place with the copy that it had.
#[test]
fn a_copy_is_read_and_promoted_while_a_base_arrives() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let reports = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&reports, &db);
    drop((reports, primary));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = follower(listener.local_addr().unwrap()).retry(Duration::from_secs(600));
    let reports = Follower::start(place.dir("copy"), settings).unwrap();
    let (socket, _) = listener.accept().unwrap();
    let origin = greet(&socket);
    let base = Message::Base { origin, files: 3, bytes: 100 };
    let table = Message::File { name: "00000001.tables".into(), bytes: 90 };
    send(&socket, &[base, table, Message::Data(vec![0; 50])]);
    let staged = place.dir("copy").join("BASE.00000001.tables");
    let until = Instant::now() + PATIENCE;
    while !staged.exists() {
        assert!(Instant::now() < until, "{:?}", reports.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(reports.stats().is_in_base);
    assert_eq!(contents(&reports.db().unwrap()), contents(&db));
    drop(socket);
    assert!(reports.wait(PATIENCE, |stats| stats.error.is_some()));
    assert_eq!(contents(&reports.db().unwrap()), contents(&db));
    let promoted = reports.promote().unwrap();
    assert_eq!(contents(&promoted), contents(&db));
    assert!(!staged.exists());
}

/// Changes a byte in the first table that is in `dir`.
fn damage_a_table(dir: &Path) {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let table = names.filter(|path| path.extension().is_some_and(|it| it == "tables")).min();
    let table = table.unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[300] ^= 1;
    // Another directory may have a link of it.
    std::fs::remove_file(&table).unwrap();
    std::fs::write(&table, bytes).unwrap();
}

#[test]
fn a_table_with_damage_is_not_sent_and_the_copy_stays() {
    let place = Place::new();
    let db = place.db();
    (0..100_u8).for_each(|key| db.default_keyspace().put([key], [key; 100]).unwrap());
    let primary = serve(&db);
    let reports = follow(&place.dir("copy"), primary.address());
    catch_up(&reports, &db);
    drop((reports, primary));
    // Another database, so that the follower needs a base.
    db.checkpoint(place.dir("restored")).unwrap();
    damage_a_table(&place.dir("restored"));
    let restored = Db::open(place.dir("restored"), settings()).unwrap();
    let primary = serve(&restored);
    let reports = follow(&place.dir("copy"), primary.address());
    let is_refused = |error: &ReplicationError| match error {
        ReplicationError::Refused { why, .. } => why.contains(".tables"),
        _ => false,
    };
    expect_error(&reports, is_refused);
    assert_eq!(reports.stats().bases, 0);
    assert_eq!(contents(&reports.db().unwrap()), contents(&db));
    drop(primary);
    let primary = serve(&db);
    drop(reports);
    let reports = follow(&place.dir("copy"), primary.address());
    expect_same(&reports, &db);
    assert_eq!(reports.stats().bases, 0, "nothing of the copy was lost");
}

/// Bytes that hardly compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[test]
fn bytes_of_a_base_are_counted_once() {
    let place = Place::new();
    let db = place.db();
    let value = noise(10_000);
    (0..100_u8).for_each(|key| db.default_keyspace().put([key], &value).unwrap());
    let value: Vec<u8> = value.into_iter().rev().collect();
    (100..200_u8).for_each(|key| db.default_keyspace().put([key], &value).unwrap());
    db.flush().unwrap();
    let files = db.live_files().unwrap();
    let bytes = |name: &String| files.open(name).unwrap().len().unwrap();
    let bytes: u64 = files.tables().iter().map(bytes).sum();
    let primary = serve(&db);
    let reports = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&reports, &db);
    let stats = reports.stats();
    if stats.connections == 1 {
        assert!((bytes..bytes * 3 / 2).contains(&stats.bytes), "{bytes}: {stats:?}");
    }
}

/// Cuts the last log in `dir` after its first writes, as damage that a repair or an open drops.
fn lose_writes(dir: &Path) {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    for log in names.filter(|path| path.extension().is_some_and(|it| it == "log")) {
        let mut bytes = std::fs::read(&log).unwrap();
        bytes.iter_mut().skip(300).for_each(|byte| *byte = 0);
        std::fs::write(&log, bytes).unwrap();
    }
}

#[test]
fn a_primary_that_lost_noted_writes_makes_its_follower_begin_anew() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let reports = follow(&place.dir("copy"), primary.address());
    // What comes after the base is in the log only.
    assert!(reports.wait(PATIENCE, |stats| stats.bases == 1 && !stats.is_in_base));
    (0..50_u8).for_each(|key| db.default_keyspace().put([key], [key; 50]).unwrap());
    catch_up(&reports, &db);
    let until = Instant::now() + PATIENCE;
    while db.change_consumers()[0].acknowledged < last(&db) {
        assert!(Instant::now() < until, "{:?}", db.change_consumers());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop((reports, primary));
    copy_files(&place.dir("primary"), &place.dir("damaged"));
    lose_writes(&place.dir("damaged"));
    let damaged = Db::open(place.dir("damaged"), settings()).unwrap();
    assert!(last(&damaged) < last(&db), "{} and {}", last(&damaged), last(&db));
    let primary = serve(&damaged);
    let reports = follow(&place.dir("copy"), primary.address());
    expect_same(&reports, &damaged);
    assert_eq!(reports.stats().bases, 1);
    damaged.default_keyspace().put("later", "1").unwrap();
    expect_same(&reports, &damaged);
}
