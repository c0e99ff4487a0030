//! Reads the content of a chunk in steps, only as far as the caller asks. A finished chunk counts
//! as full even if little was written to it, and a zone of a disk can have a gigabyte.

use crate::Chunk;
use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use esker_base::{Error, Result};

/// What is read at a time, at the least.
const PIECE_BYTES: u64 = 1 << 20;

/// A chunk's content, of which a piece is at hand.
pub(crate) struct Content<'a> {
    zones: &'a dyn ChunkDevice,
    chunk: Chunk,
    pub(crate) written: u64,
    start: u64,
    piece: Vec<u8>,
}

impl<'a> Content<'a> {
    pub(crate) fn of(zones: &'a dyn ChunkDevice, chunk: Chunk) -> Result<Self> {
        let written = zones.written(chunk)?;
        Ok(Content { zones, chunk, written, start: 0, piece: Vec::new() })
    }

    /// The bytes from the block at `at` on: `len` at the least, or all that there are.
    pub(crate) fn from(&mut self, at: u64, len: usize) -> Result<&[u8]> {
        let has_it = at >= self.start && at + len as u64 <= self.start + self.piece.len() as u64;
        if !has_it {
            self.read(at, len)?;
        }
        Ok(&self.piece[(at - self.start) as usize..])
    }

    fn read(&mut self, at: u64, len: usize) -> Result<()> {
        let most = self.written.saturating_sub(at);
        let wanted = (len as u64).next_multiple_of(BLOCK_BYTES).max(PIECE_BYTES).min(most);
        self.start = at;
        self.piece = vec![0; wanted as usize];
        if wanted == 0 {
            return Ok(());
        }
        let mut outcome = self.zones.read(self.chunk, at, &mut self.piece);
        // The last block may be incomplete. Other read errors are returned: the data may exist.
        if outcome.as_ref().is_err_and(Error::is_corruption) {
            self.piece.truncate((wanted - BLOCK_BYTES) as usize);
            outcome = self.zones.read(self.chunk, at, &mut self.piece);
        }
        if outcome.is_err() {
            self.piece.clear();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::chunk_device::MemoryChunkDevice;

    #[test]
    fn content_is_read_in_pieces_wherever_it_is_asked_for() {
        let zones = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 8, 8 << 20));
        let chunk = zones.geometry().chunk(2);
        let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 4096) as u8).collect();
        zones.write(chunk, 0, &bytes).unwrap();
        let mut content = Content::of(&zones, chunk).unwrap();
        for (at, len) in [(0, 1), (4096, 2 << 20), (0, 4096), (3 << 20, 1), (1 << 20, 5 << 20)] {
            let found = content.from(at, len).unwrap();
            assert!(found.len() >= len || at + found.len() as u64 == 3 << 20, "{at}, {len}");
            assert!(found == &bytes[at as usize..at as usize + found.len()], "{at}, {len}");
        }
        let mut first = Content::of(&zones, chunk).unwrap();
        assert_eq!(first.from(0, 4096).unwrap().len() as u64, PIECE_BYTES);
    }
}
