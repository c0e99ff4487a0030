//! What a process holds open on a simulated disk.

use super::FaultStorage;
use super::names::FileId;
use crate::memory::copy_out;
use crate::{LogFile, Pace, ReadableFile, WritableFile};
use esker_base::{Error, Result};
use std::io;

/// One open file. It keeps the file, even without a name, until it is dropped.
#[derive(Debug)]
pub(super) struct Handle {
    storage: FaultStorage,
    file: FileId,
    name: String,
}

impl Handle {
    /// Takes over one hold on `file`. The disk must not be locked while a handle is dropped.
    pub(super) fn adopt(storage: &FaultStorage, file: FileId, name: &str) -> Self {
        Handle { storage: storage.clone(), file, name: name.to_owned() }
    }

    fn failure(&self, action: &'static str, source: io::Error) -> Error {
        failure(action, &self.name, source)
    }

    fn sync_file(&self) -> Result<()> {
        let mut disk = self.storage.disk();
        let fate = disk.next_call(self.storage.process);
        fate.and_then(|fate| disk.sync(self.file, fate))
            .map_err(|source| self.failure("sync", source))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.storage.disk().release(self.storage.process, self.file);
    }
}

impl ReadableFile for Handle {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut disk = self.storage.disk();
        disk.next_read(self.storage.process).map_err(|source| {
            Error::io("read", format!("fault/{} at offset {offset}", self.name), source)
        })?;
        copy_out(disk.file(self.file).bytes(), &self.name, offset, out)
    }

    fn len(&self) -> Result<u64> {
        let disk = self.storage.disk();
        match disk.check_alive(self.storage.process) {
            Ok(()) => Ok(disk.file(self.file).len()),
            Err(source) => Err(self.failure("measure", source)),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl LogFile for Handle {
    fn prepare(&self, through: u64, _pace: Pace) -> Result<()> {
        let mut disk = self.storage.disk();
        let fate = disk.next_call(self.storage.process);
        fate.and_then(|fate| disk.prepare(self.file, through, fate))
            .map_err(|source| self.failure("allocate", source))
    }

    fn give_back(&self, from: u64) -> bool {
        let mut disk = self.storage.disk();
        // A call that fails may have freed a part, so nothing depends on its outcome.
        if let Ok(fate) = disk.next_call(self.storage.process)
            && fate.outcome().is_ok()
        {
            disk.give_back(self.file, from);
        }
        true
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut disk = self.storage.disk();
        let fate = disk.next_call(self.storage.process);
        fate.and_then(|fate| disk.overwrite(self.file, offset, bytes, fate))
            .map_err(|source| self.failure("write to", source))
    }

    fn sync(&self) -> Result<()> {
        self.sync_file()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// A file that is appended to. After a failed append it takes no more; after a failed sync it does,
/// so that a caller who tries again is found out.
#[derive(Debug)]
pub(super) struct FaultWriter {
    handle: Handle,
    len: u64,
    failed: Option<Error>,
}

impl FaultWriter {
    pub(super) fn new(handle: Handle) -> Self {
        FaultWriter { handle, len: 0, failed: None }
    }

    fn append_to_disk(&self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.handle.storage.disk();
        let fate = disk.next_call(self.handle.storage.process)?;
        disk.append(self.handle.file, bytes, fate)
    }
}

impl WritableFile for FaultWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if let Err(source) = self.append_to_disk(bytes) {
            let error = self.handle.failure("append to", source);
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.handle.sync_file(),
        }
    }
}

/// The lock, while its process lives.
#[derive(Debug)]
pub(super) struct FaultLock(pub(super) FaultStorage);

impl Drop for FaultLock {
    fn drop(&mut self) {
        self.0.disk().unlock(self.0.process);
    }
}

pub(super) fn failure(action: &'static str, name: &str, source: io::Error) -> Error {
    Error::io(action, format!("fault/{name}"), source)
}
