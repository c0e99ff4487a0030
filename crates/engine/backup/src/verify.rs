//! Reads a repository whole, and compares it with its records.

use crate::copying::{Meter, copy};
use crate::record::{Backup, BackupFile};
use crate::repository::{Progress, Repository};
use crate::shipment::Shipment;
use esker_base::checksum::crc32c;
use esker_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// What is right and wrong in a repository.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The numbers of the backups that can be restored.
    pub intact: Vec<u64>,
    /// The numbers of the backups that cannot.
    pub damaged: Vec<u64>,
    /// Files that were read.
    pub files: u64,
    /// The length of these files, in bytes.
    pub bytes: u64,
}

impl Repository {
    /// Reads every file of every backup once, and passes each problem to `report`. Stops once `goes_on`
    /// returns false.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `goes_on` returned false, [`Error::Io`] if the directory cannot be read,
    /// [`Error::Encryption`] if the repository needs a key that was not given.
    /// Problems of single files are reported instead.
    pub fn verify(
        &self,
        report: &mut dyn FnMut(Error),
        goes_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<VerifyReport> {
        if let Err(error @ Error::Encryption(_)) = self.database() {
            // Nothing of it can be read, and nothing need be damaged.
            return Err(error);
        }
        let mut verified = VerifyReport::default();
        let mut backups = Vec::new();
        let names = self.storage.list()?;
        for number in names.iter().filter_map(|name| Backup::number_in(name)) {
            match self.backup(number) {
                Ok(backup) => backups.push(backup),
                Err(error) => {
                    report(error);
                    verified.damaged.push(number);
                }
            }
        }
        let files: BTreeMap<&str, &BackupFile> = backups
            .iter()
            .flat_map(|backup| &backup.files)
            .map(|file| (&file.stored_as[..], file))
            .collect();
        let total = files.values().map(|file| file.bytes).sum();
        let progress = Progress { bytes: 0, total };
        let mut meter = Meter { progress, what: "verification", goes_on };
        let mut bad = BTreeSet::new();
        for (name, file) in files {
            verified.files += 1;
            verified.bytes += file.bytes;
            match self.check_file(file, &mut meter) {
                Err(error @ Error::Cancelled { .. }) => return Err(error),
                Err(error) => {
                    report(error);
                    bad.insert(name);
                }
                Ok(()) => {}
            }
        }
        for backup in &backups {
            match backup.files.iter().any(|file| bad.contains(&file.stored_as[..])) {
                true => verified.damaged.push(backup.number),
                false => verified.intact.push(backup.number),
            }
        }
        for first in self.shipment_numbers()? {
            match self.check_shipment(first, &mut meter) {
                Err(error @ Error::Cancelled { .. }) => return Err(error),
                Err(error) => report(error),
                Ok(bytes) => {
                    verified.files += 1;
                    verified.bytes += bytes;
                }
            }
        }
        verified.intact.sort_unstable();
        verified.damaged.sort_unstable();
        Ok(verified)
    }

    /// Reads a shipment of the log. Returns the length of its frames.
    fn check_shipment(&self, first: u64, meter: &mut Meter<'_>) -> Result<u64> {
        let name = Shipment::name(first);
        let (shipment, mut at) = self.shipment(first)?;
        let file = self.storage.open(&name)?;
        meter.progress.total += shipment.bytes();
        for piece in &shipment.pieces {
            let mut bytes = vec![0; piece.bytes as usize];
            file.read_exact_at(at, &mut bytes)?;
            if crc32c(&bytes) != piece.crc32c {
                return Err(self
                    .damaged(&name, format!("the checksum of its frames at {at} does not match")));
            }
            at += piece.bytes;
            meter.add(piece.bytes)?;
        }
        Ok(shipment.bytes())
    }

    fn check_file(&self, file: &BackupFile, meter: &mut Meter<'_>) -> Result<()> {
        let opened = self.open_stored(file)?;
        let checksums = copy(&*opened, None, meter)?;
        match checksums.whole == file.crc32c {
            true => Ok(()),
            false => Err(self.damaged(&file.stored_as, "its checksum does not match")),
        }
    }
}
