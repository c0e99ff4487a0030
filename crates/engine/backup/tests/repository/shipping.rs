//! Shipping the log, and restores of the points in time between backups.

use crate::{Model, repository, small};
use esker_backup::{PointInTime, Repository, ShipReport};
use esker_base::{BackupError, Clock, Error, Result, Rng, SystemClock};
use esker_lsm::{Db, Env, KeyspaceSettings, LiveFiles, Log, Settings, SyncPolicy};
use esker_storage::{FaultStorage, MemoryStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

const BOUND: u64 = 1 << 30;

fn synced() -> Settings {
    small().log(Log::File { dir: None, sync: SyncPolicy::Always })
}

fn database() -> Db {
    Db::open_with(Env::over(Arc::new(MemoryStorage::new())), synced()).unwrap()
}

/// All keyspaces that are not empty by name, with their entries.
pub type Everything = BTreeMap<String, Model>;

pub fn everything(db: &Db) -> Everything {
    let all = db.keyspaces().into_iter().map(|info| {
        let keyspace = db.open_keyspace(&info.name).unwrap();
        let entries = keyspace.iter().map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        });
        (info.name, entries.collect::<Model>())
    });
    all.filter(|(_, entries)| !entries.is_empty()).collect()
}

fn restored_to(repository: &Repository, point: PointInTime) -> Result<Everything> {
    let target: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    repository.restore_to_into(point, target.clone())?;
    let db = Db::open_with(Env::over(target.clone()), synced())?;
    let found = everything(&db);
    // It takes writes, and opens again.
    db.default_keyspace().put("after", "1")?;
    db.close()?;
    let db = Db::open_with(Env::over(target), synced())?;
    assert_eq!(db.default_keyspace().get("after")?.as_deref(), Some(&b"1"[..]));
    Ok(found)
}

fn refusal(repository: &Repository, point: PointInTime) -> String {
    match restored_to(repository, point) {
        Err(Error::Backup(error)) if matches!(*error, BackupError::NoSuchPoint { .. }) => {
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

fn date(milliseconds: u64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds as i64).unwrap().to_string()
}

/// A database and its history.
struct World {
    rng: Rng,
    db: Db,
    repository: Repository,
    seqno: u64,
    /// What the writes so far make, worked out here.
    now: Everything,
    /// What there was after each write.
    history: BTreeMap<u64, Everything>,
}

impl World {
    fn new(seed: u64) -> World {
        let repository = repository(Arc::new(MemoryStorage::new()));
        let history = [(0, Everything::new())].into();
        let (rng, now) = (Rng::new(seed), Everything::new());
        World { rng, db: database(), repository, seqno: 0, now, history }
    }

    fn key(&mut self) -> String {
        format!("{:03}", self.rng.below(60))
    }

    fn write(&mut self) {
        let names: Vec<_> = self.db.keyspaces().into_iter().map(|info| info.name).collect();
        let mut batch = self.db.batch();
        let entries = if self.rng.one_in(60) { 500 } else { 1 + self.rng.below(5) };
        for _ in 0..entries {
            let name = &names[self.rng.below(names.len() as u64) as usize];
            let keyspace = self.db.open_keyspace(name).unwrap();
            let (key, other) = (self.key(), self.key());
            let value = vec![self.rng.below(256) as u8; self.rng.below(400) as usize];
            let model = self.now.entry(name.clone()).or_default();
            match self.rng.below(8) {
                0 => {
                    model.remove(key.as_bytes());
                    batch.delete(&keyspace, key);
                }
                1 if name != "default" => {
                    let operand = &value[..value.len() / 8];
                    model.entry(key.clone().into()).or_default().extend(operand);
                    batch.merge(&keyspace, key, operand);
                }
                2 if entries < 100 && key < other && self.rng.one_in(3) => {
                    let range = key.as_bytes()..other.as_bytes();
                    model.retain(|key, _| !range.contains(&&key[..]));
                    batch.delete_range(&keyspace, key..other);
                }
                _ => {
                    model.insert(key.clone().into(), value.clone());
                    batch.put(&keyspace, key, value);
                }
            }
        }
        self.db.write(&batch).unwrap();
        self.seqno += batch.len() as u64;
        self.note();
    }

    /// Notes what there is now.
    fn note(&mut self) {
        let all = self.now.iter().filter(|(_, entries)| !entries.is_empty());
        let all = all.map(|(name, entries)| (name.clone(), entries.clone()));
        self.history.insert(self.seqno, all.collect());
    }

    fn change_keyspaces(&mut self) {
        let name = format!("space{}", self.rng.below(2));
        match self.db.open_keyspace(&name) {
            Ok(keyspace) => {
                self.db.drop_keyspace(&keyspace).unwrap();
                self.now.remove(&name);
            }
            Err(_) => {
                let settings = KeyspaceSettings::default().merge("append");
                drop(self.db.keyspace(&name, settings).unwrap());
            }
        }
    }

    fn ship(&self) -> ShipReport {
        self.repository.ship(&self.db, BOUND).unwrap()
    }

    /// What there was at `seqno`: inside a batch, before it.
    fn at(&self, seqno: u64) -> &Everything {
        self.history.range(..=seqno).next_back().unwrap().1
    }
}

#[test]
fn every_tenth_seqno_of_a_history_is_restored_as_it_was() {
    for seed in 0..3 {
        let mut world = World::new(seed);
        world.ship();
        for _ in 0..200 {
            match world.rng.below(30) {
                0..2 => drop(world.ship()),
                2 => world.change_keyspaces(),
                3 => world.db.flush().unwrap(),
                4 => drop(world.repository.back_up(&world.db).unwrap()),
                _ => world.write(),
            }
        }
        assert_eq!(world.ship().seqno, world.seqno);
        let ranges = world.repository.restorable().unwrap();
        let [whole] = ranges[..] else { panic!("seed {seed}: {ranges:?}") };
        assert_eq!((whole.first, whole.last), (0, world.seqno));
        assert!(whole.from <= whole.to);
        for seqno in (0..=world.seqno).step_by(10).chain([world.seqno]) {
            let found = restored_to(&world.repository, PointInTime::Seqno(seqno)).unwrap();
            assert!(found == *world.at(seqno), "seed {seed}, seqno {seqno}");
        }
        assert_eq!(everything(&world.db), *world.at(world.seqno));
        let beyond = refusal(&world.repository, PointInTime::Seqno(world.seqno + 1));
        assert!(beyond.contains(&format!("seqnos 0 to {}", world.seqno)), "{beyond}");
    }
}

/// What is between them is in the log that is kept for the repository.
#[test]
fn a_backup_before_the_first_shipment_leaves_no_gap() {
    let mut world = World::new(7);
    assert_eq!(world.ship().shipments, 0, "there is nothing but the backup");
    (0..5).for_each(|_| world.write());
    world.repository.back_up(&world.db).unwrap();
    world.write();
    assert_eq!(world.ship().backup, None);
    let [whole] = world.repository.restorable().unwrap()[..] else { panic!("more than one") };
    assert_eq!((whole.first, whole.last), (0, world.seqno));
    for seqno in 0..=world.seqno {
        let found = restored_to(&world.repository, PointInTime::Seqno(seqno)).unwrap();
        assert!(found == *world.at(seqno), "{seqno}");
    }
}

/// The logs after a shipment are gone: the backup that is made then takes its place.
#[test]
fn logs_that_are_gone_cost_one_backup_beside_the_writer() {
    let mut world = World::new(11);
    world.ship();
    world.write();
    assert_eq!(world.ship().shipments, 1);
    let through = world.seqno;
    world.db.drop_change_consumer(&world.repository.consumer()).unwrap();
    while world.db.oldest_change().unwrap() <= through + 1 {
        world.write();
        world.db.flush().unwrap();
    }
    let beside = |world: &World| {
        let lineage = world.db.lineage().unwrap();
        let files = &mut || world.db.live_files();
        world.repository.ship_beside(&world.db, &lineage, world.seqno, files).unwrap()
    };
    assert_eq!(world.repository.shipped_through().unwrap(), Some(through));
    let report = beside(&world);
    assert!(report.backup.is_some() && report.seqno == world.seqno, "{report:?}");
    for _ in 0..3 {
        world.write();
        let report = beside(&world);
        assert_eq!((report.backup, report.shipments, report.seqno), (None, 1, world.seqno));
    }
    let found = restored_to(&world.repository, PointInTime::Seqno(world.seqno)).unwrap();
    assert!(found == *world.at(world.seqno));
}

/// Files were put back from a copy after the first backup, which has later writes than the second.
#[test]
fn logs_are_kept_from_the_end_of_the_newest_backup() {
    let mut world = World::new(13);
    (0..20).for_each(|_| world.write());
    world.repository.back_up(&world.db).unwrap();
    let put_back: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Env::over(put_back.clone()), synced()).unwrap();
    db.default_keyspace().put("a", "1").unwrap();
    db.close().unwrap();
    let files = LiveFiles::of_checkpoint_in(put_back, world.db.identity()).unwrap();
    world.repository.back_up_files(&files, &mut |_| true).unwrap();
    assert_eq!(world.repository.shipped_through().unwrap(), Some(files.flushed_through()));
    assert!(files.flushed_through() < world.seqno);
}

#[test]
fn a_time_restores_what_was_shipped_by_then() {
    let mut world = World::new(1);
    world.write();
    world.ship();
    let first = (world.seqno, world.repository.backups().unwrap()[0].made);
    world.write();
    std::hint::black_box(world.ship());
    let made = world.repository.shipments().unwrap().last().unwrap().made;
    let now = restored_to(&world.repository, PointInTime::Time(made)).unwrap();
    assert_eq!(now, *world.at(world.seqno));
    if made > first.1 {
        let then = restored_to(&world.repository, PointInTime::Time(first.1)).unwrap();
        assert_eq!(then, *world.at(first.0));
    }
    let before = refusal(&world.repository, PointInTime::Time(first.1 - 1));
    assert!(before.contains(&format!("cannot restore {}", date(first.1 - 1))), "{before}");
    assert!(before.contains(&format!("it can restore {} and later", date(first.1))), "{before}");
}

#[test]
fn a_moment_before_the_oldest_backup_lists_what_is_possible() {
    let mut world = World::new(2);
    (0..20).for_each(|_| world.write());
    let oldest = world.seqno;
    world.ship();
    (0..20).for_each(|_| world.write());
    world.ship();
    let told = refusal(&world.repository, PointInTime::Seqno(oldest - 1));
    assert!(told.contains(&format!("it can restore seqnos {oldest} to {}", world.seqno)), "{told}");
    // A prune takes the shipments that only an older backup used.
    let middle = world.seqno;
    world.repository.back_up(&world.db).unwrap();
    world.write();
    world.ship();
    world.repository.prune(1).unwrap();
    let told = refusal(&world.repository, PointInTime::Seqno(middle - 1));
    assert!(told.contains(&format!("seqnos {middle} to {}", world.seqno)), "{told}");
    assert!(world.repository.shipments().unwrap().iter().all(|it| it.last >= middle));
}

#[test]
fn an_ingest_makes_a_backup_and_what_is_before_it_stays_possible() {
    let mut world = World::new(3);
    (0..10).for_each(|_| world.write());
    world.ship();
    (0..10).for_each(|_| world.write());
    let before = world.seqno;
    world.db.ingest(&world.db.default_keyspace(), [("x", "ingested")]).unwrap();
    world.now.entry("default".into()).or_default().insert("x".into(), "ingested".into());
    world.seqno += 1;
    (0..10).for_each(|_| world.write());
    assert!(world.ship().backup.is_some());
    (0..10).for_each(|_| world.write());
    assert_eq!(world.ship().backup, None);
    for seqno in [before - 1, before, world.seqno] {
        let found = restored_to(&world.repository, PointInTime::Seqno(seqno)).unwrap();
        assert!(found == *world.at(seqno), "{seqno}");
    }
    let told = refusal(&world.repository, PointInTime::Seqno(before + 1));
    assert!(told.contains(&format!("the ingest at {}", before + 1)), "{told}");
}

#[test]
fn a_large_value_makes_a_backup_that_has_it_and_what_is_before_it_stays_possible() {
    let mut world = World::new(4);
    (0..10).for_each(|_| world.write());
    world.ship();
    (0..10).for_each(|_| world.write());
    let before = world.seqno;
    let value = "large ".repeat(100_000).into_bytes();
    world.db.put_reader(&world.db.default_keyspace(), "x", &value[..]).unwrap();
    world.now.entry("default".into()).or_default().insert("x".into(), value);
    world.seqno += 1;
    (0..10).for_each(|_| world.write());
    assert!(world.ship().backup.is_some());
    for seqno in [before, world.seqno] {
        let found = restored_to(&world.repository, PointInTime::Seqno(seqno)).unwrap();
        assert!(found == *world.at(seqno), "{seqno}");
    }
    let told = refusal(&world.repository, PointInTime::Seqno(before + 1));
    assert!(told.contains(&format!("the ingest at {}", before + 1)), "{told}");
    let mut problems = Vec::new();
    world.repository.verify(&mut |problem| problems.push(problem), &mut |_| true).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn settings_that_were_changed_are_restored() {
    let mut world = World::new(6);
    (0..10).for_each(|_| world.write());
    world.ship();
    let day = std::time::Duration::from_secs(86_400);
    let fresh = world.db.keyspace("fresh", KeyspaceSettings::default().ttl(day)).unwrap();
    fresh.put("a", "1").unwrap();
    world.seqno += 1;
    assert!(world.ship().backup.is_some(), "it has a time to live");
    let before = world.seqno;
    fresh.set_ttl(Some(2 * day)).unwrap();
    fresh.put("b", "2").unwrap();
    world.seqno += 1;
    assert!(world.ship().backup.is_some(), "another");
    fresh.put("c", "3").unwrap();
    assert_eq!(world.ship().backup, None, "nothing was changed since");
    for (seqno, ttl) in [(before, day), (world.seqno + 1, 2 * day)] {
        let target: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        world.repository.restore_to_into(PointInTime::Seqno(seqno), target.clone()).unwrap();
        let db = Db::open_with(Env::over(target), synced()).unwrap();
        let fresh = db.open_keyspace("fresh").unwrap();
        assert_eq!(fresh.settings().unwrap().ttl, Some(ttl), "{seqno}");
        assert_eq!(fresh.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_missing_or_damaged_shipment_is_named_and_nothing_is_overwritten() {
    let storage = MemoryStorage::new();
    let mut world = World::new(4);
    world.repository = repository(Arc::new(storage.clone()));
    for _ in 0..4 {
        (0..5).for_each(|_| world.write());
        world.ship();
    }
    let shipments = world.repository.shipments().unwrap();
    let name = format!("{:020}.frames", shipments[1].first);
    let file = storage.open(&name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    storage.remove(&name).unwrap();
    let told = refusal(&world.repository, PointInTime::Seqno(world.seqno));
    assert!(told.contains(&name), "{told}");
    restored_to(&world.repository, PointInTime::Seqno(shipments[0].last)).unwrap();

    *bytes.last_mut().unwrap() ^= 1;
    let mut file =
        storage.create(&name, esker_base::WriteHint::of(esker_base::FileKind::Log)).unwrap();
    file.append(&bytes).unwrap();
    let target: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let point = PointInTime::Seqno(world.seqno);
    let error = world.repository.restore_to_into(point, target.clone()).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(&name), "{error}");
    assert!(target.list().unwrap().iter().all(|name| name == "LOCK"));
    let mut problems = Vec::new();
    world.repository.verify(&mut |error| problems.push(error.to_string()), &mut |_| true).unwrap();
    assert!(problems.len() == 1 && problems[0].contains(&name), "{problems:?}");
}

#[test]
fn a_power_loss_in_a_shipment_leaves_what_was_there_and_the_next_goes_on() {
    let whole = FaultStorage::new(Rng::new(1));
    let run = |disk: &FaultStorage| -> (World, Result<ShipReport>) {
        let mut world = World::new(5);
        world.repository = repository(Arc::new(disk.clone()));
        let mut shipped = Ok(ShipReport::default());
        for _ in 0..3 {
            (0..4).for_each(|_| world.write());
            shipped = shipped.and_then(|_| world.repository.ship(&world.db, BOUND));
        }
        (world, shipped)
    };
    run(&whole).1.unwrap();
    for calls in 0..whole.operations() {
        let disk = FaultStorage::new(Rng::new(calls));
        disk.crash_after(calls);
        let (mut world, shipped) = run(&disk);
        shipped.unwrap_err();
        world.repository = repository(Arc::new(disk.crash()));
        for range in world.repository.restorable().unwrap() {
            for seqno in [range.first, range.last] {
                let found = restored_to(&world.repository, PointInTime::Seqno(seqno)).unwrap();
                assert!(found == *world.at(seqno), "call {calls}, seqno {seqno}");
            }
        }
        world.write();
        world.ship();
        let found = restored_to(&world.repository, PointInTime::Seqno(world.seqno)).unwrap();
        assert!(found == *world.at(world.seqno), "call {calls}");
    }
}

/// A database that lost writes which were shipped, by damage at the end of its log. Returns it, and the last
/// write that was shipped.
fn that_lost_writes(repository: &Repository) -> (Db, u64) {
    let storage = FaultStorage::new(Rng::new(1));
    let db = Db::open_with(Env::over(Arc::new(storage.clone())), synced()).unwrap();
    repository.ship(&db, BOUND).unwrap();
    (0..50_u8).for_each(|key| db.default_keyspace().put([key], [key; 50]).unwrap());
    let shipped = repository.ship(&db, BOUND).unwrap().seqno;
    let storage = storage.kill();
    drop(db);
    for log in storage.files().into_iter().filter(|name| name.ends_with(".log")) {
        let mut bytes = storage.read_all(&log).unwrap();
        bytes.iter_mut().skip(300).for_each(|byte| *byte = 0);
        storage.write_all(&log, &bytes);
    }
    let db = Db::open_with(Env::over(Arc::new(storage)), synced()).unwrap();
    assert!(db.snapshot().seqno() < shipped);
    (db, shipped)
}

/// The next call makes a backup, and goes on.
#[test]
fn a_database_that_lost_shipped_writes_is_backed_up_again() {
    let repository = repository(Arc::new(MemoryStorage::new()));
    let (db, _) = that_lost_writes(&repository);
    let report = repository.ship(&db, BOUND).unwrap();
    let last = db.snapshot().seqno();
    assert!(report.backup.is_some() && report.seqno == last, "{report:?}");
    let newest = repository.backups().unwrap().pop().unwrap();
    assert_eq!(newest.seqno, last);
}

/// Other writes have the sequence numbers of the lost ones, and more: what was shipped of the lost ones is not joined
/// with what is shipped then.
#[test]
fn two_histories_with_the_same_seqnos_are_not_joined() {
    for new_writes in [20, 100] {
        let repository = repository(Arc::new(MemoryStorage::new()));
        let (db, shipped) = that_lost_writes(&repository);
        let before_loss = repository.shipments().unwrap().last().unwrap().made;
        // Times are in milliseconds, and what is made now is later.
        while SystemClock::new().calendar().as_millis() as u64 <= before_loss {
            std::hint::spin_loop();
        }
        let put = |writes: u8| {
            (0..writes).for_each(|key| db.default_keyspace().put([key], "new").unwrap());
        };
        put(new_writes);
        let (first, at_first) = (db.snapshot().seqno(), everything(&db));
        let report = repository.ship(&db, BOUND).unwrap();
        assert!(report.backup.is_some() && report.seqno == first, "{report:?}");
        put(30);
        let report = repository.ship(&db, BOUND).unwrap();
        let last = db.snapshot().seqno();
        assert!(report.backup.is_none() && report.seqno == last, "it goes on: {report:?}");
        for (seqno, expected) in [(first, at_first), (last, everything(&db))] {
            let found = restored_to(&repository, PointInTime::Seqno(seqno)).unwrap();
            assert_eq!(found, expected, "{seqno} of {last}, after {shipped}");
        }
        let newest = repository.shipments().unwrap().iter().map(|it| it.made).max().unwrap();
        let found = restored_to(&repository, PointInTime::Time(newest)).unwrap();
        assert_eq!(found, everything(&db));
        // By the time, the lost writes can still be had, unless a shipment replaced theirs.
        let lost = restored_to(&repository, PointInTime::Time(before_loss)).unwrap();
        assert_eq!(lost["default"][&vec![49]], [49; 50]);
    }
}
