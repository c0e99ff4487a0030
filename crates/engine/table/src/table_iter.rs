//! Walks a table: a position in the index, and in the block found there.

use crate::block::{BadEntry, Block};
use crate::block_cursor::BlockCursor;
use crate::block_scan::{BlockScan, Position};
use crate::part_cache::PartUse;
use crate::read_ahead::{Arrival, ReadAhead};
use crate::reader::Table;
use crate::table_index::HeldPart;
use esker_base::{EntryCursor, Error, Kind, MAX_SEQNO, Result, Seqno};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The purpose of a table cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPurpose {
    /// To answer a read. Blocks come from the block cache and are cached.
    Read,
    /// To rewrite the table. Blocks are read once, in order and in large pieces, and bypass the
    /// cache.
    Compaction,
}

/// A value in a data block, which it keeps in memory, and nothing else.
#[derive(Clone, Default)]
pub struct PinnedValue {
    block: Option<Block>,
    place: Range<usize>,
}

impl PinnedValue {
    #[inline]
    pub(crate) fn new(block: Block, place: Range<usize>) -> Self {
        PinnedValue { block: Some(block), place }
    }

    /// The value; empty if none is held.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| block.slice(self.place.clone()))
    }

    /// Returns the block, and where in it the value is; `None` if none is held.
    #[inline]
    pub fn shared(&self) -> Option<(&Arc<[u8]>, Range<usize>)> {
        Some((self.block.as_ref()?.bytes(), self.place.clone()))
    }

    /// As [`PinnedValue::shared`], and holds nothing any more.
    #[inline]
    pub fn into_shared(self) -> Option<(Arc<[u8]>, Range<usize>)> {
        Some((self.block?.into_bytes(), self.place))
    }

    /// Leaves out the first `bytes` of the value.
    #[inline]
    pub fn skip(&mut self, bytes: usize) {
        self.place.start = self.place.start.saturating_add(bytes).min(self.place.end);
    }

    /// Holds nothing any more.
    #[inline]
    pub fn release(&mut self) {
        self.block = None;
    }
}

impl PartialEq for PinnedValue {
    fn eq(&self, other: &PinnedValue) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for PinnedValue {}

impl std::fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.bytes().escape_ascii())
    }
}

/// A cursor over a table's versions. It keeps the table open and its block in memory.
pub struct TableIter {
    table: Arc<Table>,
    purpose: ReadPurpose,
    /// The part of the index that is about the current block, of a large table.
    part: HeldPart,
    /// The block the cursor is in, and its number.
    block: Option<Block>,
    number: usize,
    position: BlockCursor,
    valid: bool,
    read_ahead: ReadAhead,
    /// No other blocks are read ahead of a read. Backward, none are before [`TableIter::set_start`].
    within: Range<usize>,
}

/// The start is not known. The range is empty then, which stops a read-ahead backward.
const NO_START: usize = usize::MAX;

impl std::fmt::Debug for TableIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCursor").field("table", &self.table).finish_non_exhaustive()
    }
}

impl TableIter {
    pub(crate) fn new(table: Arc<Table>, purpose: ReadPurpose) -> Self {
        TableIter {
            table,
            purpose,
            part: HeldPart::default(),
            block: None,
            number: 0,
            position: BlockCursor::new(),
            valid: false,
            read_ahead: ReadAhead::default(),
            within: NO_START..usize::MAX,
        }
    }

    /// Keeps the cursor from reading ahead beyond `end`.
    pub fn set_end(&mut self, end: Bound<&[u8]>) {
        let end = match end {
            Bound::Included(key) => self.table.block_not_before(key, 0).saturating_add(1),
            Bound::Excluded(key) => self.table.block_not_before(key, MAX_SEQNO).saturating_add(1),
            Bound::Unbounded => usize::MAX,
        };
        self.within = NO_START..end;
        // A piece that was begun goes to the end of before.
        self.read_ahead.end_walk();
    }

    /// Lets a cursor that goes backward read ahead, down to `start`. Only the first call after
    /// [`TableIter::set_end`] has an effect.
    pub fn set_start(&mut self, start: Bound<&[u8]>) {
        if self.within.start == NO_START {
            self.within.start = match start {
                Bound::Included(key) => self.table.block_not_after(key, MAX_SEQNO),
                Bound::Excluded(key) => self.table.block_not_after(key, 0),
                Bound::Unbounded => 0,
            };
        }
    }

    /// Goes on reading ahead where `before` has ended, the cursor of the table before this one.
    pub fn go_on_from(&mut self, before: &TableIter) {
        self.read_ahead = before.read_ahead.for_next_table(before.table.index.blocks());
    }

    /// Goes on reading ahead, backward, where `after` has come to the start, the cursor of the table
    /// after this one.
    pub fn go_back_from(&mut self, after: &TableIter) {
        self.read_ahead = after.read_ahead.for_table_before(self.table.index.blocks());
    }

    /// Takes over what `other`, the cursor of another table of the run, remembers of its walks.
    pub fn remember_walks_of(&mut self, other: &TableIter) {
        self.read_ahead = other.read_ahead.for_other_table();
    }

    /// Holds the value of the version that the cursor is on.
    #[doc(hidden)]
    #[inline]
    pub fn hold_value(&self, held: &mut PinnedValue) {
        debug_assert!(self.valid, "the cursor is on no version");
        let Some(block) = &self.block else { return };
        if !held.block.as_ref().is_some_and(|other| other.is(block)) {
            held.block = Some(block.clone());
        }
        held.place = self.position.value();
    }

    /// Is no longer valid, and holds no block until the next seek.
    #[doc(hidden)]
    pub fn rest(&mut self) {
        (self.valid, self.block, self.part) = (false, None, HeldPart::default());
        self.read_ahead.end_walk();
    }

    /// Starts `scan` at the current version. The scan ends with the block, or
    /// before the first key at or above `limit`.
    pub fn scan_block(
        &self,
        snapshot: Seqno,
        limit: Option<&[u8]>,
        scan: &mut BlockScan,
    ) -> Result<()> {
        debug_assert!(self.valid, "the cursor is on no version");
        let Some(block) = &self.block else { return Ok(()) };
        let position = Position {
            key: self.position.key(),
            seqno: self.seqno(),
            kind: self.position.kind(),
            value: self.position.value(),
            next: self.position.next_place(),
        };
        scan.start(block, self.scan_end(block, limit)?, snapshot, position, self.table.seqno_of(0));
        Ok(())
    }

    /// Takes `scan` on to the block after the one that the cursor is in. Returns false if there is
    /// none. The cursor is not valid afterwards.
    pub fn scan_next_block(&mut self, limit: Option<&[u8]>, scan: &mut BlockScan) -> Result<bool> {
        match self.block {
            Some(_) => self.scan_block_of(self.number + 1, limit, scan),
            None => Ok(false),
        }
    }

    /// As [`TableIter::scan_next_block`], for the first block.
    pub fn scan_first_block(&mut self, limit: Option<&[u8]>, scan: &mut BlockScan) -> Result<bool> {
        self.scan_block_of(0, limit, scan)
    }

    fn scan_block_of(
        &mut self,
        number: usize,
        limit: Option<&[u8]>,
        scan: &mut BlockScan,
    ) -> Result<bool> {
        self.valid = false;
        if number == self.table.index.blocks() {
            return Ok(false);
        }
        self.enter(number, Arrival::Step)?;
        let Some(block) = &self.block else { return Ok(false) };
        scan.go_on(block, self.scan_end(block, limit)?, self.table.seqno_of(0));
        Ok(true)
    }

    /// Where the entry starts at which a scan of the current block ends.
    fn scan_end(&self, block: &Block, limit: Option<&[u8]>) -> Result<usize> {
        if let Some(limit) = limit
            && self.table.is_reached(limit, self.number, &self.part)?
        {
            let landing = block.seek(limit, MAX_SEQNO);
            let landing = landing.map_err(|bad| self.table.bad_entry(self.number, bad))?;
            return Ok(landing.map_or(block.entries_end(), |landing| landing.place.entry));
        }
        // The scan comes to the next block, whose cache lines are elsewhere.
        self.table.prefetch_block(self.number + 1);
        Ok(block.entries_end())
    }

    /// Returns the report of the entry at which `scan`, of the block that the cursor is in, found
    /// damage.
    pub fn damage(&self, scan: &BlockScan) -> Error {
        self.table.bad_entry(self.number, BadEntry { at: scan.next_entry() })
    }

    /// Makes block `number` the current one. Does nothing if it is.
    fn enter(&mut self, number: usize, arrival: Arrival) -> Result<()> {
        if self.block.is_some() && self.number == number {
            self.read_ahead.stay(arrival);
            return Ok(());
        }
        self.block = None;
        let walk = self.walk();
        let place = self.table.block_place(number, &mut self.part, walk)?;
        let (table, ahead) = (&self.table, &mut self.read_ahead);
        self.block = Some(match self.purpose {
            ReadPurpose::Read => {
                let mut is_loaded = false;
                let load = || {
                    is_loaded = true;
                    ahead.load(table, (number, &place), &self.within, arrival)
                };
                let block = table.cached_block(&place, load)?;
                if !is_loaded {
                    ahead.pass(number, place.end - place.start, arrival);
                }
                block
            }
            ReadPurpose::Compaction => ahead.load_for_compaction(table, (number, &place))?,
        });
        self.number = number;
        Ok(())
    }

    /// How the cursor uses parts of the index as it goes from block to block.
    fn walk(&self) -> PartUse {
        match self.purpose {
            ReadPurpose::Read => PartUse::Walk,
            ReadPurpose::Compaction => PartUse::Compaction,
        }
    }

    /// The block with the first version at or after `(key, seqno)`.
    fn find_block(&mut self, key: &[u8], seqno: Seqno) -> Result<usize> {
        let purpose = match self.purpose {
            ReadPurpose::Read => PartUse::Lookup,
            ReadPurpose::Compaction => PartUse::Compaction,
        };
        self.table.find_block(key, seqno, &mut self.part, purpose)
    }

    /// Runs `step` on block `number` and the position in it.
    fn step_in<T>(
        &mut self,
        number: usize,
        arrival: Arrival,
        step: impl FnOnce(&mut BlockCursor, &Block) -> Result<T, BadEntry>,
    ) -> Result<T> {
        self.valid = false;
        self.enter(number, arrival)?;
        let block = self.block.as_ref().expect("a block was entered");
        step(&mut self.position, block).map_err(|bad| self.table.bad_entry(number, bad))
    }

    /// Goes to the first version of block `number`, if there is such a block.
    fn first_of(&mut self, number: usize) -> Result<()> {
        self.valid = false;
        if number < self.table.index.blocks() {
            self.step_in(number, Arrival::Step, |position, block| position.seek_first(block))?;
            self.valid = true;
        }
        Ok(())
    }

    /// Goes to the last version before block `number`, if there is one.
    fn last_before(&mut self, number: usize) -> Result<()> {
        self.valid = false;
        if number > 0 {
            self.step_in(number - 1, Arrival::Step, |position, block| position.seek_last(block))?;
            self.valid = true;
        }
        Ok(())
    }

    /// Seeks as if the versions had the seqnos that they are stored with.
    fn seek_stored(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.valid = false;
        let number = self.find_block(key, seqno)?;
        if number == self.table.index.blocks() {
            return Ok(());
        }
        if self
            .step_in(number, Arrival::Seek, |position, block| position.seek(block, key, seqno))?
        {
            self.valid = true;
            return Ok(());
        }
        // The target is between the block's last version and its separator.
        self.first_of(number + 1)
    }

    fn seek_before_stored(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.valid = false;
        let number = self.find_block(key, seqno.min(MAX_SEQNO))?;
        if number == self.table.index.blocks() {
            return self.last_before(number);
        }
        self.valid = self.step_in(number, Arrival::Step, |position, block| {
            if !position.seek(block, key, seqno)? {
                position.seek_end(block);
            }
            position.prev(block)
        })?;
        if self.valid { Ok(()) } else { self.last_before(number) }
    }
}

impl EntryCursor for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_first(&mut self) -> Result<()> {
        self.first_of(0)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.last_before(self.table.index.blocks())
    }

    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.seek_stored(key, seqno)?;
        // The only version of the key is newer.
        if self.table.hides_from(seqno) && self.valid && self.key() == key {
            self.next()
        } else {
            Ok(())
        }
    }

    #[inline]
    fn misses_seeks(&self) -> bool {
        self.read_ahead.misses_seeks()
    }

    fn begin_seek(&mut self, key: &[u8], seqno: Seqno) {
        self.valid = false;
        // The seek meets the same failure.
        let Ok(number) = self.find_block(key, seqno) else { return };
        if self.purpose == ReadPurpose::Read
            && number < self.table.index.blocks()
            && !(self.block.is_some() && self.number == number)
            && let Ok(place) = self.table.block_place(number, &mut self.part, PartUse::Walk)
            && !self.table.is_cached(&place)
        {
            self.read_ahead.begin(&self.table, (number, &place), &self.within);
        }
    }

    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        if self.table.hides_from(seqno) {
            self.seek_stored(key, MAX_SEQNO)?;
            if self.valid && self.key() == key {
                return Ok(());
            }
        }
        self.seek_before_stored(key, seqno)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid, "next on a cursor that is not valid");
        let Some(block) = self.block.as_ref() else {
            return Ok(());
        };
        match self.position.next(block) {
            Ok(true) => Ok(()),
            Ok(false) => self.first_of(self.number + 1),
            Err(bad) => {
                self.valid = false;
                Err(self.table.bad_entry(self.number, bad))
            }
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid, "prev on a cursor that is not valid");
        let Some(block) = self.block.as_ref() else {
            return Ok(());
        };
        match self.position.prev(block) {
            Ok(true) => Ok(()),
            Ok(false) => self.last_before(self.number),
            Err(bad) => {
                self.valid = false;
                Err(self.table.bad_entry(self.number, bad))
            }
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.position.key()
    }

    #[inline]
    fn seqno(&self) -> Seqno {
        self.table.seqno_of(self.position.seqno())
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.position.kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match self.block.as_ref() {
            Some(block) => block.slice(self.position.value()),
            None => &[],
        }
    }
}
