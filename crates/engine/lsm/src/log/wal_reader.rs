//! Reading a log back: from its file, or in its extent of a pool.

use super::pmem_wal;
use super::wal_files::log_file_name;
use crate::manifest::manifest_state::LogRecord;
use crate::manifest::version_edit::LogEnd;
use esker_base::{Background, Error, Result, Seqno};
use esker_memtable::{HeapMemory, Memory, SEGMENT_HEADER_BYTES, ScanResult, SegmentHeader, scan};
use esker_pmem::Pool;
use esker_storage::{ReadableFile, Storage};
use std::sync::Arc;

/// Where logs are read from.
pub(crate) struct WalSource<'a> {
    pub(crate) storage: &'a dyn Storage,
    /// Logs that are here are taken where they are, to be gone on with.
    pub(crate) pool: Option<&'a Arc<Pool>>,
    /// Whose threads read several logs at once.
    pub(crate) background: &'a dyn Background,
}

impl WalSource<'_> {
    /// The log `epoch`, of which the manifest says `log`.
    pub(crate) fn read(&self, epoch: u32, log: &LogRecord) -> Result<LoadedWal> {
        match self.pool {
            Some(pool) if pool.used().contains(&epoch) => take_extent(pool, epoch, log),
            _ => {
                let found = WalHandle::of(self.storage, epoch)?;
                // A repair may have settled for what is left of a log.
                if log.end.is_none_or(|end| end.offset > found.bytes() as u64) {
                    found.check_whole()?;
                }
                found.into_read(log)
            }
        }
    }

    /// The log `epoch`, of which the manifest says nothing, as far as it is there.
    pub(crate) fn read_unlisted(&self, epoch: u32) -> Result<LoadedWal> {
        match self.pool {
            Some(pool) if pool.used().contains(&epoch) => {
                take_extent(pool, epoch, &LogRecord::default())
            }
            _ => WalHandle::of(self.storage, epoch)?.into_read(&LogRecord::default()),
        }
    }

    /// Makes a log survive power loss up to `end`, whichever process wrote it. A sync alone would prove nothing: see
    /// [`write_again`].
    pub(crate) fn make_durable(&self, epoch: u32, end: LogEnd) -> Result<()> {
        let mut read = self.read(epoch, &LogRecord { end: Some(end) })?;
        let scanned = read.scan(None)?;
        match &mut read.memory {
            memory @ Memory::Pmem(_) => memory.make_durable(&scanned),
            memory @ Memory::Heap(_) => {
                if let Some(first) = scanned.frames.first() {
                    let frames = first.offset as usize..scanned.end as usize;
                    let bytes = &memory.contents()[frames];
                    write_again(self.storage, epoch, first.offset, bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// Writes once more what a log file shows at `offset`, and syncs it. If a sync failed in the process
/// before, the system may show bytes that the device does not have, and takes them for written.
pub(crate) fn write_again(
    storage: &dyn Storage,
    epoch: u32,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    let file = storage.open_log(&log_file_name(epoch))?;
    file.write_at(offset, bytes)?;
    file.sync()
}

/// A log file whose header holds.
pub(crate) struct WalHandle<'a> {
    storage: &'a dyn Storage,
    file: Arc<dyn ReadableFile>,
    /// The length of the file, which may be less than that of the segment.
    file_bytes: u64,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) header: SegmentHeader,
}

impl<'a> WalHandle<'a> {
    pub(crate) fn of(storage: &'a dyn Storage, epoch: u32) -> Result<Self> {
        let name = log_file_name(epoch);
        let path = storage.path_of(&name);
        if !storage.exists(&name)? {
            return Err(missing(path));
        }
        let file = storage.open(&name)?;
        // The header first: a damaged length must not decide how much memory is taken.
        let file_bytes = file.len()?;
        let mut start = vec![0; SEGMENT_HEADER_BYTES.min(file_bytes as usize)];
        file.read_exact_at(0, &mut start)?;
        let header = SegmentHeader::decode_of(&start, epoch, file_bytes, &path)?;
        Ok(WalHandle { storage, file, file_bytes, name, path, header })
    }

    pub(crate) fn into_file(self) -> Arc<dyn ReadableFile> {
        self.file
    }

    /// The length of the file in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.file_bytes as usize
    }

    /// Fails if the file is shorter than the segment.
    pub(crate) fn check_whole(&self) -> Result<()> {
        self.header.check_whole(self.file_bytes, &self.path)
    }

    /// Reads the file into memory for the whole segment.
    fn into_read(self, log: &LogRecord) -> Result<LoadedWal> {
        let mut memory = HeapMemory::reserve(self.header.capacity as usize);
        self.read_written(&mut memory)?;
        let WalHandle { path, header, file_bytes, .. } = self;
        Ok(LoadedWal { path, header, memory: memory.into(), file_bytes, known_end: log.end })
    }

    /// Reads the whole log into fresh memory, like [`WalHandle::read`]. Where the log is all zeros, no memory is
    /// touched: of a log that was not full, most is.
    fn read_written(&self, memory: &mut HeapMemory) -> Result<()> {
        const PART_BYTES: usize = 64 << 10;
        const TOUCH_BYTES: usize = 2 << 20;
        let mut part = vec![0; PART_BYTES.min(self.bytes())];
        let mut touched = 0;
        for start in (0..self.bytes()).step_by(PART_BYTES) {
            let part = &mut part[..PART_BYTES.min(self.bytes() - start)];
            self.file.read_exact_at(start as u64, part)?;
            if part.iter().all(|&byte| byte == 0) {
                continue;
            }
            if start >= TOUCH_BYTES && start >= touched {
                let block = start / TOUCH_BYTES * TOUCH_BYTES;
                touched = block + TOUCH_BYTES;
                memory.touch(block..touched);
            }
            memory.bytes_mut()[start..start + part.len()].copy_from_slice(part);
        }
        self.still_there()
    }

    /// Copies the whole file, unless it was retired meanwhile: then what is there may be partly of its
    /// next use.
    pub(crate) fn read(&self, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(0, out)?;
        self.still_there()
    }

    fn still_there(&self) -> Result<()> {
        if self.storage.exists(&self.name)? { Ok(()) } else { Err(missing(self.path.clone())) }
    }
}

fn missing(path: String) -> Error {
    let what = "the manifest lists this log and it is missing; if the logs are in a pool of persistent \
                memory, name it (`--pool`); if in a directory of their own, name that (`--log-dir`); \
                otherwise what was written to it and not yet flushed is lost, and `esker repair DB \
                --give-up-logs` goes on without it";
    Error::corruption(path, 0, what)
}

/// The log `epoch` in its extent.
fn take_extent(pool: &Arc<Pool>, epoch: u32, log: &LogRecord) -> Result<LoadedWal> {
    let path = pmem_wal::log_in(pool, epoch);
    let extent = pool.extent(epoch).ok_or_else(|| Error::PoolRefused {
        pool: pool.describe(),
        reason: format!("the extent of log {epoch} is in use already"),
    })?;
    // Of a log whose end is settled, no more is looked at.
    let looked_at = log.end.map_or(extent.len(), |end| end.offset as usize);
    extent.expect(0..looked_at.clamp(SEGMENT_HEADER_BYTES, extent.len()))?;
    let mut memory = Memory::Pmem(extent);
    let room = memory.len() as u64;
    let header = SegmentHeader::decode_of(memory.contents(), epoch, room, &path)?;
    header.check_whole(room, &path)?;
    Ok(LoadedWal { path, header, memory, file_bytes: room, known_end: log.end })
}

/// One log as it was read.
pub(crate) struct LoadedWal {
    pub(crate) path: String,
    pub(crate) header: SegmentHeader,
    pub(crate) memory: Memory,
    /// How many bytes of the segment are there.
    file_bytes: u64,
    pub(crate) known_end: Option<LogEnd>,
}

impl LoadedWal {
    /// Its frames, the first of which starts with the seqno `expected` if that is given.
    pub(crate) fn scan(&mut self, expected: Option<Seqno>) -> Result<ScanResult> {
        let bytes = &self.memory.contents()[..self.file_bytes as usize];
        // Frames behind an end that was settled once were rejected then.
        let bytes = match self.known_end {
            Some(end) => bytes.get(..end.offset as usize).ok_or_else(|| {
                let what = "the log is shorter than recorded";
                Error::corruption(&self.path, bytes.len() as u64, what)
            })?,
            None => bytes,
        };
        Ok(scan(bytes, &self.header, expected))
    }
}
