//! A file, mapped: on a DAX file system persistent memory, on tmpfs its emulation.

use crate::domain::{Accept, Domain};
use crate::persist::{Persist, REACHES_MEDIUM};
use crate::pool::RESTORE;
use crate::process::OwnerProcess;
use crate::region::{FRAME_HEADER_BYTES, Region};
use esker_base::lock_holder::lock_holder;
use esker_base::{Error, Result};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatfs, fstatvfs};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

mod detect;

/// What a mapping is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Write,
    Read,
}

/// A mapped file, locked by its one writer.
pub struct MappedRegion {
    base: *mut u8,
    len: usize,
    domain: Domain,
    persist: Persist,
    writable: bool,
    /// Holds the lock; the mapping needs it no more.
    _file: File,
    owner: OwnerProcess,
}

// SAFETY: the mapping is plain memory, which is unmapped only by `drop`.
unsafe impl Send for MappedRegion {}
// SAFETY: as above; stores go through the trait's methods, whose callers keep them apart.
unsafe impl Sync for MappedRegion {}

/// The longest holder's number that is read.
const PID_BYTES_MAX: usize = 24;

/// The smallest page of any processor: what pages are multiples of.
const PAGE_BYTES: usize = 4096;

fn failure(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
    Error::io(action, path.display().to_string(), source.into())
}

/// Refuses what is there and no file: to open a named pipe is to wait for its writer.
fn expect_file(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(Error::PoolRefused {
            pool: path.display().to_string(),
            reason: "it is no regular file; `esker pmem create` makes a pool".to_owned(),
        }),
        // Opening it says what is wrong, if anything is.
        _ => Ok(()),
    }
}

impl MappedRegion {
    /// Creates the file with all its blocks and maps it, zeroed and locked. Refuses an existing
    /// file, and removes the new one again if it can't be used.
    pub fn create(path: &Path, bytes: u64, accept: Accept) -> Result<MappedRegion> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|source| failure("create", path, source))?;
        let created = lock(&file, path).and_then(|()| {
            // Mapped first: what is no persistent memory is refused before its blocks are taken.
            file.set_len(bytes).map_err(|source| failure("enlarge", path, source))?;
            let region = Self::map(file, path, accept, Use::Write)?;
            let room =
                fstatvfs(&region._file).map_err(|source| failure("ask about", path, source))?;
            if region.domain == Domain::Emulated && bytes <= room.f_bavail * room.f_frsize {
                // By the mapping: persistent memory is there from the start, and in large pages where the
                // system has them. It has not asked for room first, as the allocation does, which fails
                // before it takes any.
                let _ = region.advise(0, region.len, Advice::LinuxPopulateWrite);
            }
            let allocated = fallocate(&region._file, FallocateFlags::empty(), 0, bytes);
            allocated.map_err(|source| failure("allocate", path, source))?;
            if region.domain.survives_power_loss() {
                region.write_zeros(path)?;
            }
            region._file.sync_all().map_err(|source| failure("sync", path, source))?;
            Ok(region)
        });
        if created.is_err() {
            // The first failure says more than that of the clean-up.
            let _ = fs::remove_file(path);
        }
        created
    }

    /// Writes all blocks of a new file. Where a block was only allocated, the first store makes the file system note
    /// that it is written, and as the mapping is synchronous the store waits for its journal.
    fn write_zeros(&self, path: &Path) -> Result<()> {
        let write = |piece: &[u8], at| self._file.write_all_at(piece, at);
        write_zeros(self.len, write).map_err(|source| failure("write to", path, source))
    }

    /// Fails if no pool can be made at `path` for its file system. To be asked before `create`, which has made
    /// a file of the pool's size by the time that it knows: a size that some file systems refuse.
    pub(crate) fn judge_place(path: &Path, accept: Accept) -> Result<()> {
        detect::place(path, accept)
    }

    /// Maps an existing file for its one writer.
    pub fn open(path: &Path, accept: Accept) -> Result<MappedRegion> {
        expect_file(path)?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| cannot_open(path, source))?;
        lock(&file, path)?;
        Self::map(file, path, accept, Use::Write)
    }

    /// Maps an existing file to inspect, next to its writer if there is one.
    pub fn open_read_only(path: &Path, accept: Accept) -> Result<MappedRegion> {
        expect_file(path)?;
        let file = File::open(path).map_err(|source| cannot_open(path, source))?;
        Self::map(file, path, accept, Use::Read)
    }

    fn map(file: File, path: &Path, accept: Accept, to: Use) -> Result<MappedRegion> {
        let bytes = file.metadata().map_err(|source| failure("measure", path, source))?.len();
        let len = usize::try_from(bytes).unwrap_or(0);
        if len == 0 {
            return Err(Error::PoolRefused {
                pool: path.display().to_string(),
                reason: format!(
                    "it is empty, so it was truncated or never finished; nothing was ever written to it \
                     if it is new: remove it and create it again; otherwise {RESTORE}"
                ),
            });
        }
        let writable = to == Use::Write;
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let map = |flags| {
            // SAFETY: the system chooses an address where nothing is mapped.
            unsafe { mmap(std::ptr::null_mut(), len, protection, flags, &file, 0) }
        };
        let (base, domain) = match map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
            Ok(base) => (base, detect::persistence(&file)),
            Err(Errno::OPNOTSUPP | Errno::INVAL) => {
                let kind = fstatfs(&file).map_err(|source| failure("ask about", path, source))?;
                let domain = detect::stand_in(path, kind.f_type as u64, accept, writable)?;
                let base = map(MapFlags::SHARED).map_err(|source| failure("map", path, source))?;
                (base, domain)
            }
            Err(source) => return Err(failure("map", path, source)),
        };
        if writable {
            detect::durable_stores(path, domain, REACHES_MEDIUM)?;
        }
        let region = MappedRegion {
            base: base.cast(),
            len,
            domain,
            persist: Persist::detect(domain == Domain::Eadr),
            writable,
            _file: file,
            owner: OwnerProcess::current(),
        };
        // Only a hint.
        let _ = region.advise(0, len, Advice::LinuxHugepage);
        Ok(region)
    }

    /// Uses other instructions, to compare them.
    pub fn set_ways(&mut self, ways: Persist) {
        self.persist = ways;
    }

    /// Takes the one writer's lock for a region that was opened to inspect.
    pub(crate) fn lock(&self, path: &Path) -> Result<()> {
        lock(&self._file, path)
    }

    /// Gives a copy of a pool that was made with holes its blocks back: on a file system that has become
    /// full, a store into a hole would end the process.
    pub(crate) fn fill_holes(&self, path: &Path) -> Result<()> {
        const BLOCK_BYTES: u64 = 512;
        let file = self._file.metadata().map_err(|source| failure("measure", path, source))?;
        if file.blocks() * BLOCK_BYTES >= file.len() {
            return Ok(());
        }
        let filled = fallocate(&self._file, FallocateFlags::empty(), 0, file.len());
        filled.map_err(|source| failure("allocate", path, source))
    }

    fn advise(&self, at: usize, bytes: usize, advice: Advice) -> Result<(), Errno> {
        let start = self.base.wrapping_add(at);
        // SAFETY: the range is in the mapping, and the advice does not change its content.
        unsafe { madvise(start.cast(), bytes, advice) }
    }
}

fn cannot_open(path: &Path, source: io::Error) -> Error {
    if source.kind() != io::ErrorKind::NotFound {
        return failure("open", path, source);
    }
    Error::PoolRefused {
        pool: path.display().to_string(),
        reason: format!(
            "there is no such file; a new pool is made by `esker pmem create`; if this one held a \
             database's newest writes, those that no table has yet are in it alone: mount it, or \
             {RESTORE}"
        ),
    }
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            Err(Error::Locked { dir: path.display().to_string(), pid: holder(file) })
        }
        Err(source) => Err(failure("lock", path, source)),
    }
}

/// Says who holds the lock, in a place of the file that is there for it. A note for people: the lock holds without it.
pub(crate) fn write_holder(region: &MappedRegion, at: usize) {
    let mut bytes = [0; PID_BYTES_MAX];
    let pid = std::process::id().to_string();
    bytes[..pid.len()].copy_from_slice(pid.as_bytes());
    let _ = region._file.write_all_at(&bytes, at as u64);
}

/// Who holds the lock: as the kernel says, or else as the holder wrote it; or `unknown`.
fn holder(file: &File) -> String {
    let from_kernel = file.metadata().ok().and_then(|file| {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        lock_holder(&locks, file.dev(), file.ino())
    });
    // Who only looks at a pool, with its lock, does not write its number: what stands there may be that of
    // a process that is gone.
    let alive = |pid: &String| Path::new("/proc").join(pid).exists();
    let holder =
        from_kernel.map(|pid| pid.to_string()).or_else(|| recorded_holder(file).filter(alive));
    holder.unwrap_or_else(|| "unknown".into())
}

/// The holder's pid as it wrote it.
fn recorded_holder(file: &File) -> Option<String> {
    let mut bytes = [0; PID_BYTES_MAX];
    let len = file.read_at(&mut bytes, crate::format::HOLDER_AT as u64).unwrap_or(0);
    let digits = bytes[..len].split(|&byte| byte == 0).next().unwrap_or_default();
    match std::str::from_utf8(digits) {
        Ok(pid) if !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(pid.into())
        }
        _ => None,
    }
}

/// Zeros are written in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Has `write` write zeros to all pages of a file of `len` bytes. Bad memory stays as it is, page by page, except in the
/// first piece, where the header and the table of extents are: an extent that has some is left out.
fn write_zeros(len: usize, write: impl Fn(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
    // Of a write that begins in bad memory Linux says `EFAULT`, which where the bytes come from gives no reason for.
    let is_bad = |written: &io::Result<()>| {
        let code = written.as_ref().err().and_then(io::Error::raw_os_error);
        [Errno::IO, Errno::FAULT].into_iter().any(|bad| code == Some(bad.raw_os_error()))
    };
    let zeros = vec![0; PIECE_BYTES];
    for at in (0..len).step_by(PIECE_BYTES) {
        let piece = &zeros[..PIECE_BYTES.min(len - at)];
        let written = write(piece, at as u64);
        if at == 0 || !is_bad(&written) {
            written?;
            continue;
        }
        for (page, at) in piece.chunks(PAGE_BYTES).zip((at..).step_by(PAGE_BYTES)) {
            let written = write(page, at as u64);
            if !is_bad(&written) {
                written?;
            }
        }
    }
    Ok(())
}

impl Drop for MappedRegion {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and whoever points into it keeps the value alive.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
        // Not left to the closing: a process that another thread is just starting has a copy of the
        // file until it runs its program. Without a lock, this does nothing. A forked child has a copy
        // too, and must not give up its parent's lock.
        if self.owner.is_current() {
            let _ = flock(&self._file, FlockOperation::Unlock);
        }
    }
}

// SAFETY: the mapping stays until `drop`; `Persist` stores inside the range and fences for the thread.
unsafe impl Region for MappedRegion {
    fn base(&self) -> *mut u8 {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn domain(&self) -> Domain {
        self.domain
    }

    fn describe_ways(&self) -> Option<String> {
        (self.domain != Domain::Copy).then(|| self.persist.describe())
    }

    fn writable(&self) -> bool {
        self.writable
    }

    #[inline]
    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the caller's: the range lies in the mapping and is the caller's alone.
        unsafe { self.persist.write(self.base.add(at), bytes) };
    }

    #[inline]
    unsafe fn write_frame(
        &self,
        at: usize,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
        whole: usize,
    ) {
        // SAFETY: the caller's, as above; the base is aligned to a page.
        unsafe { self.persist.write_frame(self.base.add(at), header, entries, whole) };
    }

    unsafe fn store_word(&self, at: usize, word: u64) {
        // SAFETY: the caller's: an aligned word in the mapping, reached atomically.
        unsafe { self.persist.store_word(self.base.add(at), word) };
    }

    #[inline]
    fn fence(&self) {
        self.persist.fence();
    }

    fn expect(&self, at: usize, bytes: usize) -> io::Result<()> {
        // Whole pages, as the system wants them; the mapping starts with one.
        let start = at / PAGE_BYTES * PAGE_BYTES;
        let end = (at + bytes).next_multiple_of(PAGE_BYTES).min(self.len);
        match self.advise(start, end - start, Advice::LinuxPopulateRead) {
            // An old kernel.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            // What it says instead of the signal that a load would get: the latter of a medium that is known to be bad.
            Err(Errno::FAULT | Errno::HWPOISON) => Err(io::Error::other(
                "a page of it can't be had: its file system is full, and the file has a hole there, or \
                 was truncated, or the medium can't be read",
            )),
            Err(source) => Err(source.into()),
        }
    }

    fn read_safely(&self, at: usize, out: &mut [u8]) -> Option<io::Result<()>> {
        // Through the file: it has holes read as zeros, and failures are errors.
        (!self.writable).then(|| self._file.read_exact_at(out, at as u64))
    }

    unsafe fn fault_in(&self, at: usize, bytes: usize) -> io::Result<()> {
        let advice = match self.domain {
            // tmpfs: a page that is read is there to be written, and many come at one fault. It takes two
            // fifths of the time.
            Domain::Emulated => Advice::LinuxPopulateRead,
            _ => Advice::LinuxPopulateWrite,
        };
        match self.advise(at, bytes, advice) {
            // An old kernel: touch each page.
            Err(Errno::INVAL) => {}
            populated => return Ok(populated?),
        }
        for page in (at..at + bytes).step_by(PAGE_BYTES) {
            // SAFETY: the caller's: in the mapping, and nobody else writes it; it keeps its value.
            unsafe {
                let byte = self.base.add(page);
                byte.write_volatile(byte.read_volatile());
            }
        }
        Ok(())
    }
}

/// Makes the name of a file that is there durable, where that can be done: who created it may have died before
/// it was. Who may not look into the directory did not create the file there.
pub(crate) fn sync_directory_again(path: &Path) -> Result<()> {
    use std::io::ErrorKind::{InvalidInput, PermissionDenied};
    match sync_directory(path) {
        Err(Error::Io { source, .. })
            if matches!(source.kind(), PermissionDenied | InvalidInput) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Makes the file's name durable.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let synced = File::open(&parent).and_then(|directory| directory.sync_all());
    synced.map_err(|source| failure("sync", &parent, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages that are written of a file of three pieces and a page if one page is bad, and how that ends.
    fn written_around(bad: u64) -> (usize, io::Result<()>) {
        let len = 3 * PIECE_BYTES + PAGE_BYTES;
        let pages = std::cell::RefCell::new(vec![false; len / PAGE_BYTES]);
        let written = write_zeros(len, |piece, at| {
            let covered = at / PAGE_BYTES as u64..(at + piece.len() as u64) / PAGE_BYTES as u64;
            if covered.start == bad {
                return Err(Errno::FAULT.into());
            } else if covered.contains(&bad) {
                return Err(Errno::IO.into());
            }
            covered.for_each(|page| pages.borrow_mut()[page as usize] = true);
            Ok(())
        });
        (pages.take().into_iter().filter(|page| *page).count(), written)
    }

    #[test]
    fn bad_memory_leaves_no_page_but_its_own_unwritten() {
        let last = 3 * (PIECE_BYTES / PAGE_BYTES) as u64;
        for bad in [last / 3, last / 2, last] {
            let (written, ended) = written_around(bad);
            assert_eq!(written, last as usize, "page {bad} is bad");
            assert!(ended.is_ok());
        }
    }

    #[test]
    fn a_file_whose_header_would_lie_in_bad_memory_is_not_made() {
        let (written, ended) = written_around(1);
        assert_eq!(written, 0);
        assert_eq!(ended.unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    }

    #[test]
    fn what_is_no_bad_memory_ends_the_writing() {
        let full = |_: &[u8], at| if at > 0 { Err(Errno::NOSPC.into()) } else { Ok(()) };
        let ended = write_zeros(2 * PIECE_BYTES, full).unwrap_err();
        assert_eq!(ended.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    }

    #[test]
    fn a_recorded_holder_that_is_gone_is_unknown() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let file =
            File::options().create_new(true).read(true).write(true).open(dir.path().join("pool"));
        let file = file.unwrap();
        let record = |pid: &str| {
            file.set_len(0).unwrap();
            file.write_all_at(pid.as_bytes(), crate::format::HOLDER_AT as u64).unwrap();
            file.set_len(4096).unwrap();
            holder(&file)
        };
        let own = std::process::id().to_string();
        assert_eq!(record(&own), own);
        // Beyond the greatest number that a process can have.
        assert_eq!(record("4194305"), "unknown");
        assert_eq!(record("4711x"), "unknown");
    }
}
