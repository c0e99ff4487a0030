//! Files on a device of blocks, such as a namespace of a storage node: no operating system's file system between.
//!
//! ```text
//!   0        4 KiB         … 3 slots of 1 MiB        4 MiB                                            end
//!   ├────────┼───────────┬───────────┬───────────┬───┼─────────┬─────────┬─────────┬───┬─────────┬─────┤
//!   │ super  │ directory │ directory │ directory │   │ chunk 0 │ chunk 1 │ chunk 2 │ … │chunk n-1│     │
//!   └────────┴───────────┴───────────┴───────────┴───┴─────────┴─────────┴─────────┴───┴─────────┴─────┘
//! ```
//!
//! A file is chunks of 1 MiB; names, lengths and chunks are in the directory, which is written whole
//! at every change (`directory`). Appended bytes gather in memory and are written behind (`writer`, `write_behind`); a
//! log is written in place, a write of it being one write of the device (`log`). Chunks of a removed file are used
//! again once it has no reader any more, and when power loss can't bring its name back (`chunk_allocator`).
//!
//! Nothing is cached: callers that read the same bytes twice keep them. The lock is one of this process: nothing here
//! keeps another host from the device.
//!
//! `docs/formats/blocks.md` has the bytes.

mod chunk_allocator;
mod device;
mod directory;
mod format;
mod inode;
mod log;
mod memory;
mod shared;
mod write_behind;
mod writer;

pub use device::{BLOCK_BYTES, BlockDevice};
pub use memory::MemoryDevice;

use self::shared::BlockFsShared;
use crate::{LogFile, ReadableFile, Storage, WritableFile, copy_file, file_name};
use chunk_allocator::ChunkAllocator;
use directory::Directory;
use esker_base::{Background, Error, Result, WriteHint};
use format::{CHUNK_BYTES, DATA_START};
use inode::{Inode, Reader};
use log::Log;
use parking_lot::{Mutex, MutexGuard};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use write_behind::WriteBehind;
use writer::Writer;

/// Files on a device of blocks.
pub struct BlockStorage {
    core: Arc<BlockFsShared>,
    directory: Arc<Mutex<Directory>>,
    locked: Arc<AtomicBool>,
}

impl BlockStorage {
    /// Opens the files on `device`. One that begins with zeros is laid out first; one that holds something else is
    /// refused. `background` gives the thread that writes behind; without one every append writes for itself.
    pub fn open(device: Arc<dyn BlockDevice>, background: &dyn Background) -> Result<Self> {
        let chunks = device.bytes().saturating_sub(DATA_START) / CHUNK_BYTES;
        if chunks == 0 {
            let what = io::Error::new(ErrorKind::InvalidInput, "it is smaller than 5 MiB");
            return Err(Error::io("format", device.describe(), what));
        }
        let space = ChunkAllocator::new(u32::try_from(chunks).unwrap_or(u32::MAX));
        let core = Arc::new(BlockFsShared::new(device, WriteBehind::start(background)?, space));
        let directory = match Directory::open(&core) {
            Ok(directory) => Arc::new(Mutex::new(directory)),
            Err(error) => {
                core.behind.close();
                return Err(error);
            }
        };
        Ok(BlockStorage { core, directory, locked: Arc::default() })
    }

    /// The directory, in which `name` is free.
    fn free(&self, action: &'static str, name: &str) -> Result<MutexGuard<'_, Directory>> {
        file_name::check(name)?;
        let directory = self.directory.lock();
        match directory.names().contains_key(name) {
            true => Err(self.failure(action, name, ErrorKind::AlreadyExists)),
            false => Ok(directory),
        }
    }

    fn find(&self, action: &'static str, name: &str) -> Result<Arc<Inode>> {
        file_name::check(name)?;
        self.find_in(&self.directory.lock(), action, name)
    }

    fn find_in(
        &self,
        directory: &Directory,
        action: &'static str,
        name: &str,
    ) -> Result<Arc<Inode>> {
        let found = directory.names().get(name).cloned();
        found.ok_or_else(|| self.failure(action, name, ErrorKind::NotFound))
    }

    fn failure(&self, action: &'static str, name: &str, kind: ErrorKind) -> Error {
        Error::io(action, format!("{}/{name}", self.describe()), io::Error::from(kind))
    }
}

impl Storage for BlockStorage {
    fn describe(&self) -> String {
        self.core.device.describe()
    }

    fn create(&self, name: &str, _hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let body = Inode::new(self.core.clone(), Vec::new(), 0);
        self.free("create", name)?.add(name, &body)?;
        Ok(Box::new(Writer::new(self.directory.clone(), body)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let body = self.find("open", name)?;
        Ok(Arc::new(Reader { body, name: name.to_owned() }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        drop(self.free("create", name)?);
        let body = Inode::new(self.core.clone(), Vec::new(), bytes);
        // Given back when it is dropped without a name.
        body.remove_by(1);
        body.reserve(bytes)?;
        body.write_zeroes(bytes.next_multiple_of(BLOCK_BYTES))?;
        body.flush()?;
        self.free("create", name)?.add(name, &body)?;
        Ok(Log::new(body, name))
    }

    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        file_name::check(old)?;
        let mut directory = self.free("recycle a log as", new)?;
        let body = self.find_in(&directory, "open", old)?;
        // What was written to the old log late would go over the new one.
        if body.written() != bytes || body.is_doubtful() {
            return Ok(None);
        }
        directory.change(|names| {
            names.remove(old);
            names.insert(new.to_owned(), body.clone())
        })?;
        Ok(Some(Log::new(body, new)))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        Ok(Log::new(self.find("open", name)?, name))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.directory.lock().names().keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        file_name::check(name)?;
        Ok(self.directory.lock().names().contains_key(name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        file_name::check(name)?;
        let mut directory = self.directory.lock();
        self.find_in(&directory, "remove", name)?;
        directory.change(|names| names.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        file_name::check(to)?;
        let mut directory = self.directory.lock();
        let body = self.find_in(&directory, "rename", from)?;
        directory.change(|names| {
            names.remove(from);
            names.insert(to.to_owned(), body)
        })
    }

    fn sync_names(&self) -> Result<()> {
        self.directory.lock().flush()
    }

    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        copy_file::copy_durably(self, name, target)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        if self.locked.swap(true, Ordering::Acquire) {
            let pid = std::process::id().to_string();
            return Err(Error::Locked { dir: self.describe(), pid });
        }
        Ok(Box::new(Lock(self.locked.clone())))
    }
}

impl Drop for BlockStorage {
    fn drop(&mut self) {
        self.core.behind.close();
    }
}

struct Lock(Arc<AtomicBool>);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
