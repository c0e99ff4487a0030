//! Writes a large value to a file of its own, a block at a time.

use crate::version::blocks::{BLOCK_BYTES, BlockSums, describe, trailer};
use crate::version::{ValueFileMeta, large_value_header};
use esker_base::{Result, ValuePlace};
use esker_storage::WritableFile;

/// After so many bytes, the system is asked to start writing them to the device.
const WRITEBACK_BYTES: u64 = 8 << 20;

/// A file that a large value is written to.
pub(crate) struct LargeValueFile<'a> {
    file: Box<dyn WritableFile + 'a>,
    sums: BlockSums,
    value_bytes: u64,
    written_back: u64,
}

impl<'a> LargeValueFile<'a> {
    /// The most bytes of a block.
    pub(crate) const BLOCK_BYTES: usize = BLOCK_BYTES;

    /// Begins to write to the empty file with the ID `id`.
    pub(crate) fn begin(id: u64, mut file: Box<dyn WritableFile + 'a>) -> Result<Self> {
        file.append(&large_value_header(id))?;
        Ok(LargeValueFile { file, sums: BlockSums::of(id), value_bytes: 0, written_back: 0 })
    }

    /// Adds a block. Only the last one may have fewer than [`LargeValueFile::BLOCK_BYTES`] bytes, and at least 1.
    pub(crate) fn add(&mut self, block: &[u8]) -> Result<()> {
        debug_assert!(self.value_bytes.is_multiple_of(BLOCK_BYTES as u64) && !block.is_empty());
        let checksum = self.sums.add(self.file.len(), block);
        self.file.append(block)?;
        self.file.append(&checksum.to_le_bytes())?;
        self.value_bytes += block.len() as u64;
        if self.file.len() - self.written_back >= WRITEBACK_BYTES {
            self.file.start_writeback()?;
            self.written_back = self.file.len();
        }
        Ok(())
    }

    /// Makes the value durable, but for the name of the file. Returns its place and what the manifest says of the file.
    pub(crate) fn finish(mut self) -> Result<(ValuePlace, ValueFileMeta)> {
        let place = self.sums.place(self.value_bytes);
        self.file.append(&trailer(&place))?;
        self.file.sync()?;
        debug_assert_eq!(self.file.len(), describe(&place).bytes);
        Ok((place, describe(&place)))
    }
}
