//! A table of a version: its description in the manifest, its file and its reader.

use super::read_mark::Mark;
use super::table_lifetimes::TableBirth;
use esker_api::KeyRange;
use esker_base::{Error, FragmentedTombstones, Result, Seqno};
use esker_storage::{ReadableFile, Storage};
use esker_table::{
    BlockCache, Expiring, Properties, Sketches, Table, ValueFileUse, extents_in, freeable, is_freed,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The id of a table: its file, and its offset in the file. File ids are never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableId {
    /// The id of the file.
    pub file: u64,
    /// The offset of the table in the file, in bytes.
    pub offset: u64,
}

/// The description of a table in the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TableMeta {
    /// The id of the table.
    pub id: TableId,
    /// The size of the table, in bytes.
    pub bytes: u64,
    /// The smallest key that the table holds or deletes.
    pub smallest: Vec<u8>,
    /// The largest key that the table holds, or the end of its last range tombstone if that is
    /// greater.
    pub largest: Vec<u8>,
    /// Whether `largest` is the end of a range tombstone and not itself held or deleted.
    ///
    /// The next table of the run may then start at the same key.
    pub largest_is_exclusive: bool,
    /// Versions, including deletes, without range tombstones.
    pub entries: u64,
    /// Deletes.
    pub deletes: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Bytes of keys and values, uncompressed.
    pub raw_bytes: u64,
    /// The lowest sequence number.
    pub min_seqno: Seqno,
    /// The highest sequence number.
    pub max_seqno: Seqno,
    /// For an ingested table, the sequence number of all entries, which the table does not have.
    pub global_seqno: Option<Seqno>,
    /// The versions that expire, if there are any.
    pub expiring: Option<Expiring>,
    /// The value files that it refers to, by ID.
    pub value_files: Vec<ValueFileUse>,
}

impl TableMeta {
    /// Returns the description of a table with these key bounds and without entries.
    pub fn new(id: TableId, smallest: impl Into<Vec<u8>>, largest: impl Into<Vec<u8>>) -> Self {
        TableMeta {
            id,
            bytes: 0,
            smallest: smallest.into(),
            largest: largest.into(),
            largest_is_exclusive: false,
            entries: 0,
            deletes: 0,
            range_tombstones: 0,
            raw_bytes: 0,
            min_seqno: 0,
            max_seqno: 0,
            global_seqno: None,
            expiring: None,
            value_files: Vec::new(),
        }
    }

    /// Returns the description of a table of `bytes` bytes whose last version is of `last_key`.
    pub(crate) fn of(id: TableId, bytes: u64, properties: Properties, last_key: &[u8]) -> Self {
        TableMeta {
            bytes,
            largest_is_exclusive: &properties.largest[..] > last_key,
            entries: properties.entries,
            deletes: properties.deletes,
            range_tombstones: properties.range_tombstones,
            raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
            min_seqno: properties.smallest_seqno,
            max_seqno: properties.largest_seqno,
            expiring: properties.expiring,
            value_files: properties.value_files,
            ..TableMeta::new(id, properties.smallest, properties.largest)
        }
    }

    /// Returns the description once all entries have the sequence number of an ingest.
    pub(crate) fn ingested_at(self, seqno: Seqno) -> Self {
        TableMeta { min_seqno: seqno, max_seqno: seqno, global_seqno: Some(seqno), ..self }
    }

    /// When all versions have expired, in milliseconds since 1970-01-01. Deletes count as expired.
    /// `None` if some never do, or if none does.
    pub fn expires_by(&self) -> Option<u64> {
        let Expiring { entries, latest, .. } = self.expiring?;
        (entries + self.deletes == self.entries && self.range_tombstones == 0).then_some(latest)
    }

    /// Whether the table may hold or delete keys in `[smallest, largest]`.
    pub fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        &self.smallest[..] <= largest && !self.ends_before(smallest)
    }

    /// Whether the table holds and deletes only keys below `key`.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        if self.largest_is_exclusive { &self.largest[..] <= key } else { &self.largest[..] < key }
    }

    /// Whether the table may hold or delete keys in `range`.
    ///
    /// Range tombstones do not extend beyond the bounds of their table. So a read of `range` needs
    /// no other tables.
    pub fn meets(&self, range: &KeyRange) -> bool {
        !self.ends_below(range) && !range.ends_before(&self.smallest)
    }

    /// Whether the table neither holds nor deletes keys in `range` or after it.
    pub(crate) fn ends_below(&self, range: &KeyRange) -> bool {
        match &range.start {
            Bound::Included(start) => self.ends_before(start),
            Bound::Excluded(start) => self.largest <= *start,
            Bound::Unbounded => false,
        }
    }
}

/// The file behind one or more tables. When the last table that uses it is dropped, and no version
/// has it any more, the file is removed.
#[derive(Debug)]
pub struct TableFile {
    id: u64,
    storage: StorageHandle,
    obsolete: AtomicBool,
}

/// The storage, hidden from `Debug`.
struct StorageHandle(Arc<dyn Storage>);

impl std::fmt::Debug for StorageHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.describe())
    }
}

/// The bytes of a table in its file. Frees them once no version has the table and its last reader is dropped. Does
/// nothing if the whole file is removed.
#[derive(Debug)]
pub struct TableExtent {
    remains: Remains,
    file: Arc<TableFile>,
    obsolete: AtomicBool,
}

impl TableExtent {
    /// What is there of the table once no version has it.
    pub(crate) fn remains(&self) -> &Remains {
        &self.remains
    }

    /// Says that no version has the table any more.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableExtent {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() && !self.file.obsolete.load(Ordering::Acquire) {
            self.remains.free();
        }
    }
}

/// What is there of a removed table in a file that other tables use.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    file: Weak<TableFile>,
    bytes: Range<u64>,
    /// Whether they are freed. Locked by the thread that does it.
    is_freed: Arc<Mutex<bool>>,
}

impl Remains {
    /// Whether nothing is left to free.
    pub(crate) fn are_gone(&self) -> bool {
        self.file.strong_count() == 0 || self.is_freed.try_lock().is_some_and(|freed| *freed)
    }

    /// Tries to free them. Nothing may read them any more.
    pub(crate) fn free(&self) {
        let Some(file) = self.file.upgrade() else { return };
        let mut is_freed = self.is_freed.lock();
        *is_freed = *is_freed || file.free(&self.bytes);
    }
}

/// A file that is read for one of its tables. The table's bytes stay as long as this.
struct TableReader {
    file: Arc<dyn ReadableFile>,
    _extent: Arc<TableExtent>,
}

impl ReadableFile for TableReader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(offset, out)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
    fn read_ahead(&self, offset: u64, bytes: u64) {
        self.file.read_ahead(offset, bytes);
    }
    fn read_cached_at(&self, offset: u64, out: &mut [u8]) -> bool {
        self.file.read_cached_at(offset, out)
    }
    #[cfg(target_os = "linux")]
    fn raw(&self) -> Option<esker_storage::RawFile> {
        self.file.raw()
    }
}

/// The name of the file with this id.
pub fn table_file_name(file: u64) -> String {
    format!("{file:08}.tables")
}

/// The id in a name that [`table_file_name`] made.
pub fn parse_table_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".tables")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

/// The name of the file with this id as long as it is not to be ingested yet: an open removes it.
pub fn ingest_file_name(file: u64) -> String {
    format!("{file:08}.ingest")
}

/// The name of the empty file that is there while no edit names the table file with this id, although it may have its
/// final name: an open removes both, and the files of large values that the tables refer to.
pub(crate) fn unsettled_file_name(file: u64) -> String {
    format!("{file:08}.unsettled")
}

/// The id in a name that [`unsettled_file_name`] made.
pub(crate) fn parse_unsettled_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".unsettled")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

/// The id in a name that [`ingest_file_name`] made.
pub fn parse_ingest_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".ingest")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

impl TableFile {
    /// The file `id` of `storage`.
    pub fn new(storage: Arc<dyn Storage>, id: u64) -> Arc<Self> {
        Arc::new(TableFile {
            id,
            storage: StorageHandle(storage),
            obsolete: AtomicBool::new(false),
        })
    }

    /// Says that no version has the file any more: it goes with its last reader.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Gives the bytes of a table back. Returns false if another try may free some.
    fn free(&self, table: &Range<u64>) -> bool {
        let (storage, part) = (&self.storage.0, freeable(table.clone()));
        let Some(block) = storage.freed_block_bytes() else { return true };
        let has_block = part.start.next_multiple_of(block) + block <= part.end;
        !has_block || storage.free_part(&table_file_name(self.id), part) > 0
    }

    /// Gives the bytes of all tables back but of those at the offsets `live`. Returns false if another try may free some.
    pub(crate) fn free_all_but(&self, live: &BTreeSet<u64>) -> bool {
        let file = self.storage.0.open(&table_file_name(self.id));
        let Ok(Some(tables)) = file.and_then(|file| extents_in(&file, self.id)) else {
            return true;
        };
        let others = tables.into_iter().filter(|(offset, _)| !live.contains(offset));
        others.map(|(offset, bytes)| self.free(&(offset..offset + bytes))).fold(true, |a, b| a & b)
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            // A file that cannot be removed now is found unused, and removed, at the next open.
            let _ = self.storage.0.remove(&table_file_name(self.id));
        }
    }
}

/// A table of a version: what the manifest knows, and the reader, opened at first use.
#[derive(Debug)]
pub struct TableHandle {
    /// What the manifest knows.
    pub meta: TableMeta,
    /// When it was written.
    pub born: TableBirth,
    /// Before the file, which is removed with its last table: the reader need not keep it open then.
    reader: OnceLock<Arc<Table>>,
    extent: Option<Arc<TableExtent>>,
    /// Whether only a read opens it.
    left_to_reads: AtomicBool,
    /// Set when a read of it failed.
    pub(crate) mark: Mark,
    /// Of a table without a file.
    sketches: Option<Arc<Sketches>>,
}

/// What is known of a table's keys without reading it.
#[derive(Clone, Copy, Debug)]
pub struct TableSummary<'a> {
    /// Its distinct keys.
    pub keys: u64,
    /// The mean length of its versions' keys.
    pub mean_key_bytes: f64,
    /// Their sketches.
    pub sketches: &'a Sketches,
    /// Those of its bytes that it would have with fewer keys, too.
    pub fixed_bytes: u64,
    /// The lowest seqno of its deletes and range tombstones, if it has any and its properties have that.
    pub oldest_delete: Option<Seqno>,
    /// Its range tombstones, if there may be any.
    pub tombstones: Option<&'a FragmentedTombstones>,
}

impl TableHandle {
    /// A table in `file`, written when `born` says.
    pub fn new(meta: TableMeta, born: TableBirth, file: Arc<TableFile>) -> Arc<Self> {
        let (reader, left_to_reads, mark) = Default::default();
        let remains = Remains {
            file: Arc::downgrade(&file),
            bytes: meta.id.offset..meta.id.offset + meta.bytes,
            is_freed: Arc::default(),
        };
        let extent =
            Some(Arc::new(TableExtent { remains, file, obsolete: AtomicBool::new(false) }));
        Arc::new(TableHandle { meta, born, reader, extent, left_to_reads, mark, sketches: None })
    }

    /// A table without a file behind it, for pickers' tests: it can be planned with, not read.
    pub fn detached(meta: TableMeta) -> Arc<Self> {
        Self::sketched(meta, Sketches::default())
    }

    /// A detached table of one version a key, with sketches of the keys. Its oldest version is a delete if it
    /// has any.
    pub fn sketched(meta: TableMeta, sketches: Sketches) -> Arc<Self> {
        let (born, reader, left_to_reads, mark) = Default::default();
        let (extent, sketches) = (None, Some(Arc::new(sketches)));
        Arc::new(TableHandle { meta, born, reader, extent, left_to_reads, mark, sketches })
    }

    /// What is known of its keys; `None` before its reader is open.
    pub fn contents(&self) -> Option<TableSummary<'_>> {
        match (&self.sketches, self.opened()) {
            (Some(sketches), _) => Some(TableSummary {
                keys: self.meta.entries,
                mean_key_bytes: 0.0,
                fixed_bytes: 0,
                sketches,
                oldest_delete: self.has_deletes().then_some(self.meta.min_seqno),
                tombstones: None,
            }),
            (None, Some(table)) => {
                let properties = table.properties();
                let entries = properties.entries.max(1) as f64;
                Some(TableSummary {
                    keys: properties.keys,
                    mean_key_bytes: properties.raw_key_bytes as f64 / entries,
                    sketches: &properties.sketches,
                    fixed_bytes: table.fixed_bytes(),
                    oldest_delete: properties.oldest_delete,
                    tombstones: Some(table.tombstones()),
                })
            }
            (None, None) => None,
        }
    }

    /// Whether there is a delete or a range tombstone in it.
    pub fn has_deletes(&self) -> bool {
        self.meta.deletes > 0 || self.meta.range_tombstones > 0
    }

    /// Whether a delete of the table is as old as the write `through`, or older. Without that property, its deletes
    /// count as being as old as the oldest of its writes.
    pub(crate) fn has_deletes_through(&self, through: Seqno) -> bool {
        let oldest = || self.contents().and_then(|contents| contents.oldest_delete);
        self.has_deletes()
            && self.meta.min_seqno <= through
            && oldest().is_none_or(|oldest| oldest <= through)
    }

    /// Versions of keys that it holds newer ones of: once kept for a snapshot. 0 before its reader is open.
    pub fn repeats(&self) -> u64 {
        let keys = self.contents().map(|contents| contents.keys);
        keys.map_or(0, |keys| self.meta.entries.saturating_sub(keys))
    }

    /// The bytes of its data blocks that are wholly between `start` and `end`. 0 before its reader is open.
    pub fn bytes_within(&self, start: &[u8], end: &[u8]) -> u64 {
        self.opened().map_or(0, |table| table.bytes_within(start, end))
    }

    /// The file behind the table.
    pub fn file(&self) -> Option<&Arc<TableFile>> {
        self.extent.as_ref().map(|extent| &extent.file)
    }

    /// The table's bytes in it.
    pub(crate) fn extent(&self) -> Option<&Arc<TableExtent>> {
        self.extent.as_ref()
    }

    /// Has only a read open the table: nothing plans with its content.
    pub(crate) fn leave_to_reads(&self) {
        self.left_to_reads.store(true, Ordering::Relaxed);
    }

    /// Whether only a read opens the table.
    pub(crate) fn is_left_to_reads(&self) -> bool {
        self.left_to_reads.load(Ordering::Relaxed)
    }

    /// The reader if it is open already.
    pub fn opened(&self) -> Option<&Arc<Table>> {
        self.reader.get()
    }

    /// The reader, opened now if it was not yet. A table that lost what an open needs is not tried again. A failed open
    /// marks the table as unreadable, and a later one that succeeds takes the mark away.
    pub fn reader(&self, cache: &Arc<BlockCache>) -> Result<&Arc<Table>> {
        if let Some(table) = self.reader.get() {
            return Ok(table);
        }
        match self.mark.why() {
            Some(error) if error.is_lost() => Err(error),
            _ => {
                let opened = self.open(cache).inspect_err(|error| self.mark_unreadable(error))?;
                self.mark.clear();
                Ok(opened)
            }
        }
    }

    fn open(&self, cache: &Arc<BlockCache>) -> Result<&Arc<Table>> {
        let extent = self.extent.as_ref().expect("a detached table is never read");
        let id = self.meta.id;
        let file = extent.file.storage.0.open_for_caching(&table_file_name(id.file))?;
        if file.len()? > self.meta.bytes && is_freed(&file, id.file, extent.remains.bytes.clone())?
        {
            // A process that only reads has an older manifest than the one that freed it.
            let path = extent.file.storage.0.path_of(&table_file_name(id.file));
            let what = "the table was removed, and its bytes are freed";
            return Err(Error::corruption(path, id.offset, what));
        }
        let readable = Arc::new(TableReader { file, _extent: extent.clone() });
        let table = Table::open(readable, id.file, id.offset, self.meta.bytes, cache.clone())?;
        let table = table.ingested_at(self.meta.global_seqno)?;
        Ok(self.reader.get_or_init(|| Arc::new(table)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{KeyspaceId, Kind, Rng, WriteHint};
    use esker_storage::FaultStorage;
    use esker_table::{Compression, PartLimits, TableOptions, TableWriter};

    const FILE: u64 = 7;

    /// A table of a few long values, behind another one in a file.
    fn second_of_two(storage: &FaultStorage) -> TableMeta {
        let mut file = storage.create(&table_file_name(FILE), WriteHint::table(0)).unwrap();
        let options = TableOptions {
            keyspace: KeyspaceId::DEFAULT,
            compression: Compression::None,
            fingerprint_bits: 0,
            level: 0,
            file_id: FILE,
            sample_level: 0,
            parts: PartLimits::default(),
        };
        let mut written = Vec::new();
        for _ in 0..2 {
            let mut writer = TableWriter::new(&mut *file, options);
            for key in [b"a", b"b", b"c"] {
                writer.add(key, 1, Kind::Put, &[7; 16 << 10]).unwrap();
            }
            written.push(writer.finish().unwrap());
        }
        file.sync().unwrap();
        let info = written.pop().unwrap();
        let id = TableId { file: FILE, offset: info.offset };
        TableMeta::of(id, info.bytes, info.properties, b"c")
    }

    /// All that an open reads may be in a block that is not freed.
    #[test]
    fn a_table_that_was_freed_meanwhile_is_not_opened() {
        let storage = FaultStorage::new(Rng::new(1));
        let meta = second_of_two(&storage);
        let bytes = meta.id.offset..meta.id.offset + meta.bytes;
        let file = TableFile::new(Arc::new(storage.clone()), FILE);
        let handle = || TableHandle::new(meta.clone(), TableBirth::default(), file.clone());
        let cache = Arc::new(BlockCache::new(0));
        handle().reader(&cache).unwrap();
        // Up to the last block with entries, so that the sections behind them are there.
        assert!(storage.free_part(&table_file_name(FILE), bytes.start..bytes.end - 4096) > 0);
        handle().reader(&cache).expect("a hole that is not all of the table is damage of a block");
        assert!(storage.free_part(&table_file_name(FILE), freeable(bytes)) > 0);
        let error = handle().reader(&cache).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("freed"), "{error}");
    }
}
