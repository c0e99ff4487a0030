//! The log of a DRAM MemTable: each batch one record, appended by one write, not synced unless the
//! batch asks.
//!
//! `crc32c u32 | bytes u32 | MemTable u64 | first seqno u64 | entries`
//!
//! The checksum covers all that follows it. A file is written again from its front for a later
//! MemTable; that number distinguishes old records from new ones.

use esker_api::WriteBatch;
use esker_base::checksum::crc32c;
use esker_base::{Result, Seqno};
use esker_storage::{LogFile, Storage};
use std::sync::Arc;

const HEADER_BYTES: usize = 24;

/// A log file, and how far it is written.
pub(super) struct Log {
    file: Arc<dyn LogFile>,
    memtable: u64,
    at: usize,
    bytes: usize,
    record: Vec<u8>,
}

impl Log {
    /// A new file of `bytes`, in place of any that is there.
    pub(super) fn create(storage: &dyn Storage, name: &str, bytes: usize) -> Result<Log> {
        if storage.exists(name)? {
            storage.remove(name)?;
        }
        let file = storage.create_log(name, bytes as u64)?;
        Ok(Log { file, memtable: 0, at: 0, bytes, record: Vec::new() })
    }

    /// Starts again, for another MemTable.
    pub(super) fn begin(&mut self, memtable: u64) {
        (self.memtable, self.at) = (memtable, 0);
    }

    /// Whether a batch of so many encoded bytes still fits.
    pub(super) fn fits(&self, batch_bytes: usize) -> bool {
        self.at + HEADER_BYTES + batch_bytes <= self.bytes
    }

    /// Appends `batch`, which fits, and gives the bytes that it took.
    pub(super) fn append(&mut self, first_seqno: Seqno, batch: &WriteBatch) -> Result<usize> {
        let entries = batch.encoded();
        self.record.clear();
        self.record.extend_from_slice(&[0; 4]);
        self.record.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        self.record.extend_from_slice(&self.memtable.to_le_bytes());
        self.record.extend_from_slice(&first_seqno.to_le_bytes());
        self.record.extend_from_slice(entries);
        let checksum = crc32c(&self.record[4..]);
        self.record[..4].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_at(self.at as u64, &self.record)?;
        self.at += self.record.len();
        if batch.wants_sync() {
            self.file.sync()?;
        }
        Ok(self.record.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::KeyspaceId;
    use esker_base::coding::{u32_at, u64_at};
    use esker_storage::MemoryStorage;

    #[test]
    fn a_record_is_framed_and_checked() {
        let storage = MemoryStorage::new();
        let mut log = Log::create(&storage, "log", 4096).unwrap();
        log.begin(7);
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId::DEFAULT, b"key", b"value");
        let bytes = log.append(5, &batch).unwrap();
        log.append(6, &batch).unwrap();
        let mut read = vec![0; 2 * bytes];
        storage.open("log").unwrap().read_exact_at(0, &mut read).unwrap();
        for (record, seqno) in read.chunks(bytes).zip([5, 6]) {
            assert_eq!(u32_at(record, 0), crc32c(&record[4..]));
            assert_eq!(u32_at(record, 4) as usize, batch.encoded().len());
            assert_eq!((u64_at(record, 8), u64_at(record, 16)), (7, seqno));
            assert_eq!(&record[HEADER_BYTES..], batch.encoded());
        }
        assert!(log.fits(4096 - 2 * bytes - HEADER_BYTES));
        assert!(!log.fits(4096 - 2 * bytes - HEADER_BYTES + 1));
        log.begin(8);
        assert!(log.fits(4096 - HEADER_BYTES));
    }
}
