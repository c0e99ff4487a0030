//! A log: chunks of its own, with one record per write.
//!
//! A chunk cannot be updated in place. Each write is therefore appended as a record that states its
//! offset in the log and occupies whole blocks. Ranges never written read as zeros.
//!
//! A log of small writes uses more chunks than its size: forty times as many for writes of a
//! hundred bytes. The chunks for its nominal size are reserved when the log is created. More are
//! allocated on demand, and on a full device such a write fails like any other. No log takes a
//! chunk that is reserved for the tables to which logs are flushed. Otherwise a device could be
//! full permanently, since only that flush frees log chunks.

use crate::chunk_device::BLOCK_BYTES;
use crate::storage::allocation::shared_device::SharedDevice;
use crate::storage::files::file_meta::{FileMeta, Source, Write};
use crate::storage::format::{self, Extent, JournalRecord, LOG_HEADER};
use crate::storage::lifetimes::lifetime::LifetimeClass;
use esker_base::{Error, Result};
use esker_storage::LogFile;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// How much of a log is compared at a time.
const PIECE_BYTES: usize = 1 << 20;

pub(crate) struct FlashLog {
    pub(crate) core: Arc<SharedDevice>,
    pub(crate) body: Arc<FileMeta>,
    pub(crate) name: String,
}

/// A chunk for a log, as a piece that takes all of it, if that leaves so many free.
pub(crate) fn take_chunk(core: &SharedDevice, kept: u32) -> Result<Extent> {
    let lease = core.lease_whole(LifetimeClass::SHORTEST, kept)?;
    // Power loss must not bring back what was in the chunk: a removed log's records may have this log's number.
    if let Err(error) = core.zones.flush() {
        core.close(lease.chunk);
        return Err(error);
    }
    let geometry = core.zones.geometry();
    let index = geometry.index(lease.chunk) as u32;
    let extent = Extent { chunk: index, block: 0, bytes: geometry.chunk_bytes };
    let mut state = core.state.lock();
    state.space.add(&extent);
    drop(state);
    core.close(lease.chunk);
    Ok(extent)
}

impl FlashLog {
    fn append(&self, mut offset: u64, mut bytes: &[u8]) -> Result<()> {
        let mut position = self.body.position.lock();
        position.failed.clone().map_or(Ok(()), Err)?;
        let geometry = self.core.zones.geometry();
        while !bytes.is_empty() {
            if position.at + BLOCK_BYTES > u64::from(geometry.chunk_bytes) {
                (position.extent, position.at) = (position.extent + 1, 0);
            }
            let number = position.extent;
            let extent = self.chunk(number, &mut position.failed)?;
            let chunk = geometry.chunk(extent.chunk as usize);
            let has_few = self.core.zones.active_max().is_some();
            if has_few && self.core.zones.written(chunk)? > position.at {
                // It was finished for others' sake.
                position.at = geometry.chunk_bytes.into();
                continue;
            }
            let is_first = position.at == 0;
            if is_first {
                self.core.place(chunk)?;
            }
            let room = (u64::from(geometry.chunk_bytes) - position.at) as usize - LOG_HEADER;
            let (part, after) = bytes.split_at(bytes.len().min(room));
            let record = format::encode_log(self.body.id, offset, self.core.marks.named(), part);
            let written = self.core.zones.write(chunk, position.at, &record);
            if is_first {
                self.core.placed(chunk);
            }
            position.failed = written.clone().err();
            written?;
            let write = Write { offset, len: part.len() as u32, chunk, at: position.at };
            self.body.pieces.write().writes.push(write);
            self.core.count(part.len() as u64, record.len() as u64);
            position.at += record.len() as u64;
            offset += part.len() as u64;
            bytes = after;
        }
        Ok(())
    }

    /// Whether the log has these bytes there. Who opens a database writes again what its logs show, for the system may
    /// show what a sync that failed has lost; where there is no space for that, the sync that follows has to do, as it
    /// does for all else on the device: or a full one could not be opened to make space on it.
    fn has(&self, offset: u64, bytes: &[u8]) -> Result<bool> {
        let source = Source { zones: self.core.zones.clone(), reads: self.core.reads.clone() };
        let mut found = vec![0; bytes.len().min(PIECE_BYTES)];
        let mut at = offset;
        for piece in bytes.chunks(PIECE_BYTES) {
            let found = &mut found[..piece.len()];
            self.body.read(&source, &self.name, at, found)?;
            if found != piece {
                return Ok(false);
            }
            at += piece.len() as u64;
        }
        Ok(true)
    }

    /// The chunk of this number; a new one if there are not so many. If the journal does not take it, what would be
    /// written into it would be lost: the log has `failed` then.
    fn chunk(&self, number: usize, failed: &mut Option<Error>) -> Result<Extent> {
        if let Some(extent) = self.body.pieces.read().extents.get(number) {
            return Ok(*extent);
        }
        let extent = take_chunk(&self.core, self.core.reserve_for_logs())?;
        self.body.push(extent);
        let mut state = self.core.state.lock();
        self.body.record();
        if self.body.is_linked() {
            let written = state.write(&[JournalRecord::Extend(self.body.id, vec![extent])]);
            *failed = written.clone().err();
            written?;
        }
        Ok(extent)
    }
}

impl LogFile for FlashLog {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let size = self.body.log_bytes.unwrap_or(0);
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > size) {
            let what = format!("{} bytes at {offset} do not fit into it", bytes.len());
            let source = io::Error::new(ErrorKind::InvalidInput, what);
            return Err(Error::io("write to", &self.name, source));
        }
        match self.append(offset, bytes) {
            // What cannot be read back is not there, and being full is what is wrong.
            Err(full) if full.is_out_of_space() && self.has(offset, bytes).unwrap_or(false) => {
                Ok(())
            }
            done => done,
        }
    }

    fn sync(&self) -> Result<()> {
        self.core.marks.flush(&*self.core.zones)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
