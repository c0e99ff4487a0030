//! Power losses that end processes, for loads that go on in the next process.

use crate::machine::Machine;
use crate::operations::Fault;
use crate::settings::LogMode;
use esker_base::{Error, Rng};

/// Why a process ended.
pub(crate) enum End {
    Power,
    Wrong(String),
}

impl Machine {
    /// Plans a power loss at one of the next `most` calls: of the storage of the log or of the tables, or
    /// of a log in persistent memory.
    pub(crate) fn plan_power_loss(&mut self, log: LogMode, rng: &mut Rng, most: u64) {
        let after = rng.below(most) as u16;
        self.plan(match log {
            LogMode::Pmem => Fault::Memory { after, power: true },
            _ => Fault::PowerLoss { after, on_log: rng.one_in(2) },
        });
    }

    /// Why a process ends that gets `error` from `what`: the power loss, or a bug.
    pub(crate) fn end(&self, what: &str, error: &Error) -> End {
        match self.is_over() && !error.is_corruption() {
            true => End::Power,
            false => End::Wrong(format!("{what} failed: {error}")),
        }
    }
}
