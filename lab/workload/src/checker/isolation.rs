//! A checker of isolation: was what concurrent transactions saw possible under their level?
//!
//! A [`Recorder`] notes what transactions read and wrote, and when each began and ended. Every write
//! has a number of its own, which is its value, so a read names the write it saw. [`check`] then looks
//! for the phenomena of Adya ("Weak Consistency", MIT 1999, chapter 3; and Adya, Liskov and O'Neil,
//! ICDE 2000), in two steps:
//!
//! * transaction by transaction: reads of what was aborted (G1a), or never written, or overwritten by
//!   its own writer (G1b), or not committed yet; own writes not seen; reads that do not repeat; and two
//!   transactions that both replaced the same version, a lost update;
//! * all together: circles in the graph of who depends on whom. A circle of writes and of reads that saw
//!   them is G0 or G1c, wrong at every level. Snapshot isolation allows only those circles in which
//!   somewhere two reads follow each other that did not see the next one's write. Serializability
//!   allows none.
//!
//! **What the order of versions is.** The checker knows that a write comes next after the version that
//! its transaction read of that key before, if it read it for update, or under a level at which that
//! has to be so. A write without a read has no place that is known, and only its readers are checked.
//! So workloads that are to be checked read what they write. There are no deletes.
//!
//! A transaction that ended before another began comes before it: levels from snapshot on are checked
//! with that order, too. A range that is read counts as a read of each key in it, there or not.

mod check;
mod graph;
mod recorder;
#[cfg(test)]
mod tests;

pub use check::{Anomaly, check};
pub use recorder::{Recorder, Recording};

use esker_api::Isolation;

/// The number of a write, unique in its history.
pub type WriteId = u64;

/// A key, as a number.
pub type Key = u64;

/// What transactions did.
#[derive(Clone, Default, Debug)]
pub struct History {
    /// In no particular order.
    pub transactions: Vec<Recorded>,
}

/// What one transaction did. Times are ticks of one clock for all.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its level.
    pub isolation: Isolation,
    /// When it began.
    pub begun: u64,
    /// What it did, in order.
    pub operations: Vec<Operation>,
    /// When it began to commit or was rolled back.
    pub ending: u64,
    /// When that was over.
    pub ended: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Its commit succeeded.
    Committed,
    /// It was rolled back, or an error said that it was not committed.
    Aborted,
    /// An error left it open.
    Unknown,
}

/// One read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// When it was over.
    pub at: u64,
    /// The key.
    pub key: Key,
    /// What was done.
    pub action: Action,
}

/// What was done to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A read, and the write it saw, or none.
    Read(Option<WriteId>),
    /// The same, for update.
    ReadForUpdate(Option<WriteId>),
    /// A write.
    Write(WriteId),
}
