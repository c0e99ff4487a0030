//! Makes a database directory of a backup.

use crate::copying::{Meter, copy};
use crate::record::{Backup, BackupFile};
use crate::repository::{Progress, Repository};
use esker_base::{Error, FileKind, Result, WriteHint};
use esker_lsm::{RESTORING, note_original};
use esker_storage::{PosixStorage, ReadableFile, Storage, WritableFile, encrypted_as};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Makes a directory a database; so it comes last.
const CURRENT: &str = "CURRENT";
const CURRENT_PARTIAL: &str = "CURRENT.new";

/// Files that are written, and synced later: by then the system has written most of their bytes.
const UNSYNCED_FILES: usize = 8;

/// What a restore has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The number of the backup.
    pub number: u64,
    /// The database has all writes up to this sequence number.
    pub seqno: u64,
    /// The files of the database.
    pub files: u64,
    /// The length of these files, in bytes.
    pub bytes: u64,
}

impl Repository {
    /// Makes a database in `dir` of the backup `number`, or of the newest one if `None`.
    ///
    /// `dir` must be missing or empty, or hold what an interrupted restore has left, which is removed.
    /// The new database has an identity of its own. Every file is compared with its checksum. Local followers of the
    /// database that was backed up begin anew with the new one if it is moved to the place of that database.
    ///
    /// # Errors
    /// * [`BackupError::UnknownBackup`](crate::BackupError::UnknownBackup) if there is no such backup.
    /// * [`Error::DatabaseExists`] if `dir` holds a database, [`Error::NotADatabase`] if it holds other
    ///   files. Nothing is overwritten.
    /// * [`BackupError::Damaged`](crate::BackupError::Damaged) if a file is missing or damaged.
    /// * [`Error::Io`] if a file cannot be read or written.
    ///
    /// After an error nothing of the backup is left in `dir`.
    pub fn restore(&self, number: Option<u64>, dir: impl AsRef<Path>) -> Result<RestoreReport> {
        self.restore_while(number, dir, &mut |_| true)
    }

    /// Restores as [`Repository::restore`] does, as long as `goes_on` returns true. It is called after each
    /// mebibyte.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `goes_on` returned false, and the errors of [`Repository::restore`].
    pub fn restore_while(
        &self,
        number: Option<u64>,
        dir: impl AsRef<Path>,
        goes_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<RestoreReport> {
        // Before a directory is made.
        let backup = self.find(number)?;
        let was_missing = !dir.as_ref().exists();
        let directory = Arc::new(PosixStorage::create(dir.as_ref())?);
        let target = encrypted_as(&*self.storage, directory.clone());
        let restored = self.restore_into(&backup, &*target, goes_on);
        drop(target);
        if restored.is_err() && was_missing {
            let _ = directory.remove_if_empty();
        }
        restored
    }

    /// Makes a database in `target` of `backup`.
    ///
    /// # Errors
    /// The errors of [`Repository::restore_while`].
    pub fn restore_into(
        &self,
        backup: &Backup,
        target: &dyn Storage,
        goes_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<RestoreReport> {
        self.restore_using(backup, target, goes_on, None)
    }

    /// Makes a database in `target` of the files of `backup`. `finish` makes it one, instead of the backup's `CURRENT`.
    pub(crate) fn restore_using(
        &self,
        backup: &Backup,
        target: &dyn Storage,
        goes_on: &mut dyn FnMut(Progress) -> bool,
        finish: Option<&mut dyn FnMut() -> Result<()>>,
    ) -> Result<RestoreReport> {
        Repository::expect_encrypted(self.storage.encryption(), target)?;
        // Before the lock, which writes a file; and again, as another process may have come first.
        expect_empty(target)?;
        let lock = target.lock()?;
        expect_empty(target)?;
        let progress = Progress { bytes: 0, total: backup.bytes() };
        let mut meter = Meter { progress, what: "restored database", goes_on };
        let filled = begin(target).and_then(|()| self.fill(backup, target, &mut meter, finish));
        if filled.is_err() {
            // The marker last: what is left is known to be a restore's.
            let _ = remove_files(target).and_then(|()| target.remove(RESTORING));
        }
        drop(lock);
        filled.map(|()| RestoreReport {
            number: backup.number,
            seqno: backup.seqno,
            files: backup.files.len() as u64,
            bytes: backup.bytes(),
        })
    }

    fn fill(
        &self,
        backup: &Backup,
        target: &dyn Storage,
        meter: &mut Meter<'_>,
        finish: Option<&mut dyn FnMut() -> Result<()>>,
    ) -> Result<()> {
        let mut unsynced: VecDeque<Box<dyn WritableFile>> = VecDeque::new();
        let mut current = None;
        for file in &backup.files {
            let is_current = file.name == CURRENT;
            let name = if is_current { CURRENT_PARTIAL } else { &file.name };
            let mut copied = target.create(name, WriteHint::of(FileKind::Table))?;
            let checksums = copy(&*self.open_stored(file)?, Some(&mut *copied), meter)?;
            if checksums.whole != file.crc32c {
                return Err(self.damaged(&file.stored_as, "its checksum does not match"));
            }
            unsynced.push_back(copied);
            if unsynced.len() > UNSYNCED_FILES {
                unsynced.pop_front().map_or(Ok(()), |mut file| file.sync())?;
            }
            current = current.or(is_current.then_some(()));
        }
        unsynced.iter_mut().try_for_each(|file| file.sync())?;
        let original = u64::from_str_radix(&backup.database, 16);
        original.map_or(Ok(()), |original| note_original(target, original))?;
        target.sync_names()?;
        if current.is_none() {
            let record = Backup::record_name(backup.number);
            return Err(self.damaged(&record, "it names no file CURRENT"));
        }
        match finish {
            Some(finish) => {
                target.remove(CURRENT_PARTIAL)?;
                finish()?;
            }
            None => target.rename(CURRENT_PARTIAL, CURRENT)?,
        }
        target.sync_names()?;
        // From here on it is a database, and a restore refuses the directory.
        let _ = target.remove(RESTORING);
        Ok(())
    }

    /// Copies a file of a backup under its name in the database.
    pub(crate) fn copy_stored(&self, file: &BackupFile, target: &dyn Storage) -> Result<()> {
        let mut copied = target.create(&file.name, WriteHint::of(FileKind::Table))?;
        let mut goes_on = |_| true;
        let mut meter =
            Meter { progress: Progress::default(), what: "restore", goes_on: &mut goes_on };
        let checksums = copy(&*self.open_stored(file)?, Some(&mut *copied), &mut meter)?;
        match checksums.whole == file.crc32c {
            true => Ok(()),
            false => Err(self.damaged(&file.stored_as, "its checksum does not match")),
        }
    }

    /// Opens a file of a backup, which has the length that the record says.
    pub(crate) fn open_stored(&self, file: &BackupFile) -> Result<Arc<dyn ReadableFile>> {
        if !self.storage.exists(&file.stored_as)? {
            return Err(self.damaged(&file.stored_as, "it is missing"));
        }
        let opened = self.storage.open(&file.stored_as)?;
        let bytes = opened.len()?;
        match bytes == file.bytes {
            true => Ok(opened),
            false => {
                let what = format!("it has {bytes} bytes and had {}", file.bytes);
                Err(self.damaged(&file.stored_as, what))
            }
        }
    }
}

/// Fails unless `target` is empty or holds what an interrupted restore has left.
fn expect_empty(target: &dyn Storage) -> Result<()> {
    let dir = target.describe();
    if target.exists(CURRENT)? {
        return Err(Error::DatabaseExists { dir });
    }
    let names = target.list()?;
    match names.first() {
        Some(name) if !names.iter().any(|name| name == RESTORING) => {
            let reason =
                format!("it holds other files ({name:?}); give an empty or a new directory");
            Err(Error::NotADatabase { dir, reason })
        }
        _ => Ok(()),
    }
}

/// Marks `target`, and removes what an interrupted restore has left.
fn begin(target: &dyn Storage) -> Result<()> {
    if target.exists(RESTORING)? {
        return remove_files(target);
    }
    let mut marker = target.create(RESTORING, WriteHint::of(FileKind::Meta))?;
    marker.sync()?;
    target.sync_names()
}

/// Removes all files but the marker.
fn remove_files(target: &dyn Storage) -> Result<()> {
    for name in target.list()? {
        if name != RESTORING {
            target.remove(&name)?;
        }
    }
    target.sync_names()
}
