//! MemTables that grow as they fill, so that what holds little takes little.

use super::{MIN_BYTES_AN_ENTRY, MemTable, entry_cap};
use crate::frame::SegmentHeader;
use crate::hash_index::HashIndex;
use crate::loom_shim::{AtomicU32, Ordering};
use crate::segment::{EntryLinks, FrameMode, Memory, Room, Segment, SegmentWriter};

/// Of a MemTable that grows, this share of its segment is there at first,
const FIRST_SHARE: usize = 16;

/// within these bounds. The upper one is what 1,000 entries of 100 bytes half fill.
const FIRST_BYTES_MIN: usize = 4 << 10;
const FIRST_BYTES_MAX: usize = 256 << 10;

/// What is left of limits that were lowered: see [`MemTable::lower`].
#[derive(Default)]
pub(super) struct Lowered {
    /// The highest limit before: memory up to here is allocated.
    backed_bytes: AtomicU32,
    /// What was used when the limit was last lowered.
    at: AtomicU32,
}

impl MemTable {
    /// An empty MemTable like [`MemTable::with_room_for`], of which little is there at first: see
    /// [`MemTable::grow`]. For memory that is reserved and not touched.
    pub fn growing(
        entries: usize,
        memory: impl Into<Memory>,
        header: SegmentHeader,
        frames: FrameMode,
    ) -> MemTable {
        let capacity = header.capacity as usize;
        let entries = entries.clamp(MemTable::max_frame_entries(capacity), entry_cap(capacity));
        let first = MemTable::first_room(capacity);
        let (nodes, index) =
            (EntryLinks::reserve(entries), HashIndex::growing(first.entries as usize, entries));
        let segment = Segment::new(memory.into(), header, frames, nodes);
        segment.begin_with(first);
        segment.touch(Room { bytes: 0, entries: 0 }, first);
        MemTable { grows: true, ..MemTable::around(segment, index) }
    }

    /// What there is at first of a MemTable that grows to `segment_bytes`.
    pub fn first_room(segment_bytes: usize) -> Room {
        let bytes = (segment_bytes / FIRST_SHARE).clamp(FIRST_BYTES_MIN, FIRST_BYTES_MAX);
        Room { bytes: bytes as u32, entries: (bytes / MIN_BYTES_AN_ENTRY) as u32 }
    }

    /// How much of it is reserved.
    pub fn used(&self) -> Room {
        Room { bytes: self.segment.bytes_used(), entries: self.segment.entries() }
    }

    /// How much of it there is: no frame is reserved beyond.
    pub fn room(&self) -> Room {
        self.segment.room()
    }

    /// How much of it there is once it has grown as far as it can.
    pub fn whole_room(&self) -> Room {
        self.segment.whole()
    }

    /// Whether it has grown as far as it can, or was all there from the start.
    pub fn is_whole(&self) -> bool {
        self.segment.room() == self.segment.whole()
    }

    /// What the MemTable would have to grow to, to take this batch next. `None` if that does not help: seal
    /// it and go on with the next. Runs under the committer's lock.
    pub fn room_for(&self, tail: &SegmentWriter, entry_bytes: usize, count: u32) -> Option<Room> {
        self.segment.room_for(tail, entry_bytes, count)
    }

    /// Makes `room` of it available. Allocates and touches memory and index: this is for the
    /// background, one thread at a time. Of a log file, `room.bytes` must be prepared before.
    pub fn grow(&self, room: Room) {
        match self.grows {
            true => {
                self.segment.touch(self.room(), room);
                self.index.grow(room.entries);
            }
            // The nodes are there. So may be the memory, then this is quick.
            false => self.segment.touch_bytes(self.room().bytes..room.bytes),
        }
        self.segment.raise(room);
    }

    /// Has frames reserved in the first `bytes` bytes only until [`MemTable::grow`] says that there is more
    /// of its log file, or of its memory. Before it is activated.
    pub fn begin_with(&self, bytes: u32) {
        self.lowered.backed_bytes.fetch_max(self.room().bytes, Ordering::Relaxed);
        self.segment.begin_with(Room { bytes, ..self.whole_room() });
    }

    /// Touches the first `bytes` bytes of memory that is reserved. Before it is activated.
    pub fn touch_first(&self, bytes: u32) {
        self.segment.touch_bytes(0..bytes.min(self.whole_room().bytes));
    }

    /// Lowers the limit of frames to `bytes`, until [`MemTable::grow`] raises it: for a log file that gives
    /// back what is beyond. The memory stays. Returns false if that is not below the limit, or frames are
    /// beyond. Runs under the committer's lock, and not while the MemTable grows.
    pub fn lower(&self, tail: &SegmentWriter, bytes: u32) -> bool {
        self.lowered.backed_bytes.fetch_max(self.room().bytes, Ordering::Relaxed);
        let is_lowered = self.segment.lower(tail, bytes);
        if is_lowered {
            self.lowered.at.store(self.used().bytes, Ordering::Relaxed);
        }
        is_lowered
    }

    /// What was used when the limit was last lowered, and 0 before. Growth begins there again, in small
    /// steps.
    pub fn lowered_at(&self) -> u32 {
        self.lowered.at.load(Ordering::Relaxed)
    }

    /// Of how much of it there is memory.
    pub(super) fn held(&self) -> Room {
        if !self.grows {
            return self.whole_room();
        }
        let (room, backed) = (self.room(), self.lowered.backed_bytes.load(Ordering::Relaxed));
        Room { bytes: room.bytes.max(backed), ..room }
    }
}
