//! The one writer's lock on an open directory.
//!
//! It is two `flock`s. The first is on the directory itself, so the lock and what it protects are one
//! object: renaming the directory takes the lock along, and removing files in it frees nothing. The
//! second is on the file `LOCK`, for file systems that can't lock a directory (NFS) and for the
//! holder's pid. A file system that can do the first needs the second only as a note.
//!
//! A lock belongs to the open file, not to the process. So a second taker inside the same process is
//! refused as well, and the kernel releases the lock when the holder dies, however it dies. The file
//! stays when the lock is released: removing it would let two takers lock two files of one name. If
//! another process removes or replaces it, the taker notices and takes the new one.
//!
//! A caller without write permission can hold the lock as well. That keeps writers out while files
//! are read. Such a holder leaves no pid in the file.

use super::directory::Directory;
use super::failure;
use crate::file_name::LOCK_NAME;
use esker_base::lock_holder::lock_holder;
use esker_base::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};

/// The longest holder's number that is shown: more than a `u64` has digits.
const PID_BYTES_MAX: usize = 24;

/// How often `LOCK` may be replaced while it is being locked. No program does that in earnest.
const REPLACED_MAX: usize = 100;

/// A held lock.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    /// The directory, opened once more. `None` where directories can't be locked.
    directory: Option<File>,
    /// `None` where no process can write, or no file can be made and the directory is locked.
    file: Option<File>,
    /// The process that took it. A forked child has copies of the descriptors, and must not unlock.
    pid: u32,
}

impl Drop for DirectoryLock {
    /// Closing the files would release the lock only once every copy of them is closed; and a process
    /// that another thread is just starting has one until it runs its program.
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        if let Some(file) = &self.file {
            // The next holder may not be able to say who it is: better no name than a wrong one.
            let _ = file.set_len(0);
            let _ = flock(file, FlockOperation::Unlock);
        }
        if let Some(directory) = &self.directory {
            let _ = flock(directory, FlockOperation::Unlock);
        }
    }
}

impl DirectoryLock {
    pub(super) fn take(directory: &Directory) -> Result<Self> {
        Self::take_with(directory, |directory| directory.create_file(LOCK_NAME, OFlags::RDWR))
    }

    /// Takes the lock. `open` opens the file for writing.
    fn take_with(
        directory: &Directory,
        open: impl Fn(&Directory) -> io::Result<File>,
    ) -> Result<Self> {
        let (locked_directory, pid) = (lock_directory(directory)?, std::process::id());
        let mut lock = DirectoryLock { directory: locked_directory, file: None, pid };
        for _ in 0..REPLACED_MAX {
            let (file, can_write) = match open_lock_file(directory, &open) {
                Ok(Some(opened)) => opened,
                Ok(None) => return Ok(lock),
                Err(source) if lock.directory.is_some() && no_file_is_needed(&source) => {
                    return Ok(lock);
                }
                Err(source) => return Err(failed("open", directory, source)),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(locked(directory, &file)),
                Err(source) => return Err(failed("lock", directory, source.into())),
            }
            let is_named = directory.is_named(&file, LOCK_NAME);
            if !is_named.map_err(|source| failed("look for", directory, source))? {
                continue;
            }
            if can_write {
                // A note for people: a full disk must not keep anybody from the database.
                let _ = write_holder(&file);
            }
            lock.file = Some(file);
            return Ok(lock);
        }
        let again = io::Error::other("it is replaced again and again");
        Err(failed("lock", directory, again))
    }
}

fn failed(action: &'static str, directory: &Directory, source: io::Error) -> Error {
    failure(action, &directory.path_of(LOCK_NAME), source)
}

/// Locks the directory itself. `None` if its file system can't do that.
fn lock_directory(directory: &Directory) -> Result<Option<File>> {
    // Through a descriptor of its own: the lock must not live as long as whatever else is open.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory.fd(), ".", flags, Mode::empty());
    let file = match opened {
        Ok(file) => File::from(file),
        // It was removed, which the file LOCK says better.
        Err(Errno::NOENT) => return Ok(None),
        Err(source) => return Err(failure("open", directory.path(), source.into())),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => match directory.open_file(LOCK_NAME, OFlags::RDONLY) {
            Ok(note) => Err(locked_by(directory, holder(&file).or_else(|| noted_holder(&note)))),
            Err(_) => Err(locked_by(directory, holder(&file))),
        },
        Err(_) => Ok(None),
    }
}

/// The file `LOCK`, and whether it may be written. `None` if it is not there and it can't be made.
fn open_lock_file(
    directory: &Directory,
    open: impl Fn(&Directory) -> io::Result<File>,
) -> io::Result<Option<(File, bool)>> {
    use ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    let refusal = match open(directory) {
        Ok(file) => return Ok(Some((file, true))),
        Err(refusal) => refusal,
    };
    if !matches!(refusal.kind(), PermissionDenied | ReadOnlyFilesystem) {
        return Err(refusal);
    }
    match directory.open_file(LOCK_NAME, OFlags::RDONLY) {
        Ok(file) => Ok(Some((file, false))),
        Err(error) if error.kind() == NotFound && refusal.kind() == ReadOnlyFilesystem => Ok(None),
        Err(_) => Err(refusal),
    }
}

/// Whether a locked directory makes up for a file that can't be made: on a full disk.
fn no_file_is_needed(source: &io::Error) -> bool {
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn write_holder(file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(std::process::id().to_string().as_bytes(), 0)
}

fn locked(directory: &Directory, file: &File) -> Error {
    locked_by(directory, holder(file).or_else(|| noted_holder(file)))
}

fn locked_by(directory: &Directory, pid: Option<String>) -> Error {
    let pid = pid.unwrap_or_else(|| "unknown".to_owned());
    Error::Locked { dir: directory.path().display().to_string(), pid }
}

/// The holder's pid as the kernel gives it.
fn holder(file: &File) -> Option<String> {
    let file = file.metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    lock_holder(&locks, file.dev(), file.ino()).map(|pid| pid.to_string())
}

/// The holder's pid as it wrote it. `None` before it has written it.
fn noted_holder(file: &File) -> Option<String> {
    let mut bytes = [0; PID_BYTES_MAX];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    match std::str::from_utf8(&bytes[..len]).map(str::trim) {
        Ok(pid) if !pid.is_empty() => Some(pid.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};

    fn opened(directory: &tempfile::TempDir) -> Directory {
        Directory::open(directory.path().to_owned()).unwrap()
    }

    fn take_refused(directory: &Directory, kind: ErrorKind) -> Result<DirectoryLock> {
        DirectoryLock::take_with(directory, |_| Err(kind.into()))
    }

    #[test]
    fn who_may_not_write_takes_the_lock_and_leaves_the_file_alone() {
        let place = tempfile::tempdir().unwrap();
        let directory = opened(&place);
        let path = place.path().join(LOCK_NAME);
        std::fs::write(&path, "4711").unwrap();
        for kind in [PermissionDenied, ReadOnlyFilesystem] {
            let lock = take_refused(&directory, kind).unwrap();
            let second = DirectoryLock::take(&directory).unwrap_err();
            assert!(matches!(second, Error::Locked { .. }), "{second}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "4711");
            drop(lock);
        }
        let _lock = DirectoryLock::take(&directory).unwrap();
        let second = take_refused(&directory, ReadOnlyFilesystem).unwrap_err();
        assert!(matches!(second, Error::Locked { .. }), "{second}");
    }

    #[test]
    fn a_lock_that_is_not_there_is_done_without_only_where_nobody_can_write() {
        let place = tempfile::tempdir().unwrap();
        let directory = opened(&place);
        take_refused(&directory, ReadOnlyFilesystem).unwrap();
        for kind in [PermissionDenied, NotFound] {
            let Error::Io { source, .. } = take_refused(&directory, kind).unwrap_err() else {
                panic!("no error of I/O");
            };
            assert_eq!(source.kind(), kind);
        }
    }

    #[test]
    fn a_full_disk_keeps_nobody_from_the_lock() {
        let place = tempfile::tempdir().unwrap();
        let directory = opened(&place);
        let lock = take_refused(&directory, StorageFull).unwrap();
        let second = DirectoryLock::take(&directory).unwrap_err();
        assert!(matches!(second, Error::Locked { .. }), "{second}");
        drop(lock);
        DirectoryLock::take(&directory).unwrap();
    }

    #[test]
    fn a_file_that_is_replaced_before_it_is_locked_is_not_the_lock() {
        let place = tempfile::tempdir().unwrap();
        let directory = opened(&place);
        let replaced = std::cell::Cell::new(0);
        let lock = DirectoryLock::take_with(&directory, |directory| {
            let file = directory.create_file(LOCK_NAME, OFlags::RDWR)?;
            if replaced.replace(replaced.get() + 1) < 2 {
                directory.remove(LOCK_NAME)?;
            }
            Ok(file)
        });
        let lock = lock.unwrap();
        assert_eq!(replaced.get(), 3);
        assert!(directory.is_named(lock.file.as_ref().unwrap(), LOCK_NAME).unwrap());
    }
}
