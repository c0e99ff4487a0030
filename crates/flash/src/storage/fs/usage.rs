//! How full a device is, and what was written.

use crate::storage::chunks::chunk_table::EraseCounts;

/// How full a device is, and what was written since it was opened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Usage {
    /// Bytes of chunks that are good and not the journal's.
    pub good_bytes: u64,
    /// Bytes of these that files have, in whole blocks; a log has whole chunks.
    pub live_bytes: u64,
    /// Chunks in which nothing is alive.
    pub free_chunks: u32,
    /// Bytes that users wrote.
    pub host_bytes: u64,
    /// What was added to these to fill blocks: much, where a log is written in small parts.
    pub padding_bytes: u64,
    /// Bytes that were moved so that their chunks become free, or wear as others do.
    pub moved_bytes: u64,
    /// Those of them that were moved for wear.
    pub levelled_bytes: u64,
    /// How often that failed: what was to be moved is where it was.
    /// [`FlashStorage::levelling_failure`](super::FlashStorage::levelling_failure) says why.
    pub levelling_failures: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// How often chunks were reset since the device was laid out.
    pub erases: EraseCounts,
}

impl Usage {
    /// What was written to the device for each byte that users wrote; 1 if they wrote none.
    pub fn media_over_host(&self) -> f64 {
        let beside = self.padding_bytes + self.moved_bytes + self.journal_bytes;
        let media_bytes = self.host_bytes + beside;
        if self.host_bytes == 0 { 1.0 } else { media_bytes as f64 / self.host_bytes as f64 }
    }
}
