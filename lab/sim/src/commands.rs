//! The commands: histories, crashes of pools, damage, killed processes.
//!
//! The programs `esker-sim` and `esker-lab` have them both. The hidden ones are the processes that
//! are killed; each program runs itself for them.

use crate::operations::History;
use crate::{campaign, damaged, kill, killed_tpcc, pool};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// What went wrong, for a person to read.
pub type Report = String;

/// What a command counted.
pub struct Totals {
    /// For a person, without a newline at the end. Empty for a child, which is killed.
    pub text: String,
    /// The same for a program.
    pub json: serde_json::Value,
}

impl Totals {
    fn of(totals: &impl serde::Serialize, text: String) -> Result<Self, Report> {
        let json = serde_json::to_value(totals).map_err(|error| error.to_string())?;
        Ok(Totals { text, json })
    }

    fn none() -> Self {
        Totals { text: String::new(), json: serde_json::Value::Null }
    }
}

/// Which histories to run.
#[derive(Args)]
pub struct Histories {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// On how many threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Leave out all that can go wrong
    #[arg(long)]
    calm: bool,
    /// Grow a tree of several levels in each
    #[arg(long, conflicts_with = "calm")]
    deep: bool,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Simulate the engine through crashes and failing disks, one history a seed
    Histories(Histories),
    /// Crash pools of persistent memory after every event, and check what may be left
    Pool {
        /// How many images to sample, of the write path and of the whole engine together. Images of
        /// events that have few are all checked, and not counted here
        #[arg(long, default_value_t = 1_000_000)]
        images: u64,
        /// The first seed
        #[arg(long, default_value_t = 1000)]
        first_seed: u64,
    },
    /// Damage files of databases, hash stores and flash devices; check what is read, reported and repaired
    Damage {
        /// How many trials
        #[arg(long, default_value_t = 1000)]
        trials: u64,
        /// The seed of the first; the others follow
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Where the files are meanwhile
        #[arg(long, default_value = "/dev/shm")]
        dir: PathBuf,
    },
    /// Kill real processes while they write, and check what they leave
    Kill {
        /// How many processes
        #[arg(long, default_value_t = 100)]
        rounds: u64,
        /// Decides how long each lives
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The directory of the database; must be missing or empty
        #[arg(long, default_value = "esker-kill")]
        dir: PathBuf,
        /// Put the log into a pool, in a temporary directory on tmpfs
        #[arg(long)]
        pool: bool,
        /// Run TPC-C in them, eight clients, the log synced at every commit
        #[arg(long)]
        tpcc: bool,
    },
    /// Write until killed: the child of `kill`
    #[command(name = kill::CHILD_COMMAND, hide = true)]
    WriteUntilKilled {
        /// The directory of the database
        dir: PathBuf,
        /// The number of the process
        round: u64,
        /// The pool
        pool: Option<PathBuf>,
    },
    /// Trade until killed: the child of `kill --tpcc`
    #[command(name = killed_tpcc::CHILD_COMMAND, hide = true)]
    TradeUntilKilled {
        /// The directory of the database
        dir: PathBuf,
        /// The number of the process
        round: u64,
        /// The pool
        pool: Option<PathBuf>,
    },
}

impl Command {
    /// Does it, and returns the totals. `tell` prints a message on the way.
    ///
    /// # Errors
    ///
    /// What the engine did wrong, with the command that repeats it.
    pub fn run(&self, tell: &dyn Fn(&str)) -> Result<Totals, Report> {
        match self {
            Command::Histories(histories) => histories.run(),
            Command::Pool { images, first_seed } => crash_pools(*images, *first_seed, tell),
            Command::Damage { trials, seed, dir } => damage_files(dir, *trials, *seed),
            Command::Kill { rounds, seed, dir, pool, tpcc } => {
                kill_children(dir, *pool, *tpcc, *rounds, *seed)
            }
            Command::WriteUntilKilled { dir, round, pool } => {
                let place = kill::Place { dir, pool: pool.as_deref() };
                let written = kill::write_until_killed(place, *round);
                written.map(|()| Totals::none()).map_err(|error| error.to_string())
            }
            Command::TradeUntilKilled { dir, round, pool } => {
                let place = kill::Place { dir, pool: pool.as_deref() };
                let traded = killed_tpcc::trade_until_killed(place, *round);
                traded.map(|()| Totals::none()).map_err(|error| error.to_string())
            }
        }
    }
}

impl Histories {
    /// Runs them, and returns the totals.
    ///
    /// # Errors
    ///
    /// What the engine did wrong in the first history that failed, made small.
    pub fn run(&self) -> Result<Totals, Report> {
        let seeds = self.first_seed..self.first_seed + self.seeds;
        let draw = match (self.calm, self.deep) {
            (true, _) => History::draw_calm,
            (_, true) => History::draw_deep,
            _ => History::draw,
        };
        let total = campaign::run_all(seeds, self.threads, draw)?;
        Totals::of(&total, format!("{total:#?}"))
    }
}

fn crash_pools(images: u64, first_seed: u64, tell: &dyn Fn(&str)) -> Result<Totals, Report> {
    let mut told = 0;
    let totals = pool::campaign::run(images, first_seed, |totals| {
        if totals.sampled() >= told + images / 10 {
            told = totals.sampled();
            let histories = totals.frames.histories;
            tell(&format!("{told} of {images} images sampled, {histories} histories"));
        }
    })?;
    Totals::of(&totals, totals.to_string())
}

fn damage_files(dir: &Path, trials: u64, seed: u64) -> Result<Totals, Report> {
    let totals = damaged::Campaign::new(dir)?.run(seed..seed + trials)?;
    let lines: Vec<_> = totals.iter().map(damaged::Totals::to_string).collect();
    Totals::of(&totals, lines.join("\n"))
}

fn kill_children(
    dir: &Path,
    pool: bool,
    tpcc: bool,
    rounds: u64,
    seed: u64,
) -> Result<Totals, Report> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // Removed however this ends, unless it is killed itself.
    let memory = pool.then(|| tempfile::tempdir_in("/dev/shm")).transpose();
    let memory = memory.map_err(|error| format!("no directory on tmpfs: {error}"))?;
    let pool = memory.as_ref().map(|memory| memory.path().join("pool"));
    let place = kill::Place { dir, pool: pool.as_deref() };
    if tpcc {
        let rounds = killed_tpcc::run(&program, place, rounds, seed)?;
        Totals::of(&rounds, format!("{rounds:#?}"))
    } else {
        let rounds = kill::run(&program, place, rounds, seed)?;
        Totals::of(&rounds, format!("{rounds:#?}"))
    }
}
