//! `esker-lab bench db`: the cases of `db_bench` on one database.

use super::display::Display;
use super::engine::{self, EskerEngine};
use crate::failure::{Failure, Outcome};
use crate::limits::check_sizes;
use crate::options::{KeyspaceOptions, parse_sync};
use crate::output::{is_json, stdout, visible_json};
use crate::temporary::{self, Temporary};
use crate::units::{counted, parse_bytes};
use clap::{Args, ValueEnum};
use esker::{Log, Settings, SyncPolicy};
use esker_base::SystemClock;
use esker_bench::{Bench as Run, Options, Report, Stage, cost_table, latency_table, table};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogKind {
    /// In files, synced as --sync says
    File,
    /// Nowhere
    None,
}

/// Simple loads on one database, as RocksDB's db_bench defines them
///
/// Threads run in a closed loop and each operation is timed. Rows of results go to standard output,
/// a table for people or JSON. In a directory that holds a database, the cases run on that.
#[derive(Args)]
pub struct DbBench {
    /// What to run, in order: fillseq, fillrandom, overwrite, readrandom, readmissing, readseq,
    /// readreverse, seekrandom, readwhilewriting, deleterandom, flush, `settle`
    #[arg(long, value_name = "LIST", default_value = "fillrandom,settle,readrandom")]
    cases: String,
    /// Keys in the key space, and writes of each writing thread
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    num: u64,
    /// Reads of each reading thread [default: as many as --num]
    #[arg(long, value_name = "N")]
    reads: Option<u64>,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    key_size: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_size: usize,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Writes in a batch
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u64,
    /// Steps after each seek
    #[arg(long, value_name = "N", default_value_t = 0)]
    seek_nexts: u64,
    /// Run each case in random order for so many seconds instead of a number of operations
    #[arg(long, value_name = "SECONDS")]
    duration: Option<u64>,
    /// The seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the log is
    #[arg(long, value_name = "WHERE", default_value = "file")]
    log: LogKind,
    /// When the log is synced: always, os, or every so many milliseconds [default: os]
    #[arg(long, value_name = "always|os|MS", value_parser = parse_sync)]
    sync: Option<SyncPolicy>,
    /// The size of a log segment, and so of a MemTable
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    segment: usize,
    /// The memory budget, for everything
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    memory: usize,
    /// Threads for flush and compaction
    #[arg(long, value_name = "N", default_value_t = 2)]
    background_threads: usize,
    #[command(flatten)]
    keyspace: KeyspaceOptions,
    /// The database directory [default: a temporary one, removed afterwards]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print how the latencies are spread, too: a ladder of percentiles for each load
    #[arg(long)]
    histogram: bool,
}

impl DbBench {
    pub fn run(self) -> Outcome {
        if self.log == LogKind::None && self.sync.is_some() {
            return Err(Failure::Usage("--sync: there is no log to sync with --log none".into()));
        }
        let stages = Stage::parse_list(&self.cases)?;
        let options = self.options();
        options.check()?;
        let (settings, keyspace) = (self.settings(), self.keyspace.settings(engine::KEYSPACE)?);
        settings.validate()?;
        check_sizes(&settings, self.key_size, self.value_size, self.batch)?;
        // What is being done, for an interrupt.
        let at = Arc::new(Mutex::new(String::new()));
        let temporary;
        let dir = match &self.dir {
            Some(path) => {
                let (dir, at) = (path.display().to_string(), Arc::clone(&at));
                temporary::end_with(move || {
                    let at = at.lock().unwrap_or_else(PoisonError::into_inner);
                    format!("interrupted{at}; the database in {dir} stays as it is")
                })?;
                path.as_path()
            }
            None => {
                temporary = Temporary::create("esker-bench-")?;
                temporary.path()
            }
        };
        let engine = EskerEngine::open(self.engine_name(), dir, settings, keyspace)?;
        let clock = SystemClock::new();
        let mut display = Display::on_terminal();
        let run = Run { engine: &engine, clock: &clock, options: &options, round: 0 };
        let rows = run.run(&stages, &mut |progress| {
            let operations = counted(progress.operations, "operation");
            *at.lock().unwrap_or_else(PoisonError::into_inner) =
                format!(" in {} after {operations}", progress.stage);
            display.show(progress);
        })?;
        display.clear();
        let mut out = stdout();
        if is_json() {
            out.write_all(visible_json(Report { rows }.to_json()).as_bytes())?;
        } else {
            writeln!(out, "{}", table(&rows))?;
            out.write_all(cost_table(&rows).as_bytes())?;
            if self.histogram {
                write!(out, "\nlatency in µs, by percentile\n{}", latency_table(&rows))?;
            }
        }
        out.flush()?;
        engine.close()
    }

    fn options(&self) -> Options {
        Options {
            num: self.num,
            reads: self.reads,
            key_bytes: self.key_size,
            value_bytes: self.value_size,
            batch: self.batch,
            seek_nexts: self.seek_nexts,
            threads: self.threads,
            duration: self.duration.map(Duration::from_secs),
            seed: self.seed,
        }
    }

    fn settings(&self) -> Settings {
        let log = match self.log {
            LogKind::File => Log::File { dir: None, sync: self.sync.unwrap_or(SyncPolicy::Os) },
            LogKind::None => Log::None,
        };
        Settings::default()
            .log(log)
            .segment_bytes(self.segment)
            .memory_bytes(self.memory)
            .background_threads(self.background_threads)
    }

    fn engine_name(&self) -> &'static str {
        match (self.log, self.sync) {
            (LogKind::None, _) => "esker-nolog",
            (LogKind::File, Some(SyncPolicy::Always)) => "esker-wal-sync",
            (LogKind::File, _) => "esker-wal",
        }
    }
}
