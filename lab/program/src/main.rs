//! The `esker-lab` program: measures Esker, compared with other engines where they are built in.
//!
//! * [`mod@bench`]: loads, each on one engine or several;
//! * [`experiment`]: comparisons known by name, which anybody can repeat;
//! * [`crash`]: simulated histories, damage, and processes that are killed.
//!
//! Output, messages and exit statuses are those of `esker`, whose library it uses.

#![forbid(unsafe_code)]
// These panic when nobody hears them: `output::tell` and a `Write` that may fail are there instead.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod bench;
mod experiment;

use clap::{Parser, Subcommand};
use esker_cli::{failure, interrupt, limits, options, output, temporary, units};
use esker_sim::commands as crash;
use std::process::ExitCode;

/// Benchmarks and experiments of the Esker storage engine.
#[derive(Parser)]
#[command(name = "esker-lab", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print results, messages and errors as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Bench),
    Experiment(experiment::Run),
    #[command(flatten)]
    Crash(crash::Command),
}

fn run() -> failure::Outcome {
    let arguments: Arguments =
        esker_cli::parse("esker-lab", |arguments: &Arguments| arguments.json)?;
    match arguments.command {
        Command::Bench(bench) => bench.run(),
        Command::Experiment(experiment) => experiment.run(),
        // The report names what is lost: it is an answer, and not a failure to give one.
        Command::Crash(command) => {
            let totals = command.run(&|message| output::tell(message));
            let totals =
                totals.map_err(|report| failure::Failure::No(failure::Answer::Problems, report))?;
            output::show(|| totals.json, || totals.text + "\n")
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
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
