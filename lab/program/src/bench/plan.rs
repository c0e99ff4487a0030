//! What a worker process is to do, and what it reports meanwhile: JSON between two copies of this
//! program, so nothing here lasts longer than a run.

use super::engine_settings::EngineSettings;
use super::large::LargeTask;
use esker::Result;
use esker_bench::{Progress, WarmUp};
use esker_workload::shelf::{self, Shelf};
use esker_workload::updates::LimitLine;
use esker_workload::ycsb::{self, Preset, property_file};
use esker_workload::{Workload, linkbench, tpcc, updates};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// One case on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The engine's name.
    pub engine: String,
    /// Where its store is.
    pub dir: PathBuf,
    /// What it is given.
    pub settings: EngineSettings,
    /// What the rows call it.
    pub case: String,
    /// The round, for the rows.
    pub round: u32,
    /// What is done.
    pub task: Task,
    /// Threads.
    pub threads: usize,
    /// For how long, if not for a number of operations.
    pub duration: Option<Duration>,
    /// How many operations to start each second, if not as many as can be.
    pub rate: Option<f64>,
    /// How long it runs before it counts.
    pub warm_up: WarmUp,
    /// Whether the compactions after the load are measured.
    pub settles: bool,
    /// The distance of the points of series.
    pub interval: Duration,
    /// The seed of all randomness.
    pub seed: u64,
}

/// A workload, not yet made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// The records that a YCSB workload starts with.
    YcsbLoad(YcsbTask),
    /// A YCSB workload on them.
    YcsbRun(YcsbTask),
    /// Keys, and updates of them.
    Updates(UpdatesTask),
    /// The graph that LinkBench starts with.
    LinkBenchLoad(LinkBenchTask),
    /// LinkBench's requests to it.
    LinkBench(LinkBenchTask),
    /// The company that TPC-C starts with.
    TpccLoad(TpccTask),
    /// TPC-C's transactions on it.
    Tpcc(TpccTask),
    /// Large values.
    Shelf(ShelfTask),
    /// Single operations, timed.
    Probe(Probe),
    /// A store larger than memory.
    Large(LargeTask),
}

/// What single operations cost, on a store that is made for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Probe {
    /// Entries that are put in random order, compacted, and then read and scanned.
    Pairs { pairs: u64, value_bytes: usize },
    /// A queue that so many entries pass through, or as many as do until the time is over.
    Queue { pops: u64, limit: Duration },
    /// One key that is written so often, or as often as it is until the time is over.
    HotKey { writes: u64, limit: Duration },
}

impl Probe {
    /// The length of a key.
    pub const KEY_BYTES: usize = 16;
    /// The size of a value of a queue, and of the hot key.
    pub const SMALL_VALUE_BYTES: usize = 100;

    fn value_bytes(&self) -> usize {
        match *self {
            Probe::Pairs { value_bytes, .. } => value_bytes,
            Probe::Queue { .. } | Probe::HotKey { .. } => Self::SMALL_VALUE_BYTES,
        }
    }
}

/// Large values, and what is done with them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShelfTask {
    pub access: ShelfAccess,
    pub keys: u64,
    pub value_bytes: usize,
    pub threads: usize,
    pub seed: u64,
}

/// [`shelf::Access`], to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ShelfAccess {
    FillSame,
    FillOwn,
    Read,
    Half,
}

impl ShelfTask {
    /// The length of a key.
    const KEY_BYTES: usize = 4;

    /// Whether the keys must be there before it begins.
    pub fn starts_full(&self) -> bool {
        matches!(self.access, ShelfAccess::Read | ShelfAccess::Half)
    }

    /// The options.
    pub fn options(&self) -> shelf::Options {
        shelf::Options {
            access: match self.access {
                ShelfAccess::FillSame => shelf::Access::FillSame,
                ShelfAccess::FillOwn => shelf::Access::FillOwn,
                ShelfAccess::Read => shelf::Access::Read,
                ShelfAccess::Half => shelf::Access::Half,
            },
            keys: self.keys,
            key_bytes: Self::KEY_BYTES,
            value_bytes: self.value_bytes,
            threads: self.threads,
            seed: self.seed,
        }
    }
}

/// A graph, and how much is asked of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkBenchTask {
    pub nodes: u64,
    pub requests: u64,
    pub clients: usize,
    pub seed: u64,
}

/// A company, and how much it does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TpccTask {
    pub warehouses: u32,
    pub items: u32,
    pub customers: u32,
    pub transactions: u64,
    pub clients: usize,
    pub seed: u64,
}

/// The longest key and row of either, with space to spare.
const ROW_BYTES: (usize, usize) = (128, 8 << 10);

/// A YCSB workload: which, and how much.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct YcsbTask {
    pub workload: YcsbWorkload,
    pub records: Option<u64>,
    pub operations: Option<u64>,
    pub threads: Option<usize>,
    pub fields: Option<usize>,
    pub field_bytes: Option<usize>,
    pub verify: bool,
    pub seed: u64,
}

/// Where a YCSB workload is defined.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum YcsbWorkload {
    /// One that has a letter.
    Preset(String),
    /// The content of a property file, and its name.
    File { name: String, text: String },
}

/// The load of many updates to each key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdatesTask {
    pub records: u64,
    pub updates_per_key: f64,
    pub distribution: String,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub threads: usize,
    /// Reads afterwards, in each of the states that they are measured in.
    pub reads: u64,
    pub seed: u64,
}

/// What a worker reports, one message a line.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// What the engine was set to.
    Settings(BTreeMap<String, String>),
    /// How far it is.
    Progress { stage: String, operations: u64, wanted: Option<u64>, elapsed: Duration },
    /// What came of it.
    Done(esker_bench::Outcome),
    /// Why nothing came of it, and whether the user asked for the impossible.
    Failed { message: String, is_usage: bool },
}

impl Message {
    /// A point in time.
    pub fn progress(progress: &Progress<'_>) -> Self {
        Message::Progress {
            stage: progress.stage.to_owned(),
            operations: progress.operations,
            wanted: progress.wanted,
            elapsed: progress.elapsed,
        }
    }
}

impl Task {
    /// Whether the store is made here, rather than one that was loaded.
    pub fn is_load(&self) -> bool {
        match self {
            Task::YcsbLoad(_) | Task::LinkBenchLoad(_) | Task::TpccLoad(_) => true,
            Task::Large(task) => task.is_load(),
            _ => false,
        }
    }

    /// Whether it wants a store with transactions.
    pub fn runs_transactions(&self) -> bool {
        matches!(
            self,
            Task::LinkBenchLoad(_) | Task::LinkBench(_) | Task::TpccLoad(_) | Task::Tpcc(_)
        )
    }

    /// The workload.
    pub fn workload(&self) -> Result<Box<dyn Workload>> {
        Ok(match self {
            Task::YcsbLoad(task) => Box::new(ycsb::Load::new(&task.resolve()?.options)),
            Task::YcsbRun(task) => Box::new(ycsb::Run::new(&task.resolve()?.options)),
            Task::Updates(task) => Box::new(updates::Updates::new(&task.resolve()?)),
            Task::Shelf(task) => Box::new(Shelf::new(&task.options())),
            Task::LinkBenchLoad(_) | Task::LinkBench(_) | Task::TpccLoad(_) | Task::Tpcc(_) => {
                unreachable!("loads of transactions are bound to their store when they are made")
            }
            Task::Probe(_) | Task::Large(_) => {
                unreachable!("they make their loads for themselves")
            }
        })
    }

    /// What the updates cost at least, of an engine with such write buffers: see [`LimitLine`].
    pub fn limit_line(&self, segment_bytes: usize) -> Result<Option<LimitLine>> {
        let Task::Updates(task) = self else { return Ok(None) };
        Ok(Some(task.resolve()?.limit_line(segment_bytes as u64)))
    }

    /// The longest key and the value, in bytes, for an engine to refuse.
    pub fn pair_bytes(&self) -> Result<(usize, usize)> {
        Ok(match self {
            Task::YcsbLoad(task) | Task::YcsbRun(task) => {
                let options = task.resolve()?.options;
                ("user".len() + options.key_digits.max(20), options.value_bytes())
            }
            Task::Updates(task) => (task.key_bytes, task.value_bytes),
            Task::Shelf(task) => (ShelfTask::KEY_BYTES, task.value_bytes),
            Task::Probe(probe) => (Probe::KEY_BYTES, probe.value_bytes()),
            Task::Large(task) => (LargeTask::KEY_BYTES, task.values.most),
            Task::LinkBenchLoad(_) | Task::LinkBench(_) | Task::TpccLoad(_) | Task::Tpcc(_) => {
                ROW_BYTES
            }
        })
    }
}

impl YcsbTask {
    /// The options: what was asked for by flag, else what the workload says, else the defaults.
    pub fn resolve(&self) -> Result<property_file::PropertyFile> {
        let default = ycsb::Options { seed: self.seed, ..ycsb::Options::default() };
        let records = self.records.unwrap_or(default.records);
        let base = ycsb::Options {
            records,
            operations: self.operations.unwrap_or(records),
            threads: self.threads.unwrap_or(default.threads),
            verify: self.verify,
            ..default
        };
        let mut found = match &self.workload {
            YcsbWorkload::Preset(letter) => property_file::PropertyFile {
                options: letter.parse::<Preset>()?.options(&base),
                rate: None,
                duration: None,
                warnings: Vec::new(),
            },
            YcsbWorkload::File { name, text } => property_file::parse(text, name, &base)?,
        };
        let options = &mut found.options;
        for (asked, option) in
            [(self.records, &mut options.records), (self.operations, &mut options.operations)]
        {
            *option = asked.unwrap_or(*option);
        }
        options.threads = self.threads.unwrap_or(options.threads);
        options.fields = self.fields.unwrap_or(options.fields);
        options.field_bytes = self.field_bytes.unwrap_or(options.field_bytes);
        options.check()?;
        Ok(found)
    }
}

impl UpdatesTask {
    /// The options.
    pub fn resolve(&self) -> Result<updates::Options> {
        let options = updates::Options {
            records: self.records,
            updates_per_key: self.updates_per_key,
            heat: self.distribution.parse()?,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            threads: self.threads,
            seed: self.seed,
        };
        options.check()?;
        Ok(options)
    }
}

impl LinkBenchTask {
    /// The options.
    pub fn options(&self) -> linkbench::Options {
        let LinkBenchTask { nodes, requests, clients: threads, seed } = *self;
        linkbench::Options { nodes, requests, threads, seed, ..linkbench::Options::default() }
    }
}

impl TpccTask {
    /// The options.
    pub fn options(&self) -> tpcc::Options {
        let TpccTask { warehouses, items, customers, transactions, clients, seed } = *self;
        let default = tpcc::Options::default();
        tpcc::Options { warehouses, items, customers, transactions, clients, seed, ..default }
    }
}
