//! An open table: what is held in memory of it, and the lookup of one key.

use crate::block::{BadEntry, Block, SeekResult};
use crate::block_fetcher::BlockFetcher;
use crate::block_key::BlockKey;
use crate::cache::BlockCache;
use crate::compression::zeroed;
use crate::filter::Filter;
use crate::format::{BlockKind, FOOTER_BYTES, FOOTER_BYTES_MAX, Footer};
use crate::index::Index;
use crate::part_cache::PartUse;
use crate::parts::Parts;
use crate::read_ahead::Loaded;
use crate::sketch::Sketches;
use crate::table_index::{HeldPart, Patience, TableIndex, TableParts};
use crate::table_iter::{PinnedValue, ReadPurpose, TableIter};
use crate::{Properties, range_del_block};
use esker_base::operation_cost::count;
use esker_base::{Error, FragmentedTombstones, Kind, Result, Seqno};
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
/// Range tombstones are in memory, and the index and filter of a small table. Parts of these of a large
/// table, and data blocks, are read through the block cache.
pub struct Table {
    pub(crate) source: BlockFetcher,
    pub(crate) bytes: u64,
    pub(crate) index: TableIndex,
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
    /// blocks and the parts of index and filter.
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
        let (data_bytes, part_bytes) = (sections.footer.sections[0], sections.footer.part_bytes());
        let (at, body) = decoded(BlockKind::Index)?;
        let index = if part_bytes > 0 {
            let parts = Parts::decode(&body, data_bytes, part_bytes);
            let parts = parts.ok_or_else(|| impossible(at, BlockKind::Index))?;
            TableIndex::Parts(TableParts::new(parts, properties.level, cache.clone()))
        } else {
            let index = Index::decode(&body).ok_or_else(|| impossible(at, BlockKind::Index))?;
            if index.blocks_end() != data_bytes {
                let what = "index: the data blocks do not fill their section";
                return Err(source.damaged(at, what));
            }
            let filter = if sections.has(BlockKind::Filter) {
                let (at, body) = decoded(BlockKind::Filter)?;
                Filter::decode(&body).ok_or_else(|| impossible(at, BlockKind::Filter))?
            } else {
                Filter::default()
            };
            TableIndex::Whole(index, filter)
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
        Ok(Table { source, bytes, index, tombstones, properties, ingested_at, fixed_bytes, cache })
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
    /// bytes of it are neither data blocks nor parts, but what an open table has in memory.
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
        let footer = footer_in(&source, &tail, end, bytes)?;
        Ok(bytes - footer.sections[0] - footer.part_bytes())
    }

    /// The newest version of `key` with a seqno at or below `snapshot`, a delete included. Range
    /// tombstones are not inspected. `key_hash` is the key's [`esker_base::hash64`].
    #[doc(hidden)]
    #[inline]
    pub fn get(&self, key: &[u8], key_hash: u64, snapshot: Seqno) -> Result<Option<Found>> {
        match self.may_contain(key, key_hash, snapshot, Patience::MayRead)? {
            true => self.find(key, snapshot, &mut BlockReadStats::default()),
            false => Ok(None),
        }
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
        self.lookup(key, snapshot, Patience::MayRead, |table, place| {
            if let Some(block) = table.cache.get(table.block_key(&place)) {
                count(|cost| cost.cache_hits += 1);
                return Ok(block);
            }
            count(|cost| cost.cache_misses += 1);
            loaded.blocks += 1;
            loaded.bytes += place.end - place.start;
            table.load_block(place)
        })
    }

    /// As [`Table::find`], from memory alone: [`Error::WouldBlock`] if the file would have to be
    /// read.
    #[doc(hidden)]
    #[inline]
    pub fn try_find(&self, key: &[u8], snapshot: Seqno) -> Result<Option<Found>> {
        self.lookup(key, snapshot, Patience::FromMemory, |table, place| {
            let block = table.cache.get(table.block_key(&place)).ok_or(Error::WouldBlock)?;
            count(|cost| cost.cache_hits += 1);
            Ok(block)
        })
    }

    /// Finds a version in the block that `block` gets, from its place in the file.
    #[inline]
    pub(crate) fn lookup(
        &self,
        key: &[u8],
        snapshot: Seqno,
        patience: Patience,
        block: impl FnOnce(&Table, Range<u64>) -> Result<Block>,
    ) -> Result<Option<Found>> {
        if self.hides_from(snapshot) {
            return Ok(None);
        }
        let Some(place) = self.find_place(key, snapshot, patience)? else { return Ok(None) };
        let start = place.start;
        let block = block(self, place)?;
        block.touch();
        let bad_entry = |bad| self.bad_entry_at(start, bad);
        let landing = block.seek(key, snapshot).map_err(bad_entry)?;
        let Some(SeekResult { place, entry, .. }) = landing.filter(|landing| landing.same_key)
        else {
            return Ok(None);
        };
        let value = block.value(place, &entry).map_err(bad_entry)?;
        let value = PinnedValue::new(block, value);
        Ok(Some(Found { seqno: self.seqno_of(entry.seqno), kind: entry.kind, value }))
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
    /// properties. Of the index and the filter of a large table only the top: their parts are in the block cache.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.index.memory_bytes()
            + range_del_block::memory_bytes(&self.tombstones)
            + self.properties.memory_bytes()
    }

    /// Returns the bytes of memory of the filter, or of the parts of it that are in memory.
    pub fn filter_bytes(&self) -> usize {
        self.index.filter_bytes()
    }

    /// Returns a cursor over all versions.
    pub fn cursor(self: &Arc<Self>, purpose: ReadPurpose) -> TableIter {
        TableIter::new(self.clone(), purpose)
    }

    /// Whether a filter answers [`Table::may_contain`].
    #[inline]
    pub fn has_filter(&self) -> bool {
        self.fingerprint_bits() > 0
    }

    /// Bits of a filter fingerprint, 0 without a filter.
    #[inline]
    pub(crate) fn fingerprint_bits(&self) -> u8 {
        match &self.index {
            TableIndex::Whole(_, filter) => filter.fingerprint_bits(),
            TableIndex::Parts(_) => self.properties.fingerprint_bits,
        }
    }

    #[inline]
    pub(crate) fn block_key(&self, place: &Range<u64>) -> BlockKey {
        BlockKey { file_id: self.source.file_id, offset: place.start }
    }

    /// The data block at `place`, from the cache or, then cached, from the file, of which `load` reads it.
    #[inline]
    pub(crate) fn cached_block(
        &self,
        place: &Range<u64>,
        load: impl FnOnce() -> Result<Loaded>,
    ) -> Result<Block> {
        let key = self.block_key(place);
        if let Some(block) = self.cache.get(key) {
            count(|cost| cost.cache_hits += 1);
            return Ok(block);
        }
        count(|cost| cost.cache_misses += 1);
        match load()? {
            Loaded::Alone(block) => {
                self.cache.insert(key, block.clone());
                Ok(block)
            }
            Loaded::Ahead(block) => {
                self.cache.insert_read_ahead(key, &block);
                Ok(block)
            }
        }
    }

    /// Whether the cache has the block at `place`, which it does not count as a use.
    pub(crate) fn is_cached(&self, place: &Range<u64>) -> bool {
        self.cache.has(self.block_key(place))
    }

    #[cold]
    fn load_block(&self, place: Range<u64>) -> Result<Block> {
        let key = self.block_key(&place);
        let block = self.read_block(&place)?;
        self.cache.insert(key, block.clone());
        Ok(block)
    }

    /// The data block at `place`, from the file.
    pub(crate) fn read_block(&self, place: &Range<u64>) -> Result<Block> {
        let mut stored = zeroed((place.end - place.start) as usize);
        let target = Arc::get_mut(&mut stored).expect("no other thread has it yet");
        self.source.file.read_exact_at(place.start, target)?;
        count_read(1, place);
        self.source.data_block(place.start, &stored, || stored.clone())
    }

    /// The report of a bad entry in block `n`.
    #[cold]
    pub(crate) fn bad_entry(&self, n: usize, bad: BadEntry) -> Error {
        let place = self.block_place(n, &mut HeldPart::default(), PartUse::Walk);
        self.bad_entry_at(place.map_or(self.source.offset, |place| place.start), bad)
    }

    /// The report of a bad entry in the block at `offset` of the file.
    #[cold]
    pub(crate) fn bad_entry_at(&self, offset: u64, bad: BadEntry) -> Error {
        let what = format!(
            "data block: no entry of a kind known here at byte {} of the unpacked block",
            bad.at
        );
        self.source.damaged(offset, what)
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

/// The end of a table, read: footer and all sections but the data blocks and parts, as stored.
pub(crate) struct MetaBlocks {
    pub(crate) footer: Footer,
    stored: Vec<u8>,
    /// Where `stored` starts in the file: behind the data blocks, and the parts.
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
        let wanted = bytes - footer.sections[0] - footer.part_bytes();
        if wanted > tail_bytes {
            tail = source.read(end - wanted, wanted as usize)?;
        }
        let stored = tail.split_off(tail.len() - wanted as usize);
        Ok(MetaBlocks { footer, stored, start: end - wanted })
    }

    fn place(&self, kind: BlockKind) -> Range<usize> {
        let n = match kind {
            BlockKind::Data | BlockKind::IndexPart | BlockKind::FilterPart => return 0..0,
            BlockKind::Filter => 1,
            BlockKind::Tombstones => 2,
            BlockKind::Sketches => 3,
            BlockKind::Properties => 4,
            BlockKind::Index => 5,
        };
        let mut lengths = self.footer.sections;
        // Parts are in the place of the filter, and not in `stored`.
        lengths[1] -= self.footer.part_bytes();
        let start: u64 = lengths[1..n].iter().sum();
        start as usize..(start + lengths[n]) as usize
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
