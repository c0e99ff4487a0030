//! What a campaign measures.

use crate::bench::engines::{self, EngineSettings};
use crate::bench::plan::Task;
use esker_bench::results::{Group, Published, Settings};
use esker_bench::{Results, Row, WarmUp};
use std::time::Duration;

/// What is measured.
pub struct Campaign {
    /// Its name.
    pub experiment: String,
    /// Its size, in a word.
    pub scale: String,
    /// The engines, the first being the one that the others are compared with.
    pub engines: Vec<String>,
    /// What each engine is given.
    pub settings: EngineSettings,
    /// How often everything is measured.
    pub rounds: u32,
    /// What every case finds in the store, if anything.
    pub load: Option<Case>,
    /// Loads that several engines and all rounds share.
    pub shared: Option<Shared>,
    /// What is done.
    pub cases: Vec<Case>,
    /// How long each case runs before it counts.
    pub warm_up: WarmUp,
    /// The seed of all randomness.
    pub seed: u64,
    /// What the run was configured with, by name, for the report.
    pub run_settings: Settings,
    /// Which cases the report shows together.
    pub groups: Vec<Group>,
    /// What the report shows next to them.
    pub published: Vec<Published>,
    /// What is made of the numbers, if anything.
    pub analysis: Option<Analysis>,
    /// Whether each case begins with memory in use, as a server's is, and not with what others left free.
    pub uses_memory: bool,
    /// The most memory of each process, with the page cache of its files, where it can be limited.
    pub memory_limit: Option<u64>,
}

/// Under which name the settings of a run say how the memory of processes is limited.
pub const LIMIT: &str = "limit of memory";

/// Under which name the settings of a run say what memory is like before a case.
pub const MEMORY: &str = "memory before a case";

/// Loads that are done once by each family of engines whose stores are alike when they are closed.
#[derive(Clone)]
pub struct Shared {
    /// The loads.
    pub loads: Vec<Case>,
    /// The engine that loads for the one of this name.
    pub loader: fn(&str) -> &'static str,
}

/// What is made of the numbers when they are all there, or as many as there are.
#[derive(Clone, Copy)]
pub struct Analysis {
    /// More rows.
    pub rows: fn(&Results) -> Vec<Row>,
    /// What is printed after the summary.
    pub text: fn(&Results) -> String,
}

/// A case.
#[derive(Clone)]
pub struct Case {
    /// What the rows call it.
    pub name: String,
    /// What is done.
    pub task: Task,
    /// Threads.
    pub threads: usize,
    /// For how long, if not for a number of operations.
    pub duration: Option<Duration>,
    /// How many operations to start each second, if not as many as can be.
    pub rate: Option<Rate>,
    /// The shared load that it starts on, by its name.
    pub starts_on: Option<String>,
    /// The store that it runs on, without a copy, if other cases do, too. Its first case is a load, and it
    /// is removed after the last one. A case that fails is named in the settings of the run, which goes on.
    pub store: Option<String>,
    /// The engines that run it, if not all.
    pub engines: Option<Vec<String>>,
    /// What the engines are given, if not what the campaign says.
    pub settings: Option<EngineSettings>,
    /// How long it runs before it counts, if not as long as the campaign says.
    pub warm_up: Option<WarmUp>,
    /// Whether the compactions after the load are measured.
    pub settles: bool,
    /// The distance of the points of series.
    pub interval: Duration,
}

/// How many operations are started each second.
#[derive(Clone, PartialEq, Debug)]
pub enum Rate {
    /// So many.
    Fixed(f64),
    /// A part of those that the same engine sustained in an earlier case of the round.
    Part { of: String, part: f64 },
}

impl Case {
    /// As many operations as `task` has, as fast as can be, by all engines.
    pub fn new(name: &str, task: Task, threads: usize) -> Self {
        Case {
            name: name.to_owned(),
            task,
            threads,
            duration: None,
            rate: None,
            starts_on: None,
            store: None,
            engines: None,
            settings: None,
            warm_up: None,
            settles: true,
            interval: Duration::from_secs(1),
        }
    }

    pub(super) fn is_for(&self, engine: &str) -> bool {
        self.engines.as_ref().is_none_or(|engines| engines.iter().any(|name| name == engine))
    }
}

impl Campaign {
    /// What is not what it stands for.
    pub fn emulated(&self) -> Vec<String> {
        let settings = self.cases.iter().filter_map(|case| case.settings.as_ref());
        let networks = settings.filter_map(|settings| settings.fabric.network.emulation());
        let mut all = engines::emulated(&self.engines);
        all.extend(networks);
        all.sort_unstable();
        all.dedup();
        all
    }
}
