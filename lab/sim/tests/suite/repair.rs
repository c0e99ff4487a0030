//! What a repair keeps must survive the next power loss, and what nothing is wrong with it must leave
//! alone.

use crate::common;
use crate::common::{
    Pairs, disk, env, lose_power, pairs, pool, pool_env, pool_settings, put, settings,
};
use esker_base::Result;
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::{MissingLogPolicy, RepairReport};
use esker_lsm::{Db, SyncPolicy};
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use esker_storage::FaultStorage;
use std::sync::{Arc, Mutex};

fn inspector(disk: &FaultStorage) -> Inspector {
    let storage = Arc::new(disk.clone());
    Inspector::of(storage.clone(), storage)
}

fn pool_inspector(disk: &FaultStorage, memory: &Arc<SimRegion>) -> Inspector {
    let pool = Pool::over(memory.clone(), "pool").unwrap();
    Inspector::of_pool(Arc::new(disk.clone()), pool)
}

fn open_in_pool(disk: &FaultStorage, memory: &Arc<SimRegion>) -> Result<Db> {
    Db::open_with(pool_env(disk, memory), pool_settings())
}

/// A table of its own, so that there is something to drop.
fn damage_table(disk: &FaultStorage) {
    let table = disk.files().into_iter().find(|name| name.ends_with(".tables")).unwrap();
    disk.bit_flip(&table, 3, 0);
}

/// Writes one entry after a repair, and gives all that must be there from then on.
fn write_on(db: &Db) -> Pairs {
    put(db, 200, 10).unwrap();
    db.sync().unwrap();
    pairs(db).unwrap()
}

#[test]
fn what_a_repair_keeps_of_a_log_that_was_never_synced_is_durable() {
    for seed in 0..30 {
        let disk = disk(seed);
        let db = Db::open_with(env(&disk, None, 1), settings(SyncPolicy::Os)).unwrap();
        put(&db, 0, 10).unwrap();
        db.flush().unwrap();
        (1..40).for_each(|number| put(&db, number, 1000).unwrap());
        let disk = {
            let next = disk.kill();
            drop(db);
            next
        };
        damage_table(&disk);
        let repaired = inspector(&disk).repair(MissingLogPolicy::Refuse).unwrap();
        assert_eq!((repaired.lost_tables.len(), repaired.log_entries), (1, 39), "{repaired:?}");
        let db = common::open(&disk, SyncPolicy::Os).unwrap();
        let expected = write_on(&db);
        assert_eq!(expected.len(), 40, "seed {seed}");
        let disk = lose_power(&disk, db);
        let db = common::open(&disk, SyncPolicy::Os)
            .unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert_eq!(pairs(&db).unwrap(), expected, "seed {seed}");
    }
}

/// A process dies between the store of its last write and the fence.
#[test]
fn what_a_repair_keeps_of_a_pool_is_durable() {
    let (disk, memory) = (disk(1), pool());
    let db = open_in_pool(&disk, &memory).unwrap();
    put(&db, 0, 10).unwrap();
    db.flush().unwrap();
    (1..10).for_each(|number| put(&db, number, 100).unwrap());
    let left = Arc::new(Mutex::new(None));
    let (slot, dying) = (left.clone(), disk.clone());
    memory.interrupt_after(1, move |moment| {
        *slot.lock().unwrap() = Some((moment.kill(), dying.kill()));
        None
    });
    put(&db, 10, 100).unwrap();
    drop(db);
    let (memory, disk) = left.lock().unwrap().take().unwrap();
    let memory = Arc::new(memory);
    assert!(memory.crash().unsettled() > 0, "the last write is not durable");
    damage_table(&disk);
    let repaired = pool_inspector(&disk, &memory).repair(MissingLogPolicy::Refuse).unwrap();
    assert_eq!((repaired.lost_tables.len(), repaired.log_entries), (1, 10), "{repaired:?}");
    let db = open_in_pool(&disk, &memory).unwrap();
    let expected = write_on(&db);
    assert_eq!(expected.len(), 11);
    let disk = lose_power(&disk, db);
    // The image with nothing but what is durable.
    let memory = Arc::new(memory.crash().image(0).to_region());
    let db = open_in_pool(&disk, &memory).unwrap();
    assert_eq!(pairs(&db).unwrap(), expected);
}

/// Whatever a power loss leaves of a pool, there is nothing to report and nothing to repair.
#[test]
fn what_a_power_loss_leaves_of_a_pool_is_no_damage() {
    for seed in 0..40 {
        let (disk, memory) = (disk(seed), pool());
        let db = open_in_pool(&disk, &memory).unwrap();
        let mut rng = esker_base::Rng::new(seed);
        let images = Arc::new(Mutex::new(Vec::new()));
        let (sink, living) = (images.clone(), disk.clone());
        memory.interrupt_after(1 + rng.below(40), move |moment| {
            let memory = moment.crash().sample(&mut rng).to_region();
            sink.lock().unwrap().push((memory, living.crash_image(rng.clone())));
            Some(1 + rng.below(60))
        });
        for number in 0..60 {
            put(&db, number, 1500).unwrap();
            if number % 25 == 10 {
                db.flush().unwrap();
            }
        }
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 2, "seed {seed}: {}", images.len());
        for (memory, disk) in images {
            let inspector = pool_inspector(&disk, &Arc::new(memory));
            let mut problems = Vec::new();
            inspector.check(&mut |problem| problems.push(problem.to_string())).unwrap();
            assert!(problems.is_empty(), "seed {seed}: {problems:?}");
            let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
            let RepairReport { cut_logs, adopted_logs, lost_tables, set_aside, .. } = repaired;
            assert!(cut_logs.is_empty() && adopted_logs.is_empty(), "seed {seed}: {cut_logs:?}");
            assert!(lost_tables.is_empty() && set_aside.is_empty(), "seed {seed}");
        }
    }
}
