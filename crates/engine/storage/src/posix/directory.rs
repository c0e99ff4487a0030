//! An open directory. Every name in it is looked up relative to its descriptor.
//!
//! A path is used once, to open the directory. Later the directory may be renamed, another one may
//! take its place, and the working directory may change: a name still means a file of the directory
//! that was opened and locked. The path is kept for messages only.

use super::failure;
use crate::file_name;
use esker_base::{Error, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// What a new file may be at most, before the process's mask applies.
const NEW_FILE_MODE: u32 = 0o666;

#[derive(Debug)]
pub(super) struct Directory {
    /// Held open, so that a sync of names reports every failure since the directory was opened.
    handle: File,
    path: PathBuf,
}

impl Directory {
    /// Opens the directory at `path`, which exists.
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(handle) => Ok(Directory { handle: handle.into(), path }),
            Err(source) => Err(failure("open the directory", &path, source.into())),
        }
    }

    /// The path that the directory was opened by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What to call the file `name` in messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Opens the file `name`, which exists.
    pub(super) fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let file = rustix::fs::openat(&self.handle, name, flags | OFlags::CLOEXEC, Mode::empty())?;
        Ok(file.into())
    }

    /// Creates the file `name` if it does not exist; with [`OFlags::EXCL`] it must not.
    pub(super) fn create_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CREATE | OFlags::CLOEXEC;
        let created =
            rustix::fs::openat(&self.handle, name, flags, Mode::from_raw_mode(NEW_FILE_MODE));
        created.map(File::from).map_err(|source| self.explain(source.into()))
    }

    pub(super) fn exists(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.handle, name, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(source) => Err(source.into()),
        }
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let renamed = rustix::fs::renameat(&self.handle, from, &self.handle, to);
        renamed.map_err(|source| self.explain(source.into()))
    }

    /// Links the file `name` into the directory `target` under the same name.
    pub(super) fn link(&self, name: &str, target: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.handle, name, target, name, AtFlags::empty())?)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// The names of the plain files. Names that are not Unicode are nobody's here.
    pub(super) fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if self.is_plain(name, entry.file_type())? && name != file_name::LOCK_NAME {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Whether a listed name is a plain file. Some file systems leave the type out of their lists.
    fn is_plain(&self, name: &str, listed: FileType) -> io::Result<bool> {
        if listed != FileType::Unknown {
            return Ok(listed == FileType::RegularFile);
        }
        match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(FileType::from_raw_mode(found.st_mode) == FileType::RegularFile),
            Err(Errno::NOENT) => Ok(false),
            Err(source) => Err(source.into()),
        }
    }

    /// Whether `file` is what `name` means now.
    pub(super) fn is_named(&self, file: &File, name: &str) -> io::Result<bool> {
        let held = rustix::fs::fstat(file)?;
        match rustix::fs::statat(&self.handle, name, AtFlags::empty()) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(source) => Err(source.into()),
        }
    }

    /// Whether the path names another directory by now. A relative one may mean any other.
    pub(super) fn is_replaced(&self) -> bool {
        let (Ok(held), Ok(found)) = (rustix::fs::fstat(&self.handle), rustix::fs::stat(&self.path))
        else {
            return false;
        };
        self.path.is_absolute() && (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino)
    }

    /// Removes the directory if it is empty and its path still names it.
    pub(super) fn remove_if_empty(&self) -> io::Result<()> {
        let (parent, name) = match (parent_of(&self.path), self.path.file_name()) {
            (parent, Some(name)) => (File::open(parent)?, name),
            _ => return Ok(()),
        };
        let held = rustix::fs::fstat(&self.handle)?;
        let found = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino) {
            rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }

    /// The system's "not found" names the file that was to be made. If the directory itself was
    /// removed, that is the cause.
    fn explain(&self, source: io::Error) -> io::Error {
        let removed = || rustix::fs::fstat(&self.handle).is_ok_and(|found| found.st_nlink == 0);
        match source.kind() {
            ErrorKind::NotFound if removed() => io::Error::new(ErrorKind::NotFound, Removed),
            _ => source,
        }
    }
}

/// Why nothing can be created any more.
#[derive(Debug)]
struct Removed;

impl std::fmt::Display for Removed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("its directory was removed while it was open")
    }
}

impl std::error::Error for Removed {}

/// Creates the directory at `path` and what is missing above it, and makes each new name durable in
/// its parent.
pub(super) fn create_durably(path: &Path) -> io::Result<()> {
    let parent = parent_of(path);
    if path.is_dir() {
        // Whoever made it may have died before its name was durable. Who may not look into the parent did not
        // make it, and where a directory can't be synced there is nothing that could be done.
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        return synced.or_else(|source| match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput => Ok(()),
            _ => Err(source),
        });
    }
    create_durably(parent)?;
    match std::fs::create_dir(path) {
        // Someone else made it meanwhile; if it is a plain file, opening it says so.
        Err(source) if source.kind() == ErrorKind::AlreadyExists => {}
        done => done?,
    }
    File::open(parent)?.sync_all()
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses a name that is not plain.
pub(super) fn checked(name: &str) -> Result<&str, Error> {
    file_name::check(name).map(|()| name)
}
