//! Followers of a database that is replaced by a backup of it.

use crate::small;
use esker_backup::{PointInTime, Repository};
use esker_lsm::Db;
use std::path::Path;

fn put(db: &Db, value: &str) {
    db.default_keyspace().put("a", value).unwrap();
}

#[track_caller]
fn expect(db: &Db, value: &str) {
    let found = db.default_keyspace().get("a").unwrap();
    assert_eq!(found.as_deref(), Some(value.as_bytes()));
}

/// A follower of a database with two backups, and one point in time after them.
#[test]
fn a_restored_database_in_the_place_of_the_original_is_followed_from_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Db::open(path("db"), small()).unwrap();
    let repository = Repository::create(path("repository")).unwrap();
    let mut points = Vec::new();
    for value in ["first", "second", "third"] {
        put(&db, value);
        db.sync().unwrap();
        points.push(repository.ship(&db, 1 << 30).unwrap().seqno);
        if value != "third" {
            repository.back_up(&db).unwrap();
        }
    }
    let newest = repository.backups().unwrap().last().unwrap().number;
    put(&db, "a mistake");
    let follower = Db::open_follower(path("db"), small(), None).unwrap();
    let (keyspace, before) = (follower.default_keyspace(), follower.snapshot());
    db.close().unwrap();
    let restored = |name: &str, restore: &dyn Fn(&Path)| {
        restore(&path(name));
        std::fs::rename(path("db"), path(&format!("before {name}"))).unwrap();
        std::fs::rename(path(name), path("db")).unwrap();
        assert!(follower.catch_up().unwrap().began_anew, "{name}");
    };
    restored("one", &|to| _ = repository.restore(Some(newest), to).unwrap());
    expect(&follower, "second");
    restored("two", &|to| {
        _ = repository.restore_to(PointInTime::Seqno(points[2]), to).unwrap();
    });
    expect(&follower, "third");
    restored("three", &|to| {
        _ = repository.restore_to(PointInTime::Seqno(points[0]), to).unwrap();
    });
    expect(&follower, "first");
    assert_eq!(follower.follower_stats().unwrap().new_beginnings, 3);
    // It goes on with what is written to the restored database.
    let db = Db::open(path("db"), small()).unwrap();
    put(&db, "later");
    follower.catch_up().unwrap();
    expect(&follower, "later");
    assert_eq!(before.get(&keyspace, "a").unwrap().as_deref(), Some(&b"a mistake"[..]));
}
