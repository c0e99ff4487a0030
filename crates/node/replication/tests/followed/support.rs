//! A primary and a follower in temporary directories.

use esker_lsm::{Db, Log, Settings, SyncPolicy};
use esker_replication::{Follower, FollowerSettings, Primary, PrimarySettings, ReplicationError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whatever is waited for comes sooner, also on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Small segments, so that there are many.
pub fn settings() -> Settings {
    Settings::default()
        .segment_bytes(64 << 10)
        .memory_bytes(16 << 20)
        .log(Log::File { dir: None, sync: SyncPolicy::Os })
}

pub fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Where a primary and its followers are.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn db(&self) -> Db {
        Db::open(self.dir("primary"), settings()).unwrap()
    }
}

pub fn serve(db: &Db) -> Primary {
    let settings = PrimarySettings::new(any()).bound_bytes(64 << 20);
    Primary::start(db.clone(), settings).unwrap()
}

/// A follower that tries again at once.
pub fn follow(dir: &Path, primary: SocketAddr) -> Follower {
    Follower::start(dir, follower(primary)).unwrap()
}

pub fn follower(primary: SocketAddr) -> FollowerSettings {
    FollowerSettings::new(primary, "a").database(settings()).retry(Duration::from_millis(1))
}

pub fn named(name: &str, primary: SocketAddr) -> FollowerSettings {
    let mut settings = follower(primary);
    name.clone_into(&mut settings.name);
    settings
}

pub fn last(db: &Db) -> u64 {
    db.snapshot().seqno()
}

/// Waits until the follower has all writes of `db`.
#[track_caller]
pub fn catch_up(follower: &Follower, db: &Db) {
    let last = last(db);
    assert!(follower.wait_for(last, PATIENCE), "{last}: {:?}", follower.stats());
}

/// Waits for an error of the follower that is so. Others may come before it, for example of a connection that was lost.
#[track_caller]
pub fn expect_error(follower: &Follower, is_so: impl Fn(&ReplicationError) -> bool) {
    let found = follower.wait(PATIENCE, |stats| stats.error.as_ref().is_some_and(&is_so));
    assert!(found, "{:?}", follower.stats());
}

/// All entries, by keyspace.
pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// All keyspaces with all that is in them.
pub fn contents(db: &Db) -> Contents {
    try_contents(db).unwrap()
}

/// Fails if a keyspace is dropped meanwhile, or the database is closed.
fn try_contents(db: &Db) -> esker_base::Result<Contents> {
    let all = db.keyspaces().into_iter().map(|info| {
        let keyspace = db.open_keyspace(&info.name)?;
        let entries = db.iter(&keyspace).map(|entry| {
            let (key, value) = entry?;
            Ok((key.to_vec(), value.to_vec()))
        });
        Ok((info.name, entries.collect::<esker_base::Result<_>>()?))
    });
    all.collect()
}

/// Waits until the follower has what `db` has, keyspaces included.
#[track_caller]
pub fn expect_same(follower: &Follower, db: &Db) {
    catch_up(follower, db);
    let expected = contents(db);
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        // A base may replace it meanwhile, and a keyspace may be dropped from it.
        let found = follower.db().and_then(|copy| Some((last(&copy), try_contents(&copy).ok()?)));
        if found.as_ref().is_some_and(|(seqno, found)| *seqno == last(db) && *found == expected) {
            return;
        }
        let is_late = std::time::Instant::now() > until;
        assert!(!is_late, "{expected:?} and {found:?}: {:?}", follower.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}
