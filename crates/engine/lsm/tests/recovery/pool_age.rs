//! A directory that is older than the logs it is opened with: what was written since must not be freed.

use crate::killed;
use crate::pool_place::{POOL_BYTES, Place, assert_all, put_all};
use esker_base::Error;
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use esker_pmem::{Accept, Pool};

/// A database with writes in its pool, and its directory as it was before them.
fn older_and_newer() -> (tempfile::TempDir, Place) {
    let place = Place::new();
    let db = place.open().unwrap();
    put_all(&db, 0..100);
    db.close().unwrap();
    let older = place.copy_dir();
    let db = place.open().unwrap();
    put_all(&db, 100..200);
    let newer = place.after_kill(db);
    (older, newer)
}

#[test]
fn an_older_copy_of_the_directory_frees_nothing_in_the_pool() {
    let (older, newer) = older_and_newer();
    let used = || Pool::open_read_only(newer.pool(), Accept::Emulated).unwrap().used();
    let before = used();
    for open in [Db::open, Db::open_read_only] {
        let refused = open(older.path(), newer.settings()).err().unwrap();
        assert!(matches!(refused, Error::PoolRefused { .. }), "{refused}");
        assert!(refused.to_string().contains("older copy"), "{refused}");
    }
    let inspector = Inspector::open_with_pool(older.path(), &newer.pool(), true).unwrap();
    let refused = inspector.repair(MissingLogPolicy::GiveUp).unwrap_err();
    assert!(refused.to_string().contains("older copy"), "{refused}");
    let mut reported = Vec::new();
    inspector.check(&mut |error| reported.push(error.to_string())).unwrap();
    assert!(reported.iter().any(|error| error.contains("older copy")), "{reported:?}");
    assert_eq!(used(), before);
    assert_all(&newer.open().unwrap(), 0..200);
}

/// As the refusal says.
#[test]
fn an_older_copy_goes_on_without_the_pool() {
    let (older, newer) = older_and_newer();
    let inspector = Inspector::open(older.path(), None).unwrap();
    inspector.repair(MissingLogPolicy::GiveUp).unwrap();
    let fresh = newer.memory.path().join("fresh");
    drop(Pool::create(&fresh, POOL_BYTES, Accept::Emulated).unwrap());
    let log = Log::Pmem { pool: fresh, emulated: true };
    let db = Db::open(older.path(), newer.settings().log(log)).unwrap();
    assert_all(&db, 0..100);
}

#[test]
fn an_older_copy_of_the_directory_removes_nothing_from_its_log_directory() {
    let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = Log::File { dir: Some(logs.path().to_owned()), sync: SyncPolicy::Always };
    let settings = Settings::default().log(log).segment_bytes(256 << 10).memory_bytes(8 << 20);
    let older = Place::new();
    Db::open(older.dir(), settings.clone()).unwrap().close().unwrap();
    killed::copy_files(older.dir(), dir.path());
    let db = Db::open(dir.path(), settings.clone()).unwrap();
    put_all(&db, 0..10);
    // The logs as a killed process leaves them.
    let left = tempfile::tempdir().unwrap();
    killed::rest(&db);
    killed::copy_files(logs.path(), left.path());
    db.close().unwrap();
    let names = || {
        let names = std::fs::read_dir(left.path()).unwrap().map(|file| file.unwrap().file_name());
        let mut names: Vec<_> =
            names.filter(|name| name.to_string_lossy().ends_with(".log")).collect();
        names.sort();
        names
    };
    let before = names();
    let log = Log::File { dir: Some(left.path().to_owned()), sync: SyncPolicy::Always };
    let refused = Db::open(older.dir(), settings.log(log)).err().unwrap();
    assert!(refused.to_string().contains("older copy"), "{refused}");
    assert_eq!(names(), before);
}
