//! Growth of a segment, up to a limit below its size.
//!
//! The limit is raised after what is below it is there: memory, nodes, the index's part, and the step of
//! the log file. Frames are reserved below it only. It is lowered under the committer's lock, before space
//! of the log file that no frame has is given back.

use super::room::{Limit, Room};
use super::{Memory, Segment, SegmentWriter};
use crate::loom_shim::Ordering;
use std::ops::Range;

impl Segment {
    /// What the segment would have to grow to, to hold another frame. `None` if it never holds that.
    pub fn room_for(&self, tail: &SegmentWriter, bytes: usize, count: u32) -> Option<Room> {
        let end = tail.offset as usize + self.header.frame_bytes(bytes);
        let entries = tail.number as usize + count as usize;
        let fits = end <= self.header.capacity as usize && entries <= self.nodes.len();
        fits.then_some(Room { bytes: end as u32, entries: entries as u32 })
    }

    /// How much of it there is.
    pub fn room(&self) -> Room {
        let Limit { offset, entries } = &self.reserved.limit;
        let (offset, entries) = (offset.load(Ordering::Acquire), entries.load(Ordering::Acquire));
        Room { bytes: offset, entries }
    }

    /// How much of it there can be.
    pub fn whole(&self) -> Room {
        Room { bytes: self.header.capacity as u32, entries: self.nodes.len() as u32 }
    }

    /// Says how much of it there is before it is activated.
    pub fn begin_with(&self, room: Room) {
        assert_eq!(self.base(), 0, "the segment is not active yet");
        self.reserved.limit.offset.store(room.bytes, Ordering::Release);
        self.reserved.limit.entries.store(room.entries, Ordering::Release);
    }

    /// Touches what is between the space there is and `room`.
    pub fn touch(&self, from: Room, to: Room) {
        self.touch_bytes(from.bytes..to.bytes);
        self.nodes.touch(from.entries as usize..to.entries as usize);
    }

    /// Touches the bytes `range`.
    pub fn touch_bytes(&self, range: Range<u32>) {
        if let Memory::Heap(heap) = &self.memory {
            heap.touch(range.start as usize..range.end as usize);
        }
    }

    /// Has frames reserved in the first `bytes` bytes only. False, and nothing changes, if there are frames
    /// beyond, or if that is no less than before. Runs under the committer's lock, and not concurrently with
    /// [`Segment::raise`].
    pub fn lower(&self, tail: &SegmentWriter, bytes: u32) -> bool {
        assert_eq!(tail.identity, self.identity, "the tail is another segment's");
        let limit = &self.reserved.limit.offset;
        let is_less = tail.offset <= bytes && bytes < limit.load(Ordering::Acquire);
        if is_less {
            limit.store(bytes, Ordering::Release);
        }
        is_less
    }

    /// Has there be more space, which is ready to be used.
    pub fn raise(&self, room: Room) {
        debug_assert!(self.whole().holds(room), "a segment grows to its size at most");
        self.reserved.limit.offset.fetch_max(room.bytes, Ordering::AcqRel);
        self.reserved.limit.entries.fetch_max(room.entries, Ordering::AcqRel);
    }
}
