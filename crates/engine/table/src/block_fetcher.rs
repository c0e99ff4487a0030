//! Reads blocks of one table's file, checks them and unpacks them.

use crate::Compression;
use crate::block::Block;
use crate::compression::decompress;
use crate::format::{BlockKind, TRAILER_BYTES, block_checksum};
use esker_base::coding::u32_at;
use esker_base::operation_cost::count;
use esker_base::{Error, Result};
use esker_storage::ReadableFile;
use std::sync::Arc;

/// The file that a table is in.
pub(crate) struct BlockFetcher {
    pub(crate) file: Arc<dyn ReadableFile>,
    pub(crate) file_id: u64,
    /// Where the table starts in the file.
    pub(crate) offset: u64,
}

impl BlockFetcher {
    /// A report of damage at `offset` of the file.
    #[cold]
    pub(crate) fn damaged(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corruption(self.file.name(), offset, what)
    }

    /// Reads `bytes` bytes at `offset` of the file.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut out = vec![0; bytes];
        self.file.read_exact_at(offset, &mut out)?;
        count(|cost| cost.bytes_read += bytes as u64);
        Ok(out)
    }

    /// Checks a stored block that is at `offset` of the file. Gives its bytes without trailer,
    /// and how they are packed.
    pub(crate) fn check<'a>(
        &self,
        kind: BlockKind,
        offset: u64,
        stored: &'a [u8],
    ) -> Result<(Compression, &'a [u8])> {
        let damaged = |what| self.damaged(offset, format!("{}: {what}", kind.name()));
        let body = stored.len().checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("too short"))?;
        let checksum = block_checksum(self.file_id, offset, kind, &stored[..=body]);
        if checksum != u32_at(stored, body + 1) {
            return Err(damaged("checksum mismatch"));
        }
        let compression =
            Compression::from_u8(stored[body]).ok_or_else(|| damaged("unknown compression"))?;
        Ok((compression, &stored[..body]))
    }

    /// Checks and unpacks a stored section.
    pub(crate) fn section(&self, kind: BlockKind, offset: u64, stored: &[u8]) -> Result<Vec<u8>> {
        match self.check(kind, offset, stored)? {
            (Compression::None, body) => Ok(body.to_vec()),
            (compression, body) => match decompress(compression, body) {
                Some(bytes) => Ok(bytes.to_vec()),
                None => Err(self.damaged(offset, format!("{}: does not unpack", kind.name()))),
            },
        }
    }

    /// Checks and unpacks a data block. `keep` gives the stored bytes permanently, if they are not
    /// packed.
    pub(crate) fn data_block(
        &self,
        offset: u64,
        stored: &[u8],
        keep: impl FnOnce() -> Arc<[u8]>,
    ) -> Result<Block> {
        let bytes = match self.check(BlockKind::Data, offset, stored)? {
            (Compression::None, _) => keep(),
            (compression, body) => decompress(compression, body)
                .ok_or_else(|| self.damaged(offset, "data block: does not unpack"))?,
        };
        Block::new(bytes)
            .ok_or_else(|| self.damaged(offset, "data block: its parts do not fit in it"))
    }
}
