//! Removes old backups, and the files that no other backup uses.

use crate::create::used_by;
use crate::record::Backup;
use crate::repository::Repository;
use crate::shipment::Shipment;
use esker_base::{Error, Result};

/// What was removed from a repository.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PruneReport {
    /// The numbers of the backups that were removed.
    pub removed: Vec<u64>,
    /// The numbers of the backups that stay.
    pub kept: Vec<u64>,
    /// The files that were removed.
    pub files: u64,
    /// The length of these files, in bytes.
    pub bytes: u64,
}

impl Repository {
    /// Removes all backups but the newest `keep`, and the files that only they used.
    ///
    /// Also removes shipments of the log from before the oldest backup that stays, and files of backups that
    /// were interrupted.
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`] if `keep` is 0; [`Error::Locked`] if another call changes the repository.
    /// * [`BackupError::Damaged`](crate::BackupError::Damaged) if a record is damaged; nothing is removed
    ///   then, for its files would be among those.
    /// * [`Error::Io`] if a file cannot be removed. What was not removed is removed by the next call.
    pub fn prune(&self, keep: usize) -> Result<PruneReport> {
        if keep == 0 {
            return Err(Error::InvalidSetting {
                setting: "keep",
                value: "0".into(),
                reason: "keep at least 1 backup; to remove all, remove the directory".into(),
            });
        }
        let _lock = self.storage.lock()?;
        let backups = self.backups()?;
        let (old, kept) = backups.split_at(backups.len().saturating_sub(keep));
        for backup in old {
            self.storage.remove(&Backup::record_name(backup.number))?;
        }
        // A record that comes back after a power loss must find its files.
        self.storage.sync_names()?;
        let numbers = |backups: &[Backup]| backups.iter().map(|backup| backup.number).collect();
        let mut report =
            PruneReport { removed: numbers(old), kept: numbers(kept), ..PruneReport::default() };
        let used = used_by(kept);
        for (name, bytes) in self.data_files()? {
            if !used.contains(&name[..]) {
                self.storage.remove(&name)?;
                (report.files, report.bytes) = (report.files + 1, report.bytes + bytes);
            }
        }
        let oldest = kept.first().map_or(0, |oldest| oldest.seqno);
        for first in self.shipment_numbers()? {
            let (shipment, _) = self.shipment(first)?;
            if shipment.last < oldest {
                self.storage.remove(&Shipment::name(first))?;
                report.files += 1;
                report.bytes += shipment.bytes();
            }
        }
        self.remove_partial_files()?;
        self.storage.sync_names()?;
        Ok(report)
    }
}
