//! The command line.

use crate::commands::*;
use crate::demo;
use crate::failure::Outcome;
use clap::Parser;

/// A key-value store in a directory.
///
/// Keys and values are given and printed as text; bytes that are not printable appear as \xHH.
/// With --hex they are hexadecimal digits. `-` stands for standard input or output.
#[derive(Parser)]
#[command(name = "esker", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print results, messages and errors as JSON
    #[arg(long, global = true)]
    json: bool,
}

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    Get(get::Get),
    Put(put::Put),
    Merge(merge::Merge),
    Delete(delete::Delete),
    Scan(scan::Scan),
    Count(count::Count),
    Import(import::Import),
    Export(export::Export),
    Migrate(migrate::Migrate),
    Keyspaces(keyspaces::Keyspaces),
    DropKeyspace(drop_keyspace::DropKeyspace),
    Indexes(indexes::Indexes),
    Prepared(prepared::Prepared),
    Tail(tail::Tail),
    Consumers(tail::Consumers),
    Stats(stats::Stats),
    Top(top::Top),
    Ui(ui::Ui),
    Levels(levels::Levels),
    Set(set::Set),
    Compact(compact::Compact),
    Checkpoint(checkpoint::Checkpoint),
    Backup(backup::Backup),
    Backups(backup::Backups),
    Restore(backup::Restore),
    Check(check::Check),
    Repair(repair::Repair),
    Key(key::Key),
    Shell(shell::Shell),
    DumpFrames(dump::DumpFrames),
    DumpTable(dump::DumpTable),
    DumpManifest(dump::DumpManifest),
    Pmem(pmem::Pmem),
    Hash(hash::Hash),
    Flash(flash::Flash),
    Serve(serve::Serve),
    Follow(follow::Follow),
    Promote(promote::Promote),
    Nvme(nvme::Nvme),
    Bench(bench::Bench),
    #[command(hide = true)]
    Experiment(bench::Experiment),
    Demo(demo::Demo),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(hide = true)]
    DemoWriter(demo::writer::DemoWriter),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Command::Get(command) => command.run(),
            Command::Put(command) => command.run(),
            Command::Merge(command) => command.run(),
            Command::Delete(command) => command.run(),
            Command::Scan(command) => command.run(),
            Command::Count(command) => command.run(),
            Command::Import(command) => command.run(),
            Command::Export(command) => command.run(),
            Command::Migrate(command) => command.run(),
            Command::Keyspaces(command) => command.run(),
            Command::DropKeyspace(command) => command.run(),
            Command::Indexes(command) => command.run(),
            Command::Prepared(command) => command.run(),
            Command::Tail(command) => command.run(),
            Command::Consumers(command) => command.run(),
            Command::Stats(command) => command.run(),
            Command::Top(command) => command.run(),
            Command::Ui(command) => command.run(),
            Command::Levels(command) => command.run(),
            Command::Set(command) => command.run(),
            Command::Compact(command) => command.run(),
            Command::Checkpoint(command) => command.run(),
            Command::Backup(command) => command.run(),
            Command::Backups(command) => command.run(),
            Command::Restore(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Repair(command) => command.run(),
            Command::Key(command) => command.run(),
            Command::Shell(command) => command.run(),
            Command::DumpFrames(command) => command.run(),
            Command::DumpTable(command) => command.run(),
            Command::DumpManifest(command) => command.run(),
            Command::Pmem(command) => command.run(),
            Command::Hash(command) => command.run(),
            Command::Flash(command) => command.run(),
            Command::Serve(command) => command.run(),
            Command::Follow(command) => command.run(),
            Command::Promote(command) => command.run(),
            Command::Nvme(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Experiment(command) => command.run(),
            Command::Demo(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
            Command::DemoWriter(command) => command.run(),
        }
    }
}

/// The command line as users see it: without the commands that help does not name.
pub fn command() -> clap::Command {
    let all = <Arguments as clap::CommandFactory>::command();
    let visible: Vec<_> = all.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect();
    let about = all.get_long_about().or(all.get_about()).cloned().unwrap_or_default();
    let arguments: Vec<_> = all.get_arguments().cloned().collect();
    clap::Command::new("esker")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .args(arguments)
        .subcommands(visible)
}

/// Parses the command line. Prints help and version itself.
pub fn parse() -> Outcome<Command> {
    esker_cli::parse("esker", |arguments: &Arguments| arguments.json)
        .map(|arguments| arguments.command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
