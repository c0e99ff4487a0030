//! A segment: memory for frames, who may write where in it, and which of it is complete.
//!
//! 1. `Segment::activate` hands out the one [`SegmentWriter`]. Its holder, under the committer's lock, cuts
//!    [`Reservation`]s off the free space, in order: a frame's bytes and its seqnos.
//! 2. `Segment::fill` spends a reservation: it writes the frame, then stores where each of its
//!    entries starts into their `EntryLinks`, the first entry's last, with release ordering. In persistent
//!    memory the frame is only on its way; [`Written::fence`] waits until it is there, and then stores
//!    the same.
//! 3. So a frame is complete when the node of its first entry names a place, and an entry may be
//!    read when its own node does. Neither is ever written again.
//!
//! Thread safety: all methods that take `&self` may be called from any thread.
//!
//! Invariants that the `unsafe` here rests on:
//! 1. Space is reserved once: there is one tail, its offset only grows, a reservation can't be
//!    copied and is spent by filling it, and all of them carry the identity of their segment.
//! 2. A `Place` is made only from a node that was stored after its entry's bytes.
//! 3. Bytes below a completed [`LogPosition`] belong to filled frames.
//! 4. Only this process's stores change the memory. The language cannot check that: a file that is mapped
//!    can be written by a program that ignores its lock, and a medium can fail under it. Then a length that
//!    an entry or a frame says of itself may lead to bytes that another thread writes now. It
//!    never leads out of the segment, and the frame's checksum refuses it at the flush.

mod entry_links;
mod growth;
mod head;
mod heap;
mod memory;
mod room;
mod writer;

pub(crate) use entry_links::{EntryLinks, Place};
pub use heap::HeapMemory;
pub(crate) use heap::{Zeroable, ZeroedVec};
pub use memory::Memory;
pub use room::Room;
pub use writer::{LogPosition, Reservation, SegmentWriter, Written, WrittenFrame};

use self::head::EntryHeader;
use self::room::Limit;
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, GROUPS, MIN_ENTRY_BYTES, SegmentHeader};
use crate::log_reader::ScanResult;
use crate::loom_shim::{AtomicBool, AtomicU32, AtomicU64, Ordering, RaceCell};
use esker_base::prefetch;
use esker_base::{Entry, KeyspaceId, Kind, MAX_SEQNO, Seqno};
use esker_pmem::{ExtentRange, Flushed};
use std::cell::Cell;

/// How many frames further on the first lines are asked for when a segment is recovered: of long frames, the
/// processor does not predict them.
const FRAMES_AHEAD: usize = 8;

/// How much is reserved. Stored under the committer's lock, read by anyone; on a cache line of its
/// own, because every put stores it and every get reads the fields around it.
#[repr(align(64))]
struct Reserved {
    entries: AtomicU32,
    offset: AtomicU32,
    sealed: AtomicBool,
    /// Up to where frames may be reserved, and how many entries: of a segment that grows, less than it
    /// holds. Raised with release ordering after what is below is there, and lowered under the lock only.
    limit: Limit,
    /// If the batch of the last frame goes on in another, the first seqno of that batch, or of that frame if nothing
    /// more is known; otherwise 0, which no entry has.
    batch_from: AtomicU64,
}

/// Whether a segment's frames will ever be read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameMode {
    /// By recovery, and by the flush: they carry checksums.
    Logged,
    /// Only by this process, as long as it lives: checksums would cost and say nothing.
    Unlogged,
}

/// See the module's text.
pub(crate) struct Segment {
    // Constant after construction.
    memory: Memory,
    start: *mut u8,
    header: SegmentHeader,
    frames: FrameMode,
    identity: u64,
    nodes: EntryLinks,
    races: RaceCell,
    /// The seqno of entry 0, or zero as long as the segment is not active.
    base: AtomicU64,
    /// The place of an entry that was found damaged, or zero as long as none was.
    damaged_at: AtomicU32,
    reserved: Reserved,
}

// SAFETY: `start` points into `memory`, which is Send and Sync and whose bytes outlive the value.
unsafe impl Send for Segment {}
// SAFETY: as above; writes through `start` go to reserved space only, which has one owner.
unsafe impl Sync for Segment {}

impl Segment {
    /// An empty segment. On the heap it writes its header into `memory`; an extent of persistent
    /// memory has been given it when it was acquired.
    pub fn new(
        memory: Memory,
        header: SegmentHeader,
        frames: FrameMode,
        nodes: EntryLinks,
    ) -> Segment {
        let segment = Segment::over(memory, header, frames, nodes);
        let encoded = header.encode();
        if matches!(segment.memory, Memory::Heap(_)) {
            segment.races.write(0, encoded.len());
            // SAFETY: `over` has checked that the memory holds a header, and no other thread has it yet.
            unsafe { segment.start.copy_from_nonoverlapping(encoded.as_ptr(), encoded.len()) };
        }
        debug_assert_eq!(
            segment.memory.bytes()[..encoded.len()],
            encoded,
            "the header is in place"
        );
        segment
    }

    /// A sealed segment over `memory`, which holds the frames that `scan` found in it. `look` sees each
    /// entry, by number and with the nodes so far: this is the one pass over the entries.
    pub fn recovered(
        memory: Memory,
        header: SegmentHeader,
        nodes: EntryLinks,
        scan: &ScanResult,
        mut look: impl FnMut(&EntryLinks, u32, &Entry<'_>),
    ) -> Segment {
        let segment = Segment::over(memory, header, FrameMode::Logged, nodes);
        segment.races.read(0, header.capacity as usize);
        // Nobody writes to it any more: there is no tail.
        let bytes = &segment.memory.bytes()[..header.capacity as usize];
        let mut number = 0;
        for (at, frame) in scan.frames.iter().enumerate() {
            if let Some(ahead) = scan.frames.get(at + FRAMES_AHEAD) {
                prefetch(segment.start.wrapping_add(ahead.offset as usize));
                prefetch(segment.start.wrapping_add(ahead.offset as usize + 64));
            }
            let start = frame.offset as usize + FRAME_HEADER_BYTES;
            let mut rest = &bytes[start..frame.offset as usize + frame.bytes as usize];
            let whole = rest.len();
            for _ in 0..frame.count {
                segment.nodes.store(number, (start + whole - rest.len()) as u32);
                let entry = Entry::decode(&mut rest).expect("the scan is of this memory");
                look(&segment.nodes, number, &entry);
                number += 1;
            }
        }
        if let Some(first) = scan.frames.first() {
            segment.base.store(first.first_seqno, Ordering::Relaxed);
        }
        segment.reserved.entries.store(number, Ordering::Relaxed);
        segment.reserved.offset.store(scan.end as u32, Ordering::Relaxed);
        let last = scan.frames.last().filter(|frame| frame.continues);
        let batch_from = last.map_or(0, |frame| frame.first_seqno);
        segment.reserved.batch_from.store(batch_from, Ordering::Relaxed);
        segment.reserved.sealed.store(true, Ordering::Release);
        segment
    }

    fn over(
        memory: Memory,
        header: SegmentHeader,
        frames: FrameMode,
        nodes: EntryLinks,
    ) -> Segment {
        assert_eq!(header.flaw(), None, "the segment header is sound");
        assert!(memory.len() as u64 >= header.capacity, "the memory holds the whole segment");
        let start = memory.pointer();
        let limit = Limit {
            offset: AtomicU32::new(header.capacity as u32),
            entries: AtomicU32::new(nodes.len() as u32),
        };
        Segment {
            start,
            header,
            frames,
            identity: writer::new_identity(),
            nodes,
            races: RaceCell::new(header.capacity as usize),
            base: AtomicU64::new(0),
            damaged_at: AtomicU32::new(0),
            reserved: Reserved {
                entries: AtomicU32::new(0),
                offset: AtomicU32::new(header.first_frame() as u32),
                sealed: AtomicBool::new(false),
                limit,
                batch_from: AtomicU64::new(0),
            },
            memory,
        }
    }

    /// Takes the segment apart, to use its memory and nodes again.
    pub fn into_parts(self) -> (Memory, EntryLinks) {
        (self.memory, self.nodes)
    }

    /// What the segment says about itself.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// The nodes of the entries.
    #[inline]
    pub fn nodes(&self) -> &EntryLinks {
        &self.nodes
    }

    /// The seqno of entry 0, or zero if the segment was not activated.
    #[inline]
    pub fn base(&self) -> Seqno {
        self.base.load(Ordering::Relaxed)
    }

    /// The number of entries reserved.
    pub fn entries(&self) -> u32 {
        self.reserved.entries.load(Ordering::Acquire)
    }

    /// The bytes reserved, the segment's header included.
    pub fn bytes_used(&self) -> u32 {
        self.reserved.offset.load(Ordering::Acquire)
    }

    /// Whether no reservation will follow.
    pub fn sealed(&self) -> bool {
        self.reserved.sealed.load(Ordering::Acquire)
    }

    /// Whether frames carry checksums.
    pub fn frames(&self) -> FrameMode {
        self.frames
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The number of entries with a seqno at or below `seqno`, if there were endlessly many.
    #[inline]
    pub fn numbers_through(&self, seqno: Seqno) -> u32 {
        let base = self.base();
        if base == 0 || seqno < base {
            return 0;
        }
        u32::try_from(seqno - base + 1).unwrap_or(u32::MAX)
    }

    /// Opens the segment for writing; entry 0 gets `base`. Panics the second time.
    pub fn activate(&self, base: Seqno) -> SegmentWriter {
        assert!(base > 0 && base <= MAX_SEQNO, "the first seqno is {base}");
        assert!(!self.sealed(), "a recovered segment is never appended to");
        let before = self.base.swap(base, Ordering::AcqRel);
        assert_eq!(before, 0, "a segment is activated once");
        let offset = self.header.first_frame() as u32;
        SegmentWriter { identity: self.identity, first: offset, offset, number: 0, base }
    }

    /// Takes space and seqnos for a frame, or `None` if the segment is full.
    #[inline]
    pub fn reserve(
        &self,
        tail: &mut SegmentWriter,
        bytes: usize,
        count: u32,
    ) -> Option<Reservation> {
        assert_eq!(tail.identity, self.identity, "the tail is another segment's");
        assert!(count > 0 && bytes / MIN_ENTRY_BYTES >= count as usize, "no such frame");
        let whole = self.header.frame_bytes(bytes);
        let end = tail.offset as usize + whole;
        let numbers_end = tail.number as usize + count as usize;
        let limit = &self.reserved.limit;
        if end > limit.offset.load(Ordering::Acquire) as usize
            || numbers_end > limit.entries.load(Ordering::Acquire) as usize
        {
            return None;
        }
        let reservation = Reservation {
            identity: self.identity,
            offset: tail.offset,
            bytes: bytes as u32,
            number: tail.number,
            count,
            base: tail.base,
            continues: false,
        };
        tail.offset = end as u32;
        tail.number = numbers_end as u32;
        self.reserved.offset.store(tail.offset, Ordering::Relaxed);
        self.reserved.entries.store(tail.number, Ordering::Release);
        Some(reservation)
    }

    /// The same for a frame of a batch that has several. If the batch goes on after it, `continues` is the
    /// batch's first seqno.
    pub fn reserve_part(
        &self,
        tail: &mut SegmentWriter,
        bytes: usize,
        count: u32,
        continues: Option<Seqno>,
    ) -> Option<Reservation> {
        assert!(self.header.flags & GROUPS != 0, "the segment's frames may be of groups");
        let reservation = self.reserve(tail, bytes, count)?;
        self.reserved.batch_from.store(continues.unwrap_or(0), Ordering::Release);
        Some(Reservation { continues: continues.is_some(), ..reservation })
    }

    /// Whether the batch of the last frame goes on in the next segment, once nothing more is reserved.
    pub fn ends_in_batch(&self) -> bool {
        self.batch_from().is_some()
    }

    /// The first seqno of the batch of the last frame, if that batch goes on in the next segment.
    pub fn batch_from(&self) -> Option<Seqno> {
        Some(self.reserved.batch_from.load(Ordering::Acquire)).filter(|&from| from > 0)
    }

    /// Gives the tail back: nothing more will be reserved.
    pub fn seal(&self, tail: SegmentWriter) {
        assert_eq!(tail.identity, self.identity, "the tail is another segment's");
        self.reserved.sealed.store(true, Ordering::Release);
    }

    /// Writes a frame into its reserved space and says so: at once, or with the fence if it is in
    /// persistent memory, for streaming stores may be seen after any others that follow them, until
    /// then. `look` sees each entry first.
    #[inline]
    pub fn fill<'a>(
        &'a self,
        reservation: Reservation,
        durable_through: Seqno,
        entries: &'a [u8],
        mut look: impl FnMut(u32, &Entry<'_>),
    ) -> Written<'a> {
        let Reservation { identity, offset, bytes, number, count, base, continues } = reservation;
        assert_eq!(identity, self.identity, "the reservation is another segment's");
        assert_eq!(entries.len(), bytes as usize, "the entries are as long as was reserved");
        let first_seqno = base + u64::from(number);
        assert!(durable_through < first_seqno, "a frame can't know itself durable");
        let mut rest = entries;
        for at in 0..count {
            look(at, &Entry::decode(&mut rest).expect("the batch holds the entries reserved"));
        }
        assert!(rest.is_empty(), "the batch holds no more entries than reserved");

        let mark = self.header.mark();
        let header = FrameHeader { mark, bytes, count, first_seqno, durable_through, continues };
        let encoded = match self.frames {
            FrameMode::Logged => header.encode(&self.header, entries),
            FrameMode::Unlogged => header.encode_unchecked(),
        };
        // SAFETY: the space is this reservation's, which is spent here.
        let on_its_way = unsafe { self.write(offset, &encoded, entries) };
        let filled = WrittenFrame {
            identity,
            offset,
            number,
            count,
            base,
            hash: None,
            indexed: Cell::new(false),
        };
        match on_its_way {
            Some(on_its_way) => Written::on_its_way(filled, self, entries, on_its_way),
            None => {
                self.mark(&filled, entries);
                Written::there(filled)
            }
        }
    }

    /// Writes header, entries and padding. In persistent memory, what must be fenced is returned.
    ///
    /// # Safety
    ///
    /// The frame's space is reserved by the caller and no other thread reads or writes it.
    #[inline]
    unsafe fn write(
        &self,
        offset: u32,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
    ) -> Option<Flushed<'_, ExtentRange>> {
        let whole = self.header.frame_bytes(entries.len());
        self.races.write(offset as usize, whole);
        if let Memory::Pmem(extent) = &self.memory {
            // SAFETY: the caller's; readers are told of the frame after its fence.
            return Some(unsafe { extent.write_frame(offset as usize, header, entries, whole) });
        }
        // SAFETY: the caller's; `reserve` has checked that the whole frame lies in the memory.
        unsafe {
            let to = self.start.add(offset as usize);
            to.copy_from_nonoverlapping(header.as_ptr(), FRAME_HEADER_BYTES);
            let to = to.add(FRAME_HEADER_BYTES);
            to.copy_from_nonoverlapping(entries.as_ptr(), entries.len());
            to.add(entries.len()).write_bytes(0, whole - FRAME_HEADER_BYTES - entries.len());
        }
        None
    }

    /// Stores where the entries of a written frame start, the first one last.
    #[inline]
    fn mark(&self, filled: &WrittenFrame, entries: &[u8]) {
        let &WrittenFrame { offset, number, count, .. } = filled;
        let start = offset + FRAME_HEADER_BYTES as u32;
        if count > 1 {
            let mut rest = entries;
            for at in 0..count {
                if at > 0 {
                    self.nodes.store(number + at, start + (entries.len() - rest.len()) as u32);
                }
                Entry::decode(&mut rest).expect("decoded before");
            }
        }
        self.nodes.store(number, start);
    }

    /// The position before the first frame.
    pub fn start(&self) -> LogPosition {
        let base = self.base();
        assert!(base > 0, "the segment is active");
        let offset = self.header.first_frame() as u32;
        LogPosition { identity: self.identity, offset, number: 0, base, whole: None }
    }

    /// The end of the contiguous complete frames from `from` on.
    pub fn completed(&self, from: LogPosition) -> LogPosition {
        assert_eq!(from.identity, self.identity, "the position is another segment's");
        let mut position = from;
        while let Some(next) = self.after_frame(position) {
            position = next;
        }
        position
    }

    /// The end of the frame at `position`, if that is complete.
    pub fn after_frame(&self, position: LogPosition) -> Option<LogPosition> {
        self.nodes.place(position.number)?;
        let (header, _) = FrameHeader::decode(self.frame_header(position)?);
        // The memory may be damaged by now. What a frame says of itself leads no further than the
        // segment's end, and whoever checks the frame sees it.
        let end = position.offset as usize + self.header.frame_bytes(header.bytes as usize);
        let offset = end.min(self.header.capacity as usize) as u32;
        let number = position.number.wrapping_add(header.count);
        let whole = if header.continues { position.whole } else { Some(number) };
        Some(LogPosition { offset, number, whole, ..position })
    }

    /// The header of the complete frame at `position`, unless the segment has no space for one there.
    fn frame_header(&self, position: LogPosition) -> Option<&[u8; FRAME_HEADER_BYTES]> {
        let start = position.offset as usize;
        if start + FRAME_HEADER_BYTES > self.header.capacity as usize {
            return None;
        }
        self.races.read(start, FRAME_HEADER_BYTES);
        // SAFETY: in bounds, and written: the node of the frame's first entry is stored. That the position is
        // a frame's start rests on invariant 4, as the header before it says where it lies.
        Some(unsafe { &*self.start.add(start).cast() })
    }

    /// The bytes of the complete frames from `from` to `to`.
    pub fn bytes(&self, from: LogPosition, to: LogPosition) -> &[u8] {
        assert_eq!(from.identity, self.identity, "the position is another segment's");
        assert_eq!(to.identity, self.identity, "the position is another segment's");
        assert!(from.offset <= to.offset, "the range runs backwards");
        assert!(u64::from(to.offset) <= self.header.capacity, "frames are inside");
        let bytes = (to.offset - from.offset) as usize;
        self.races.read(from.offset as usize, bytes);
        // SAFETY: positions are the start or come from `completed`, so all below `to` is written.
        unsafe { std::slice::from_raw_parts(self.start.add(from.offset as usize), bytes) }
    }

    /// Reads a filled entry. A caller that answers a reader with it says so by [`Segment::before_read`].
    ///
    /// The memory may have been damaged since. What is no entry any more is noted, and an entry that
    /// no writer wrote is returned: before an answer is used, [`Segment::damage`] is asked.
    #[inline]
    pub fn entry(&self, place: Place) -> Entry<'_> {
        let start = place.offset() as usize;
        let Some(head) = self.head(start) else { return self.note_damage(place) };
        let EntryHeader { keyspace, kind, key, key_bytes, value_bytes } = head;
        self.races.read(start, key - start + key_bytes + value_bytes);
        // SAFETY: `head` has checked that the bytes lie in the segment. They are a filled entry's, by
        // invariants 2 and 4, and never written again.
        let (key, value) = unsafe {
            let key = self.start.add(key);
            (
                std::slice::from_raw_parts(key, key_bytes),
                std::slice::from_raw_parts(key.add(key_bytes), value_bytes),
            )
        };
        Entry { keyspace, kind, key, value }
    }

    /// Notes it if what is at `place` is no entry any more.
    #[inline]
    pub fn look_at(&self, place: Place) {
        if self.head(place.offset() as usize).is_none() {
            self.note_damage(place);
        }
    }

    /// Where an entry was found damaged, if one was.
    #[inline]
    pub fn damage(&self) -> Option<u32> {
        let at = self.damaged_at.load(Ordering::Relaxed);
        (at != 0).then_some(at)
    }

    /// An entry that no writer makes, for a corrupt one.
    #[cold]
    fn note_damage(&self, place: Place) -> Entry<'static> {
        self.damaged_at.store(place.offset(), Ordering::Relaxed);
        let keyspace = KeyspaceId(u32::MAX);
        Entry { keyspace, kind: Kind::Delete, key: b"\0", value: b"" }
    }

    /// To be called before a reader is given `bytes` bytes of one entry; see [`Extent::before_read`]. A pass
    /// over the whole segment, to sort, verify or flush it, waits for bandwidth and not for each line.
    ///
    /// [`Extent::before_read`]: esker_pmem::Extent::before_read
    #[inline]
    pub fn before_read(&self, bytes: usize) {
        if let Memory::Pmem(extent) = &self.memory {
            extent.before_read(bytes);
        }
    }

    /// Asks the processor for the first bytes of the entry at `place`.
    #[inline]
    pub fn prefetch(&self, place: Place) {
        prefetch(self.start.wrapping_add(place.offset() as usize));
        prefetch(self.start.wrapping_add(place.offset() as usize + 64));
    }
}
