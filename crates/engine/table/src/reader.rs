//! An open table: what is held in memory of it, and the lookup of one key.

use crate::block::{BadEntry, Block, SeekResult};
use crate::block_fetcher::BlockFetcher;
use crate::block_key::BlockKey;
use crate::cache::BlockCache;
use crate::compression::zeroed;
use crate::filter::Filter;
use crate::format::{BlockKind, FOOTER_BYTES, FOOTER_BYTES_MAX, Footer};
use crate::index::Index;
use crate::sketch::Sketches;
use crate::table_iter::{PinnedValue, ReadPurpose, TableIter};
use crate::{Properties, range_del_block};
use esker_base::operation_cost::count;
use esker_base::{Error, FragmentedTombstones, Kind, MAX_SEQNO, Result, Seqno};
use esker_storage::ReadableFile;
use std::ops::Range;
use std::sync::Arc;

/// Opening reads so much of the table's end at once: all sections of a small table, and most of
/// those of one of 64 MiB.
const TAIL_BYTES: u64 = 256 << 10;

/// A version that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its seqno.
    pub seqno: Seqno,
    /// Its kind: a delete was found, too.
    pub kind: Kind,
    /// Its value, in its block.
    pub value: PinnedValue,
}

/// What lookups read of files because no cache had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockReadStats {
    /// Data blocks.
    pub blocks: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
}

/// A table open for reading. Threads may share it.
///
/// Index, filter and range tombstones are in memory. Data blocks are read through the block cache.
pub struct Table {
    pub(crate) source: BlockFetcher,
    pub(crate) bytes: u64,
    pub(crate) index: Index,
    filter: Filter,
    tombstones: Arc<FragmentedTombstones>,
    properties: Properties,
    /// The seqno of all versions of an ingested table, 0 for others.
    ingested_at: Seqno,
    /// See [`Table::fixed_bytes`].
    fixed_bytes: u64,
    pub(crate) cache: Arc<BlockCache>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BlockFetcher { file, offset, .. } = &self.source;
        write!(f, "Table({} at {offset}, {} bytes)", file.name(), self.bytes)
    }
}

impl Table {
    /// Opens the table of `bytes` bytes at `offset` of `file`. Verifies everything except the data
    /// blocks.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a part is damaged, [`Error::Io`] if the file cannot be read,
    /// [`Error::NewerVersion`] or [`Error::UnknownFeatures`] if a newer release wrote it.
    #[doc(hidden)]
    pub fn open(
        file: Arc<dyn ReadableFile>,
        file_id: u64,
        offset: u64,
        bytes: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Table> {
        let source = BlockFetcher { file, file_id, offset };
        let sections = MetaBlocks::read(&source, bytes)?;
        let decoded = |kind: BlockKind| {
            let (at, stored) = sections.get(kind);
            source.section(kind, at, stored).map(|body| (at, body))
        };
        let impossible =
            |at: u64, kind: BlockKind| source.damaged(at, format!("{}: impossible", kind.name()));

        let (at, body) = decoded(BlockKind::Index)?;
        let index = Index::decode(&body).ok_or_else(|| impossible(at, BlockKind::Index))?;
        if index.blocks_end() != sections.footer.sections[0] {
            return Err(source.damaged(at, "index: the data blocks do not fill their section"));
        }
        let (at, body) = decoded(BlockKind::Sketches)?;
        let sketches =
            Sketches::decode(&body).ok_or_else(|| impossible(at, BlockKind::Sketches))?;
        let (at, body) = decoded(BlockKind::Properties)?;
        let mut properties = Properties::decode(&body)
            .map_err(|what| source.damaged(at, format!("properties: {what}")))?;
        properties.sketches = Arc::new(sketches);
        if properties.file_id != file_id {
            return Err(source.damaged(at, "properties: of a table in another file"));
        }
        let filter = if sections.has(BlockKind::Filter) {
            let (at, body) = decoded(BlockKind::Filter)?;
            Filter::decode(&body).ok_or_else(|| impossible(at, BlockKind::Filter))?
        } else {
            Filter::default()
        };
        let tombstones = if sections.has(BlockKind::Tombstones) {
            let (at, body) = decoded(BlockKind::Tombstones)?;
            range_del_block::decode(&body).ok_or_else(|| impossible(at, BlockKind::Tombstones))?
        } else {
            FragmentedTombstones::default()
        };
        let tombstones = Arc::new(tombstones);
        let sections_of_few = [BlockKind::Sketches, BlockKind::Properties];
        let few_bytes: usize = sections_of_few.map(|kind| sections.place(kind).len()).iter().sum();
        let fixed_bytes = (few_bytes + FOOTER_BYTES) as u64;
        let ingested_at = 0;
        Ok(Table {
            source,
            bytes,
            index,
            filter,
            tombstones,
            properties,
            ingested_at,
            fixed_bytes,
            cache,
        })
    }

    /// The table with the seqno that the manifest has for all its versions. It has one if and only if
    /// the table was ingested.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the table says otherwise.
    #[doc(hidden)]
    pub fn ingested_at(mut self, seqno: Option<Seqno>) -> Result<Table> {
        match (seqno, self.properties.ingested_after) {
            (Some(seqno), Some(after)) if seqno > after => self.ingested_at = seqno,
            (None, None) => {}
            (Some(_), _) => {
                let what = "properties: the manifest says that the table was ingested";
                return Err(self.source.damaged(self.source.offset, what));
            }
            (None, Some(_)) => {
                let what = "properties: of an ingested table, and the manifest has no seqno for it";
                return Err(self.source.damaged(self.source.offset, what));
            }
        }
        Ok(self)
    }

    /// The seqno of a version that is stored with this one.
    #[inline]
    pub(crate) fn seqno_of(&self, stored: Seqno) -> Seqno {
        stored.max(self.ingested_at)
    }

    /// Whether all versions are newer than `seqno`, because they were ingested later.
    #[inline]
    pub(crate) fn hides_from(&self, seqno: Seqno) -> bool {
        seqno < self.ingested_at
    }

    /// Those of its bytes whose number follows little or not at all from that of its keys: sketches,
    /// properties and footer.
    pub fn fixed_bytes(&self) -> u64 {
        self.fixed_bytes
    }

    /// Checks that `file` is long enough for the table that [`Table::open`] would open, and that it ends with
    /// that table's footer, of a version and with features known here. Nothing else of it is read. Returns how many
    /// bytes of it are not data blocks, but what an open table has in memory.
    #[doc(hidden)]
    pub fn check_end(
        file: Arc<dyn ReadableFile>,
        file_id: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<u64> {
        let source = BlockFetcher { file, file_id, offset };
        let end = end_of(&source, bytes)?;
        // Of a newer version, it may be longer than that of this one.
        let tail_bytes = bytes.min(FOOTER_BYTES_MAX as u64);
        let tail = source.read(end - tail_bytes, tail_bytes as usize)?;
        footer_in(&source, &tail, end, bytes).map(|footer| bytes - footer.sections[0])
    }

    /// The newest version of `key` with a seqno at or below `snapshot`, a delete included. Range
    /// tombstones are not inspected. `key_hash` is the key's [`esker_base::hash64`].
    #[doc(hidden)]
    #[inline]
    pub fn get(&self, key: &[u8], key_hash: u64, snapshot: Seqno) -> Result<Option<Found>> {
        let found = || self.find(key, snapshot, &mut BlockReadStats::default());
        if self.may_contain(key_hash) { found() } else { Ok(None) }
    }

    /// As [`Table::get`], without asking the filter. Adds to `loaded` what it reads of the file.
    #[doc(hidden)]
    #[inline]
    pub fn find(
        &self,
        key: &[u8],
        snapshot: Seqno,
        loaded: &mut BlockReadStats,
    ) -> Result<Option<Found>> {
        self.lookup(key, snapshot, |table, n| {
            if let Some(block) = table.cache.get(table.block_key(n)) {
                count(|cost| cost.cache_hits += 1);
                return Ok(block);
            }
            count(|cost| cost.cache_misses += 1);
            let place = table.block_place(n);
            loaded.blocks += 1;
            loaded.bytes += place.end - place.start;
            table.load_block(n)
        })
    }

    /// As [`Table::find`], from memory alone: [`Error::WouldBlock`] if the file would have to be
    /// read.
    #[doc(hidden)]
    #[inline]
    pub fn try_find(&self, key: &[u8], snapshot: Seqno) -> Result<Option<Found>> {
        self.lookup(key, snapshot, |table, n| {
            let block = table.cache.get(table.block_key(n)).ok_or(Error::WouldBlock)?;
            count(|cost| cost.cache_hits += 1);
            Ok(block)
        })
    }

    #[inline]
    pub(crate) fn lookup(
        &self,
        key: &[u8],
        snapshot: Seqno,
        block: impl FnOnce(&Table, usize) -> Result<Block>,
    ) -> Result<Option<Found>> {
        if self.hides_from(snapshot) {
            return Ok(None);
        }
        let n = self.index.find(key, snapshot);
        if n == self.index.len() {
            return Ok(None);
        }
        let block = block(self, n)?;
        block.touch();
        let bad_entry = |bad| self.bad_entry(n, bad);
        let landing = block.seek(key, snapshot).map_err(bad_entry)?;
        let Some(SeekResult { place, entry, .. }) = landing.filter(|landing| landing.same_key)
        else {
            return Ok(None);
        };
        let value = block.value(place, &entry).map_err(bad_entry)?;
        let value = PinnedValue::new(block, value);
        Ok(Some(Found { seqno: self.seqno_of(entry.seqno), kind: entry.kind, value }))
    }

    /// Whether a key with this hash may be here. False is certain.
    #[inline]
    pub fn may_contain(&self, key_hash: u64) -> bool {
        self.filter.may_contain(key_hash)
    }

    /// The bytes of the data blocks that are wholly between `start` and `end`.
    pub fn bytes_within(&self, start: &[u8], end: &[u8]) -> u64 {
        let place = |key| self.index.find(key, MAX_SEQNO);
        let after =
            |n: usize| if n < self.index.len() { self.index.block(n).end } else { u64::MAX };
        let before = |n: usize| match n < self.index.len() {
            true => self.index.block(n).start,
            false => self.index.blocks_end(),
        };
        before(place(end)).saturating_sub(after(place(start)))
    }

    /// Returns the range tombstones.
    #[doc(hidden)]
    pub fn tombstones(&self) -> &Arc<FragmentedTombstones> {
        &self.tombstones
    }

    /// Returns the counts, bounds and sketches.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the bytes of memory held while the table is open: index, filter, range tombstones,
    /// properties.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.index.memory_bytes()
            + self.filter.memory_bytes()
            + range_del_block::memory_bytes(&self.tombstones)
            + self.properties.memory_bytes()
    }

    /// Returns the bytes of memory of the filter.
    pub fn filter_bytes(&self) -> usize {
        self.filter.memory_bytes()
    }

    /// Returns a cursor over all versions.
    pub fn cursor(self: &Arc<Self>, purpose: ReadPurpose) -> TableIter {
        TableIter::new(self.clone(), purpose)
    }

    /// Whether a filter answers [`Table::may_contain`].
    #[inline]
    pub fn has_filter(&self) -> bool {
        self.filter.fingerprint_bits() > 0
    }

    /// Bits of a filter fingerprint, 0 without a filter.
    pub(crate) fn fingerprint_bits(&self) -> u8 {
        self.filter.fingerprint_bits()
    }

    #[inline]
    pub(crate) fn block_key(&self, n: usize) -> BlockKey {
        BlockKey { file_id: self.source.file_id, offset: self.block_place(n).start }
    }

    /// Where data block `n` is in the file.
    #[inline]
    pub(crate) fn block_place(&self, n: usize) -> Range<u64> {
        let place = self.index.block(n);
        self.source.offset + place.start..self.source.offset + place.end
    }

    /// Removes the data blocks from the block cache. Takes a lookup for each.
    pub fn leave_cache(&self) {
        if self.cache.used_bytes() > 0 {
            (0..self.index.len()).for_each(|n| self.cache.remove(self.block_key(n)));
        }
    }

    /// Data block `n`, from the cache or, then cached, from the file, of which `load` reads it.
    #[inline]
    pub(crate) fn cached_block(
        &self,
        n: usize,
        load: impl FnOnce() -> Result<Block>,
    ) -> Result<Block> {
        if let Some(block) = self.cache.get(self.block_key(n)) {
            count(|cost| cost.cache_hits += 1);
            return Ok(block);
        }
        count(|cost| cost.cache_misses += 1);
        let block = load()?;
        self.cache.insert(self.block_key(n), block.clone());
        Ok(block)
    }

    /// The data block that starts at `offset` of the file.
    pub(crate) fn block_after(&self, offset: u64) -> usize {
        self.index.blocks_before(offset - self.source.offset)
    }

    #[cold]
    fn load_block(&self, n: usize) -> Result<Block> {
        let block = self.read_block(n)?;
        self.cache.insert(self.block_key(n), block.clone());
        Ok(block)
    }

    /// Data block `n`, from the file.
    pub(crate) fn read_block(&self, n: usize) -> Result<Block> {
        let place = self.block_place(n);
        let mut stored = zeroed((place.end - place.start) as usize);
        let target = Arc::get_mut(&mut stored).expect("no other thread has it yet");
        self.source.file.read_exact_at(place.start, target)?;
        count_read(1, &place);
        self.source.data_block(place.start, &stored, || stored.clone())
    }

    /// The report of a bad entry in block `n`.
    #[cold]
    pub(crate) fn bad_entry(&self, n: usize, bad: BadEntry) -> Error {
        let what = format!(
            "data block: no entry of a kind known here at byte {} of the unpacked block",
            bad.at
        );
        self.source.damaged(self.block_place(n).start, what)
    }
}

/// Counts data blocks that are read from this place of a file.
pub(crate) fn count_read(blocks: usize, place: &Range<u64>) {
    count(|cost| {
        cost.blocks_read += blocks as u64;
        cost.bytes_read += place.end - place.start;
    });
}

/// Where a table of `bytes` bytes ends in its file.
pub(crate) fn end_of(source: &BlockFetcher, bytes: u64) -> Result<u64> {
    let file_bytes = source.file.len()?;
    let end = source.offset.checked_add(bytes).filter(|&end| end <= file_bytes);
    end.ok_or_else(|| source.damaged(file_bytes, "the file ends before the table in it does"))
}

/// The footer that ends at `end` of a file, of whatever table.
pub(crate) fn footer_before(source: &BlockFetcher, end: u64) -> Result<Footer> {
    let tail_bytes = end.min(FOOTER_BYTES_MAX as u64);
    let tail = source.read(end - tail_bytes, tail_bytes as usize)?;
    Footer::decode(&tail, source.file.name(), end)
}

/// The footer in `tail`, the last bytes of a table of `bytes` bytes that ends at `end` of its file.
fn footer_in(source: &BlockFetcher, tail: &[u8], end: u64, bytes: u64) -> Result<Footer> {
    let footer_tail = &tail[tail.len().saturating_sub(FOOTER_BYTES_MAX)..];
    let footer = Footer::decode(footer_tail, source.file.name(), end)?;
    if (footer.file_id, footer.offset) != (source.file_id, source.offset) {
        let what = format!(
            "table footer: of the table at {} of file {}, not at {} of file {}",
            footer.offset, footer.file_id, source.offset, source.file_id
        );
        return Err(source.damaged(end, what));
    }
    let sections_end = bytes - FOOTER_BYTES as u64;
    let sum = footer.sections.iter().try_fold(0u64, |sum, &section| sum.checked_add(section));
    if sum != Some(sections_end) {
        return Err(source.damaged(end, "table footer: the sections do not fill the table"));
    }
    Ok(footer)
}

/// The end of a table, read: footer and all sections but the data blocks, as stored.
pub(crate) struct MetaBlocks {
    pub(crate) footer: Footer,
    stored: Vec<u8>,
    /// Where `stored` starts in the file: behind the data blocks.
    start: u64,
}

impl MetaBlocks {
    pub(crate) fn read(source: &BlockFetcher, bytes: u64) -> Result<MetaBlocks> {
        let end = end_of(source, bytes)?;
        let mut tail_bytes = bytes.min(TAIL_BYTES);
        let mut tail = source.read(end - tail_bytes, tail_bytes as usize);
        if tail.as_ref().is_err_and(Error::is_lost) {
            // That may be a data block, which is not needed.
            tail_bytes = bytes.min(FOOTER_BYTES_MAX as u64);
            tail = source.read(end - tail_bytes, tail_bytes as usize);
        }
        let mut tail = tail?;
        let footer = footer_in(source, &tail, end, bytes)?;
        let wanted = bytes - footer.sections[0];
        if wanted > tail_bytes {
            tail = source.read(end - wanted, wanted as usize)?;
        }
        let stored = tail.split_off(tail.len() - wanted as usize);
        Ok(MetaBlocks { footer, stored, start: end - wanted })
    }

    fn place(&self, kind: BlockKind) -> Range<usize> {
        let n = match kind {
            BlockKind::Data => 0,
            BlockKind::Filter => 1,
            BlockKind::Tombstones => 2,
            BlockKind::Sketches => 3,
            BlockKind::Properties => 4,
            BlockKind::Index => 5,
        };
        let start: u64 = self.footer.sections[1..n].iter().sum();
        start as usize..(start + self.footer.sections[n]) as usize
    }

    pub(crate) fn has(&self, kind: BlockKind) -> bool {
        !self.place(kind).is_empty()
    }

    /// Where a section is in the file, and its stored bytes.
    pub(crate) fn get(&self, kind: BlockKind) -> (u64, &[u8]) {
        let place = self.place(kind);
        (self.start + place.start as u64, &self.stored[place])
    }
}
