//! What goes before a trial: the same workload, uncounted.

use esker_api::Ordered;
use esker_base::{Result, Rng};
use esker_workload::{Worker, Workload};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a workload runs before it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WarmUp {
    /// For so long. The faster an engine is the more it does, so that of workloads that insert it has the
    /// more data in what counts.
    For(Duration),
    /// So many operations, all threads together: every engine has the same data afterwards.
    Operations(u64),
}

impl WarmUp {
    /// What counts begins at once.
    pub const NONE: WarmUp = WarmUp::For(Duration::ZERO);
}

impl From<Duration> for WarmUp {
    fn from(duration: Duration) -> Self {
        WarmUp::For(duration)
    }
}

/// The first operations of an endless workload.
pub(super) struct Beginning<'a> {
    pub(super) workload: &'a dyn Workload,
    /// Of all threads together.
    pub(super) operations: u64,
    pub(super) threads: u64,
}

impl Workload for Beginning<'_> {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        self.workload.worker(store, thread, rng)
    }

    fn operations(&self) -> u64 {
        self.operations.div_ceil(self.threads)
    }

    fn share(&self, thread: usize) -> u64 {
        let has_one_more = (thread as u64) < self.operations % self.threads;
        self.operations / self.threads + u64::from(has_one_more)
    }

    fn endless(&self) -> bool {
        false
    }

    fn looks_up(&self) -> bool {
        self.workload.looks_up()
    }

    fn writes(&self) -> bool {
        self.workload.writes()
    }

    fn companion(&self) -> Option<Box<dyn Workload + '_>> {
        self.workload.companion()
    }
}

#[cfg(test)]
mod tests {
    use super::super::idle::Idle;
    use super::*;

    #[test]
    fn threads_share_the_operations_of_a_warm_up() {
        let beginning = Beginning { workload: &Idle, operations: 701, threads: 3 };
        let shares: Vec<u64> = (0..3).map(|thread| beginning.share(thread)).collect();
        assert_eq!(shares, [234, 234, 233]);
        assert_eq!(beginning.operations(), 234);
    }
}
