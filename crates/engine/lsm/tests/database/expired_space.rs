//! The space of expired entries: it is given back in time, whatever the shape of the keyspace.

use crate::clock::HandClock;
use esker_base::background::Stepped;
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Ratio, Settings, Shape};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000;
const VALUE: [u8; 200] = [7; 200];
const KEYS: u32 = 4_000;

fn open(clock: &Arc<HandClock>, delete_age: u64) -> Db {
    let env = Env::over(Arc::new(MemoryStorage::new()))
        .background(Arc::new(Stepped))
        .clock(clock.clone());
    let settings = Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20);
    Db::open_with(env, settings.delete_age_max(Duration::from_secs(delete_age))).unwrap()
}

fn keyspace(db: &Db, shape: Shape, dedup: Dedup) -> Keyspace {
    let settings = KeyspaceSettings::default().shape(shape).dedup(dedup);
    db.keyspace("k", settings.compression(Compression::None)).unwrap()
}

fn bytes(db: &Db) -> u64 {
    let levels = db.levels();
    let levels = levels.iter().find(|it| it.name == "k").unwrap().levels.iter();
    let runs = levels.flat_map(|level| &level.runs);
    runs.flat_map(|run| &run.tables).map(|table| table.bytes).sum()
}

/// Puts all keys: of ten, `expiring` for 100 seconds.
fn fill(db: &Db, keyspace: &Keyspace, expiring: u32) {
    for key in 0..KEYS {
        match key % 10 < expiring {
            true => keyspace.put_with_ttl(key.to_be_bytes(), VALUE, Duration::from_secs(100)),
            false => keyspace.put(key.to_be_bytes(), VALUE),
        }
        .unwrap();
        if key % 100 == 0 {
            work(db);
        }
    }
    db.compact().unwrap();
}

fn work(db: &Db) {
    while db.run_background_job() {}
}

/// Lets time pass, a second at a time, with the work that it brings.
fn pass(db: &Db, clock: &HandClock, seconds: u64) {
    for _ in 0..seconds {
        clock.pass(SECOND);
        work(db);
    }
}

fn check(keyspace: &Keyspace, expiring: u32) {
    assert_eq!(keyspace.count(..).unwrap(), u64::from(KEYS / 10 * (10 - expiring)));
    for key in (0..KEYS).step_by(37) {
        let found = keyspace.get(key.to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), (key % 10 >= expiring).then_some(&VALUE[..]), "{key}");
    }
}

const SHAPES: [(Shape, Dedup); 4] = [
    (Shape::Leveled { ratio: 10 }, Dedup::None),
    (Shape::Tiered { runs: 4 }, Dedup::None),
    (Shape::Tiered { runs: 4 }, Dedup::PerLevel { threshold: Ratio::of_hundredths(150) }),
    (Shape::Tiered { runs: 8 }, Dedup::SpaceGoal { amp: Ratio::of_hundredths(400) }),
];

#[test]
fn tables_of_which_half_has_expired_are_rewritten_while_nothing_is_written() {
    for (shape, dedup) in SHAPES {
        let clock = HandClock::new();
        let db = open(&clock, 1 << 30);
        let keyspace = keyspace(&db, shape, dedup);
        fill(&db, &keyspace, 6);
        let before = bytes(&db);
        pass(&db, &clock, 95);
        assert_eq!(bytes(&db), before, "{shape:?}, {dedup:?}");
        pass(&db, &clock, 10);
        let after = bytes(&db);
        assert!(after < before * 45 / 100, "{shape:?}, {dedup:?}: {before}, {after}");
        check(&keyspace, 6);
        let done = db.stats().compactions;
        pass(&db, &clock, 100);
        assert_eq!(db.stats().compactions, done, "{shape:?}, {dedup:?}: no more than once");
    }
}

#[test]
fn a_few_expired_entries_are_dropped_once_they_are_as_old_as_deletes_may_become() {
    for (shape, dedup) in SHAPES {
        let clock = HandClock::new();
        let db = open(&clock, 1_000);
        let keyspace = keyspace(&db, shape, dedup);
        fill(&db, &keyspace, 2);
        let before = bytes(&db);
        pass(&db, &clock, 1_050);
        assert_eq!(bytes(&db), before, "{shape:?}, {dedup:?}");
        pass(&db, &clock, 100);
        let after = bytes(&db);
        assert!(after < before * 85 / 100, "{shape:?}, {dedup:?}: {before}, {after}");
        check(&keyspace, 2);
    }
}

#[test]
fn a_space_goal_counts_what_has_expired_as_garbage_and_is_kept_without_a_write() {
    let clock = HandClock::new();
    let db = open(&clock, 1 << 30);
    let dedup = Dedup::SpaceGoal { amp: Ratio::of_hundredths(110) };
    let keyspace = keyspace(&db, Shape::Tiered { runs: 8 }, dedup);
    // Less than half of each table, so that idle time alone is no reason.
    fill(&db, &keyspace, 4);
    let status = || db.space_amp_status().remove(0);
    let before = status();
    assert!(before.bytes as f64 <= before.ceiling_bytes.unwrap());
    clock.pass(105 * SECOND);
    let expired = status();
    assert!(expired.live_bytes < before.live_bytes * 0.65, "{before:?}, {expired:?}");
    assert!(expired.bytes as f64 > expired.ceiling_bytes.unwrap(), "{expired:?}");
    let live = db.estimate_live_data().unwrap();
    let expected = f64::from(KEYS) * 0.6;
    assert!((live.keys - expected).abs() < expected / 10.0, "{live:?}");
    let about = keyspace.approximate_len().unwrap() as f64;
    assert!((about - expected).abs() < expected / 10.0, "{about}");
    work(&db);
    let after = status();
    assert!(after.bytes as f64 <= after.ceiling_bytes.unwrap(), "{after:?}");
    check(&keyspace, 4);
}

/// Also the last level of a keyspace of one run.
#[test]
fn a_compaction_that_a_caller_asks_for_drops_what_has_expired() {
    for (shape, dedup) in SHAPES {
        let clock = HandClock::new();
        let db = open(&clock, 1 << 30);
        let keyspace = keyspace(&db, shape, dedup);
        fill(&db, &keyspace, 1);
        let before = bytes(&db);
        clock.pass(100 * SECOND);
        db.compact().unwrap();
        let after = bytes(&db);
        assert!(after < before * 95 / 100, "{shape:?}, {dedup:?}: {before}, {after}");
        check(&keyspace, 1);
    }
}

/// A snapshot that is older than the entries keeps their tables. No scan reads them.
#[test]
fn a_scan_skips_tables_in_which_everything_has_expired() {
    let clock = HandClock::new();
    let disk = esker_storage::FaultStorage::new(esker_base::Rng::new(7));
    let open = |disk: &esker_storage::FaultStorage| {
        let (background, clock) = (Arc::new(Stepped), clock.clone());
        let env = Env::over(Arc::new(disk.clone())).background(background).clock(clock);
        Db::open_with(env, Settings::default().segment_bytes(64 << 10)).unwrap()
    };
    let db = open(&disk);
    let keyspace = keyspace(&db, Shape::Tiered { runs: 8 }, Dedup::None);
    for key in 0..100_u8 {
        keyspace.put_with_ttl([key], VALUE, Duration::from_secs(100)).unwrap();
    }
    db.flush().unwrap();
    // Hides an older version of the other table, which has expired too.
    keyspace.put_with_ttl([50], VALUE, Duration::from_secs(50)).unwrap();
    db.flush().unwrap();
    clock.pass(99 * SECOND);
    assert_eq!(keyspace.count(..).unwrap(), 99);
    drop(keyspace);
    db.close().unwrap();
    // With an empty cache of blocks.
    let db = open(&disk);
    let keyspace = db.open_keyspace("k").unwrap();
    clock.pass(SECOND);
    disk.fail_read_after(0);
    assert_eq!(keyspace.count(..).unwrap(), 0);
    assert_eq!(keyspace.last().unwrap(), None);
    assert_eq!(db.snapshot().range(&keyspace, ..).count(), 0);
}

#[test]
fn a_scan_reads_an_expired_table_that_hides_something_older() {
    let clock = HandClock::new();
    let db = open(&clock, 1 << 30);
    let keyspace = keyspace(&db, Shape::Tiered { runs: 8 }, Dedup::None);
    keyspace.put([50], "older").unwrap();
    db.flush().unwrap();
    keyspace.put_with_ttl([50], "newer", Duration::from_secs(50)).unwrap();
    db.flush().unwrap();
    clock.pass(50 * SECOND);
    assert_eq!((keyspace.count(..).unwrap(), keyspace.get([50]).unwrap()), (0, None));
    assert_eq!(keyspace.last().unwrap(), None);
}
