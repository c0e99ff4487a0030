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

mod directory;
mod fadvise;
mod lock;
mod log;
mod parts;
mod reader;
mod writer;

use crate::{LogFile, ReadableFile, Storage, WritableFile, copy_file};
use directory::{Directory, checked, create_durably};
use esker_base::{Error, FileKind, Result, WriteHint};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Files in one directory. Anything else in the directory is left alone.
///
/// The path finds the directory once. From then on every call is relative to the open directory:
/// renaming it, or changing the working directory, changes nothing for this storage, and a new
/// directory at the old path is never touched.
#[derive(Debug)]
pub struct PosixStorage {
    directory: Arc<Directory>,
    /// See [`PosixStorage::with_direct_reads`].
    is_direct: bool,
    /// See [`PosixStorage::with_shared_files`].
    is_shared: bool,
    /// The file system has refused to free a part of a file.
    frees_no_parts: AtomicBool,
}

impl PosixStorage {
    /// Opens a directory that exists.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = Arc::new(Directory::open(directory.into())?);
        let (is_direct, is_shared, frees_no_parts) = Default::default();
        Ok(PosixStorage { directory, is_direct, is_shared, frees_no_parts })
    }

    /// Has files that are [opened for caching](Storage::open_for_caching) read past the page cache, where
    /// the file system allows that.
    #[must_use]
    pub fn with_direct_reads(self, is_direct: bool) -> Self {
        PosixStorage { is_direct, ..self }
    }

    /// Locks files (`flock`, shared) while they are open for reading. A process that writes to the
    /// directory then [frees no part](Storage::free_part) of them.
    #[must_use]
    pub fn with_shared_files(self) -> Self {
        PosixStorage { is_shared: true, ..self }
    }

    /// Opens a directory, and creates it durably, with its parents, if it does not exist.
    pub fn create(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        create_durably(&directory)
            .map_err(|source| failure("create the directory", &directory, source))?;
        PosixStorage::open(directory)
    }

    /// Removes the directory if nothing but the lock's file is in it, unless its path names another one by now.
    pub fn remove_if_empty(&self) -> Result<()> {
        let is_empty = |names: Vec<String>| names.is_empty();
        if self.directory.list().is_ok_and(is_empty) {
            let _ = self.directory.remove(crate::file_name::LOCK_NAME);
        }
        let removed = self.directory.remove_if_empty();
        removed.map_err(|source| failure("remove", self.directory.path(), source))
    }

    fn opened(&self, reader: reader::PosixReader) -> Arc<dyn ReadableFile> {
        if self.is_shared {
            reader.lock();
        }
        Arc::new(reader)
    }

    /// The error of a call that failed on the file `name`.
    fn failed(&self, action: &'static str, name: &str, source: io::Error) -> Error {
        failure(action, &self.directory.path_of(name), source)
    }
}

impl Storage for PosixStorage {
    fn describe(&self) -> String {
        self.directory.path().display().to_string()
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let is_scratch = hint.kind == FileKind::Scratch;
        Ok(Box::new(writer::PosixWriter::create(&self.directory, checked(name)?, is_scratch)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let reader = reader::PosixReader::open(&self.directory, checked(name)?)?;
        Ok(self.opened(reader))
    }

    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let (directory, name) = (&self.directory, checked(name)?);
        Ok(self.opened(match self.is_direct {
            true => reader::PosixReader::open_direct(directory, name)?,
            false => reader::PosixReader::open_for_caching(directory, name)?,
        }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        Ok(Arc::new(log::PosixLog::create(&self.directory, checked(name)?, bytes)?))
    }

    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        let (directory, name) = (&self.directory, checked(name)?);
        Ok(Arc::new(log::PosixLog::create_in_steps(directory, name, bytes, prepared)?))
    }

    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        let (old, new) = (checked(old)?, checked(new)?);
        let recycled = log::PosixLog::recycle(&self.directory, old, new, bytes)?;
        Ok(recycled.map(|log| Arc::new(log) as Arc<dyn LogFile>))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        Ok(Arc::new(log::PosixLog::open(&self.directory, checked(name)?)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.directory.list().map_err(|source| failure("list", self.directory.path(), source))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let found = self.directory.exists(checked(name)?);
        found.map_err(|source| self.failed("look for", name, source))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let removed = self.directory.remove(checked(name)?);
        removed.map_err(|source| self.failed("remove", name, source))
    }

    fn free_part(&self, name: &str, part: Range<u64>) -> u64 {
        match self.freed_block_bytes() {
            Some(_) if checked(name).is_ok() => {
                parts::free(&self.directory, name, part, &self.frees_no_parts)
            }
            _ => 0,
        }
    }

    fn freed_block_bytes(&self) -> Option<u64> {
        let is_able = cfg!(target_os = "linux") && !self.frees_no_parts.load(Ordering::Relaxed);
        is_able.then_some(parts::BLOCK_BYTES)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = self.directory.rename(checked(from)?, checked(to)?);
        renamed.map_err(|source| self.failed("rename", from, source))
    }

    fn sync_names(&self) -> Result<()> {
        let synced = self.directory.sync();
        synced.map_err(|source| failure("sync the directory", self.directory.path(), source))
    }

    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        checked(name)?;
        let Some(directory) = target.directory() else {
            return copy_file::copy_durably(self, name, target);
        };
        match self.directory.link(name, directory) {
            Ok(()) => Ok(()),
            Err(source) if copying_would_fail_too(&source) => {
                Err(Error::io("link", target.path_of(name), source))
            }
            Err(_) => copy_file::copy_durably(self, name, target),
        }
    }

    fn is_replaced(&self) -> bool {
        self.directory.is_replaced()
    }

    fn reopened(&self) -> Result<Option<Arc<dyn Storage>>> {
        if !self.is_replaced() {
            return Ok(None);
        }
        let found = PosixStorage::open(self.directory.path())?;
        let (is_direct, is_shared) = (self.is_direct, self.is_shared);
        Ok(Some(Arc::new(PosixStorage { is_direct, is_shared, ..found })))
    }

    fn directory(&self) -> Option<BorrowedFd<'_>> {
        Some(self.directory.fd())
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

fn failure(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::io(action, path.display().to_string(), source)
}
