//! A file being appended to: bytes are buffered and go to its chunks in rotation, in large pieces.
//!
//! A sync writes the rest, with the last block padded with zeros; later data starts in a new block.
//! It then makes the bytes durable, and only after that records their location in the journal.

use crate::chunk_device::BLOCK_BYTES;
use crate::storage::allocation::shared_device::SharedDevice;
use crate::storage::chunks::chunk_table::OpenChunk;
use crate::storage::files::file_meta::FileMeta;
use crate::storage::format::{Extent, JournalRecord};
use esker_base::{Error, Result};
use esker_storage::WritableFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Large enough that a piece costs little more than its bytes, small enough that a table is on all of its chunks.
const PIECE_BYTES: usize = 256 << 10;

pub(crate) struct FlashWriter {
    core: Arc<SharedDevice>,
    body: Arc<FileMeta>,
    name: String,
    /// The chunks that it writes in turn, and whose turn it is.
    lanes: Vec<Option<OpenChunk>>,
    turn: usize,
    buffer: Vec<u8>,
    /// Bytes on the device.
    written: u64,
    synced: u64,
    /// The first failure. What the device has since is unknown.
    failed: Option<Error>,
}

impl FlashWriter {
    /// Writes `body`, on `width` chunks at once if the device does not limit open chunks.
    pub(crate) fn new(
        core: Arc<SharedDevice>,
        body: Arc<FileMeta>,
        name: &str,
        width: usize,
    ) -> Self {
        let width = if core.zones.active_max().is_some() { 1 } else { width };
        let (lanes, buffer) = (vec![None; width], Vec::new());
        body.open.store(true, Ordering::Release);
        let name = name.to_owned();
        FlashWriter {
            core,
            body,
            name,
            lanes,
            turn: 0,
            buffer,
            written: 0,
            synced: 0,
            failed: None,
        }
    }

    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)?;
        let outcome = work(self);
        self.failed = outcome.clone().err();
        outcome
    }

    /// Writes all of the buffer.
    fn write_out(&mut self) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let mut left = bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        let geometry = self.core.zones.geometry();
        let chunk_bytes = u64::from(geometry.chunk_bytes);
        let mut rest = &bytes[..];
        while left > 0 {
            let lane = self.turn % self.lanes.len();
            let mut lease = match self.lanes[lane].take() {
                Some(lease) => lease,
                None => {
                    self.core.run_if_due(self.body.stay.level);
                    self.core.lease(self.body.stay)?
                }
            };
            let here = left.min(chunk_bytes - lease.at);
            let index = geometry.index(lease.chunk) as u32;
            let block = (lease.at / BLOCK_BYTES) as u32;
            let extent = Extent { chunk: index, block, bytes: here as u32 };
            let (part, after) = rest.split_at(extent.taken() as usize);
            if let Err(error) = self.core.zones.write(lease.chunk, lease.at, part) {
                self.core.close(lease.chunk);
                return Err(error);
            }
            self.core.count(here, extent.taken());
            self.core.settling.wrote(self.body.stay.level, extent.taken());
            lease.at += extent.taken();
            (rest, left) = (after, left - here);
            self.keep(lane, lease, extent, chunk_bytes);
        }
        Ok(())
    }

    fn keep(&mut self, lane: usize, lease: OpenChunk, extent: Extent, chunk_bytes: u64) {
        let mut state = self.core.state.lock();
        state.space.add(&extent);
        self.body.push(extent);
        self.written += u64::from(extent.bytes);
        let is_shared = self.core.zones.active_max().is_some();
        if is_shared || lease.at + BLOCK_BYTES > chunk_bytes {
            self.core.give_back(&mut state, lease, self.body.stay);
        } else {
            self.lanes[lane] = Some(lease);
        }
        self.turn += 1;
    }

    fn try_append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while self.buffer.len() + rest.len() >= PIECE_BYTES {
            let (part, after) = rest.split_at(PIECE_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(part);
            self.write_out()?;
            rest = after;
        }
        self.buffer.extend_from_slice(rest);
        Ok(())
    }

    fn try_sync(&mut self) -> Result<()> {
        self.write_out()?;
        if self.written == self.synced {
            return Ok(());
        }
        self.core.zones.flush()?;
        let mut state = self.core.state.lock();
        let ops = [JournalRecord::Extend(self.body.id, self.body.unrecorded())];
        self.body.record();
        if self.body.is_linked() {
            state.write(&ops)?;
            state.journal.flush()?;
            self.core.settling.ended(&self.name, self.body.stay.level);
        }
        self.synced = self.written;
        Ok(())
    }
}

impl WritableFile for FlashWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.unless_failed(|writer| writer.try_append(bytes))
    }

    fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn sync(&mut self) -> Result<()> {
        self.unless_failed(FlashWriter::try_sync)
    }
}

impl Drop for FlashWriter {
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        for lease in self.lanes.drain(..).flatten() {
            self.core.give_back(&mut state, lease, self.body.stay);
        }
        self.body.open.store(false, Ordering::Release);
    }
}
