//! Keyspaces with a time to live: entries expire by their age.

use crate::clock::HandClock;
use crate::support::small;
use esker_base::background::Stepped;
use esker_base::{Error, Rng};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Shape};
use esker_storage::MemoryStorage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000;
const TTL: Duration = Duration::from_secs(100);
/// How late an entry expires at most, in milliseconds: the age of a write is known to a sixty-fourth,
/// and steps are as far apart.
const LATE: u64 = 100 * SECOND / 30 + 2 * SECOND;

struct Place {
    storage: Arc<MemoryStorage>,
    clock: Arc<HandClock>,
}

impl Place {
    fn new() -> Self {
        Place { storage: Arc::new(MemoryStorage::new()), clock: HandClock::new() }
    }

    fn open(&self) -> Db {
        let (background, clock) = (Arc::new(Stepped), self.clock.clone());
        let env = Env::over(self.storage.clone()).background(background).clock(clock);
        Db::open_with(env, small().delete_age_max(Duration::MAX)).unwrap()
    }

    /// Lets time pass, a second at a time, with the work that it brings.
    fn pass(&self, db: &Db, millis: u64) {
        for _ in 0..millis / SECOND {
            self.clock.pass(SECOND);
            while db.run_background_job() {}
        }
    }
}

fn settings() -> KeyspaceSettings {
    KeyspaceSettings::default().ttl(TTL)
}

/// What is found in each way.
#[track_caller]
fn found(keyspace: &Keyspace, key: &[u8]) -> bool {
    let is_found = keyspace.get(key).unwrap().is_some();
    assert_eq!(keyspace.multi_get([key]).unwrap()[0].is_some(), is_found);
    let range = || keyspace.range(key..=key);
    assert_eq!(range().next().is_some(), is_found);
    assert_eq!(range().next_back().is_some(), is_found);
    is_found
}

#[test]
fn an_entry_expires_by_its_age_wherever_it_is() {
    for moves in 0..4 {
        let place = Place::new();
        let db = place.open();
        let keyspace = db.keyspace("k", settings()).unwrap();
        let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
        for keyspace in [&keyspace, &other] {
            keyspace.put("k", "v").unwrap();
        }
        if moves > 0 {
            db.flush().unwrap();
        }
        if moves > 1 {
            db.compact().unwrap();
        }
        let before = db.snapshot();
        place.pass(&db, 100 * SECOND - SECOND);
        assert!(found(&keyspace, b"k"), "moves {moves}");
        if moves > 2 {
            db.compact().unwrap();
        }
        keyspace.put("later", "v").unwrap();
        place.pass(&db, LATE + SECOND);
        assert!(!found(&keyspace, b"k") && found(&keyspace, b"later"), "moves {moves}");
        assert_eq!(before.get(&keyspace, "k").unwrap(), None);
        assert!(found(&other, b"k"));
        db.compact().unwrap();
        assert!(!found(&keyspace, b"k") && found(&keyspace, b"later") && found(&other, b"k"));
    }
}

#[test]
fn a_time_to_live_that_is_set_applies_to_what_is_there_and_one_that_is_unset_to_nothing_more() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
    keyspace.put("zeroed", "v").unwrap();
    db.compact().unwrap();
    place.pass(&db, 50 * SECOND);
    keyspace.put("old", "v").unwrap();
    db.flush().unwrap();
    place.pass(&db, 50 * SECOND);
    assert!(matches!(keyspace.set_ttl(Some(Duration::ZERO)), Err(Error::InvalidSetting { .. })));
    keyspace.put("before", "v").unwrap();
    keyspace.set_ttl(Some(TTL)).unwrap();
    assert_eq!(keyspace.settings().unwrap().ttl, Some(TTL));
    keyspace.put("new", "v").unwrap();
    let is = |zeroed, old, new| {
        let is = [(b"zeroed".as_slice(), zeroed), (b"old", old), (b"new", new)];
        is.into_iter().all(|(key, is)| found(&keyspace, key) == is)
    };
    place.pass(&db, 40 * SECOND);
    assert!(is(true, true, true));
    place.pass(&db, 10 * SECOND + LATE + 8 * SECOND);
    // The age of what was flushed before the first time to live is known to an eighth.
    assert!(is(true, false, true), "what lost its seqno is as old as the last write before");
    db.compact().unwrap();
    assert!(is(true, false, true));
    place.pass(&db, 50 * SECOND);
    assert!(is(false, false, false));
    // A longer one, or none, brings nothing back.
    keyspace.set_ttl(Some(10 * TTL)).unwrap();
    assert!(is(false, false, false));
    keyspace.put("new", "v").unwrap();
    keyspace.set_ttl(None).unwrap();
    place.pass(&db, 300 * SECOND);
    assert!(is(false, false, true));
    db.compact().unwrap();
    assert!(is(false, false, true));
}

#[test]
fn what_has_expired_stays_so_over_restarts_whatever_the_calendar_says() {
    let place = Place::new();
    let mut db = place.open();
    let keyspace = db.keyspace("k", settings()).unwrap();
    keyspace.put("k", "v").unwrap();
    db.flush().unwrap();
    place.pass(&db, 100 * SECOND + LATE);
    assert!(!found(&keyspace, b"k"));
    keyspace.put("later", "v").unwrap();
    for set_back in [0, 1_000 * SECOND] {
        db.close().unwrap();
        place.clock.set_back(set_back);
        db = place.open();
        // The settings of the creation are no error, and change nothing.
        let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
        assert!(!found(&keyspace, b"k") && found(&keyspace, b"later"));
    }
    let keyspace = db.open_keyspace("k").unwrap();
    // What was written before the calendar was set back counts from then.
    place.pass(&db, 50 * SECOND);
    assert!(found(&keyspace, b"later"));
    keyspace.put("last", "v").unwrap();
    place.pass(&db, 100 * SECOND + LATE);
    assert!(!found(&keyspace, b"later") && !found(&keyspace, b"last"));
}

/// The mark of time of entries with times of their own stays ahead of it. It says nothing of ages.
#[test]
fn a_calendar_that_was_ahead_for_a_while_makes_nothing_older_that_is_written_later() {
    let place = Place::new();
    let mut db = place.open();
    let keyspace = db.keyspace("k", settings()).unwrap();
    let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
    other.put_with_ttl("k", "v", Duration::ZERO).unwrap();
    place.clock.jump(1_000 * SECOND);
    assert!(!found(&other, b"k"));
    place.clock.set_back(1_000 * SECOND);
    place.pass(&db, 2 * SECOND);
    keyspace.put("later", "v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    db = place.open();
    let keyspace = db.open_keyspace("k").unwrap();
    place.pass(&db, 80 * SECOND);
    assert!(found(&keyspace, b"later"));
    place.pass(&db, 20 * SECOND + LATE + 13 * SECOND);
    assert!(!found(&keyspace, b"later"));
}

/// A compaction may have merged operands of different ages.
#[test]
fn a_keyspace_with_a_merge_operator_has_no_time_to_live() {
    let db = Place::new().open();
    let refused = |error: Error| {
        assert!(error.to_string().contains("merge operator"), "{error}");
    };
    refused(db.keyspace("k", settings().merge("append")).map(|_| ()).unwrap_err());
    let keyspace = db.keyspace("k", KeyspaceSettings::default().merge("append")).unwrap();
    refused(keyspace.set_ttl(Some(TTL)).unwrap_err());
    assert_eq!(keyspace.settings().unwrap().ttl, None);
}

#[test]
fn whole_tables_that_are_old_enough_go_and_leave_no_older_version() {
    for shape in [Shape::Leveled { ratio: 10 }, Shape::Tiered { runs: 8 }] {
        let place = Place::new();
        let db = place.open();
        let keyspace = db.keyspace("k", settings().shape(shape)).unwrap();
        let tables = || -> usize {
            let levels = db.levels();
            let keyspace = levels.iter().find(|it| it.name == "k").unwrap();
            let runs = keyspace.levels.iter().flat_map(|level| &level.runs);
            runs.map(|run| run.tables.len()).sum()
        };
        for key in 0..200_u64 {
            keyspace.put(key.to_be_bytes(), [7; 100]).unwrap();
        }
        db.compact().unwrap();
        place.pass(&db, 50 * SECOND);
        for key in 0..200_u64 {
            keyspace.put(key.to_be_bytes(), [8; 100]).unwrap();
        }
        db.flush().unwrap();
        place.pass(&db, 50 * SECOND + LATE);
        assert_eq!(keyspace.count(..).unwrap(), 200, "the newer ones");
        place.pass(&db, 50 * SECOND);
        assert_eq!((keyspace.count(..).unwrap(), tables()), (0, 0));
    }
}

/// Writes, flushes, compactions, reopenings and time, against a map of what was written when.
#[test]
fn no_entry_expires_early_and_none_late() {
    for seed in 0..40 {
        let (mut rng, place) = (Rng::new(seed), Place::new());
        let mut db = place.open();
        let mut keyspace = db.keyspace("k", settings()).unwrap();
        // When each was written, and when it was flushed.
        let mut model: BTreeMap<Vec<u8>, (u64, Option<u64>)> = BTreeMap::new();
        // What was written before counts from its flush, with an eighth of its age.
        let mut opened_at = 0;
        let flush = |model: &mut BTreeMap<_, (u64, Option<u64>)>| {
            let now = place.clock.millis();
            model.values_mut().for_each(|(_, flushed)| _ = flushed.get_or_insert(now));
        };
        for _ in 0..150 {
            let key = vec![rng.below(12) as u8];
            match rng.below(20) {
                0..9 => {
                    keyspace.put(&key, "v").unwrap();
                    model.insert(key, (place.clock.millis(), None));
                }
                9 => {
                    keyspace.delete(&key).unwrap();
                    model.remove(&key);
                }
                10 => {
                    db.flush().unwrap();
                    flush(&mut model);
                }
                11 => {
                    db.compact_keyspace(&keyspace).unwrap();
                    flush(&mut model);
                }
                12 if rng.one_in(3) => {
                    db.close().unwrap();
                    flush(&mut model);
                    db = place.open();
                    keyspace = db.open_keyspace("k").unwrap();
                    opened_at = place.clock.millis();
                }
                13..16 => place.pass(&db, (1 + rng.below(30)) * SECOND),
                _ => {
                    let now = place.clock.millis();
                    for key in (0..12_u8).map(|key| vec![key]) {
                        let is_found = found(&keyspace, &key);
                        let Some((written, flushed)) = model.get(&key) else {
                            assert!(!is_found, "seed {seed}: {key:?}");
                            continue;
                        };
                        let late = match flushed {
                            Some(at) if *written < opened_at => {
                                at - written + 100 * SECOND / 7 + SECOND
                            }
                            _ => 0,
                        };
                        let age = now - written;
                        if age < 100 * SECOND {
                            assert!(is_found, "seed {seed}: {key:?} of age {age}");
                        } else if age >= 100 * SECOND + LATE + late {
                            assert!(!is_found, "seed {seed}: {key:?} of age {age}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_has_expired_stays_so_over_power_losses_before_any_inspection() {
    let (mut disk, clock) = (esker_storage::FaultStorage::new(Rng::new(4)), HandClock::new());
    let open = |disk: &esker_storage::FaultStorage| {
        let (background, clock) = (Arc::new(Stepped), clock.clone());
        let env = Env::over(Arc::new(disk.clone())).background(background).clock(clock);
        Db::open_with(env, small()).unwrap()
    };
    let db = open(&disk);
    let keyspace = db.keyspace("k", settings()).unwrap();
    keyspace.put("k", "v").unwrap();
    db.flush().unwrap();
    // Up to the job that lets it expire. The next one would remove its table.
    while found(&keyspace, b"k") {
        if !db.run_background_job() {
            clock.pass(SECOND);
        }
    }
    disk = disk.crash();
    drop(db);
    for _ in 0..3 {
        let db = open(&disk);
        assert!(!found(&db.open_keyspace("k").unwrap(), b"k"));
        // The manifest of this open begins with all that the one before had.
        db.default_keyspace().put("more", "v").unwrap();
        db.flush().unwrap();
        // Before a drop closes it.
        disk = disk.crash();
    }
}

#[test]
fn writes_that_a_power_loss_takes_leave_their_seqnos_unexpired() {
    let disk = esker_storage::FaultStorage::new(Rng::new(3));
    let clock = HandClock::new();
    let open = |disk: &esker_storage::FaultStorage| {
        let (background, clock) = (Arc::new(Stepped), clock.clone());
        let env = Env::over(Arc::new(disk.clone())).background(background).clock(clock);
        let log = esker_lsm::Log::File { dir: None, sync: esker_lsm::SyncPolicy::Os };
        Db::open_with(env, small().log(log)).unwrap()
    };
    let db = open(&disk);
    let keyspace = db.keyspace("k", settings()).unwrap();
    for key in 0..50_u8 {
        keyspace.put([key], "v").unwrap();
    }
    for _ in 0..110 {
        clock.pass(SECOND);
        while db.run_background_job() {}
    }
    assert_eq!(keyspace.count(..).unwrap(), 0);
    let left = disk.crash();
    drop(db);
    let db = open(&left);
    let keyspace = db.open_keyspace("k").unwrap();
    keyspace.put("new", "v").unwrap();
    assert!(found(&keyspace, b"new"));
}
