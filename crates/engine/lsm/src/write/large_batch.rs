//! Batches that are too large for one frame.
//!
//! Such a batch is split into parts. Each is a frame that says whether another part follows. The
//! frames are contiguous, and may span several segments. The batch is visible completely or not at
//! all:
//!
//! * The writer reserves all parts at once under the short lock, so no other frame is between them.
//!   All segments for this are prepared before. Once a part is reserved, only a failed log prevents
//!   another from being written.
//! * The parts share one ticket, so they become visible at once. The log's marks advance from the
//!   end of one batch to the end of the next (`group_commit`).
//! * If the batch starts in one segment and ends in another, the last is sealed, and one edit
//!   installs the tables of all of them (`flush`).
//! * Recovery drops an unfinished batch (`recovery`).
//!
//! A batch that waits for segments receives them before all other writers, which would take them
//! one by one. A writer that has waited for one such batch goes before the next.

use super::{ActiveSegment, CommitPipeline, Durability, MemTableSwitch, RANGE_DELETES_MAX};
use crate::log::segment_provider::LogSegment;
use esker_api::WriteBatch;
use esker_base::{Entry, Error, Kind, Result, Seqno};
use esker_memtable::{MemTable, Reservation, Room};
use std::ops::Range;
use std::sync::Arc;

/// The most bytes that a segment's header takes, or a frame's header and padding.
const HEADER_BYTES_MAX: usize = 128;

/// A part of a batch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Part {
    /// Where its entries are in the encoded batch.
    entries: Range<usize>,
    count: u32,
    range_deletes: usize,
}

/// A place for a part.
struct ReservedPart {
    memtable: Arc<MemTable>,
    reservation: Reservation,
    entries: Range<usize>,
}

impl CommitPipeline {
    /// Commits a batch that is too large for one frame of a segment of `segment_bytes`. A frame can hold each
    /// of its entries. Otherwise as [`CommitPipeline::write`].
    pub(crate) fn write_large(
        &self,
        batch: &WriteBatch,
        segment_bytes: usize,
        index_epoch: u64,
        rotation: &impl MemTableSwitch,
    ) -> Result<Option<Seqno>> {
        let parts = cut(batch.encoded(), segment_bytes);
        let reserved = self.reserve_large(&parts, segment_bytes, index_epoch, rotation)?;
        let Some((reserved, ticket, last_seqno)) = reserved else { return Ok(None) };
        rotation.look_ahead();
        let given_up = || self.group.has_failed();
        if !self.ring.has_room(ticket) && !self.ring.wait_room(ticket, &given_up) {
            return Err(self.log_failed());
        }
        // The same for all: no part may say that another is durable.
        let durable_through = self.synced();
        let fill = |part: ReservedPart| {
            let ReservedPart { memtable, reservation, entries } = part;
            let entries = &batch.encoded()[entries];
            let filled = memtable.fill(reservation, durable_through, entries).fence();
            (memtable, filled)
        };
        let filled: Vec<_> = reserved.into_iter().map(fill).collect();
        let asks_more = self.durability == Durability::Appended && batch.wants_sync();
        if asks_more {
            self.make_durable(last_seqno, Durability::Synced)?;
        }
        filled.iter().for_each(|(memtable, filled)| memtable.insert(filled));
        self.acknowledge(batch, ticket, last_seqno, asks_more).map(Some)
    }

    fn reserve_large(
        &self,
        parts: &[Part],
        segment_bytes: usize,
        index_epoch: u64,
        rotation: &impl MemTableSwitch,
    ) -> Result<Option<(Vec<ReservedPart>, u64, Seqno)>> {
        let needed = segments_for(parts, segment_bytes);
        let _turn = self.large.lock();
        loop {
            let mut tail = self.lock_active();
            if self.group.has_failed() {
                return Err(self.log_failed());
            }
            if tail.state.closed {
                return Err(Error::Closed);
            }
            if tail.state.index_epoch != index_epoch {
                drop(tail);
                rotation.want_no_segments();
                return Ok(None);
            }
            let needed = match tail.state.room_for_all(parts) {
                Some((memtable, room)) if memtable.room().holds(room) => 0,
                Some((memtable, room)) => {
                    drop(tail);
                    rotation.want_no_segments();
                    rotation.wait_for_room(&memtable, room)?;
                    continue;
                }
                None => needed,
            };
            let Some(segments) = rotation.take_segments(needed)? else {
                // Its flush may have to make room for them.
                tail.seal();
                drop(tail);
                rotation.wait_for_segments(needed)?;
                continue;
            };
            let mut segments = segments.into_iter();
            let batch_from = tail.state.next_seqno;
            let mut reserved = Vec::with_capacity(parts.len());
            for (at, part) in parts.iter().enumerate() {
                let continues = (at + 1 < parts.len()).then_some(batch_from);
                let place = loop {
                    if let Some(place) = tail.state.reserve_part(part, continues) {
                        break place;
                    }
                    let segment = segments.next().expect("so many segments hold all parts");
                    rotation.begin(&mut tail, segment);
                };
                reserved.push(place);
            }
            let first = reserved.first().expect("a batch has a part");
            let last = reserved.last().expect("a batch has a part");
            if !Arc::ptr_eq(&first.memtable, &last.memtable) {
                // They are flushed together, which must not wait for more writes.
                tail.seal();
            }
            rotation.put_back(segments.collect());
            let ticket = tail.state.take_ticket();
            return Ok(Some((reserved, ticket, tail.last_seqno())));
        }
    }
}

impl ActiveSegment {
    /// What the active segment has to grow to, to hold all `parts`. `None` if it never holds them.
    fn room_for_all(&self, parts: &[Part]) -> Option<(Arc<MemTable>, Room)> {
        let (LogSegment { memtable, .. }, _) = self.active.as_ref()?;
        let (used, whole) = (memtable.used(), memtable.whole_room());
        let bytes = parts.iter().map(|part| part.entries.len() + HEADER_BYTES_MAX).sum::<usize>();
        let entries = parts.iter().map(|part| part.count as usize).sum::<usize>();
        let range_deletes = parts.iter().map(|part| part.range_deletes).sum::<usize>();
        let room = Room {
            bytes: u32::try_from(used.bytes as usize + bytes).ok()?,
            entries: u32::try_from(used.entries as usize + entries).ok()?,
        };
        let fits = whole.holds(room) && self.range_deletes + range_deletes <= RANGE_DELETES_MAX;
        fits.then(|| (memtable.clone(), room))
    }

    /// A place for `part` in the active segment, or `None` if another is to follow it.
    fn reserve_part(&mut self, part: &Part, continues: Option<Seqno>) -> Option<ReservedPart> {
        let (LogSegment { memtable, .. }, tail) = self.active.as_mut()?;
        let range_deletes = self.range_deletes + part.range_deletes;
        if range_deletes > RANGE_DELETES_MAX {
            return None;
        }
        let (entries, count) = (part.entries.clone(), part.count);
        let reservation = memtable.reserve_part(tail, entries.len(), count, continues)?;
        self.range_deletes = range_deletes;
        self.next_seqno += u64::from(count);
        Some(ReservedPart { memtable: memtable.clone(), reservation, entries })
    }
}

/// Cuts encoded entries into parts that fit a frame each.
fn cut(encoded: &[u8], segment_bytes: usize) -> Vec<Part> {
    let (bytes_max, entries_max) =
        (MemTable::max_frame_bytes(segment_bytes), MemTable::max_frame_entries(segment_bytes));
    let mut parts = Vec::new();
    let mut part = Part::default();
    let mut rest = encoded;
    while let Some(entry) = Entry::decode(&mut rest) {
        let end = encoded.len() - rest.len();
        if end - part.entries.start > bytes_max || part.count as usize == entries_max {
            let start = part.entries.end;
            parts.push(std::mem::take(&mut part));
            part.entries = start..start;
        }
        part.entries.end = end;
        part.count += 1;
        part.range_deletes += usize::from(entry.kind == Kind::RangeDelete);
    }
    parts.push(part);
    parts
}

/// How many empty segments hold all of `parts`, in order. Where the first of them are in the active
/// segment, the rest take no more.
fn segments_for(parts: &[Part], segment_bytes: usize) -> usize {
    let entries_max = MemTable::max_frame_entries(segment_bytes);
    let (mut segments, mut bytes, mut entries, mut range_deletes) = (1, HEADER_BYTES_MAX, 0, 0);
    for part in parts {
        bytes += part.entries.len() + HEADER_BYTES_MAX;
        entries += part.count as usize;
        range_deletes += part.range_deletes;
        if bytes > segment_bytes || entries > entries_max || range_deletes > RANGE_DELETES_MAX {
            segments += 1;
            bytes = part.entries.len() + 2 * HEADER_BYTES_MAX;
            (entries, range_deletes) = (part.count as usize, part.range_deletes);
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::KeyspaceId;

    const SEGMENT_BYTES: usize = 64 << 10;

    fn batch(values: &[usize]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for &bytes in values {
            batch.put(KeyspaceId::DEFAULT, b"key", vec![7; bytes]);
        }
        batch
    }

    #[test]
    fn parts_are_whole_entries_in_a_row_and_fit_a_frame() {
        for values in [&[16_000; 9][..], &[1; 3_000], &[0, 16_000, 5, 12_000, 12_000, 0]] {
            let batch = batch(values);
            let parts = cut(batch.encoded(), SEGMENT_BYTES);
            let mut at = 0;
            for part in &parts {
                assert_eq!(part.entries.start, at);
                at = part.entries.end;
                let count = part.count;
                assert!(MemTable::batch_fits(SEGMENT_BYTES, part.entries.len(), count), "{part:?}");
                let mut rest = &batch.encoded()[part.entries.clone()];
                let decoded = std::iter::from_fn(|| Entry::decode(&mut rest)).count();
                assert_eq!(decoded, count as usize);
            }
            assert_eq!(at, batch.encoded().len());
            assert_eq!(parts.iter().map(|part| part.count as usize).sum::<usize>(), batch.len());
        }
    }

    #[test]
    fn segments_are_enough_for_all_parts() {
        let segments = |values: &[usize]| {
            segments_for(&cut(batch(values).encoded(), SEGMENT_BYTES), SEGMENT_BYTES)
        };
        assert_eq!(segments(&[16_000; 3]), 1);
        assert_eq!(segments(&[16_000; 9]), 3);
        assert_eq!(segments(&[16_000; 4]), 1);
        // Of each segment's index no more is sure than what one frame may have.
        assert_eq!(segments(&[1; 1024]), 4);
    }
}
