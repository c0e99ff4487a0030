//! A zoned block device through Linux: `/dev/nvme0n1`, `/dev/sda`, `/dev/nullb0`.
//!
//! Reads and writes bypass the page cache, which does not preserve write order. NVMe namespaces are
//! written with Zone Append ([`super::append`]) if possible, others at the write pointer. Each
//! request is small enough that the kernel does not split it, and is sent after the previous one
//! completes. Each zone has one writer (`crate::zones`). The scheduler therefore cannot reorder
//! writes.
//!
//! Several appends to a zone could be in flight at once, and the disk would report their order. But
//! each piece's place in a chunk is determined before it is written.

use super::write_mode::WriteMode;
use super::zone_append::ZoneAppender;
use super::{Disk, Zone, ioctl};
use crate::device::block_limits::{self, BlockLimits};
use esker_uring::Buffer;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A zoned block device.
pub struct KernelDisk {
    file: File,
    path: PathBuf,
    active_max: Option<usize>,
    /// How much a request writes at the most.
    request_bytes: usize,
    /// What appends, or why nothing does.
    appends: Result<ZoneAppender, String>,
    /// Whether the kernel took the first append.
    way: WriteMode,
}

/// Whether a block device has zones. Anything else is refused.
pub fn has_zones(path: &Path) -> io::Result<bool> {
    Ok(ioctl::zone_bytes(&block_limits::open(path, false)?)? > 0)
}

impl KernelDisk {
    /// Opens a device, to read it only if not `writable`. Anything but a zoned block device is refused.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let file = block_limits::open(path, writable)?;
        if ioctl::zone_bytes(&file)? == 0 {
            let what = "it is a conventional disk, not a zoned one; nothing was changed";
            return Err(block_limits::unsupported(what));
        }
        let limits = BlockLimits::of(&file)?;
        // Open zones are active ones; a device may have a limit for either.
        let zones = ["max_active_zones", "max_open_zones"].map(|name| limits.number(name));
        let active_max = zones.into_iter().flatten().filter(|most| *most > 0).min();
        let request_bytes = limits.request_bytes();
        let appends = ZoneAppender::of(&file, &limits, request_bytes);
        let (path, way) = (path.to_owned(), WriteMode::default());
        Ok(KernelDisk { file, path, active_max, request_bytes, appends, way })
    }

    /// What appends to zones, or why they are written at their write pointers.
    fn appends(&self) -> Result<&ZoneAppender, &String> {
        self.way.why_not().map_or(self.appends.as_ref(), Err)
    }
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

    fn written_by(&self) -> String {
        match self.appends() {
            Ok(appends) => {
                let (path, most) = (appends.path().display(), appends.bytes_max() >> 10);
                format!("Zone Append through {path}, at most {most} KiB at a time")
            }
            Err(reason) => {
                format!("writes at their write pointers, without Zone Append: {reason}")
            }
        }
    }

    fn write_bytes_max(&self) -> usize {
        self.appends().map_or(self.request_bytes, ZoneAppender::bytes_max)
    }

    fn write(&self, zone: &Zone, bytes: Buffer) -> io::Result<u64> {
        let bytes = match &self.appends {
            Ok(appends) => match self.way.append(bytes, |bytes| appends.append(zone, bytes))? {
                Ok(at) => return Ok(at),
                Err(bytes) => bytes,
            },
            Err(_) => bytes,
        };
        let at = zone.start + zone.written;
        self.file.write_all_at(&bytes, at)?;
        Ok(at)
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

    fn claim(&self) -> io::Result<Box<dyn Send + Sync>> {
        block_limits::claim(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind;

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
