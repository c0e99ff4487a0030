//! `esker backup --every`: a backup, and then what is written to the log, again and again.

use super::{Backup, place};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{show, tell};
use crate::units::{self, counted};
use esker::backup::{Repository, ShipReport};
use esker::checkpoint;
use esker::{Db, Error};
use esker_base::{Clock, SystemClock};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A new backup needs the log after it, too: so often it is tried at once.
const ROUNDS: usize = 3;

/// Ships until an interrupt. What fails after the first time is said, and tried again.
pub(super) fn run(backup: &Backup, every: Duration, interrupt: &Interrupt) -> Outcome {
    let encryption = backup.home.keys.encryption()?;
    let clock = SystemClock::new();
    let mut shipping = Shipping { backup, interrupt, repository: None, idle_at: None };
    let mut is_first = true;
    while !interrupt.is_set() {
        let due = clock.now().saturating_add(every);
        match shipping.ship(encryption.as_ref()) {
            Ok(Some(report)) => say(&report)?,
            Ok(None) => {}
            Err(_) if interrupt.is_set() => break,
            Err(failure) if is_first => return Err(failure),
            Err(failure) => tell(failure.why()),
        }
        is_first = false;
        while !interrupt.is_set() && clock.now() < due {
            clock.sleep(LOOK.min(due.saturating_sub(clock.now())));
        }
    }
    Ok(())
}

struct Shipping<'a> {
    backup: &'a Backup,
    interrupt: &'a Interrupt,
    /// Made once there is a database.
    repository: Option<Repository>,
    /// What `CURRENT` was when all was shipped and no process had the database open.
    idle_at: Option<Vec<u8>>,
}

impl Shipping<'_> {
    /// Ships what there is. `None`: there is nothing new.
    fn ship(
        &mut self,
        encryption: Option<&esker_storage::Encryption>,
    ) -> Outcome<Option<ShipReport>> {
        let db = &self.backup.home.db;
        let current = || std::fs::read(db.join("CURRENT")).ok();
        if self.idle_at.is_some() && self.idle_at == current() {
            return Ok(None);
        }
        self.idle_at = None;
        let settings = self.backup.database.settings(&self.backup.home)?;
        let repository = match self.repository.take() {
            Some(repository) => repository,
            None => {
                // Before it is made.
                drop(self.backup.home.open_for_reading()?);
                place::create(&self.backup.repository, encryption)?
            }
        };
        let repository = self.repository.insert(repository);
        let keep = self.backup.log_keep as u64;
        match self.backup.home.try_open_existing(settings)? {
            Ok(open) => {
                let report = repository.ship(&open, keep)?;
                let manifests = || manifests(db);
                let own = manifests();
                self.backup.home.close(open)?;
                let at_close = current();
                // Another process may have opened it since: then it has begun a manifest.
                self.idle_at = at_close.filter(|_| own.is_some() && manifests() == own);
                Ok(Some(report))
            }
            Err(Error::Locked { .. }) if !self.backup.home.is_on_flash() => {
                beside(self.backup, self.interrupt, repository, keep)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The names of the manifests in a database.
fn manifests(db: &Path) -> Option<BTreeSet<OsString>> {
    let names = db.read_dir().ok()?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: BTreeSet<_> = names.collect::<std::io::Result<_>>().ok()?;
    let is_manifest = |name: &OsString| name.as_encoded_bytes().ends_with(b".manifest");
    Some(names.into_iter().filter(is_manifest).collect())
}

/// Ships from a database that another process has open.
fn beside(
    backup: &Backup,
    interrupt: &Interrupt,
    repository: &Repository,
    keep: u64,
) -> Outcome<Option<ShipReport>> {
    let goes_on = || !interrupt.is_set();
    let failed = |source| Failure::io("find", backup.home.db.display().to_string(), source);
    let dir = backup.home.db.canonicalize().map_err(failed)?;
    let name = repository.consumer();
    let mut all = ShipReport::default();
    for _ in 0..ROUNDS {
        let shipped = repository.shipped_through()?.unwrap_or(0);
        // Kept for the repository until this is acknowledged.
        let through = match checkpoint::request_log(&dir, &name, keep, shipped, goes_on) {
            // The database may have lost what was shipped: then a backup follows.
            Err(Error::RequestFailed { .. }) if shipped > 0 => {
                checkpoint::request_log(&dir, &name, keep, 0, goes_on)
            }
            asked => asked,
        };
        let Some(through) = through? else { return Ok(None) };
        let lineage = backup.lineage()?;
        let reader: Db = backup.home.open_for_reading()?;
        let mut staging = None;
        let mut failure = None;
        let mut files = || match backup.checkpoint(&goes_on) {
            Ok((directory, files)) => {
                staging = Some(directory);
                Ok(files)
            }
            Err(why) => {
                failure = Some(why);
                Err(Error::Cancelled { what: "backup" })
            }
        };
        let report = repository.ship_beside(&reader, &lineage, through, &mut files);
        let report = report.map_err(|error| failure.take().unwrap_or(error.into()))?;
        backup.home.close(reader)?;
        drop(staging);
        all.seqno = report.seqno;
        all.shipments += report.shipments;
        all.bytes += report.bytes;
        all.backup = report.backup.or(all.backup);
        if report.backup.is_none() {
            break;
        }
    }
    Ok(Some(all).filter(|all| all.shipments > 0 || all.backup.is_some()))
}

fn say(report: &ShipReport) -> Outcome {
    let ShipReport { seqno, shipments, bytes, backup, .. } = *report;
    show(
        || json!({ "seqno": seqno, "shipments": shipments, "bytes": bytes, "backup": backup }),
        || {
            let made = backup.map_or_else(String::new, |number| format!("backup {number}; "));
            let (shipments, bytes) = (counted(shipments, "shipment"), units::bytes(bytes));
            format!("{made}{shipments} of {bytes}; has all writes up to seqno {seqno}\n")
        },
    )
}
