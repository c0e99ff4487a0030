//! A primary with encrypted files.

use crate::support::{
    Place, contents, expect_error, expect_same, follow, follower, last, serve, settings,
};
use esker_base::EncryptionError;
use esker_encryption::{Key, Keys};
use esker_lsm::{Db, Settings};
use esker_replication::{Follower, ReplicationError};
use esker_storage::Encryption;
use std::path::Path;

const NEEDLE: &[u8] = b"nobody but the owner of a key reads this";

fn with_key(key: u8) -> Settings {
    let encryption: Encryption = Keys::new([Key::new([key; 32])]).unwrap().into();
    settings().encryption(encryption)
}

fn encrypted_follower(dir: &Path, key: u8, primary: std::net::SocketAddr) -> Follower {
    Follower::start(dir, follower(primary).database(with_key(key))).unwrap()
}

/// Names of files in `dir` with the needle in them.
fn readable(dir: &Path) -> Vec<String> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let has_needle = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(NEEDLE.len()).any(|window| window == NEEDLE)
    };
    paths.filter(has_needle).map(|path| path.display().to_string()).collect()
}

#[test]
fn a_follower_with_a_key_of_its_own_gets_tables_and_log_and_is_promoted() {
    let place = Place::new();
    let db = Db::open(place.dir("primary"), with_key(1)).unwrap();
    let users = db.keyspace("users", Default::default()).unwrap();
    users.put("in a table", NEEDLE).unwrap();
    db.flush().unwrap();
    let primary = serve(&db);
    let copy = place.dir("copy");
    let reports = encrypted_follower(&copy, 2, primary.address());
    expect_same(&reports, &db);
    users.put("in the log", NEEDLE).unwrap();
    db.keyspace("later", Default::default()).unwrap().put("key", NEEDLE).unwrap();
    expect_same(&reports, &db);
    drop(reports);
    // It goes on where it was.
    let reports = encrypted_follower(&copy, 2, primary.address());
    users.put("after a restart", NEEDLE).unwrap();
    expect_same(&reports, &db);
    assert_eq!(reports.stats().bases, 0);
    let (expected, seqno) = (contents(&db), last(&db));
    drop(primary);
    let promoted = reports.promote().unwrap();
    assert_eq!((contents(&promoted), last(&promoted)), (expected, seqno));
    promoted.close().unwrap();
    db.close().unwrap();
    assert_eq!(readable(&copy), [] as [String; 0]);
    assert_eq!(readable(&place.dir("primary")), [] as [String; 0]);
    // The follower's files have its own key alone.
    assert!(Db::open(&copy, with_key(1)).is_err());
    Db::open(&copy, with_key(2)).unwrap();
}

#[test]
fn a_follower_without_a_key_gets_nothing() {
    let place = Place::new();
    let db = Db::open(place.dir("primary"), with_key(1)).unwrap();
    db.default_keyspace().put("key", NEEDLE).unwrap();
    let primary = serve(&db);
    let reports = follow(&place.dir("copy"), primary.address());
    let exposes = EncryptionError::Exposed {
        what: "a follower",
        target: "its directory".into(),
        instead: "give the follower a key, too",
    };
    let exposes = exposes.to_string();
    expect_error(&reports, |error| match error {
        ReplicationError::Refused { why, .. } => *why == exposes,
        _ => false,
    });
    assert!(reports.db().is_none() && reports.stats().bases == 0);
}
