//! Crashes at every call of a backup, a prune, a restore, and of the database whose log is shipped.

use crate::shipping::{Everything, everything};
use crate::{Model, contents, database, in_memory, repository, restored, write};
use esker_backup::{PointInTime, Repository, Restorable};
use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, SyncPolicy};
use esker_storage::{FaultStorage, MemoryStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A database and its contents.
struct Sample {
    db: Db,
    model: Model,
}

fn sample() -> Sample {
    let (db, mut model) = (database(), Model::new());
    write(&db, &mut model, 0);
    Sample { db, model }
}

#[test]
fn a_power_loss_in_a_backup_leaves_the_earlier_ones_and_the_next_goes_on() {
    let Sample { db, mut model } = sample();
    let first = db.live_files().unwrap();
    let before = model.clone();
    write(&db, &mut model, 1);
    let second = db.live_files().unwrap();
    let run = |disk: &FaultStorage| {
        let repository = repository(Arc::new(disk.clone()));
        repository.back_up_files(&first, &mut |_| true)?;
        repository.back_up_files(&second, &mut |_| true)
    };
    let whole = FaultStorage::new(Rng::new(1));
    run(&whole).unwrap();
    let mut seen = [0; 3];
    for calls in 0..whole.operations() {
        let disk = FaultStorage::new(Rng::new(calls));
        disk.crash_after(calls);
        run(&disk).unwrap_err();
        let repository = repository(Arc::new(disk.crash()));
        let backups = repository.backups().unwrap();
        seen[backups.len()] += 1;
        for (backup, model) in backups.iter().zip([&before, &model]) {
            assert_eq!(contents(&restored(&repository, backup).unwrap()), *model, "cut at {calls}");
        }
        repository.back_up_files(&second, &mut |_| true).unwrap();
        let last = repository.backups().unwrap().pop().unwrap();
        assert_eq!(contents(&restored(&repository, &last).unwrap()), model, "cut at {calls}");
        let verified = repository.verify(&mut |error| panic!("{error}"), &mut |_| true).unwrap();
        assert_eq!(verified.intact.len(), backups.len() + 1);
    }
    assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
}

#[test]
fn a_power_loss_in_a_prune_leaves_backups_that_restore() {
    let Sample { db, mut model } = sample();
    let mut models = vec![model.clone()];
    let mut files = vec![db.live_files().unwrap()];
    for round in 1..4 {
        write(&db, &mut model, round);
        db.compact().unwrap();
        models.push(model.clone());
        files.push(db.live_files().unwrap());
    }
    let fill = |disk: &FaultStorage| {
        let repository = repository(Arc::new(disk.clone()));
        files.iter().for_each(|files| _ = repository.back_up_files(files, &mut |_| true).unwrap());
        repository
    };
    let whole = FaultStorage::new(Rng::new(1));
    let repository_of_all = fill(&whole);
    let filled = whole.operations();
    repository_of_all.prune(1).unwrap();
    let mut partly = 0;
    for calls in 0..whole.operations() - filled {
        let disk = FaultStorage::new(Rng::new(calls));
        let full = fill(&disk);
        disk.crash_after(calls);
        full.prune(1).unwrap_err();
        let repository = repository(Arc::new(disk.crash()));
        let backups = repository.backups().unwrap();
        partly += usize::from((2..4).contains(&backups.len()));
        assert_eq!(backups.last().unwrap().number, 4);
        for backup in &backups {
            let model = &models[backup.number as usize - 1];
            assert_eq!(contents(&restored(&repository, backup).unwrap()), *model, "cut at {calls}");
        }
        repository.prune(1).unwrap();
        assert_eq!(repository.backups().unwrap().len(), 1);
    }
    assert!(partly > 0);
}

#[test]
fn a_power_loss_in_a_restore_leaves_a_whole_database_or_none_and_a_restore_goes_on() {
    let Sample { db, model } = sample();
    let (_, repository) = in_memory();
    repository.back_up(&db).unwrap();
    let backup = repository.backups().unwrap().remove(0);
    let run = |disk: &FaultStorage| repository.restore_into(&backup, disk, &mut |_| true);
    let whole = FaultStorage::new(Rng::new(1));
    run(&whole).unwrap();
    let mut seen = [0; 2];
    for calls in 0..whole.operations() {
        let disk = FaultStorage::new(Rng::new(calls));
        disk.crash_after(calls);
        let cut = run(&disk);
        let disk = disk.crash();
        let is_database = disk.read_all("CURRENT").is_some();
        assert!(cut.is_err() || is_database);
        seen[usize::from(is_database)] += 1;
        if !is_database {
            run(&disk).unwrap();
        }
        assert_eq!(contents(&crate::over(Arc::new(disk))), model, "cut at {calls}");
    }
    assert!(seen[0] > 5 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_power_loss_in_a_restore_to_a_point_in_time_leaves_a_whole_database_or_none() {
    let (db, mut model) = (database(), Model::new());
    let (_, repository) = in_memory();
    let ship = || {
        db.sync().unwrap();
        repository.ship(&db, 1 << 30).unwrap()
    };
    write(&db, &mut model, 0);
    ship();
    // Several segments of the log, and several shipments.
    for round in 1..6 {
        write(&db, &mut model, round);
        ship();
    }
    let (point, expected) = (PointInTime::Seqno(ship().seqno), model.clone());
    write(&db, &mut model, 6);
    ship();
    let run = |disk: &FaultStorage| repository.restore_to_into(point, Arc::new(disk.clone()));
    let whole = FaultStorage::new(Rng::new(1));
    run(&whole).unwrap();
    let logs = whole.list().unwrap().iter().filter(|name| name.ends_with(".log")).count();
    assert!(logs > 1, "{logs}");
    let mut seen = [0; 2];
    for calls in 0..whole.operations() {
        let disk = FaultStorage::new(Rng::new(calls));
        disk.crash_after(calls);
        let cut = run(&disk);
        let disk = disk.crash();
        let is_database = disk.read_all("CURRENT").is_some();
        assert!(cut.is_err() || is_database);
        seen[usize::from(is_database)] += 1;
        if !is_database {
            run(&disk).unwrap();
        }
        let db = crate::over(Arc::new(disk));
        assert_eq!(contents(&db), expected, "cut at {calls}");
    }
    assert!(seen[0] > 10 && seen[1] > 0, "{seen:?}");
}

/// The database of [`ship_from`], what it had after each write, and the last write that was acknowledged.
struct Shipped {
    history: BTreeMap<u64, Everything>,
    acknowledged: u64,
}

/// Writes to a database on `disk`, and ships its log, until a call fails.
fn ship_from(disk: &FaultStorage, repository: &Repository, sync: SyncPolicy) -> Shipped {
    let mut model = Everything::new();
    let mut shipped = Shipped { history: [(0, Everything::new())].into(), acknowledged: 0 };
    let mut run = || -> Result<()> {
        let db = open(disk, sync)?;
        let rows = db.keyspace("rows", KeyspaceSettings::default())?;
        for round in 0..4_u8 {
            for key in 0..4_u8 {
                let value = vec![round; 6_000];
                model.entry("rows".into()).or_default().insert([key].into(), value.clone());
                shipped.history.insert(shipped.acknowledged + 1, model.clone());
                rows.put([key], value)?;
                shipped.acknowledged += 1;
            }
            if round == 2 {
                db.flush()?;
            }
            db.sync()?;
            let report = repository.ship(&db, 1 << 30)?;
            assert_eq!(report.seqno, shipped.acknowledged);
        }
        db.close()
    };
    let _ = run();
    shipped
}

fn open(disk: &FaultStorage, sync: SyncPolicy) -> Result<Db> {
    let settings = crate::small().log(Log::File { dir: None, sync });
    Db::open_with(Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped)), settings)
}

fn restored_to(repository: &Repository, seqno: u64) -> Everything {
    let target: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    repository.restore_to_into(PointInTime::Seqno(seqno), target.clone()).unwrap();
    everything(&crate::over(target))
}

/// At every call of the database's storage: what was shipped is in the database, and the next shipment goes on.
#[test]
fn a_crash_of_the_database_in_a_shipment_loses_nothing_and_the_next_goes_on() {
    for sync in [SyncPolicy::Always, SyncPolicy::Os] {
        let whole = FaultStorage::new(Rng::new(1));
        assert_eq!(ship_from(&whole, &in_memory().1, sync).acknowledged, 16);
        let mut partly = 0;
        for call in 0..whole.operations() {
            let (disk, (_, repository)) = (FaultStorage::new(Rng::new(call)), in_memory());
            disk.crash_after(call);
            let Shipped { mut history, acknowledged } = ship_from(&disk, &repository, sync);
            let disk = disk.crash();
            let db = open(&disk, sync).unwrap();
            let last = db.snapshot().seqno();
            assert!(
                sync != SyncPolicy::Always || last >= acknowledged,
                "call {call}: {last} of {acknowledged}"
            );
            assert_eq!(everything(&db), history[&last], "call {call}");
            let through = repository.shipped_through().unwrap().unwrap_or(0);
            assert!(through <= last, "call {call}: {through} was shipped, and {last} is there");
            partly += u32::from(through > 0 && through < 16);
            for range in repository.restorable().unwrap() {
                for seqno in range.first..=range.last {
                    assert_eq!(restored_to(&repository, seqno), history[&seqno], "call {call}");
                }
            }
            let rows = db.keyspace("rows", KeyspaceSettings::default()).unwrap();
            rows.put("after", "1").unwrap();
            db.sync().unwrap();
            history.insert(last + 1, everything(&db));
            let report = repository.ship(&db, 1 << 30).unwrap();
            assert_eq!(report.seqno, last + 1, "call {call}");
            for seqno in [through, last + 1] {
                let is_there = |range: &Restorable| (range.first..=range.last).contains(&seqno);
                if repository.restorable().unwrap().iter().any(is_there) {
                    assert_eq!(restored_to(&repository, seqno), history[&seqno], "call {call}");
                }
            }
            assert_eq!(restored_to(&repository, last + 1), history[&(last + 1)], "call {call}");
        }
        assert!(partly > 20, "{partly}");
    }
}
