//! What Linux says of a block device, of any kind.

use rustix::fs::{OFlags, fstat, major, minor};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The minimum length of a segment of a request: a page, at any address.
const PAGE_BYTES: usize = 4096;

/// The largest blocks that can be used: what files are in (`crate::zones::BLOCK_BYTES`).
const BLOCK_BYTES_MAX: usize = 4096;

/// What every driver takes in one request, and what the kernel makes one of at the most (`BIO_MAX_VECS` pages).
const REQUEST_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// The limits of a device's queue.
pub(super) struct BlockLimits(PathBuf);

/// Opens a block device past the page cache, to read it only if not `writable`. Anything else is refused.
pub(super) fn open(path: &Path, writable: bool) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_char_device() {
        let what = "it is no block device but a character device; if it is an NVMe namespace, such as /dev/ng0n1, name \
                    its block device, such as /dev/nvme0n1";
        return Err(unsupported(what));
    }
    if !kind.is_block_device() {
        return Err(unsupported("it is no block device"));
    }
    const DIRECT: i32 = OFlags::DIRECT.bits() as i32;
    File::options().read(true).write(writable).custom_flags(DIRECT).open(path)
}

/// Without a file to create, this is a claim on the device: there is one at a time, and file systems that are mounted
/// have theirs (open(2)). It ends with the process. A process that may only read can have it.
pub(super) fn claim(path: &Path) -> io::Result<Box<dyn Send + Sync>> {
    const EXCLUSIVE: i32 = OFlags::EXCL.bits() as i32;
    let claimed = File::options().read(true).custom_flags(EXCLUSIVE).open(path);
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

pub(super) fn unsupported(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, what.into())
}

/// Whether a device is a part of a disk.
pub(super) fn is_partition(device: &File) -> io::Result<bool> {
    Ok(folder_of(device)?.join("partition").exists())
}

/// The character device of the same NVMe namespace, which takes commands as they are: `/dev/ng0n1` of `/dev/nvme0n1`.
/// The kernel reports its number next to the block device's, whatever the paths. Says why if there is none.
pub(super) fn generic_of(device: &File) -> Result<(PathBuf, File), String> {
    let folder = folder_of(device).map_err(|error| format!("it is not found in /sys: {error}"))?;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(rest) = name.strip_prefix("nvme") else {
        return Err("it is no NVMe namespace".to_owned());
    };
    let name = format!("ng{rest}");
    let path = Path::new("/dev").join(&name);
    let refused = |error: io::Error| format!("{} can't be used: {error}", path.display());
    let number = fs::read_to_string(folder.with_file_name(&name).join("dev")).map_err(refused)?;
    let is_it = |found: &fs::Metadata| {
        let own = format!("{}:{}", major(found.rdev()), minor(found.rdev()));
        found.file_type().is_char_device() && own == number.trim()
    };
    let other = || io::Error::other("it is another device");
    // Looked at before it is opened, as that may do something to another.
    fs::metadata(&path)
        .and_then(|found| is_it(&found).then_some(()).ok_or_else(other))
        .map_err(refused)?;
    let opened = File::options().read(true).write(true).open(&path).map_err(refused)?;
    match opened.metadata() {
        Ok(found) if is_it(&found) => Ok((path, opened)),
        _ => Err(refused(other())),
    }
}

fn folder_of(device: &File) -> io::Result<PathBuf> {
    let number = fstat(device)?.st_rdev;
    fs::canonicalize(format!("/sys/dev/block/{}:{}", major(number), minor(number)))
}

impl BlockLimits {
    /// Those of a device, whatever its name. A partition has its disk's. A disk with too large blocks is refused.
    pub(super) fn of(device: &File) -> io::Result<Self> {
        let folder = folder_of(device)?;
        let own = folder.join("queue");
        let limits = BlockLimits(if own.is_dir() { own } else { folder.join("../queue") });
        let block_bytes = limits.number("logical_block_size").unwrap_or(0);
        if block_bytes > BLOCK_BYTES_MAX {
            return Err(unsupported(format!(
                "it is written in blocks of {block_bytes} bytes, and {BLOCK_BYTES_MAX} are the most that can be \
                 used; nothing was changed. Format it with smaller ones"
            )));
        }
        Ok(limits)
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        fs::read_to_string(self.0.join(name)).ok()?.trim().parse().ok()
    }

    /// How much one request writes at the most: whole pages.
    pub(super) fn request_bytes(&self) -> usize {
        // A buffer may begin and end inside of pages.
        let segments = self.number("max_segments").map(|most| most.saturating_sub(1) * PAGE_BYTES);
        let sectors = self.number("max_sectors_kb").map(|most| most * 1024);
        let least = [segments, sectors].into_iter().flatten().min().unwrap_or(0);
        least.clamp(*REQUEST_BYTES.start(), *REQUEST_BYTES.end()) / PAGE_BYTES * PAGE_BYTES
    }
}
