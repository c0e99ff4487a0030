//! A file that grows by appending: bytes are gathered, and each full buffer is a record. A sync ends a record.

use crate::header::{HEADER_BYTES, Header};
use crate::record::{self, ALIGNMENT, DATA_BYTES_MAX, OVERHEAD_BYTES};
use esker_base::{Error, Result};
use esker_storage::WritableFile;

pub(crate) struct EncryptedWriter {
    below: Box<dyn WritableFile>,
    header: Header,
    /// The decrypted bytes of a full record.
    record_bytes: usize,
    /// The offset of the first byte in `buffer`.
    offset: u64,
    /// Appended, and in no record yet. Shorter than a full record.
    buffer: Vec<u8>,
    /// Where the next record begins in the file below, if it has no padding.
    position: u64,
    sealed: Vec<u8>,
    /// The first failure. How much of the last write arrived is unknown, so nothing more is written.
    failed: Option<Error>,
}

impl EncryptedWriter {
    /// `below` has the header, and nothing else.
    pub(crate) fn new(below: Box<dyn WritableFile>, header: Header) -> Self {
        let record_bytes = match header.stride {
            0 => DATA_BYTES_MAX,
            stride => stride as usize - OVERHEAD_BYTES,
        };
        EncryptedWriter {
            below,
            header,
            record_bytes,
            offset: 0,
            buffer: Vec::new(),
            position: HEADER_BYTES as u64,
            sealed: Vec::new(),
            failed: None,
        }
    }

    /// Writes a record of `data`.
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.sealed.clear();
        let alignment = self.header.stride.max(ALIGNMENT as u32) as u64;
        // A sync has ended the record before this one early.
        let behind = (self.position - HEADER_BYTES as u64) % alignment;
        let padding = if behind == 0 { 0 } else { alignment - behind };
        self.sealed.resize(padding as usize, 0);
        let position = self.position + padding;
        record::append(&self.header.key, position, self.offset, data, &mut self.sealed);
        if self.header.stride == 0 {
            self.sealed.resize(self.sealed.len().next_multiple_of(ALIGNMENT), 0);
        }
        self.below.append(&self.sealed)?;
        self.position += self.sealed.len() as u64;
        self.offset += data.len() as u64;
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let written = self.write(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        written
    }

    fn append_records(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.buffer.len() + bytes.len() >= self.record_bytes {
            let (head, rest) = bytes.split_at(self.record_bytes - self.buffer.len());
            if self.buffer.is_empty() {
                self.write(head)?;
            } else {
                self.buffer.extend_from_slice(head);
                self.write_buffer()?;
            }
            bytes = rest;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn write_rest(&mut self) -> Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.write_buffer() }
    }

    fn sync_records(&mut self) -> Result<()> {
        self.write_rest()?;
        self.below.sync()
    }

    fn publish_records(&mut self) -> Result<()> {
        self.write_rest()?;
        self.below.publish()
    }

    /// Does `work`, unless something failed before.
    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let done = work(self);
        self.failed = done.as_ref().err().cloned();
        done
    }
}

impl WritableFile for EncryptedWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.unless_failed(|writer| writer.append_records(bytes))
    }

    fn len(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    fn sync(&mut self) -> Result<()> {
        self.unless_failed(Self::sync_records)
    }

    fn start_writeback(&mut self) -> Result<()> {
        self.unless_failed(|writer| writer.below.start_writeback())
    }

    fn publish(&mut self) -> Result<()> {
        self.unless_failed(Self::publish_records)
    }
}
