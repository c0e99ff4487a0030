//! Loads of transactions on a machine that loses power.
//!
//! Clients work, one transaction after the other in the order that the seed says, until a power loss
//! strikes at some call of a disk, or at some store or fence in persistent memory. The next process
//! recovers, perhaps not at the first try. Then all must hold that the [`Scenario`] asks for; and the
//! clients go on. Transactions do not overlap here: what comes between two steps of one is tried in
//! `esker_workload`'s own tests.

use crate::machine::Machine;
use crate::power_loss::End;
use crate::settings::{LogMode, OpenSettings};
use esker_api::Transactional;
use esker_base::{Error, Result, Rng};
use esker_lsm::{Db, Forwarding};
use esker_txn::TransactionDb;
use esker_workload::tpcc::Acknowledged;
use esker_workload::{Differences, Model, Worker, Workload, stream};

/// Clients that take turns.
pub(crate) const CLIENTS: usize = 4;

/// A load of transactions, and what must hold after each of them.
pub(crate) trait Scenario {
    /// The content to begin with, in parts for [`CLIENTS`] threads. `None` if that is nothing.
    fn load<'s>(&self, store: &'s dyn Transactional) -> Result<Option<Box<dyn Workload + 's>>>;

    /// The load, for one process.
    fn begin<'s>(&self, store: &'s dyn Transactional) -> Result<Box<dyn Running + 's>>;

    /// What in `store` is otherwise than it must be, where all of `acknowledged` was acknowledged.
    fn check(
        &self,
        store: &dyn Transactional,
        acknowledged: &[Acknowledged],
    ) -> Result<Differences>;
}

/// A load that runs.
pub(crate) trait Running {
    /// What its clients do.
    fn workload(&self) -> &dyn Workload;

    /// What was acknowledged to them, if that is kept.
    fn acknowledged(&self) -> Vec<Acknowledged>;
}

/// Small segments, so that they rotate and tables are written.
fn settings(log: LogMode) -> OpenSettings {
    let (dram_bytes, forwarding) = (None, Forwarding::OnFlush);
    OpenSettings { log, segment_kib: 64, sealed: 2, dram_bytes, forwarding }
}

/// Transactions of a process that no power loss has struck.
const STEPS: u64 = 40;

/// What happened, to see that it was worth it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Power losses.
    pub crashes: u64,
    /// Those of them that struck while the database was opened.
    pub at_open: u64,
    /// Those that struck in the middle of a transaction or of background work.
    pub mid_call: u64,
    /// Commits acknowledged.
    pub acknowledged: u64,
    /// Flushes that processes did before they ended.
    pub flushes: u64,
}

/// Runs `scenario` through so many power losses. The error says what was wrong.
pub(crate) fn run(
    scenario: &dyn Scenario,
    seed: u64,
    log: LogMode,
    crashes: u64,
) -> Result<Outcome, String> {
    let mut world = World {
        machine: Machine::new(seed, seed.is_multiple_of(2), 5),
        scenario,
        seed,
        settings: settings(log),
        rng: Rng::new(seed),
        acknowledged: Vec::new(),
        outcome: Outcome::default(),
    };
    world.load()?;
    while world.outcome.crashes < crashes {
        if let Err(End::Wrong(what)) = world.process() {
            return Err(format!("seed {seed}, crash {}: {what}", world.outcome.crashes));
        }
        world.outcome.crashes += 1;
    }
    Ok(world.outcome)
}

struct World<'a> {
    machine: Machine,
    scenario: &'a dyn Scenario,
    seed: u64,
    settings: OpenSettings,
    rng: Rng,
    acknowledged: Vec<Acknowledged>,
    outcome: Outcome,
}

impl World<'_> {
    fn load(&mut self) -> Result<(), String> {
        let wrong = |error: Error| format!("the load failed: {error}");
        let db = Db::open_with(self.machine.env(), self.settings.settings()).map_err(wrong)?;
        let store = TransactionDb::new(db.clone());
        if let Some(load) = self.scenario.load(&store).map_err(wrong)? {
            let unused = Model::new();
            for thread in 0..CLIENTS {
                let rng = Rng::new(0);
                let mut worker = load.worker(&unused, thread, rng).map_err(wrong)?;
                while worker.step().map_err(wrong)?.operations > 0 {}
            }
        }
        drop(store);
        db.close().map_err(wrong)
    }

    /// Opens, checks, works, and loses power.
    fn process(&mut self) -> Result<(), End> {
        if self.rng.one_in(3) {
            self.machine.plan_power_loss(self.settings.log, &mut self.rng, 30);
        }
        let opened = Db::open_with(self.machine.env(), self.settings.settings());
        let ended = match &opened {
            Err(error) => Err(self.machine.end("opening", error)),
            Ok(db) => self.work(&TransactionDb::new(db.clone())),
        };
        self.outcome.at_open += u64::from(opened.is_err());
        self.outcome.mid_call += u64::from(self.machine.is_over());
        if let Ok(db) = &opened {
            self.outcome.flushes += db.stats().flushes;
        }
        // Before the process's own end, which is to have no effect any more.
        self.machine.lose_power();
        match ended {
            Err(End::Power) | Ok(()) => Ok(()),
            wrong => wrong,
        }
    }

    fn work(&mut self, store: &TransactionDb<Db>) -> Result<(), End> {
        self.check(store)?;
        let running =
            self.scenario.begin(store).map_err(|error| self.machine.end("beginning", &error))?;
        let unused = Model::new();
        let run = self.outcome.crashes;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        for client in 0..CLIENTS {
            let rng = stream(self.seed, "client", (run << 8) | client as u64);
            let worker = running.workload().worker(&unused, client, rng);
            workers.push(worker.map_err(|error| self.machine.end("beginning", &error))?);
        }
        let earlier = self.acknowledged.len();
        self.machine.plan_power_loss(self.settings.log, &mut self.rng, 600);
        for _ in 0..STEPS {
            let client = self.rng.below(workers.len() as u64) as usize;
            let stepped = workers[client].step();
            let step = stepped.map_err(|error| self.machine.end("a transaction", &error))?;
            let background = self.rng.below(4);
            let _ = (0..background).take_while(|_| store.store().run_background_job()).count();
            if self.machine.is_over() {
                // What was acknowledged since the last step may have come after the end.
                return Err(End::Power);
            }
            self.acknowledged.truncate(earlier);
            self.acknowledged.append(&mut running.acknowledged());
            self.outcome.acknowledged += step.transactions.commits;
        }
        Ok(())
    }

    /// All that must hold whenever a process has recovered.
    fn check(&self, store: &TransactionDb<Db>) -> Result<(), End> {
        let failed = |error: Error| self.machine.end("the check", &error);
        let differences = self.scenario.check(store, &self.acknowledged).map_err(failed)?;
        if !differences.is_empty() {
            return Err(End::Wrong(differences.to_string()));
        }
        Ok(())
    }
}
