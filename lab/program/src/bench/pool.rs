//! Pools of persistent memory for stores under measurement. They are emulated, on tmpfs: the same
//! instructions run on DRAM, and the reports say so.

use crate::failure::{Failure, Outcome};
use crate::units::parse_bytes;
use clap::Args;
use esker_base::SystemClock;
use esker_pmem::{Accept, InjectedLatency, Pool};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What the report says is not what it is called.
pub const EMULATED: &str = "persistent memory, by DRAM on tmpfs";

/// The pool of an engine that has one.
#[derive(Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[command(next_help_heading = "Persistent memory, emulated")]
pub struct PoolSettings {
    /// A directory on tmpfs for the pools of engines that have one, and for logs on emulated devices
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub pool_dir: PathBuf,
    /// The size of each pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    pub pool: usize,
    /// Nanoseconds that each cache line read from a pool, and each fence, takes longer
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub pool_delay: u64,
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings { pool_dir: "/dev/shm".into(), pool: 1 << 30, pool_delay: 0 }
    }
}

impl PoolSettings {
    /// A new pool. Its file has no name any more: it goes with the process, however that ends.
    pub fn make(&self) -> Outcome<Arc<Pool>> {
        let failed =
            |error| Failure::io("create", format!("a pool in {}", self.pool_dir.display()), error);
        let dir = tempfile::Builder::new()
            .prefix("esker-pool-")
            .tempdir_in(&self.pool_dir)
            .map_err(failed)?;
        let path = dir.path().join("pool");
        let pool = Pool::create(&path, self.pool as u64, Accept::Emulated)?;
        if self.pool_delay == 0 {
            return Ok(pool);
        }
        drop(pool);
        let delay = Duration::from_nanos(self.pool_delay);
        let delays = InjectedLatency { line_read: delay, line_write: Duration::ZERO, fence: delay };
        Ok(Pool::open_delayed(&path, Accept::Emulated, delays, Arc::new(SystemClock::new()))?)
    }

    /// The settings by name, and what `pool`, made by them, is cut into.
    pub fn named(&self, pool: &Pool) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("pool_bytes".to_owned(), self.pool.to_string()),
            ("pool_extents".to_owned(), pool.extents().to_string()),
            ("pool_extent_bytes".to_owned(), pool.extent_bytes().to_string()),
            ("pool_delay_ns".to_owned(), self.pool_delay.to_string()),
            ("pool_memory".to_owned(), EMULATED.to_owned()),
        ])
    }
}

/// What a store holds of `pool` now: whole extents, as no other thread can have the rest of one.
pub fn held_bytes(pool: &Pool) -> u64 {
    (pool.extents() - pool.free()) as u64 * pool.extent_bytes() as u64
}
