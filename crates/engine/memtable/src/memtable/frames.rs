//! What fits one frame, and batches that need several.

use super::{MemTable, entry_cap};
use crate::segment::{Reservation, SegmentWriter};
use esker_base::Seqno;

/// A frame takes at most this share of a segment, so that sealing wastes little.
const FRAMES_A_SEGMENT: usize = 4;

/// Nor has it more entries, however large the segment is. Every index has space for one such frame, and must
/// not be larger for its sake than what is written needs. It is what a segment of 64 MiB allows.
const FRAME_ENTRIES_MAX: usize = 256 << 10;

impl MemTable {
    /// The most bytes of encoded entries in a frame of a segment of `segment_bytes`. No entry may be longer.
    /// A longer batch has several frames.
    pub fn max_frame_bytes(segment_bytes: usize) -> usize {
        segment_bytes / FRAMES_A_SEGMENT
    }

    /// The most entries in a frame of a segment of `segment_bytes`.
    pub fn max_frame_entries(segment_bytes: usize) -> usize {
        (entry_cap(segment_bytes) / FRAMES_A_SEGMENT).min(FRAME_ENTRIES_MAX)
    }

    /// Whether one frame in an empty segment holds that much. If not, the batch needs several frames.
    #[inline]
    pub fn batch_fits(segment_bytes: usize, entry_bytes: usize, count: u32) -> bool {
        entry_bytes <= MemTable::max_frame_bytes(segment_bytes)
            && count as usize <= MemTable::max_frame_entries(segment_bytes)
    }

    /// [Reserves](MemTable::reserve) a frame of a batch that needs several. If another frame of the batch
    /// follows, in this MemTable or the next, `continues` is the batch's first seqno.
    ///
    /// # Panics
    ///
    /// If the segment does not have [`GROUPS`](crate::GROUPS).
    pub fn reserve_part(
        &self,
        tail: &mut SegmentWriter,
        entry_bytes: usize,
        count: u32,
        continues: Option<Seqno>,
    ) -> Option<Reservation> {
        self.segment.reserve_part(tail, entry_bytes, count, continues)
    }

    /// The last seqno with which a batch ends that is in this MemTable, or before it: the last one reserved,
    /// unless the last batch goes on in the next MemTable.
    #[inline]
    pub fn last_whole_seqno(&self) -> Seqno {
        self.segment.batch_from().map_or_else(|| self.last_seqno(), |from| from - 1)
    }

    /// Whether the last batch of an immutable MemTable goes on in the next one.
    pub fn ends_in_batch(&self) -> bool {
        self.segment.ends_in_batch()
    }
}
