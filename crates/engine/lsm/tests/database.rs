//! The database as a user meets it, on a real directory.

mod cursors;
mod killed;

use esker_api::{Cursor, KeyRange};
use esker_base::background::Stepped;
use esker_lsm::{Db, Dedup, Env, KeyspaceSettings, Log, Ratio, Settings, Shape, Sync};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn small() -> Settings {
    Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20)
}

fn open(dir: &Path) -> Db {
    Db::open(dir, small()).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

fn pairs(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.range(&db.default_keyspace(), ..).map(|pair| pair.unwrap()).collect()
}

#[test]
fn what_was_put_is_got_before_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..5_000 {
        db.put(&keyspace, key(n), n.to_le_bytes()).unwrap();
    }
    let check = |db: &Db| {
        let keyspace = db.default_keyspace();
        for n in 0..5_000 {
            assert_eq!(db.get(&keyspace, key(n)).unwrap().unwrap(), n.to_le_bytes()[..], "{n}");
        }
        assert_eq!(db.get(&keyspace, b"missing").unwrap(), None);
    };
    check(&db);
    db.close().unwrap();
    check(&open(dir.path()));
}

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
fn overwrites_and_deletes_of_many_rounds_agree_with_a_map() {
    for shape in [Shape::Leveled { ratio: 4 }, Shape::Tiered { runs: 3 }] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let settings = KeyspaceSettings::default().shape(shape).compression(Compression::None);
        let keyspace = db.keyspace("k", settings).unwrap();
        let mut model = BTreeMap::new();
        let mut rng = esker_base::Rng::new(7);
        for round in 0..30_000u64 {
            let key = key(rng.below(3_000));
            if rng.one_in(5) {
                db.delete(&keyspace, &key).unwrap();
                model.remove(&key);
            } else {
                let value = [round.to_le_bytes(); 12].concat();
                db.put(&keyspace, &key, &value).unwrap();
                model.insert(key, value);
            }
        }
        let found =
            || -> BTreeMap<_, _> { db.range(&keyspace, ..).map(|pair| pair.unwrap()).collect() };
        assert_eq!(found(), model);
        db.settle().unwrap();
        assert_eq!(found(), model);
        db.compact().unwrap();
        assert_eq!(found(), model);
        let reversed: Vec<_> = db.range(&keyspace, ..).rev().map(|pair| pair.unwrap()).collect();
        assert!(reversed.into_iter().eq(model.into_iter().rev()));
    }
}

#[test]
fn a_batch_is_atomic_across_keyspaces() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (a, b) = (db.default_keyspace(), db.keyspace("b", Default::default()).unwrap());
    let mut batch = db.batch();
    batch.put(&a, b"k", b"1");
    batch.put(&b, b"k", b"2");
    batch.delete(&a, b"gone");
    db.write(&batch).unwrap();
    assert_eq!(db.get(&a, b"k").unwrap().unwrap(), b"1");
    assert_eq!(db.get(&b, b"k").unwrap().unwrap(), b"2");
}

#[test]
fn a_snapshot_sees_its_moment_through_flush_and_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..1_000 {
        db.put(&keyspace, key(n), b"old").unwrap();
    }
    let snapshot = db.snapshot();
    for n in 0..1_000 {
        db.put(&keyspace, key(n), b"new").unwrap();
    }
    db.delete_range(&keyspace, key(0)..key(500)).unwrap();
    db.compact().unwrap();
    for n in 0..1_000 {
        assert_eq!(db.get_at(&keyspace, key(n), &snapshot).unwrap().unwrap(), b"old");
        let now = db.get(&keyspace, key(n)).unwrap();
        assert_eq!(now.as_deref(), (n >= 500).then_some(&b"new"[..]));
    }
    let at_snapshot = db.range(&keyspace, ..).at(&snapshot);
    assert_eq!(at_snapshot.into_iter().count(), 1_000);
    assert_eq!(pairs(&db).len(), 500);
}

#[test]
fn a_cursor_goes_both_ways_within_its_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..100 {
        db.put(&keyspace, key(n), b"v").unwrap();
        if n % 30 == 0 {
            db.flush().unwrap();
        }
    }
    let range = KeyRange::of(&key(10)[..]..&key(20)[..]);
    let mut cursor = db.cursor(&keyspace, range).unwrap();
    let at = |cursor: &dyn Cursor| cursor.current().map(|(key, _)| key.to_vec());
    cursor.seek_first().unwrap();
    assert_eq!(at(&cursor), Some(key(10)));
    cursor.prev().unwrap();
    assert_eq!(at(&cursor), None);
    cursor.seek_last().unwrap();
    assert_eq!(at(&cursor), Some(key(19)));
    for _ in 0..5 {
        cursor.prev().unwrap();
    }
    assert_eq!(at(&cursor), Some(key(14)));
    cursor.next().unwrap();
    assert_eq!(at(&cursor), Some(key(15)));
    cursor.seek(&key(17)).unwrap();
    cursor.next().unwrap();
    cursor.prev().unwrap();
    cursor.prev().unwrap();
    assert_eq!(at(&cursor), Some(key(16)));
    cursor.seek_back(b"key00000012x").unwrap();
    assert_eq!(at(&cursor), Some(key(12)));
    cursor.seek(&key(50)).unwrap();
    assert_eq!(at(&cursor), None);
}

#[test]
fn a_dropped_keyspace_is_gone_and_its_name_free_again() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let old = db.keyspace("k", Default::default()).unwrap();
    db.put(&old, b"k", b"v").unwrap();
    db.drop_keyspace("k").unwrap();
    assert!(db.get(&old, b"k").is_err() && db.put(&old, b"k", b"v").is_err());
    let new = db.keyspace("k", Default::default()).unwrap();
    assert_ne!(old.id(), new.id());
    assert_eq!(db.get(&new, b"k").unwrap(), None);
    drop(db);
    let db = open(dir.path());
    assert_eq!(db.get(&db.existing_keyspace("k").unwrap(), b"k").unwrap(), None);
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
    let every = Sync::Every(std::time::Duration::from_millis(5));
    let logs = [Sync::Always, every, Sync::Os].map(|sync| Log::File { dir: None, sync });
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
fn writers_on_many_threads_all_find_their_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (db, keyspace) = (&db, &keyspace);
            scope.spawn(move || {
                for n in 0..2_000 {
                    let key = key(thread * 10_000 + n);
                    db.put(keyspace, &key, &key).unwrap();
                    assert_eq!(db.get(keyspace, &key).unwrap().unwrap(), key[..]);
                }
            });
        }
    });
    assert_eq!(pairs(&db).len(), 16_000);
}

/// The deletes reach further than the versions of the table that they are in, on both sides.
#[test]
fn a_scan_of_a_part_of_what_a_table_deletes_sees_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    (0..60).for_each(|n| db.put(&keyspace, key(n), b"old").unwrap());
    db.flush().unwrap();
    db.delete_range(&keyspace, key(10)..key(20)).unwrap();
    db.put(&keyspace, key(30), b"new").unwrap();
    db.delete_range(&keyspace, key(40)..key(50)).unwrap();
    db.flush().unwrap();
    let lives = |n: &u64| !(10..20).contains(n) && !(40..50).contains(n);
    for (from, to) in (0..60).flat_map(|from| (from..60).map(move |to| (from, to))) {
        let expected: Vec<_> = (from..to).filter(lives).map(key).collect();
        let range = || db.range(&keyspace, &key(from)[..]..&key(to)[..]);
        let forward: Vec<_> = range().map(|pair| pair.unwrap().0).collect();
        let mut back: Vec<_> = range().rev().map(|pair| pair.unwrap().0).collect();
        back.reverse();
        assert_eq!((&forward, &back), (&expected, &expected), "from {from} to {to}");
    }
}

#[test]
fn bad_writes_are_refused_and_nothing_is_written() {
    use esker_base::Error;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    let long = vec![1; (64 << 10) + 1];
    let small_segments = db.put(&keyspace, &long, b"");
    assert!(matches!(small_segments, Err(Error::KeyTooLong { bytes: 65_537 })));
    let huge = vec![1; 100 << 10];
    assert!(matches!(db.put(&keyspace, b"k", &huge), Err(Error::ValueTooLarge { .. })));
    // A quarter of a segment, all in the key but for a byte.
    let refused = db.put(&keyspace, &long[1..], b"v").unwrap_err().to_string();
    assert!(refused.contains("the key of 65536 bytes and its value of 1 bytes"), "{refused}");
    let mut batch = db.batch();
    for n in 0..100_000 {
        batch.put(&keyspace, key(n), b"v");
    }
    assert!(matches!(db.write(&batch), Err(Error::BatchTooLarge { .. })));
    let mut batch = db.batch();
    for n in 0..1_025 {
        batch.delete_range(&keyspace, b"a".to_vec()..key(n));
    }
    let refused = Error::TooManyRangeDeletes { range_deletes: 1_025, limit: 1_024 };
    assert_eq!(db.write(&batch).unwrap_err().to_string(), refused.to_string());
    assert!(matches!(db.delete_range(&keyspace, b"b"..b"a"), Err(Error::EmptyRange)));
    assert!(pairs(&db).is_empty());
    assert_eq!(db.stats().writes, 0);
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
    for (round, sync) in [Sync::Os, Sync::Always].into_iter().cycle().take(12).enumerate() {
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
                .map(|pair| String::from_utf8(pair.unwrap().0).unwrap())
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
    db.settle().unwrap();
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
    let log = Log::File { dir: Some(logs.clone()), sync: Sync::Os };
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
    batch.sync();
    db.write(&batch).unwrap();
    db.put(&db.default_keyspace(), b"l", b"v").unwrap();
    killed::copy_files(dir.path(), copy.path());
    let db = Db::open(copy.path(), settings).unwrap();
    assert_eq!(pairs(&db), [(b"k".to_vec(), b"v".to_vec())]);
}

#[test]
fn compaction_by_hand_drops_what_only_a_snapshot_kept() {
    for shape in [Shape::Leveled { ratio: 10 }, Shape::Tiered { runs: 4 }] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let keyspace = db.keyspace("k", KeyspaceSettings::default().shape(shape)).unwrap();
        let put_all = |value| (0..100).for_each(|n| db.put(&keyspace, key(n), value).unwrap());
        put_all(b"old");
        let snapshot = db.snapshot();
        put_all(b"new");
        db.compact().unwrap();
        assert_eq!(entries(&db), 200, "{shape:?}: the snapshot sees the old ones");
        drop(snapshot);
        db.compact().unwrap();
        assert_eq!(entries(&db), 100, "{shape:?}");
    }
}

#[test]
fn a_goal_for_space_is_met_again_after_a_snapshot() {
    const SEGMENT_BYTES: usize = 64 << 10;
    let dir = tempfile::tempdir().unwrap();
    let settings = small().segment_bytes(SEGMENT_BYTES);
    let db = Db::open(dir.path(), settings).unwrap();
    let goal = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) })
        .compression(Compression::None);
    let keyspace = db.keyspace("k", goal).unwrap();
    let put = |n| db.put(&keyspace, key(n), [7; 400]).unwrap();
    (0..4_000).for_each(put);
    let snapshot = db.snapshot();
    (0..4_000).for_each(put);
    db.compact().unwrap();
    drop(snapshot);
    (0..60).for_each(|_| (0..400).for_each(put));
    db.flush().unwrap();
    db.settle().unwrap();
    let (taken, live) = (db.stats().table_file_bytes, db.live_data().unwrap().bytes);
    let allowed = 1.2 * live + (4 * SEGMENT_BYTES) as f64;
    assert!(taken as f64 <= allowed, "{taken} bytes taken, {allowed:.0} allowed");
}

#[test]
fn a_queue_that_is_trimmed_from_its_front_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..4_000 {
        db.put(&keyspace, key(n), b"job").unwrap();
        db.delete_range(&keyspace, b"a".to_vec()..key(n)).unwrap();
    }
    assert_eq!(pairs(&db), [(key(3_999), b"job".to_vec())]);
    db.flush().unwrap();
    db.settle().unwrap();
    assert!(db.stats().flushes >= 4, "many range deletes seal a MemTable");
    db.compact().unwrap();
    assert_eq!(pairs(&db), [(key(3_999), b"job".to_vec())]);
}

/// Writers that were let in one by one, and counted only when all had written, overfilled it.
#[test]
fn a_batch_whose_range_deletes_find_no_room_in_a_memtable_goes_to_the_next() {
    let storage = Arc::new(MemoryStorage::new());
    let env = Env { background: Arc::new(Stepped), ..Env::over(storage) };
    let db = Db::open_with(env, small()).unwrap();
    let keyspace = db.default_keyspace();
    let delete = |from: u64, many: u64| {
        let mut batch = db.batch();
        (from..from + many).for_each(|n| batch.delete_range(&keyspace, b"a".to_vec()..key(n)));
        db.write(&batch).unwrap();
    };
    delete(0, 600);
    assert_eq!(db.stats().memtables, 1);
    delete(600, 600);
    assert_eq!(db.stats().memtables, 2);
    // There the count began anew.
    delete(1_200, 424);
    assert_eq!(db.stats().memtables, 2);
    delete(1_624, 1);
    assert_eq!(db.stats().memtables, 3);
}

#[test]
fn a_cursor_that_rests_holds_neither_memory_nor_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    let write = |round: u64| {
        for n in 0..2_000 {
            db.put(&keyspace, key(n), round.to_le_bytes()).unwrap();
        }
    };
    write(0);
    db.flush().unwrap();
    write(1);
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    cursor.seek(&key(1_000)).unwrap();
    for round in 2..6 {
        write(round);
        db.flush().unwrap();
        db.compact().unwrap();
        db.settle().unwrap();
        // A lane that was just at work may hold an old view for a moment longer.
        while table_files(dir.path()) != files_of_the_tree(&db) {
            std::thread::yield_now();
        }
        // Where it stood, in what it saw.
        let stands = 1_000 + round - 2;
        assert_eq!(cursor.current(), Some((&key(stands)[..], &1u64.to_le_bytes()[..])));
        cursor.next().unwrap();
    }
    let mut left = 0;
    while let Some((_, value)) = cursor.current() {
        assert_eq!(value, 1u64.to_le_bytes());
        cursor.next().unwrap();
        left += 1;
    }
    assert_eq!(left, 996);
}

#[test]
fn a_cursor_turns_round_after_its_tables_have_gone() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    for n in 0..500 {
        db.put(&keyspace, key(n), b"old").unwrap();
    }
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    let mut expected = 250;
    cursor.seek(&key(expected)).unwrap();
    for forward in [true, false, false, true, true, false] {
        for n in 0..500 {
            db.put(&keyspace, key(n), b"new").unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        if forward { cursor.next() } else { cursor.prev() }.unwrap();
        expected = if forward { expected + 1 } else { expected - 1 };
        assert_eq!(cursor.current(), Some((&key(expected)[..], &b"old"[..])));
    }
}

#[test]
fn a_cursor_over_a_dropped_keyspace_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.keyspace("gone", KeyspaceSettings::default()).unwrap();
    db.put(&keyspace, b"a", b"1").unwrap();
    db.put(&keyspace, b"b", b"2").unwrap();
    let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
    cursor.seek_first().unwrap();
    db.drop_keyspace("gone").unwrap();
    assert!(matches!(cursor.next(), Err(esker_base::Error::UnknownKeyspace { .. })));
    assert_eq!(cursor.current(), None);
}

fn table_files(dir: &Path) -> Vec<String> {
    let names = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".tables"));
    names.sort();
    names
}

fn files_of_the_tree(db: &Db) -> Vec<String> {
    let levels = db.levels().into_iter().flat_map(|keyspace| keyspace.levels);
    let tables = levels.flat_map(|level| level.runs).flat_map(|run| run.tables);
    let mut names: Vec<_> = tables.map(|table| format!("{:08}.tables", table.id.file)).collect();
    names.sort();
    names.dedup();
    names
}

/// The versions in all tables.
fn entries(db: &Db) -> u64 {
    let levels = db.levels().into_iter().flat_map(|keyspace| keyspace.levels);
    let tables = levels.flat_map(|level| level.runs).flat_map(|run| run.tables);
    tables.map(|table| table.entries).sum()
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
        other.get_at(&keyspace, key(1), &snapshot).err(),
        other.multi_get(&keyspace, [&key(1)]).err(),
        other.range(&keyspace, ..).next().unwrap().err(),
        cursor.next().err(),
        other.cursor_at(&keyspace, KeyRange::all(), &snapshot).err(),
        other.existing_keyspace("default").err(),
        other.flush().err(),
        other.sync().err(),
        other.compact().err(),
        other.settle().err(),
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
