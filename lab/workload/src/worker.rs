//! The interface between a workload and the driver that runs it.

use esker_api::Ordered;
use esker_base::{Error, Result, Rng};
use std::time::Duration;

/// The kind of an operation, so that latencies can be separated where a load mixes them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OperationKind {
    /// A lookup of one key.
    #[default]
    Read,
    /// A write of a key that may be there, a delete included.
    Update,
    /// A write of a key that is new.
    Insert,
    /// Entries in order: a seek and the steps after it, or one such step.
    Scan,
    /// A read of a key and a write of the same key after it.
    ReadModifyWrite,
    /// What the workload has a name of its own for. It looks for nothing.
    Named(&'static str),
}

impl OperationKind {
    /// All kinds but those that a workload names.
    pub const ALL: [OperationKind; 5] = [
        OperationKind::Read,
        OperationKind::Update,
        OperationKind::Insert,
        OperationKind::Scan,
        OperationKind::ReadModifyWrite,
    ];

    /// Whether operations of this kind look for something: [`Step::found`] is out of these alone.
    pub fn looks_up(self) -> bool {
        matches!(self, Self::Read | Self::Scan | Self::ReadModifyWrite)
    }

    /// Its name, as in the names of metrics.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Read => "read",
            OperationKind::Update => "update",
            OperationKind::Insert => "insert",
            OperationKind::Scan => "scan",
            OperationKind::ReadModifyWrite => "rmw",
            OperationKind::Named(name) => name,
        }
    }
}

impl std::fmt::Display for OperationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What one step of a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// What kind of operation it was.
    pub kind: OperationKind,
    /// Operations done: one, or a batch's entries. Zero if there was nothing left to do.
    pub operations: u64,
    /// Operations among them that found what they looked for; zero where they look for nothing.
    pub found: u64,
    /// Bytes of keys and values that went in or came out.
    pub bytes: u64,
    /// How the transactions ended that it took.
    pub transactions: Transactions,
    /// Time that the worker let pass on purpose, which is no latency.
    pub waited: Duration,
}

impl Step {
    /// The step of a worker that has nothing left to do.
    pub const END: Step = Step {
        kind: OperationKind::Read,
        operations: 0,
        found: 0,
        bytes: 0,
        transactions: Transactions::NONE,
        waited: Duration::ZERO,
    };
}

/// How transactions ended. A plain write that is atomic counts as one that committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transactions {
    /// Committed, with something written.
    pub commits: u64,
    /// Dropped because the workload wants it so.
    pub rollbacks: u64,
    /// Dropped because of others, and run again.
    pub retries: u64,
}

impl Transactions {
    /// No transaction.
    pub const NONE: Transactions = Transactions { commits: 0, rollbacks: 0, retries: 0 };
}

impl std::ops::AddAssign for Transactions {
    fn add_assign(&mut self, other: Transactions) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.retries += other.retries;
    }
}

/// One thread's part of a workload: made and stepped by that thread, so it may hold cursors.
pub trait Worker {
    /// Does the next operation.
    fn step(&mut self) -> Result<Step>;
}

/// A kind of load on a store. Shared between the threads that run it.
pub trait Workload: Sync {
    /// The part of thread number `thread`, counted from zero. Each thread brings its own `rng`.
    ///
    /// `store` is one keyspace. A workload of transactions over several is bound to its
    /// [`Transactional`](esker_api::Transactional) store when it is made, and does not inspect this one.
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>>;

    /// How many operations each worker is to do. A scan may run out of entries earlier.
    fn operations(&self) -> u64;

    /// How many operations thread number `thread` is to do, where the threads' shares differ: never
    /// more than [`Workload::operations`].
    fn share(&self, _thread: usize) -> u64 {
        self.operations()
    }

    /// Bytes of keys and values that the store holds for its users once this load has done
    /// `operations` operations: what its files are compared with. `None` if the load can't know.
    fn live_bytes(&self, _operations: u64) -> Option<u64> {
        None
    }

    /// Whether the load can go on for as long as one likes, so that a time limit may take the
    /// place of [`Workload::operations`].
    fn endless(&self) -> bool;

    /// Whether [`Step::found`] means anything here.
    fn looks_up(&self) -> bool;

    /// Whether the load writes.
    fn writes(&self) -> bool;

    /// The kind of operation whose number a minute is what the workload is known by, and what that is
    /// called.
    fn figure(&self) -> Option<(OperationKind, &'static str)> {
        None
    }

    /// What one more thread does meanwhile, unmeasured, until the workers are done.
    fn companion(&self) -> Option<Box<dyn Workload + '_>> {
        None
    }
}

/// The most threads of one run: beyond, what is measured is the system's scheduler.
pub(crate) const MOST_THREADS: usize = 1024;

/// Refuses a number of threads that can't be meant, given by the name `setting`.
pub(crate) fn check_threads(setting: &'static str, threads: usize) -> Result<()> {
    if (1..=MOST_THREADS).contains(&threads) {
        return Ok(());
    }
    let reason = format!("it is from 1 to {MOST_THREADS}");
    Err(Error::InvalidSetting { setting, value: threads.to_string(), reason })
}

/// The part of `total` operations that thread number `thread` of `threads` does: the first threads
/// do one more each if they do not divide evenly.
pub(crate) fn share_of(total: u64, threads: usize, thread: usize) -> u64 {
    let (threads, thread) = (threads as u64, thread as u64);
    total / threads + u64::from(thread < total % threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_differ_by_one_at_most_and_add_up() {
        for (total, threads) in [(10, 3), (9, 3), (2, 3), (7, 1)] {
            let shares: Vec<_> = (0..threads).map(|n| share_of(total, threads, n)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares[0] - shares[threads - 1] <= 1 && shares.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let mut names: Vec<_> = OperationKind::ALL.map(OperationKind::name).into();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 5);
    }
}
