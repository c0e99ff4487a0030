//! A storage that is in front of another one and changes some of what it does.

use crate::{Encryption, LogFile, ReadableFile, Storage, WritableFile};
use esker_base::{Result, WriteHint};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What becomes a [`Storage`] by saying only what it does differently from the one below it.
#[expect(missing_docs, reason = "each does what Storage says of the same name")]
pub trait FileSystemWrapper: Send + Sync + 'static {
    /// The storage that does the rest.
    fn below(&self) -> &dyn Storage;

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        self.below().create(name, hint)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.below().open(name)
    }
    /// As [`FileSystemWrapper::open`], unless a wrapper that changes no reads hands it on.
    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.open(name)
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        self.below().create_log(name, bytes)
    }
    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        self.below().create_log_in_steps(name, bytes, prepared)
    }
    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        self.below().recycle_log(old, new, bytes)
    }
    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        self.below().open_log(name)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.below().remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.below().rename(from, to)
    }
    fn free_part(&self, name: &str, part: Range<u64>) -> u64 {
        self.below().free_part(name, part)
    }
    fn is_busy(&self) -> bool {
        self.below().is_busy()
    }
    fn is_settled(&self, name: &str) -> bool {
        self.below().is_settled(name)
    }
}

impl<L: FileSystemWrapper> Storage for L {
    fn describe(&self) -> String {
        self.below().describe()
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        FileSystemWrapper::create(self, name, hint)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        FileSystemWrapper::open(self, name)
    }
    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        FileSystemWrapper::open_for_caching(self, name)
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        FileSystemWrapper::create_log(self, name, bytes)
    }
    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        FileSystemWrapper::create_log_in_steps(self, name, bytes, prepared)
    }
    fn recycles_logs(&self) -> bool {
        self.below().recycles_logs()
    }
    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        FileSystemWrapper::recycle_log(self, old, new, bytes)
    }
    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        FileSystemWrapper::open_log(self, name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.below().list()
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.below().exists(name)
    }
    fn remove(&self, name: &str) -> Result<()> {
        FileSystemWrapper::remove(self, name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        FileSystemWrapper::rename(self, from, to)
    }
    fn free_part(&self, name: &str, part: Range<u64>) -> u64 {
        FileSystemWrapper::free_part(self, name, part)
    }
    fn freed_block_bytes(&self) -> Option<u64> {
        self.below().freed_block_bytes()
    }
    fn sync_names(&self) -> Result<()> {
        self.below().sync_names()
    }
    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        self.below().link_to(name, target)
    }
    fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.below().directory()
    }
    fn is_replaced(&self) -> bool {
        self.below().is_replaced()
    }
    fn encryption(&self) -> Option<Encryption> {
        self.below().encryption()
    }
    fn encrypted(&self) -> Option<&dyn Storage> {
        self.below().encrypted()
    }
    fn has_old_key(&self, name: &str) -> Result<bool> {
        self.below().has_old_key(name)
    }
    fn is_busy(&self) -> bool {
        FileSystemWrapper::is_busy(self)
    }
    fn is_settled(&self, name: &str) -> bool {
        FileSystemWrapper::is_settled(self, name)
    }
    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.below().lock()
    }
}
