//! A log: chunks that were made zero when it was created, written in place.
//!
//! A write is one write of whole blocks: what a block has before the first byte is remembered from the write before,
//! which ended there, and read if it is not.

use super::BLOCK_BYTES;
use super::inode::Inode;
use crate::LogFile;
use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::sync::Arc;

const BLOCK: usize = BLOCK_BYTES as usize;

pub(super) struct Log {
    pub(super) body: Arc<Inode>,
    pub(super) name: String,
    /// The block that the last write ended in, and where it is.
    pub(super) last: Mutex<Option<(u64, Vec<u8>)>>,
}

impl Log {
    pub(super) fn new(body: Arc<Inode>, name: &str) -> Arc<Self> {
        Arc::new(Log { body, name: name.to_owned(), last: Mutex::new(None) })
    }

    fn block(&self, at: u64, last: Option<&(u64, Vec<u8>)>) -> Result<Vec<u8>> {
        if let Some((_, block)) = last.filter(|(start, _)| *start == at) {
            return Ok(block.clone());
        }
        let mut block = vec![0; BLOCK];
        self.body.read(at, &mut block)?;
        Ok(block)
    }
}

impl LogFile for Log {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.body.written());
        let Some(end) = end else {
            let what = format!("{} bytes at {offset} do not fit into it", bytes.len());
            let source = io::Error::new(ErrorKind::InvalidInput, what);
            return Err(Error::io("write to", &self.name, source));
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let mut last = self.last.lock();
        let start = offset / BLOCK_BYTES * BLOCK_BYTES;
        let tail = (end - 1) / BLOCK_BYTES * BLOCK_BYTES;
        let mut blocks = Vec::with_capacity((tail - start) as usize + BLOCK);
        if start < offset {
            let block = self.block(start, last.as_ref())?;
            blocks.extend_from_slice(&block[..(offset - start) as usize]);
        }
        blocks.extend_from_slice(bytes);
        if end < tail + BLOCK_BYTES {
            let block = self.block(tail, last.as_ref())?;
            blocks.extend_from_slice(&block[(end - tail) as usize..]);
        }
        // What a write that fails leaves is not known.
        *last = None;
        self.body.write(start, &blocks)?;
        *last = Some((tail, blocks.split_off(blocks.len() - BLOCK)));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.body.flush()
    }

    fn name(&self) -> &str {
        &self.name
    }
}
