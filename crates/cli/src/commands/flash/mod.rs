//! `esker flash`: flash devices, whose space the engine manages itself.

mod create;
mod info;
mod repair;

use crate::failure::Outcome;

/// Create, inspect or repair a flash device for a database
///
/// A device is a zoned disk, whose zones are the chunks; or an NVMe disk with placement (FDP), whose
/// chunks are as long as its reclaim units; or a directory with a file for each chunk. get, put,
/// delete, scan, import, export, stats, levels, keyspaces, drop-keyspace, compact and checkpoint take
/// its path in place of a directory. The database's files are then on the chunks.
#[derive(clap::Args)]
pub struct Flash {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Create(create::Create),
    Info(info::Info),
    Repair(repair::Repair),
}

impl Flash {
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Create(command) => command.run(),
            Action::Info(command) => command.run(),
            Action::Repair(command) => command.run(),
        }
    }
}
