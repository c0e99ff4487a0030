//! A file that is read at any place, each read one `pread`.

use super::directory::Directory;
use super::{fadvise, failure};
use crate::ReadableFile;
use esker_base::{Error, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, pread};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

#[cfg(not(target_os = "linux"))]
type OpenFile = std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
type OpenFile = esker_uring::Descriptor;

/// An alignment of direct reads that satisfies every device.
#[cfg(target_os = "linux")]
const PAGE_BYTES: u64 = 4096;

#[cfg(target_os = "linux")]
const SECTOR_BYTES: u32 = 512;

#[derive(Debug)]
pub(super) struct PosixReader {
    file: OpenFile,
    path: PathBuf,
    name: String,
    /// What offsets and lengths of reads past the page cache are multiples of. `None`: reads are through
    /// the page cache.
    direct_alignment: Option<u64>,
}

impl PosixReader {
    pub(super) fn open(directory: &Directory, name: &str) -> Result<Self> {
        Self::open_with(directory, name, OFlags::RDONLY)
            .map_err(|source| failure("open", &directory.path_of(name), source))
    }

    /// Opens a file whose readers read ahead themselves. The kernel would read far more than a short scan
    /// uses: up to the device's window, which may be megabytes, for each run of tables.
    pub(super) fn open_for_caching(directory: &Directory, name: &str) -> Result<Self> {
        let reader = Self::open(directory, name)?;
        fadvise::no_read_ahead(&reader.file);
        Ok(reader)
    }

    /// Opens a file past the page cache, if the file system allows that.
    pub(super) fn open_direct(directory: &Directory, name: &str) -> Result<Self> {
        #[cfg(target_os = "linux")]
        match Self::open_with(directory, name, OFlags::RDONLY | OFlags::DIRECT) {
            // File systems without direct I/O say so with this.
            Err(source) if source.kind() == ErrorKind::InvalidInput => {}
            opened => {
                return opened
                    .map(|reader| {
                        let direct_alignment = Some(alignment_of(&reader.file));
                        PosixReader { direct_alignment, ..reader }
                    })
                    .map_err(|source| failure("open", &directory.path_of(name), source));
            }
        }
        Self::open_for_caching(directory, name)
    }

    /// Keeps other processes from freeing parts of the file until it is closed. Waits for one that does so, which takes a
    /// system call. Where files cannot be locked, no process frees parts: see [`super::parts`].
    pub(super) fn lock(&self) {
        while flock(&self.file, FlockOperation::LockShared) == Err(Errno::INTR) {}
    }

    fn open_with(directory: &Directory, name: &str, flags: OFlags) -> io::Result<Self> {
        let file = directory.open_file(name, flags)?.into();
        let (path, name) = (directory.path_of(name), name.to_owned());
        Ok(PosixReader { file, path, name, direct_alignment: None })
    }

    #[cold]
    fn too_short(&self, offset: u64, wanted: usize) -> Error {
        let found = ReadableFile::len(self).unwrap_or(0);
        let what = format!("{wanted} bytes are wanted, and the file ends at {found}");
        Error::corruption(self.path.display().to_string(), offset, what)
    }

    /// Fills `out` from `offset`, or as much of it as the file has. Returns how many bytes that is.
    fn fill(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match pread(&self.file, &mut out[done..], offset + done as u64) {
                Ok(0) => break,
                // A direct read that stops within a sector has met the end of the file.
                Ok(bytes)
                    if self
                        .direct_alignment
                        .is_some_and(|it| !(bytes as u64).is_multiple_of(it)) =>
                {
                    return Ok(done + bytes);
                }
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Does the same with a read of whole multiples of `alignment` into memory of its own.
    #[cfg(target_os = "linux")]
    fn fill_direct(&self, offset: u64, out: &mut [u8], alignment: u64) -> io::Result<usize> {
        let start = offset / alignment * alignment;
        let skipped = (offset - start) as usize;
        let aligned = (skipped + out.len()).next_multiple_of(alignment as usize);
        let mut buffer = esker_uring::Buffer::zeroed(aligned);
        let filled = self.fill(start, &mut buffer)?;
        let found = filled.saturating_sub(skipped).min(out.len());
        out[..found].copy_from_slice(&buffer[skipped..skipped + found]);
        Ok(found)
    }

    #[cfg(not(target_os = "linux"))]
    fn fill_direct(&self, offset: u64, out: &mut [u8], _: u64) -> io::Result<usize> {
        self.fill(offset, out)
    }
}

/// What offsets and lengths of direct reads of `file` are multiples of: as a rule the device's sectors.
/// Few data blocks begin at the start of a page, so reads of whole pages would read twice as much.
#[cfg(target_os = "linux")]
fn alignment_of(file: &OpenFile) -> u64 {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    // Linux says it since 6.1.
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let found = found.filter(|it| it.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    match found {
        // Buffers are aligned to sectors, and to pages from a page on.
        Some(found)
            if found.stx_dio_mem_align <= SECTOR_BYTES
                && found.stx_dio_offset_align.is_power_of_two()
                && u64::from(found.stx_dio_offset_align) < PAGE_BYTES =>
        {
            found.stx_dio_offset_align.max(SECTOR_BYTES).into()
        }
        _ => PAGE_BYTES,
    }
}

impl ReadableFile for PosixReader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        // No file can have such offsets, but a damaged pointer may.
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(self.too_short(offset, out.len()));
        }
        let filled = match self.direct_alignment {
            Some(alignment) => self.fill_direct(offset, out, alignment),
            None => self.fill(offset, out),
        };
        match filled {
            Ok(bytes) if bytes == out.len() => Ok(()),
            Ok(_) => Err(self.too_short(offset, out.len())),
            Err(source) => {
                let place = format!("{} at offset {offset}", self.path.display());
                Err(Error::io("read", place, source))
            }
        }
    }

    fn len(&self) -> Result<u64> {
        match rustix::fs::fstat(&self.file) {
            Ok(found) => Ok(found.st_size as u64),
            Err(source) => Err(failure("measure", &self.path, source.into())),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_ahead(&self, offset: u64, bytes: u64) {
        // What a hint brings into the page cache, direct reads do not use.
        if self.direct_alignment.is_none() {
            fadvise::read_ahead(&self.file, offset, bytes);
        }
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, offset: u64, out: &mut [u8]) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};
        if self.direct_alignment.is_some() {
            return false;
        }
        let wanted = out.len();
        let into = &mut [io::IoSliceMut::new(out)];
        preadv2(&self.file, into, offset, ReadWriteFlags::NOWAIT) == Ok(wanted)
    }

    #[cfg(target_os = "linux")]
    fn raw(&self) -> Option<crate::RawFile> {
        let alignment = self.direct_alignment.unwrap_or(1);
        Some(crate::RawFile { descriptor: self.file.clone(), alignment })
    }
}
