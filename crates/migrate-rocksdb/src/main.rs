//! `esker-migrate-rocksdb`: copies a database of RocksDB to a new database of Esker.
//!
//! * [`source`]: the database of RocksDB, opened for reading;
//! * [`copy`]: column families to keyspaces, and the comparison after it.
//!
//! `esker migrate rocksdb` runs this program. It shares messages, exit statuses and units with `esker`.

#![forbid(unsafe_code)]

mod copy;
mod source;

use clap::Parser;
use copy::{Copied, Unfit};
use esker::{Db, KeyspaceSettings, Settings};
use esker_cli::failure::{Failure, Outcome};
use esker_cli::output::{is_json, show, tell};
use esker_cli::progress::Progress;
use esker_cli::temporary::Temporary;
use esker_cli::units;
use serde_json::{Value as Json, json};
use source::Source;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Copy a database of RocksDB to a new database of Esker
///
/// Each column family becomes a keyspace of the same name. The database is only read, as it is when
/// the copy begins: a program may have it open meanwhile. At the end all entries are compared. NEW appears when
/// all is done; after an error or Ctrl-C there is none.
///
/// Entries with operands of a merge operator cannot be read, because only the program that wrote them
/// has the operator: compact the database in that program first. Databases with another order of keys
/// than that of their bytes, and those with timestamps of users, are refused.
#[derive(Parser)]
#[command(name = "esker-migrate-rocksdb", version, max_term_width = 100)]
struct Arguments {
    /// The directory of RocksDB's database
    dir: PathBuf,
    /// The directory of the new database: it must not exist, or be empty
    new: PathBuf,
    /// Copy only this column family; may be given several times
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    /// The database was opened with a time to live: remove the four bytes that RocksDB then adds to
    /// each value. The entries do not expire in the new database
    #[arg(long)]
    ttl: bool,
    /// Leave entries out that Esker cannot hold: keys of more than 64 KiB, values of more than a quarter
    /// of --segment. Without this, the first one ends the copy
    #[arg(long)]
    skip_unfit: bool,
    /// Do not compare the entries at the end
    #[arg(long)]
    no_compare: bool,
    /// Size of a log segment of the new database: a value may have a quarter of it
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    segment: Option<usize>,
    /// Print results, messages and errors as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let parsed = esker_cli::parse("esker-migrate-rocksdb", |arguments: &Arguments| arguments.json);
    match parsed.and_then(Arguments::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

impl Arguments {
    fn run(self) -> Outcome {
        let parent = free_place(&self.new)?;
        let source = Source::open(&self.dir, &self.family)?;
        for name in source.families() {
            esker::Keyspace::check_name(name)?;
        }
        // In the same directory, so that a rename is enough. An interrupt removes it.
        let temporary = Temporary::create_in(&parent, ".esker-migrate-")?;
        let unfinished = temporary.path().join("db");
        let copied = self.copy_all(&source, &unfinished)?;
        put_in_place(&unfinished, &self.new, &parent)?;
        report(&copied, &self.new, !self.no_compare)
    }

    fn copy_all(&self, source: &Source, dir: &Path) -> Outcome<Vec<Copied>> {
        let mut settings = Settings::default();
        if let Some(bytes) = self.segment {
            settings = settings.segment_bytes(bytes);
        }
        settings.validate()?;
        let unfit = if self.skip_unfit { Unfit::Skipped } else { Unfit::Refused };
        let db = Db::open(dir, settings)?;
        let mut copied = Vec::new();
        for name in source.families() {
            let keyspace = db.keyspace(name, KeyspaceSettings::default())?;
            let progress = Progress::of_pairs();
            let mut entries = source.entries(name, self.ttl)?;
            copied.push(copy::copy(&db, &keyspace, &mut entries, unfit, &progress)?);
        }
        if !self.no_compare {
            for (name, copied) in source.families().zip(&copied) {
                let keyspace = db.keyspace(name, KeyspaceSettings::default())?;
                let mut entries = source.entries(name, self.ttl)?;
                let progress = Progress::of_pairs();
                copy::compare(&keyspace, &mut entries, copied, &progress)?;
            }
        }
        db.close()?;
        Ok(copied)
    }
}

/// Checks that a database may be created at `new`, and returns the directory that it will be in.
fn free_place(new: &Path) -> Outcome<PathBuf> {
    let shown = || new.display().to_string();
    match fs::read_dir(new) {
        Ok(mut files) => {
            if files.next().is_some() {
                let what =
                    format!("{} is not empty; name a directory that does not exist", shown());
                return Err(Failure::Usage(what));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::io("read", shown(), error)),
    }
    let parent = match new.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => return Err(Failure::Usage(format!("{} cannot be a new database", shown()))),
    };
    fs::create_dir_all(&parent)
        .map_err(|error| Failure::io("create", parent.display().to_string(), error))?;
    Ok(parent)
}

/// Gives the finished database its name, durably.
fn put_in_place(finished: &Path, new: &Path, parent: &Path) -> Outcome {
    fs::rename(finished, new)
        .map_err(|error| Failure::io("create", new.display().to_string(), error))?;
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Failure::io("sync", parent.display().to_string(), error))
}

/// A number of entries, in words.
fn entries(number: u64) -> String {
    match number {
        1 => "1 entry".to_owned(),
        number => format!("{} entries", units::count(number)),
    }
}

fn report(copied: &[Copied], new: &Path, compared: bool) -> Outcome {
    let facts = |it: &Copied| -> Json {
        json!({
            "keyspace": it.keyspace,
            "entries": it.entries,
            "bytes": it.bytes,
            "skipped": it.skipped,
        })
    };
    for it in copied.iter().filter(|it| it.skipped > 0 && !is_json()) {
        let (number, name) = (entries(it.skipped), &it.keyspace);
        tell(format!("{name}: left {number} out that Esker cannot hold"));
    }
    let text = || {
        let mut text = String::new();
        let width = copied.iter().map(|it| it.keyspace.chars().count()).max().unwrap_or(0);
        for it in copied {
            let (number, bytes) = (entries(it.entries), units::bytes(it.bytes));
            let _ = writeln!(text, "{:<width$}  {number}, {bytes}", it.keyspace);
        }
        let all = entries(copied.iter().map(|it| it.entries).sum());
        let how = if compared { "copied and compared" } else { "copied" };
        let _ = writeln!(text, "{how} {all} to {}", new.display());
        text
    };
    let families: Vec<Json> = copied.iter().map(facts).collect();
    show(|| json!({ "keyspaces": families, "compared": compared }), text)
}
