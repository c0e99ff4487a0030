//! A file in memory, and shorthands for writing and opening tables in it.

#![allow(dead_code, reason = "each test file uses some of it")]

use esker_base::{EntryCursor, Error, KeyspaceId, Kind, RangeTombstone, Result, Seqno, hash64};
use esker_storage::{ReadableFile, WritableFile};
use esker_table::{
    BlockCache, Compression, Found, PartLimits, ReadPurpose, Table, TableInfo, TableOptions,
    TableWriter,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub struct Growing(pub Vec<u8>);

impl WritableFile for Growing {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A finished file that counts how often it is read.
#[derive(Default)]
pub struct Finished {
    pub bytes: Vec<u8>,
    pub reads: AtomicU64,
}

impl ReadableFile for Finished {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let found = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.bytes.get(offset..)?.get(..out.len()))
            .ok_or_else(|| Error::corruption("memory", offset, "the file ends here"))?;
        out.copy_from_slice(found);
        Ok(())
    }
    fn len(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn name(&self) -> &str {
        "memory"
    }
}

/// Key, seqno, kind, value.
pub type Version = (Vec<u8>, Seqno, Kind, Vec<u8>);

pub const FILE_ID: u64 = 42;

pub fn options() -> TableOptions {
    TableOptions {
        keyspace: KeyspaceId(7),
        compression: Compression::None,
        fingerprint_bits: 16,
        level: 1,
        file_id: FILE_ID,
        sample_level: 0,
        parts: PartLimits::default(),
    }
}

/// Index and filter stay whole, however large.
pub const WHOLE: PartLimits = PartLimits { bytes: 64, blocks_min: 64, whole_bytes_max: usize::MAX };

/// A part for every two data blocks.
pub const SMALL_PARTS: PartLimits = PartLimits { bytes: 1, blocks_min: 2, whole_bytes_max: 0 };

/// Puts versions in the engine's order and drops those that repeat a key and seqno.
pub fn sort(versions: &mut Vec<Version>) {
    versions.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    versions.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
}

/// Appends a table to `file`.
pub fn write_to(
    file: &mut Growing,
    options: TableOptions,
    versions: &[Version],
    tombstones: &[RangeTombstone],
) -> TableInfo {
    let mut writer = TableWriter::new(file, options);
    for (key, seqno, kind, value) in versions {
        writer.add(key, *seqno, *kind, value).unwrap();
    }
    tombstones.iter().for_each(|tombstone| writer.add_range_tombstone(tombstone.clone()));
    writer.finish().unwrap()
}

pub fn open_bytes(bytes: Vec<u8>, info: &TableInfo) -> Result<Arc<Table>> {
    let file = Arc::new(Finished { bytes, reads: AtomicU64::new(0) });
    let cache = Arc::new(BlockCache::new(1 << 20));
    Table::open(file, FILE_ID, info.offset, info.bytes, cache).map(Arc::new)
}

/// Writes a table into a file of its own and opens it.
pub fn table(
    options: TableOptions,
    versions: &[Version],
    tombstones: &[RangeTombstone],
) -> (Arc<Table>, TableInfo) {
    let mut file = Growing::default();
    let info = write_to(&mut file, options, versions, tombstones);
    (open_bytes(file.0, &info).unwrap(), info)
}

pub fn get(table: &Table, key: &[u8], snapshot: Seqno) -> Result<Option<Found>> {
    table.get(key, hash64(key), snapshot)
}

/// Everything a cursor yields going on.
pub fn scan(table: &Arc<Table>, purpose: ReadPurpose) -> Result<Vec<Version>> {
    let mut cursor = table.cursor(purpose);
    let mut all = Vec::new();
    cursor.seek_first()?;
    while cursor.valid() {
        all.push(version_at(&cursor));
        cursor.next()?;
    }
    Ok(all)
}

pub fn version_at(cursor: &impl EntryCursor) -> Version {
    (cursor.key().to_vec(), cursor.seqno(), cursor.kind(), cursor.value().to_vec())
}

/// What `verify` reports.
pub fn complaints(table: &Table) -> Vec<Error> {
    let mut all = Vec::new();
    table.verify(&mut |error| all.push(error));
    all
}
