//! [`Storage`] over a simulated disk.

use super::FaultStorage;
use super::disk::Disk;
use super::file::SECTOR_BYTES;
use super::handle::{FaultLock, FaultWriter, Handle, failure};
use super::names::FileId;
use super::plan::CallOutcome;
use crate::{LogFile, ReadableFile, Storage, WritableFile, copy_file, file_name};
use esker_base::{Error, Result, WriteHint};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

impl FaultStorage {
    /// Runs one mutating call: its fate, its effect if it has one, its outcome.
    fn call<T>(
        &self,
        action: &'static str,
        name: &str,
        effect: impl FnOnce(&mut Disk, CallOutcome) -> io::Result<T>,
    ) -> Result<T> {
        let mut disk = self.disk();
        let call = || {
            let fate = disk.next_call(self.process)?;
            if !fate.is_applied() {
                fate.outcome()?;
            }
            let done = effect(&mut disk, fate)?;
            fate.outcome().map(|()| done)
        };
        call().map_err(|source| failure(action, name, source))
    }

    fn look<T>(
        &self,
        action: &'static str,
        name: &str,
        look: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> Result<T> {
        let mut disk = self.disk();
        let alive = disk.check_alive(self.process);
        alive.and_then(|()| look(&mut disk)).map_err(|source| failure(action, name, source))
    }

    fn new_file(
        &self,
        name: &str,
        create: impl FnOnce(&mut Disk, CallOutcome) -> io::Result<FileId>,
    ) -> Result<Handle> {
        file_name::check(name)?;
        let file = self.call("create", name, |disk, fate| {
            let file = create(disk, fate)?;
            disk.hold(file);
            Ok(file)
        })?;
        Ok(Handle::adopt(self, file, name))
    }

    fn existing_file(&self, name: &str) -> Result<Handle> {
        file_name::check(name)?;
        let file = self.look("open", name, |disk| {
            let file = disk.find(name)?;
            disk.hold(file);
            Ok(file)
        })?;
        Ok(Handle::adopt(self, file, name))
    }

    fn recycle(&self, old: &str, new: &str, bytes: u64) -> Result<Option<FileId>> {
        self.call("recycle a log as", new, |disk, _| {
            let file = disk.find(old)?;
            if disk.file(file).len() != bytes {
                return Ok(None);
            }
            if disk.find(new).is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            if disk.file(file).prepared() < bytes {
                return Err(io::Error::new(ErrorKind::InvalidInput, "the log has holes"));
            }
            disk.rename(old, new)?;
            disk.hold(file);
            Ok(Some(file))
        })
    }
}

impl Storage for FaultStorage {
    fn describe(&self) -> String {
        "fault".to_owned()
    }

    fn create(&self, name: &str, _hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let file = self.new_file(name, |disk, fate| disk.create(name, 0, fate))?;
        Ok(Box::new(FaultWriter::new(file)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(self.existing_file(name)?))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        Ok(Arc::new(self.existing_file(name)?))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        Ok(Arc::new(self.new_file(name, |disk, fate| disk.create(name, bytes, fate))?))
    }

    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        let create = |disk: &mut Disk, fate| disk.create_in_steps(name, bytes, prepared, fate);
        Ok(Arc::new(self.new_file(name, create)?))
    }

    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        file_name::check(new)?;
        let file = self.recycle(old, new, bytes)?;
        Ok(file.map(|file| Arc::new(Handle::adopt(self, file, new)) as Arc<dyn LogFile>))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.look("list", "", |disk| Ok(disk.list()))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        file_name::check(name)?;
        self.look("look for", name, |disk| Ok(disk.find(name).is_ok()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        file_name::check(name)?;
        self.call("remove", name, |disk, _| disk.remove(name))
    }

    fn free_part(&self, name: &str, part: Range<u64>) -> u64 {
        self.call("free a part of", name, |disk, _| disk.free_part(name, part)).unwrap_or(0)
    }

    fn freed_block_bytes(&self) -> Option<u64> {
        Some(SECTOR_BYTES)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        file_name::check(to)?;
        self.call("rename", from, |disk, _| disk.rename(from, to))
    }

    fn sync_names(&self) -> Result<()> {
        let mut disk = self.disk();
        let fate = disk.next_call(self.process);
        fate.and_then(|fate| disk.sync_names(fate))
            .map_err(|source| failure("sync the names of", "", source))
    }

    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        copy_file::copy_durably(self, name, target)
    }

    fn is_settled(&self, name: &str) -> bool {
        let settled = self.look("inspect", name, |disk| Ok(disk.is_settled(disk.find(name)?)));
        settled.unwrap_or(true)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        if self.look("lock", "", |disk| Ok(disk.lock()))? {
            return Ok(Box::new(FaultLock(self.clone())));
        }
        Err(Error::Locked { dir: self.describe(), pid: std::process::id().to_string() })
    }
}
