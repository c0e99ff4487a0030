//! Reads data blocks ahead of a cursor that walks a table forward: for a reader, or for a compaction.
//!
//! ```text
//! blocks:   12   13   [14 15]   [16 17 18 19]   [20 21 22 23 ...
//!           miss miss  piece     piece, twice as large: read while 14 and 15 are walked over
//! ```
//!
//! After a piece that the page cache had, a small one is read when the walk reaches it: nothing is
//! waited for, and many walks end before.
//!
//! The second miss of a walk starts it: a block that the cache does not have, where all from the first
//! miss to it were walked over. A miss anywhere else ends it. No piece goes beyond the block with the
//! end of the cursor's range. A compaction walks whole tables, and reads pieces of one size from its
//! first block on.
//!
//! The next part of the index is read when a piece goes into it.
//!
//! A piece that cannot be read is no error: its blocks are read one by one, and the cursor gets to the
//! last one before the damage.

use crate::block::Block;
use crate::part_cache::PartUse;
use crate::reader::{Table, count_read};
use crate::table_index::HeldPart;
use crate::table_iter::ReadPurpose;
use esker_base::Result;
use esker_storage::{PendingRead, ReadBytes, ReadRequest};
use std::ops::Range;

/// The first piece, in bytes, and the largest.
const FIRST_BYTES: u64 = 16 << 10;
const LARGEST_BYTES: u64 = 1 << 20;

/// No larger piece is read only when the walk reaches it. A walk that went so far goes on, as a rule.
const ON_DEMAND_BYTES_MAX: u64 = 256 << 10;

/// A compaction's pieces: large enough to make seeks of a disk and calls to the system rare, small
/// enough that those of dozens of inputs fit in memory.
const COMPACTION_BYTES: u64 = 256 << 10;

/// A block that the cache did not have.
pub(crate) enum Loaded {
    /// Read alone.
    Alone(Block),
    /// Read with others by a cursor that walked over those before it.
    Ahead(Block),
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// The next block of the walk from the last miss on.
    expected: Option<usize>,
    /// Pieces, while there are some.
    pieces: Option<Box<Pieces>>,
}

struct Pieces {
    /// The piece in memory, and where it starts.
    current: Option<(u64, ReadBytes)>,
    /// What is read while the blocks of the current one are walked over, and the block behind it.
    next: Option<(Range<u64>, PendingRead, usize)>,
    /// The part of the index with the next block.
    part: HeldPart,
    /// The size of the piece after that.
    bytes: u64,
    purpose: ReadPurpose,
}

impl Pieces {
    fn new(bytes: u64, purpose: ReadPurpose) -> Box<Pieces> {
        Box::new(Pieces { current: None, next: None, part: HeldPart::default(), bytes, purpose })
    }
}

impl ReadAhead {
    /// The state for the table after that of `self`, whose cursor has reached the end.
    pub(crate) fn for_next_table(&self, blocks: usize) -> ReadAhead {
        match &self.pieces {
            Some(pieces) if self.expected == Some(blocks) => ReadAhead {
                expected: Some(0),
                pieces: Some(Pieces::new(pieces.bytes, pieces.purpose)),
            },
            _ => ReadAhead::default(),
        }
    }

    /// Notes that block `number` is in the cache.
    #[inline]
    pub(crate) fn pass(&mut self, number: usize) {
        if self.expected == Some(number) {
            self.expected = Some(number + 1);
        }
    }

    /// The block of this number and place, which is not in the cache. The cursor reads none from block `end` on.
    #[cold]
    pub(crate) fn load(
        &mut self,
        table: &Table,
        (number, place): (usize, &Range<u64>),
        end: usize,
    ) -> Result<Loaded> {
        let is_next = self.expected.replace(number + 1) == Some(number);
        if is_next {
            let pieces =
                self.pieces.get_or_insert_with(|| Pieces::new(FIRST_BYTES, ReadPurpose::Read));
            if let Some(block) = pieces.block(table, (number, place), end) {
                return block.map(Loaded::Ahead);
            }
        } else {
            self.pieces = None;
        }
        table.read_block(place).map(Loaded::Alone)
    }

    /// The block of this number and place for a compaction, which reads all that follow, too.
    pub(crate) fn load_for_compaction(
        &mut self,
        table: &Table,
        (number, place): (usize, &Range<u64>),
    ) -> Result<Block> {
        let new = || Pieces::new(COMPACTION_BYTES, ReadPurpose::Compaction);
        let block = self.pieces.get_or_insert_with(new).block(table, (number, place), usize::MAX);
        block.unwrap_or_else(|| table.read_block(place))
    }
}

impl Pieces {
    /// The block of this number and place out of a piece, unless none with it can be read.
    fn block(
        &mut self,
        table: &Table,
        (number, place): (usize, &Range<u64>),
        end: usize,
    ) -> Option<Result<Block>> {
        if !self.has(place) {
            self.current = None;
            if !self.next.as_ref().is_some_and(|(next, ..)| next.contains(&place.start)) {
                self.next = None;
                self.start(table, number, end);
            }
            let (range, read, after) = self.next.take()?;
            // The one after it is on its way before this one is waited for.
            if !read.was_cached() || self.bytes > ON_DEMAND_BYTES_MAX {
                self.start(table, after, end);
            }
            let bytes = read.wait(&request(table, &range)).ok()?;
            self.current = Some((range.start, bytes));
        }
        let (start, bytes) = self.current.as_ref().filter(|_| self.has(place))?;
        let stored = &bytes[(place.start - start) as usize..(place.end - start) as usize];
        Some(table.source.data_block(place.start, stored, || stored.into()))
    }

    fn has(&self, place: &Range<u64>) -> bool {
        self.current.as_ref().is_some_and(|(start, bytes)| {
            *start <= place.start && place.end <= start + bytes.len() as u64
        })
    }

    /// Begins to read a piece from block `number` on.
    fn start(&mut self, table: &Table, number: usize, end: usize) {
        let end = end.min(table.index.blocks());
        if number >= end {
            return;
        }
        let reader = table.cache.reader();
        let (bytes, walk) = match self.purpose {
            ReadPurpose::Read => (self.bytes.min(reader.piece_bytes_max() as u64), PartUse::Walk),
            ReadPurpose::Compaction => (self.bytes, PartUse::Compaction),
        };
        let Ok(mut range) = table.block_place(number, &mut self.part, walk) else { return };
        let mut last = number;
        while last + 1 < end
            && let Ok(next) = table.block_place(last + 1, &mut self.part, walk)
            && next.end - range.start <= bytes
        {
            (last, range.end) = (last + 1, next.end);
        }
        match self.purpose {
            ReadPurpose::Read => {
                let Some(read) = reader.start(&request(table, &range)) else { return };
                count_read(last - number + 1, &range);
                self.bytes = (self.bytes * 2).min(LARGEST_BYTES);
                self.next = Some((range, read, last + 1));
            }
            ReadPurpose::Compaction => {
                let read = reader.start_for_compaction(&request(table, &range));
                self.next = Some((range, read, last + 1));
            }
        }
    }
}

fn request<'a>(table: &'a Table, range: &Range<u64>) -> ReadRequest<'a> {
    let bytes = (range.end - range.start) as usize;
    ReadRequest { file: &*table.source.file, offset: range.start, bytes }
}
