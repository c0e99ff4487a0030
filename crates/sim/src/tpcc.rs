//! TPC-C in transactions on a machine that loses power.
//!
//! A small company is loaded, and terminals work, one transaction after the other in the order that the
//! seed says, until a power loss strikes at some call of a disk, or at some store or fence in persistent
//! memory. The next process recovers, perhaps not at the first try. Then the specification's consistency
//! conditions must hold, and all that was ever acknowledged must be there; and the terminals go on.

use crate::machine::Machine;
use crate::operations::Fault;
use crate::settings::{LogMode, OpenSettings};
use esker_base::{Error, Rng};
use esker_lsm::{Db, Forwarding};
use esker_txn::TransactionDb;
use esker_workload::tpcc::{self, Acknowledged, Load, Options, Terminals};
use esker_workload::{Model, Worker, Workload, stream};

/// The least that the options allow, so that checks of all of it are quick.
fn company(seed: u64) -> Options {
    let (warehouses, items, customers, clients) = (1, 20, 10, 4);
    Options { warehouses, items, customers, clients, seed, ..Options::default() }
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
    /// Transactions acknowledged.
    pub acknowledged: u64,
    /// Flushes that processes did before they ended.
    pub flushes: u64,
}

/// Why a process ended.
enum End {
    Power,
    Wrong(String),
}

/// Runs the company of `seed` through so many power losses. The error says what was wrong.
pub fn run(seed: u64, log: LogMode, crashes: u64) -> Result<Outcome, String> {
    let mut world = World {
        machine: Machine::new(seed, seed.is_multiple_of(2), 5),
        options: company(seed),
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
    world.outcome.acknowledged = world.acknowledged.len() as u64;
    Ok(world.outcome)
}

struct World {
    machine: Machine,
    options: Options,
    settings: OpenSettings,
    rng: Rng,
    acknowledged: Vec<Acknowledged>,
    outcome: Outcome,
}

impl World {
    fn load(&mut self) -> Result<(), String> {
        let wrong = |error: Error| format!("the load failed: {error}");
        let db = Db::open_with(self.machine.env(), self.settings.settings()).map_err(wrong)?;
        let store = TransactionDb::new(db.clone());
        let unused = Model::new();
        let load = Load::new(&self.options, &store).map_err(wrong)?;
        for thread in 0..self.options.clients {
            let rng = Rng::new(0);
            let mut worker = load.worker(&unused, thread, rng).map_err(wrong)?;
            for _ in 0..load.share(thread) {
                worker.step().map_err(wrong)?;
            }
        }
        drop(store);
        db.close().map_err(wrong)
    }

    /// Opens, checks, works, and loses power.
    fn process(&mut self) -> Result<(), End> {
        if self.rng.one_in(3) {
            self.plan(30);
        }
        let opened = Db::open_with(self.machine.env(), self.settings.settings());
        let ended = match &opened {
            Err(error) => Err(self.end("opening", error)),
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

    /// Plans a power loss after so many calls at most.
    fn plan(&mut self, most: u64) {
        let after = self.rng.below(most) as u16;
        self.machine.plan(match self.settings.log {
            LogMode::Pmem => Fault::Memory { after, power: true },
            _ => Fault::PowerLoss { after, on_log: self.rng.one_in(2) },
        });
    }

    /// Whether `error` is the power loss's.
    fn end(&self, what: &str, error: &Error) -> End {
        match self.machine.is_over() && !error.is_corruption() {
            true => End::Power,
            false => End::Wrong(format!("{what} failed: {error}")),
        }
    }

    fn work(&mut self, store: &TransactionDb<Db>) -> Result<(), End> {
        self.check(store)?;
        let terminals =
            Terminals::new(&self.options, store).map_err(|error| self.end("beginning", &error))?;
        let unused = Model::new();
        let run = self.outcome.crashes;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        for client in 0..self.options.clients {
            let rng = stream(self.options.seed, "terminal", (run << 8) | client as u64);
            let worker = terminals.worker(&unused, client, rng);
            workers.push(worker.map_err(|error| self.end("beginning", &error))?);
        }
        let earlier = self.acknowledged.len();
        self.plan(600);
        for _ in 0..STEPS {
            let client = self.rng.below(workers.len() as u64) as usize;
            let stepped = workers[client].step();
            stepped.map_err(|error| self.end("a transaction", &error))?;
            let background = self.rng.below(4);
            let _ = (0..background).take_while(|_| store.store().step()).count();
            if self.machine.is_over() {
                // What was acknowledged since the last step may have come after the end.
                return Err(End::Power);
            }
            self.acknowledged.truncate(earlier);
            self.acknowledged.append(&mut terminals.acknowledged());
        }
        Ok(())
    }

    /// All that must hold whenever a process has recovered.
    fn check(&self, store: &TransactionDb<Db>) -> Result<(), End> {
        let failed = |error: Error| self.end("the check", &error);
        let differences = tpcc::check(store, &self.options).map_err(failed)?;
        if !differences.is_empty() {
            return Err(End::Wrong(differences.to_string()));
        }
        let acknowledged = self.acknowledged.iter().copied();
        let missing = tpcc::verify(store, acknowledged).map_err(failed)?;
        if !missing.is_empty() {
            return Err(End::Wrong(missing.to_string()));
        }
        Ok(())
    }
}
