//! A follower that takes the place of its primary.

use crate::support::{
    PATIENCE, Place, any, catch_up, contents, follow, follower, last, named, serve, settings,
};
use esker_base::{ChangesError, Error};
use esker_lsm::Db;
use esker_replication::{Follower, ReplicationError};
use esker_storage::PosixStorage;

#[test]
fn a_promoted_follower_is_written_to_and_follows_nothing() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let copy = place.dir("copy");
    let reports = follow(&copy, primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&reports, &db);
    let promoted = reports.promote().unwrap();
    assert_eq!((contents(&promoted), last(&promoted)), (contents(&db), last(&db)));
    promoted.default_keyspace().put("b", "2").unwrap();
    promoted.close().unwrap();
    let error = Follower::start(&copy, follower(primary.address())).unwrap_err();
    let ReplicationError::Database(Error::Changes(error)) = error else { panic!("{error}") };
    assert!(matches!(*error, ChangesError::NoCopy { .. }));
    let again = Db::open(&copy, settings()).unwrap();
    assert_eq!(again.default_keyspace().get("b").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_promoted_follower_has_followers_of_its_own() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let (first, second) = (place.dir("first"), place.dir("second"));
    let reports = follow(&first, primary.address());
    let other = Follower::start(&second, named("b", primary.address())).unwrap();
    assert!(other.wait(PATIENCE, |stats| stats.bases == 1));
    db.default_keyspace().put("a", "1").unwrap();
    drop(other);
    catch_up(&reports, &db);
    drop(primary);
    let promoted = reports.promote().unwrap();
    promoted.default_keyspace().put("b", "2").unwrap();
    let primary = serve(&promoted);
    let other = Follower::start(&second, named("b", primary.address())).unwrap();
    crate::support::expect_same(&other, &promoted);
    assert_eq!(other.stats().bases, 1, "it followed another database");
}

#[test]
fn a_follower_without_a_whole_base_is_not_promoted() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let copy = place.dir("copy");
    let refused = |what: &str| {
        let error = esker_lsm::promote(&PosixStorage::open(&copy).unwrap()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    std::fs::create_dir(&copy).unwrap();
    refused("follows no other database");
    let reports = follow(&copy, primary.address());
    assert!(reports.wait(PATIENCE, |stats| stats.bases == 1));
    refused("is in use by");
    drop(reports);
    std::fs::remove_file(copy.join("CURRENT")).unwrap();
    refused("not complete");
    // It begins anew.
    let reports = follow(&copy, primary.address());
    crate::support::expect_same(&reports, &db);
    let _ = any();
}
