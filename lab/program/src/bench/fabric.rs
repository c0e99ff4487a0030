//! Engines with a storage node between them and their device.
//!
//! | name | where the engine is | what goes over the network |
//! |---|---|---|
//! | `hashstore-node` | on the node: a hash store inside the reactors | keys and values |
//! | `lsm-node` | on the node: an Esker database | keys and values |
//! | `rocksdb-compute` | here: RocksDB, its files in a namespace of blocks | blocks |
//! | `esker-compute` | here: Esker, likewise | blocks |
//!
//! The node is a process of its own ([`node`](super::node)), reached through loopback, or through a [network](super::network) that
//! is emulated there.

pub use super::engine_settings::{Durability, FabricSettings};

use super::engine_settings::EngineSettings;
use super::node::{NodeKind, NodePlan};
use super::node_process::{Node, NodeSpent, connections};
use super::node_store::NodeStore;
use crate::failure::Outcome;
use esker::api::Store;
use esker::env::Env;
use esker::{Db, Error, KeyspaceSettings, Log, Result, SyncPolicy};
use esker_bench::accounting::TableDiskUsage;
use esker_bench::{Counters, Engine, Outcome as Measured, Row};
use esker_peers::{Peer, StorageLog};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The engines by name.
pub const NAMES: [&str; 4] = ["rocksdb-compute", "esker-compute", "hashstore-node", "lsm-node"];

/// Whether the engine of this name has a node.
pub fn is_one(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Fails if the engine can't be opened.
pub fn check(name: &str) -> Outcome {
    if name == "rocksdb-compute" {
        esker_peers::check("rocksdb-wal")?;
    }
    Ok(())
}

/// An engine, and its node.
pub struct FabricEngine {
    name: String,
    // In the order in which they go.
    side: Side,
    node: Node,
    settings: BTreeMap<String, String>,
}

enum Side {
    Keys(NodeStore),
    RocksDb { peer: Box<dyn Peer> },
    Own { db: Db, store: Store },
}

impl FabricEngine {
    /// Starts the node, whose file is next to `dir`, and opens the engine.
    pub fn open(name: &str, dir: &Path, settings: &EngineSettings) -> Outcome<Self> {
        let fabric = &settings.fabric;
        let (kind, path) = match name {
            "hashstore-node" => (NodeKind::Hash, dir.with_file_name("node-hash")),
            "lsm-node" => (NodeKind::Lsm, dir.to_owned()),
            _ => (NodeKind::Blocks, dir.with_file_name("node-blocks")),
        };
        let plan = NodePlan {
            kind,
            path,
            bytes: fabric.device_bytes,
            is_volatile: fabric.durability == Durability::Paper,
            segment_bytes: settings.segment_bytes,
            memory_bytes: settings.memory_bytes,
        };
        let node = Node::start(&plan, fabric.network)?;
        let mut named = named(fabric, plan.kind);
        named.extend(node.named()?);
        let side = match name {
            "rocksdb-compute" => {
                let log = match fabric.durability {
                    Durability::PowerSafe => StorageLog::Synced,
                    Durability::Paper => StorageLog::Written,
                };
                let storage = node.storage(fabric)?;
                let peer = esker_peers::open_in_storage(storage, log, &settings.peer()?)?;
                named.extend(peer.configuration());
                Side::RocksDb { peer }
            }
            "esker-compute" => own(&node, settings, &mut named)?,
            _ => Side::Keys(node.keys(fabric)?),
        };
        Ok(FabricEngine { name: name.to_owned(), side, node, settings: named })
    }

    /// What was set, by name.
    pub fn settings(&self) -> BTreeMap<String, String> {
        self.settings.clone()
    }

    /// What the node has done so far, and what is before it.
    pub fn node_spent(&self) -> Outcome<NodeSpent> {
        self.node.spent()
    }

    /// Closes the engine, and ends the node.
    pub fn close(self) -> Outcome {
        if let Side::Own { db, store } = self.side {
            drop(store);
            db.close()?;
        }
        Ok(())
    }
}

/// Esker here, its files there.
fn own(
    node: &Node,
    settings: &EngineSettings,
    named: &mut BTreeMap<String, String>,
) -> Outcome<Side> {
    let sync = match settings.fabric.durability {
        Durability::Paper => SyncPolicy::Os,
        Durability::PowerSafe => SyncPolicy::Always,
    };
    let own = settings.own(Log::File { dir: None, sync });
    let keyspace = KeyspaceSettings::default().compression(settings.compression()?);
    named.extend(super::engine::named(&own, &keyspace));
    let env = Env::over(node.storage(&settings.fabric)?);
    let db = Db::open_with(env, own)?;
    let store = db.store(&db.keyspace(super::engine::KEYSPACE, keyspace)?);
    Ok(Side::Own { db, store })
}

fn named(fabric: &FabricSettings, kind: NodeKind) -> BTreeMap<String, String> {
    let durability = match fabric.durability {
        Durability::Paper => {
            "as the paper has it: a volatile cache is announced, logs are not synced"
        }
        Durability::PowerSafe => "no volatile cache, logs are synced at each write",
    };
    let pairs = [
        ("durability", durability.to_owned()),
        ("connections", connections(kind, fabric.connections).to_string()),
        ("node", "a process of its own, one reactor".to_owned()),
        ("network", fabric.network.about()),
        ("node device", format!("a file of {} bytes, O_DIRECT", fabric.device_bytes)),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Engine for FabricEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn store(&self) -> &dyn esker::api::Ordered {
        match &self.side {
            Side::Keys(store) => store,
            Side::RocksDb { peer } => &**peer,
            Side::Own { store, .. } => store,
        }
    }

    fn counters(&self) -> Counters {
        match &self.side {
            Side::Keys(store) => Counters { user_bytes: store.user_bytes(), ..Counters::default() },
            Side::RocksDb { peer } => {
                let written = peer.written();
                Counters {
                    user_bytes: written.user_bytes.unwrap_or(0),
                    log_bytes: written.log_bytes,
                    flush_bytes: written.flush_bytes,
                    compaction_bytes: written.compaction_bytes,
                    stall_us: written.stall_us,
                    ..Counters::default()
                }
            }
            Side::Own { db, .. } => {
                let stats = db.stats();
                Counters {
                    user_bytes: stats.user_bytes,
                    log_bytes: Some(stats.log_bytes),
                    flush_bytes: Some(stats.flush_bytes),
                    compaction_bytes: Some(stats.compaction_bytes),
                    stall_us: Some(stats.stalled.as_micros() as u64),
                    ..Counters::default()
                }
            }
        }
    }

    /// Nothing of it is here.
    fn disk_bytes(&self) -> u64 {
        0
    }

    fn table_space(&self) -> TableDiskUsage {
        TableDiskUsage::default()
    }

    fn flush(&self) -> Result<()> {
        match &self.side {
            Side::Keys(_) => Ok(()),
            Side::RocksDb { peer } => peer.flush(),
            Side::Own { db, .. } => db.flush(),
        }
    }

    fn settle(&self) -> Result<()> {
        match &self.side {
            Side::Keys(_) => self.node.settle().map_err(|failure| {
                Error::io("settle", "the storage node", io::Error::other(format!("{failure:?}")))
            }),
            Side::RocksDb { peer } => peer.settle(),
            Side::Own { db, .. } => db.wait_for_compactions(),
        }
    }
}

/// What a process on this side can't report what is on the other.
const ELSEWHERE: [&str; 10] = [
    "written_bytes",
    "write_amp",
    "disk_peak_bytes",
    "space_amp_mean",
    "space_amp_peak",
    "table_space_amp_mean",
    "table_space_amp_peak",
    "table_space_amp_settled",
    "table_write_amp",
    // Its pages of mapped files, beside which the node's are not told.
    "mapped_peak_mib",
];

/// Puts what the node did in the place of what this process did, which says nothing, and adds the node's processor time and memory
/// to this process's: what either side of a comparison costs is what both of its machines would.
pub fn account(outcome: &mut Measured, before: NodeSpent, after: NodeSpent, user_bytes: u64) {
    let rows = &mut outcome.rows;
    rows.retain(|row| !ELSEWHERE.contains(&&row.metric[..]));
    // This process's store has no files.
    outcome.series.retain(|series| series.metric != "disk_bytes");
    let Some(first) = rows.first().cloned() else { return };
    let node = after.node.since(&before.node);
    let node_cpu = node.cpu_us as f64 / 1e6;
    let relay_cpu = after.relay_cpu.saturating_sub(before.relay_cpu).as_secs_f64();
    let node_memory = node.memory_peak_bytes as f64 / f64::from(1 << 20);
    for row in &mut *rows {
        row.value += match &row.metric[..] {
            "cpu_s" => node_cpu - relay_cpu,
            "rss_peak_mib" => node_memory,
            _ => 0.0,
        };
    }
    let mut add = |metric: &str, value: f64, unit: &str| {
        rows.push(Row { metric: metric.to_owned(), value, unit: unit.to_owned(), ..first.clone() });
    };
    let (network, device) = (node.network_bytes as f64, node.device_bytes as f64);
    add("network_bytes", network, "bytes");
    add("device_bytes", device, "bytes");
    add("node_commands", node.commands as f64, "ops");
    add("node_cpu_s", node_cpu, "s");
    add("node_rss_peak_mib", node_memory, "MiB");
    if relay_cpu > 0.0 {
        add("relay_cpu_s", relay_cpu, "s");
    }
    if user_bytes > 0 {
        add("network_amp", network / user_bytes as f64, "ratio");
        add("node_write_amp", device / user_bytes as f64, "ratio");
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::NodeCosts;
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_engine_tells_how_many_connections_it_has() {
        for (wanted, of_blocks, of_keys) in [(0, "1", "1"), (15, "15", "15"), (256, "64", "256")] {
            let fabric = FabricSettings { connections: wanted, ..FabricSettings::default() };
            let told = |kind| named(&fabric, kind)["connections"].clone();
            assert_eq!(told(NodeKind::Blocks), of_blocks);
            assert_eq!(told(NodeKind::Hash), of_keys);
            assert_eq!(told(NodeKind::Lsm), of_keys);
        }
    }

    #[test]
    fn a_side_costs_what_client_and_node_cost_without_the_relay() {
        let row = |metric: &str, value| Row {
            engine: "hashstore-node".to_owned(),
            case: "own".to_owned(),
            metric: metric.to_owned(),
            value,
            unit: "s".to_owned(),
            round: 0,
        };
        let rows = vec![row("cpu_s", 5.0), row("rss_peak_mib", 100.0), row("write_amp", 0.0)];
        let mut outcome = Measured { rows, ..Measured::default() };
        let spent = |cpu_us, relay_seconds, device_bytes| NodeSpent {
            node: NodeCosts {
                cpu_us,
                device_bytes,
                memory_peak_bytes: 7 << 20,
                ..NodeCosts::default()
            },
            relay_cpu: Duration::from_secs(relay_seconds),
        };
        let (before, after) = (spent(1_000_000, 1, 5), spent(4_000_000, 3, 35));
        account(&mut outcome, before, after, 10);
        let value = |metric: &str| {
            outcome.rows.iter().find(|row| row.metric == metric).map(|row| row.value)
        };
        // This process's 5 s had 2 s of the relay's thread; the node had 3 s.
        assert_eq!(value("cpu_s"), Some(5.0 - 2.0 + 3.0));
        assert_eq!((value("node_cpu_s"), value("relay_cpu_s")), (Some(3.0), Some(2.0)));
        assert_eq!((value("rss_peak_mib"), value("node_rss_peak_mib")), (Some(107.0), Some(7.0)));
        assert_eq!((value("write_amp"), value("node_write_amp")), (None, Some(3.0)));
    }
}
