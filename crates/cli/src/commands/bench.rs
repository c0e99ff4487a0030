//! `esker bench`: how fast the engine is on the user's own disk.

use crate::failure::{Failure, Outcome};
use crate::limits::check_sizes;
use crate::options::{KeyspaceOptions, parse_sync};
use crate::output::{self, show};
use crate::progress::Progress;
use crate::temporary::Temporary;
use crate::units::{self, counted, parse_bytes, per_second};
use clap::{Args, Subcommand};
use esker::{Cursor, Db, KeyRange, Keyspace, Log, Settings, SyncPolicy};
use esker_base::{Clock, Rng, SystemClock};
use hdrhistogram::Histogram;
use serde_json::{Value as Json, json};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KEY_BYTES: usize = 16;

/// Entries that each operation of the phase `scan` reads.
const SCANNED_PAIRS: usize = 50;

/// An hour. An operation that takes longer counts as one of this length.
const LONGEST_NANOSECONDS: u64 = 3_600_000_000_000;

/// Random bytes that values are cut from.
const POOL_BYTES: usize = 1 << 20;

/// Measure the engine on your own disk
///
/// Fills a temporary database with random keys, then overwrites, reads, scans, and mixes
/// reads with writes in equal parts. Prints the rate and the latencies of each phase. Half of each
/// value compresses well, the other half not at all. The database is removed at the end.
///
/// `esker-lab` runs standard benchmarks, and compares engines.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(override_usage = "esker bench [OPTIONS]")]
pub struct Bench {
    /// A directory on the disk to measure [default: the current directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keys in the database. With --sync always each costs a sync, so use fewer
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Size of a value
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = parse_bytes)]
    value_size: usize,
    /// Threads that read and write
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// Length of each phase after the first
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// When the log is synced: always, os (never by the engine), or a number of milliseconds
    #[arg(long, value_name = "always|os|MS", default_value = "os", value_parser = parse_sync)]
    sync: SyncPolicy,
    /// Memory budget
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_memory)]
    memory: usize,
    #[command(flatten)]
    keyspace: KeyspaceOptions,
    #[command(subcommand)]
    moved: Option<Moved>,
}

/// The least memory for which a log segment, an eighth of it, is large enough.
const MEMORY_MIN: usize = 1 << 20;

fn parse_memory(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        bytes if bytes < MEMORY_MIN => {
            Err(format!("at least {} is needed", units::bytes(MEMORY_MIN as u64)))
        }
        bytes => Ok(bytes),
    }
}

/// Subcommands that moved to `esker-lab`.
#[derive(Subcommand)]
enum Moved {
    #[command(external_subcommand)]
    Load(Vec<OsString>),
}

/// Moved to `esker-lab`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Experiment {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The loads that `esker bench` had before.
const MOVED: [&str; 6] = ["db", "ycsb", "updates", "linkbench", "tpcc", "report"];

impl Experiment {
    pub fn run(self) -> Outcome {
        Err(is_in_lab("experiment", &self.arguments))
    }
}

fn is_in_lab(command: &str, arguments: &[OsString]) -> Failure {
    let words = arguments.iter().map(|word| format!(" {}", word.display())).collect::<String>();
    Failure::Usage(format!(
        "`esker {command}{words}` is a command of `esker-lab`; in Esker's sources, run \
         `cargo run --release -p esker-lab -- {command}{words}`"
    ))
}

/// What one phase measured.
struct Phase {
    name: &'static str,
    elapsed: Duration,
    nanoseconds: Histogram<u64>,
}

/// What all phases work on.
struct Load {
    db: Db,
    keyspace: Keyspace,
    clock: SystemClock,
    keys: u64,
    threads: u64,
    value_bytes: usize,
    /// Bytes to cut values from.
    pool: Vec<u8>,
}

impl Bench {
    pub fn run(self) -> Outcome {
        if let Some(Moved::Load(words)) = &self.moved {
            // What follows the word was not parsed.
            output::use_json(output::is_json() || words.iter().any(|word| word == "--json"));
            let word = words.first().map(|word| word.display().to_string()).unwrap_or_default();
            return Err(match MOVED.contains(&&word[..]) {
                true => is_in_lab("bench", words),
                false => Failure::Usage(format!("unexpected argument {word:?}; use --dir DIR")),
            });
        }
        let settings = Settings::default()
            .log(Log::File { dir: None, sync: self.sync })
            .memory_bytes(self.memory)
            // A part of the budget, so that a small one needs no other flag.
            .segment_bytes(Settings::default().segment_bytes.min(self.memory / 8))
            .default_keyspace(self.keyspace.settings(esker::DEFAULT_KEYSPACE)?);
        settings.validate()?;
        check_sizes(&settings, KEY_BYTES, self.value_size, 1)?;
        let temporary =
            Temporary::create_in(self.dir.as_deref().unwrap_or(Path::new(".")), "esker-bench-")?;
        let db = Db::open(temporary.path(), settings)?;
        let load = Load::new(db, &self);
        let phases = load.run(Duration::from_secs(self.seconds))?;
        let stats = load.db.stats();
        let used_bytes = load.db.used_bytes();
        load.db.close()?;
        let facts = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "keys": self.keys,
            "key_bytes": KEY_BYTES,
            "value_bytes": self.value_size,
            "threads": self.threads,
            "phases": phases.iter().map(Phase::json).collect::<Vec<_>>(),
            "used_bytes": used_bytes,
            "flush_bytes": stats.flush_bytes,
            "compaction_bytes": stats.compaction_bytes,
        });
        show(
            || facts,
            || {
                let pairs = counted(self.keys, "pair");
                let (used, threads) = (units::bytes(used_bytes), counted(self.threads, "thread"));
                let size = self.value_size;
                format!(
                    "{pairs} of {KEY_BYTES} + {size} bytes, {threads}; {used} on disk at the end\n\n{}",
                    table(&phases)
                )
            },
        )
    }
}

impl Load {
    fn new(db: Db, bench: &Bench) -> Self {
        let mut pool = vec![0; POOL_BYTES.max(2 * bench.value_size)];
        Rng::new(1).fill(&mut pool);
        Load {
            keyspace: db.default_keyspace(),
            db,
            clock: SystemClock::new(),
            keys: bench.keys,
            threads: bench.threads,
            value_bytes: bench.value_size,
            pool,
        }
    }

    fn run(&self, length: Duration) -> Outcome<Vec<Phase>> {
        let put =
            |key: u64, rng: &mut Rng| self.db.put(&self.keyspace, key_of(key), self.value(rng));
        let get = |rng: &mut Rng| {
            let key = key_of(rng.below(self.keys));
            match self.db.get(&self.keyspace, key)? {
                Some(_) => Ok(()),
                None => Err(esker::Error::corruption(
                    "the database",
                    0,
                    "a key that was put is missing",
                )),
            }
        };
        let fill = self.phase("fill", None, &|thread, step, rng| {
            // Each thread inserts every so many-th key.
            let key = step * self.threads + thread;
            if key >= self.keys {
                return Ok(false);
            }
            put(key, rng).map(|()| true)
        })?;
        self.compact()?;
        let length = Some(length);
        let overwrite = self.phase("overwrite", length, &|_, _, rng| {
            let key = rng.below(self.keys);
            put(key, rng).map(|()| true)
        })?;
        self.compact()?;
        let read = self.phase("read", length, &|_, _, rng| get(rng).map(|()| true))?;
        let scan = self
            .phase("scan", length, &|_, _, rng| self.scan(rng.below(self.keys)).map(|()| true))?;
        let mixed = self.phase("mixed", length, &|_, _, rng| {
            let key = rng.below(self.keys);
            if rng.one_in(2) { put(key, rng) } else { get(rng) }.map(|()| true)
        })?;
        Ok(vec![fill, overwrite, read, scan, mixed])
    }

    /// Waits for compactions, so that one phase does not pay for another's writes.
    fn compact(&self) -> Outcome {
        Ok(Progress::during("waiting for compactions", || self.db.wait_for_compactions())?)
    }

    /// Reads [`SCANNED_PAIRS`] entries in order.
    fn scan(&self, from: u64) -> esker::Result<()> {
        let mut cursor = self.db.cursor(&self.keyspace, KeyRange::all())?;
        cursor.seek(&key_of(from))?;
        for _ in 0..SCANNED_PAIRS {
            let Some(pair) = cursor.current() else { break };
            std::hint::black_box(pair);
            cursor.next()?;
        }
        Ok(())
    }

    /// Half of random bytes, half of one.
    fn value(&self, rng: &mut Rng) -> Vec<u8> {
        let random = self.value_bytes.div_ceil(2);
        let from = rng.below((self.pool.len() - random + 1) as u64) as usize;
        let mut value = self.pool[from..from + random].to_vec();
        value.resize(self.value_bytes, b'.');
        value
    }

    /// Runs `operation` on every thread until it returns `false`, or for `length`. Its arguments are
    /// the thread, how many operations that thread has done, and the thread's random numbers.
    fn phase(
        &self,
        name: &'static str,
        length: Option<Duration>,
        operation: &(dyn Fn(u64, u64, &mut Rng) -> esker::Result<bool> + Sync),
    ) -> Outcome<Phase> {
        let start = self.clock.now();
        let end = length.map(|length| start + length);
        let thread = |thread: u64| -> esker::Result<Histogram<u64>> {
            let mut nanoseconds = histogram();
            // Numbers of its own for each phase: the keys of one phase are not what another has just cached.
            let mut rng = Rng::new(esker_base::hash64(name.as_bytes()) ^ thread);
            let mut before = self.clock.now();
            for step in 0.. {
                if end.is_some_and(|end| before >= end) || !operation(thread, step, &mut rng)? {
                    break;
                }
                let after = self.clock.now();
                nanoseconds.saturating_record((after - before).as_nanos() as u64);
                before = after;
            }
            Ok(nanoseconds)
        };
        let work = || {
            std::thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..self.threads).map(|number| scope.spawn(move || thread(number))).collect();
                threads.into_iter().try_fold(histogram(), |mut sum, thread| -> esker::Result<_> {
                    sum +=
                        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                    Ok(sum)
                })
            })
        };
        let nanoseconds = Progress::during(name, work)?;
        Ok(Phase { name, elapsed: self.clock.now() - start, nanoseconds })
    }
}

/// The key of entry `number`: numbers that follow each other are far apart.
fn key_of(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&esker_base::hash64(&number.to_be_bytes()).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Nanoseconds, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NANOSECONDS, 3).expect("the bounds are in order")
}

impl Phase {
    fn microseconds(&self) -> [(&'static str, f64); 5] {
        let quantile = |at: f64| self.nanoseconds.value_at_quantile(at) as f64 / 1e3;
        [
            ("mean", self.nanoseconds.mean() / 1e3),
            ("p50", quantile(0.5)),
            ("p99", quantile(0.99)),
            ("p99.9", quantile(0.999)),
            ("max", self.nanoseconds.max() as f64 / 1e3),
        ]
    }

    fn json(&self) -> Json {
        let operations = self.nanoseconds.len();
        let latencies = self.microseconds().into_iter();
        json!({
            "phase": self.name,
            "operations": operations,
            "seconds": self.elapsed.as_secs_f64(),
            "operations_per_second": operations as f64 / self.elapsed.as_secs_f64().max(1e-9),
            "latency_us": latencies.map(|(name, us)| (name.to_owned(), json!(us))).collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// A row a phase.
fn table(phases: &[Phase]) -> String {
    let mut out = format!("{:<10} {:>12}", "phase", "operations/s");
    for (name, _) in phases[0].microseconds() {
        let _ = write!(out, " {:>10}", format!("{name} µs"));
    }
    out.push('\n');
    for phase in phases {
        let rate = per_second(phase.nanoseconds.len(), phase.elapsed.as_secs_f64());
        let _ = write!(out, "{:<10} {rate:>12}", phase.name);
        for (_, us) in phase.microseconds() {
            let _ = write!(out, " {us:>10.1}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "\nEach scan reads {SCANNED_PAIRS} entries.");
    out
}
