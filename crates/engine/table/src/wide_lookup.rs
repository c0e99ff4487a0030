//! Lookups of many keys, whose data blocks are read at once.
//!
//! A lookup whose block is not in memory fails with [`Error::WouldBlock`], and the block is noted.
//! [`WideLookup::read`] then reads all noted blocks: sorted by place, each once, neighbours in one
//! piece. The same lookups, asked again, find their blocks here, whatever the cache has kept.
//!
//! So it is with parts of an index and filter, before the block. A part that the cache did not keep
//! until its lookup is asked again is read by that lookup alone.

use crate::block::Block;
use crate::reader::{BlockReadStats, Found, Table, count_read};
use crate::table_index::Patience;
use esker_base::operation_cost::count;
use esker_base::{Error, Result, Seqno};
use esker_storage::{ReadBytes, ReadRequest, WideReader};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Blocks and parts are noted up to this many bytes, and one in any case.
const NOTED_BYTES_MAX: u64 = 2 << 20;

/// Neighbours are read in pieces of at most this many bytes.
const PIECE_BYTES_MAX: u64 = 128 << 10;

/// Which block: the file, and where in it.
type Place = (u64, u64);

/// A block or a part to read.
struct Noted {
    table: Arc<Table>,
    place: Range<u64>,
    /// The number of the part, if it is one.
    part: Option<usize>,
}

/// A block that was read, or why it was not.
struct Loaded {
    block: Result<Block>,
    /// What a lookup counts. Only the first that uses the block does.
    bytes: u64,
}

/// See the file's head.
#[derive(Default)]
pub struct WideLookup {
    noted: BTreeMap<Place, Noted>,
    noted_bytes: u64,
    loaded: BTreeMap<Place, Loaded>,
    /// The parts that were noted. None is noted twice, so that lookups come to an end.
    parts: BTreeSet<Place>,
}

impl WideLookup {
    /// As [`Table::find`]. Fails with [`Error::WouldBlock`] if the block is still to be read.
    #[doc(hidden)]
    pub fn find(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        snapshot: Seqno,
        stats: &mut BlockReadStats,
    ) -> Result<Option<Found>> {
        let patience = self.note_part(table, key, snapshot)?;
        table.lookup(key, snapshot, patience, |_, place| self.block(table, place, stats))
    }

    /// As [`Table::may_contain`]. Fails with [`Error::WouldBlock`] if a part of the filter is still to be read.
    #[doc(hidden)]
    pub fn may_contain(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        key_hash: u64,
        snapshot: Seqno,
    ) -> Result<bool> {
        let patience = self.note_part(table, key, snapshot)?;
        table.may_contain(key, key_hash, snapshot, patience)
    }

    /// Notes the part of the index that is about the key, if it is neither in memory nor was noted.
    fn note_part(&mut self, table: &Arc<Table>, key: &[u8], snapshot: Seqno) -> Result<Patience> {
        if let Some((part, place)) = table.missing_part(key, snapshot) {
            let at = (table.source.file_id, place.start);
            let bytes = place.end - place.start;
            if self.noted.contains_key(&at) {
                return Err(Error::WouldBlock);
            }
            if !self.parts.contains(&at) {
                if self.takes(bytes) {
                    self.parts.insert(at);
                    self.noted_bytes += bytes;
                    self.noted.insert(at, Noted { table: table.clone(), place, part: Some(part) });
                }
                return Err(Error::WouldBlock);
            }
        }
        Ok(Patience::MayRead)
    }

    /// Whether so many bytes more may be noted.
    fn takes(&self, bytes: u64) -> bool {
        self.noted.is_empty() || self.noted_bytes + bytes <= NOTED_BYTES_MAX
    }

    /// Whether there are blocks to read.
    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    fn block(
        &mut self,
        table: &Arc<Table>,
        place: Range<u64>,
        stats: &mut BlockReadStats,
    ) -> Result<Block> {
        let key = table.block_key(&place);
        let at = (key.file_id, key.offset);
        if let Some(loaded) = self.loaded.get_mut(&at) {
            let bytes = std::mem::take(&mut loaded.bytes);
            stats.blocks += u64::from(bytes > 0);
            stats.bytes += bytes;
            return loaded.block.clone();
        }
        if self.noted.contains_key(&at) {
            return Err(Error::WouldBlock);
        }
        if let Some(block) = table.cache.get(key) {
            count(|cost| cost.cache_hits += 1);
            return Ok(block);
        }
        let bytes = place.end - place.start;
        if self.takes(bytes) {
            count(|cost| cost.cache_misses += 1);
            self.noted_bytes += bytes;
            self.noted.insert(at, Noted { table: table.clone(), place, part: None });
        }
        Err(Error::WouldBlock)
    }

    /// Reads the noted blocks, and forgets those that were read before.
    pub fn read(&mut self, reader: &WideReader) {
        let noted = std::mem::take(&mut self.noted);
        self.noted_bytes = 0;
        self.loaded.clear();
        let blocks: Vec<(Place, Noted)> = noted.into_iter().collect();
        let pieces: Vec<_> = blocks.chunk_by(|(_, one), (_, next)| one.goes_on_in(next)).collect();
        let pieces: Vec<_> = pieces.into_iter().flat_map(split).collect();
        let requests: Vec<_> = pieces.iter().map(|piece| request(piece)).collect();
        for (piece, request) in pieces.iter().zip(&requests) {
            let blocks = piece.iter().filter(|(_, noted)| noted.part.is_none()).count();
            count_read(blocks, &(request.offset..request.offset + request.bytes as u64));
        }
        for (piece, read) in pieces.iter().zip(reader.read_all(&requests)) {
            for (place, noted) in *piece {
                if let Some(part) = noted.part {
                    noted.keep_part(part, piece, &read);
                    continue;
                }
                let block = noted.block_in(piece, &read);
                let bytes = noted.place.end - noted.place.start;
                self.loaded.insert(*place, Loaded { block, bytes });
            }
        }
    }
}

/// Cuts neighbours into pieces of bounded length.
fn split(neighbours: &[(Place, Noted)]) -> Vec<&[(Place, Noted)]> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    for at in 1..neighbours.len() {
        let (first, this) = (&neighbours[start].1.place, &neighbours[at].1.place);
        if this.end - first.start > PIECE_BYTES_MAX {
            pieces.push(&neighbours[start..at]);
            start = at;
        }
    }
    pieces.push(&neighbours[start..]);
    pieces
}

fn request(piece: &[(Place, Noted)]) -> ReadRequest<'_> {
    let (first, last) = (&piece[0].1, &piece[piece.len() - 1].1);
    let bytes = (last.place.end - first.place.start) as usize;
    ReadRequest { file: &*first.table.source.file, offset: first.place.start, bytes }
}

impl Noted {
    /// Whether `next` begins where this one ends.
    fn goes_on_in(&self, next: &Noted) -> bool {
        Arc::ptr_eq(&self.table, &next.table) && self.place.end == next.place.start
    }

    /// The block out of `read`, the bytes of `piece`. Where a piece of several failed, the block is read
    /// alone: another one may be the bad one.
    fn block_in(&self, piece: &[(Place, Noted)], read: &Result<ReadBytes>) -> Result<Block> {
        let block = match read {
            Ok(bytes) => {
                let stored = self.stored(piece, bytes);
                self.table.source.data_block(self.place.start, stored, || stored.into())?
            }
            Err(error) if piece.len() == 1 => return Err(error.clone()),
            Err(_) => self.table.read_block(&self.place)?,
        };
        self.table.cache.insert(self.table.block_key(&self.place), block.clone());
        Ok(block)
    }

    /// Gives the cache the part out of `read`. The lookup reads a part that is damaged once more, and reports it.
    fn keep_part(&self, part: usize, piece: &[(Place, Noted)], read: &Result<ReadBytes>) {
        if let Ok(bytes) = read {
            self.table.keep_part(part, self.stored(piece, bytes));
        }
    }

    /// Its bytes in those of `piece`.
    fn stored<'a>(&self, piece: &[(Place, Noted)], bytes: &'a ReadBytes) -> &'a [u8] {
        let start = (self.place.start - piece[0].1.place.start) as usize;
        &bytes[start..start + (self.place.end - self.place.start) as usize]
    }
}
