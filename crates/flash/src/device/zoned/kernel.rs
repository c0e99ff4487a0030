//! A zoned block device as Linux drives it: `/dev/nvme0n1`, `/dev/sda`, `/dev/nullb0`.
//!
//! It is read and written past the page cache, which knows no order of writes. A write goes out in requests that the
//! kernel does not split, one after the other, so that each finds the write pointer where it belongs whatever the
//! scheduler; and a zone has one writer (`crate::zones`). Zone append, where the disk says where it wrote, is for
//! several writers of a zone, and the kernel offers it to programs as a bare NVMe command only.

use super::{Disk, Zone, ioctl};
use esker_uring::Buffer;
use rustix::fs::{OFlags, fstat, major, minor};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a segment of a request holds at the least: a page, wherever it lies in memory.
const PAGE_BYTES: usize = 4096;

/// The largest blocks that can be used: what files lie in (`crate::zones::BLOCK_BYTES`).
const BLOCK_BYTES_MAX: usize = 4096;

/// What every driver takes in one request, and what the kernel makes one of at the most (`BIO_MAX_VECS` pages).
const REQUEST_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// A zoned block device.
pub struct KernelDisk {
    file: File,
    path: PathBuf,
    active_max: Option<usize>,
    /// How much a request writes at the most.
    request_bytes: usize,
}

impl KernelDisk {
    /// Opens a device, to read it only if not `writable`. Anything but a zoned block device is refused.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let unsupported = |what| io::Error::new(ErrorKind::Unsupported, what);
        if !fs::metadata(path)?.file_type().is_block_device() {
            return Err(unsupported("it is no block device"));
        }
        const DIRECT: i32 = OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).write(writable).custom_flags(DIRECT).open(path)?;
        if ioctl::zone_bytes(&file)? == 0 {
            let what = "it is a conventional disk, not a zoned one; nothing was changed. Use a directory of a \
                        file system on it";
            return Err(unsupported(what));
        }
        let limits = limits_of(&file)?;
        let number = |name: &str| number(&limits, name);
        let block_bytes = number("logical_block_size").unwrap_or(0);
        if block_bytes > BLOCK_BYTES_MAX {
            let what = format!(
                "it is written in blocks of {block_bytes} bytes, and {BLOCK_BYTES_MAX} are the most that can be \
                 used; nothing was changed. Format it with smaller ones"
            );
            return Err(io::Error::new(ErrorKind::Unsupported, what));
        }
        // Open zones are active ones; a device may have a limit for either.
        let zones = ["max_active_zones", "max_open_zones"].map(number);
        let active_max = zones.into_iter().flatten().filter(|most| *most > 0).min();
        // A buffer may begin and end inside of pages.
        let segments = number("max_segments").map(|most| most.saturating_sub(1) * PAGE_BYTES);
        let sectors = number("max_sectors_kb").map(|most| most * 1024);
        let request_bytes = [segments, sectors].into_iter().flatten().min();
        let request_bytes =
            request_bytes.unwrap_or(0).clamp(*REQUEST_BYTES.start(), *REQUEST_BYTES.end());
        let request_bytes = request_bytes / PAGE_BYTES * PAGE_BYTES;
        Ok(KernelDisk { file, path: path.to_owned(), active_max, request_bytes })
    }
}

/// The folder with the limits of a device's queue, whatever its name. A partition has its disk's.
fn limits_of(device: &File) -> io::Result<PathBuf> {
    let number = fstat(device)?.st_rdev;
    let folder = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let folder = fs::canonicalize(folder)?;
    let own = folder.join("queue");
    Ok(if own.is_dir() { own } else { folder.join("../queue") })
}

fn number(folder: &Path, name: &str) -> Option<usize> {
    fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
}

impl Disk for KernelDisk {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn report(&self, start: u64) -> io::Result<Vec<Zone>> {
        ioctl::report(&self.file, start)
    }

    fn active_max(&self) -> Option<usize> {
        self.active_max
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &Buffer) -> io::Result<()> {
        let mut at = offset;
        for part in bytes.chunks(self.request_bytes) {
            self.file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn reset(&self, zone: &Zone) -> io::Result<()> {
        ioctl::reset(&self.file, zone)
    }

    fn finish(&self, zone: &Zone) -> io::Result<()> {
        ioctl::finish(&self.file, zone)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Without a file to create, this is a claim on the device: there is one at a time, and file systems that are
    /// mounted have theirs (open(2)). It ends with the process.
    fn claim(&self) -> io::Result<Box<dyn Send + Sync>> {
        const EXCLUSIVE: i32 = OFlags::EXCL.bits() as i32;
        let claimed =
            File::options().read(true).write(true).custom_flags(EXCLUSIVE).open(&self.path);
        let claimed = claimed.map_err(|source| match source.kind() {
            ErrorKind::ResourceBusy => {
                let what =
                    "it is in use: another process has claimed it, or a file system on it is mounted";
                io::Error::new(ErrorKind::ResourceBusy, what)
            }
            _ => source,
        })?;
        Ok(Box::new(claimed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_and_a_character_device_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "dear").unwrap();
        for path in [file.path(), Path::new("/dev/null")] {
            let refused = KernelDisk::open(path, true).err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            assert!(refused.to_string().contains("no block device"), "{refused}");
        }
        assert_eq!(fs::read(file.path()).unwrap(), b"dear");
    }
}
