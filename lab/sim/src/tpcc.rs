//! TPC-C under power losses: a small company, whose consistency conditions must hold after each, and all
//! that was ever acknowledged must be there.

use crate::settings::LogMode;
pub use crate::transactions::Outcome;
use crate::transactions::{CLIENTS, Running, Scenario};
use esker_api::Transactional;
use esker_base::Result;
use esker_workload::tpcc::{self, Acknowledged, Load, Options, Terminals};
use esker_workload::{Differences, Workload};

/// Runs the company of `seed` through so many power losses. The error says what was wrong.
pub fn run(seed: u64, log: LogMode, crashes: u64) -> Result<Outcome, String> {
    crate::transactions::run(&Company(company(seed)), seed, log, crashes)
}

/// The least that the options allow, so that checks of all of it are quick.
fn company(seed: u64) -> Options {
    let (warehouses, items, customers, clients) = (1, 20, 10, CLIENTS);
    Options { warehouses, items, customers, clients, seed, ..Options::default() }
}

struct Company(Options);

impl Scenario for Company {
    fn load<'s>(&self, store: &'s dyn Transactional) -> Result<Option<Box<dyn Workload + 's>>> {
        Ok(Some(Box::new(Load::new(&self.0, store)?)))
    }

    fn begin<'s>(&self, store: &'s dyn Transactional) -> Result<Box<dyn Running + 's>> {
        Ok(Box::new(Terminals::new(&self.0, store)?))
    }

    fn check(
        &self,
        store: &dyn Transactional,
        acknowledged: &[Acknowledged],
    ) -> Result<Differences> {
        let differences = tpcc::check(store, &self.0)?;
        if differences.is_empty() {
            return tpcc::verify(store, acknowledged.iter().copied());
        }
        Ok(differences)
    }
}

impl Running for Terminals<'_> {
    fn workload(&self) -> &dyn Workload {
        self
    }

    fn acknowledged(&self) -> Vec<Acknowledged> {
        Terminals::acknowledged(self)
    }
}
