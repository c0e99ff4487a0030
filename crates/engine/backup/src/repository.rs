//! The directory of a repository: its files, its lock, and which database it belongs to.

use crate::record::Backup;
use crate::stored;
use esker_base::checksum::crc32c;
use esker_base::{
    BackupError, Clock, EncryptionError, Error, FileKind, Result, SystemClock, WriteHint,
};
use esker_storage::{ENCRYPTED_MAGIC, Encryption, PosixStorage, Storage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Says that a directory is a repository, and of which database.
pub(crate) const REPOSITORY: &str = "REPOSITORY";
const MAGIC: &str = "esker-repository 1";

/// The name of a file that is not written whole yet ends like this.
pub(crate) const PARTIAL: &str = ".partial";

/// What each file starts with that is not a database's.
const TEXT_START: &[u8; 6] = b"esker-";

/// No file of text is longer, but for records.
const TEXT_BYTES_MAX: u64 = 4 << 10;

/// How much of a call is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that were copied or read.
    pub bytes: u64,
    /// All bytes that are to be copied or read.
    pub total: u64,
}

/// A directory with backups of one database.
///
/// A call that changes the repository locks it; another call that does fails with
/// [`Error::Locked`] meanwhile. Reads take no lock.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_lsm::{Db, Settings}; pub mod backup { pub use esker_backup::*; } }
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path();
/// use esker::backup::Repository;
/// use esker::{Db, Settings};
///
/// let db = Db::open(dir.join("db"), Settings::default())?;
/// db.default_keyspace().put("ada", "analyst")?;
/// let repository = Repository::create(dir.join("backups"))?;
/// let first = repository.back_up(&db)?;
/// db.default_keyspace().put("ada", "author")?;
/// repository.back_up(&db)?;
///
/// repository.restore(Some(first.number), dir.join("restored"))?;
/// let restored = Db::open(dir.join("restored"), Settings::default())?;
/// assert_eq!(restored.default_keyspace().get("ada")?.as_deref(), Some(&b"analyst"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Repository {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Repository {
    /// Opens the repository in the directory `dir`, and makes a new one if `dir` is missing or empty.
    ///
    /// # Errors
    /// [`BackupError::NotARepository`] if other files are there, [`Error::Io`] if the directory cannot be
    /// made or read.
    pub fn create(dir: impl AsRef<Path>) -> Result<Repository> {
        Repository::create_with(dir, None)
    }

    /// Opens the repository in `dir`, whose files `encryption` encrypts, or creates it as
    /// [`Repository::create`] does. Backups of an encrypted database need an encrypted repository.
    ///
    /// # Errors
    /// The errors of [`Repository::create`]; [`Error::Encryption`] if the repository is encrypted and its key was
    /// not given, or if it is not encrypted and a key was.
    pub fn create_with(
        dir: impl AsRef<Path>,
        encryption: Option<&Encryption>,
    ) -> Result<Repository> {
        let storage = over(PosixStorage::create(dir.as_ref())?, encryption);
        let repository = Repository::of(storage, Arc::new(SystemClock::new()));
        repository.expect_repository_or_nothing()?;
        Ok(repository)
    }

    /// Opens the repository in the directory `dir`.
    ///
    /// # Errors
    /// [`BackupError::NotARepository`] if there is none, [`Error::Io`] if the directory cannot be read.
    pub fn open(dir: impl AsRef<Path>) -> Result<Repository> {
        Repository::open_with(dir, None)
    }

    /// Opens the repository in `dir`, whose files `encryption` encrypts.
    ///
    /// # Errors
    /// The errors of [`Repository::open`]; [`Error::Encryption`] if the repository is encrypted and its key was
    /// not given, or if it is not encrypted and a key was.
    pub fn open_with(dir: impl AsRef<Path>, encryption: Option<&Encryption>) -> Result<Repository> {
        let dir = dir.as_ref();
        if !dir.is_dir() {
            let place = dir.display().to_string();
            let reason = "there is no such directory".into();
            return Err(Error::Backup(Box::new(BackupError::NotARepository { place, reason })));
        }
        let storage = over(PosixStorage::open(dir)?, encryption);
        let repository = Repository::of(storage, Arc::new(SystemClock::new()));
        if repository.database()?.is_none() {
            return Err(repository.not_one("no backup was made into it"));
        }
        Ok(repository)
    }

    /// Returns the repository in `storage`. Its backups get their dates from `clock`.
    pub fn of(storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Repository {
        Repository { storage, clock }
    }

    /// Returns the identity of the database whose backups are here. `None` before the first backup.
    ///
    /// # Errors
    /// [`BackupError::NotARepository`] if the file that says so is damaged.
    pub fn database(&self) -> Result<Option<u64>> {
        let Some(text) = self.read_text(REPOSITORY, TEXT_BYTES_MAX)? else { return Ok(None) };
        let parsed = parse_repository(&text);
        let damaged = || self.not_one("its file REPOSITORY is damaged; restore it from a copy");
        parsed.map(Some).ok_or_else(damaged)
    }

    /// Returns all backups, the oldest first.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if a record is damaged, [`Error::Io`] if one cannot be read.
    pub fn backups(&self) -> Result<Vec<Backup>> {
        let mut numbers: Vec<u64> =
            self.storage.list()?.iter().filter_map(|name| Backup::number_in(name)).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| self.backup(number)).collect()
    }

    /// Reads one record.
    pub(crate) fn backup(&self, number: u64) -> Result<Backup> {
        let name = Backup::record_name(number);
        let text = self.read_text(&name, u64::MAX)?;
        let parsed = match &text {
            Some(text) => Backup::decode(text, number),
            None => Err("it is missing".to_owned()),
        };
        parsed.map_err(|what| self.damaged(&name, what))
    }

    /// The backup `number`, or the newest one.
    pub(crate) fn find(&self, number: Option<u64>) -> Result<Backup> {
        let names = self.storage.list()?;
        let mut there: Vec<u64> = names.iter().filter_map(|name| Backup::number_in(name)).collect();
        there.sort_unstable();
        let wanted = number.or(there.last().copied());
        match wanted.filter(|wanted| there.contains(wanted)) {
            Some(number) => self.backup(number),
            None => Err(Error::Backup(Box::new(BackupError::UnknownBackup {
                place: self.storage.describe(),
                wanted: number.map_or("at all".to_owned(), |number| number.to_string()),
                available: ranges(&there),
            }))),
        }
    }

    /// Fails unless the repository belongs to `database` or to none yet; then it does. The caller has the
    /// lock.
    pub(crate) fn claim(&self, database: u64) -> Result<()> {
        match self.expect_repository_or_nothing()? {
            Some(found) if found == database => match self.storage.has_old_key(REPOSITORY)? {
                // So that the key is not needed any more once the backups with it are pruned.
                true => self.write_whole(REPOSITORY, encode_repository(database).as_bytes()),
                false => Ok(()),
            },
            Some(found) => Err(Error::Backup(Box::new(BackupError::OtherDatabase {
                place: self.storage.describe(),
                found: format!("{found:016x}"),
                wanted: format!("{database:016x}"),
            }))),
            None => self.write_whole(REPOSITORY, encode_repository(database).as_bytes()),
        }
    }

    /// The database that the repository belongs to. Fails if the directory holds anything but a repository.
    fn expect_repository_or_nothing(&self) -> Result<Option<u64>> {
        let database = self.database()?;
        let is_foreign = |name: &&String| !name.ends_with(PARTIAL);
        match self.storage.list()?.iter().find(is_foreign) {
            Some(name) if database.is_none() => {
                let what =
                    format!("it holds other files ({name:?}); give an empty or a new directory");
                Err(self.not_one(&what))
            }
            _ => Ok(database),
        }
    }

    /// Writes a file that is there as a whole, or not.
    pub(crate) fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let partial = format!("{name}{PARTIAL}");
        self.remove_if_there(&partial)?;
        let mut file = self.storage.create(&partial, WriteHint::of(FileKind::Meta))?;
        let written = file.append(bytes).and_then(|()| file.sync());
        drop(file);
        let installed = written.and_then(|()| self.storage.rename(&partial, name));
        if installed.is_err() {
            let _ = self.storage.remove(&partial);
        }
        installed.and_then(|()| self.storage.sync_names())
    }

    pub(crate) fn remove_if_there(&self, name: &str) -> Result<()> {
        match self.storage.exists(name)? {
            true => self.storage.remove(name),
            false => Ok(()),
        }
    }

    fn read_text(&self, name: &str, bytes_max: u64) -> Result<Option<String>> {
        if !self.storage.exists(name)? {
            return Ok(None);
        }
        let file = self.storage.open(name)?;
        let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
        file.read_exact_at(0, &mut bytes).map_err(|error| self.read_failed(name, error))?;
        if self.storage.encryption().is_none() && bytes.starts_with(&ENCRYPTED_MAGIC) {
            let place = self.storage.describe();
            return Err(EncryptionError::KeyNeeded { place }.into());
        }
        // What is no text has no right checksum.
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The error of a read of the file `name` that failed: the repository may not be encrypted.
    pub(crate) fn read_failed(&self, name: &str, error: Error) -> Error {
        let place = self.storage.describe();
        match error.is_corruption() && self.is_plain(name).unwrap_or(false) {
            true => EncryptionError::NotEncrypted { place }.into(),
            false => error,
        }
    }

    /// Whether a file that starts with text is not encrypted, and others would be.
    fn is_plain(&self, name: &str) -> Result<bool> {
        let Some(below) = self.storage.encrypted() else { return Ok(false) };
        let file = below.open(name)?;
        let mut start = [0; TEXT_START.len()];
        let bytes = start.len().min(file.len()? as usize);
        file.read_exact_at(0, &mut start[..bytes])?;
        Ok(start == *TEXT_START)
    }

    /// The files of databases that are there, with their lengths. Other files are not a backup's.
    pub(crate) fn data_files(&self) -> Result<BTreeMap<String, u64>> {
        let names = self.storage.list()?.into_iter().filter(|name| stored::is_stored(name));
        names.map(|name| Ok((name.clone(), self.storage.open(&name)?.len()?))).collect()
    }

    /// Fails if files of a database with this `encryption` would not be encrypted in `target`.
    pub(crate) fn expect_encrypted(
        encryption: Option<Encryption>,
        target: &dyn Storage,
    ) -> Result<()> {
        match encryption.is_some() && target.encryption().is_none() {
            true => Err(EncryptionError::Exposed {
                what: "a copy",
                target: target.describe(),
                instead: "give the copy a key, too",
            }
            .into()),
            false => Ok(()),
        }
    }

    pub(crate) fn damaged(&self, name: &str, what: impl Into<String>) -> Error {
        let file = self.storage.path_of(name);
        Error::Backup(Box::new(BackupError::Damaged { file, what: what.into() }))
    }

    fn not_one(&self, reason: &str) -> Error {
        let (place, reason) = (self.storage.describe(), reason.to_owned());
        Error::Backup(Box::new(BackupError::NotARepository { place, reason }))
    }
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository")
            .field("storage", &self.storage.describe())
            .finish_non_exhaustive()
    }
}

fn over(storage: PosixStorage, encryption: Option<&Encryption>) -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(storage);
    match encryption {
        Some(encryption) => encryption.over(storage),
        None => storage,
    }
}

fn encode_repository(database: u64) -> String {
    let line = format!("{MAGIC} {database:016x}");
    format!("{line} {:08x}\n", crc32c(line.as_bytes()))
}

fn parse_repository(text: &str) -> Option<u64> {
    let (line, crc) = text.strip_suffix('\n')?.rsplit_once(' ')?;
    let database = line.strip_prefix(MAGIC)?.strip_prefix(' ')?;
    let is_right = crc == format!("{:08x}", crc32c(line.as_bytes()));
    is_right.then(|| u64::from_str_radix(database, 16).ok()).flatten()
}

/// Ascending numbers in a few words.
fn ranges(numbers: &[u64]) -> String {
    match numbers {
        [] => "none".to_owned(),
        [one] => one.to_string(),
        [first, .., last] if last - first + 1 == numbers.len() as u64 => {
            format!("{first} to {last}")
        }
        _ => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_repository_holds_only_with_its_checksum() {
        let text = encode_repository(0x1234);
        assert_eq!(parse_repository(&text), Some(0x1234));
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(parse_repository(&String::from_utf8_lossy(&bytes)), None, "byte {at}");
        }
    }

    #[test]
    fn available_backups_are_listed_shortly() {
        assert_eq!(ranges(&[]), "none");
        assert_eq!(ranges(&[4]), "4");
        assert_eq!(ranges(&[4, 5, 6]), "4 to 6");
        assert_eq!(ranges(&[1, 5, 6]), "1, 5, 6");
    }
}
