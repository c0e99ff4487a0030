//! What a database has cost, kept across opens and crashes.

use crate::killed;
use esker_lsm::{CumulativeStats, Db, Dedup, Env, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::MemoryStorage;
use std::path::Path;
use std::sync::Arc;

const VALUE_BYTES: u64 = 100;

fn settings() -> Settings {
    Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20)
}

fn open(dir: &Path) -> Db {
    Db::open(dir, settings()).unwrap()
}

/// Writes keys `0..keys`, and gives the bytes of what it wrote.
fn put(db: &Db, keys: u64) -> u64 {
    let (keyspace, mut rng) = (db.default_keyspace(), esker_base::Rng::new(keys));
    for n in 0..keys {
        // Nothing that could be compressed.
        let value: Vec<u8> = (0..VALUE_BYTES).map(|_| rng.next_u64() as u8).collect();
        db.put(&keyspace, n.to_be_bytes(), &value).unwrap();
    }
    // The first key is all zeroes, and stored with one byte more.
    keys * (8 + VALUE_BYTES) + 1
}

#[test]
fn the_account_goes_on_where_the_process_before_left_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let written = put(&db, 3_000) + put(&db, 3_000);
    db.compact().unwrap();
    // A flush is over for who waits for it before it has counted itself and looked at space.
    db.wait_for_compactions().unwrap();
    let keyspace = db.default_keyspace();
    for n in 0..10u64 {
        db.get(&keyspace, n.to_be_bytes()).unwrap().unwrap();
        assert!(db.get(&keyspace, [n as u8; 3]).unwrap().is_none());
    }
    let (stats, account) = (db.stats(), db.stats().account);
    assert_eq!(account.user_bytes, written);
    assert_eq!(account.flush_bytes, stats.flush_bytes);
    assert_eq!(account.flushes, stats.flushes);
    assert_eq!(account.compaction_bytes, stats.compaction_bytes);
    assert_eq!(account.compaction_read_bytes, stats.compaction_read_bytes);
    assert_eq!(account.reclaimed_bytes(), stats.reclaimed_bytes);
    assert_eq!(account.table_gets, stats.table_gets);
    assert!(account.log_bytes > written && account.log_bytes < 2 * written, "{account:?}");
    db.close().unwrap();

    let db = open(dir.path());
    assert_eq!(db.stats().account, account);
    let more = put(&db, 1_000);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(db.stats().account.user_bytes, written + more);
    assert_eq!(db.stats().account.flush_bytes, account.flush_bytes + db.stats().flush_bytes);
    db.close().unwrap();
}

#[test]
fn a_crash_neither_loses_nor_doubles_what_users_wrote() {
    let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    let flushed = put(&db, 500);
    db.flush().unwrap();
    let logged = put(&db, 700);
    killed::rest(&db);
    killed::copy_files(dir.path(), crashed.path());
    let recovered = open(crashed.path());
    recovered.flush().unwrap();
    assert_eq!(recovered.stats().account.user_bytes, flushed + logged);
}

#[test]
fn space_is_told_by_what_is_live() {
    let dir = tempfile::tempdir().unwrap();
    // So many runs that none is merged by itself.
    let shape = Shape::Tiered { runs: 8 };
    let default_keyspace = KeyspaceSettings::default().shape(shape);
    let db = Db::open(dir.path(), settings().default_keyspace(default_keyspace)).unwrap();
    for _ in 0..4 {
        put(&db, 1_000);
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
    }
    let live = db.estimate_live_data().unwrap();
    let tables = db.stats().table_bytes as f64;
    assert!((live.keys / 1_000.0 - 1.0).abs() < 0.1, "{live:?}");
    let space = db.stats().account.space;
    assert_eq!(space.looks, 4);
    // 1, 2, 3 and 4 copies of the same keys.
    let (mean, peak) = (space.amp_mean().unwrap(), space.amp_peak().unwrap());
    assert!((2.2..2.8).contains(&mean) && (3.6..4.4).contains(&peak), "{space:?}");
    db.compact().unwrap();
    let merged = db.stats().table_bytes as f64;
    assert!((live.bytes / merged - 1.0).abs() < 0.1, "{live:?}, {tables} merged to {merged}");
}

#[test]
fn a_reader_tells_the_ceiling_by_the_segments_of_whoever_wrote_last() {
    let dir = tempfile::tempdir().unwrap();
    let default_keyspace = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) });
    let write = |segment_bytes, keys| {
        let settings = settings().segment_bytes(segment_bytes).default_keyspace(default_keyspace);
        let db = Db::open(dir.path(), settings).unwrap();
        put(&db, keys);
        db.close().unwrap();
    };
    // By a program that knows only the directory.
    let goal = || {
        let db = Db::open_read_only(dir.path(), Settings::default()).unwrap();
        db.space_amp_status().remove(0)
    };
    for segment_bytes in [256 << 10, 128 << 10] {
        write(segment_bytes, 1_000);
        let found = goal();
        let segments = found.ceiling_bytes.unwrap() - 1.5 * found.live_bytes;
        assert!((segments - 4.0 * segment_bytes as f64).abs() < 1.0, "{found:?}");
    }
}

#[test]
fn a_reader_to_whom_nothing_tells_the_size_of_segments_tells_no_ceiling() {
    let storage = MemoryStorage::new();
    let env = || Env::over(Arc::new(storage.clone()));
    let default_keyspace = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) });
    let settings = settings().log(Log::None).default_keyspace(default_keyspace);
    let writer = Db::open_with(env(), settings).unwrap();
    let reader = Db::open_read_only_with(env(), Settings::default()).unwrap();
    assert_eq!(reader.space_amp_status()[0].ceiling_bytes, None);
    assert!(writer.space_amp_status()[0].ceiling_bytes.is_some(), "who writes knows");
}

#[test]
fn what_a_snapshot_pins_is_not_garbage() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    put(&db, 1_000);
    let snapshot = db.snapshot();
    put(&db, 1_000);
    db.compact().unwrap();
    let live = db.estimate_live_data().unwrap();
    assert!((live.pinned_bytes / live.bytes - 1.0).abs() < 0.1, "{live:?}");
    drop(snapshot);
    assert_eq!(db.estimate_live_data().unwrap().pinned_bytes, 0.0);
}

#[test]
fn a_database_that_wrote_nothing_has_no_ratios() {
    let account = CumulativeStats::default();
    assert_eq!((account.write_amp(7), account.space.amp_mean()), (None, None));
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(open(dir.path()).stats().account, account);
}
