//! Files of sorted entries that a program writes and ingests.
//!
//! The file has the records of a batch between a mark and a checksum. Files of RocksDB are refused.

use crate::batch::wire::{Record, Wire};
use crate::batch::write_of;
use crate::border::{Array, Bytes, Code, Handle, Out, Result, Status, Text, c_api};
use crate::comparator::KeyOrder;
use crate::database::{Database, Family, Open};
use crate::direction::Direction;
use crate::knobs::Knobs;
use crate::options::Options;
use crate::stamps::{Order, STAMP_BYTES, stored_value};
use esker::WriteBatch;
use std::ffi::c_void;
use std::sync::Arc;

/// The start of a file.
const MARK: &[u8; 8] = b"eskerRSF";
/// The start of a file whose keys end with timestamps.
const STAMPED_MARK: &[u8; 8] = b"eskerRST";
/// The start of a file that is sorted in reverse, whose keys have no timestamps.
const REVERSE_MARK: &[u8; 8] = b"eskerRSR";

/// RocksDB's `rocksdb_sstfilewriter_t`.
pub struct Writer {
    refused: Option<Status>,
    order: KeyOrder,
    path: String,
    wire: Wire,
    last_key: Option<Vec<u8>>,
    bytes: u64,
}

/// A checksum: FNV-1a of 64 bits. It detects files that were cut or mixed up.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Writer {
    fn new(options: Handle<Options>) -> Self {
        let bytewise = KeyOrder::Plain(Direction::default());
        let (order, refused) = match options.optional().map(Options::key_order) {
            Some(Ok(order)) => (order, None),
            Some(Err(status)) => (bytewise, Some(status)),
            None => (bytewise, None),
        };
        let (path, wire, last_key, bytes) = (String::new(), Wire::default(), None, 0);
        Writer { refused, order, path, wire, last_key, bytes }
    }

    fn open(&mut self, path: &str) -> Result<()> {
        if let Some(status) = &self.refused {
            return Err(status.clone());
        }
        std::fs::write(path, mark_of(self.order))
            .map_err(|error| Status::io("create", path, &error))?;
        self.path = path.to_owned();
        (self.wire, self.last_key, self.bytes) = (Wire::default(), None, 0);
        Ok(())
    }

    fn check_open(&self) -> Result<()> {
        match self.path.is_empty() {
            true => Err(Status::invalid("File is not opened")),
            false => Ok(()),
        }
    }

    fn push(&mut self, key: &[u8], record: Record<'_>) -> Result<()> {
        self.check_plain()?;
        self.push_sorted(key, record)
    }

    fn check_plain(&self) -> Result<()> {
        match self.order.stamped() {
            None => Ok(()),
            Some(_) => Err(Status::invalid("Timestamp size mismatch: the keys have timestamps")),
        }
    }

    /// Adds a record whose key ends with a timestamp.
    ///
    /// # Errors
    /// If the keys have no timestamps, the timestamp has another length, or the version sorts before the last
    /// one.
    pub fn push_stamped(&mut self, stamp: &[u8], record: Record<'_>) -> Result<()> {
        let wrong = || Status::invalid("Timestamp size mismatch: the keys have no timestamps");
        let order = self.order.stamped().ok_or_else(wrong)?;
        let sorted = order.version(record.key().unwrap_or_default(), order.stamp(stamp)?);
        self.push_sorted(&sorted, record.with_stamp(stamp, &mut Vec::new()))
    }

    /// Adds a record, whose key `key` sorts as.
    fn push_sorted(&mut self, key: &[u8], record: Record<'_>) -> Result<()> {
        self.check_open()?;
        let direction = self.order.direction();
        if self.last_key.as_ref().is_some_and(|last| !direction.precedes(last, key)) {
            return Err(Status::invalid("Keys must be added in strict ascending order."));
        }
        self.last_key = Some(key.to_vec());
        self.wire.push(0, record);
        Ok(())
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        self.check_open()?;
        self.check_plain()?;
        if self.order.direction().precedes(end, start) {
            return Err(Status::invalid("end key comes before start key"));
        }
        self.wire.push(0, Record::DeleteRange(start, end));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.check_open()?;
        if self.wire.count() == 0 {
            return Err(Status::invalid("Cannot create sst file with no entries"));
        }
        let records = self.wire.bytes();
        let sum = checksum(records).to_le_bytes();
        let file = [mark_of(self.order), records, &sum].concat();
        self.bytes = file.len() as u64;
        let failed = |error| Status::io("write", &self.path, &error);
        let mut out = std::fs::File::create(&self.path).map_err(failed)?;
        std::io::Write::write_all(&mut out, &file).map_err(failed)?;
        out.sync_all().map_err(failed)?;
        self.path.clear();
        Ok(())
    }
}

fn mark_of(order: KeyOrder) -> &'static [u8; 8] {
    match order {
        KeyOrder::Stamped(_) => STAMPED_MARK,
        KeyOrder::Plain(Direction { is_reverse: true }) => REVERSE_MARK,
        KeyOrder::Plain(Direction { is_reverse: false }) => MARK,
    }
}

/// The records of a file that was written for this order.
fn read(path: &str, order: KeyOrder) -> Result<Wire> {
    let bytes = std::fs::read(path).map_err(|error| Status::io("read", path, &error))?;
    let foreign = || {
        Status::invalid(format!(
            "{path} was not written by `rocksdb_sstfilewriter_` functions of Esker's library, and files of \
             RocksDB are not read"
        ))
    };
    let mark = mark_of(order);
    let is_other = |other: &&[u8; 8]| *other != mark && bytes.starts_with(*other);
    if [MARK, STAMPED_MARK, REVERSE_MARK].iter().any(is_other) {
        return Err(Status::invalid(format!(
            "{path} was written with another comparator than that of the column family: only one of both \
             has timestamps, or sorts in reverse"
        )));
    }
    let rest = bytes.strip_prefix(mark).ok_or_else(foreign)?;
    let damaged = || Status::new(Code::Corruption, format!("{path}: its checksum is wrong"));
    let (records, sum) = rest.split_last_chunk::<8>().ok_or_else(damaged)?;
    match checksum(records) == u64::from_le_bytes(*sum) {
        true => Ok(Wire::from_bytes(records)),
        false => Err(damaged()),
    }
}

/// A record whose key ends with a timestamp, as it is stored.
fn version_of(order: Order, record: Record<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let damaged = || Status::new(Code::Corruption, "a record has no timestamp");
    let (key, value) = match record {
        Record::Put(key, value) => (key, stored_value(value)),
        Record::Delete(key) | Record::SingleDelete(key) => (key, Vec::new()),
        _ => return Err(damaged()),
    };
    let (key, stamp) = key.split_last_chunk::<STAMP_BYTES>().ok_or_else(damaged)?;
    Ok((order.version(key, order.stamp(stamp)?), value))
}

/// Adds the entries of a file. Puts alone become tables; other files are written as a batch.
fn ingest(open: &Open, family: &Family, path: &str) -> Result<()> {
    let wire = read(path, family.order())?;
    let records: Vec<_> = wire.records().map(|it| it.map(|(_, it)| it)).collect::<Result<_>>()?;
    if let Some(stamps) = &family.stamps {
        // A delete is a version, too.
        let versions = records.into_iter().map(|record| version_of(stamps.order, record));
        let versions = versions.collect::<Result<Vec<_>>>()?;
        let _writing = open.writing();
        open.db.ingest(&family.keyspace, versions)?;
        return Ok(());
    }
    let puts: Option<Vec<_>> = records
        .iter()
        .map(|record| match record {
            Record::Put(key, value) => Some((*key, *value)),
            _ => None,
        })
        .collect();
    if let (Some(puts), None) = (puts, family.ttl) {
        let puts = puts.into_iter();
        match family.direction.is_reverse {
            true => open.db.ingest(&family.keyspace, puts.rev())?,
            false => open.db.ingest(&family.keyspace, puts)?,
        };
        return Ok(());
    }
    let mut batch = WriteBatch::new();
    // The ranges of a file delete what is older than the file.
    let is_range = |record: &&Record<'_>| matches!(record, Record::DeleteRange(..));
    let (ranges, points): (Vec<&Record<'_>>, Vec<&Record<'_>>) = records.iter().partition(is_range);
    for record in ranges.into_iter().chain(points) {
        if let Some(write) = write_of(family, *record)? {
            write.add_to(&mut batch, family)?;
        }
    }
    // As in RocksDB, this waits for no locks of transactions.
    batch.set_sync(true);
    Ok(open.db.write(&batch)?)
}

fn ingest_all(open: &Open, family: &Family, files: &[Text], options: Handle<Knobs>) -> Result<()> {
    for name in ["ingest_behind", "fail_if_not_bottommost_level"] {
        if options.optional().is_some_and(|options| options.is_on(name)) {
            let what = format!(
                "{name}: Esker adds files above what is stored; turn the option off, and ingest before other \
                 writes"
            );
            return Err(Status::unsupported(what));
        }
    }
    for file in files {
        ingest(open, family, file.get()?)?;
    }
    if options.optional().is_some_and(|options| options.is_on("move_files")) {
        for file in files {
            let path = file.get()?;
            std::fs::remove_file(path).map_err(|error| Status::io("remove", path, &error))?;
        }
    }
    Ok(())
}

c_api! {
    fn rocksdb_sstfilewriter_create(
        _env: Handle<Knobs>,
        options: Handle<Options>,
    ) -> Handle<Writer> {
        Handle::new(Writer::new(options))
    }

    fn rocksdb_sstfilewriter_create_with_comparator(
        _env: Handle<Knobs>,
        options: Handle<Options>,
        _comparator: *mut c_void,
    ) -> Handle<Writer> {
        Handle::new(Writer::new(options))
    }

    fn rocksdb_sstfilewriter_destroy(writer: Handle<Writer>) {
        drop(writer.take());
    }

    try fn rocksdb_sstfilewriter_open(writer: Handle<Writer>, path: Text) {
        writer.change(|writer| writer.open(path.get()?))
    }

    try fn rocksdb_sstfilewriter_put | rocksdb_sstfilewriter_add(
        writer: Handle<Writer>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let key = key.of(key_length);
        writer.change(|writer| writer.push(key, Record::Put(key, value.of(value_length))))
    }

    try fn rocksdb_sstfilewriter_merge(
        writer: Handle<Writer>,
        key: Bytes,
        key_length: usize,
        value: Bytes,
        value_length: usize,
    ) {
        let key = key.of(key_length);
        writer.change(|writer| writer.push(key, Record::Merge(key, value.of(value_length))))
    }

    try fn rocksdb_sstfilewriter_delete(writer: Handle<Writer>, key: Bytes, length: usize) {
        let key = key.of(length);
        writer.change(|writer| writer.push(key, Record::Delete(key)))
    }

    try fn rocksdb_sstfilewriter_delete_range(
        writer: Handle<Writer>,
        start: Bytes,
        start_length: usize,
        end: Bytes,
        end_length: usize,
    ) {
        let (start, end) = (start.of(start_length), end.of(end_length));
        writer.change(|writer| writer.delete_range(start, end))
    }

    try fn rocksdb_sstfilewriter_finish(writer: Handle<Writer>) {
        writer.change(Writer::finish)
    }

    fn rocksdb_sstfilewriter_file_size(writer: Handle<Writer>, size: Out<u64>) {
        let writer = writer.get();
        size.set(if writer.bytes > 0 { writer.bytes } else { writer.wire.bytes().len() as u64 });
    }

    /// Each file is added at once, one after the other.
    try fn rocksdb_ingest_external_file(
        db: Handle<Database>,
        files: Array<Text>,
        count: usize,
        options: Handle<Knobs>,
    ) {
        let open = &db.get().open;
        ingest_all(open, &open.default, files.of(count), options)
    }

    try fn rocksdb_ingest_external_file_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        files: Array<Text>,
        count: usize,
        options: Handle<Knobs>,
    ) {
        ingest_all(&db.get().open, family.get(), files.of(count), options)
    }
}
