//! Writes a table: takes versions in order, appends blocks as they fill, and the rest at the end.

use crate::block::common_prefix;
use crate::block_builder::BlockBuilder;
use crate::compression::BlockCompressor;
use crate::format::{
    BLOCK_CLOSING_BYTES, BLOCK_TARGET_BYTES, BlockKind, FOOTER_BYTES, Footer, HAS_EXPIRING,
    HAS_OPERANDS, HAS_PARTS, HAS_SEPARATED, HAS_VALUES_IN_BLOCKS, SAMPLES_AS_BITS, VALUE_BYTES_MAX,
    put_trailer,
};
use crate::parts::PartLimits;
use crate::parts_builder::{Encoded, EncodedPart, PartsBuilder, encode_top};
use crate::properties::Origin;
use crate::sketch::Sketches;
use crate::{Compression, Properties, range_del_block};
use esker_base::{
    FragmentedTombstones, KeyspaceId, Kind, MAX_SEQNO, RangeTombstone, Result, Seqno, ValuePlace,
    hash64, split_expiry,
};
use esker_storage::WritableFile;
use std::sync::Arc;

/// Blocks are handed to the file in pieces of this size: few calls, and little in memory.
const APPEND_BYTES: usize = 256 << 10;

/// After so many bytes, the system is asked to start writing them to the device.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// What differs from table to table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableOptions {
    /// The keyspace of all keys.
    pub keyspace: KeyspaceId,
    /// How data blocks are packed.
    pub compression: Compression,
    /// Bits of a filter fingerprint: 0 (no filter) to [`FINGERPRINT_BITS_MAX`](crate::FINGERPRINT_BITS_MAX).
    pub fingerprint_bits: u8,
    /// The level the table is for.
    pub level: u8,
    /// The file's id, the same one that [`crate::Table::open`] will be given.
    pub file_id: u64,
    /// The level that is wanted of the sample of its keys: that of the tables that it will be merged with, at
    /// which the merge is judged. A table with few keys has a lower one. 0 asks for the finest that a
    /// table of its size has.
    pub sample_level: u8,
    /// When index and filter are cut into parts.
    pub parts: PartLimits,
}

/// A table that was written.
#[derive(Clone, PartialEq, Debug)]
pub struct TableInfo {
    /// Where it starts in its file.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// What is in it.
    pub properties: Properties,
}

/// The file that a table is written to.
enum TargetFile<'f> {
    Borrowed(&'f mut dyn WritableFile),
    Owned(Box<dyn WritableFile>),
}

impl TargetFile<'_> {
    fn get(&self) -> &dyn WritableFile {
        match self {
            TargetFile::Borrowed(file) => &**file,
            TargetFile::Owned(file) => &**file,
        }
    }

    fn get_mut(&mut self) -> &mut dyn WritableFile {
        match self {
            TargetFile::Borrowed(file) => &mut **file,
            TargetFile::Owned(file) => &mut **file,
        }
    }
}

/// Writes one table behind whatever the file already holds.
pub struct TableWriter<'f> {
    file: TargetFile<'f>,
    options: TableOptions,
    /// Where the table starts in the file.
    offset: u64,
    /// Stored bytes not yet appended to the file.
    pending: Vec<u8>,
    /// File length up to which writeback was asked for.
    written_back: u64,
    block: BlockBuilder,
    packer: BlockCompressor,
    /// Index and filter.
    index: PartsBuilder,
    /// A finished block waits for the next key, which its separator must stay below.
    unindexed_block_bytes: Option<u64>,
    last_seqno: Seqno,
    sketches: Sketches,
    tombstones: Vec<RangeTombstone>,
    properties: Properties,
    /// Features that a reader must know.
    required_features: u32,
}

impl TableWriter<'static> {
    /// The same as [`TableWriter::new`], with a file of its own.
    pub fn owning(file: Box<dyn WritableFile>, options: TableOptions) -> Self {
        TableWriter::of(TargetFile::Owned(file), options)
    }

    /// Ends the table as [`TableWriter::finish`] does, and returns the file.
    ///
    /// # Panics
    /// If the writer does not own the file.
    pub fn finish_owned(mut self) -> Result<(TableInfo, Box<dyn WritableFile>)> {
        let info = self.end()?;
        match self.file {
            TargetFile::Owned(file) => Ok((info, file)),
            TargetFile::Borrowed(_) => unreachable!("the writer owns its file"),
        }
    }
}

impl<'f> TableWriter<'f> {
    /// A writer whose table starts at the file's current end.
    pub fn new(file: &'f mut dyn WritableFile, options: TableOptions) -> Self {
        TableWriter::of(TargetFile::Borrowed(file), options)
    }

    fn of(file: TargetFile<'f>, options: TableOptions) -> Self {
        let offset = file.get().len();
        let mut properties =
            Properties::before_first(options.keyspace, options.level, options.file_id);
        properties.compression = options.compression;
        TableWriter {
            file,
            options,
            offset,
            pending: Vec::with_capacity(APPEND_BYTES + 2 * BLOCK_TARGET_BYTES),
            written_back: offset,
            block: BlockBuilder::default(),
            packer: BlockCompressor::new(options.compression),
            index: PartsBuilder::new(options.parts, options.fingerprint_bits),
            unindexed_block_bytes: None,
            last_seqno: 0,
            sketches: Sketches::default(),
            tombstones: Vec::new(),
            properties,
            required_features: SAMPLES_AS_BITS,
        }
    }

    /// The same, and the table says what it was written for.
    pub fn with_origin(mut self, origin: Option<Arc<Origin>>) -> Self {
        self.properties.origin = origin;
        self
    }

    /// The same, and the table is to be ingested: all its versions are puts with seqno 0, and get the
    /// seqno that the manifest says. It is above `after`.
    pub fn with_ingested_after(mut self, after: Seqno) -> Self {
        self.properties.ingested_after = Some(after);
        self
    }

    /// Says that the table replaces what other tables have in `[from, to)`, if its origin names any.
    pub fn set_range(&mut self, from: Option<&[u8]>, to: Option<&[u8]>) {
        if let Some(origin) = &mut self.properties.origin
            && !origin.replaces.is_empty()
        {
            let origin = Arc::make_mut(origin);
            origin.from = from.map(<[u8]>::to_vec);
            origin.to = to.map(<[u8]>::to_vec);
        }
    }

    /// Adds a version. Versions come in strictly increasing order: key ascending, seqno descending.
    ///
    /// # Panics
    /// If they do not, or the key is empty, or the value longer than [`VALUE_BYTES_MAX`], or the kind is
    /// a range delete.
    #[inline]
    pub fn add(&mut self, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) -> Result<()> {
        assert!(kind != Kind::RangeDelete, "range deletes are added as tombstones");
        assert!(seqno <= MAX_SEQNO && !key.is_empty(), "not a version");
        assert!(value.len() <= VALUE_BYTES_MAX, "the value is too long for a table");
        let last_key = self.block.last_key();
        let common = common_prefix(key, last_key);
        let new_key = common < last_key.len().max(key.len());
        assert!(
            if new_key { key.get(common) > last_key.get(common) } else { seqno < self.last_seqno },
            "versions are added in order"
        );
        let bytes = self.block.bytes();
        if !self.block.is_empty()
            && (bytes >= BLOCK_TARGET_BYTES
                || bytes + BlockBuilder::bytes_to_add(key, value) > BLOCK_CLOSING_BYTES)
        {
            self.finish_block()?;
        }
        if let Some(block_bytes) = self.unindexed_block_bytes.take() {
            self.index_block(Some(key), block_bytes);
        }
        if new_key {
            self.note_key(key, kind, value);
        }
        match kind {
            Kind::Merge | Kind::Combined => self.required_features |= HAS_OPERANDS,
            Kind::ExpiringPut => {
                self.required_features |= HAS_EXPIRING;
                split_expiry(value)
                    .into_iter()
                    .for_each(|(time, _)| self.properties.count_expiry(time));
            }
            Kind::Separated => {
                self.required_features |= HAS_SEPARATED;
                if let Some(place) = ValuePlace::decode(value) {
                    if place.is_in_blocks() {
                        self.required_features |= HAS_VALUES_IN_BLOCKS;
                    }
                    self.properties.count_separated(&place);
                }
            }
            Kind::Put | Kind::Delete | Kind::RangeDelete => {}
        }
        self.block.add(key, common, seqno, kind, value);
        self.last_seqno = seqno;
        self.properties.count_version(key.len(), seqno, kind, value.len());
        Ok(())
    }

    /// Adds the last block to the index. `next` is the key behind it, if there is one.
    fn index_block(&mut self, next: Option<&[u8]>, block_bytes: u64) {
        let last = (self.block.last_key(), self.last_seqno);
        self.index.add(last, next, block_bytes, || hash64(last.0));
    }

    #[inline]
    fn note_key(&mut self, key: &[u8], kind: Kind, value: &[u8]) {
        if self.properties.entries == 0 {
            self.properties.smallest = key.to_vec();
        }
        let hash = hash64(key);
        let bytes = if kind == Kind::Delete { 0 } else { key.len() + value.len() };
        self.sketches.insert(hash, bytes as u64);
        self.index.note_key(hash);
        self.properties.keys += 1;
    }

    /// Adds a range tombstone, at any time. One with an empty range is ignored.
    pub fn add_range_tombstone(&mut self, tombstone: RangeTombstone) {
        if tombstone.start < tombstone.end {
            self.tombstones.push(tombstone);
        }
    }

    /// About how long the table would be if it ended now; and no less than the separators of its index
    /// take unpacked. Long keys that are much alike pack to next to nothing, but readers hold separators
    /// whole and refuse 4 GiB of them: so tables that are cut by this stay far below.
    pub fn estimated_bytes(&self) -> u64 {
        let open_block = if self.block.is_empty() { 0 } else { self.block.bytes() };
        let rest = open_block + self.index.bytes() + FOOTER_BYTES;
        (self.bytes() + rest as u64).max(self.index.separator_bytes())
    }

    /// Whether there is neither a version nor a range tombstone.
    pub fn is_empty(&self) -> bool {
        self.properties.entries == 0 && self.tombstones.is_empty()
    }

    /// Bytes of the table so far, those not yet appended included.
    fn bytes(&self) -> u64 {
        self.file.get().len() - self.offset + self.pending.len() as u64
    }

    /// Packs the open block and keeps it to be appended.
    fn finish_block(&mut self) -> Result<()> {
        let start = self.pending.len();
        let place = (self.options.file_id, self.offset + self.bytes(), BlockKind::Data);
        let compression = self.packer.compress(self.block.finish(), &mut self.pending);
        put_trailer(&mut self.pending, start, place, compression);
        self.block.clear();
        self.unindexed_block_bytes = Some((self.pending.len() - start) as u64);
        if self.pending.len() >= APPEND_BYTES { self.append_pending() } else { Ok(()) }
    }

    fn append_pending(&mut self) -> Result<()> {
        self.file.get_mut().append(&self.pending)?;
        self.pending.clear();
        if self.file.get().len() - self.written_back >= WRITEBACK_BYTES {
            self.file.get_mut().start_writeback()?;
            self.written_back = self.file.get().len();
        }
        Ok(())
    }

    /// Ends the table and appends what is left of it. Does not sync the file.
    pub fn finish(mut self) -> Result<TableInfo> {
        self.end()
    }

    fn end(&mut self) -> Result<TableInfo> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        if let Some(block_bytes) = self.unindexed_block_bytes.take() {
            self.index_block(None, block_bytes);
        }
        let mut sections = [0; 6];
        sections[0] = self.bytes();
        self.properties.data_bytes = sections[0];
        self.properties.data_blocks = self.index.blocks();
        let encoded = self.index.finish();
        let index = match encoded {
            Encoded::Whole { filter, index } => {
                sections[1] =
                    filter.map_or(0, |filter| self.put_filter(BlockKind::Filter, &filter));
                index
            }
            Encoded::Parts(parts) => {
                self.required_features |= HAS_PARTS;
                sections[1] = self.put_parts(&parts)?;
                encode_top(&parts)
            }
        };
        sections[2] = self.put_tombstones();
        sections[3] = self.put_sketches();
        sections[4] = self.put_properties();
        sections[5] = self.put_section(BlockKind::Index, &index);
        let footer = Footer {
            sections,
            file_id: self.options.file_id,
            offset: self.offset,
            required_features: self.required_features,
            optional_features: 0,
        };
        self.pending.extend_from_slice(&footer.encode());
        self.append_pending()?;
        let bytes = self.bytes();
        Ok(TableInfo { offset: self.offset, bytes, properties: self.properties.clone() })
    }

    fn put_filter(&mut self, kind: BlockKind, filter: &[u8]) -> u64 {
        self.properties.fingerprint_bits = self.options.fingerprint_bits;
        self.put_section(kind, filter)
    }

    fn put_parts(&mut self, parts: &[EncodedPart]) -> Result<u64> {
        let mut bytes = 0;
        for (kind, body) in parts.iter().flat_map(EncodedPart::stored) {
            bytes += match kind {
                BlockKind::FilterPart => self.put_filter(kind, body),
                _ => self.put_section(kind, body),
            };
            if self.pending.len() >= APPEND_BYTES {
                self.append_pending()?;
            }
        }
        Ok(bytes)
    }

    fn put_tombstones(&mut self) -> u64 {
        let list = FragmentedTombstones::new(std::mem::take(&mut self.tombstones));
        let largest = (self.properties.entries > 0).then(|| self.block.last_key());
        self.properties.complete(largest, &list);
        if list.is_empty() {
            return 0;
        }
        self.put_section(BlockKind::Tombstones, &range_del_block::encode(&list))
    }

    fn put_sketches(&mut self) -> u64 {
        self.sketches.theta.seal(self.options.sample_level);
        let encoded = self.sketches.encode();
        self.properties.sketches = Arc::new(std::mem::take(&mut self.sketches));
        self.put_section(BlockKind::Sketches, &encoded)
    }

    fn put_properties(&mut self) -> u64 {
        let encoded = self.properties.encode();
        self.put_section(BlockKind::Properties, &encoded)
    }

    /// Keeps a section to be appended. Gives its length, trailer included.
    fn put_section(&mut self, kind: BlockKind, body: &[u8]) -> u64 {
        let start = self.pending.len();
        let place = (self.options.file_id, self.offset + self.bytes(), kind);
        self.pending.extend_from_slice(body);
        put_trailer(&mut self.pending, start, place, Compression::None);
        (self.pending.len() - start) as u64
    }
}
