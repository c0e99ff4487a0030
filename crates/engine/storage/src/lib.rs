//! Where bytes are kept: named files that grow by appending, and log files of a fixed size.
//!
//! The engine above sees only [`Storage`]. Three of them live here: [`posix`], a directory of the
//! operating system; [`memory`], for tests and scratch stores; and [`fault`], which wraps neither
//! but is a memory storage that can lose power, tear what was not synced, and fail any call. A fourth,
//! [`blocks`], keeps files on a device of blocks without the help of an operating system.
//! [`emulated_log_device`] wraps any of them and has the syncs of logs take as long as on a device
//! of its choice. It is a [`FileSystemWrapper`], like anything that is in front of another
//! storage.
//!
//! Durability is explicit, and there are three promises:
//!
//! * Appended bytes survive anything, the death of the process included, only after
//!   [`WritableFile::sync`]: a writer gathers them, so that many small appends are one call.
//! * Bytes written into a log survive the process at once and power loss after [`LogFile::sync`].
//! * A name (created, renamed or removed) survives the process at once and power loss after
//!   [`Storage::sync_names`]. Until then each change may be found done or undone, in any
//!   combination that some order of them allows.
//!
//! A failed write or sync ends a file's use: what the device holds of it since its last good sync
//! is unknown, and a later sync that succeeds proves nothing. Write the bytes into a new file.

#![forbid(unsafe_code)]

pub mod blocks;
mod copy_file;
pub mod emulated_log_device;
mod encryption;
pub mod fault;
mod file_cache;
mod file_name;
pub mod memory;
pub mod posix;
mod wide_reader;
mod wrapper;

pub use blocks::BlockStorage;
pub use emulated_log_device::{Device, DeviceStorage};
pub use encryption::{ENCRYPTED_MAGIC, Encrypt, Encryption, encrypted_as};
pub use fault::FaultStorage;
pub use file_cache::{FileCache, FileCacheStorage};
pub use memory::MemoryStorage;
pub use posix::PosixStorage;
pub use wide_reader::{PendingRead, ReadBytes, ReadPath, ReadRequest, WideReader};
pub use wrapper::FileSystemWrapper;
pub use {copy_file::copy_durably, file_name::check as check_name};

use esker_base::{Result, WriteHint};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A flat set of named files.
///
/// Names are plain: no separators, not empty, not `.` or `..`, and not `LOCK`, which is the lock's.
/// Errors say the action and the path or name; they are [`esker_base::Error::Io`] unless a method
/// says otherwise.
pub trait Storage: Send + Sync + 'static {
    /// What to call this storage in messages: a path, or `memory`.
    fn describe(&self) -> String;

    /// What to call the file `name` of it in messages.
    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.describe())
    }

    /// Creates a file to append to. Fails if the name is taken.
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>>;

    /// Opens a finished, or still growing, file for reading. Of a growing file, at least what was
    /// synced is seen.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>>;

    /// Opens a finished file for a reader that caches what it reads of it, and reads ahead itself. A
    /// storage may then do without a cache of its own, and reads nothing that is not asked for.
    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.open(name)
    }

    /// Creates a log file of exactly `bytes` bytes, all allocated and written as zeros, so that later
    /// writes inside it need no space and no change of metadata. Fails if the name is taken.
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>>;

    /// Creates a log file of exactly `bytes` bytes that read as zeros, of which the first `prepared` are
    /// prepared. [`LogFile::prepare`] prepares the rest, before it is written to. The length and the zeros
    /// survive power loss after [`LogFile::sync`]. A storage that does not allocate in steps prepares all
    /// of it here. Fails if the name is taken.
    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        _prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        self.create_log(name, bytes)
    }

    /// Whether it is worth keeping a log file that is no longer needed, to [recycle](Storage::recycle_log) it. Where it
    /// is not, one that is kept takes space for nothing.
    fn recycles_logs(&self) -> bool {
        true
    }

    /// Gives a log file of `bytes` bytes that is no longer needed a new name, so that its blocks are
    /// written again. Its content stays. All of it must be allocated: a file that was prepared in part, or
    /// gave space back, must not be used again. Fails if the new name is taken. Returns `Ok(None)` if this
    /// storage cannot, or the size differs: then create a new one and remove the old.
    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>>;

    /// Opens a log file that exists, to go on with it or to sync what a dead process wrote to it.
    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>>;

    /// All names, in no order.
    fn list(&self) -> Result<Vec<String>>;

    /// Whether a file of this name exists.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Removes a file. Open handles keep reading it.
    fn remove(&self, name: &str) -> Result<()>;

    /// Frees what the bytes `part` of the finished file `name` take, in whole blocks. Nothing reads them
    /// any more. They then read as zeros, or as before. Returns how many bytes are free: none if the
    /// storage never frees a part, or if something else may read the file, under another name or in
    /// another process. The caller may try again.
    fn free_part(&self, _name: &str, _part: Range<u64>) -> u64 {
        0
    }

    /// The bytes of a block that [`Storage::free_part`] frees, as far as the storage knows. `None` if it never frees any.
    fn freed_block_bytes(&self) -> Option<u64> {
        None
    }

    /// Renames a file, replacing `to` if it exists, atomically.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Makes all earlier creations, renames and removals survive power loss.
    fn sync_names(&self) -> Result<()>;

    /// Gives `target` the finished and synced file `name` under the same name, sharing its bytes if
    /// possible and copying them durably otherwise. Fails if the name is taken there. The new name
    /// survives power loss after `target.sync_names()`.
    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()>;

    /// The open directory behind this storage, if there is one. It has no path here: a path may name
    /// another directory by now.
    fn directory(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether something else is where this storage was opened, such as another directory at its path.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Opens what is where this storage was opened, if this [is something else](Storage::is_replaced) by now.
    /// `None` if it is not, or if this storage cannot open it.
    fn reopened(&self) -> Result<Option<Arc<dyn Storage>>> {
        Ok(None)
    }

    /// The encryption of the files, if they are encrypted.
    fn encryption(&self) -> Option<Encryption> {
        None
    }

    /// The storage with the encrypted bytes of the files, if they are encrypted.
    fn encrypted(&self) -> Option<&dyn Storage> {
        None
    }

    /// Whether the file `name` is encrypted with another key than a new file would be.
    fn has_old_key(&self, _name: &str) -> Result<bool> {
        Ok(false)
    }

    /// Whether reads wait for writes now, as far as the storage knows: then work that can wait should
    /// write a little later.
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether the finished file `name` is where reads of it wait for no writes, as far as the storage knows. Any caller that
    /// can go on reading something else may wait for that, but not permanently; it is also true when there is no space for
    /// both.
    fn is_settled(&self, _name: &str) -> bool {
        true
    }

    /// Takes the one writer's lock, held until the value is dropped. Fails with
    /// [`esker_base::Error::Locked`], which names the holder, also if the holder is this process.
    /// The death of the holder releases the lock.
    fn lock(&self) -> Result<Box<dyn Send + Sync>>;
}

/// A file that is being written, once, from front to back.
///
/// Dropped without a last [`sync`](WritableFile::sync), it may miss its tail.
pub trait WritableFile: Send {
    /// Appends `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// The bytes appended so far.
    fn len(&self) -> u64;
    /// Whether nothing was appended yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Makes everything appended so far survive power loss.
    fn sync(&mut self) -> Result<()>;
    /// Asks the system to start writing back what was appended, without waiting, so that a later
    /// sync is short and dirty pages never pile up. A writer does this by itself every so often.
    fn start_writeback(&mut self) -> Result<()> {
        Ok(())
    }
    /// Makes everything appended so far readable by who opens the file. It may survive power loss or not.
    fn publish(&mut self) -> Result<()> {
        self.sync()
    }
}

/// A file that is read at any place.
pub trait ReadableFile: Send + Sync {
    /// Fills `out` from `offset`. Fewer bytes there than asked for is [`esker_base::Error::Corruption`].
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;
    /// The file's length in bytes.
    fn len(&self) -> Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// The file's name, for messages.
    fn name(&self) -> &str;
    /// Says that `[offset, offset + bytes)` will be read soon.
    fn read_ahead(&self, _offset: u64, _bytes: u64) {}
    /// Fills `out` from `offset` if that takes no wait for a device. False: `out` has any bytes.
    fn read_cached_at(&self, _offset: u64, _out: &mut [u8]) -> bool {
        false
    }
    /// The file as the system knows it, for a [`WideReader`]. `None`: only calls of this trait read it.
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    fn raw(&self) -> Option<RawFile> {
        None
    }
}

/// An open file of the system, which stays open as long as this.
#[cfg(target_os = "linux")]
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct RawFile {
    /// The open file.
    pub descriptor: esker_uring::Descriptor,
    /// What offsets and lengths of reads are multiples of: a power of two.
    pub alignment: u64,
}

/// How [`LogFile::prepare`] makes space ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Allocated, written with zeros and synced: later writes and syncs are short.
    AheadOfSyncs,
    /// Allocated and written with zeros: later writes are short. For a log that is not synced write by write.
    AheadOfWrites,
    /// Allocated only, because a writer waits: later syncs write metadata, too.
    Hurried,
}

/// A log file: of fixed size, written in place in order of offset, several times over its life.
pub trait LogFile: Send + Sync {
    /// Allocates the bytes below `through` that are not [prepared](Storage::create_log_in_steps) yet, so that
    /// writes to them need no space. On success they are as durable as `pace` says. After an
    /// error the log takes no more space than before. Only one thread prepares a log at a time; another may
    /// write to what was prepared before.
    fn prepare(&self, _through: u64, _pace: Pace) -> Result<()> {
        Ok(())
    }
    /// Frees the space of the bytes from `from` on, where nothing was written in this use of the log, as far
    /// as it is prepared. They then read as zeros or as before, and must be prepared again before they are
    /// written to. Returns false if the storage never does that, and then they stay prepared. It counts as
    /// preparing: only one thread does either at a time.
    fn give_back(&self, _from: u64) -> bool {
        false
    }
    /// Writes `bytes` at `offset`. Outside the file's size, or of what is prepared, it fails and writes
    /// nothing. One call at a time.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Makes every earlier write survive power loss. After a failure, what is on the device is
    /// unknown, and trying again proves nothing.
    fn sync(&self) -> Result<()>;
    /// The file's name.
    fn name(&self) -> &str;
}
