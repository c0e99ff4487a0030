//! `esker backup`, `backups` and `restore`: a repository of backups of one database.

mod place;
mod shipping;

use crate::database_options::DatabaseOptions;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::keys::KeyPlace;
use crate::options::parse_ttl;
use crate::output::show;
use crate::place::Home;
use crate::progress::Progress;
use crate::units::{self, counted};
use esker::backup::{
    self, Backup as Made, BackupReport, LiveFiles, PointInTime, PruneReport, Repository,
    Restorable, VerifyReport,
};
use esker::checkpoint::{self, Requested};
use esker::env::{PosixStorage, Storage};
use esker::follower::Lineage;
use esker::inspect::Inspector;
use esker_storage::Encryption;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Back up the database into a repository
///
/// A repository is a directory with backups of one database. Each backup restores the whole of it, and a
/// backup copies only tables that no earlier one has. It holds everything that was acknowledged before
/// the command began. If another process has the database open, that one makes a checkpoint next to the
/// database, which is removed afterwards: `esker serve` and the commands of this program that write do,
/// and any program that has `Settings::answers_requests` on.
#[derive(clap::Args)]
pub struct Backup {
    #[command(flatten)]
    home: Home,
    /// The directory of the repository, which is made if it is missing; or s3://BUCKET/PREFIX, gs://, az:// in a
    /// program with the feature `object-store`
    repository: PathBuf,
    /// Afterwards remove all backups but the newest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Go on until Ctrl-C: add what was written to the log, each time after this time, such as 10s, so that `esker
    /// restore --to` restores what was in between
    #[arg(long, value_name = "TIME", value_parser = parse_ttl, conflicts_with = "keep")]
    every: Option<Duration>,
    /// The most bytes of flushed logs to keep for the repository between two times
    #[arg(long, value_name = "SIZE", requires = "every", default_value = "1GiB", value_parser = units::parse_bytes)]
    log_keep: usize,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// List, verify or remove the backups in a repository
#[derive(clap::Args)]
pub struct Backups {
    /// The directory or URL of the repository
    repository: PathBuf,
    /// Read every file and compare it with its checksum. Exit status 1 if anything is wrong
    #[arg(long)]
    verify: bool,
    /// Remove all backups but the newest N
    #[arg(long, value_name = "N", conflicts_with = "verify", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    #[command(flatten)]
    keys: KeyPlace,
}

/// Make a database of a backup in a new directory
///
/// Every file is compared with its checksum. The restored database has an identity of its own, so it
/// needs a new log directory or pool if its log is elsewhere, and a new repository for its backups.
#[derive(clap::Args)]
pub struct Restore {
    /// The directory or URL of the repository
    repository: PathBuf,
    /// The directory to make
    db: PathBuf,
    /// The number of the backup. Default: the newest
    #[arg(long, value_name = "NUMBER")]
    backup: Option<u64>,
    /// Restore what there was after the write with this sequence number, from a backup and the log after it
    #[arg(long, value_name = "SEQNO", conflicts_with = "backup")]
    to_seqno: Option<u64>,
    /// Restore what there was at a time in UTC, such as "2026-11-26 12:00", as far as it was shipped by then
    #[arg(long, value_name = "TIME", conflicts_with_all = ["backup", "to_seqno"], value_parser = parse_time)]
    to: Option<u64>,
    #[command(flatten)]
    keys: KeyPlace,
}

impl Backup {
    pub fn run(self) -> Outcome {
        let interrupt = listen()?;
        if let Some(every) = self.every {
            return shipping::run(&self, every, &interrupt);
        }
        let progress = Progress::of_bytes(None);
        let mut goes_on = |done: backup::Progress| {
            progress.total(done.total);
            progress.at(done.bytes);
            !interrupt.is_set()
        };
        let settings = self.database.settings(&self.home)?;
        // A repository is made once there is a database.
        let encryption = self.home.keys.encryption()?;
        let create = || place::create(&self.repository, encryption.as_ref());
        let (repository, report) = match self.home.try_open_existing(settings)? {
            Ok(db) => {
                let repository = create()?;
                let lineage = db.lineage()?;
                let files = db.live_files()?.noted_openings(lineage.openings);
                let report = repository.back_up_files(&files, &mut goes_on)?;
                self.home.close(db)?;
                (repository, report)
            }
            // On a device of chunks there is no place for a request.
            Err(esker::Error::Locked { .. }) if !self.home.is_on_flash() => {
                let repository = create()?;
                let report = self.back_up_checkpoint(&repository, &mut goes_on)?;
                (repository, report)
            }
            Err(error) => return Err(error.into()),
        };
        progress.finish();
        let removed = match self.keep {
            Some(keep) => Some(repository.prune(keep as usize)?),
            None => None,
        };
        show(|| backup_json(&report, removed.as_ref()), || backup_text(&report, removed.as_ref()))
    }

    /// Backs up a checkpoint that the process makes which has the database open.
    fn back_up_checkpoint(
        &self,
        repository: &Repository,
        goes_on: &mut dyn FnMut(backup::Progress) -> bool,
    ) -> Outcome<BackupReport> {
        let goes_on = &std::cell::RefCell::new(goes_on);
        let is_wanted = || (goes_on.borrow_mut())(backup::Progress::default());
        let (_staging, files) = self.checkpoint(&is_wanted)?;
        let mut goes_on = goes_on.borrow_mut();
        Ok(repository.back_up_files(&files, &mut **goes_on)?)
    }

    /// A checkpoint that the process makes which has the database open, in a directory that is removed with it.
    fn checkpoint(&self, is_wanted: &dyn Fn() -> bool) -> Outcome<(tempfile::TempDir, LiveFiles)> {
        let db = &self.home.db;
        let failed = |source| Failure::io("find", db.display().to_string(), source);
        let db = db.canonicalize().map_err(failed)?;
        let parent = db.parent().unwrap_or(&db);
        let made = tempfile::Builder::new().prefix(".esker-backup-").tempdir_in(parent);
        let failed = |source| {
            Failure::io(
                "make a directory for a checkpoint in",
                parent.display().to_string(),
                source,
            )
        };
        let staging = made.map_err(failed)?;
        let copy = staging.path().join("checkpoint");
        let lineage = self.lineage()?;
        match checkpoint::request(&db, &copy, is_wanted)? {
            Requested::Done => {}
            Requested::Abandoned => {
                // The other process is still to fill it.
                let kept = staging.keep();
                let what = "interrupted; the process that has the database open may still write to";
                return Err(Failure::Interrupted(format!("{what} {}; remove it", kept.display())));
            }
            Requested::NotOpen => {
                let what =
                    "the process that had the database open has closed it; run the command again";
                return Err(Failure::new(what));
            }
        }
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::open(&copy)?);
        let encryption = self.home.keys.encryption()?;
        let storage = match &encryption {
            Some(encryption) => encryption.over(storage),
            None => storage,
        };
        let files = LiveFiles::of_checkpoint_in(storage, lineage.database)?;
        Ok((staging, files.noted_openings(lineage.openings)))
    }

    /// The openings that are noted of a database that another process has open.
    fn lineage(&self) -> Outcome<Lineage> {
        let db = &self.home.db;
        let encryption = self.home.keys.encryption()?;
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::open(db)?);
        let storage = match &encryption {
            Some(encryption) => encryption.over(storage),
            None => storage,
        };
        Ok(Lineage::noted(&*storage, identity(db, encryption.as_ref())?)?)
    }
}

/// The identity of a database that another process has open, and whose manifest it may replace.
fn identity(db: &Path, encryption: Option<&Encryption>) -> Outcome<u64> {
    let read = || {
        let inspector = Inspector::open(db, None)?;
        let inspector = match encryption {
            Some(encryption) => inspector.encryption(encryption),
            None => inspector,
        };
        inspector.manifest().map(|manifest| manifest.identity)
    };
    Ok(read().or_else(|_| read())?)
}

impl Backups {
    pub fn run(self) -> Outcome {
        let encryption = self.keys.encryption()?;
        let repository = place::open(&self.repository, encryption.as_ref())?;
        if let Some(keep) = self.keep {
            let report = repository.prune(keep as usize)?;
            return show(|| prune_json(&report), || prune_text(&report));
        }
        if self.verify {
            return self.verify(&repository);
        }
        let backups = repository.backups()?;
        // Damage of the log hides no backup.
        let (ranges, verdict) = match repository.restorable() {
            Ok(ranges) => (ranges, Ok(())),
            Err(error) => (Vec::new(), Err(error.into())),
        };
        let shown = show(|| list_json(&backups, &ranges), || list_text(&backups, &ranges));
        Failure::after_output(shown, verdict)
    }

    fn verify(&self, repository: &Repository) -> Outcome {
        let interrupt = listen()?;
        let progress = Progress::of_bytes(None);
        let mut problems = Vec::new();
        let mut report = |error: esker::Error| problems.push(error.fact());
        let mut goes_on = |done: backup::Progress| {
            progress.total(done.total);
            progress.at(done.bytes);
            !interrupt.is_set()
        };
        let verified = repository.verify(&mut report, &mut goes_on)?;
        progress.finish();
        let shown =
            show(|| verify_json(&verified, &problems), || verify_text(&verified, &problems));
        let what = self.repository.display();
        Failure::after_output(shown, Failure::of_problems(what, problems.len(), ""))
    }
}

impl Restore {
    pub fn run(self) -> Outcome {
        let interrupt = listen()?;
        let encryption = self.keys.encryption()?;
        let repository = place::open(&self.repository, encryption.as_ref())?;
        let progress = Progress::of_bytes(None);
        let mut goes_on = |done: backup::Progress| {
            progress.total(done.total);
            progress.at(done.bytes);
            !interrupt.is_set()
        };
        let report = match self.to_seqno.map(PointInTime::Seqno).or(self.to.map(PointInTime::Time))
        {
            Some(point) => repository.restore_to_while(point, &self.db, &mut goes_on)?,
            None => repository.restore_while(self.backup, &self.db, &mut goes_on)?,
        };
        progress.finish();
        let db = self.db.display().to_string();
        let (files, size) = (counted(report.files, "file"), units::bytes(report.bytes));
        show(
            || {
                json!({
                    "restored": db, "backup": report.number, "seqno": report.seqno,
                    "files": report.files, "bytes": report.bytes,
                })
            },
            || {
                let (number, seqno) = (report.number, report.seqno);
                format!("restored backup {number} in {db} up to seqno {seqno}: {files}, {size}\n")
            },
        )
    }
}

/// A time in milliseconds since 1970.
fn parse_time(text: &str) -> Result<u64, String> {
    let zone = jiff::tz::TimeZone::UTC;
    let time = text.parse::<jiff::Timestamp>().or_else(|_| {
        let civil = text.parse::<jiff::civil::DateTime>()?;
        civil.to_zoned(zone).map(|zoned| zoned.timestamp())
    });
    let time = time.map_err(|_| "not a time; write 2026-11-26 12:00, in UTC".to_owned())?;
    u64::try_from(time.as_millisecond()).map_err(|_| "before 1970".to_owned())
}

fn listen() -> Outcome<Interrupt> {
    Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))
}

fn backup_json(report: &BackupReport, removed: Option<&PruneReport>) -> Json {
    json!({
        "backup": report.number,
        "seqno": report.seqno,
        "files": report.files,
        "bytes": report.bytes,
        "copied_files": report.copied_files,
        "copied_bytes": report.copied_bytes,
        "removed": removed.map(|removed| &removed.removed),
    })
}

fn backup_text(report: &BackupReport, removed: Option<&PruneReport>) -> String {
    let line = format!(
        "backup {}: {}, {}; copied {}, {}\n",
        report.number,
        counted(report.files, "file"),
        units::bytes(report.bytes),
        counted(report.copied_files, "file"),
        units::bytes(report.copied_bytes),
    );
    line + &removed.map(prune_text).unwrap_or_default()
}

fn list_json(backups: &[Made], ranges: &[Restorable]) -> Json {
    let object = |one: &Made| {
        json!({
            "backup": one.number, "made": date(one.made), "seqno": one.seqno,
            "files": one.files.len(), "bytes": one.bytes(),
        })
    };
    let range = |one: &Restorable| {
        json!({
            "first_seqno": one.first, "last_seqno": one.last, "from": date(one.from), "to": date(one.to),
        })
    };
    json!({
        "backups": backups.iter().map(object).collect::<Vec<_>>(),
        "restorable": ranges.iter().map(range).collect::<Vec<_>>(),
    })
}

fn list_text(backups: &[Made], ranges: &[Restorable]) -> String {
    let mut out: String = backups.iter().map(line).collect();
    // Without a log, a range is one backup.
    for Restorable { first, last, from, to, .. } in ranges.iter().filter(|it| it.first < it.last) {
        let (from, to) = (date(*from), date(*to));
        out.push_str(&format!("any point in time from seqno {first} to {last}, {from} to {to}\n"));
    }
    out
}

fn line(one: &Made) -> String {
    let (files, size) = (counted(one.files.len() as u64, "file"), units::bytes(one.bytes()));
    format!("{}\t{}\t{files}, {size}, up to seqno {}\n", one.number, date(one.made), one.seqno)
}

/// A date in UTC.
fn date(milliseconds: u64) -> String {
    let second = i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(second).map_or("?".to_owned(), |date| date.to_string())
}

fn prune_json(report: &PruneReport) -> Json {
    json!({
        "removed": report.removed, "kept": report.kept, "files": report.files, "bytes": report.bytes,
    })
}

fn prune_text(report: &PruneReport) -> String {
    format!(
        "removed {}: {}, {}; kept {}\n",
        counted(report.removed.len() as u64, "backup"),
        counted(report.files, "file"),
        units::bytes(report.bytes),
        counted(report.kept.len() as u64, "backup"),
    )
}

fn verify_json(verified: &VerifyReport, problems: &[String]) -> Json {
    json!({
        "intact": verified.intact, "damaged": verified.damaged, "files": verified.files,
        "bytes": verified.bytes, "problems": problems,
    })
}

fn verify_text(verified: &VerifyReport, problems: &[String]) -> String {
    let mut out: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    let numbers =
        |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    out.push_str(&format!(
        "verified {}, {}: {} intact",
        counted(verified.files, "file"),
        units::bytes(verified.bytes),
        counted(verified.intact.len() as u64, "backup"),
    ));
    if !verified.damaged.is_empty() {
        out.push_str(&format!("; damaged: {}", numbers(&verified.damaged)));
    }
    out + "\n"
}
