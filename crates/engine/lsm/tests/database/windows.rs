//! Keyspaces with windows: tables of different windows are never merged, and go whole.

use crate::clock::HandClock;
use esker_base::background::Stepped;
use esker_base::{Error, Rng};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_storage::FaultStorage;
use esker_table::Compression;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000;
const MINUTE: Duration = Duration::from_secs(60);
const VALUE: [u8; 1_000] = [7; 1_000];
/// How much later than the last window began that the oldest one is closed, in seconds: one is open, and
/// an eighth, the MemTable, and a second of the inspection come to that.
const LATE: u64 = 30;

struct Place {
    disk: FaultStorage,
    clock: Arc<HandClock>,
}

impl Place {
    fn new(seed: u64) -> Self {
        Place { disk: FaultStorage::new(Rng::new(seed)), clock: HandClock::new() }
    }

    fn open(&self) -> Db {
        let env = Env::over(Arc::new(self.disk.clone()))
            .background(Arc::new(Stepped))
            .clock(self.clock.clone());
        let log = Log::File { dir: None, sync: SyncPolicy::Always };
        let settings = Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20);
        Db::open_with(env, settings.log(log).delete_age_max(Duration::MAX)).unwrap()
    }

    /// Lets time pass, a second at a time, with the work that it brings.
    fn pass(&self, db: &Db, seconds: u64) {
        for _ in 0..seconds {
            self.clock.pass(SECOND);
            while db.run_background_job() {}
        }
    }
}

fn windows(max_bytes: Option<u64>) -> KeyspaceSettings {
    KeyspaceSettings::default().compression(Compression::None).window(MINUTE, max_bytes)
}

/// Puts an entry a second, with the seconds as its key, and a few at that.
fn put_for(place: &Place, db: &Db, keyspace: &Keyspace, seconds: u64, a_second: u8) {
    for _ in 0..seconds {
        let second = (place.clock.millis() / SECOND).to_be_bytes();
        for more in 0..a_second {
            keyspace.put([&second[..], &[more]].concat(), VALUE).unwrap();
        }
        place.pass(db, 1);
    }
}

/// The first and the last key of each run, newest first, and its level.
fn runs(db: &Db) -> Vec<(usize, u64, u64)> {
    let levels = db.levels();
    let levels = &levels.iter().find(|it| it.name == "k").unwrap().levels;
    let runs = levels.iter().flat_map(|level| level.runs.iter().map(move |run| (level.level, run)));
    let second = |key: &[u8]| u64::from_be_bytes(key[..8].try_into().unwrap());
    runs.map(|(level, run)| {
        let (first, last) = (run.tables.first().unwrap(), run.tables.last().unwrap());
        (level, second(&first.smallest), second(&last.largest))
    })
    .collect()
}

fn bytes(db: &Db) -> u64 {
    let levels = db.levels();
    let levels = levels.iter().find(|it| it.name == "k").unwrap().levels.iter();
    let runs = levels.flat_map(|level| &level.runs);
    runs.flat_map(|run| &run.tables).map(|table| table.bytes).sum()
}

#[test]
fn each_window_becomes_one_run_and_is_merged_with_no_other() {
    // Flushes because MemTables are full, and because they are old.
    [10, 1].into_iter().for_each(check_windows);
}

fn check_windows(a_second: u8) {
    let place = Place::new(1);
    let db = place.open();
    let keyspace = db.keyspace("k", windows(None)).unwrap();
    put_for(&place, &db, &keyspace, 600, a_second);
    let check = |least: usize| {
        let found = runs(&db);
        let closed: Vec<_> = found.iter().filter(|(level, ..)| *level == 6).collect();
        assert!(closed.len() >= least, "{found:?}");
        for pair in found.windows(2) {
            // A flush ends within a second.
            assert!(pair[0].1 >= pair[1].2, "{found:?}");
        }
        for (_, first, last) in &found {
            assert!(last - first <= 60 + LATE, "{found:?}");
        }
    };
    // An open window is a little longer than a minute.
    check(6);
    assert!(runs(&db).len() <= 20, "{:?}", runs(&db));
    db.compact().unwrap();
    check(7);
    assert!(runs(&db).iter().all(|(level, ..)| *level == 6), "the open window is over");
    let read = db.stats().compaction_read_bytes;
    db.compact().unwrap();
    place.pass(&db, 600);
    assert_eq!(db.stats().compaction_read_bytes, read, "nothing is compacted again");
    assert_eq!(keyspace.count(..).unwrap(), 600 * u64::from(a_second));
    let before = runs(&db);
    drop((keyspace, db));
    let db = place.open();
    assert_eq!(runs(&db), before);
    assert_eq!(db.open_keyspace("k").unwrap().settings().unwrap(), windows(None));
}

#[test]
fn a_window_goes_whole_and_unread_once_its_time_to_live_is_over() {
    let place = Place::new(2);
    let db = place.open();
    let keyspace = db.keyspace("k", windows(None).ttl(5 * MINUTE)).unwrap();
    let start = place.clock.millis() / SECOND;
    put_for(&place, &db, &keyspace, 600, 5);
    let oldest = |db: &Db| runs(db).last().map_or(600, |(_, first, _)| first - start);
    // A window in which the first entry has expired, and an eighth of the age.
    assert!((300 - 60 - LATE - 40..=300).contains(&oldest(&db)), "{}", oldest(&db));
    db.flush().unwrap();
    db.compact().unwrap();
    let read = db.stats().compaction_read_bytes;
    assert!(read < 600 * 5 * 1_100, "{read}: each byte is compacted once at most");
    place.disk.fail_read_after(0);
    place.pass(&db, 301 + 60 + LATE);
    assert_eq!((oldest(&db), keyspace.count(..).unwrap()), (600, 0));
    assert_eq!(db.stats().compaction_read_bytes, read);
}

#[test]
fn the_oldest_windows_go_when_there_are_more_bytes_than_there_may_be() {
    let mut place = Place::new(3);
    let most = 2 << 20;
    let mut db = place.open();
    let mut keyspace = db.keyspace("k", windows(Some(most))).unwrap();
    let start = place.clock.millis() / SECOND;
    let mut oldest_before = 0;
    for round in 0..40 {
        put_for(&place, &db, &keyspace, 20, 20);
        place.pass(&db, 1);
        // A flush that the inspection has not seen yet.
        assert!(bytes(&db) <= most + (200 << 10), "{}", bytes(&db));
        let first = keyspace.iter().next().unwrap().unwrap();
        let oldest = u64::from_be_bytes(first.0[..8].try_into().unwrap()) - start;
        assert!(oldest >= oldest_before, "what has gone stays so");
        // What goes is an eighth more than has to, at most, and a run that the next flush completes.
        assert!(oldest == 0 || bytes(&db) >= most / 2, "{} in round {round}", bytes(&db));
        oldest_before = oldest;
        if round % 10 == 5 {
            let left = place.disk.crash();
            drop((keyspace, db));
            place.disk = left;
            db = place.open();
            keyspace = db.open_keyspace("k").unwrap();
        }
        if round % 10 == 8 {
            db.compact().unwrap();
        }
    }
    // All that has gone is a part of an eighth more than had to.
    assert!(bytes(&db) >= most * 3 / 4, "{}", bytes(&db));
    assert!(oldest_before >= 600, "{oldest_before}");
}

/// A limit is one of the tables: what a MemTable has is newer.
#[test]
fn a_keyspace_that_is_not_written_keeps_what_fits() {
    let place = Place::new(4);
    let db = place.open();
    let keyspace = db.keyspace("k", windows(Some(1 << 20))).unwrap();
    put_for(&place, &db, &keyspace, 100, 9);
    db.flush().unwrap();
    place.pass(&db, 1_000);
    assert_eq!(keyspace.count(..).unwrap(), 900);
}

#[test]
fn what_needs_the_age_of_rows_or_other_tables_is_refused() {
    let place = Place::new(5);
    let db = place.open();
    let refused = |settings: KeyspaceSettings, reason: &str| {
        let error = db.keyspace("k", settings).map(|_| ()).unwrap_err();
        let is_named = matches!(&error, Error::InvalidSetting { setting: "window", .. });
        assert!(is_named && error.to_string().contains(reason), "{error}");
    };
    refused(windows(None).merge("append"), "merged operands");
    let of = |window, max| KeyspaceSettings::default().window(window, max);
    refused(of(MINUTE - Duration::from_secs(1), None), "60 or more");
    refused(of(Duration::from_millis(60_001), None), "a number of seconds");
    refused(of(Duration::from_secs(1 << 32), None), "a number of seconds");
    refused(of(MINUTE, Some(0)), "a mebibyte");
}

/// An entry of its own time to live goes in time, although its window stays.
#[test]
fn entries_with_a_time_of_their_own_go_before_their_window() {
    let place = Place::new(6);
    let mut settings = Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20);
    settings = settings.delete_age_max(Duration::from_secs(600));
    let env = Env::over(Arc::new(place.disk.clone()))
        .background(Arc::new(Stepped))
        .clock(place.clock.clone());
    let db = Db::open_with(env, settings).unwrap();
    let keyspace = db.keyspace("k", windows(None)).unwrap();
    keyspace.put_with_ttl(b"00000001", VALUE, 4 * MINUTE).unwrap();
    keyspace.put(b"00000002", VALUE).unwrap();
    place.pass(&db, 200);
    assert!(runs(&db)[0].0 == 6 && bytes(&db) > 2_000, "{}", bytes(&db));
    place.pass(&db, 660);
    assert!(bytes(&db) < 2_000, "{}", bytes(&db));
    assert_eq!(keyspace.count(..).unwrap(), 1);
}

type Model = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

/// Writes, flushes, compactions, time, reopenings and power losses, against a map. With a limit of bytes,
/// what is gone is older than all that is left, and what has gone stays so.
#[test]
fn a_keyspace_with_windows_holds_what_was_written_over_power_losses() {
    for seed in 0..24 {
        let most = (seed % 2 == 1).then_some(1 << 20);
        let (mut rng, mut place) = (Rng::new(seed), Place::new(seed));
        let mut db = place.open();
        let mut keyspace = db.keyspace("k", windows(most)).unwrap();
        let (mut model, mut number, mut gone) = (Model::new(), 0_u64, 0_u64);
        for _ in 0..400 {
            let key = (100 + rng.below(60)).to_be_bytes().to_vec();
            match rng.below(40) {
                0..24 => {
                    number += 1;
                    let value = vec![number as u8; 100 + rng.below(15_000) as usize];
                    keyspace.put(&key, &value).unwrap();
                    model.insert(key, (number, Some(value)));
                }
                24..27 => {
                    number += 1;
                    keyspace.delete(&key).unwrap();
                    model.insert(key, (number, None));
                }
                27 => db.flush().unwrap(),
                28 => db.compact().unwrap(),
                29 => {
                    drop(keyspace);
                    match rng.one_in(2) {
                        true => db.close().unwrap(),
                        false => {
                            let left = place.disk.crash();
                            drop(db);
                            place.disk = left;
                        }
                    }
                    db = place.open();
                    keyspace = db.open_keyspace("k").unwrap();
                    assert_eq!(keyspace.settings().unwrap(), windows(most));
                }
                30..34 => place.pass(&db, 1 + rng.below(50)),
                34 => {
                    // Somewhere within the work, which may fail then.
                    place.disk.crash_after(1 + rng.below(60));
                    _ = db.flush();
                    _ = rng.one_in(2).then(|| db.compact());
                    place.pass(&db, 70);
                    let left = place.disk.crash();
                    drop((keyspace, db));
                    place.disk = left;
                    db = place.open();
                    keyspace = db.open_keyspace("k").unwrap();
                }
                _ => gone = check(&keyspace, &model, gone, most.is_some(), seed),
            }
        }
        assert!(most.is_none() || gone > 0, "seed {seed}: nothing had to go");
    }
}

/// Checks what is found, and returns the newest write that is gone.
fn check(keyspace: &Keyspace, model: &Model, gone: u64, may_lose: bool, seed: u64) -> u64 {
    let found: BTreeMap<Vec<u8>, Vec<u8>> = keyspace
        .iter()
        .map(|pair| pair.map(|(key, value)| (key.into_vec(), value.into_vec())).unwrap())
        .collect();
    let (mut newest_gone, mut oldest_left) = (gone, u64::MAX);
    for (key, (number, value)) in model {
        let is_found = found.get(key);
        assert_eq!(keyspace.get(key).unwrap().as_deref(), is_found.map(|it| &it[..]));
        match (value, is_found) {
            (Some(value), Some(found)) => {
                assert_eq!(value, found, "seed {seed}: {key:?}");
                oldest_left = oldest_left.min(*number);
            }
            (Some(_), None) => {
                assert!(may_lose, "seed {seed}: {key:?} is lost");
                newest_gone = newest_gone.max(*number);
            }
            (None, found) => assert_eq!(found, None, "seed {seed}: {key:?} was deleted"),
        }
    }
    assert!(newest_gone < oldest_left, "seed {seed}: {newest_gone} went, {oldest_left} did not");
    assert!(found.len() <= model.len());
    newest_gone
}
