//! What arrives at a follower.

use crate::support::{
    PATIENCE, Place, any, catch_up, contents, expect_same, follow, follower, last, serve, settings,
};
use esker_base::{ChangesError, Error};
use esker_lsm::{Db, KeyspaceSettings};
use esker_replication::{Follower, Primary, PrimarySettings, ReplicationError};
use std::io::Read;
use std::time::Duration;

/// A follower that has got all files, and gets what is written from then on.
fn with_all_files(place: &Place, primary: &Primary) -> Follower {
    let follower = follow(&place.dir("copy"), primary.address());
    assert!(follower.wait(PATIENCE, |stats| stats.is_connected && stats.bases == 1));
    follower
}

#[test]
fn a_follower_has_what_was_there_and_what_is_written() {
    let place = Place::new();
    let db = place.db();
    db.default_keyspace().put("before", "1").unwrap();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    catch_up(&follower, &db);
    db.default_keyspace().put("after", "2").unwrap();
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 1);
    assert_eq!(last(&follower.db().unwrap()), last(&db), "seqnos are those of the primary");
}

#[test]
fn all_kinds_of_writes_arrive() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = with_all_files(&place, &primary);
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).unwrap();
    let gone = db.keyspace("gone", KeyspaceSettings::default()).unwrap();
    for key in 0..100_u8 {
        users.put([key], [key; 100]).unwrap();
        gone.put([key], [key]).unwrap();
    }
    users.delete([7]).unwrap();
    users.delete_range([20]..[30]).unwrap();
    users.put_with_ttl("short", "1", Duration::from_millis(1)).unwrap();
    users.put_with_ttl("long", "1", Duration::from_secs(36_000)).unwrap();
    users.put("", "the empty key").unwrap();
    (0..10).for_each(|_| sums.merge("n", 2_i64.to_le_bytes()).unwrap());
    db.drop_keyspace(&gone).unwrap();
    let again = db.keyspace("gone", KeyspaceSettings::default()).unwrap();
    again.put("anew", "1").unwrap();
    let mut large = db.batch();
    (0..200_u32).for_each(|key| large.put(&users, key.to_be_bytes(), [3; 2_000]));
    db.write(&large).unwrap();
    users.put("last", "1").unwrap();
    // It expires at the follower when it does here: then both show the same.
    while users.get("short").unwrap().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 1, "nothing of it needs a base");
    let copy = follower.db().unwrap();
    assert_eq!(
        copy.get(&copy.open_keyspace("sums").unwrap(), "n").unwrap().as_deref(),
        Some(&20_i64.to_le_bytes()[..])
    );
    assert_eq!(copy.get(&copy.open_keyspace("users").unwrap(), "short").unwrap(), None);
}

#[test]
fn entries_of_an_ingest_arrive() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = with_all_files(&place, &primary);
    let keyspace = db.default_keyspace();
    keyspace.put("a", "1").unwrap();
    db.ingest(&keyspace, (0..500_u32).map(|key| (key.to_be_bytes(), [1; 50]))).unwrap();
    keyspace.put("b", "2").unwrap();
    expect_same(&follower, &db);
}

#[test]
fn large_values_arrive() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = with_all_files(&place, &primary);
    let keyspace = db.default_keyspace();
    keyspace.put("a", "1").unwrap();
    let bytes = crate::support::settings().max_entry_bytes() as u64 + 1_000_000;
    keyspace.put_reader("large", std::io::repeat(7).take(bytes)).unwrap();
    keyspace.put("b", "2").unwrap();
    expect_same(&follower, &db);
}

#[test]
fn nothing_else_changes_a_follower() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    let copy = follower.db().unwrap();
    let keyspace = copy.default_keyspace();
    let is_refused = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("follows another database"), "{error}");
    };
    is_refused(keyspace.put("b", "2"));
    is_refused(copy.keyspace("new", KeyspaceSettings::default()).map(drop));
    is_refused(copy.ingest(&keyspace, [("b", "2")]).map(drop));
    is_refused(copy.put_reader(&keyspace, "b", std::io::repeat(1).take(100 << 20)).map(drop));
    is_refused(copy.transact(|tx| tx.put(&keyspace, "b", "2")));
    is_refused(keyspace.set_ttl(Some(Duration::from_secs(60))));
    is_refused(copy.set(&"default.compression=zstd".parse().unwrap()));
    is_refused(keyspace.index("by", |_, value, keys| keys.add(value)).map(drop));
    is_refused(copy.lineage().map(drop));
    // What changes nothing that is read may be done.
    copy.flush().unwrap();
    copy.compact().unwrap();
    copy.sync().unwrap();
    db.default_keyspace().put("c", "3").unwrap();
    expect_same(&follower, &db);
}

#[test]
fn a_directory_of_a_follower_is_opened_for_reading_only() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    follower.stop();
    let error = Db::open(place.dir("copy"), settings()).unwrap_err();
    assert!(matches!(&error, Error::Changes(it) if matches!(**it, ChangesError::Follows { .. })));
    let reader = Db::open_read_only(place.dir("copy"), settings()).unwrap();
    assert_eq!(contents(&reader), contents(&db));
}

#[test]
fn a_directory_with_something_else_is_left_alone() {
    let place = Place::new();
    let other = place.dir("other");
    drop(Db::open(&other, settings()).unwrap());
    let error = Follower::start(&other, follower(any())).unwrap_err();
    assert!(error.to_string().contains("follows no other database"), "{error}");
    let files = place.dir("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("notes"), "").unwrap();
    let error = Follower::start(&files, follower(any())).unwrap_err();
    assert!(error.to_string().contains("holds other files"), "{error}");
    drop(Db::open(&other, settings()).unwrap());
}

#[test]
fn both_sides_restart_and_go_on_without_a_base() {
    let place = Place::new();
    let mut db = place.db();
    for round in 0..4_u8 {
        let primary = serve(&db);
        let follower = follow(&place.dir("copy"), primary.address());
        db.default_keyspace().put([round], [round]).unwrap();
        expect_same(&follower, &db);
        assert_eq!(follower.stats().bases, u64::from(round == 0), "round {round}");
        drop(follower);
        // It is not connected.
        (0..200_u8).for_each(|key| db.default_keyspace().put([round, key], [1; 1_000]).unwrap());
        drop(primary);
        db.close().unwrap();
        db = place.db();
    }
}

#[test]
fn a_follower_that_falls_behind_its_bound_begins_anew() {
    let place = Place::new();
    let db = place.db();
    let settings = PrimarySettings::new(any()).bound_bytes(64 << 10);
    let primary = Primary::start(db.clone(), settings.clone()).unwrap();
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    drop(follower);
    for key in 0..200_u8 {
        db.default_keyspace().put([key], [1; 4_000]).unwrap();
    }
    db.flush().unwrap();
    let info = &db.change_consumers()[0];
    assert!(
        info.name == "follower a" && info.fell_behind && info.kept_bytes <= 64 << 10,
        "{info:?}"
    );
    let follower = follow(&place.dir("copy"), primary.address());
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 1);
}

#[test]
fn a_primary_that_was_restored_makes_its_follower_begin_anew() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    drop((follower, primary));
    db.checkpoint(place.dir("restored")).unwrap();
    db.close().unwrap();
    let restored = Db::open(place.dir("restored"), settings()).unwrap();
    restored.default_keyspace().put("b", "2").unwrap();
    let primary = serve(&restored);
    let follower = follow(&place.dir("copy"), primary.address());
    expect_same(&follower, &restored);
    assert_eq!(follower.stats().bases, 1);
}

/// A copy of the files is put back, and goes on with other writes of the same seqnos.
#[test]
fn a_primary_that_was_put_back_makes_its_follower_begin_anew() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    drop((follower, primary));
    db.close().unwrap();
    let (dir, saved) = (place.dir("primary"), place.dir("saved"));
    copy_files(&dir, &saved);
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("lost", "2").unwrap();
    catch_up(&follower, &db);
    drop((follower, primary));
    db.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    copy_files(&saved, &dir);
    let db = place.db();
    // No follower is served by this open.
    db.default_keyspace().put("other", "2").unwrap();
    db.default_keyspace().put("more", "3").unwrap();
    db.close().unwrap();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 1);
}

pub fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn both_sides_say_how_far_a_follower_is() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    let last = last(&db);
    assert!(follower.wait(PATIENCE, |it| it.applied == last && it.primary == last));
    let stats = follower.stats();
    assert!(stats.is_connected && stats.behind == 0 && stats.bytes > 0, "{stats:?}");
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let followers = primary.followers();
        if let [info] = &followers[..]
            && (info.name == "a" && info.applied == last && info.behind == 0)
        {
            break;
        }
        assert!(std::time::Instant::now() < until, "{followers:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(primary);
    assert!(follower.wait(PATIENCE, |it| !it.is_connected && it.error.is_some()));
}

#[test]
fn a_primary_is_no_follower_and_not_read_only() {
    let place = Place::new();
    let db = place.db();
    let reader = Db::open_read_only(place.dir("primary"), settings()).unwrap();
    let refused = Primary::start(reader, PrimarySettings::new(any()));
    assert!(matches!(refused, Err(ReplicationError::Database(Error::ReadOnly))));
    drop(db);
}

#[test]
fn changed_settings_of_keyspaces_arrive() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    db.set(&"users.compression=zstd".parse().unwrap()).unwrap();
    users.set_ttl(Some(Duration::from_secs(3_600))).unwrap();
    let has_them = || {
        let found = follower.db()?.open_keyspace("users").ok()?.settings().ok()?;
        (found == users.settings().unwrap()).then_some(())
    };
    let until = std::time::Instant::now() + PATIENCE;
    while has_them().is_none() {
        assert!(std::time::Instant::now() < until, "{:?}", follower.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
    users.set_ttl(None).unwrap();
    while has_them().is_none() {
        assert!(std::time::Instant::now() < until, "{:?}", follower.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(follower.stats().bases, 1);
}

#[test]
fn a_dropped_index_does_not_come_back_by_a_promotion() {
    let place = Place::new();
    let db = place.db();
    let users = db.default_keyspace();
    users.put("ada", "1815").unwrap();
    for name in ["kept", "dropped"] {
        let index = users.index(name, |_, value, keys| keys.add(value)).unwrap();
        index.wait_ready().unwrap();
    }
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    catch_up(&follower, &db);
    users.drop_index("dropped").unwrap();
    users.put("grace", "1906").unwrap();
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 1);
    let promoted = follower.promote().unwrap();
    let users = promoted.default_keyspace();
    let names: Vec<_> = users.indexes().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["kept"]);
    let kept = users.index("kept", |_, value, keys| keys.add(value)).unwrap();
    kept.wait_ready().unwrap();
    assert_eq!(kept.get("1906").count(), 1, "its entries arrived, too");
}

/// A power loss of the primary may take other writes back, and give their seqnos to others.
#[test]
fn only_durable_frames_are_sent() {
    let place = Place::new();
    let db = place.db();
    db.default_keyspace().put("a", "1").unwrap();
    let mut pieces = db.log_pieces(1).unwrap();
    assert!(pieces.try_next().unwrap().is_none());
    db.sync().unwrap();
    assert_eq!(pieces.try_next().unwrap().map(|piece| piece.last_seqno), Some(1));
}
