//! `esker hash`: hash stores, which a storage node serves.

mod check;
mod create;
mod repair;

use crate::failure::Outcome;

/// Create, check or repair a hash store
///
/// A hash store is one file or block device. It finds values by the hash of their keys, and keeps no
/// order. Only one process at a time can have it open.
#[derive(clap::Args)]
pub struct Hash {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Create(create::Create),
    Check(check::Check),
    Scrub(check::Scrub),
    Repair(repair::Repair),
}

impl Hash {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Create(command) => command.run(),
            Action::Check(command) => command.run(),
            Action::Scrub(command) => command.run(),
            Action::Repair(command) => command.run(),
        }
    }
}
