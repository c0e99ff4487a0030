//! `esker-lab bench node`: a storage node for a measurement, in a process of its own, as a node is a machine of its own.
//!
//! It reads a [`NodePlan`] from standard input and writes [`NodeMessage::Listening`] to standard output. After that every
//! line that it reads is answered with what it has done so far. When standard input ends it shuts down and ends.

use super::process::line;
use crate::failure::{Failure, Outcome};
use clap::Args;
use esker::{Db, KeyspaceSettings, Log, Settings, SyncPolicy};
use esker_base::{Background, Rng, SystemClock, SystemEntropy, Threads, seed_from_os};
use esker_bench::accounting::cpu_time;
use esker_hashstore::device::FileDevice;
use esker_hashstore::{CreateSettings, store_file};
use esker_node::HashKeys;
use esker_nvme::Nqn;
use esker_target::{DeviceBlocks, Namespace, OrderedKeys, Subsystem, Target};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The subsystem's name.
pub const SUBSYSTEM: &str = "nqn.2024-01.io.esker:bench";

/// How long commands in progress may take at the end.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// Blocks of the namespace of blocks, in bytes.
const BLOCK_BYTES: u32 = 4096;

/// What a node is to serve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodePlan {
    /// What.
    pub kind: NodeKind,
    /// The file that it is in, or the directory. The file may be there: it is used again, and what it had is lost.
    pub path: PathBuf,
    /// The file's size.
    pub bytes: u64,
    /// Whether what is acknowledged may be lost with the power.
    pub is_volatile: bool,
    /// A write buffer of an LSM, and all its memory.
    pub segment_bytes: usize,
    pub memory_bytes: usize,
}

/// What a node is asked for which its store does all that is left to do, before it says what it has done. Any other
/// line asks for nothing else.
pub const SETTLE: &str = "settle";

/// What a namespace is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NodeKind {
    /// Blocks in a file.
    Blocks,
    /// Keys in a hash store.
    Hash,
    /// Keys in an Esker database.
    Lsm,
}

/// What a node reports.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum NodeMessage {
    /// Where it can be reached.
    Listening(SocketAddr),
    /// What it has done.
    Done(NodeCosts),
}

/// What a node has done since it listens.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeCosts {
    /// Payload of its sockets, both ways.
    pub network_bytes: u64,
    /// What the system wrote to devices for it.
    pub device_bytes: u64,
    /// Commands received.
    pub commands: u64,
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// The most memory that it had resident since it was started.
    pub memory_peak_bytes: u64,
}

impl NodeCosts {
    /// What was added since `earlier`. A peak is that of all.
    pub fn since(&self, earlier: &NodeCosts) -> NodeCosts {
        NodeCosts {
            network_bytes: self.network_bytes - earlier.network_bytes,
            device_bytes: self.device_bytes - earlier.device_bytes,
            commands: self.commands - earlier.commands,
            cpu_us: self.cpu_us - earlier.cpu_us,
            memory_peak_bytes: self.memory_peak_bytes,
        }
    }
}

/// Serve a namespace for a measurement, as described on standard input
#[derive(Args)]
pub struct Node {}

impl Node {
    pub fn run(self) -> Outcome {
        let mut lines = std::io::stdin().lock().lines();
        let plan = lines.next().and_then(Result::ok).unwrap_or_default();
        let plan: NodePlan = serde_json::from_str(&plan)?;
        let (namespace, held) = plan.open()?;
        let target = start(namespace)?;
        tell(&NodeMessage::Listening(target.address()))?;
        let written = device_bytes()?;
        for line in lines.map_while(Result::ok) {
            if line == SETTLE
                && let Held::Database(db) = &held
            {
                db.flush()?;
                db.wait_for_compactions()?;
            }
            let totals = target.totals();
            tell(&NodeMessage::Done(NodeCosts {
                network_bytes: totals.received_bytes + totals.sent_bytes,
                device_bytes: device_bytes()? - written,
                commands: totals.commands,
                cpu_us: cpu_time().as_micros() as u64,
                memory_peak_bytes: memory_peak_bytes()?,
            }))?;
        }
        target.drain();
        Ok(())
    }
}

/// What a namespace is on, while it is served.
enum Held {
    Device { _device: FileDevice },
    Database(Db),
    Nothing,
}

impl NodePlan {
    fn open(&self) -> Outcome<(Arc<dyn Namespace>, Held)> {
        let guid = [7; 16];
        match self.kind {
            NodeKind::Blocks => {
                let device = device(&self.path, self.bytes)?;
                volume_of_zeros(&device)?;
                let (file, bytes) = (device.descriptor()?, self.bytes);
                let blocks = DeviceBlocks::new(guid, file, bytes, BLOCK_BYTES, self.is_volatile)?;
                Ok((Arc::new(blocks), Held::Device { _device: device }))
            }
            NodeKind::Hash => {
                let device = device(&self.path, self.bytes)?;
                store_file::create(
                    &device,
                    &CreateSettings::default(),
                    &mut Rng::new(seed_from_os()),
                )?;
                drop(device);
                let keys = HashKeys::open(guid, &self.path, self.is_volatile)?;
                Ok((Arc::new(keys), Held::Nothing))
            }
            NodeKind::Lsm => {
                let sync = if self.is_volatile { SyncPolicy::Os } else { SyncPolicy::Always };
                let settings = Settings::default()
                    .log(Log::File { dir: None, sync })
                    .segment_bytes(self.segment_bytes)
                    .memory_bytes(self.memory_bytes);
                let db = Db::open(&self.path, settings)?;
                let keyspace = db.keyspace("bench", KeyspaceSettings::default())?;
                let store = Arc::new(db.store(&keyspace));
                let keys = OrderedKeys::new(guid, self.bytes, store, &Threads)?;
                Ok((Arc::new(keys), Held::Database(db)))
            }
        }
    }
}

/// The file at `path`, made if it is not there.
fn device(path: &Path, bytes: u64) -> Outcome<FileDevice> {
    if path.exists() {
        return Ok(FileDevice::open(path)?);
    }
    Ok(FileDevice::create(path, Some(bytes))?)
}

/// Takes the first block from the former user of the device.
fn volume_of_zeros(device: &FileDevice) -> Outcome {
    use esker_hashstore::device::Device;
    let zeros = esker_uring::Buffer::zeroed(BLOCK_BYTES as usize);
    let failed = |error| Failure::io("clear", device.name(), error);
    device.write_at(0, &zeros).map_err(failed)?;
    device.sync().map_err(|error| Failure::io("clear", device.name(), error))
}

fn start(namespace: Arc<dyn Namespace>) -> Outcome<Target> {
    let nqn = Nqn::new(SUBSYSTEM).map_err(|error| Failure::new(error.to_string()))?;
    let subsystem = Subsystem::new(nqn, "BENCH", vec![namespace]);
    let settings = esker_target::Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)))
        .reactors(1)
        .drain_time(DRAIN_TIME)
        .memory_bytes(esker_target::limits::MEMORY_BYTES)
        .subsystems(vec![subsystem]);
    let background: Arc<dyn Background> = Arc::new(Threads);
    let clock = Arc::new(SystemClock::new());
    Ok(Target::start(settings, clock, Arc::new(SystemEntropy), &background)?)
}

/// What the system wrote to devices for this process: `proc_pid_io(5)`, `write_bytes`.
fn device_bytes() -> Outcome<u64> {
    of_system("/proc/self/io", "write_bytes:")
}

/// The peak of what this process had resident: `proc_pid_status(5)`, `VmHWM`, in KiB.
fn memory_peak_bytes() -> Outcome<u64> {
    Ok(of_system("/proc/self/status", "VmHWM:")? << 10)
}

/// The first number of a line of a file.
fn of_system(file: &str, name: &str) -> Outcome<u64> {
    let failed = |error| Failure::io("read", file, error);
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let found = text.lines().find_map(|line| line.strip_prefix(name));
    let number = found.and_then(|text| text.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Failure::new(format!("{file} does not tell {name}")))
}

fn tell(message: &NodeMessage) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(&line(message)?)?;
    Ok(out.flush()?)
}
