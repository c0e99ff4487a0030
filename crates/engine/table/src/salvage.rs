//! Reads what can be read of a damaged table.
//!
//! * A damaged data block costs its own versions. The index says between which keys they were.
//! * Without a part of the index, its blocks are found one by one, as below. What is behind the first damaged one
//!   in the part is lost.
//! * Without a filter, a part of it, or sketches nothing is lost.
//! * Without an index or a footer, the blocks are found one by one: a block's checksum covers its place, so the
//!   end of the block that starts here is where the checksum matches and the bytes before it decode. The first
//!   damaged block ends that search.
//! * Range tombstones, once damaged, are lost: what they deleted may be seen again.

use crate::block::Block;
use crate::block_cursor::BlockCursor;
use crate::block_fetcher::BlockFetcher;
use crate::format::{BlockKind, FOOTER_BYTES, MAGIC, TRAILER_BYTES, block_checksum};
use crate::index::Index;
use crate::parts::Parts;
use crate::reader::{MetaBlocks, end_of};
use crate::{BlockCache, Properties, Table, range_del_block};
use esker_base::checksum::crc32c_append;
use esker_base::coding::u32_at;
use esker_base::key::compare_versions;
use esker_base::{FragmentedTombstones, Kind, Result, Seqno};
use esker_storage::ReadableFile;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// A range of keys in which versions are lost.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LostKeys {
    /// The lower bound of the lost keys. Empty if there is none.
    pub from: Vec<u8>,
    /// The upper bound of the lost keys, itself included. `None` if there is none.
    pub to: Option<Vec<u8>>,
    /// The first damage found there.
    pub error: String,
}

impl LostKeys {
    /// Returns the range from `from` to `to`, with the first damage found there.
    pub fn new(from: Vec<u8>, to: Option<Vec<u8>>, error: String) -> Self {
        LostKeys { from, to, error }
    }
}

/// What can be read of a table.
pub struct SalvagedTable {
    source: BlockFetcher,
    /// Where the data blocks are in the file.
    blocks: Vec<Range<u64>>,
    /// The separator of each of these, where it is known.
    separators: Vec<Option<Vec<u8>>>,
    /// What is behind the last block that was found, if that is unknown.
    unknown: Option<String>,
    tombstones: Option<Arc<FragmentedTombstones>>,
    properties: Option<Properties>,
    /// The seqno of an ingested table, if the caller knows it.
    ingested_at: Option<Seqno>,
}

impl SalvagedTable {
    /// Reads what there is of the table of `bytes` bytes at `offset` of `file`, data blocks excepted. Fails
    /// only for another reason than damage.
    pub fn open(
        file: Arc<dyn ReadableFile>,
        file_id: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<Arc<SalvagedTable>> {
        SalvagedTable::open_ingested(file, file_id, offset, bytes, None)
    }

    /// As [`SalvagedTable::open`]. The versions of an ingested table have the seqno `ingested_at`, or, if
    /// that is `None`, the lowest that they can have.
    pub fn open_ingested(
        file: Arc<dyn ReadableFile>,
        file_id: u64,
        offset: u64,
        bytes: u64,
        ingested_at: Option<Seqno>,
    ) -> Result<Arc<SalvagedTable>> {
        let source = BlockFetcher { file, file_id, offset };
        let mut table = SalvagedTable {
            source,
            blocks: Vec::new(),
            separators: Vec::new(),
            unknown: None,
            tombstones: None,
            properties: None,
            ingested_at,
        };
        let sections = unless_damaged(MetaBlocks::read(&table.source, bytes))?;
        match sections {
            Ok(sections) => table.take_sections(&sections)?,
            Err(damage) => table.search(bytes, None, damage)?,
        }
        Ok(Arc::new(table))
    }

    fn take_sections(&mut self, sections: &MetaBlocks) -> Result<()> {
        let decoded = |kind: BlockKind| {
            let (at, stored) = sections.get(kind);
            unless_damaged(self.source.section(kind, at, stored))
        };
        let index = decoded(BlockKind::Index)?;
        let tombstones = match sections.has(BlockKind::Tombstones) {
            true => {
                decoded(BlockKind::Tombstones)?.ok().and_then(|body| range_del_block::decode(&body))
            }
            false => Some(FragmentedTombstones::default()),
        };
        let properties = decoded(BlockKind::Properties)?.ok();
        self.tombstones = tombstones.map(Arc::new);
        self.properties = properties.and_then(|body| Properties::decode(&body).ok());
        let data_bytes = sections.footer.sections[0];
        let part_bytes = sections.footer.part_bytes();
        if part_bytes > 0 {
            return match index.map(|body| Parts::decode(&body, data_bytes, part_bytes)) {
                Ok(Some(parts)) => (0..parts.len()).try_for_each(|at| self.take_part(&parts, at)),
                Err(damage) => self.search(data_bytes, Some(data_bytes), damage),
                Ok(None) => self.search(data_bytes, Some(data_bytes), "index: impossible".into()),
            };
        }
        match index.map(|body| Index::decode(&body)) {
            Ok(Some(index)) if index.blocks_end() == data_bytes => {
                self.take_blocks(&index, 0);
                Ok(())
            }
            Err(damage) => self.search(data_bytes, Some(data_bytes), damage),
            Ok(_) => self.search(data_bytes, Some(data_bytes), "index: impossible".into()),
        }
    }

    /// Takes the blocks of an index, the first of which starts so far from the table's start.
    fn take_blocks(&mut self, index: &Index, start: u64) {
        let start = self.source.offset + start;
        for n in 0..index.len() {
            let block = index.block(n);
            self.blocks.push(start + block.start..start + block.end);
            self.separators.push(Some(index.separator(n)));
        }
    }

    /// Takes the blocks of a part, or finds them without it.
    fn take_part(&mut self, parts: &Parts, at: usize) -> Result<()> {
        let place = parts.place(at);
        let bytes = (place.end - place.start) as usize;
        let read = self.source.read(self.source.offset + place.start, bytes);
        let part = read.and_then(|stored| parts.read(at, &self.source, &stored, |_| {}));
        match unless_damaged(part)? {
            Ok(part) => {
                self.take_blocks(&part.index, parts.data_of(at).start);
                Ok(())
            }
            Err(_) => self.search_part(parts, at),
        }
    }

    /// Finds the data blocks of a part that is damaged. What is behind the last one counts as a block that cannot be
    /// read.
    fn search_part(&mut self, parts: &Parts, at: usize) -> Result<()> {
        let data = parts.data_of(at);
        let start = self.source.offset + data.start;
        let read = self.source.read(start, (data.end - data.start) as usize);
        let stored = unless_damaged(read)?.unwrap_or_default();
        let mut from = 0;
        while from < stored.len()
            && let Some(bytes) =
                self.block_bytes(&stored[from..], data.start + from as u64, BlockKind::Data)
        {
            self.blocks.push(start + from as u64..start + (from + bytes) as u64);
            self.separators.push(None);
            from += bytes;
        }
        if data.start + (from as u64) < data.end {
            self.blocks.push(start + from as u64..self.source.offset + data.end);
            self.separators.push(None);
        }
        if let Some(last) = self.separators.last_mut() {
            *last = Some(parts.separator(at));
        }
        Ok(())
    }

    /// Finds the data blocks in the first `bytes` bytes of the table, without an index; and, unless the footer
    /// has said where they are, the sections behind them.
    fn search(&mut self, bytes: u64, data_bytes: Option<u64>, damage: String) -> Result<()> {
        let there = self.source.file.len()?.saturating_sub(self.source.offset);
        let stored = self.source.read(self.source.offset, bytes.min(there) as usize)?;
        let mut at = 0;
        while let Some(end) = self.block_end(&stored, at, BlockKind::Data) {
            self.blocks.push(self.source.offset + at as u64..self.source.offset + end as u64);
            self.separators.push(None);
            at = end;
        }
        if data_bytes == Some(at as u64) {
            return Ok(());
        }
        let mut has_sketches = false;
        if data_bytes.is_none() {
            let mut tombstones = FragmentedTombstones::default();
            let mut from = at;
            let parts = [BlockKind::FilterPart, BlockKind::IndexPart];
            while let Some(end) = parts.iter().find_map(|kind| self.block_end(&stored, from, *kind))
            {
                from = end;
            }
            for kind in [
                BlockKind::Filter,
                BlockKind::Tombstones,
                BlockKind::Sketches,
                BlockKind::Properties,
            ] {
                let Some(end) = self.block_end(&stored, from, kind) else { continue };
                let place = self.source.offset + from as u64;
                let body = self.source.section(kind, place, &stored[from..end])?;
                match kind {
                    BlockKind::Tombstones => {
                        tombstones = range_del_block::decode(&body).unwrap_or_default();
                    }
                    BlockKind::Sketches => has_sketches = true,
                    BlockKind::Properties => self.properties = Properties::decode(&body).ok(),
                    _ => {}
                }
                from = end;
            }
            // Every table has sketches. So if they follow, directly or behind what may be left out, no data block
            // and no range tombstone is missing.
            self.tombstones = has_sketches.then(|| Arc::new(tombstones));
        }
        self.unknown = (!has_sketches).then_some(damage);
        Ok(())
    }

    /// Where the block ends that starts `at` byte of the table, if it is whole.
    fn block_end(&self, stored: &[u8], at: usize, kind: BlockKind) -> Option<usize> {
        Some(at + self.block_bytes(stored.get(at..)?, at as u64, kind)?)
    }

    /// How long the block is that `rest` starts with, so far from the table's start, if it is whole.
    fn block_bytes(&self, rest: &[u8], at: u64, kind: BlockKind) -> Option<usize> {
        let place = self.source.offset + at;
        let mut crc = block_checksum(self.source.file_id, place, kind, &[]);
        for body in 0..rest.len().checked_sub(TRAILER_BYTES)? + 1 {
            crc = crc32c_append(crc, &rest[body..=body]);
            let end = body + TRAILER_BYTES;
            // Of many bytes some have a matching checksum behind them by accident.
            if crc == u32_at(rest, body + 1) && self.decodes(place, kind, &rest[..end]) {
                return Some(end);
            }
        }
        None
    }

    fn decodes(&self, place: u64, kind: BlockKind, stored: &[u8]) -> bool {
        match kind {
            BlockKind::Data => self
                .source
                .data_block(place, stored, || stored.into())
                .is_ok_and(|block| block.check_restarts().is_ok()),
            _ => self.source.section(kind, place, stored).is_ok(),
        }
    }

    /// The range tombstones, or `None` if it is unknown whether there are any.
    pub fn tombstones(&self) -> Option<&Arc<FragmentedTombstones>> {
        self.tombstones.as_ref()
    }

    /// What the table says of itself, without sketches, if that can be read.
    pub fn properties(&self) -> Option<&Properties> {
        self.properties.as_ref()
    }

    /// The seqno of a version that is stored with this one.
    fn seqno_of(&self, stored: Seqno) -> Seqno {
        let lowest = || self.properties.as_ref().and_then(Properties::lowest_ingest_seqno);
        stored.max(self.ingested_at.or_else(lowest).unwrap_or(0))
    }

    /// A cursor before the first version.
    pub fn cursor(self: &Arc<Self>) -> SalvageCursor {
        SalvageCursor {
            table: self.clone(),
            next: 0,
            block: None,
            position: BlockCursor::new(),
            last: None,
            lost: Vec::new(),
        }
    }

    /// Data block `n`, all of whose versions decode, and come after `last` and in order.
    fn block(&self, n: usize, last: Option<&(Vec<u8>, Seqno)>) -> Result<Block> {
        let place = &self.blocks[n];
        let there = self.source.file.len()?;
        if place.end > there {
            return Err(self.source.damaged(there, "the file ends before the table in it does"));
        }
        let stored = self.source.read(place.start, (place.end - place.start) as usize)?;
        let block = self.source.data_block(place.start, &stored, || stored[..].into())?;
        let bad = || self.source.damaged(place.start, "data block: its versions are corrupt");
        block.check_restarts().map_err(|_| bad())?;
        let mut position = BlockCursor::new();
        position.seek_first(&block).map_err(|_| bad())?;
        let mut last = last.cloned();
        loop {
            let version = (position.key(), position.seqno());
            let in_order = last.as_ref().is_none_or(|(key, seqno)| {
                compare_versions((key, *seqno), version) == Ordering::Less
            });
            if !in_order {
                return Err(bad());
            }
            last = Some((version.0.to_vec(), version.1));
            if !position.next(&block).map_err(|_| bad())? {
                return Ok(block);
            }
        }
    }
}

/// Damage as a text; other failures stay failures.
fn unless_damaged<T>(result: Result<T>) -> Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_corruption() => Ok(Err(error.fact())),
        Err(error) => Err(error),
    }
}

/// Walks what can be read of a table, in order, from the first version on.
pub struct SalvageCursor {
    table: Arc<SalvagedTable>,
    /// The next block to enter.
    next: usize,
    block: Option<Block>,
    position: BlockCursor,
    last: Option<(Vec<u8>, Seqno)>,
    lost: Vec<LostKeys>,
}

impl SalvageCursor {
    /// Goes to the next version, around what is damaged. False at the end. Fails only for another reason than
    /// damage.
    pub fn advance(&mut self) -> Result<bool> {
        if let Some(block) = &self.block {
            // Every entry of it was decoded when it was entered.
            if self.position.next(block).unwrap_or(false) {
                return Ok(true);
            }
            self.last = Some((self.position.key().to_vec(), self.position.seqno()));
            self.block = None;
        }
        while self.next < self.table.blocks.len() {
            let n = self.next;
            self.next += 1;
            match unless_damaged(self.table.block(n, self.last.as_ref()))? {
                Ok(block) => {
                    self.position.seek_first(&block).expect("every entry was decoded");
                    self.block = Some(block);
                    return Ok(true);
                }
                Err(damage) => self.note_lost(n, damage),
            }
        }
        if let Some(damage) = self.table.unknown.clone()
            && self.next == self.table.blocks.len()
        {
            self.next += 1;
            let from = self.last.as_ref().map(|(key, _)| key.clone()).unwrap_or_default();
            let to = self.table.properties.as_ref().map(|properties| properties.largest.clone());
            self.lost.push(LostKeys { from, to, error: damage });
        }
        Ok(false)
    }

    fn note_lost(&mut self, n: usize, error: String) {
        let separator = |n: usize| self.table.separators[n].clone();
        let before = if n == 0 { None } else { separator(n - 1) };
        let first = || self.table.properties.as_ref().map(|properties| properties.smallest.clone());
        let last = || self.last.as_ref().map(|(key, _)| key.clone());
        let from = before.or_else(last).or_else(first).unwrap_or_default();
        let to = separator(n);
        match self.lost.last_mut() {
            // The block before it is lost, too.
            Some(before) if before.to.as_ref() == Some(&from) => before.to = to,
            _ => self.lost.push(LostKeys { from, to, error }),
        }
    }

    /// The ranges that were gone around so far.
    pub fn lost(&self) -> &[LostKeys] {
        &self.lost
    }

    /// The key of the version that the cursor is on.
    pub fn key(&self) -> &[u8] {
        self.position.key()
    }

    /// Its seqno.
    pub fn seqno(&self) -> Seqno {
        self.table.seqno_of(self.position.seqno())
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.position.kind()
    }

    /// Its value.
    pub fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| block.slice(self.position.value()))
    }
}

/// The tables in a file that no manifest places: offset and length of each, the first one first. Those that were
/// [freed](freeable) are left out. `None` if the file is not whole, as one that was being written when the process ended.
///
/// # Errors
///
/// A read that fails, and a table of a newer version.
pub fn tables_in(file: &Arc<dyn ReadableFile>, file_id: u64) -> Result<Option<Vec<(u64, u64)>>> {
    let Some(extents) = extents_in(file, file_id)? else { return Ok(None) };
    let mut tables = Vec::new();
    for (offset, bytes) in extents {
        if !is_freed(file, file_id, offset..offset + bytes)? {
            tables.push((offset, bytes));
        }
    }
    Ok(Some(tables))
}

/// The same with the tables that were freed.
///
/// # Errors
///
/// Those of [`tables_in`].
pub fn extents_in(file: &Arc<dyn ReadableFile>, file_id: u64) -> Result<Option<Vec<(u64, u64)>>> {
    let mut tables = Vec::new();
    let mut end = file.len()?;
    while end > 0 {
        let source = BlockFetcher { file: file.clone(), file_id, offset: 0 };
        let footer = match crate::reader::footer_before(&source, end) {
            Ok(footer) => footer,
            Err(error) if error.is_corruption() => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(bytes) = end.checked_sub(footer.offset).filter(|bytes| *bytes > 0) else {
            return Ok(None);
        };
        let placed = BlockFetcher { file: file.clone(), file_id, offset: footer.offset };
        if end_of(&placed, bytes).is_err() {
            return Ok(None);
        }
        tables.push((footer.offset, bytes));
        end = footer.offset;
    }
    tables.reverse();
    Ok(Some(tables))
}

/// What may be freed of a table, whose bytes in its file are `table`, while other tables of the file are in use. The
/// footer stays: by it, [`tables_in`] finds the table before.
pub fn freeable(table: Range<u64>) -> Range<u64> {
    table.start..table.end.saturating_sub(FOOTER_BYTES as u64).max(table.start)
}

/// Whether the table of a file whose bytes are `table` was freed: all blocks of a file system that are wholly in
/// [what may be freed](freeable) are zeros, and the table does not verify. Reads one block of a table that was not.
///
/// # Errors
///
/// A read that fails.
pub fn is_freed(file: &Arc<dyn ReadableFile>, file_id: u64, table: Range<u64>) -> Result<bool> {
    const BLOCK_BYTES: u64 = 4096;
    let freeable = freeable(table.clone());
    let blocks = freeable.start.div_ceil(BLOCK_BYTES)..freeable.end / BLOCK_BYTES;
    let mut block = [0; BLOCK_BYTES as usize];
    for at in blocks.clone() {
        file.read_exact_at(at * BLOCK_BYTES, &mut block)?;
        if block.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    if blocks.is_empty() {
        return Ok(false);
    }
    // A table may hold as many zeros.
    let (cache, bytes) = (Arc::new(BlockCache::new(0)), table.end - table.start);
    let opened = Table::open(file.clone(), file_id, table.start, bytes, cache);
    let mut damage = None;
    match opened {
        Ok(opened) => _ = Arc::new(opened).verify(&mut |error| damage = Some(error)),
        Err(error) => damage = Some(error),
    }
    match damage {
        Some(error) if error.is_corruption() => Ok(true),
        Some(error) => Err(error),
        None => Ok(false),
    }
}

/// Whether the file's last bytes are those of a table, of which the rest may be damaged.
///
/// # Errors
///
/// A read that fails.
pub fn has_magic_at_end(file: &Arc<dyn ReadableFile>) -> Result<bool> {
    let mut end = MAGIC;
    let Some(offset) = file.len()?.checked_sub(end.len() as u64) else { return Ok(false) };
    file.read_exact_at(offset, &mut end)?;
    // A flipped byte must not make a whole file look like one that was never finished.
    Ok(end.iter().zip(&MAGIC).filter(|(found, magic)| found == magic).count() >= MAGIC.len() / 2)
}
