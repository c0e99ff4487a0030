//! The device, as the creation, the open and the check of a store use it: one call at a time.

use crate::format::superblock::PAGE_BYTES;
use crate::lock_owner::holder;
use esker_base::{Error, Result};
use esker_pmem::OwnerProcess;
use esker_uring::{Buffer, Descriptor};
use rustix::fs::{FileType, FlockOperation, flock, fstat};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What holds a store. Offsets and lengths are whole blocks.
pub trait Device {
    /// What to call it in messages.
    fn name(&self) -> &str;
    /// Its size in bytes.
    fn bytes(&self) -> u64;
    /// What it writes in one piece: 512 or 4096 bytes.
    fn block_bytes(&self) -> u32;
    /// Fills `out`.
    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()>;
    /// Writes `bytes`.
    fn write_at(&self, offset: u64, bytes: &Buffer) -> io::Result<()>;
    /// Makes what was written survive power loss.
    fn sync(&self) -> io::Result<()>;
}

/// Reads `bytes` at `offset`.
pub(crate) fn read(device: &dyn Device, offset: u64, bytes: usize) -> Result<Buffer> {
    let mut out = Buffer::zeroed(bytes);
    let failed =
        |source| Error::io("read", format!("{} at offset {offset}", device.name()), source);
    device.read_at(offset, &mut out).map_err(failed)?;
    Ok(out)
}

pub(crate) fn write(device: &dyn Device, offset: u64, bytes: &[u8]) -> Result<()> {
    let written = device.write_at(offset, &Buffer::from_slice(bytes));
    written.map_err(|source| Error::io("write to", device.name(), source))
}

pub(crate) fn sync(device: &dyn Device) -> Result<()> {
    device.sync().map_err(|source| Error::io("sync", device.name(), source))
}

/// A file or a block device, past the page cache if the file system allows. Locked while it is open.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    name: String,
    bytes: u64,
    block_bytes: u32,
    is_direct: bool,
    /// Has the lock.
    process: OwnerProcess,
}

/// How a new file is filled, and how much of it at a time.
const FILL_BYTES: usize = 1 << 20;

impl FileDevice {
    /// Opens what is there.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let (file, is_direct) =
            open(path, false).map_err(|source| Error::io("open", &name, source))?;
        Self::of(file, is_direct, name)
    }

    /// Makes a file of `bytes` zeros, rounded down to whole pages, all of them written, so that later writes change no metadata. If `path` is a
    /// block device, it is opened as it is, and `bytes` may be left out.
    pub fn create(path: &Path, bytes: Option<u64>) -> Result<Self> {
        Self::create_with(path, bytes, |_| Ok(())).map(|(device, ())| device)
    }

    /// The same, with something put there, and synced, by `content` before the file has its name: who finds the file finds that in it.
    /// If `content` fails there is no file; a block device has what was written.
    pub fn create_with<T, E: From<Error>>(
        path: &Path,
        bytes: Option<u64>,
        content: impl FnOnce(&Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<(Self, T), E> {
        let name = path.display().to_string();
        if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
            let device = Self::open(path)?;
            return content(&device).map(|content| (device, content));
        }
        let Some(bytes) = bytes else {
            let (value, reason) = ("none".to_owned(), "a file needs a size".to_owned());
            return Err(Error::InvalidSetting { setting: "size", value, reason }.into());
        };
        let create_failed = |source| Error::io("create", &name, source);
        if path.try_exists().map_err(create_failed)? {
            return Err(create_failed(io::ErrorKind::AlreadyExists.into()).into());
        }
        // It gets its name once it is whole: a process that dies meanwhile leaves nothing to be served.
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let (file, is_direct) = open_partial(&partial, &name)?;
        let filled = filled(&file, bytes).map_err(|source| Error::io("fill", &name, source));
        // It keeps the lock until the other name is gone, whatever fails.
        let device = Self::of(file, is_direct, name.clone());
        let whole = filled.and(device.as_ref().map_err(Error::clone)).map_err(E::from);
        let named = whole.and_then(content).and_then(|content| {
            std::fs::hard_link(&partial, path).map_err(create_failed)?;
            Ok(content)
        });
        // The first failure says more than that of the clean-up.
        let _ = std::fs::remove_file(&partial);
        let content = named?;
        sync_directory_of(path).map_err(create_failed)?;
        Ok((device?, content))
    }

    fn of(file: File, is_direct: bool, name: String) -> Result<Self> {
        let failure = |source| Error::io("open", &name, source);
        lock(&file, &name)?;
        let bytes = io::Seek::seek(&mut &file, io::SeekFrom::End(0)).map_err(failure)?;
        // What reads in units of 512 bytes writes in them.
        let mut sector = Buffer::zeroed(512);
        let is_fine = bytes < 4096 || file.read_exact_at(&mut sector, 512).is_ok();
        let block_bytes = if is_fine { 512 } else { 4096 };
        let process = OwnerProcess::current();
        Ok(FileDevice { file, name, bytes, block_bytes, is_direct, process })
    }

    /// Fails in a forked child of the process that opened it.
    pub(crate) fn check_process(&self) -> Result<()> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(Error::Forked { what: self.name.clone() }),
        }
    }

    /// The same, opened again, for a reactor: each is notified of what was lost by itself.
    pub fn descriptor(&self) -> Result<Descriptor> {
        let file = self.file.try_clone().and_then(|file| Descriptor::from(file).reopen());
        file.map_err(|source| Error::io("open", &self.name, source))
    }

    /// Gives a file that was shortened its length back, with zeros for what is lost.
    ///
    /// # Errors
    ///
    /// Fails for a block device that is too short, and if the file system has no space.
    pub fn lengthen(&mut self, bytes: u64) -> Result<()> {
        let failure = |source| Error::io("lengthen", &self.name, source);
        let kind = self.file.metadata().map_err(failure)?.file_type();
        if !kind.is_file() && self.bytes < bytes {
            let what = "a block device cannot be made longer; copy what it holds to a larger one";
            return Err(failure(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        if self.bytes < bytes {
            // The system fills a page that was cut off with zeros.
            let from = self.bytes.next_multiple_of(PAGE_BYTES);
            self.file.set_len(from).map_err(failure)?;
            self.bytes = from;
        }
        let zeros = Buffer::zeroed(FILL_BYTES);
        while self.bytes < bytes {
            let part = (bytes - self.bytes).next_multiple_of(PAGE_BYTES).min(FILL_BYTES as u64);
            self.file.write_all_at(&zeros[..part as usize], self.bytes).map_err(failure)?;
            self.bytes += part;
        }
        self.file.sync_all().map_err(failure)
    }

    /// Whether it is read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }
}

fn open(path: &Path, create: bool) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.read(true).write(true).create(create);
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    match options.clone().custom_flags(O_DIRECT).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            // The file system has no direct I/O. It may have made the file before it said so.
            Ok((options.open(path)?, false))
        }
        opened => Ok((opened?, true)),
    }
}

/// Opens the file that a new one is made as. It is locked before it is touched: what another process fills, or has filled and serves, is
/// left alone. `name` is that of the new file.
fn open_partial(partial: &Path, name: &str) -> Result<(File, bool)> {
    let create_failed = |source| Error::io("create", name, source);
    let (file, is_direct) = open(partial, true).map_err(create_failed)?;
    lock(&file, name)?;
    if !is_only_name(&file, partial).map_err(create_failed)? {
        let partial = partial.display().to_string();
        return Err(Error::io("create", partial, io::ErrorKind::AlreadyExists.into()));
    }
    Ok((file, is_direct))
}

/// Locks a file until it is closed, for this process alone.
fn lock(file: &File, name: &str) -> Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => Error::Locked { dir: name.to_owned(), pid: holder(file) },
        error => Error::io("lock", name, error.into()),
    })
}

/// Fails if the open `file` of a store, which needs `bytes`, was removed or shortened since: what was acknowledged is lost
/// then, or cannot be found again. Block devices pass.
pub fn check_kept(file: impl AsFd, bytes: u64) -> io::Result<()> {
    let found = fstat(file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    if found.st_nlink == 0 {
        let what = "the file was removed while in use; copy what can be read";
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    let left = found.st_size as u64;
    if left < bytes {
        let what = format!(
            "the file was shortened while in use, from {bytes} to {left} bytes; close the store and run `esker hash \
             repair`"
        );
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
    }
    Ok(())
}

/// Whether `path` names `file`, and nothing else does: it may have got its name, or lost this one, before it was locked.
fn is_only_name(file: &File, path: &Path) -> io::Result<bool> {
    let locked = file.metadata()?;
    Ok(match std::fs::metadata(path) {
        Ok(named) => (named.dev(), named.ino(), named.nlink()) == (locked.dev(), locked.ino(), 1),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    })
}

/// Has the name of `path` survive power loss.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes a file of so many zeros, in whole pages, that survives power loss.
fn filled(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(0)?;
    let (bytes, zeros) = (bytes / PAGE_BYTES * PAGE_BYTES, Buffer::zeroed(FILL_BYTES));
    let mut at = 0;
    while at < bytes {
        let part = (bytes - at).min(FILL_BYTES as u64) as usize;
        file.write_all_at(&zeros[..part], at)?;
        at += part as u64;
    }
    file.sync_all()
}

impl Drop for FileDevice {
    /// Copies of the descriptor would keep the lock. A forked child has such a copy, and leaves the lock.
    fn drop(&mut self) {
        if self.process.is_current() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl Device for FileDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &Buffer) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        check_kept(&self.file, self.bytes)
    }
}
