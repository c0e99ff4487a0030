//! A file that grows by appending: bytes gather in a buffer and go to the device in large pieces of whole blocks.
//!
//! A sync writes the rest, the last block filled up with zeros, and then records the length in the directory. That block
//! stays in the buffer, and is written again with what follows; what it had before is the same both times.

use super::BLOCK_BYTES;
use super::directory::Directory;
use super::inode::Inode;
use super::write_behind::InFlightWrites;
use crate::WritableFile;
use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Large enough that a piece costs little more than its bytes.
const BUFFER_BYTES: usize = 1 << 20;

pub(super) struct Writer {
    directory: Arc<Mutex<Directory>>,
    body: Arc<Inode>,
    underway: Arc<InFlightWrites>,
    /// Where the buffer begins in the file: a multiple of blocks.
    start: u64,
    buffer: Vec<u8>,
    /// What was written and flushed.
    synced: u64,
    /// The first failure. What the device has since is unknown.
    failed: Option<Error>,
}

impl Writer {
    pub(super) fn new(directory: Arc<Mutex<Directory>>, body: Arc<Inode>) -> Self {
        let underway = Arc::default();
        Writer { directory, body, underway, start: 0, buffer: Vec::new(), synced: 0, failed: None }
    }

    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)?;
        let outcome = work(self);
        self.failed = outcome.clone().err();
        outcome
    }

    /// Hands on the whole blocks of the buffer.
    fn hand_on(&mut self) -> Result<()> {
        let whole = self.buffer.len() / BLOCK_BYTES as usize * BLOCK_BYTES as usize;
        if whole == 0 {
            return Ok(());
        }
        self.body.reserve(self.start + whole as u64)?;
        let rest = self.buffer.split_off(whole);
        let blocks = std::mem::replace(&mut self.buffer, rest);
        let len = self.start + whole as u64;
        self.body.core().behind.write(&self.body, self.start, blocks, len, &self.underway);
        self.start = len;
        Ok(())
    }

    /// Writes the last, partial block, too, and waits for everything.
    fn write_all(&mut self) -> Result<()> {
        self.hand_on()?;
        self.underway.wait()?;
        let len = self.len();
        if !self.buffer.is_empty() && self.body.written() < len {
            self.body.reserve(len)?;
            let mut block = self.buffer.clone();
            block.resize(BLOCK_BYTES as usize, 0);
            self.body.write(self.start, &block)?;
            self.body.wrote(len);
        }
        Ok(())
    }

    fn try_append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while self.buffer.len() + rest.len() >= BUFFER_BYTES {
            let (part, after) = rest.split_at(BUFFER_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(part);
            self.hand_on()?;
            rest = after;
        }
        self.buffer.extend_from_slice(rest);
        Ok(())
    }

    fn try_sync(&mut self) -> Result<()> {
        self.write_all()?;
        let len = self.len();
        if len == self.synced {
            return Ok(());
        }
        self.body.flush()?;
        let mut directory = self.directory.lock();
        let before = self.body.record(len);
        if let Err(error) = directory.write() {
            // So that others' changes do not fail for this one, which may be too much for the directory.
            self.body.record(before);
            return Err(error);
        }
        directory.flush()?;
        self.synced = len;
        Ok(())
    }
}

impl WritableFile for Writer {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.unless_failed(|writer| writer.try_append(bytes))
    }

    fn len(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    fn sync(&mut self) -> Result<()> {
        self.unless_failed(Writer::try_sync)
    }

    fn start_writeback(&mut self) -> Result<()> {
        self.unless_failed(Writer::hand_on)
    }
}
