//! `esker import`: a file of records.

use crate::database_options::{DatabaseOptions, SyncOptions};
use crate::failure::{Failure, Outcome};
use crate::import::{Format, Job, OnError, Rules, Source, Stopped, Tally, Way, longest_line};
use crate::interrupt::Interrupt;
use crate::options::{KeyspaceOptions, with_default};
use crate::output::{is_json, show};
use crate::place::Place;
use crate::progress::Progress;
use crate::session;
use crate::units;

use esker_base::{Clock, SystemClock};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A write batch holds about this much: enough that its commit costs nothing a record, little enough
/// that an interrupt is answered at once.
const BATCH_BYTES: usize = 256 << 10;

/// Read records from a TSV, CSV or JSON Lines file
///
/// The key is the column or field that --key names. The value is the one that --value names or, by
/// default, the whole record as a JSON object. A file that `esker export` wrote needs neither. A later record with the same key wins. Files of any size are read in bounded
/// memory. Ctrl-C commits what was read so far.
///
/// With --sorted or --bulk, records are written to tables, without the log. All become visible at
/// the end, or none after an error or Ctrl-C.
///
/// Creates the database and the keyspace if they are missing.
#[derive(clap::Args)]
pub struct Import {
    #[command(flatten)]
    place: Place,
    /// The file; - for standard input
    file: PathBuf,
    /// The format; by default what the file's name says
    #[arg(long)]
    format: Option<Format>,
    /// The column that is the key: a name of the header, or a number from 1. In JSON, a field's
    /// name; a.b is field b of object a
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// The column that is the value, likewise; by default the whole record as a JSON object
    #[arg(long, value_name = "COLUMN", requires = "key")]
    value: Option<String>,
    /// Put this before each key
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    key_prefix: OsString,
    /// The first line is a record, not column names (TSV and CSV)
    #[arg(long, requires = "key")]
    no_header: bool,
    /// Fields are escaped as `esker scan` prints them (TSV and CSV)
    #[arg(long)]
    escaped: bool,
    /// What to do about a line that holds no record
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    on_error: OnError,
    /// The records are in ascending order of their keys, each key once: write tables directly
    #[arg(long, conflicts_with = "bulk")]
    sorted: bool,
    /// Sort the records in the database's directory first, then write tables: for many records
    #[arg(long)]
    bulk: bool,
    #[command(flatten)]
    log: SyncOptions,
    #[command(flatten)]
    database: DatabaseOptions,
    #[command(flatten)]
    options: KeyspaceOptions,
}

impl Import {
    pub fn run(self) -> Outcome {
        let from_stdin = self.file == Path::new("-");
        if from_stdin {
            session::expect_none("its standard input")?;
        }
        let format = match self.format {
            Some(format) => format,
            None if from_stdin => {
                let what = "standard input does not say its format; add --format tsv, csv or jsonl";
                return Err(Failure::Usage(what.into()));
            }
            None => Format::of_file(&self.file)?,
        };
        if format == Format::Jsonl && (self.no_header || self.escaped) {
            let what = "--no-header and --escaped are for TSV and CSV";
            return Err(Failure::Usage(what.into()));
        }
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let (name, total_bytes, source) = if from_stdin {
            ("standard input".to_owned(), None, Source::start(std::io::stdin(), &interrupt)?)
        } else {
            let name = self.file.display().to_string();
            let opened = File::open(&self.file).and_then(|file| Ok((file.metadata()?, file)));
            let (metadata, file) = opened.map_err(|error| Failure::io("open", &name, error))?;
            if metadata.is_dir() {
                let error = std::io::ErrorKind::IsADirectory.into();
                return Err(Failure::io("read", name, error));
            }
            let total = metadata.is_file().then_some(metadata.len());
            (name, total, Source::start(file, &interrupt)?)
        };

        let keyspace_settings = self.options.settings(&self.place.keyspace)?;
        let settings = self.database.settings_with(&self.place.home, &self.log)?;
        let settings = with_default(settings, &self.place.keyspace, keyspace_settings);
        // Such batches fit one frame each.
        let batch_bytes = BATCH_BYTES.min(settings.segment_bytes / 8);
        let clock = SystemClock::new();
        let job = Job {
            name,
            format,
            rules: Rules {
                key: self.key,
                value: self.value,
                key_prefix: self.key_prefix.into_vec(),
                no_header: self.no_header,
                escaped: self.escaped,
            },
            on_error: self.on_error,
            interrupt: &interrupt,
            progress: &Progress::of_bytes(total_bytes),
            way: match (self.sorted, self.bulk) {
                (true, _) => Way::Sorted,
                (_, true) => Way::Bulk,
                _ => Way::Batches,
            },
            batch_bytes,
            line_bytes: longest_line(settings.max_entry_bytes()),
        };
        // A file that can't be meant is refused before there is a database.
        let begun = job.begin(source)?;
        let db = self.place.home.open(settings)?;
        let keyspace = self.options.open(&db, &self.place.keyspace, keyspace_settings)?;
        let mut tally = job.run(&db, &keyspace, begun);
        let seconds = clock.now().as_secs_f64();
        if let Err(failure) = self.place.home.close(db) {
            tally.stopped = Some(Stopped::Failed(failure));
        }
        let compaction = Compaction::of(&self.place);
        summarise(tally, seconds, &self.place, compaction)
    }
}

/// What a compaction of the keyspace would gain.
#[derive(Clone, Copy)]
struct Compaction {
    runs: u64,
    reclaimable_bytes: u64,
}

impl Compaction {
    /// `None` if the database cannot be read. The import has its own report of that.
    fn of(place: &Place) -> Option<Self> {
        let db = place.home.open_for_reading().ok()?;
        let tree = db.levels().into_iter().find(|tree| tree.name == place.keyspace)?;
        let runs = tree.levels.iter().map(|level| level.runs.len() as u64).sum();
        let kept = db.estimate_live_data().map_or(f64::MAX, |live| live.bytes + live.pinned_bytes);
        let stats = db.stats();
        let used = (stats.table_bytes + stats.value_file_bytes) as f64;
        let reclaimable_bytes = (used - kept).max(0.0) as u64;
        Some(Compaction { runs, reclaimable_bytes })
    }

    /// A line, if it would gain something.
    fn text(self, place: &Place) -> Option<String> {
        if self.runs < 2 {
            return None;
        }
        let frees = match self.reclaimable_bytes {
            0 => String::new(),
            bytes => format!(", and free about {}", units::bytes(bytes)),
        };
        let (home, runs) = (place.home.in_shell(), units::counted(self.runs, "run"));
        let keyspace = &place.keyspace;
        Some(format!(
            "`esker compact {home}` would merge the {runs} of keyspace {keyspace}, so that reads look into one{frees}\n"
        ))
    }
}

fn summarise(tally: Tally, seconds: f64, place: &Place, compaction: Option<Compaction>) -> Outcome {
    let keyspace = &place.keyspace;
    let facts = json!({
        "records": tally.records,
        "skipped": tally.skipped.lines,
        "bytes": tally.bytes,
        "seconds": seconds,
        "complete": tally.stopped.is_none(),
        "runs": compaction.map(|it| it.runs),
        "reclaimable_bytes": compaction.map(|it| it.reclaimable_bytes),
    });
    let shown = if is_json() { show(|| facts.clone(), String::new) } else { Ok(()) };
    let records = units::counted(tally.records, "record");
    let were = if tally.records == 1 { "was" } else { "were" };
    let verdict = match tally.stopped {
        Some(Stopped::Failed(failure)) => {
            Err(failure.and(&format!("; {records} before that {were} imported")))
        }
        Some(Stopped::Interrupted) if tally.records == 0 => {
            Err(Failure::Interrupted("interrupted; nothing was imported".into()))
        }
        Some(Stopped::Interrupted) => Err(Failure::Interrupted(format!(
            "interrupted; {records} read so far {} committed",
            if tally.records == 1 { "is" } else { "are" }
        ))),
        Some(Stopped::BadLine(what)) => {
            Err(Failure::new(format!("{what}; {records} before it {were} imported")))
        }
        None if is_json() => Ok(()),
        None => {
            let skipped = match tally.skipped.lines {
                0 => String::new(),
                number => format!(", {} skipped", units::counted(number, "bad line")),
            };
            let (bytes, rate) =
                (units::bytes(tally.bytes), units::per_second(tally.records, seconds));
            let text = format!(
                "imported {records} into {keyspace} ({bytes}, {seconds:.2} s, {rate} records/s){skipped}\n"
            );
            let advice = compaction.and_then(|it| it.text(place)).unwrap_or_default();
            show(|| facts, || text + &advice)
        }
    };
    Failure::after_output(shown, verdict)
}
