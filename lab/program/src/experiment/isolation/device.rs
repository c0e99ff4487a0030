//! A modelled device, small enough that this machine keeps its dies busy, with a store on it.

use super::{SEED, load, policies};
use crate::failure::Outcome;
use esker::api::Kv;
use esker::api::Store;
use esker::env::Env;
use esker::{Db, Error, KeyspaceSettings, Log, Settings};
use esker_base::background::{Body, Priority, Running};
use esker_base::{Background, SystemClock, Threads};
use esker_flash::host_ftl::{DilatedClock, HostClock};
use esker_flash::placement::{AllUnits, Balanced, PlacementPolicy, Rotating};
use esker_flash::storage::{LIFETIMES, Usage};
use esker_flash::{FlashStorage, HostFtl, Preset, ReadPriority, SimulatedDevice};
use esker_peers::{Peer, PeerSettings, StorageLog};
use std::sync::Arc;

// A quarter of the preset's channels with half of their dies, and chunks of a thirty-second: as many chunks as a policy
// needs to choose among.
const GROUPS: u16 = 4;
const UNITS_PER_GROUP: u16 = 4;
const CHUNK_BYTES: u32 = 512 << 10;
const CHUNKS_PER_UNIT: u16 = 64;
/// What it is called in cases: not as the preset, whose figures are those of 128 dies.
pub(super) const NAME: &str = "cnex-mlc-16-dies";

/// Hardly more than indexes and filters.
const MEMORY_BYTES: usize = 24 << 20;
/// A merge takes in 25 tables of this size at the most: 2% of the device, so that it can be filled.
const SEGMENT_BYTES: usize = 512 << 10;
/// The least that the clock is slowed down: a processor of this machine does as much in the model's time as six.
const DILATION: f64 = 6.0;

/// What engine and YCSB have in common.
pub(super) fn settings() -> Vec<(&'static str, String)> {
    let preset = preset();
    let geometry = preset.geometry();
    vec![
        ("device_preset", policies::PRESET.to_owned()),
        ("device_groups", geometry.groups.to_string()),
        ("device_units_per_group", geometry.units_per_group.to_string()),
        ("device_chunks_per_unit", geometry.chunks_per_unit.to_string()),
        ("device_chunk_bytes", geometry.chunk_bytes.to_string()),
        ("device_planes", geometry.planes.to_string()),
        ("device_independent_plane_reads", preset.has_independent_plane_reads().to_string()),
        ("device_dilation_least", DILATION.to_string()),
        ("device_memory_bytes", MEMORY_BYTES.to_string()),
        ("device_segment_bytes", SEGMENT_BYTES.to_string()),
        ("device_log", "none".to_owned()),
        ("device_value_bytes", load::VALUE_BYTES.to_string()),
        ("device_threads", load::THREADS.to_string()),
        ("device_warm_up", load::WARM_UP.to_string()),
        ("device_updates", load::UPDATES.to_string()),
    ]
}

/// What is under test, by the names in the results: Esker under a policy, or RocksDB where units are shared.
pub(super) fn policies(form: ReadPriority) -> [Box<dyn PlacementPolicy + Send>; 3] {
    let rotating =
        Rotating::new(LIFETIMES, form != ReadPriority::HostOnly, preset().channel_units());
    [Box::new(AllUnits), Box::new(rotating), Box::new(Balanced)]
}

fn preset() -> Preset {
    let preset = Preset::named(policies::PRESET).expect("it comes with the program");
    preset
        .with_units(GROUPS, UNITS_PER_GROUP)
        .with_chunk_bytes(CHUNK_BYTES)
        .with_chunks_per_unit(CHUNKS_PER_UNIT)
}

/// Threads without priorities. The device is what is measured: who gets this machine's processors first must not decide
/// how far compaction comes.
struct EqualThreads;

impl Background for EqualThreads {
    fn spawn(
        &self,
        name: &str,
        _: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>, Error> {
        Threads.spawn(name, Priority::Normal, body)
    }
}

/// A store on a device of its own. It is written without time at first.
pub(super) struct Device {
    pub(super) host: Arc<HostFtl>,
    pub(super) storage: Arc<FlashStorage>,
    pub(super) clock: Arc<SystemClock>,
    store: AnyStore,
}

enum AnyStore {
    Esker { db: Db, store: Store },
    Peer(Box<dyn Peer>),
}

impl Device {
    /// Esker on a device that a policy places data on.
    pub(super) fn with_esker(
        form: ReadPriority,
        policy: Box<dyn PlacementPolicy + Send>,
    ) -> Outcome<Device> {
        Device::with(form, policy, |host, storage| {
            let db = open(host, storage)?;
            let keyspace = db.keyspace("load", KeyspaceSettings::default())?;
            let store = db.store(&keyspace);
            Ok(AnyStore::Esker { db, store })
        })
    }

    /// RocksDB on a device whose units are shared.
    pub(super) fn with_rocksdb(form: ReadPriority) -> Outcome<Device> {
        Device::with(form, Box::new(AllUnits), |_, storage| {
            let settings = PeerSettings {
                memory_bytes: MEMORY_BYTES,
                write_buffer_bytes: SEGMENT_BYTES,
                ..PeerSettings::default()
            };
            let peer = esker_peers::open_in_storage(storage, StorageLog::None, &settings)?;
            Ok(AnyStore::Peer(peer))
        })
    }

    fn with(
        form: ReadPriority,
        policy: Box<dyn PlacementPolicy + Send>,
        store: impl FnOnce(&Arc<HostFtl>, Arc<FlashStorage>) -> Result<AnyStore, Error>,
    ) -> Outcome<Device> {
        let clock = Arc::new(SystemClock::new());
        let pace = DilatedClock {
            clock: clock.clone(),
            dilation: DILATION,
            background: Arc::new(Threads),
        };
        let host = Arc::new(HostFtl::paced(&preset(), form, policy.sending(), SEED, pace)?);
        host.hold_writers(policy.admission(form));
        let zones = Arc::new(SimulatedDevice::new(host.clone()));
        let storage = Arc::new(FlashStorage::placed_by(zones, policy)?);
        host.set_timeless(true);
        let store = store(&host, storage.clone())?;
        Ok(Device { host, storage, clock, store })
    }

    pub(super) fn store(&self) -> &dyn Kv {
        match &self.store {
            AnyStore::Esker { store, .. } => store,
            AnyStore::Peer(peer) => &**peer,
        }
    }

    /// Lets compactions end, without time: what one load left to do is not done during the next.
    pub(super) fn settle(&self) -> Result<(), Error> {
        self.host.set_timeless(true);
        match &self.store {
            AnyStore::Esker { db, .. } => db.wait_for_compactions(),
            AnyStore::Peer(peer) => peer.settle(),
        }
    }

    /// How full it is, and what was written to it.
    pub(super) fn usage(&self) -> Usage {
        self.storage.usage()
    }

    /// The percentage of the device that files have.
    pub(super) fn alive_percent(&self) -> f64 {
        let usage = self.usage();
        usage.live_bytes as f64 / usage.good_bytes as f64 * 100.0
    }
}

fn open(host: &Arc<HostFtl>, storage: Arc<FlashStorage>) -> Result<Db, Error> {
    let env = Env::over(storage)
        .clock(Arc::new(HostClock(host.clone())))
        .background(Arc::new(EqualThreads))
        .seed(SEED);
    let settings = Settings::default()
        .log(Log::None)
        .segment_bytes(SEGMENT_BYTES)
        .memory_bytes(MEMORY_BYTES)
        .dram_table_bytes(0);
    Db::open_with(env, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_named_after_the_preset_and_the_dies_that_are_left_of_it() {
        let dies = preset().geometry().units();
        assert_eq!(NAME, format!("{}-{dies}-dies", policies::PRESET));
        assert!(dies < Preset::named(policies::PRESET).unwrap().geometry().units());
    }
}
