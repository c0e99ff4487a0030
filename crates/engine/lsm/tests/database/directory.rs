//! The files of a database: who may have them, what a close, a kill and a checkpoint leave, and what is not ours.

use crate::killed;
use crate::support::{key, open, pairs, small};
use esker_lsm::{Db, Log, SyncPolicy};

#[test]
fn a_database_that_was_never_closed_is_recovered_from_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..3_000 {
        db.put(&keyspace, key(n), b"value").unwrap();
    }
    db.delete_range(&keyspace, key(100)..key(200)).unwrap();
    killed::rest(&db);
    killed::copy_files(dir.path(), copy.path());
    let recovered = open(copy.path());
    assert_eq!(pairs(&recovered), pairs(&db));
    assert_eq!(pairs(&db).len(), 2_900);
}

#[test]
fn a_checkpoint_is_a_database_of_that_moment() {
    let dir = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..4_000 {
        db.put(&keyspace, key(n), b"v").unwrap();
    }
    let before = pairs(&db);
    db.checkpoint(target.path()).unwrap();
    db.delete_range(&keyspace, key(0)..key(9_999)).unwrap();
    db.compact().unwrap();
    assert_eq!(pairs(&open(target.path())), before);
    assert!(db.checkpoint(target.path()).is_err(), "the target holds a database now");
}

#[test]
fn a_reader_sees_what_a_live_writer_has_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..6_000 {
        db.put(&keyspace, key(n), b"v").unwrap();
    }
    let reader = Db::open_read_only(dir.path(), small()).unwrap();
    assert_eq!(pairs(&reader), pairs(&db));
    assert!(matches!(reader.put(&keyspace, b"k", b"v"), Err(esker_base::Error::ReadOnly)));
    assert!(matches!(Db::open(dir.path(), small()), Err(esker_base::Error::Locked { .. })));
}

#[test]
fn every_sync_mode_and_no_log_at_all_keep_what_was_closed() {
    let every = SyncPolicy::Every(std::time::Duration::from_millis(5));
    let logs =
        [SyncPolicy::Always, every, SyncPolicy::Os].map(|sync| Log::File { dir: None, sync });
    for log in logs.into_iter().chain([Log::None]) {
        let dir = tempfile::tempdir().unwrap();
        let settings = small().log(log);
        let db = Db::open(dir.path(), settings.clone()).unwrap();
        for n in 0..2_000 {
            db.put(&db.default_keyspace(), key(n), b"v").unwrap();
        }
        db.sync().unwrap();
        db.close().unwrap();
        assert_eq!(pairs(&Db::open(dir.path(), settings).unwrap()).len(), 2_000);
    }
}

#[test]
fn a_directory_that_is_not_ours_is_left_alone() {
    use esker_base::Error;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
    assert!(matches!(Db::open(dir.path(), small()), Err(Error::NotADatabase { .. })));
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.txt"]);
    let missing = dir.path().join("missing");
    assert!(matches!(Db::open_existing(&missing, small()), Err(Error::NotADatabase { .. })));
    assert!(!missing.exists());
}

#[test]
fn a_damaged_last_edit_that_listed_a_log_in_use_is_reported_and_nothing_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    db.put(&db.default_keyspace(), b"k", b"v").unwrap();
    killed::rest(&db);
    killed::copy_files(dir.path(), copy.path());
    let manifest = std::fs::read_dir(copy.path())
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "manifest"))
        .unwrap();
    let whole = std::fs::read(&manifest).unwrap();
    // Cut the manifest down to its snapshot and a few bytes: all later edits are gone.
    let snapshot = 32 + 8 + u32::from_le_bytes(whole[32..36].try_into().unwrap()) as usize;
    let mut damaged = whole[..(snapshot + 20).min(whole.len())].to_vec();
    damaged[snapshot + 9] ^= 1;
    std::fs::write(&manifest, &damaged).unwrap();
    let error = Db::open(copy.path(), small()).err().unwrap();
    assert!(error.is_corruption() && error.to_string().contains("manifest"), "{error}");
    std::fs::write(&manifest, &whole).unwrap();
    assert_eq!(pairs(&open(copy.path())), [(b"k".to_vec(), b"v".to_vec())]);
}

#[test]
fn what_was_acknowledged_while_the_database_closed_is_there() {
    for (round, sync) in
        [SyncPolicy::Os, SyncPolicy::Always].into_iter().cycle().take(12).enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let settings = small().log(Log::File { dir: None, sync });
        let db = Db::open(dir.path(), settings.clone()).unwrap();
        let keyspace = db.default_keyspace();
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let writer = |thread: u64| {
                let (db, keyspace) = (db.clone(), keyspace.clone());
                move || {
                    // Each writer's last state: how many of its keys, and that the first is deleted.
                    let mut written = 0;
                    loop {
                        let prefix = format!("{thread}/");
                        let key = format!("{prefix}{written:06}");
                        let mut batch = db.batch();
                        if written % 10 == 9 {
                            batch.delete_range(&keyspace, &prefix..&key);
                        }
                        batch.put(&keyspace, key.as_bytes(), b"v");
                        match db.write(&batch) {
                            Ok(()) => written += 1,
                            Err(esker_base::Error::Closed) => return written,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            };
            let writers: Vec<_> = (0..8).map(|thread| scope.spawn(writer(thread))).collect();
            while db.stats().writes < 300 + 400 * round as u64 {
                std::thread::yield_now();
            }
            db.clone().close().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        drop(db);
        let db = Db::open(dir.path(), settings).unwrap();
        let keyspace = db.default_keyspace();
        for (thread, written) in acknowledged.into_iter().enumerate() {
            let found: Vec<_> = db
                .prefix(&keyspace, format!("{thread}/").as_bytes())
                .map(|pair| String::from_utf8(pair.unwrap().0.into_vec()).unwrap())
                .collect();
            // A delete goes with every tenth key, of all keys before it.
            let first = if written < 10 { 0 } else { written / 10 * 10 - 1 };
            let expected: Vec<_> = (first..written).map(|n| format!("{thread}/{n:06}")).collect();
            assert_eq!(found, expected, "round {round}, thread {thread}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn log_files_that_are_done_with_are_not_kept_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..40_000 {
        db.put(&keyspace, key(n), [0; 200]).unwrap();
    }
    db.wait_for_compactions().unwrap();
    assert!(db.stats().flushes > 30);
    // As the links of /proc have it.
    let dir = dir.path().canonicalize().unwrap();
    let open_logs = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter(|path| path.starts_with(&dir) && path.to_string_lossy().contains(".log"))
        .count();
    assert!((1..=8).contains(&open_logs), "{open_logs} log files are open");
}

#[test]
fn a_checkpoint_is_no_heir_to_the_original_s_log_directory() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let log = Log::File { dir: Some(logs.clone()), sync: SyncPolicy::Os };
    let settings = small().log(log);
    let db = Db::open(dir.path().join("db"), settings.clone()).unwrap();
    db.put(&db.default_keyspace(), b"k", b"v").unwrap();
    db.checkpoint(dir.path().join("copy")).unwrap();
    db.close().unwrap();
    assert!(Db::open(dir.path().join("copy"), settings).is_err());
    assert!(Db::open(dir.path().join("copy"), small()).is_ok());
}

#[test]
fn a_synced_batch_survives_even_without_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let settings = small().log(Log::None);
    let db = Db::open(dir.path(), settings.clone()).unwrap();
    let mut batch = db.batch();
    batch.put(&db.default_keyspace(), b"k", b"v");
    batch.set_sync(true);
    db.write(&batch).unwrap();
    db.put(&db.default_keyspace(), b"l", b"v").unwrap();
    killed::copy_files(dir.path(), copy.path());
    let db = Db::open(copy.path(), settings).unwrap();
    assert_eq!(pairs(&db), [(b"k".to_vec(), b"v".to_vec())]);
}

/// The files in `dir` that this process has open.
#[cfg(target_os = "linux")]
fn held(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(dir) && target != dir).collect()
}

#[test]
fn a_close_gives_up_everything_whoever_still_has_a_handle() {
    use esker_api::{Cursor, KeyRange};
    use esker_base::Error;
    let dir = tempfile::tempdir().unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    let db = open(dir);
    let keyspace = db.default_keyspace();
    for n in 0..6_000 {
        db.put(&keyspace, key(n), b"v").unwrap();
    }
    let second = Db::open(dir, small()).err().unwrap();
    assert!(matches!(second, Error::Locked { .. }));
    assert!(second.to_string().contains("in use by this process"), "{second}");

    let (other, snapshot) = (db.clone(), db.snapshot());
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    cursor.seek_first().unwrap();
    db.close().unwrap();
    #[cfg(target_os = "linux")]
    assert_eq!(held(dir), [""; 0].map(std::path::PathBuf::from));
    let refused = [
        other.put(&keyspace, b"k", b"v").err(),
        other.get(&keyspace, key(1)).err(),
        other.try_get(&keyspace, key(1)).err(),
        snapshot.get(&keyspace, key(1)).err(),
        other.multi_get(&keyspace, [&key(1)]).err(),
        other.range(&keyspace, ..).next().unwrap().err(),
        // What it has in memory is still read.
        (0..6_000).find_map(|_| cursor.next().err()),
        snapshot.cursor(&keyspace, KeyRange::all()).err(),
        other.open_keyspace("default").err(),
        other.flush().err(),
        other.sync().err(),
        other.compact().err(),
        other.wait_for_compactions().err(),
        other.checkpoint(dir.join("copy")).err(),
    ];
    for (number, error) in refused.into_iter().enumerate() {
        assert!(matches!(error, Some(Error::Closed)), "number {number}: {error:?}");
    }
    assert!(!dir.join("copy").exists());
    assert_eq!((other.levels().len(), other.stats().tables), (0, 0));

    let again = open(dir);
    let keyspace = again.default_keyspace();
    assert_eq!(pairs(&again).len(), 6_000);
    // Nothing of the first one disturbs the second.
    drop((other, snapshot, cursor));
    again.put(&keyspace, b"k", b"v").unwrap();
    again.close().unwrap();
    let reader = Db::open_read_only(dir, small()).unwrap();
    let copy = reader.clone();
    reader.close().unwrap();
    assert!(matches!(copy.get(&keyspace, b"k"), Err(Error::Closed)));
}
