//! `Db::wait_for_compactions` leaves a small leveled keyspace in one run, if that rewrites little.

use esker_base::background::Stepped;
use esker_base::{Clock, Rng};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, Shape};
use esker_storage::MemoryStorage;
use esker_table::Compression;
use std::sync::Arc;
use std::time::Duration;

const SEGMENT_BYTES: usize = 64 << 10;
const VALUE_BYTES: usize = 400;
/// Records of a whole segment, about.
const SEGMENT: u64 = (SEGMENT_BYTES / (VALUE_BYTES + 20)) as u64;

const LEVELED: Shape = Shape::Leveled { ratio: 10 };

/// No time passes, as the picker also asks how often flushes come.
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(1_000)
    }
    fn sleep(&self, _: Duration) {}
    fn calendar(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }
}

fn open() -> Db {
    let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
    let env = env.clock(Arc::new(Still));
    let settings = Settings::default().log(Log::None).segment_bytes(SEGMENT_BYTES);
    Db::open_with(env, settings).unwrap()
}

fn keyspace(db: &Db, shape: Shape) -> Keyspace {
    let settings = KeyspaceSettings::default().shape(shape).compression(Compression::None);
    db.keyspace("records", settings).unwrap()
}

/// Puts records of one version, of keys that are spread over all, and flushes them as a run.
fn put(db: &Db, keyspace: &Keyspace, records: impl Iterator<Item = u64>, version: u64) {
    for record in records {
        let mut value = [0; VALUE_BYTES];
        Rng::new(record * 1_000 + version).fill(&mut value);
        db.put(keyspace, key(record), value).unwrap();
        while db.run_background_job() {}
    }
    db.flush().unwrap();
    while db.run_background_job() {}
}

fn key(record: u64) -> [u8; 8] {
    record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// The runs of level 0, and of all levels below.
fn runs(db: &Db) -> (usize, usize) {
    let all = db.levels();
    let levels = &all.iter().find(|found| found.name == "records").unwrap().levels;
    let runs = |wanted: &dyn Fn(usize) -> bool| {
        levels.iter().filter(|level| wanted(level.level)).map(|level| level.runs.len()).sum()
    };
    (runs(&|level| level == 0), runs(&|level| level > 0))
}

fn table_bytes_written(db: &Db) -> u64 {
    let stats = db.stats();
    stats.flush_bytes + stats.compaction_bytes
}

#[test]
fn a_small_keyspace_has_one_run_that_has_the_newest_versions() {
    let db = open();
    let keyspace = keyspace(&db, LEVELED);
    for version in 1..=3 {
        put(&db, &keyspace, 0..SEGMENT / 5 * version, version);
    }
    assert_eq!(runs(&db), (3, 0), "too few for the background to compact them");
    db.wait_for_compactions().unwrap();
    assert_eq!(runs(&db), (0, 1));
    put(&db, &keyspace, 0..SEGMENT / 5, 4);
    assert_eq!(runs(&db), (1, 1));
    db.wait_for_compactions().unwrap();
    assert_eq!(runs(&db), (0, 1), "again");
    for record in 0..SEGMENT / 5 * 3 {
        let mut value = [0; VALUE_BYTES];
        let version = if record < SEGMENT / 5 { 4 } else { 3 };
        Rng::new(record * 1_000 + version).fill(&mut value);
        let found = db.get(&keyspace, key(record)).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]), "record {record}");
    }
}

#[test]
fn little_new_data_does_not_rewrite_the_rest_at_each_call() {
    let db = open();
    let keyspace = keyspace(&db, LEVELED);
    put(&db, &keyspace, 0..SEGMENT * 5, 1);
    db.wait_for_compactions().unwrap();
    assert_eq!(runs(&db), (0, 1));
    let before = table_bytes_written(&db);
    put(&db, &keyspace, 0..SEGMENT / 10, 2);
    db.wait_for_compactions().unwrap();
    assert_eq!(runs(&db), (1, 1), "a tenth of a segment rewrites no five");
    assert!(table_bytes_written(&db) - before < SEGMENT_BYTES as u64);
    put(&db, &keyspace, 0..SEGMENT, 3);
    db.wait_for_compactions().unwrap();
    assert_eq!(runs(&db), (0, 1), "a whole one does");
}

#[test]
fn a_large_keyspace_keeps_its_runs() {
    let db = open();
    let keyspace = keyspace(&db, LEVELED);
    put(&db, &keyspace, 0..SEGMENT * 8, 1);
    db.compact_keyspace(&keyspace).unwrap();
    put(&db, &keyspace, 0..SEGMENT * 4 / 5, 2);
    db.wait_for_compactions().unwrap();
    assert_eq!(runs(&db), (1, 1), "more than eight segments");
}

#[test]
fn runs_of_a_tiered_keyspace_are_what_it_is_for() {
    let db = open();
    let keyspace = keyspace(&db, Shape::Tiered { runs: 4 });
    (1..=3).for_each(|version| put(&db, &keyspace, 0..SEGMENT / 2, version));
    let before = runs(&db);
    assert_eq!(before.0 + before.1, 3);
    db.wait_for_compactions().unwrap();
    assert_eq!(runs(&db), before);
}

#[test]
fn a_call_with_nothing_to_compact_writes_no_table() {
    let db = open();
    let keyspace = keyspace(&db, LEVELED);
    put(&db, &keyspace, 0..SEGMENT / 2, 1);
    let before = table_bytes_written(&db);
    (0..3).for_each(|_| db.wait_for_compactions().unwrap());
    assert_eq!((table_bytes_written(&db), runs(&db)), (before, (1, 0)));
}
