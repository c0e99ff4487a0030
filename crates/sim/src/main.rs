//! Runs simulated histories, or kills real processes:
//!
//! ```text
//! cargo run --release -p esker-sim -- --seeds 10000
//! cargo run --release -p esker-sim -- kill --rounds 100
//! ```

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use esker_sim::operations::History;
use esker_sim::{campaign, kill};
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulates the engine through crashes and failing disks, one history a seed.
#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// On how many threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Leaves out all that can go wrong.
    #[arg(long)]
    calm: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Kills real processes while they write, and checks what they leave.
    Kill {
        /// How many processes.
        #[arg(long, default_value_t = 100)]
        rounds: u64,
        /// Decides how long each lives.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Where the database lies. Must be missing or empty.
        #[arg(long, default_value = "esker-kill")]
        dir: PathBuf,
    },
    /// Writes until killed: the child of `kill`.
    #[command(name = kill::CHILD_COMMAND, hide = true)]
    WriteUntilKilled { dir: PathBuf, round: u64 },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        None => simulate(&arguments),
        Some(Command::Kill { rounds, seed, dir }) => kill_children(dir, *rounds, *seed),
        Some(Command::WriteUntilKilled { dir, round }) => {
            kill::write_until_killed(dir, *round).map_err(|error| error.to_string())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(arguments: &Arguments) -> Result<(), String> {
    let seeds = arguments.first_seed..arguments.first_seed + arguments.seeds;
    let draw = if arguments.calm { History::draw_calm } else { History::draw };
    let total = campaign::run_all(seeds, arguments.threads, draw)?;
    println!("{total:#?}");
    Ok(())
}

fn kill_children(dir: &std::path::Path, rounds: u64, seed: u64) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let seen = kill::run(&program, dir, rounds, seed)?;
    println!("{seen:#?}");
    Ok(())
}
