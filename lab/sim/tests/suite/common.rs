//! Databases on simulated disks, for tests that arrange their own mishaps.
#![allow(dead_code, reason = "each test uses some of it")]

use esker_base::background::Stepped;
use esker_base::{Result, Rng};
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use esker_sim::clock::SimClock;
use esker_storage::{FaultStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a database holds in its default keyspace.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Small segments, so that little data makes a lot of work.
pub fn settings(sync: SyncPolicy) -> Settings {
    Settings::default()
        .log(Log::File { dir: None, sync })
        .segment_bytes(64 << 10)
        .sealed_segments(4)
        .memory_bytes(4 << 20)
        .background_threads(1)
}

/// An empty disk.
pub fn disk(seed: u64) -> FaultStorage {
    FaultStorage::new(Rng::new(seed))
}

/// An environment on `disk`, with the log on `log_disk` if that is given.
pub fn env(disk: &FaultStorage, log_disk: Option<&FaultStorage>, seed: u64) -> Env {
    let mut env = Env::over(Arc::new(disk.clone()))
        .clock(Arc::new(SimClock::default()))
        .background(Arc::new(Stepped))
        .seed(seed);
    env.log_storage = log_disk.map(|disk| Arc::new(disk.clone()) as Arc<dyn Storage>);
    env
}

/// An empty pool of three extents.
pub fn pool() -> Arc<SimRegion> {
    let memory = Arc::new(SimRegion::new((8 << 10) + 3 * (64 << 10)));
    Pool::format(memory.clone(), "pool", 7).unwrap();
    memory
}

/// An environment on `disk`, with the pool that `memory` holds.
pub fn pool_env(disk: &FaultStorage, memory: &Arc<SimRegion>) -> Env {
    env(disk, None, 1).pool(Pool::over(memory.clone(), "pool").unwrap())
}

/// The log in a pool.
pub fn pool_settings() -> Settings {
    let log = Log::Pmem { pool: "pool".into(), emulated: true };
    settings(SyncPolicy::Always).log(log)
}

/// Opens the database on `disk`.
pub fn open(disk: &FaultStorage, sync: SyncPolicy) -> Result<Db> {
    Db::open_with(env(disk, None, 1), settings(sync))
}

/// Key number `number`.
pub fn key(number: u32) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

/// Sets key `number` to a value of `bytes` bytes.
pub fn put(db: &Db, number: u32, bytes: usize) -> Result<()> {
    db.put(&db.default_keyspace(), key(number), vec![number as u8; bytes])
}

/// All entries.
pub fn pairs(db: &Db) -> Result<Pairs> {
    let pairs = db.range(&db.default_keyspace(), ..);
    pairs.map(|pair| pair.map(|(key, value)| (key.into_vec(), value.into_vec()))).collect()
}

/// Loses the power of the machine that `db` runs on. Gives the disk of the next.
pub fn lose_power(disk: &FaultStorage, db: Db) -> FaultStorage {
    let next = disk.crash();
    drop(db);
    next
}
