//! Operations that do nothing, for what the machine itself adds to a latency.
//!
//! A processor that is shared, with other programs or with other virtual machines, is now and then
//! elsewhere when an operation is due. What that does to an empty operation at the same rate is the
//! least that any store can show at the same percentile.

use esker_api::Ordered;
use esker_base::{Result, Rng};
use esker_workload::{OperationKind, Step, Worker, Workload};

/// An endless load that asks nothing of the store.
pub(super) struct Idle;

impl Workload for Idle {
    fn worker<'a>(
        &'a self,
        _store: &'a dyn Ordered,
        _thread: usize,
        _rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        Ok(Box::new(Idle))
    }

    fn operations(&self) -> u64 {
        u64::MAX
    }

    fn endless(&self) -> bool {
        true
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        false
    }
}

impl Worker for Idle {
    fn step(&mut self) -> Result<Step> {
        Ok(std::hint::black_box(Step {
            operations: 1,
            kind: OperationKind::Read,
            ..Step::default()
        }))
    }
}
