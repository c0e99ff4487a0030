//! An NVMe namespace with flexible data placement, through Linux: `/dev/nvme0n1`.
//!
//! Reads bypass the page cache. Reads, flushes and zeroing are ordinary block device operations:
//! the kernel knows whether the disk has a volatile cache and which commands it supports. Only
//! writes are NVMe passthrough commands, since these can carry a placement identifier on every
//! kernel: directive type 2 and the identifier in dwords 12 and 13. Their block addresses count
//! from the start of the namespace, so a partition is rejected.

use super::{Disk, Statistics, log_pages};
use crate::device::block_limits::{self, BlockLimits, unsupported};
use crate::device::nvme::{self, Command, Data, Format, Queue, execute};
use esker_uring::Buffer;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const WRITE: u8 = 0x01;
const MANAGEMENT_RECEIVE: u8 = 0x12;
const LOG_PAGE: u8 = 0x02;
const GET_FEATURES: u8 = 0x0a;

const LOG_CONFIGURATIONS: u32 = 0x20;
const LOG_STATISTICS: u32 = 0x22;
const FEATURE_PLACEMENT: u32 = 0x1d;
const PLACEMENT_DIRECTIVE: u32 = 2 << 20;

/// An NVMe namespace with placement.
pub struct KernelDisk {
    file: File,
    path: PathBuf,
    namespace: u32,
    group: u16,
    block_bytes: u64,
    bytes: u64,
    unit_bytes: u64,
    identifiers: Vec<u16>,
    /// How much a request writes at the most.
    request_bytes: usize,
}

impl KernelDisk {
    /// Opens a namespace, to read it only if not `writable`. A block device without placement is refused.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let mut file = block_limits::open(path, writable)?;
        let conventional = |reason: &str| {
            unsupported(format!(
                "it is a conventional disk: it has no zones, and {reason}; nothing was changed. Use a directory of a \
                 file system on it"
            ))
        };
        let Some(namespace) = nvme::namespace(&file)? else {
            return Err(conventional("no placement identifiers (NVMe FDP)"));
        };
        if block_limits::is_partition(&file)? {
            let what = "it is a part of a disk; nothing was changed. Name the whole";
            return Err(unsupported(what));
        }
        let limits = BlockLimits::of(&file)?;
        let mut asked = Asked { file: &file, namespace };
        let controller = nvme::identify(&file, namespace, 1)?;
        if !log_pages::has_placement(&controller) {
            return Err(conventional("its controller has no placement identifiers (FDP)"));
        }
        let format = Format::of(&nvme::identify(&file, namespace, 0)?);
        let Format { group, block_bytes, metadata_bytes } = format;
        let Some(number) = asked.configuration(group)? else {
            return Err(conventional("placement (FDP) is off in its endurance group"));
        };
        if metadata_bytes > 0 {
            let what =
                format!("its blocks have {metadata_bytes} bytes of metadata; format it without");
            return Err(unsupported(what));
        }
        let unit_bytes = asked.reclaim_unit_bytes(group, number)?;
        let identifiers = asked.identifiers()?;
        let request_bytes = limits.request_bytes();
        let bytes = file.seek(SeekFrom::End(0))?;
        let path = path.to_owned();
        Ok(KernelDisk {
            file,
            path,
            namespace,
            group,
            block_bytes,
            bytes,
            unit_bytes,
            identifiers,
            request_bytes,
        })
    }
}

/// A namespace that is asked what it is.
struct Asked<'a> {
    file: &'a File,
    namespace: u32,
}

impl Asked<'_> {
    fn ask(
        &mut self,
        queue: Queue,
        opcode: u8,
        words: [u32; 6],
        out: &mut [u8],
    ) -> io::Result<u64> {
        let data = if out.is_empty() { Data::None } else { Data::FromDevice(out) };
        // What an endurance group has is no namespace's.
        let of_group = matches!(opcode, LOG_PAGE | GET_FEATURES);
        let namespace = if of_group { 0 } else { self.namespace };
        execute(self.file, namespace, &Command { queue, opcode, words }, data)
    }

    /// The beginning of an endurance group's log page.
    fn log_page(&mut self, page: u32, group: u16, bytes: usize) -> io::Result<Vec<u8>> {
        let mut out = vec![0; bytes.next_multiple_of(4)];
        let dwords = (out.len() / 4 - 1) as u32;
        let words = [page | dwords << 16, dwords >> 16 | u32::from(group) << 16, 0, 0, 0, 0];
        self.ask(Queue::Admin, LOG_PAGE, words, &mut out)?;
        Ok(out)
    }

    fn configuration(&mut self, group: u16) -> io::Result<Option<usize>> {
        let words = [FEATURE_PLACEMENT, group.into(), 0, 0, 0, 0];
        let feature = self.ask(Queue::Admin, GET_FEATURES, words, &mut [])?;
        Ok(log_pages::configuration_in_force(feature))
    }

    fn reclaim_unit_bytes(&mut self, group: u16, number: usize) -> io::Result<u64> {
        let head = self.log_page(LOG_CONFIGURATIONS, group, 16)?;
        let bytes = log_pages::configurations_bytes(&head).clamp(16, 1 << 16);
        let page = self.log_page(LOG_CONFIGURATIONS, group, bytes)?;
        let found = log_pages::reclaim_unit_bytes(&page, number).filter(|bytes| *bytes > 0);
        found.ok_or_else(|| unsupported("it does not say how large its reclaim units are"))
    }

    fn identifiers(&mut self) -> io::Result<Vec<u16>> {
        let mut count = 0;
        loop {
            let mut out = vec![0; log_pages::status_bytes(count)];
            let words = [1, (out.len() / 4 - 1) as u32, 0, 0, 0, 0];
            self.ask(Queue::Io, MANAGEMENT_RECEIVE, words, &mut out)?;
            match log_pages::identifiers(&out) {
                (0, _) => return Err(unsupported("its namespace has no placement identifiers")),
                (all, found) if found.len() == all => return Ok(found),
                (all, _) => count = all,
            }
        }
    }
}

impl Disk for KernelDisk {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn reclaim_unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    fn identifiers(&self) -> &[u16] {
        &self.identifiers
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], identifier: u16) -> io::Result<()> {
        let mut block = offset / self.block_bytes;
        for part in bytes.chunks(self.request_bytes) {
            let blocks = part.len() as u64 / self.block_bytes;
            let words = [
                block as u32,
                (block >> 32) as u32,
                (blocks as u32 - 1) | PLACEMENT_DIRECTIVE,
                u32::from(identifier) << 16,
                0,
                0,
            ];
            let command = Command { queue: Queue::Io, opcode: WRITE, words };
            execute(&self.file, self.namespace, &command, Data::ToDevice(part))?;
            block += blocks;
        }
        Ok(())
    }

    /// The kernel makes it a Write Zeroes command that may deallocate. Unlike a discard, that is no mere hint.
    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, how, offset, bytes).map_err(|error| match io::Error::from(error) {
            source if source.kind() == ErrorKind::Unsupported => {
                unsupported("it can't make blocks zero without writing them (Write Zeroes)")
            }
            source => source,
        })
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn claim(&self) -> io::Result<Box<dyn Send + Sync>> {
        block_limits::claim(&self.path)
    }

    fn statistics(&self) -> io::Result<Statistics> {
        let mut asked = Asked { file: &self.file, namespace: self.namespace };
        let page = asked.log_page(LOG_STATISTICS, self.group, log_pages::STATISTICS_BYTES)?;
        Ok(log_pages::statistics(&page))
    }
}
