//! Makes a backup.

use crate::copying::{Checksums, Meter, copy, end_checksum};
use crate::history::{self, noted};
use crate::record::{Backup, BackupFile};
use crate::repository::{PARTIAL, Progress, Repository};
use crate::stored;
use esker_base::{Error, FileKind, Result, WriteHint};
use esker_lsm::{Db, LiveFiles};
use std::collections::{BTreeMap, BTreeSet};

/// What a backup copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BackupReport {
    /// The number of the backup.
    pub number: u64,
    /// It has all writes up to this sequence number.
    pub seqno: u64,
    /// All of its files.
    pub files: u64,
    /// The length of all of its files, in bytes.
    pub bytes: u64,
    /// Files that the repository did not have yet.
    pub copied_files: u64,
    /// The length of these files, in bytes.
    pub copied_bytes: u64,
}

impl Repository {
    /// Backs up `db`: flushes, and copies the files that no earlier backup has.
    ///
    /// Writers proceed meanwhile. The backup has every write that was acknowledged before the call. Each
    /// table that is copied is checked first, so a damaged one never replaces an intact one.
    ///
    /// # Errors
    /// * [`BackupError::OtherDatabase`](crate::BackupError::OtherDatabase) if the repository belongs to
    ///   another database; [`Error::Locked`] if another call changes it.
    /// * [`Error::Corruption`] if a table of the database is damaged. Earlier backups stay.
    /// * [`Error::Io`] if a file cannot be read or written; the errors of [`Db::flush`].
    ///
    /// A damaged record of an earlier backup is no error: [`Repository::verify`] reports it. After an error
    /// the repository has its earlier backups. Files that were copied stay, and the next
    /// backup uses them.
    pub fn back_up(&self, db: &Db) -> Result<BackupReport> {
        // Read before the files: see `Lineage::noted`.
        let lineage = match db.lineage() {
            Err(Error::ReadOnly) => None,
            lineage => Some(lineage?),
        };
        let files = db.live_files()?;
        let files = match lineage {
            Some(lineage) => files.noted_openings(lineage.openings),
            None => files,
        };
        self.back_up_files(&files, &mut |_| true)
    }

    /// Backs up `files`, as long as `goes_on` returns true. It is called after each mebibyte.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `goes_on` returned false, and the errors of [`Repository::back_up`].
    pub fn back_up_files(
        &self,
        files: &LiveFiles,
        goes_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<BackupReport> {
        Repository::expect_encrypted(files.encryption(), &*self.storage)?;
        let _lock = self.storage.lock()?;
        self.claim(files.database())?;
        self.remove_partial_files()?;
        let made = self.clock.calendar().as_millis() as u64;
        let (number, earlier) = self.earlier()?;
        let mut copier = Copier::new(self, files, number, &earlier, goes_on)?;
        let mut all = Vec::new();
        for name in files.tables() {
            all.push(copier.table(&name)?);
        }
        for name in files.manifest() {
            all.push(copier.copy(name)?);
        }
        // The names of all that the record names.
        self.storage.sync_names()?;
        let report = BackupReport {
            number,
            seqno: files.seqno(),
            files: all.len() as u64,
            bytes: all.iter().map(|file| file.bytes).sum(),
            ..copier.report
        };
        let database = format!("{:016x}", files.database());
        let (seqno, openings) = (files.seqno(), noted(files.openings()));
        let backup = Backup { number, database, made, seqno, files: all, openings };
        self.write_whole(&Backup::record_name(number), backup.encode().as_bytes())?;
        Ok(report)
    }

    /// The number of the next backup, and the earlier ones. One whose record is damaged keeps its number and
    /// its files, which are copied again: it must not keep the database from being backed up.
    fn earlier(&self) -> Result<(u64, Vec<Backup>)> {
        let names = self.storage.list()?;
        let numbers: BTreeSet<u64> =
            names.iter().filter_map(|name| Backup::number_in(name)).collect();
        let next = numbers.last().map_or(1, |last| last + 1);
        let mut earlier = Vec::new();
        for number in numbers {
            match self.backup(number) {
                Err(Error::Backup(_)) => {}
                read => earlier.push(read?),
            }
        }
        Ok((next, earlier))
    }

    /// Removes what an interrupted call has left half written.
    pub(crate) fn remove_partial_files(&self) -> Result<()> {
        for name in self.storage.list()? {
            if name.strip_suffix(PARTIAL).is_some_and(stored::is_written) {
                self.storage.remove(&name)?;
            }
        }
        Ok(())
    }
}

/// Copies files into a repository.
struct Copier<'a> {
    repository: &'a Repository,
    files: &'a LiveFiles,
    number: u64,
    /// The tables of earlier backups of this history, by name.
    known: BTreeMap<&'a str, Vec<&'a BackupFile>>,
    /// The files of backups of other histories: after files were put back from a copy, ids of files are given
    /// out again. Name, length and checksums do not distinguish them.
    others: BTreeSet<&'a str>,
    /// The files of the repository, with their lengths.
    there: BTreeMap<String, u64>,
    meter: Meter<'a>,
    report: BackupReport,
}

impl<'a> Copier<'a> {
    fn new(
        repository: &'a Repository,
        files: &'a LiveFiles,
        number: u64,
        earlier: &'a [Backup],
        goes_on: &'a mut dyn FnMut(Progress) -> bool,
    ) -> Result<Copier<'a>> {
        let openings = noted(files.openings());
        let (mut known, mut others) = (BTreeMap::<&str, Vec<&BackupFile>>::new(), BTreeSet::new());
        for backup in earlier.iter().rev() {
            // In a later one, tables that this one has may be freed in their files.
            let is_earlier = backup.seqno <= files.seqno();
            if is_earlier && history::may_be_earlier(&openings, backup) {
                for file in &backup.files {
                    known.entry(&file.name).or_default().push(file);
                }
            } else {
                others.extend(backup.files.iter().map(|file| &file.stored_as[..]));
            }
        }
        let mut copier = Copier {
            repository,
            files,
            number,
            known,
            others,
            there: repository.data_files()?,
            meter: Meter { progress: Progress::default(), what: "backup", goes_on },
            report: BackupReport::default(),
        };
        let mut names = files.tables();
        names.extend(files.manifest().map(str::to_owned));
        for name in names {
            if copier.stored(&name)?.is_none() {
                copier.meter.progress.total += files.open(&name)?.len()?;
            }
        }
        Ok(copier)
    }

    /// The same table in the repository, if an earlier backup has it.
    fn stored(&self, name: &str) -> Result<Option<BackupFile>> {
        let Some(known) = self.known.get(name) else { return Ok(None) };
        let file = self.files.open(name)?;
        let (bytes, end) = (file.len()?, end_checksum(&*file)?);
        let is_same = |known: &&&BackupFile| {
            (known.bytes, known.end_crc32c) == (bytes, end)
                && self.there.get(&known.stored_as) == Some(&bytes)
        };
        Ok(known.iter().find(is_same).map(|known| (**known).clone()))
    }

    fn table(&mut self, name: &str) -> Result<BackupFile> {
        if let Some(stored) = self.stored(name)? {
            return Ok(stored);
        }
        if let Some(left) = self.left(name)? {
            return Ok(left);
        }
        self.files.verify(name)?;
        self.copy(name)
    }

    /// The same table, if an interrupted backup copied it and it is intact.
    fn left(&mut self, name: &str) -> Result<Option<BackupFile>> {
        let file = self.files.open(name)?;
        let (bytes, end) = (file.len()?, end_checksum(&*file)?);
        let is_left =
            |it: &&String| stored::is_table(it, name, bytes) && !self.others.contains(&it[..]);
        let copies: Vec<String> = self.there.keys().filter(is_left).cloned().collect();
        for stored_as in copies {
            let copied = self.repository.storage.open(&stored_as)?;
            if end_checksum(&*copied)? != end {
                continue;
            }
            let whole = copy(&*copied, None, &mut self.meter)?.whole;
            if stored::table(name, bytes, whole) == stored_as {
                let name = name.to_owned();
                return Ok(Some(BackupFile {
                    name,
                    stored_as,
                    bytes,
                    crc32c: whole,
                    end_crc32c: end,
                }));
            }
            // It is read in vain, and copied.
            self.meter.progress.total += bytes;
        }
        Ok(None)
    }

    /// Copies a file, and gives it a name that says what is in it.
    fn copy(&mut self, name: &str) -> Result<BackupFile> {
        let storage = &*self.repository.storage;
        let source = self.files.open(name)?;
        let partial = format!("{name}{PARTIAL}");
        let mut target = storage.create(&partial, WriteHint::of(FileKind::Table))?;
        let copied = copy(&*source, Some(&mut *target), &mut self.meter)
            .and_then(|checksums| target.sync().map(|()| checksums));
        let bytes = target.len();
        drop(target);
        let Checksums { whole, end } = match copied {
            Ok(checksums) => checksums,
            Err(error) => {
                let _ = storage.remove(&partial);
                return Err(error);
            }
        };
        let stored_as = match self.files.manifest().contains(&name) {
            true => stored::manifest(name, self.number),
            false => match stored::table(name, bytes, whole) {
                taken if self.others.contains(&taken[..]) => {
                    stored::other_table(name, bytes, self.number, whole)
                }
                free => free,
            },
        };
        // A damaged copy of it may be there: see `left`.
        storage.rename(&partial, &stored_as)?;
        self.report.copied_files += 1;
        self.report.copied_bytes += bytes;
        Ok(BackupFile { name: name.to_owned(), stored_as, bytes, crc32c: whole, end_crc32c: end })
    }
}

/// The files of the repository that `backups` use.
pub(crate) fn used_by(backups: &[Backup]) -> BTreeSet<&str> {
    let files = backups.iter().flat_map(|backup| &backup.files);
    files.map(|file| &file.stored_as[..]).collect()
}
