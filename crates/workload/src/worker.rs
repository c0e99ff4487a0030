//! The seam between a workload and whoever runs it.

use esker_api::Ordered;
use esker_base::{Result, Rng};

/// The kind of an operation, so that latencies can be told apart where a load mixes them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OperationKind {
    /// A look at one key.
    #[default]
    Read,
    /// A write of a key that may be there, a delete included.
    Update,
    /// A write of a key that is new.
    Insert,
    /// Pairs in order: a seek and the steps after it, or one such step.
    Scan,
    /// A read of a key and a write of the same key after it.
    ReadModifyWrite,
}

impl OperationKind {
    /// All kinds, in the order of their numbers: `ALL[kind as usize] == kind`.
    pub const ALL: [OperationKind; 5] = [
        OperationKind::Read,
        OperationKind::Update,
        OperationKind::Insert,
        OperationKind::Scan,
        OperationKind::ReadModifyWrite,
    ];

    /// Its name, as in the names of metrics.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Read => "read",
            OperationKind::Update => "update",
            OperationKind::Insert => "insert",
            OperationKind::Scan => "scan",
            OperationKind::ReadModifyWrite => "rmw",
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
    /// Operations among them that found what they looked for.
    pub found: u64,
    /// Bytes of keys and values that went in or came out.
    pub bytes: u64,
}

impl Step {
    /// The step of a worker that has nothing left to do.
    pub const END: Step = Step { kind: OperationKind::Read, operations: 0, found: 0, bytes: 0 };
}

/// One thread's part of a workload: made and stepped by that thread, so it may hold cursors.
pub trait Worker {
    /// Does the next operation.
    fn step(&mut self) -> Result<Step>;
}

/// A kind of load on a store. Shared between the threads that run it.
pub trait Workload: Sync {
    /// The part of thread number `thread`, counted from zero. Each thread brings its own `rng`.
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>>;

    /// How many operations each worker is to do. A scan may run out of pairs earlier.
    fn operations(&self) -> u64;

    /// How many operations thread number `thread` is to do, where the threads' shares differ: never
    /// more than [`Workload::operations`].
    fn share(&self, _thread: usize) -> u64 {
        self.operations()
    }

    /// Whether the load can go on for as long as one likes, so that a time limit may take the
    /// place of [`Workload::operations`].
    fn endless(&self) -> bool;

    /// Whether [`Step::found`] means anything here.
    fn looks_up(&self) -> bool;

    /// Whether the load writes.
    fn writes(&self) -> bool;

    /// What one more thread does meanwhile, unmeasured, until the workers are done.
    fn companion(&self) -> Option<Box<dyn Workload + '_>> {
        None
    }
}
