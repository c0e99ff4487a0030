//! A file that is read at any place, each read one `pread`.

use super::directory::Directory;
use super::{fadvise, failure};
use crate::ReadableFile;
use esker_base::{Error, Result};
use rustix::fs::OFlags;
use rustix::io::{Errno, pread};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

#[cfg(not(target_os = "linux"))]
type OpenFile = std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
type OpenFile = esker_uring::Descriptor;

/// What offsets, lengths and addresses of direct reads are multiples of. It satisfies every device.
#[cfg(target_os = "linux")]
const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct PosixReader {
    file: OpenFile,
    path: PathBuf,
    name: String,
    /// Whether reads bypass the page cache.
    is_direct: bool,
}

impl PosixReader {
    pub(super) fn open(directory: &Directory, name: &str) -> Result<Self> {
        Self::open_with(directory, name, OFlags::RDONLY)
            .map_err(|source| failure("open", &directory.path_of(name), source))
    }

    /// Opens a file past the page cache, if the file system allows that.
    pub(super) fn open_direct(directory: &Directory, name: &str) -> Result<Self> {
        #[cfg(target_os = "linux")]
        match Self::open_with(directory, name, OFlags::RDONLY | OFlags::DIRECT) {
            // File systems without direct I/O say so with this.
            Err(source) if source.kind() == ErrorKind::InvalidInput => {}
            opened => {
                return opened
                    .map(|reader| PosixReader { is_direct: true, ..reader })
                    .map_err(|source| failure("open", &directory.path_of(name), source));
            }
        }
        Self::open(directory, name)
    }

    fn open_with(directory: &Directory, name: &str, flags: OFlags) -> io::Result<Self> {
        let file = directory.open_file(name, flags)?.into();
        let (path, name) = (directory.path_of(name), name.to_owned());
        Ok(PosixReader { file, path, name, is_direct: false })
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
                // A direct read that stops within a page has met the end of the file.
                Ok(bytes) if self.is_direct && !bytes.is_multiple_of(512) => {
                    return Ok(done + bytes);
                }
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Does the same with a read of whole pages into memory of its own.
    #[cfg(target_os = "linux")]
    fn fill_direct(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let start = offset / PAGE_BYTES * PAGE_BYTES;
        let skipped = (offset - start) as usize;
        let pages = (skipped + out.len()).next_multiple_of(PAGE_BYTES as usize);
        let mut buffer = esker_uring::Buffer::zeroed(pages);
        let filled = self.fill(start, &mut buffer)?;
        let found = filled.saturating_sub(skipped).min(out.len());
        out[..found].copy_from_slice(&buffer[skipped..skipped + found]);
        Ok(found)
    }

    #[cfg(not(target_os = "linux"))]
    fn fill_direct(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.fill(offset, out)
    }
}

impl ReadableFile for PosixReader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        // No file can have such offsets, but a damaged pointer may.
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(self.too_short(offset, out.len()));
        }
        let filled = match self.is_direct {
            true => self.fill_direct(offset, out),
            false => self.fill(offset, out),
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
        if !self.is_direct {
            fadvise::read_ahead(&self.file, offset, bytes);
        }
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, offset: u64, out: &mut [u8]) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};
        if self.is_direct {
            return false;
        }
        let wanted = out.len();
        let into = &mut [io::IoSliceMut::new(out)];
        preadv2(&self.file, into, offset, ReadWriteFlags::NOWAIT) == Ok(wanted)
    }

    #[cfg(target_os = "linux")]
    fn raw(&self) -> Option<crate::RawFile<'_>> {
        let alignment = if self.is_direct { PAGE_BYTES } else { 1 };
        Some(crate::RawFile { descriptor: &self.file, alignment })
    }
}
