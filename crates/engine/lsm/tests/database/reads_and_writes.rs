//! What is written, deleted and compacted is read as it should be, from a real directory.

use crate::support::{copied, key, open, pairs, small};
use esker_api::{Cursor, KeyRange};
use esker_base::background::Stepped;
use esker_lsm::{Db, Dedup, Env, KeyspaceSettings, Ratio, Shape};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use std::collections::BTreeMap;
use std::sync::Arc;

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
        let found = || -> BTreeMap<_, _> { db.range(&keyspace, ..).map(copied).collect() };
        assert_eq!(found(), model);
        db.wait_for_compactions().unwrap();
        assert_eq!(found(), model);
        db.compact().unwrap();
        assert_eq!(found(), model);
        let reversed = db.range(&keyspace, ..).rev().map(copied);
        assert!(reversed.eq(model.into_iter().rev()));
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
        assert_eq!(snapshot.get(&keyspace, key(n)).unwrap().unwrap(), b"old");
        let now = db.get(&keyspace, key(n)).unwrap();
        assert_eq!(now.as_deref(), (n >= 500).then_some(&b"new"[..]));
    }
    let values = snapshot.multi_get(&keyspace, (0..1_000).map(key)).unwrap();
    assert!(values.iter().all(|value| value.as_deref() == Some(b"old")));
    let mut cursor = snapshot.cursor(&keyspace, key(600)..).unwrap();
    cursor.seek_first().unwrap();
    assert_eq!(cursor.current(), Some((&key(600)[..], &b"old"[..])));
    let mut cursor = keyspace.cursor(..).unwrap();
    cursor.seek_first().unwrap();
    assert_eq!(cursor.current(), Some((&key(500)[..], &b"new"[..])));
    assert_eq!(snapshot.range(&keyspace, ..).count(), 1_000);
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
    db.drop_keyspace(&old).unwrap();
    assert!(db.get(&old, b"k").is_err() && db.put(&old, b"k", b"v").is_err());
    let new = db.keyspace("k", Default::default()).unwrap();
    assert_ne!(old.id(), new.id());
    assert_eq!(db.get(&new, b"k").unwrap(), None);
    drop(db);
    let db = open(dir.path());
    assert_eq!(db.get(&db.open_keyspace("k").unwrap(), b"k").unwrap(), None);
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
        let forward: Vec<_> = range().map(|pair| pair.unwrap().0.into_vec()).collect();
        let mut back: Vec<_> = range().rev().map(|pair| pair.unwrap().0.into_vec()).collect();
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
    let day = std::time::Duration::from_secs(86_400);
    let put = |key: &[u8], value: &[u8]| db.put_with_ttl(&keyspace, key, value, day);
    assert!(matches!(put(b"k", &huge), Err(Error::ValueTooLarge { .. })));
    // A quarter of a segment, all in the key but for a byte.
    let refused = put(&long[1..], b"v").unwrap_err().to_string();
    assert!(refused.contains("the key of 65536 bytes and its value of 9 bytes"), "{refused}");
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
    db.wait_for_compactions().unwrap();
    let (taken, live) = (db.stats().table_file_bytes, db.estimate_live_data().unwrap().bytes);
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
    db.wait_for_compactions().unwrap();
    assert!(db.stats().flushes >= 4, "many range deletes seal a MemTable");
    db.compact().unwrap();
    assert_eq!(pairs(&db), [(key(3_999), b"job".to_vec())]);
}

/// Writers that were let in one by one, and counted only when all had written, overfilled it.
#[test]
fn a_batch_whose_range_deletes_find_no_room_in_a_memtable_goes_to_the_next() {
    let storage = Arc::new(MemoryStorage::new());
    let env = Env::over(storage).background(Arc::new(Stepped));
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

/// The versions in all tables.
fn entries(db: &Db) -> u64 {
    let levels = db.levels().into_iter().flat_map(|keyspace| keyspace.levels);
    let tables = levels.flat_map(|level| level.runs).flat_map(|run| run.tables);
    tables.map(|table| table.entries).sum()
}

#[test]
fn values_that_were_read_outlive_their_tables_and_their_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    let value = |n: u64| vec![n as u8; 20 * (n % 50) as usize];
    for n in 0..1_000 {
        db.put(&keyspace, key(n), value(n)).unwrap();
    }
    db.flush().unwrap();
    let entries: Vec<_> = db.range(&keyspace, ..).map(|entry| entry.unwrap()).collect();
    let reversed: Vec<_> = db.range(&keyspace, ..).rev().map(|entry| entry.unwrap()).collect();
    let got: Vec<_> = (0..1_000).map(|n| db.get(&keyspace, key(n)).unwrap().unwrap()).collect();
    db.delete_range(&keyspace, ..).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    assert!(reversed.iter().rev().eq(&entries));
    for (n, ((found, scanned), got)) in (0..).zip(entries.iter().zip(&got)) {
        assert_eq!((found, scanned, got), (&key(n).into(), &value(n).into(), &value(n).into()));
    }
}
