//! Runs simulated histories, crashes pools at every point in time, or kills real processes:
//!
//! ```text
//! cargo run --release -p esker-sim -- --seeds 10000
//! cargo run --release -p esker-sim -- --seeds 1000 --deep
//! cargo run --release -p esker-sim -- pool --images 1000000
//! cargo run --release -p esker-sim -- damage --trials 10000
//! cargo run --release -p esker-sim -- kill --rounds 100
//! cargo run --release -p esker-sim -- kill --rounds 100 --pool
//! cargo run --release -p esker-sim -- kill --rounds 100 --tpcc
//! ```

#![forbid(unsafe_code)]

use clap::Parser;
use esker_sim::commands::{Command, Histories};
use std::process::ExitCode;

/// Simulates the engine through crashes and failing disks, one history a seed.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    histories: Histories,
    #[command(subcommand)]
    command: Option<Command>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        None => arguments.histories.run(),
        Some(command) => command.run(&|message| eprintln!("{message}")),
    };
    match outcome {
        Ok(totals) => {
            println!("{}", totals.text);
            ExitCode::SUCCESS
        }
        Err(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
    }
}
