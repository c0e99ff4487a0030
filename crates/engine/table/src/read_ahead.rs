//! Reads data blocks ahead of a cursor that walks a table: for a reader, or for a compaction.
//!
//! ```text
//! blocks:   12   13   [14 15]   [16 17 18 19]   [20 21 22 23 ...
//!           miss miss  piece     piece, twice as large
//! ```
//!
//! A piece of more than 256 KiB is read while the blocks of the one before are walked over. A smaller one
//! is read when the walk reaches it: many walks end before, and to read for nothing costs more than to
//! wait.
//!
//! The second miss of a walk starts it. A miss is a block that the cache does not have, and a walk goes
//! from each block to its neighbour, forward or backward. A miss anywhere else ends it, except at the
//! block before the current one.
//!
//! A cursor remembers how far its walks went. If they usually go beyond one block, a seek that misses
//! reads what they take. Such a read may begin before the seek itself, so that the runs of a merge wait
//! for the device at the same time.
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

/// A walk that goes farther counts as this long, so that one long scan does not make the first pieces
/// of many short ones large.
const USUAL_BYTES_MAX: u64 = 128 << 10;

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

/// How a cursor comes to a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// By a seek forward.
    Seek,
    /// By a step, or to go backward.
    Step,
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

/// How far walks go forward beyond the block of their first miss, in bytes.
#[derive(Clone, Copy, Default)]
struct WalkLengths {
    /// More than most of them: it comes a quarter of the way to a longer one, an eighth to a shorter one.
    usual: u64,
    /// That of the current walk so far.
    current: Option<u64>,
}

impl WalkLengths {
    /// A walk begins.
    fn begin(&mut self) {
        self.end();
        self.current = Some(0);
    }

    /// The current walk is over, if there is one.
    fn end(&mut self) {
        let Some(walked) = self.current.take() else { return };
        let walked = walked.min(USUAL_BYTES_MAX);
        if walked > self.usual {
            self.usual += (walked - self.usual).div_ceil(4);
        } else {
            self.usual -= (self.usual - walked).div_ceil(8);
        }
    }

    /// What to read at the first miss, at a block of `bytes` bytes, if more than that block.
    fn first_piece(&self, bytes: u64) -> Option<u64> {
        // Walks that are equally long differ by a block, as they start anywhere in their first one.
        (2 * self.usual >= bytes).then_some(bytes + self.usual + bytes)
    }
}

/// The most that the count of misses grows to.
const MISSES_MAX: u8 = 12;

/// See the file's head.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// The walk from the last miss on.
    walk: Walk,
    lengths: WalkLengths,
    /// Grows with each seek to a block that was not in the cache, and falls with each to one that was.
    misses: u8,
    /// Pieces, while there are some.
    pieces: Option<Box<Pieces>>,
}

/// How a piece is begun.
#[derive(Clone, Copy)]
enum Start {
    /// It is waited for at once.
    OnDemand,
    /// It is waited for after other seeks.
    Early,
    /// It is waited for after the blocks of the one before.
    Ahead,
    Compaction,
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

    /// Those of a walk forward from the first of `blocks`, with a first one of `bytes` bytes, if that can
    /// be begun. A walk that goes on is near its end, as a rule: the next one is smaller.
    fn of_seek(
        table: &Table,
        blocks: Range<usize>,
        bytes: u64,
        start: Start,
    ) -> Option<Box<Pieces>> {
        let next_bytes = (bytes / 2).max(FIRST_BYTES);
        let mut pieces = Pieces::new(Way::Forward, next_bytes, ReadPurpose::Read);
        pieces.start(table, blocks, bytes, start);
        pieces.next.is_some().then_some(pieces)
    }
}

impl ReadAhead {
    /// The state for the next table, if the cursor of `self` has reached the end of its own, which has
    /// `blocks` blocks.
    pub(crate) fn for_next_table(&self, blocks: usize) -> ReadAhead {
        match self.walk {
            Walk::Forward(next) if next == blocks => self.go_on(Walk::Forward(0)),
            _ => self.for_other_table(),
        }
    }

    /// The state for the table before, which has `blocks` blocks, if the cursor of `self` has reached
    /// the start of its own.
    pub(crate) fn for_table_before(&self, blocks: usize) -> ReadAhead {
        match self.walk {
            Walk::Backward(0) => self.go_on(Walk::Backward(blocks)),
            _ => self.for_other_table(),
        }
    }

    /// The state for a table to which no walk leads.
    pub(crate) fn for_other_table(&self) -> ReadAhead {
        let ReadAhead { mut lengths, misses, .. } = *self;
        lengths.end();
        ReadAhead { lengths, misses, ..ReadAhead::default() }
    }

    fn go_on(&self, walk: Walk) -> ReadAhead {
        let Some(it) = &self.pieces else { return self.for_other_table() };
        let pieces = Some(Pieces::new(it.way, it.bytes, it.purpose));
        ReadAhead { walk, pieces, lengths: self.lengths, misses: self.misses }
    }

    /// Whether more than one in three seeks came to a block that was not in the cache, of the last few.
    #[inline]
    pub(crate) fn misses_seeks(&self) -> bool {
        self.misses > MISSES_MAX / 2
    }

    /// Ends the walk, and holds no piece any more.
    pub(crate) fn end_walk(&mut self) {
        self.lengths.end();
        (self.walk, self.pieces) = (Walk::None, None);
    }

    /// Notes that the cursor comes to a block without a read.
    #[inline]
    pub(crate) fn stay(&mut self, arrival: Arrival) {
        if arrival == Arrival::Seek && self.misses > 0 {
            self.misses -= 1;
            // What was begun for this seek was not needed.
            self.pieces.take_if(|pieces| pieces.current.is_none());
        }
    }

    /// Notes that block `number`, of `bytes` bytes, is in the cache.
    #[inline]
    pub(crate) fn pass(&mut self, number: usize, bytes: u64, arrival: Arrival) {
        self.stay(arrival);
        if let Some(way) = self.walk.way_to(number) {
            self.walk = Walk::at(number, Some(way));
            self.count(way, bytes);
        }
    }

    #[inline]
    fn count(&mut self, way: Way, bytes: u64) {
        if way == Way::Forward
            && let Some(current) = &mut self.lengths.current
        {
            *current += bytes;
        }
    }

    /// Begins to read this block, to which a seek goes, and what such a walk usually takes. The cache does
    /// not have it. Does nothing if a walk comes to it.
    #[cold]
    pub(crate) fn begin(
        &mut self,
        table: &Table,
        (number, place): (usize, &Range<u64>),
        within: &Range<usize>,
    ) {
        let is_on_way = self.walk.way_to(number).is_some() || self.walk.steps_back_to(number);
        if is_on_way || self.pieces.as_ref().is_some_and(|it| it.has(place).is_some()) {
            return;
        }
        self.end_walk();
        let block_bytes = place.end - place.start;
        let bytes = self.lengths.first_piece(block_bytes).unwrap_or(block_bytes);
        self.pieces = Pieces::of_seek(table, number..within.end, bytes, Start::Early);
        if self.pieces.is_none() {
            // There is no memory for a piece.
            table.source.file.read_ahead(place.start, block_bytes);
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
        arrival: Arrival,
    ) -> Result<Loaded> {
        let way = self.walk.way_to(number);
        if self.walk.steps_back_to(number) {
            let held = self.pieces.as_ref().and_then(|pieces| pieces.held(table, place));
            let block = held.unwrap_or_else(|| table.read_block(place));
            return block.map(Loaded::Ahead);
        }
        if arrival == Arrival::Seek {
            self.misses = (self.misses + 2).min(MISSES_MAX);
        }
        self.walk = Walk::at(number, way);
        let bytes = place.end - place.start;
        let loaded = match way {
            Some(way) => {
                self.count(way, bytes);
                self.pieces.take_if(|pieces| pieces.way != way);
                let new = || Pieces::new(way, FIRST_BYTES, ReadPurpose::Read);
                self.pieces.get_or_insert_with(new);
                Loaded::Ahead
            }
            None => {
                self.lengths.begin();
                self.pieces.take_if(|pieces| !pieces.begin_at(place));
                if self.pieces.is_none() && arrival == Arrival::Seek {
                    let usual = self.lengths.first_piece(bytes);
                    let blocks = number..within.end;
                    let start = |bytes| Pieces::of_seek(table, blocks, bytes, Start::OnDemand);
                    self.pieces = usual.and_then(start);
                }
                Loaded::Alone
            }
        };
        let pieces = self.pieces.as_mut();
        match pieces.and_then(|it| it.block(table, (number, place), within)) {
            Some(block) => block.map(loaded),
            None => table.read_block(place).map(Loaded::Alone),
        }
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
                let blocks = match self.way {
                    Way::Forward => number..within.end,
                    Way::Backward => within.start..number + 1,
                };
                self.start_next(table, blocks);
            }
            let (range, read, beyond) = self.next.take()?;
            // The one after it is on its way before this one is waited for.
            if !self.is_on_demand() {
                self.start_next(table, beyond);
            }
            let bytes = read.wait(&request(table, &range)).ok()?;
            self.current = Some((range.start, bytes));
        }
        self.held(table, place)
    }

    /// Whether they were begun for the block at this place, and none is in memory yet.
    fn begin_at(&self, place: &Range<u64>) -> bool {
        let next = self.next.as_ref().filter(|_| self.current.is_none());
        next.is_some_and(|(next, ..)| next.start == place.start)
    }

    /// Whether the next piece is read only when the walk reaches it.
    fn is_on_demand(&self) -> bool {
        self.purpose == ReadPurpose::Read && self.bytes <= ON_DEMAND_BYTES_MAX
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

    /// Begins to read the next piece of these blocks, and has the one after it be larger.
    fn start_next(&mut self, table: &Table, blocks: Range<usize>) {
        let start = match (self.purpose, self.is_on_demand()) {
            (ReadPurpose::Read, true) => Start::OnDemand,
            (ReadPurpose::Read, false) => Start::Ahead,
            (ReadPurpose::Compaction, _) => Start::Compaction,
        };
        self.start(table, blocks, self.bytes, start);
        if self.purpose == ReadPurpose::Read && self.next.is_some() {
            self.bytes = (self.bytes * 2).min(LARGEST_BYTES);
        }
    }

    /// Begins to read a piece of these blocks: the first of them, or the last.
    fn start(&mut self, table: &Table, blocks: Range<usize>, bytes: u64, start: Start) {
        self.next = None;
        let mut blocks = blocks.start..blocks.end.min(table.index.blocks());
        let reader = table.cache.reader();
        let (limit, walk) = match self.purpose {
            ReadPurpose::Read => (bytes.min(reader.piece_bytes_max() as u64), PartUse::Walk),
            ReadPurpose::Compaction => (bytes, PartUse::Compaction),
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
        let request = request(table, &range);
        let read = match start {
            Start::OnDemand => reader.leave_to_caller(&request),
            Start::Early => reader.start_early(&request),
            Start::Ahead => reader.start(&request),
            Start::Compaction => Some(reader.start_for_compaction(&request)),
        };
        let Some(read) = read else { return };
        if self.purpose == ReadPurpose::Read {
            count_read(blocks_before - blocks.len(), &range);
        }
        self.next = Some((range, read, blocks));
    }
}

fn request<'a>(table: &'a Table, range: &Range<u64>) -> ReadRequest<'a> {
    let bytes = (range.end - range.start) as usize;
    ReadRequest { file: &*table.source.file, offset: range.start, bytes }
}
