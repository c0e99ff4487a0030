//! Runs a history against the engine and compares all visible state with the model.
//!
//! Everything runs in one thread, and all randomness comes from the history's seed. Background work
//! of the engine is stepped; its clock and disks are simulated. Every run of a history has the same
//! outcome.
//!
//! A call of the engine may fail only if a fault was injected while it ran. After the fault, it
//! must succeed again. Wrong answers, broken guarantees, reports of corruption and panics are
//! always failures.

mod check;
mod crash;
mod cursor;
mod files;
mod upkeep;
mod write;

pub(crate) use check::check_pairs;

use crate::machine::Machine;
use crate::model::{Model, World};
use crate::operations::{Fault, History, Operation, Recovery, SLOTS};
use crate::settings::{LogMode, OpenSettings};
use cursor::OpenCursor;
use esker_base::{Error, Rng, hash64};
use esker_lsm::{CompactionCounts, Db, KeyspaceSettings, Settings, Snapshot};
use std::time::Duration;

/// What a history did, to see that histories are worth running.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Outcome {
    /// A digest of all that was read.
    pub reads: u64,
    /// Mutating calls on the disks.
    pub calls: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// Ingests done.
    pub ingests: u64,
    /// Of them, those with a value that is larger than a log entry may be.
    pub large_values: u64,
    /// Ingests that had failed, and were there after a crash.
    pub failed_ingests_found: u64,
    /// Processes that ended without closing.
    pub crashes: u64,
    /// Processes that closed.
    pub closes: u64,
    /// Logs that failed.
    pub failed_logs: u64,
    /// Processes that ended between two events of the pool.
    pub cut_off: u64,
    /// Databases that were not opened without the logs that they had.
    pub refused: u64,
    /// Calls that failed with cause.
    pub excused: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Of them, those from a pool.
    pub pool_flushes: u64,
    /// Reads that the DRAMTable answered.
    pub dram_hits: u64,
    /// Compactions done.
    pub compactions: u64,
    /// By why they were done and what they did, moves of tables included.
    pub compactions_done: CompactionCounts,
    /// Values in value files that closed databases refer to.
    pub separated_values: u64,
    /// Compactions that were installed later than they were done.
    pub deferrals: u64,
    /// Processes that ended without closing before some had.
    pub crashes_before_force: u64,
}

/// What was wrong, and at which operation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The operation's place in the history; its length if everything was done by then.
    pub operation: usize,
    /// What was wrong.
    pub what: String,
}

/// Why an operation was not done to its end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The power is gone, or the process dead: on with the next process.
    Over,
    /// The engine is at fault.
    Wrong(String),
}

impl From<String> for Halt {
    fn from(what: String) -> Self {
        Halt::Wrong(what)
    }
}

pub(crate) type Check<T = ()> = Result<T, Halt>;

/// Runs `history` to its end.
pub fn run(history: &History) -> Result<Outcome, Failure> {
    let mut harness = Harness::new(history);
    let place = |operation| move |what| Failure { operation, what };
    let halted = harness.create(&history.creation);
    harness.pick_up(halted).map_err(place(0))?;
    for (at, operation) in history.operations.iter().enumerate() {
        let halted = harness.step(operation);
        harness.pick_up(halted).map_err(place(at))?;
    }
    let halted = harness.finish();
    harness.pick_up(halted).map_err(place(history.operations.len()))?;
    harness.end().map_err(place(history.operations.len()))?;
    Ok(harness.outcome)
}

/// The engine, the machine below it, and the model to compare it with.
pub(crate) struct Harness {
    machine: Machine,
    model: Model,
    settings: OpenSettings,
    /// Of the keyspace that always exists, once it does.
    default_keyspace: KeyspaceSettings,
    /// Present between operations.
    db: Option<Db>,
    snapshots: Vec<Option<(Snapshot, World)>>,
    cursors: Vec<Option<OpenCursor>>,
    batch_bytes_max: usize,
    /// How to go on after a fault that was planned has ended the process.
    recovery: Recovery,
    /// Whether the log has failed in this process.
    log_failed: bool,
    /// Whether the last process closed the database, so that no log holds anything.
    closed: bool,
    /// Whether entries expire.
    expires: bool,
    rng: Rng,
    outcome: Outcome,
}

impl Harness {
    fn new(history: &History) -> Self {
        Harness {
            machine: Machine::new(history.seed, history.own_log, history.extents)
                .settling_after(history.settles_after)
                .encrypted(history.is_encrypted().then_some(history.seed)),
            model: Model::new(),
            settings: history.settings.if_encrypted(history.is_encrypted()),
            default_keyspace: history.default_keyspace,
            db: None,
            snapshots: (0..SLOTS).map(|_| None).collect(),
            cursors: (0..SLOTS).map(|_| None).collect(),
            batch_bytes_max: write::batch_bytes_max(history.extents),
            recovery: Recovery::default(),
            log_failed: false,
            closed: false,
            expires: history.operations.iter().any(Operation::expires),
            rng: Rng::new(history.seed ^ 0x6861_726e_6573_7300),
            outcome: Outcome::default(),
        }
    }

    fn create(&mut self, faults: &[Fault]) -> Check {
        let recovery = Recovery { faults: faults.to_vec(), settings: None };
        self.start_process(&recovery, 0)
    }

    /// The settings that a process opens the database with.
    fn opening(&self) -> Settings {
        self.settings.settings().default_keyspace(self.default_keyspace)
    }

    fn db(&self) -> Db {
        self.db.clone().expect("a database is open between operations")
    }

    /// Lets the time pass that an open may be ahead, if that matters.
    fn reach_mark(&self) {
        if self.expires {
            self.machine.sleep(Duration::from_secs(1));
        }
    }

    fn step(&mut self, operation: &Operation) -> Check {
        // A little time passes anyway.
        self.machine.sleep(Duration::from_micros(50));
        match operation {
            Operation::Write { changes, sync } => self.write(changes, *sync),
            Operation::Ingest(space, entries, is_large) => self.ingest(*space, entries, *is_large),
            Operation::Refused(flaw) => self.write_flawed(*flaw),
            Operation::Get(space, keys) => self.get(*space, keys),
            Operation::Scan(space, a, b) => self.scan(*space, *a, *b),
            Operation::TakeSnapshot(slot) => {
                let taken = (self.db().snapshot(), self.model.now().clone());
                self.snapshots[usize::from(*slot)] = Some(taken);
                Ok(())
            }
            Operation::ReadSnapshot(slot) => self.read_snapshot(*slot),
            Operation::DropSnapshot(slot) => {
                self.snapshots[usize::from(*slot)] = None;
                Ok(())
            }
            Operation::OpenCursor(slot, space, bounds) => self.open_cursor(*slot, *space, *bounds),
            Operation::MoveCursor(slot, moves) => self.move_cursor(*slot, moves),
            Operation::Sync => self.sync(),
            Operation::Flush => self.upkeep("flush", |db| db.flush(), true),
            Operation::Compact => self.upkeep("compact", |db| db.compact(), true),
            Operation::Settle => self.upkeep("settle", |db| db.wait_for_compactions(), false),
            Operation::Step(most) => {
                let db = self.db();
                let _ = (0..*most).take_while(|_| db.run_background_job()).count();
                Ok(())
            }
            Operation::Sleep(milliseconds) => {
                self.machine.sleep(Duration::from_millis((*milliseconds).into()));
                Ok(())
            }
            Operation::CreateSpace(space, seed) => self.create_space(*space, *seed),
            Operation::DropSpace(space) => self.drop_space(*space),
            Operation::SetThreshold(space, bytes) => self.set_threshold(*space, *bytes),
            Operation::Checkpoint => self.checkpoint(),
            Operation::ReadOnly => self.read_only(),
            Operation::CheckAll => self.check_all(),
            Operation::Reopen(recovery) => self.reopen(recovery),
            Operation::LosePower(recovery) => self.next_process(true, recovery),
            Operation::Kill(recovery) => self.next_process(false, recovery),
            Operation::Plan(fault, recovery) => {
                self.machine.plan(*fault);
                self.recovery = recovery.clone();
                Ok(())
            }
            Operation::LimitSpace(slack_kib) => {
                self.machine.limit_space(u64::from(*slack_kib) << 10);
                Ok(())
            }
            Operation::FreeSpace => {
                self.machine.free_space();
                Ok(())
            }
        }
    }

    /// The end of every history: with nothing wrong any more all is there, now and after closing.
    fn finish(&mut self) -> Check {
        self.machine.free_space();
        self.check_all()?;
        self.reopen(&Recovery::default())
    }

    /// Whether acknowledged writes survive the end of the process.
    fn survives_process(&self) -> bool {
        self.settings.log != LogMode::None
    }

    /// Decides whether `error`, from a call that began when `calls` had been made, had a cause.
    fn excuse(&mut self, what: &str, error: &Error, calls: [u64; 2]) -> Check {
        self.outcome.excused += 1;
        if error.is_corruption() {
            return Err(Halt::Wrong(format!("{what} reports corruption: {error}")));
        }
        if self.machine.is_over() {
            return Err(Halt::Over);
        }
        if matches!(error, Error::LogFailed { .. }) {
            if !self.machine.had_faults() {
                return Err(Halt::Wrong(format!("{what} has lost the log without cause: {error}")));
            }
            self.log_failed = true;
            return Ok(());
        }
        if self.machine.may_fail(calls) || self.machine.take_read_fault() {
            if !self.machine.had_faults() && !error.is_out_of_space() {
                let what = format!("{what}, on a full disk, does not say so: {error}");
                return Err(Halt::Wrong(what));
            }
            return Ok(());
        }
        Err(Halt::Wrong(format!("{what} failed without cause: {error}")))
    }

    /// A read that may be repeated.
    fn read<T>(&mut self, what: &str, mut read: impl FnMut(&Db) -> Result<T, Error>) -> Check<T> {
        let db = self.db();
        loop {
            match read(&db) {
                Ok(found) => return Ok(found),
                Err(error) if error.is_corruption() => {
                    return Err(Halt::Wrong(format!("{what} reports corruption: {error}")));
                }
                Err(_) if self.machine.is_over() => return Err(Halt::Over),
                Err(_) if self.machine.take_read_fault() => self.outcome.excused += 1,
                Err(error) => {
                    return Err(Halt::Wrong(format!("{what} failed without cause: {error}")));
                }
            }
        }
    }

    fn note_read(&mut self, bytes: &[u8]) {
        self.outcome.reads = self.outcome.reads.rotate_left(7) ^ hash64(bytes);
    }
}
