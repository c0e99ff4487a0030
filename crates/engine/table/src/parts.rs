//! The index and filter of a large table, in parts of about 16 KiB.
//!
//! ```text
//! part:   filter of the keys of some data blocks | trailer | index of these blocks | trailer
//! top:    index, with parts in the place of data blocks
//!         then for each part: data blocks varint | their bytes varint | bytes of the filter varint
//! ```
//!
//! An open table has the top in memory. It reads parts as they are needed, through the
//! [cache](crate::part_cache). Filter and index of a part are next to each other, so that a get reads both at
//! once. Each has a checksum of its own: a damaged filter does not hide the index.

use crate::block_fetcher::BlockFetcher;
use crate::filter::Filter;
use crate::format::{BlockKind, TRAILER_BYTES};
use crate::index::Index;
use esker_base::coding::take_varint64;
use esker_base::{Result, Seqno};
use std::ops::Range;

/// When the index and the filter of a table are cut into parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartLimits {
    /// A part is closed once its index and its filter have so many bytes,
    pub bytes: usize,
    /// and so many blocks. This bounds the top, which is in memory, if keys are long.
    pub blocks_min: u64,
    /// A table whose whole index and filter have no more bytes than this keeps them whole.
    pub whole_bytes_max: usize,
}

impl Default for PartLimits {
    /// * 16 KiB: a device reads that in little more time than a page, and there are about 200 data blocks
    ///   for each part.
    /// * 32 KiB whole: about what an open table has in memory anyway, for its sketches and properties.
    fn default() -> Self {
        PartLimits { bytes: 16 << 10, blocks_min: 64, whole_bytes_max: 32 << 10 }
    }
}

/// A part in memory.
#[derive(Debug)]
pub(crate) struct Part {
    /// Of the keys of its blocks. If it is damaged, it excludes none.
    pub(crate) filter: Filter,
    /// Offsets are from the start of the part's first data block.
    pub(crate) index: Index,
}

impl Part {
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Part>() + self.filter.memory_bytes() + self.index.memory_bytes()
    }
}

/// The top of an index: which part is about which keys and which data blocks.
#[derive(Debug)]
pub(crate) struct Parts {
    top: Index,
    /// Where the parts start, from the start of the table: behind the data blocks.
    start: u64,
    /// The number of each part's first data block, and that of all data blocks.
    first_blocks: Vec<usize>,
    /// Where each part's first data block starts, and where the last one ends.
    data_starts: Vec<u64>,
    /// The bytes of each part's filter, as stored. 0 without a filter.
    filter_bytes: Vec<u32>,
}

impl Parts {
    /// Reads the top of a table with so many bytes of data blocks and of parts. `None` if it is none.
    pub(crate) fn decode(mut input: &[u8], data_bytes: u64, part_bytes: u64) -> Option<Parts> {
        let top = Index::decode_front(&mut input)?;
        let (mut first_blocks, mut data_starts, mut filter_bytes) = (vec![0], vec![0], Vec::new());
        let (mut block, mut data) = (0usize, 0u64);
        for part in 0..top.len() {
            let blocks = usize::try_from(take_varint64(&mut input)?).ok()?;
            block = block.checked_add(blocks).filter(|_| blocks > 0)?;
            data = data.checked_add(take_varint64(&mut input)?)?;
            let filter = take_varint64(&mut input)?;
            let place = top.block(part);
            if filter > place.end - place.start {
                return None;
            }
            first_blocks.push(block);
            data_starts.push(data);
            filter_bytes.push(u32::try_from(filter).ok()?);
        }
        let is_whole = top.len() > 0 && input.is_empty();
        let is_full = data == data_bytes && top.blocks_end() == part_bytes;
        (is_whole && is_full).then_some(Parts {
            top,
            start: data_bytes,
            first_blocks,
            data_starts,
            filter_bytes,
        })
    }

    /// The number of parts, at least 1.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.top.len()
    }

    /// The part with the first version at or after `(key, seqno)`, or the number of parts.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], seqno: Seqno) -> usize {
        self.top.find(key, seqno)
    }

    /// The key of the separator of part `at`, which is that of its last block.
    pub(crate) fn separator(&self, at: usize) -> Vec<u8> {
        self.top.separator(at)
    }

    /// The numbers of the data blocks of part `at`.
    #[inline]
    pub(crate) fn blocks_of(&self, at: usize) -> Range<usize> {
        self.first_blocks[at]..self.first_blocks[at + 1]
    }

    /// The number of data blocks.
    #[inline]
    pub(crate) fn blocks(&self) -> usize {
        self.first_blocks[self.len()]
    }

    /// The part of data block `n`.
    #[inline]
    pub(crate) fn part_of(&self, n: usize) -> usize {
        self.first_blocks.partition_point(|&first| first <= n) - 1
    }

    /// Where the data blocks of part `at` are, from the start of the table.
    #[inline]
    pub(crate) fn data_of(&self, at: usize) -> Range<u64> {
        self.data_starts[at]..self.data_starts[at + 1]
    }

    /// Where part `at` is, from the start of the table.
    pub(crate) fn place(&self, at: usize) -> Range<u64> {
        let place = self.top.block(at);
        self.start + place.start..self.start + place.end
    }

    /// Reads part `at` out of `stored`, its bytes in the file. `report` gets damage of the filter.
    ///
    /// # Errors
    /// Corruption of the index.
    pub(crate) fn read(
        &self,
        at: usize,
        source: &BlockFetcher,
        stored: &[u8],
        report: impl FnOnce(esker_base::Error),
    ) -> Result<Part> {
        let start = source.offset + self.place(at).start;
        let (filter, index) = stored.split_at(self.filter_bytes[at] as usize);
        let filter = if filter.is_empty() {
            Filter::default()
        } else {
            let impossible = || source.damaged(start, "part of the filter: impossible");
            let body = source.section(BlockKind::FilterPart, start, filter);
            let read = body.and_then(|body| Filter::decode(&body).ok_or_else(impossible));
            read.unwrap_or_else(|damage| {
                report(damage);
                Filter::default()
            })
        };
        let start = start + u64::from(self.filter_bytes[at]);
        let body = source.section(BlockKind::IndexPart, start, index)?;
        let index = Index::decode(&body).filter(|index| self.fits(at, index));
        let index = index.ok_or_else(|| source.damaged(start, "part of the index: impossible"))?;
        Ok(Part { filter, index })
    }

    /// Whether `index` is about the data blocks of part `at`.
    fn fits(&self, at: usize, index: &Index) -> bool {
        let data = self.data_of(at);
        index.len() == self.blocks_of(at).len()
            && index.blocks_end() == data.end - data.start
            && index.separator(index.len() - 1) == self.separator(at)
    }

    /// Bytes of memory that the top takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.top.memory_bytes()
            + size_of::<usize>() * self.first_blocks.capacity()
            + size_of::<u64>() * self.data_starts.capacity()
            + size_of::<u32>() * self.filter_bytes.capacity()
    }
}

/// What a block of this many bytes takes in the file.
pub(crate) fn stored_bytes(body: &[u8]) -> u64 {
    (body.len() + TRAILER_BYTES) as u64
}
