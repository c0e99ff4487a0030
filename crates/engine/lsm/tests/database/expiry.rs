//! Entries that expire: what reads see of them, wherever they are, while the calendar moves.

use crate::clock::HandClock;
use crate::support::{copied, small};
use esker_api::{Cursor, KeyRange};
use esker_base::background::Stepped;
use esker_base::{Error, Rng};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Settings, Shape, Snapshot};
use esker_storage::{FaultStorage, MemoryStorage};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Place {
    pub(crate) storage: Arc<MemoryStorage>,
    pub(crate) clock: Arc<HandClock>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { storage: Arc::new(MemoryStorage::new()), clock: HandClock::new() }
    }

    pub(crate) fn open_with(&self, settings: Settings) -> Db {
        let (background, clock) = (Arc::new(Stepped), self.clock.clone());
        let env = Env::over(self.storage.clone()).background(background).clock(clock);
        Db::open_with(env, settings).unwrap()
    }

    pub(crate) fn open(&self) -> Db {
        self.open_with(small())
    }
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Everything that writes have put there: what is below operands, until when, and operands.
#[derive(Clone, Default, Debug)]
struct Written {
    base: Option<(Vec<u8>, u64)>,
    operands: Option<Vec<u8>>,
}

impl Written {
    fn at(&self, now: u64) -> Option<Vec<u8>> {
        let base = self.base.as_ref().filter(|(_, until)| *until > now);
        let base = base.map(|(value, _)| value.clone());
        match &self.operands {
            Some(operands) => Some([base.unwrap_or_default(), operands.clone()].concat()),
            None => base,
        }
    }
}

type Model = BTreeMap<Vec<u8>, Written>;

fn living(model: &Model, now: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    model.iter().filter_map(|(key, it)| Some((key.clone(), it.at(now)?))).collect()
}

/// Reads `keyspace` at `at` in every way and compares it with `model`.
#[track_caller]
fn check(keyspace: &Keyspace, at: &Snapshot, model: &BTreeMap<Vec<u8>, Vec<u8>>, rng: &mut Rng) {
    let keys: Vec<_> = (0..20_u8).map(|key| vec![key]).collect();
    let found = at.multi_get(keyspace, &keys).unwrap();
    for (key, several) in keys.iter().zip(found) {
        let found = at.get(keyspace, key).unwrap();
        assert_eq!(found.as_deref(), model.get(key).map(|it| &it[..]), "get of {key:?}");
        assert_eq!(found, several, "multi_get of {key:?}");
    }
    let start = [rng.below(20) as u8];
    for range in [KeyRange::all(), KeyRange::from(&start[..]..)] {
        let expected: Vec<_> = model.iter().filter(|(key, _)| range.contains(key)).collect();
        let expected: Vec<_> =
            expected.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut cursor = at.cursor(keyspace, range.clone()).unwrap();
        for is_forward in [true, false] {
            if is_forward { cursor.seek_first() } else { cursor.seek_last() }.unwrap();
            let mut found = Vec::new();
            while let Some((key, value)) = cursor.current() {
                found.push((key.to_vec(), value.to_vec()));
                if is_forward { cursor.next() } else { cursor.prev() }.unwrap();
            }
            if !is_forward {
                found.reverse();
            }
            assert_eq!(found, expected, "forward {is_forward}, {range:?}");
        }
        let both: Vec<_> = at.range(keyspace, range).map(copied).collect();
        assert_eq!(both, expected);
    }
}

/// A cursor that rests while time passes and the database works: what it finds from there on. Returns
/// whether it was on an entry.
#[track_caller]
fn check_step(
    cursor: &mut impl Cursor,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    is_forward: bool,
) -> bool {
    let Some(from) = cursor.current().map(|(key, _)| key.to_vec()) else { return false };
    if is_forward { cursor.next() } else { cursor.prev() }.unwrap();
    let expected = match is_forward {
        true => model.range(from.clone()..).find(|(key, _)| **key > from),
        false => model.range(..from.clone()).next_back(),
    };
    let found = cursor.current().map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert_eq!(found, expected.map(|(key, value)| (key.clone(), value.clone())), "from {from:?}");
    true
}

/// Every write, flush, compaction, snapshot, reopening and step of time, against a map.
#[test]
fn reads_see_an_entry_until_it_expires_and_not_after() {
    let mut steps = 0;
    for seed in 0..150 {
        let (mut rng, place) = (Rng::new(seed), Place::new());
        let settings = small().delete_age_max(Duration::MAX);
        let mut db = place.open_with(settings.clone());
        let appending = KeyspaceSettings::default().merge("append");
        let mut keyspace = db.keyspace("texts", appending).unwrap();
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        let mut resting: Option<(esker_lsm::DbCursor, Model)> = None;
        for step in 0..250_u32 {
            let key = vec![rng.below(20) as u8];
            let now = place.clock.millis();
            match rng.below(40) {
                0..14 => {
                    let (value, ttl) = (format!("={step} "), rng.below(200));
                    keyspace.put_with_ttl(&key, &value, ms(ttl)).unwrap();
                    let base = Some((value.into_bytes(), now + ttl));
                    model.insert(key, Written { base, operands: None });
                }
                14..17 => {
                    let value = format!("={step} ");
                    keyspace.put(&key, &value).unwrap();
                    let base = Some((value.into_bytes(), u64::MAX));
                    model.insert(key, Written { base, operands: None });
                }
                17..20 => {
                    let operand = format!("+{step} ");
                    keyspace.merge(&key, &operand).unwrap();
                    let operands = &mut model.entry(key).or_default().operands;
                    operands.get_or_insert_default().extend(operand.bytes());
                }
                20 => {
                    keyspace.delete(&key).unwrap();
                    model.remove(&key);
                }
                21 => {
                    let end = vec![key[0] + 1 + rng.below(4) as u8];
                    keyspace.delete_range(&key[..]..&end[..]).unwrap();
                    model.retain(|other, _| !(&key..&end).contains(&other));
                }
                22 | 23 => db.flush().unwrap(),
                24 => while rng.one_in(2) && db.run_background_job() {},
                25 => db.compact_keyspace(&keyspace).unwrap(),
                26 if snapshots.len() < 4 => snapshots.push((db.snapshot(), model.clone())),
                27 if !snapshots.is_empty() => {
                    drop(snapshots.swap_remove(rng.below(snapshots.len() as u64) as usize));
                }
                28 if rng.one_in(4) => {
                    (snapshots, resting) = (Vec::new(), None);
                    db.close().unwrap();
                    db = place.open_with(settings.clone());
                    keyspace = db.open_keyspace("texts").unwrap();
                    // It begins at the mark at the earliest.
                    place.clock.pass(1_000);
                }
                29 => {
                    let mut cursor = keyspace.cursor(..).unwrap();
                    if rng.one_in(2) { cursor.seek_first() } else { cursor.seek_last() }.unwrap();
                    resting = Some((cursor, model.clone()));
                }
                30..32 => {
                    if let Some((cursor, model)) = &mut resting {
                        let model = living(model, now);
                        steps += u32::from(check_step(cursor, &model, rng.one_in(2)));
                    }
                }
                32..36 => place.clock.pass(rng.below(60)),
                _ => {
                    check(&keyspace, &db.snapshot(), &living(&model, now), &mut rng);
                    for (at, model) in &snapshots {
                        check(&keyspace, at, &living(model, now), &mut rng);
                    }
                }
            }
        }
    }
    assert!(steps > 150, "{steps} steps of resting cursors");
}

#[test]
fn an_entry_is_there_up_to_the_last_millisecond() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    for is_in_table in [false, true] {
        keyspace.put_with_ttl("k", "v", ms(10)).unwrap();
        if is_in_table {
            db.flush().unwrap();
        }
        place.clock.pass(9);
        assert_eq!(keyspace.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        place.clock.pass(1);
        assert_eq!(keyspace.get("k").unwrap(), None);
    }
    keyspace.put_with_ttl("k", "v", Duration::ZERO).unwrap();
    assert_eq!(keyspace.get("k").unwrap(), None);
    keyspace.put_with_ttl("k", "v", Duration::MAX).unwrap();
    place.clock.pass(u64::from(u32::MAX) << 8);
    assert_eq!(keyspace.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// What reads remember of a hot key expires with the value below its operands.
#[test]
fn a_hot_key_loses_the_value_below_its_operands() {
    let place = Place::new();
    let db = place.open();
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).unwrap();
    sums.put_with_ttl("k", 1_000_i64.to_le_bytes(), ms(10)).unwrap();
    for merges in 1..=200_i64 {
        sums.merge("k", 1_i64.to_le_bytes()).unwrap();
        let sum = merges + if merges <= 100 { 1_000 } else { 0 };
        assert_eq!(sums.get("k").unwrap().as_deref(), Some(&sum.to_le_bytes()[..]));
        assert_eq!(sums.first().unwrap().unwrap().1, sum.to_le_bytes());
        if merges == 100 {
            place.clock.pass(10);
        }
    }
}

#[test]
fn a_snapshot_does_not_keep_an_entry_alive_and_what_it_hid_stays_hidden() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    keyspace.put("k", "old").unwrap();
    let before = db.snapshot();
    db.flush().unwrap();
    keyspace.put_with_ttl("k", "new", ms(10)).unwrap();
    let at = db.snapshot();
    let check = |new: Option<&str>| {
        assert_eq!(keyspace.get("k").unwrap().as_deref(), new.map(str::as_bytes));
        assert_eq!(at.get(&keyspace, "k").unwrap().as_deref(), new.map(str::as_bytes));
        assert_eq!(before.get(&keyspace, "k").unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(at.iter(&keyspace).count(), usize::from(new.is_some()));
        assert_eq!(before.iter(&keyspace).count(), 1);
    };
    check(Some("new"));
    place.clock.pass(10);
    check(None);
    db.flush().unwrap();
    check(None);
    db.compact().unwrap();
    check(None);
    drop((before, at));
    db.compact().unwrap();
    assert_eq!(keyspace.get("k").unwrap(), None);
    let is_empty =
        |levels: &esker_lsm::KeyspaceLevels| levels.levels.iter().all(|it| it.runs.is_empty());
    assert!(db.levels().iter().all(is_empty), "nothing is left");
}

/// A database over `disk`. What ends it is a power loss: a close would write the time.
fn open_over(disk: &FaultStorage, clock: &Arc<HandClock>) -> Db {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped)).clock(clock.clone());
    Db::open_with(env, small()).unwrap()
}

#[test]
fn a_calendar_that_is_set_back_brings_nothing_back() {
    let (mut disk, clock) = (FaultStorage::new(Rng::new(1)), HandClock::new());
    let db = open_over(&disk, &clock);
    db.default_keyspace().put_with_ttl("k", "v", ms(10)).unwrap();
    db.default_keyspace().put_with_ttl("later", "v", ms(100_000)).unwrap();
    // In a table, which no flush or compaction writes again.
    db.flush().unwrap();
    clock.pass(50_000);
    assert_eq!(db.get(&db.default_keyspace(), "k").unwrap(), None);
    clock.set_back(50_000);
    assert_eq!(db.get(&db.default_keyspace(), "k").unwrap(), None, "while it is open");
    disk = disk.crash();
    drop(db);
    for way in 0..3 {
        let db = open_over(&disk, &clock);
        let keyspace = db.default_keyspace();
        let found = match way {
            0 => keyspace.get("k").unwrap(),
            1 => keyspace.multi_get(["k"]).unwrap().remove(0),
            _ => keyspace.range("k"..="k").next().map(|it| it.unwrap().1),
        };
        assert_eq!(found, None, "after it was opened again");
        assert!(keyspace.contains_key("later").unwrap());
        // The manifest of this open begins with all that the one before had.
        keyspace.put("more", "v").unwrap();
        db.flush().unwrap();
        // Before a drop closes it.
        disk = disk.crash();
    }
}

/// The same if only a scan has met the entry.
#[test]
fn what_a_scan_found_expired_stays_so_after_the_calendar_is_set_back() {
    for is_forward in [true, false] {
        let (disk, clock) = (FaultStorage::new(Rng::new(2)), HandClock::new());
        let db = open_over(&disk, &clock);
        for key in 0..100_u8 {
            db.put_with_ttl(&db.default_keyspace(), [key], "v", ms(10)).unwrap();
        }
        db.flush().unwrap();
        clock.pass(50_000);
        let keyspace = db.default_keyspace();
        let found = if is_forward { keyspace.first() } else { keyspace.last() };
        assert_eq!(found.unwrap(), None);
        clock.set_back(50_000);
        let db = open_over(&disk.crash(), &clock);
        assert_eq!(db.default_keyspace().count(..).unwrap(), 0);
    }
}

#[test]
fn a_read_of_memory_alone_does_not_write_that_time_has_passed() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    keyspace.put_with_ttl("k", "v", ms(10)).unwrap();
    assert_eq!(keyspace.try_get("k").unwrap().as_deref(), Some(&b"v"[..]));
    place.clock.pass(50_000);
    assert!(matches!(keyspace.try_get("k"), Err(Error::WouldBlock)));
    assert_eq!(keyspace.get("k").unwrap(), None);
    assert_eq!(keyspace.try_get("k").unwrap(), None);
}

#[test]
fn a_transaction_sees_its_own_entries_until_it_commits_and_time_begins_then() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    keyspace.put("a", "1").unwrap();
    let mut tx = db.transaction().unwrap();
    tx.put_with_ttl(&keyspace, "b", "2", ms(10)).unwrap();
    place.clock.pass(100);
    assert_eq!(tx.get(&keyspace, "b").unwrap().as_deref(), Some(&b"2"[..]));
    let all: Vec<_> = tx.iter(&keyspace).map(copied).collect();
    assert_eq!(all, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
    tx.commit().unwrap();
    place.clock.pass(9);
    assert_eq!(keyspace.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    place.clock.pass(1);
    assert_eq!(keyspace.get("b").unwrap(), None);
    // That it was written is a conflict, whether it has expired or not.
    let mut tx = db.transaction().unwrap();
    assert_eq!(tx.get(&keyspace, "c").unwrap(), None);
    keyspace.put_with_ttl("c", "3", ms(10)).unwrap();
    place.clock.pass(10);
    db.compact().unwrap();
    assert!(matches!(tx.put(&keyspace, "c", "4"), Err(Error::Conflict { .. })));
}

#[test]
fn a_transaction_s_range_goes_on_behind_an_entry_that_has_expired() {
    for own in [false, true] {
        let place = Place::new();
        let db = place.open();
        let keyspace = db.default_keyspace();
        for key in ["a", "c", "e"] {
            keyspace.put(key, "stays").unwrap();
        }
        for key in ["b", "d"] {
            keyspace.put_with_ttl(key, "goes", ms(10)).unwrap();
        }
        let mut tx = db.transaction().unwrap();
        if own {
            tx.put(&keyspace, "bb", "own").unwrap();
        }
        let mut range = tx.iter(&keyspace);
        let mut next = |is_front: bool| {
            let item = if is_front { range.next() } else { range.next_back() };
            item.map(|it| String::from_utf8(it.unwrap().0.into_vec()).unwrap())
        };
        assert_eq!(next(true).as_deref(), Some("a"));
        assert_eq!(next(true).as_deref(), Some("b"));
        assert_eq!(next(false).as_deref(), Some("e"));
        assert_eq!(next(false).as_deref(), Some("d"));
        place.clock.pass(10);
        db.flush().unwrap();
        db.compact().unwrap();
        if own {
            assert_eq!(next(true).as_deref(), Some("bb"));
        }
        assert_eq!(next(true).as_deref(), Some("c"));
        assert_eq!(next(true), None);
    }
}

#[test]
fn a_batch_that_is_written_twice_lives_from_each_write() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.default_keyspace();
    let mut batch = db.batch();
    // An edge key: the batch is mapped.
    batch.put_with_ttl(&keyspace, "", "empty", ms(10));
    batch.put_with_ttl(&keyspace, "k", "v", ms(10));
    for _ in 0..2 {
        db.write(&batch).unwrap();
        place.clock.pass(9);
        let found = keyspace.multi_get(["", "k"]).unwrap();
        assert_eq!(found[0].as_deref(), Some(&b"empty"[..]));
        assert_eq!(found[1].as_deref(), Some(&b"v"[..]));
        place.clock.pass(1);
        assert_eq!(keyspace.count(..).unwrap(), 0);
    }
}

#[test]
fn a_checkpoint_has_entries_that_expire_as_they_do_here() {
    let place = Place::new();
    let db = place.open();
    db.put_with_ttl(&db.default_keyspace(), "k", "v", ms(10)).unwrap();
    let copy = Arc::new(MemoryStorage::new());
    db.checkpoint_to(&*copy).unwrap();
    let copied = Place { storage: copy, clock: place.clock.clone() };
    let other = copied.open();
    let get = || other.get(&other.default_keyspace(), "k").unwrap();
    assert_eq!(get().as_deref(), Some(&b"v"[..]));
    place.clock.pass(10);
    assert_eq!(get(), None);
}

/// Where every entry of a table has expired, the table goes by an edit. Here no table can be read.
#[test]
fn a_table_of_expired_entries_alone_goes_without_being_read() {
    for shape in [Shape::Leveled { ratio: 10 }, Shape::Tiered { runs: 8 }] {
        let clock = HandClock::new();
        let disk = FaultStorage::new(Rng::new(7));
        let env =
            || Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped)).clock(clock.clone());
        let db = Db::open_with(env(), small()).unwrap();
        let keyspace = db.keyspace("k", KeyspaceSettings::default().shape(shape)).unwrap();
        let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
        other.put("k", "v").unwrap();
        db.flush().unwrap();
        // Few enough that none is compacted.
        for round in 0..3_u64 {
            for key in 0..50_u64 {
                let key = [round.to_be_bytes(), key.to_be_bytes()].concat();
                keyspace.put_with_ttl(key, [7; 100], ms(1_000 * (round + 1))).unwrap();
            }
            db.flush().unwrap();
        }
        while db.run_background_job() {}
        let tables = || -> usize {
            let levels = db.levels();
            let all = levels.iter().flat_map(|it| &it.levels).flat_map(|level| &level.runs);
            all.map(|run| run.tables.len()).sum()
        };
        assert_eq!(tables(), 4);
        disk.fail_read_after(0);
        for left in [2, 1, 0] {
            clock.pass(999);
            while db.run_background_job() {}
            assert_eq!(tables(), left + 2, "a millisecond before");
            clock.pass(1);
            while db.run_background_job() {}
            assert_eq!(tables(), left + 1);
        }
        assert_eq!(keyspace.count(..).unwrap(), 0);
        assert!(other.get("k").is_err(), "this is the first read");
    }
}

/// What an expired entry hides must not come back with the table gone.
#[test]
fn a_table_that_hides_older_versions_stays_until_they_go() {
    let place = Place::new();
    let db = place.open();
    let keyspace = db.keyspace("k", KeyspaceSettings::default().shape(Shape::Tiered { runs: 8 }));
    let keyspace = keyspace.unwrap();
    keyspace.put("m", "old").unwrap();
    db.flush().unwrap();
    keyspace.put_with_ttl("m", "new", ms(10)).unwrap();
    db.flush().unwrap();
    place.clock.pass(10);
    while db.run_background_job() {}
    assert_eq!(keyspace.get("m").unwrap(), None);
    // Older ones that have expired as well go with it, unless a snapshot is older than they are.
    let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
    other.put_with_ttl("m", "1", ms(50)).unwrap();
    db.flush().unwrap();
    let before = db.snapshot();
    other.put_with_ttl("m", "2", ms(10)).unwrap();
    db.flush().unwrap();
    let runs = || -> usize {
        let levels = db.levels();
        let other = levels.iter().find(|it| it.name == "other").unwrap();
        other.levels.iter().map(|level| level.runs.len()).sum()
    };
    place.clock.pass(20);
    while db.run_background_job() {}
    assert_eq!((runs(), other.get("m").unwrap()), (2, None), "the older one has not expired");
    place.clock.pass(30);
    while db.run_background_job() {}
    assert_eq!(runs(), 1, "the snapshot is older than the newer one");
    drop(before);
    while db.run_background_job() {}
    assert_eq!(runs(), 0);
}
