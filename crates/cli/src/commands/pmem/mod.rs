//! `esker pmem`: pools of persistent memory, where a database's log can be.

mod check;
mod create;
mod info;

use crate::failure::Outcome;
use esker_pmem::{Accept, Pool};
use serde_json::{Map, Value as Json};

/// Create, inspect or check a pool of persistent memory
///
/// A pool is one file on a DAX file system. It holds the log of one database. A file on tmpfs, such as
/// in /dev/shm, can replace it for tests. That survives the program but no power loss, and every output
/// calls it emulated.
#[derive(clap::Args)]
pub struct Pmem {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Create(create::Create),
    Info(info::Info),
    Check(check::Check),
}

impl Pmem {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Create(command) => command.run(),
            Action::Info(command) => command.run(),
            Action::Check(command) => command.run(),
        }
    }
}

/// Inspecting an emulated pool promises nothing, so it needs no asking.
const TO_LOOK_AT: Accept = Accept::Emulated;

/// A pool's or a database's number as it is shown.
fn identity(number: u64) -> String {
    format!("{number:016x}")
}

/// What the header says.
fn header_json(pool: &Pool) -> Map<String, Json> {
    let owner = pool.owner().map(identity);
    Map::from_iter(
        [
            ("path", Json::from(pool.describe())),
            ("domain", pool.domain().to_string().into()),
            ("stores", pool.describe_ways().into()),
            ("survives_power_loss", pool.domain().survives_power_loss().into()),
            ("identity", identity(pool.identity()).into()),
            ("database", owner.into()),
            ("bytes", pool.bytes().into()),
            ("extents", pool.extents().into()),
            ("extent_bytes", pool.extent_bytes().into()),
            ("used", pool.used().into()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    )
}
