//! TPC-C in real processes that are killed. A child runs concurrent clients, and prints a line for
//! each acknowledged transaction. Its parent kills it with SIGKILL at a random time, opens what it
//! left, tests the twelve conditions, and looks up everything that any child ever printed. The
//! tables are loaded once and grow with every child.
//!
//! A killed process leaves the page cache intact; a power loss does not. [`tpcc`](crate::tpcc)
//! simulates power loss.

use crate::kill::Place;
use esker_base::{Error, Result, Rng};
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use esker_pmem::{Accept, Pool};
use esker_txn::TransactionDb;
use esker_workload::tpcc::{self, Acknowledged, Load, Options, Terminals};
use esker_workload::{Model, Workload};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// The hidden command that makes a process the child.
pub const CHILD_COMMAND: &str = "trade-until-killed";

/// The bytes of the pool, if there is one: some fifteen extents.
const POOL_BYTES: u64 = 8 << 20;

/// The most acknowledgements that a child lives for.
const LONGEST: u64 = 600;

/// Small, so that all of it can be tested often.
fn company(seed: u64) -> Options {
    let (warehouses, items, customers, clients) = (1, 100, 30, 8);
    Options { warehouses, items, customers, clients, seed, ..Options::default() }
}

/// A log that is synced at every commit, or a pool; segments that are soon full.
fn settings(place: Place<'_>) -> Settings {
    let log = match place.pool {
        Some(pool) => Log::Pmem { pool: pool.to_owned(), emulated: true },
        None => Log::File { dir: None, sync: SyncPolicy::Always },
    };
    Settings::default().log(log).segment_bytes(256 << 10).sealed_segments(2).memory_bytes(16 << 20)
}

/// What the child does: opens the company in its place, and trades until it is killed.
pub fn trade_until_killed(place: Place<'_>, round: u64) -> Result<()> {
    let store = TransactionDb::new(Db::open(place.dir, settings(place))?);
    // Each round draws other transactions.
    let options = company(round);
    let told = |done: Acknowledged| {
        // One write, so that lines of two clients never mix and no line is half there.
        let line = format!("{done}\n");
        let mut out = io::stdout().lock();
        let told = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        told.map_err(|source| Error::io("acknowledge", "standard output", source))
    };
    let terminals = Terminals::new(&options, &store)?.with_witness(&told);
    let unused = Model::new();
    std::thread::scope(|scope| {
        let trade = |client: usize| -> Result<()> {
            let rng = Rng::new(round * options.clients as u64 + client as u64);
            let mut terminal = terminals.worker(&unused, client, rng)?;
            loop {
                terminal.step()?;
            }
        };
        let clients: Vec<_> =
            (0..options.clients).map(|client| scope.spawn(move || trade(client))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client panicked"))
    })
}

/// What the rounds saw.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Rounds {
    /// Rounds done.
    pub rounds: u64,
    /// Transactions that were acknowledged, and are all there.
    pub acknowledged: u64,
    /// Rounds whose child was killed before it acknowledged anything.
    pub silent: u64,
}

/// Kills `rounds` children of `program`, which is this crate's, over one company. Makes it, and its pool,
/// if there is to be one.
pub fn run(
    program: &Path,
    place: Place<'_>,
    rounds: u64,
    seed: u64,
) -> std::result::Result<Rounds, String> {
    let fails = |error: Error| error.to_string();
    if let Some(pool) = place.pool {
        Pool::create(pool, POOL_BYTES, Accept::Emulated).map_err(fails)?;
    }
    load(place).map_err(|error| format!("the load failed: {error}"))?;
    let mut rng = Rng::new(seed);
    let mut acknowledged = Vec::new();
    let mut seen = Rounds::default();
    for round in 0..rounds {
        let enough = if rng.one_in(8) { 0 } else { rng.below(LONGEST) };
        let told = run_child(program, place, round, enough)
            .map_err(|error| format!("round {round}: {error}"))?;
        seen.silent += u64::from(told.is_empty());
        acknowledged.extend(told);
        check(place, &acknowledged).map_err(|what| format!("round {round}: {what}"))?;
        seen.rounds += 1;
        seen.acknowledged = acknowledged.len() as u64;
    }
    Ok(seen)
}

fn load(place: Place<'_>) -> Result<()> {
    let db = Db::open(place.dir, settings(place))?;
    let store = TransactionDb::new(db.clone());
    let options = company(0);
    let load = Load::new(&options, &store)?;
    let unused = Model::new();
    for client in 0..options.clients {
        let mut worker = load.worker(&unused, client, Rng::new(0))?;
        for _ in 0..load.share(client) {
            worker.step()?;
        }
    }
    drop(store);
    db.close()
}

/// Runs a child until it has acknowledged `enough`, then kills it. All that it acknowledged, for what it
/// said before it died counts, too.
fn run_child(
    program: &Path,
    place: Place<'_>,
    round: u64,
    enough: u64,
) -> std::result::Result<Vec<Acknowledged>, String> {
    let fails = |error: io::Error| format!("no child: {error}");
    let mut child = Command::new(program)
        .arg(CHILD_COMMAND)
        .arg(place.dir)
        .arg(round.to_string())
        .args(place.pool)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fails)?;
    let mut pipe = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut lines: Vec<String> =
        pipe.by_ref().take(enough as usize).collect::<io::Result<_>>().map_err(fails)?;
    let ended_early = (lines.len() as u64) < enough;
    child.kill().map_err(fails)?;
    let status = child.wait().map_err(fails)?;
    if ended_early {
        return Err(format!("the child ended by itself: {status}"));
    }
    for line in pipe {
        lines.push(line.map_err(fails)?);
    }
    let parsed = lines.iter().map(|line| line.parse().map_err(|error: Error| error.to_string()));
    parsed.collect()
}

/// Opens what a child left, and says what is wrong with it.
fn check(place: Place<'_>, acknowledged: &[Acknowledged]) -> std::result::Result<(), String> {
    let fails = |error: Error| error.to_string();
    let db = Db::open(place.dir, settings(place)).map_err(fails)?;
    let store = TransactionDb::new(db.clone());
    let broken = tpcc::check(&store, &company(0)).map_err(fails)?;
    if !broken.is_empty() {
        return Err(format!("after recovery:\n{broken}"));
    }
    let missing = tpcc::verify(&store, acknowledged.iter().copied()).map_err(fails)?;
    if !missing.is_empty() {
        return Err(format!("after recovery:\n{missing}"));
    }
    drop(store);
    db.close().map_err(fails)
}
