//! How far a run has come, for an observer.

use std::time::Duration;

/// A point in time of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The stage that runs.
    pub stage: &'a str,
    /// Its place among the stages, from zero.
    pub index: usize,
    /// How many stages there are.
    pub stages: usize,
    /// Operations that its measured threads have done.
    pub operations: u64,
    /// How many they are to do, if that is known.
    pub wanted: Option<u64>,
    /// Time since it started.
    pub elapsed: Duration,
    /// Whether it has ended. Each stage reports its end exactly once.
    pub is_done: bool,
}
