//! The one writer's lock: a `flock` on a file that says who holds it.
//!
//! The lock belongs to the open file, not to the process, so a second taker inside the same process
//! is refused as well, and the kernel releases it when the holder dies, however it dies. The file
//! stays when the lock is released: removing it would let two takers lock two files of one name.
//!
//! Who may not write can hold it as well: that keeps writers out while the files are looked at, and whoever can
//! write is not told who holds it. Where nobody can write, there may be no file, and there is no lock.

use super::failure;
use crate::name::LOCK_NAME;
use esker_base::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest holder's number that is shown: more than a `u64` has digits.
const PID_BYTES_MAX: usize = 24;

/// A held lock.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    /// `None` where nobody can write.
    file: Option<File>,
}

impl Drop for DirectoryLock {
    /// Closing the file would release the lock only once every copy of it is closed; and a process
    /// that another thread is just starting has one until it runs its program.
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // The next holder may not be able to say who it is: better no name than a wrong one.
            let _ = file.set_len(0);
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

impl DirectoryLock {
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK_NAME);
        let opened =
            File::options().read(true).write(true).create(true).truncate(false).open(&path);
        Self::take_file(directory, &path, opened)
    }

    /// Takes the lock that is the file `path`, which opening it for writing gave.
    fn take_file(directory: &Path, path: &Path, opened: io::Result<File>) -> Result<Self> {
        let (file, can_write) = match opened {
            Ok(file) => (file, true),
            Err(source) => match open_read_only(path, source) {
                Ok(Some(file)) => (file, false),
                Ok(None) => return Ok(DirectoryLock { file: None }),
                Err(source) => return Err(failure("open", path, source)),
            },
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let dir = directory.display().to_string();
                return Err(Error::Locked { dir, pid: holder(&file) });
            }
            Err(source) => return Err(failure("lock", path, source.into())),
        }
        if can_write {
            write_holder(&file).map_err(|source| failure("write to", path, source))?;
        }
        Ok(DirectoryLock { file: Some(file) })
    }
}

/// The file for reading, if it could not be opened for writing because of `refusal`. `None` if it is not there
/// and nobody can make it.
fn open_read_only(path: &Path, refusal: io::Error) -> io::Result<Option<File>> {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
    if !matches!(refusal.kind(), PermissionDenied | ReadOnlyFilesystem) {
        return Err(refusal);
    }
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == NotFound && refusal.kind() == ReadOnlyFilesystem => Ok(None),
        Err(_) => Err(refusal),
    }
}

fn write_holder(file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(std::process::id().to_string().as_bytes(), 0)
}

/// The holder's pid as it wrote it, or `unknown` in the moment before it has.
fn holder(file: &File) -> String {
    let mut bytes = [0; PID_BYTES_MAX];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    match std::str::from_utf8(&bytes[..len]).map(str::trim) {
        Ok(pid) if !pid.is_empty() => pid.to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};

    fn take_refused(directory: &Path, kind: io::ErrorKind) -> Result<DirectoryLock> {
        DirectoryLock::take_file(directory, &directory.join(LOCK_NAME), Err(kind.into()))
    }

    #[test]
    fn who_may_not_write_takes_the_lock_and_leaves_the_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCK_NAME);
        std::fs::write(&path, "4711").unwrap();
        for kind in [PermissionDenied, ReadOnlyFilesystem] {
            let lock = take_refused(directory.path(), kind).unwrap();
            let second = DirectoryLock::take(directory.path()).unwrap_err();
            assert!(matches!(second, Error::Locked { .. }), "{second}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "4711");
            drop(lock);
        }
        let _lock = DirectoryLock::take(directory.path()).unwrap();
        let second = take_refused(directory.path(), ReadOnlyFilesystem).unwrap_err();
        assert!(matches!(second, Error::Locked { .. }), "{second}");
    }

    #[test]
    fn a_lock_that_is_not_there_is_done_without_only_where_nobody_can_write() {
        let directory = tempfile::tempdir().unwrap();
        take_refused(directory.path(), ReadOnlyFilesystem).unwrap();
        for kind in [PermissionDenied, NotFound] {
            let Error::Io { source, .. } = take_refused(directory.path(), kind).unwrap_err() else {
                panic!("no error of I/O");
            };
            assert_eq!(source.kind(), kind);
        }
    }
}
