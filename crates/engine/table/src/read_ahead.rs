//! Reads data blocks ahead of a cursor that walks a table: for a reader, or for a compaction.
//!
//! ```text
//! blocks:   12   13   [14 15]   [16 17 18 19]   [20 21 22 23 ...
//!           miss miss  piece     piece, twice as large: read while 14 and 15 are walked over
//! ```
//!
//! After a piece that the page cache had, a small one is read when the walk reaches it: nothing is
//! waited for, and many walks end before.
//!
//! The second miss of a walk starts it. A miss is a block that the cache does not have, and a walk goes
//! from each block to its neighbour, forward or backward. A miss anywhere else ends it, except at the
//! block before the current one.
//!
//! No piece goes beyond the block with the end of the cursor's range, or with its start; in a table in
//! parts, beyond the part with that block. A compaction walks whole tables forward, and reads pieces
//! of one size from its first block on.
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

/// What a compaction holds of each input, in bytes: two pieces.
pub const COMPACTION_READ_BYTES: usize = 2 * COMPACTION_BYTES as usize;

/// A block that the cache did not have.
pub(crate) enum Loaded {
    /// Read alone.
    Alone(Block),
    /// Read with others by a cursor that walked over its neighbours.
    Ahead(Block),
}

/// The way of a walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

/// Which block a walk comes to next.
#[derive(Clone, Copy, Default)]
enum Walk {
    /// There is none.
    #[default]
    None,
    /// One of the neighbours of the block with this number.
    Began(usize),
    /// The block with this number.
    Forward(usize),
    /// The block before the one with this number.
    Backward(usize),
}

impl Walk {
    /// The way in which it comes to block `number` next, if it does.
    #[inline]
    fn way_to(self, number: usize) -> Option<Way> {
        match self {
            Walk::Began(at) if number == at + 1 => Some(Way::Forward),
            Walk::Forward(next) if number == next => Some(Way::Forward),
            Walk::Began(before) | Walk::Backward(before) if number + 1 == before => {
                Some(Way::Backward)
            }
            _ => None,
        }
    }

    /// Whether block `number` is the current one or the one before it. A cursor may step back from the
    /// first entry of a block, and goes on then.
    #[inline]
    fn steps_back_to(self, number: usize) -> bool {
        match self {
            Walk::Forward(next) => number + 1 == next || number + 2 == next,
            Walk::Backward(current) => number == current || number == current + 1,
            Walk::Began(_) | Walk::None => false,
        }
    }

    /// The walk after a step to block `number`.
    #[inline]
    fn at(number: usize, way: Option<Way>) -> Walk {
        match way {
            None => Walk::Began(number),
            Some(Way::Forward) => Walk::Forward(number + 1),
            Some(Way::Backward) => Walk::Backward(number),
        }
    }
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// The walk from the last miss on.
    walk: Walk,
    /// Pieces, while there are some.
    pieces: Option<Box<Pieces>>,
}

struct Pieces {
    way: Way,
    /// The piece in memory, and where it starts.
    current: Option<(u64, ReadBytes)>,
    /// What is read while the blocks of the current one are walked over, and the blocks beyond it.
    next: Option<(Range<u64>, PendingRead, Range<usize>)>,
    /// The part of the index with the next block.
    part: HeldPart,
    /// The size of the piece after that.
    bytes: u64,
    purpose: ReadPurpose,
}

impl Pieces {
    fn new(way: Way, bytes: u64, purpose: ReadPurpose) -> Box<Pieces> {
        let part = HeldPart::default();
        Box::new(Pieces { way, current: None, next: None, part, bytes, purpose })
    }
}

impl ReadAhead {
    /// The state for the next table, if the cursor of `self` has reached the end of its own, which has
    /// `blocks` blocks.
    pub(crate) fn for_next_table(&self, blocks: usize) -> ReadAhead {
        match self.walk {
            Walk::Forward(next) if next == blocks => self.go_on(Walk::Forward(0)),
            _ => ReadAhead::default(),
        }
    }

    /// The state for the table before, which has `blocks` blocks, if the cursor of `self` has reached
    /// the start of its own.
    pub(crate) fn for_table_before(&self, blocks: usize) -> ReadAhead {
        match self.walk {
            Walk::Backward(0) => self.go_on(Walk::Backward(blocks)),
            _ => ReadAhead::default(),
        }
    }

    fn go_on(&self, walk: Walk) -> ReadAhead {
        match &self.pieces {
            Some(it) => ReadAhead { walk, pieces: Some(Pieces::new(it.way, it.bytes, it.purpose)) },
            None => ReadAhead::default(),
        }
    }

    /// Notes that block `number` is in the cache.
    #[inline]
    pub(crate) fn pass(&mut self, number: usize) {
        if let Some(way) = self.walk.way_to(number) {
            self.walk = Walk::at(number, Some(way));
        }
    }

    /// The block of this number and place, which is not in the cache. The cursor reads none outside of
    /// `within`.
    #[cold]
    pub(crate) fn load(
        &mut self,
        table: &Table,
        (number, place): (usize, &Range<u64>),
        within: &Range<usize>,
    ) -> Result<Loaded> {
        let way = self.walk.way_to(number);
        if self.walk.steps_back_to(number) {
            let held = self.pieces.as_ref().and_then(|pieces| pieces.held(table, place));
            let block = held.unwrap_or_else(|| table.read_block(place));
            return block.map(Loaded::Ahead);
        }
        self.walk = Walk::at(number, way);
        self.pieces.take_if(|pieces| Some(pieces.way) != way);
        if let Some(way) = way {
            let new = || Pieces::new(way, FIRST_BYTES, ReadPurpose::Read);
            let pieces = self.pieces.get_or_insert_with(new);
            if let Some(block) = pieces.block(table, (number, place), within) {
                return block.map(Loaded::Ahead);
            }
        }
        table.read_block(place).map(Loaded::Alone)
    }

    /// The block of this number and place for a compaction, which reads all that follow, too.
    pub(crate) fn load_for_compaction(
        &mut self,
        table: &Table,
        (number, place): (usize, &Range<u64>),
    ) -> Result<Block> {
        let new = || Pieces::new(Way::Forward, COMPACTION_BYTES, ReadPurpose::Compaction);
        let pieces = self.pieces.get_or_insert_with(new);
        let block = pieces.block(table, (number, place), &(0..usize::MAX));
        block.unwrap_or_else(|| table.read_block(place))
    }
}

impl Pieces {
    /// The block of this number and place out of a piece, unless none with it can be read.
    fn block(
        &mut self,
        table: &Table,
        (number, place): (usize, &Range<u64>),
        within: &Range<usize>,
    ) -> Option<Result<Block>> {
        if self.has(place).is_none() {
            self.current = None;
            if !self.next.as_ref().is_some_and(|(next, ..)| next.contains(&place.start)) {
                self.next = None;
                self.start(
                    table,
                    match self.way {
                        Way::Forward => number..within.end,
                        Way::Backward => within.start..number + 1,
                    },
                );
            }
            let (range, read, beyond) = self.next.take()?;
            // The one after it is on its way before this one is waited for.
            if !read.was_cached() || self.bytes > ON_DEMAND_BYTES_MAX {
                self.start(table, beyond);
            }
            let bytes = read.wait(&request(table, &range)).ok()?;
            self.current = Some((range.start, bytes));
        }
        self.held(table, place)
    }

    /// The block at this place out of the piece in memory, if that has it.
    fn held(&self, table: &Table, place: &Range<u64>) -> Option<Result<Block>> {
        let stored = self.has(place)?;
        Some(table.source.data_block(place.start, stored, || stored.into()))
    }

    /// What the piece in memory has at this place.
    fn has(&self, place: &Range<u64>) -> Option<&[u8]> {
        let (start, bytes) = self.current.as_ref()?;
        let from = place.start.checked_sub(*start)?;
        bytes.get(from as usize..(place.end - start) as usize)
    }

    /// Begins to read a piece of these blocks: the first of them, or the last.
    fn start(&mut self, table: &Table, blocks: Range<usize>) {
        let mut blocks = blocks.start..blocks.end.min(table.index.blocks());
        let reader = table.cache.reader();
        let (limit, walk) = match self.purpose {
            ReadPurpose::Read => (self.bytes.min(reader.piece_bytes_max() as u64), PartUse::Walk),
            ReadPurpose::Compaction => (self.bytes, PartUse::Compaction),
        };
        let mut after = |blocks: &Range<usize>| {
            let mut rest = blocks.clone();
            let next = match self.way {
                Way::Forward => rest.next()?,
                Way::Backward => rest.next_back()?,
            };
            Some((table.block_place(next, &mut self.part, walk).ok()?, rest))
        };
        let blocks_before = blocks.len();
        let Some((mut range, rest)) = after(&blocks) else { return };
        blocks = rest;
        while let Some((more, rest)) = after(&blocks) {
            let both = range.start.min(more.start)..range.end.max(more.end);
            if both.end - both.start > limit {
                break;
            }
            (range, blocks) = (both, rest);
        }
        match self.purpose {
            ReadPurpose::Read => {
                let Some(read) = reader.start(&request(table, &range)) else { return };
                count_read(blocks_before - blocks.len(), &range);
                self.bytes = (self.bytes * 2).min(LARGEST_BYTES);
                self.next = Some((range, read, blocks));
            }
            ReadPurpose::Compaction => {
                let read = reader.start_for_compaction(&request(table, &range));
                self.next = Some((range, read, blocks));
            }
        }
    }
}

fn request<'a>(table: &'a Table, range: &Range<u64>) -> ReadRequest<'a> {
    let bytes = (range.end - range.start) as usize;
    ReadRequest { file: &*table.source.file, offset: range.start, bytes }
}
