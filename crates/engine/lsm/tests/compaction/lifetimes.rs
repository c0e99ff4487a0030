//! What a storage is notified of how long tables will live.

use esker_base::background::Stepped;
use esker_base::{Clock, FileKind, Result, Rng, WriteHint};
use esker_lsm::{Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape};
use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) {}
}

/// A storage that notes what it is notified of tables, by the number of the file.
#[derive(Clone, Default)]
struct Noting {
    below: Arc<MemoryStorage>,
    told: Arc<Mutex<BTreeMap<u64, WriteHint>>>,
}

impl FileSystemWrapper for Noting {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        if let Some(number) = name.strip_suffix(".tables") {
            assert_eq!(hint.kind, FileKind::Table);
            self.told.lock().unwrap().insert(number.parse().unwrap(), hint);
        } else {
            assert_eq!(hint.expected_lifetime, None, "{name}");
        }
        self.below.create(name, hint)
    }
}

impl Noting {
    fn hint(&self, file: u64) -> WriteHint {
        self.told.lock().unwrap()[&file]
    }
}

fn open(storage: &Noting) -> Db {
    let env = Env::over(Arc::new(storage.clone()))
        .clock(Arc::new(Standing))
        .background(Arc::new(Stepped))
        .seed(1);
    let settings = Settings::default().log(Log::None).segment_bytes(64 << 10);
    Db::open_with(env, settings).unwrap()
}

fn keyspaces(db: &Db) -> [Keyspace; 2] {
    ["hot", "cold"].map(|name| db.keyspace(name, KeyspaceSettings::default()).unwrap())
}

fn put(db: &Db, keyspace: &Keyspace, record: u64, rng: &mut Rng) {
    let mut value = [0; 400];
    rng.fill(&mut value);
    db.put(keyspace, record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), value).unwrap();
    while db.run_background_job() {}
}

/// Fills both keyspaces alike, and updates the hot one twenty times as often.
fn load(db: &Db, updates: u64) {
    let ([hot, cold], mut rng) = (keyspaces(db), Rng::new(1));
    for record in 0..4_000 {
        put(db, &hot, record, &mut rng);
        put(db, &cold, record, &mut rng);
    }
    for update in 0..updates {
        let keyspace = if update % 20 == 0 { &cold } else { &hot };
        put(db, keyspace, rng.below(4_000), &mut rng);
    }
}

/// What was notified of the tables that a keyspace has in a level, the last one first.
fn told(db: &Db, storage: &Noting, keyspace: &str, level: u8) -> Vec<Option<u64>> {
    let all = db.levels();
    let found = all.iter().find(|found| found.name == keyspace).unwrap();
    let runs = found.levels.iter().flat_map(|level| &level.runs);
    let mut files: Vec<u64> = runs.flat_map(|run| &run.tables).map(|t| t.id.file).collect();
    files.sort_by_key(|file| std::cmp::Reverse(*file));
    let hints = files.into_iter().map(|file| storage.hint(file));
    hints.filter(|hint| hint.level == level).map(|hint| hint.expected_lifetime).collect()
}

/// The deepest level of a keyspace.
fn deepest(db: &Db, keyspace: &str) -> u8 {
    let all = db.levels();
    let found = all.iter().find(|found| found.name == keyspace).unwrap();
    found.levels.iter().rev().find(|level| !level.runs.is_empty()).unwrap().level as u8
}

#[test]
fn tables_of_a_keyspace_that_is_written_seldom_are_told_to_live_longer() {
    let storage = Noting::default();
    let db = open(&storage);
    load(&db, 40_000);
    let level = deepest(&db, "hot");
    assert_eq!(deepest(&db, "cold"), level);
    let (hot, cold) = (told(&db, &storage, "hot", level), told(&db, &storage, "cold", level));
    assert!(hot[0].unwrap() * 4 < cold[0].unwrap(), "{hot:?}, {cold:?}");
}

#[test]
fn nothing_is_told_before_it_was_learnt() {
    let storage = Noting::default();
    let db = open(&storage);
    load(&db, 0);
    let all: Vec<WriteHint> = storage.told.lock().unwrap().values().copied().collect();
    assert_eq!(all[0], WriteHint::table(0));
    assert_eq!(all.iter().find(|hint| hint.level > 0).unwrap().expected_lifetime, None);
    assert!(all.iter().any(|hint| hint.expected_lifetime.is_some()));
}

#[test]
fn the_deeper_tables_are_the_longer_they_are_told_to_live() {
    let storage = Noting::default();
    let db = open(&storage);
    load(&db, 40_000);
    let level = deepest(&db, "hot");
    let flushed = *storage.told.lock().unwrap().values().rfind(|hint| hint.level == 0).unwrap();
    let merged = *storage.told.lock().unwrap().values().rfind(|hint| hint.level == level).unwrap();
    assert!(flushed.expected_lifetime.unwrap() * 2 < merged.expected_lifetime.unwrap());
}

#[test]
fn merges_are_told_of_the_level_that_they_write() {
    let storage = Noting::default();
    let db = open(&storage);
    load(&db, 40_000);
    let told: Vec<WriteHint> = storage.told.lock().unwrap().values().copied().collect();
    let merged = || told.iter().filter(|hint| hint.level > 0);
    // Nothing was ever written to the level above it, so that nothing is known of that.
    let highest = merged().map(|hint| hint.level).min().unwrap();
    let last = merged().rfind(|hint| hint.level == highest).unwrap();
    assert!(highest > 1 && last.expected_lifetime.is_some(), "{last:?}");
}

/// What is notified of files while the first keyspace is written always and the second at every tenth flush: of the last file
/// without the second one, and of the last with it.
fn told_of_flushes(
    settings: KeyspaceSettings,
    finish: impl Fn(&Db),
) -> [BTreeMap<u64, WriteHint>; 2] {
    let storage = Noting::default();
    let (db, mut rng) = (open(&storage), Rng::new(1));
    let often = db.keyspace("often", KeyspaceSettings::default()).unwrap();
    let seldom = db.keyspace("seldom", settings).unwrap();
    let mut told = [BTreeMap::new(), BTreeMap::new()];
    for flush in 0..300 {
        let has_both = flush % 10 == 9;
        (0..50).for_each(|_| put(&db, &often, rng.below(4_000), &mut rng));
        if has_both {
            (0..10).for_each(|_| put(&db, &seldom, rng.below(200), &mut rng));
        }
        let before = storage.told.lock().unwrap().last_key_value().map_or(0, |(file, _)| *file);
        db.flush().unwrap();
        let files = storage.told.lock().unwrap();
        let new = files.range(before + 1..).filter(|(_, hint)| hint.level == 0);
        told[usize::from(has_both)] = new.map(|(file, hint)| (*file, *hint)).collect();
        drop(files);
        finish(&db);
    }
    told
}

#[test]
fn a_file_that_keyspaces_share_is_told_to_live_as_long_as_the_one_that_lives_longest() {
    // `wait_for_compactions` would compact the second keyspace, which is small, after each few flushes.
    let finish = |db: &Db| while db.run_background_job() {};
    let [one, both] = told_of_flushes(KeyspaceSettings::default(), finish);
    assert_eq!((one.len(), both.len()), (1, 1));
    let [one, both] = [one, both].map(|told| told.values().next().unwrap().expected_lifetime);
    assert!(one.unwrap() * 3 < both.unwrap(), "{one:?}, {both:?}");
}

#[test]
fn files_that_one_keyspace_has_for_itself_are_told_what_is_expected_of_its_tables() {
    let dedup = Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) };
    let shape = Shape::Tiered { runs: 4 };
    let settings = KeyspaceSettings::default().shape(shape).dedup(dedup);
    let [one, both] = told_of_flushes(settings, |db| db.wait_for_compactions().unwrap());
    assert!(one.len() == 1 && both.len() > 1, "{both:?}");
    let shared = one.values().next().unwrap().expected_lifetime.unwrap();
    let told: Vec<u64> = both.values().map(|hint| hint.expected_lifetime.unwrap()).collect();
    assert!(told.iter().any(|told| *told < shared * 3), "the other keyspace's file: {told:?}");
    assert!(told.iter().any(|told| *told > shared * 3), "{shared}, {told:?}");
}

#[test]
fn what_was_learnt_outlasts_an_open() {
    let storage = Noting::default();
    let db = open(&storage);
    load(&db, 40_000);
    let level = deepest(&db, "cold");
    let before = told(&db, &storage, "cold", level)[0].unwrap();
    db.close().unwrap();

    let db = open(&storage);
    let cold = db.open_keyspace("cold").unwrap();
    let first = *storage.told.lock().unwrap().last_key_value().unwrap().0;
    db.compact_keyspace(&cold).unwrap();
    let hints: Vec<WriteHint> =
        storage.told.lock().unwrap().range(first + 1..).map(|(_, hint)| *hint).collect();
    let merged: Vec<_> = hints.iter().filter(|hint| hint.level == level).collect();
    assert!(!merged.is_empty(), "{hints:?}");
    for hint in merged {
        let now = hint.expected_lifetime.unwrap();
        assert!(now >= before / 2 && now <= before * 4, "{before}, {now}");
    }
}

#[test]
fn runs_are_told_the_same_each_time() {
    let told = || {
        let storage = Noting::default();
        let db = open(&storage);
        load(&db, 5_000);
        storage.told.lock().unwrap().clone()
    };
    assert_eq!(told(), told());
}
