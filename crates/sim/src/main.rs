//! Runs simulated histories: `cargo run --release -p esker-sim -- --seeds 10000`.

#![forbid(unsafe_code)]

use clap::Parser;
use esker_sim::campaign;
use esker_sim::operations::History;
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = arguments.first_seed..arguments.first_seed + arguments.seeds;
    let draw = if arguments.calm { History::draw_calm } else { History::draw };
    match campaign::run_all(seeds, arguments.threads, draw) {
        Ok(total) => {
            println!("{total:#?}");
            ExitCode::SUCCESS
        }
        Err(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
    }
}
