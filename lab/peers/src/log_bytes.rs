//! What LevelDB and RocksDB write to their logs, counted here by the format that they share
//! (LevelDB's `doc/log_format.md`; RocksDB's wiki, Write Ahead Log File Format), because LevelDB
//! says nothing of it, and RocksDB either costs time for counting or rounds to ten megabytes.
//!
//! Each write counts as a record of its own, which is right for one thread. Of several threads that
//! write at once one writes for all, under one header: then it is at most a header a write too much.

use crate::tally::Tally;
use esker_base::coding::varint_bytes;

/// Before the entries of a batch: a seqno and a count.
pub(crate) const BATCH_HEADER_BYTES: usize = 12;
/// Before a record: checksum, length, type.
pub(crate) const RECORD_HEADER_BYTES: usize = 7;
/// A record goes on in the next block, under another header.
const BLOCK_BYTES: u64 = 32 << 10;

/// A put in a batch.
#[inline]
pub(crate) fn put_bytes(key: &[u8], value: &[u8]) -> usize {
    1 + string_bytes(key) + string_bytes(value)
}

/// A delete in a batch.
#[inline]
pub(crate) fn delete_bytes(key: &[u8]) -> usize {
    1 + string_bytes(key)
}

#[inline]
fn string_bytes(bytes: &[u8]) -> usize {
    varint_bytes(bytes.len() as u64) + bytes.len()
}

/// The bytes of a log.
pub(crate) struct LogBytes {
    record_header_bytes: usize,
    records: Tally,
}

impl LogBytes {
    /// None yet. A header takes [`RECORD_HEADER_BYTES`], or what a kin of the format has.
    pub(crate) fn new(record_header_bytes: usize) -> Self {
        LogBytes { record_header_bytes, records: Tally::default() }
    }

    /// Counts a batch whose entries take `entry_bytes`.
    #[inline]
    pub(crate) fn add(&self, entry_bytes: usize) {
        self.records.add(self.record_header_bytes + BATCH_HEADER_BYTES + entry_bytes);
    }

    pub(crate) fn total(&self) -> u64 {
        let records = self.records.total();
        records + records / BLOCK_BYTES * self.record_header_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_lengths_count_too() {
        let log = LogBytes::new(RECORD_HEADER_BYTES);
        log.add(put_bytes(b"key", &[1; 200]) + delete_bytes(b"key"));
        assert_eq!(log.total(), 7 + 12 + (1 + 1 + 3 + 2 + 200) + (1 + 1 + 3));
    }

    #[test]
    fn every_block_has_another_header() {
        let log = LogBytes::new(11);
        log.add(put_bytes(b"k", &vec![1; 100_000]));
        let record = 11 + 12 + 1 + 2 + 3 + 100_000;
        assert_eq!(log.total(), record + 3 * 11);
    }
}
