//! Runs simulated histories, crashes pools at every moment, or kills real processes:
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

use clap::{Parser, Subcommand};
use esker_sim::operations::History;
use esker_sim::{campaign, damaged, kill, killed_tpcc, pool};
use std::path::{Path, PathBuf};
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
    /// Grows a tree of several levels in each.
    #[arg(long, conflicts_with = "calm")]
    deep: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Crashes pools of persistent memory at every moment, and looks at what may be left.
    Pool {
        /// How many images to sample, of the write path and of the whole engine together. Those of
        /// moments that have few, of which none is left out, are on top.
        #[arg(long, default_value_t = 1_000_000)]
        images: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1000)]
        first_seed: u64,
    },
    /// Damages files of databases, hash stores and flash devices, and checks what is read, reported and repaired.
    Damage {
        /// How many trials.
        #[arg(long, default_value_t = 1000)]
        trials: u64,
        /// The seed of the first; the others follow.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Where the files lie meanwhile.
        #[arg(long, default_value = "/dev/shm")]
        dir: PathBuf,
    },
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
        /// Has the log in a pool, in a temporary directory on tmpfs.
        #[arg(long)]
        pool: bool,
        /// Runs TPC-C in them, eight clients, the log synced at every commit.
        #[arg(long)]
        tpcc: bool,
    },
    /// Writes until killed: the child of `kill`.
    #[command(name = kill::CHILD_COMMAND, hide = true)]
    WriteUntilKilled { dir: PathBuf, round: u64, pool: Option<PathBuf> },
    /// Trades until killed: the child of `kill --tpcc`.
    #[command(name = killed_tpcc::CHILD_COMMAND, hide = true)]
    TradeUntilKilled { dir: PathBuf, round: u64, pool: Option<PathBuf> },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        None => simulate(&arguments),
        Some(Command::Pool { images, first_seed }) => crash_pools(*images, *first_seed),
        Some(Command::Damage { trials, seed, dir }) => damage_files(dir, *trials, *seed),
        Some(Command::Kill { rounds, seed, dir, pool, tpcc }) => {
            kill_children(dir, *pool, *tpcc, *rounds, *seed)
        }
        Some(Command::WriteUntilKilled { dir, round, pool }) => {
            let place = kill::Place { dir, pool: pool.as_deref() };
            kill::write_until_killed(place, *round).map_err(|error| error.to_string())
        }
        Some(Command::TradeUntilKilled { dir, round, pool }) => {
            let place = kill::Place { dir, pool: pool.as_deref() };
            killed_tpcc::trade_until_killed(place, *round).map_err(|error| error.to_string())
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
    let draw = match (arguments.calm, arguments.deep) {
        (true, _) => History::draw_calm,
        (_, true) => History::draw_deep,
        _ => History::draw,
    };
    let total = campaign::run_all(seeds, arguments.threads, draw)?;
    println!("{total:#?}");
    Ok(())
}

fn crash_pools(images: u64, first_seed: u64) -> Result<(), String> {
    let mut told = 0;
    let totals = pool::campaign::run(images, first_seed, |totals| {
        if totals.sampled() >= told + images / 10 {
            told = totals.sampled();
            eprintln!("{told} of {images} images sampled, {} histories", totals.frames.histories);
        }
    })?;
    println!("{totals}");
    Ok(())
}

fn damage_files(dir: &Path, trials: u64, seed: u64) -> Result<(), String> {
    for totals in damaged::Campaign::new(dir)?.run(seed..seed + trials)? {
        println!("{totals}");
    }
    Ok(())
}

fn kill_children(dir: &Path, pool: bool, tpcc: bool, rounds: u64, seed: u64) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // Removed however this ends, unless it is killed itself.
    let memory = pool.then(|| tempfile::tempdir_in("/dev/shm")).transpose();
    let memory = memory.map_err(|error| format!("no directory on tmpfs: {error}"))?;
    let pool = memory.as_ref().map(|memory| memory.path().join("pool"));
    let place = kill::Place { dir, pool: pool.as_deref() };
    if tpcc {
        println!("{:#?}", killed_tpcc::run(&program, place, rounds, seed)?);
    } else {
        println!("{:#?}", kill::run(&program, place, rounds, seed)?);
    }
    Ok(())
}
