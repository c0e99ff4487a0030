//! The one writer's lock: a `flock` on a file that says who holds it.
//!
//! The lock belongs to the open file, not to the process, so a second taker inside the same process
//! is refused as well, and the kernel releases it when the holder dies, however it dies. The file
//! stays when the lock is released: removing it would let two takers lock two files of one name.

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
    file: File,
}

impl Drop for DirectoryLock {
    /// Closing the file would release the lock only once every copy of it is closed; and a process
    /// that another thread is just starting has one until it runs its program.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl DirectoryLock {
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK_NAME);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| failure("open", &path, source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let dir = directory.display().to_string();
                return Err(Error::Locked { dir, pid: holder(&file) });
            }
            Err(source) => return Err(failure("lock", &path, source.into())),
        }
        write_holder(&file).map_err(|source| failure("write to", &path, source))?;
        Ok(DirectoryLock { file })
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
