//! The values that pass between a segment and its writers. Each carries its segment's identity,
//! and none can be made elsewhere: the segment relies on that.

use super::Segment;
use esker_base::Seqno;
use esker_pmem::{ExtentRange, Flushed};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no other segment of this process has, not even an earlier use of the same memory.
pub(super) fn new_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The free end of an active MemTable. There is one; the committer's lock guards it.
#[derive(Debug)]
pub struct SegmentWriter {
    pub(super) identity: u64,
    /// Where the first frame starts.
    pub(super) first: u32,
    pub(super) offset: u32,
    pub(super) number: u32,
    pub(super) base: Seqno,
}

impl SegmentWriter {
    /// The seqno that the next entry reserved will have.
    pub fn next_seqno(&self) -> Seqno {
        self.base + u64::from(self.number)
    }

    /// The position before the first frame.
    pub fn start(&self) -> LogPosition {
        let SegmentWriter { identity, first, base, .. } = *self;
        LogPosition { identity, offset: first, number: 0, base, whole: None }
    }
}

/// Space and seqnos for one frame. To be spent by `fill`: until it is, no frame after it counts as
/// complete.
#[derive(Debug)]
#[must_use = "a reservation that is not filled stops the log"]
pub struct Reservation {
    pub(super) identity: u64,
    pub(super) offset: u32,
    pub(super) bytes: u32,
    pub(super) number: u32,
    pub(super) count: u32,
    pub(super) base: Seqno,
    pub(super) continues: bool,
}

impl Reservation {
    /// The seqno of the first entry.
    pub fn first_seqno(&self) -> Seqno {
        self.base + u64::from(self.number)
    }

    /// The seqno of the last entry.
    pub fn last_seqno(&self) -> Seqno {
        self.first_seqno() + u64::from(self.count) - 1
    }
}

/// A frame that was stored. If it is in persistent memory it is on its way there, and only its
/// fence makes a [`WrittenFrame`] of it, on the thread that stored it: so the compiler refuses to index,
/// and thereby to show, what is not durable.
///
/// ```compile_fail,E0308
/// # use esker_memtable::{MemTable, Reservation};
/// fn commit(memtable: &MemTable, reservation: Reservation, entries: &[u8]) {
///     let written = memtable.fill(reservation, 0, entries);
///     memtable.insert(&written); // not fenced
/// }
/// ```
///
/// With its fence it is fine:
///
/// ```
/// # use esker_memtable::{MemTable, Reservation};
/// fn commit(memtable: &MemTable, reservation: Reservation, entries: &[u8]) {
///     let written = memtable.fill(reservation, 0, entries);
///     memtable.insert(&written.fence());
/// }
/// ```
#[must_use = "a frame that is not fenced is not durable"]
pub struct Written<'a> {
    pub(crate) filled: WrittenFrame,
    on_its_way: Option<UnfencedFrame<'a>>,
}

/// A frame that is not durable yet, nor complete for anybody who inspects its segment.
struct UnfencedFrame<'a> {
    segment: &'a Segment,
    entries: &'a [u8],
    stored: Flushed<'a, ExtentRange>,
}

impl<'a> Written<'a> {
    pub(super) fn there(filled: WrittenFrame) -> Self {
        Written { filled, on_its_way: None }
    }

    pub(super) fn on_its_way(
        filled: WrittenFrame,
        segment: &'a Segment,
        entries: &'a [u8],
        stored: Flushed<'a, ExtentRange>,
    ) -> Self {
        Written { filled, on_its_way: Some(UnfencedFrame { segment, entries, stored }) }
    }

    /// Waits until the frame is durable, if it is in persistent memory. In DRAM there is nothing
    /// to wait for: how durable the frame gets is the log file's matter.
    #[inline]
    pub fn fence(self) -> WrittenFrame {
        if let Some(UnfencedFrame { segment, entries, stored }) = self.on_its_way {
            let _: ExtentRange = stored.fence().into_inner();
            segment.mark(&self.filled, entries);
        }
        self.filled
    }
}

/// A frame that is written and, if it is in persistent memory, durable. To be inserted into the
/// index by the thread that made it, once it is in the log file if there is one.
#[derive(Debug)]
#[must_use = "a frame that is not inserted can't be read"]
pub struct WrittenFrame {
    pub(super) identity: u64,
    pub(super) offset: u32,
    pub(super) number: u32,
    pub(super) count: u32,
    pub(super) base: Seqno,
    /// The index's hash of the first entry, unless that is a range delete.
    pub(crate) hash: Option<u64>,
    pub(super) indexed: Cell<bool>,
}

impl WrittenFrame {
    /// The seqno of the first entry.
    pub fn first_seqno(&self) -> Seqno {
        self.base + u64::from(self.number)
    }

    /// The seqno of the last entry.
    pub fn last_seqno(&self) -> Seqno {
        self.first_seqno() + u64::from(self.count) - 1
    }

    /// Where the frame starts in the segment.
    pub fn offset(&self) -> u64 {
        u64::from(self.offset)
    }

    /// The entry numbers, the first time; nothing after that, so that no entry is indexed twice.
    #[inline]
    pub(crate) fn take_numbers(&self, of: &Segment) -> std::ops::Range<u32> {
        assert_eq!(self.identity, of.identity, "the frame is another segment's");
        match self.indexed.replace(true) {
            true => 0..0,
            false => self.number..self.number + self.count,
        }
    }
}

/// A place between two frames, all frames before which are complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPosition {
    pub(super) identity: u64,
    pub(super) offset: u32,
    pub(super) number: u32,
    pub(super) base: Seqno,
    /// The number of the entry behind the last batch that ends before this position, if one does.
    pub(super) whole: Option<u32>,
}

impl LogPosition {
    /// The offset in the segment.
    pub fn offset(&self) -> u64 {
        u64::from(self.offset)
    }

    /// The seqno of the first entry that is not before this position.
    pub fn next_seqno(&self) -> Seqno {
        self.base + u64::from(self.number)
    }

    /// The last seqno of the last batch of this segment that ends before this position. `None` if none
    /// does.
    pub fn last_of_whole(&self) -> Option<Seqno> {
        self.whole.map(|number| self.base + u64::from(number) - 1)
    }
}
