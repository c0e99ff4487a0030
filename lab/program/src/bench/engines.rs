//! The engines that can be measured, by name.

pub use super::engine_settings::{EngineSettings, ForwardingName};

use super::engine::{EskerEngine, PeerEngine};
use super::fabric::{self, FabricEngine};
use super::log_device::{LogDevice, OpenLog};
use super::novelsm::NoveLsmEngine;
use super::pool::EMULATED;
use super::transaction_engine::TransactionEngine;
use crate::failure::{Failure, Outcome};
use esker::options::{Compression, Dedup, Ratio, Shape};
use esker::{KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_base::limit_line;
use esker_bench::Engine;
use esker_encryption::{Key, Keys};
use esker_peers::PeerSettings;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Esker under one of its names: where its log is, and how its tables are arranged.
struct Own {
    name: &'static str,
    log: OwnLog,
    shape: Shape,
    dedup: Dedup,
}

/// How Esker runs under each of its names.
static OWN: [Own; 22] = [
    Own::logging("esker-wal", OwnLog::File(SyncPolicy::Os)),
    Own::logging("esker-wal-sync", OwnLog::File(SyncPolicy::Always)),
    Own::logging(ENCRYPTED, OwnLog::File(SyncPolicy::Os)),
    Own::logging("esker-nolog", OwnLog::None),
    Own::logging("esker-wbl", OwnLog::Pool),
    Own::logging("esker-log-sata", OwnLog::Device(LogDevice::Emulated("sata"))),
    Own::logging("esker-log-nvme", OwnLog::Device(LogDevice::Emulated("nvme"))),
    Own::logging("esker-log-nvram", OwnLog::Device(LogDevice::Emulated("nvram"))),
    Own::logging("esker-log-disk", OwnLog::Device(LogDevice::Disk)),
    Own::logging("esker-log-pmem", OwnLog::Device(LogDevice::Pmem)),
    Own::arranged("esker-leveled", LEVELED, Dedup::None),
    Own::arranged("esker-tiered", TIERED, Dedup::None),
    Own::arranged("esker-perlevel-1.2", TIERED, per_level(120)),
    Own::arranged("esker-perlevel-1.4", TIERED, per_level(140)),
    Own::arranged("esker-perlevel-1.6", TIERED, per_level(160)),
    Own::arranged("esker-perlevel-1.8", TIERED, per_level(180)),
    Own::arranged("esker-spacegoal-1.1", STACKED, space_goal(110)),
    Own::arranged("esker-spacegoal-1.2", STACKED, space_goal(120)),
    Own::arranged("esker-spacegoal-1.5", STACKED, space_goal(150)),
    Own::arranged("esker-spacegoal-2", STACKED, space_goal(200)),
    Own::arranged("esker-spacegoal-3", STACKED, space_goal(300)),
    Own::arranged("esker-spacegoal-4", STACKED, space_goal(400)),
];

impl Own {
    /// Leveled, with its log there.
    const fn logging(name: &'static str, log: OwnLog) -> Own {
        Own { name, log, shape: LEVELED, dedup: Dedup::None }
    }

    /// Tables in this order, and the log as [`esker-wal`](OWN) has it.
    const fn arranged(name: &'static str, shape: Shape, dedup: Dedup) -> Own {
        Own { name, log: OwnLog::File(SyncPolicy::Os), shape, dedup }
    }
}

/// As a keyspace is by default.
const LEVELED: Shape = Shape::Leveled { ratio: 10 };
/// As many runs a level as LSM-trie has, so that twenty gigabytes in memtables of 64 MiB make three
/// levels.
const TIERED: Shape = Shape::Tiered { runs: 8 };

/// As many runs over the last level as the limit line allows that these are held against.
const STACKED: Shape = Shape::Tiered { runs: limit_line::RUNS };

const fn per_level(hundredths: u32) -> Dedup {
    Dedup::PerLevel { threshold: Ratio::of_hundredths(hundredths) }
}

const fn space_goal(hundredths: u32) -> Dedup {
    Dedup::SpaceGoal { amp: Ratio::of_hundredths(hundredths) }
}

/// As `esker-wal`, and its files are encrypted.
const ENCRYPTED: &str = "esker-encrypted";

/// The key of the engine that is encrypted. Its files are removed after the run.
fn key() -> Outcome<Keys> {
    Ok(Keys::new([Key::new([7; 32])])?)
}

/// NoveLSM's write path, made of Esker's parts.
pub const NOVELSM: &str = "esker-novelsm";

/// Where Esker's log is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnLog {
    File(SyncPolicy),
    None,
    /// In a pool that is made for the store and goes with it.
    Pool,
    /// In files on a device, synced at every write.
    Device(LogDevice),
}

/// RocksDB's transactions by their names, and where the log is. Without a log its name is that of
/// RocksDB without transactions, which runs all other loads.
const TRANSACTIONS: [(&str, Option<LogDevice>); 6] = [
    ("rocksdb-log-sata", Some(LogDevice::Emulated("sata"))),
    ("rocksdb-log-nvme", Some(LogDevice::Emulated("nvme"))),
    ("rocksdb-log-nvram", Some(LogDevice::Emulated("nvram"))),
    ("rocksdb-log-disk", Some(LogDevice::Disk)),
    ("rocksdb-log-pmem", Some(LogDevice::Pmem)),
    ("rocksdb-nolog", None),
];

/// RocksDB's transactions by this name.
fn transactions(name: &str) -> Option<Option<LogDevice>> {
    TRANSACTIONS.iter().find(|known| known.0 == name).map(|known| known.1)
}

/// Whether the engine of this name runs transactions.
pub fn runs_transactions(name: &str) -> bool {
    own(name).is_some() || transactions(name).is_some()
}

/// The device that this engine's log is on, if it is one of those that logs are put on by name.
pub fn log_device(name: &str) -> Option<LogDevice> {
    match own(name) {
        Some(Own { log: OwnLog::Device(device), .. }) => Some(*device),
        Some(_) => None,
        None => transactions(name).flatten(),
    }
}

impl OwnLog {
    fn log(self) -> Log {
        match self {
            OwnLog::File(sync) => Log::File { dir: None, sync },
            OwnLog::Device(_) => Log::File { dir: None, sync: SyncPolicy::Always },
            OwnLog::None => Log::None,
            OwnLog::Pool => Log::Pmem { pool: PathBuf::new(), emulated: true },
        }
    }
}

/// Whether the engine of this name has a pool.
pub fn has_pool(name: &str) -> bool {
    name == NOVELSM || own(name).is_some_and(|own| own.log == OwnLog::Pool)
}

/// Which engines of `names` emulate something, and what.
pub fn emulated(names: &[String]) -> Vec<String> {
    let pool = names.iter().any(|name| has_pool(name)).then(|| EMULATED.to_owned());
    let mut devices: Vec<String> =
        names.iter().filter_map(|name| log_device(name)?.emulation()).collect();
    devices.sort_unstable();
    devices.dedup();
    pool.into_iter().chain(devices).collect()
}

/// An engine by one of its names.
enum Kind {
    Own(&'static Own),
    NoveLsm,
    Peer,
    /// RocksDB's transactions, and where its log is.
    Transactions(Option<LogDevice>),
    /// One with a storage node.
    Fabric,
}

/// An open engine.
pub enum Opened {
    /// Esker.
    Own(EskerEngine),
    /// A model of another, made of Esker's parts.
    NoveLsm(NoveLsmEngine),
    /// Another.
    Peer(PeerEngine),
    /// Another, with transactions.
    Transactions(TransactionEngine),
    /// One with a storage node.
    Fabric(FabricEngine),
}

impl Opened {
    /// As the benchmark sees it.
    pub fn engine(&self) -> &dyn Engine {
        match self {
            Opened::Own(engine) => engine,
            Opened::NoveLsm(engine) => engine.engine(),
            Opened::Peer(engine) => engine,
            Opened::Transactions(engine) => engine,
            Opened::Fabric(engine) => engine,
        }
    }

    /// The device that the log is on, if it is known.
    pub fn log(&self) -> Option<&OpenLog> {
        match self {
            Opened::Own(engine) => engine.log(),
            Opened::Transactions(engine) => engine.log(),
            Opened::NoveLsm(_) | Opened::Peer(_) | Opened::Fabric(_) => None,
        }
    }

    /// The engine with a storage node, if it is one.
    pub fn fabric(&self) -> Option<&FabricEngine> {
        match self {
            Opened::Fabric(engine) => Some(engine),
            _ => None,
        }
    }

    /// What was set, by name, for the report, and what a crash leaves.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut told = match self {
            Opened::Own(engine) => engine.settings(),
            Opened::NoveLsm(engine) => engine.settings(),
            Opened::Peer(engine) => engine.settings(),
            Opened::Transactions(engine) => engine.settings(),
            Opened::Fabric(engine) => engine.settings(),
        };
        let promise = after_a_crash(self.engine().name());
        told.extend(promise.map(|promise| ("after a crash".to_owned(), promise.to_owned())));
        told
    }

    /// Closes it.
    pub fn close(self) -> Outcome {
        match self {
            Opened::Own(engine) => engine.close(),
            Opened::NoveLsm(engine) => engine.close(),
            Opened::Peer(engine) => {
                drop(engine);
                Ok(())
            }
            Opened::Transactions(engine) => engine.close(),
            Opened::Fabric(engine) => engine.close(),
        }
    }
}

/// All names, whether their engines are built in or not.
pub fn names() -> Vec<&'static str> {
    let transactions = TRANSACTIONS.iter().map(|known| known.0);
    let transactions = transactions.filter(|name| !esker_peers::NAMES.contains(name));
    let own = OWN.iter().map(|own| own.name).chain([NOVELSM]);
    own.chain(esker_peers::NAMES).chain(transactions).chain(fabric::NAMES).collect()
}

/// The names of the engines that are built in.
pub fn built_in() -> Vec<&'static str> {
    let can_be_opened = |name: &&str| {
        let is_transactional = !esker_peers::NAMES.contains(name);
        find(name, is_transactional && transactions(name).is_some()).is_ok()
    };
    names().into_iter().filter(can_be_opened).collect()
}

/// Whether `name` has Esker's limits.
pub fn is_own(name: &str) -> bool {
    name == NOVELSM || own(name).is_some()
}

/// What a crash of the process, and a power loss, leave of what the engine of this name has
/// acknowledged, if it is one that writes to files of this machine.
pub fn after_a_crash(name: &str) -> Option<&'static str> {
    match own(name).map(|own| own.log) {
        Some(OwnLog::File(SyncPolicy::Os)) => Some("process: all; power: a prefix of the writes"),
        Some(OwnLog::File(_) | OwnLog::Device(_)) => Some("process: all; power: all"),
        Some(OwnLog::None) => Some("process and power: what was flushed"),
        // Nothing that is emulated by DRAM survives.
        Some(OwnLog::Pool) => None,
        None => esker_peers::NAMES.contains(&name).then(|| esker_peers::after_a_crash(name)),
    }
}

/// Esker by this name.
fn own(name: &str) -> Option<&'static Own> {
    OWN.iter().find(|own| own.name == name)
}

/// Whether this engine's name says that it syncs every write, which loading does not: see [`open`].
pub fn loads_unsynced(name: &str) -> bool {
    name.ends_with(SYNCED) || log_device(name).is_some()
}

/// How the names of engines end that sync every write.
const SYNCED: &str = "-sync";

/// The engine of this name, to run transactions or anything else.
fn find(name: &str, with_transactions: bool) -> Outcome<Kind> {
    if let Some(own) = own(name) {
        return Ok(Kind::Own(own));
    }
    if with_transactions && let Some(log) = transactions(name) {
        esker_peers::check("rocksdb-nolog")?;
        return Ok(Kind::Transactions(log));
    }
    if with_transactions && names().contains(&name) {
        let known: Vec<&str> = names().into_iter().filter(|name| runs_transactions(name)).collect();
        let known = known.join(", ");
        return Err(Failure::Usage(format!("{name} runs no transactions; these do: {known}")));
    }
    if name == NOVELSM {
        return Ok(Kind::NoveLsm);
    }
    if fabric::is_one(name) {
        fabric::check(name)?;
        return Ok(Kind::Fabric);
    }
    if transactions(name).is_some() && !esker_peers::NAMES.contains(&name) {
        return Err(Failure::Usage(format!("{name} is for loads of transactions alone")));
    }
    if !esker_peers::NAMES.contains(&name) {
        let known = names().join(", ");
        return Err(Failure::Usage(format!("there is no engine {name:?}; there are {known}")));
    }
    esker_peers::check(name)?;
    Ok(Kind::Peer)
}

/// Fails if an engine can't be opened with these settings, without making any file.
pub fn check(name: &str, settings: &EngineSettings, with_transactions: bool) -> Outcome {
    match find(name, with_transactions)? {
        Kind::Own(own) => {
            settings.own(own.log.log()).validate()?;
            settings.compression()?;
        }
        Kind::NoveLsm => {
            NoveLsmEngine::check(&settings.own(Log::None))?;
            settings.compression()?;
        }
        Kind::Peer => esker_peers::check_settings(name, &settings.peer()?)?,
        Kind::Transactions(_) => esker_peers::check_transactional(&settings.peer()?)?,
        Kind::Fabric => {
            settings.own(Log::None).validate()?;
            settings.peer()?.validate()?;
        }
    }
    Ok(())
}

/// Opens the engine of this name in `dir`. While it is loading, a log is not synced, whatever the
/// name says: that would take hours, and say what a workload that inserts says as well.
pub fn open(
    name: &str,
    dir: &Path,
    settings: &EngineSettings,
    is_loading: bool,
    with_transactions: bool,
) -> Outcome<Opened> {
    let keyspace = KeyspaceSettings::default()
        .compression(settings.compression()?)
        .separation_threshold(settings.large_store.separation_threshold);
    match find(name, with_transactions)? {
        Kind::Own(Own { name, log, shape, dedup }) => {
            let keyspace = keyspace.shape(*shape).dedup(*dedup);
            let log = match *log {
                OwnLog::File(_) | OwnLog::Device(_) if is_loading => OwnLog::File(SyncPolicy::Os),
                log => log,
            };
            let own = settings.own(log.log());
            let own = if *name == ENCRYPTED { own.encryption(key()?) } else { own };
            Ok(Opened::Own(match log {
                OwnLog::Pool => {
                    EskerEngine::open_with_pool(name, dir, own, &settings.pool, keyspace)?
                }
                OwnLog::Device(device) => {
                    let log = device.open(dir, settings)?;
                    EskerEngine::open_with_log(name, dir, own, log, keyspace)?
                }
                _ => EskerEngine::open(name, dir, own, keyspace)?,
            }))
        }
        Kind::NoveLsm => {
            let own = settings.own(Log::None);
            Ok(Opened::NoveLsm(NoveLsmEngine::open(dir, &own, &settings.pool, keyspace)?))
        }
        Kind::Peer => {
            let opened = if is_loading { name.trim_end_matches(SYNCED) } else { name };
            let peer = esker_peers::open(opened, dir, &settings.peer()?)?;
            Ok(Opened::Peer(PeerEngine::new(name, dir, peer)))
        }
        Kind::Transactions(log) => {
            let log = match log.filter(|_| !is_loading) {
                Some(device) => Some(device.open(dir, settings)?),
                None => None,
            };
            let engine = TransactionEngine::open(name, dir, &settings.peer()?, log)?;
            Ok(Opened::Transactions(engine))
        }
        Kind::Fabric => Ok(Opened::Fabric(FabricEngine::open(name, dir, settings)?)),
    }
}

impl EngineSettings {
    /// Esker's settings, for the checks that its own limits are about.
    pub fn own(&self, log: Log) -> Settings {
        Settings::default()
            .log(log)
            .segment_bytes(self.segment_bytes)
            .memory_bytes(self.memory_bytes)
            .background_threads(self.background_threads)
            .dram_table_bytes(self.dram_table_bytes)
            .forwarding(self.forwarding.into())
    }

    pub(super) fn compression(&self) -> Outcome<Compression> {
        self.compression.parse().map_err(|_| {
            let name = &self.compression;
            Failure::Usage(format!("{name:?} is neither none, nor lz4, nor zstd"))
        })
    }

    pub(super) fn peer(&self) -> Outcome<PeerSettings> {
        let default = PeerSettings::default();
        Ok(PeerSettings {
            memory_bytes: self.memory_bytes,
            write_buffer_bytes: self.segment_bytes,
            // One that is written to, and as many full ones as Esker holds before it slows writers.
            write_buffers: 1 + Settings::default().sealed_segments,
            background_threads: self.background_threads,
            compression: match self.compression()? {
                Compression::None => esker_peers::Compression::None,
                Compression::Lz4 => esker_peers::Compression::Lz4,
                Compression::Zstd => esker_peers::Compression::Zstd,
            },
            filter_bits: KeyspaceSettings::default().filter_bits,
            has_parts: self.large_store.has_parts,
            separation_threshold: self.large_store.separation_threshold,
            ..default
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine_settings::FabricSettings;
    use crate::bench::pool::PoolSettings;

    fn settings() -> EngineSettings {
        EngineSettings {
            memory_bytes: 1 << 30,
            segment_bytes: 64 << 20,
            background_threads: 2,
            compression: "none".into(),
            dram_table_bytes: None,
            forwarding: ForwardingName::OnFlush,
            pool: PoolSettings::default(),
            log_dir: None,
            fabric: FabricSettings::default(),
            large_store: Default::default(),
        }
    }

    fn refusal(name: &str, settings: &EngineSettings) -> String {
        match check(name, settings, false) {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn esker_is_always_built_in() {
        let built_in = built_in();
        for name in OWN.iter().map(|own| own.name).chain([NOVELSM]) {
            assert!(built_in.contains(&name), "{name}");
            check(name, &settings(), false).unwrap();
        }
    }

    #[test]
    fn the_name_of_an_engine_says_how_its_tables_are_arranged() {
        for own in &OWN {
            let Own { name, shape, dedup, .. } = own;
            dedup.validate().unwrap();
            let expected = match dedup {
                Dedup::PerLevel { threshold } => format!("esker-perlevel-{threshold}"),
                Dedup::SpaceGoal { amp } => format!("esker-spacegoal-{amp}"),
                Dedup::None if *shape == TIERED => "esker-tiered".to_owned(),
                Dedup::None => continue,
            };
            assert_eq!(*name, expected);
        }
        let by_default = KeyspaceSettings::default();
        assert_eq!((by_default.shape, by_default.dedup), (LEVELED, Dedup::None));
    }

    #[test]
    fn what_is_emulated_is_said_of_engines_with_a_pool() {
        for (name, expected) in [("esker-wal", 0), ("esker-wbl", 1), (NOVELSM, 1)] {
            assert_eq!(emulated(&[name.to_owned()]).len(), expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_engine_lists_the_known_ones() {
        let message = refusal("rocksdb", &settings());
        assert!(message.contains("esker-wal, ") && message.contains("rocksdb-wal, "), "{message}");
    }

    #[test]
    fn a_peer_that_is_not_built_in_says_how_to_build_it() {
        for name in esker_peers::NAMES {
            match built_in().contains(&name) {
                true => check(name, &settings(), false).unwrap(),
                false => assert!(refusal(name, &settings()).contains("--features peers"), "{name}"),
            }
        }
    }

    #[test]
    fn settings_that_an_engine_cannot_have_are_refused() {
        let tight = EngineSettings { memory_bytes: 1, ..settings() };
        for name in ["esker-wal", NOVELSM] {
            assert!(refusal(name, &tight).contains("--memory"), "{name}");
        }
        let odd = EngineSettings { compression: "zip".into(), ..settings() };
        assert!(refusal("esker-nolog", &odd).contains("zip"));
    }

    #[test]
    fn a_compression_that_a_peer_does_not_have_is_refused() {
        let zstd = EngineSettings { compression: "zstd".into(), ..settings() };
        for name in built_in() {
            match name {
                name if !esker_peers::NAMES.contains(&name) && !is_own(name) => {}
                "leveldb" | "fjall" | "lmdb" | "redb" | "bf-tree" | "tidesdb" => {
                    assert!(refusal(name, &zstd).contains("compression"))
                }
                _ => check(name, &zstd, false).unwrap(),
            }
        }
    }

    #[test]
    fn engines_without_transactions_are_refused_for_them() {
        check("esker-log-nvme", &settings(), true).unwrap();
        for name in ["leveldb", NOVELSM, "rocksdb-wal"] {
            assert!(check(name, &settings(), true).is_err(), "{name}");
            assert!(!runs_transactions(name));
        }
        assert!(refusal("rocksdb-log-nvme", &settings()).contains("transactions alone"));
    }

    #[test]
    fn an_emulated_device_is_said_with_the_source_of_its_figures() {
        let names = ["esker-log-nvme", "rocksdb-log-nvme", "esker-log-disk", "esker-log-pmem"];
        let said = emulated(&names.map(str::to_owned));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.iter().any(|said| said.contains("nvme") && said.contains("P3700")));
        assert!(said.iter().any(|said| said.contains("tmpfs")));
    }
}
