//! A directory of the operating system.
//!
//! * Tables and manifests go through a writer that gathers appends into large writes and
//!   asks for writeback as it goes, so that the sync at the end finds little left to do.
//! * A log file is allocated *and written* when it is created: an extent that was only allocated is
//!   marked unwritten, and each first write into it would make the next sync commit a change of
//!   metadata, which costs several times the sync itself. After that a put is one `pwrite`.
//! * Creating, renaming and removing is durable after an fsync of the directory.
//! * The lock is a `flock` on a file `LOCK`: the kernel releases it when the holder dies.
//!
//! Linux is the first home; elsewhere on Unix the calls that only hint or preallocate do nothing.

mod advice;
mod lock;
mod log;
mod reader;
mod writer;

use crate::{LogFile, ReadableFile, Storage, WritableFile, copy, name};
use esker_base::{Error, Hint, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files in one directory. Anything else in the directory is left alone.
#[derive(Debug)]
pub struct PosixStorage {
    directory: PathBuf,
    /// Held open, so that a sync of names reports every failure since the storage was opened.
    handle: File,
}

impl PosixStorage {
    /// Opens a directory that exists.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        let opened = File::open(&directory).and_then(|handle| match handle.metadata()?.is_dir() {
            true => Ok(handle),
            false => Err(ErrorKind::NotADirectory.into()),
        });
        match opened {
            Ok(handle) => Ok(PosixStorage { directory, handle }),
            Err(source) => Err(failure("open the directory", &directory, source)),
        }
    }

    /// Opens a directory, and creates it durably, with its parents, if it does not exist.
    pub fn create(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        create_durably(&directory)
            .map_err(|source| failure("create the directory", &directory, source))?;
        PosixStorage::open(directory)
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        name::check(name)?;
        Ok(self.directory.join(name))
    }
}

impl Storage for PosixStorage {
    fn describe(&self) -> String {
        self.directory.display().to_string()
    }

    fn create(&self, name: &str, _hint: Hint) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(writer::PosixWriter::create(self.path(name)?)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(reader::PosixReader::open(self.path(name)?, name)?))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        Ok(Arc::new(log::PosixLog::create(self.path(name)?, name, bytes)?))
    }

    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        let recycled = log::PosixLog::recycle(&self.path(old)?, self.path(new)?, new, bytes)?;
        Ok(recycled.map(|log| Arc::new(log) as Arc<dyn LogFile>))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        Ok(Arc::new(log::PosixLog::open(self.path(name)?, name)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        list(&self.directory).map_err(|source| failure("list", &self.directory, source))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let path = self.path(name)?;
        path.try_exists().map_err(|source| failure("look for", &path, source))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        fs::remove_file(&path).map_err(|source| failure("remove", &path, source))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.path(from)?, self.path(to)?);
        fs::rename(&from, &to).map_err(|source| failure("rename", &from, source))
    }

    fn sync_names(&self) -> Result<()> {
        let synced = self.handle.sync_all();
        synced.map_err(|source| failure("sync the directory", &self.directory, source))
    }

    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        let path = self.path(name)?;
        let Some(directory) = target.directory() else {
            return copy::copy_durably(self, name, target);
        };
        let link = directory.join(name);
        match fs::hard_link(&path, &link) {
            Ok(()) => Ok(()),
            Err(source) if copying_would_fail_too(&source) => Err(failure("link", &link, source)),
            Err(_) => copy::copy_durably(self, name, target),
        }
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        Ok(Box::new(lock::DirectoryLock::take(&self.directory)?))
    }
}

/// Other failures of a link come from the file system (another device, no links, too many), and a
/// copy gets around them.
fn copying_would_fail_too(source: &io::Error) -> bool {
    use ErrorKind::{AlreadyExists, NotFound, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        source.kind(),
        AlreadyExists | NotFound | QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

/// The plain files of `directory`. Names that are not Unicode are nobody's here.
fn list(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        if let Ok(name) = entry.file_name().into_string()
            && name != name::LOCK_NAME
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// Creates `directory` and what is missing above it, and makes each new name durable in its parent.
fn create_durably(directory: &Path) -> io::Result<()> {
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if directory.is_dir() {
        // Whoever made it may have died before its name was durable. Who may not look into the parent did not
        // make it, and where a directory can't be synced there is nothing that could be done.
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        return synced.or_else(|source| match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput => Ok(()),
            _ => Err(source),
        });
    }
    create_durably(parent)?;
    match fs::create_dir(directory) {
        // Someone else made it meanwhile; if it is a plain file, opening it says so.
        Err(source) if source.kind() == ErrorKind::AlreadyExists => {}
        done => done?,
    }
    File::open(parent)?.sync_all()
}

fn failure(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::io(action, path.display().to_string(), source)
}
