//! Reads the frames that another process writes to a log file, into a MemTable like the writer's.
//!
//! A frame that is not valid yet may be one that the writer is just writing, so it is read again later. A
//! file that was used again for another log has frames with another mark, which are not valid here.

use crate::log::ingest_mark::IngestMark;
use crate::log::wal_reader::WalHandle;
use crate::manifest::manifest_state::LogRecord;
use crate::manifest::version_edit::LogEnd;
use esker_base::{Entry, Error, Result, Seqno};
use esker_memtable::{
    FRAME_HEADER_BYTES, FrameInfo, FrameMode, GROUPS, HeapMemory, MemTable, Reservation, Room,
    SegmentHeader, SegmentWriter, frame_at, peek_frame,
};
use esker_storage::{ReadableFile, Storage};
use std::sync::Arc;

/// How much is read at once. A frame may be longer.
const CHUNK_BYTES: u64 = 256 << 10;

/// By how much a MemTable grows at once. To touch more memory would delay the frames behind.
const GROWTH: Room = Room { bytes: 1 << 20, entries: 16 << 10 };

/// A log that is read as it grows.
pub(super) struct LogTail {
    pub(super) epoch: u32,
    pub(super) memtable: Arc<MemTable>,
    /// Taken when the log is at its end.
    writer: Option<SegmentWriter>,
    path: String,
    reader: FrameReader,
    /// Where the next frame starts.
    pub(super) offset: u64,
    /// Where it ends, if a recovery has decided that.
    pub(super) end: Option<LogEnd>,
}

/// A log whose first frame is not the next one.
pub(super) enum Unfit {
    /// It has no frame yet.
    Empty,
    /// Its first frame starts with this seqno.
    StartsAt(Seqno),
}

/// A frame that was read.
pub(super) struct ReadFrame {
    pub(super) info: FrameInfo,
    /// Whether it is the mark of an ingest: see `write::ingest_slot`.
    pub(super) is_ingest: bool,
}

impl LogTail {
    /// The log `epoch`, unless its first frame does not start with the seqno `next`.
    pub(super) fn open(
        storage: &dyn Storage,
        (epoch, log): (u32, LogRecord),
        next: Seqno,
    ) -> Result<std::result::Result<LogTail, Unfit>> {
        let handle = WalHandle::of(storage, epoch)?;
        let (header, path) = (handle.header, handle.path.clone());
        let mut reader = FrameReader { file: handle.into_file(), header, bytes: Vec::new(), at: 0 };
        let offset = header.first_frame_offset();
        let Some((first, _)) = reader.frame(offset, log.end)? else {
            return Ok(Err(Unfit::Empty));
        };
        if first.first_seqno != next {
            return Ok(Err(Unfit::StartsAt(first.first_seqno)));
        }
        let memory = HeapMemory::reserve(header.capacity as usize);
        let memtable = MemTable::growing(usize::MAX, memory, header, FrameMode::Logged);
        let writer = Some(memtable.activate(next));
        let memtable = Arc::new(memtable);
        Ok(Ok(LogTail { epoch, memtable, writer, path, reader, offset, end: log.end }))
    }

    /// Reads the next frame, which starts with the seqno `next` and belongs to the batch from `batch_from` on.
    /// `None`: there is no valid one yet.
    pub(super) fn step(&mut self, next: Seqno, batch_from: Seqno) -> Result<Option<ReadFrame>> {
        let LogTail { memtable, writer, path, reader, offset, end, .. } = self;
        let at = *offset;
        let Some((info, entries)) = reader.frame(at, *end)? else { return Ok(None) };
        let damage = |what: String| Error::corruption(&*path, at, what);
        if info.first_seqno != next {
            let found = info.first_seqno;
            return Err(damage(format!("a frame starts at seqno {found}, not at {next}")));
        }
        let first = Entry::decode(&mut &entries[..]);
        let is_ingest = first.is_some_and(|it| IngestMark::of(&it, info.count).is_some());
        let continues = info.continues.then_some(batch_from);
        let writer = writer.as_mut().expect("a log is read up to its end once");
        let reserved = reserve(memtable, writer, entries.len(), info.count, continues);
        let reserved = reserved
            .ok_or_else(|| damage("the log holds more frames than its segment takes".to_owned()))?;
        memtable.insert(&memtable.fill(reserved, info.durable_through, entries).fence());
        *offset += u64::from(info.bytes);
        Ok(Some(ReadFrame { info, is_ingest }))
    }

    /// Whether all frames up to the end are read that a recovery has decided. Where none has, it is not known.
    pub(super) fn is_at_end(&self, next: Seqno) -> bool {
        self.end.is_some_and(|end| self.offset == end.offset && next == end.last_seqno + 1)
    }

    /// Says that no further frame will be read.
    pub(super) fn seal(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.memtable.seal(writer);
        }
    }

    /// The error for a frame that is missing where another log goes on.
    pub(super) fn gap(&self, found: Seqno, next: Seqno) -> Error {
        let what = format!("the frame of seqno {next} is missing, and the next log has {found}");
        Error::corruption(&self.path, self.offset, what)
    }
}

/// Space for a frame in a MemTable that grows. `None` if it is full.
fn reserve(
    memtable: &MemTable,
    writer: &mut SegmentWriter,
    bytes: usize,
    count: u32,
    continues: Option<Seqno>,
) -> Option<Reservation> {
    let has_groups = memtable.header().flags & GROUPS != 0;
    loop {
        let reserved = match has_groups {
            true => memtable.reserve_part(writer, bytes, count, continues),
            false => memtable.reserve(writer, bytes, count),
        };
        if reserved.is_some() {
            return reserved;
        }
        let needed = memtable.room_for(writer, bytes, count)?;
        let Room { bytes, entries } = memtable.room();
        let more = Room { bytes: bytes + GROWTH.bytes, entries: entries + GROWTH.entries };
        memtable.grow(more.and(memtable.whole_room()).or(needed));
    }
}

/// Reads a log file a chunk at once.
struct FrameReader {
    file: Arc<dyn ReadableFile>,
    header: SegmentHeader,
    /// What was read last, and where in the file it starts.
    bytes: Vec<u8>,
    at: u64,
}

impl FrameReader {
    /// The frame at `offset` and its entries, if it is valid and before `end`.
    fn frame(&mut self, offset: u64, end: Option<LogEnd>) -> Result<Option<(FrameInfo, &[u8])>> {
        if !self.holds_frame(offset) {
            let limit = match end {
                Some(end) => end.offset,
                None => self.file.len()?.min(self.header.capacity),
            };
            // Most looks at the end of a log find nothing.
            self.read(offset, FRAME_HEADER_BYTES as u64, limit)?;
            let Some(info) = peek_frame(&self.bytes, &self.header) else { return Ok(None) };
            self.read(offset, CHUNK_BYTES.max(info.bytes.into()), limit)?;
        }
        match frame_at(&self.bytes[(offset - self.at) as usize..], &self.header) {
            Ok(found) => Ok(Some(found)),
            Err(_) => {
                // The writer may be writing it, so it is read again.
                self.at = u64::MAX;
                Ok(None)
            }
        }
    }

    /// Whether a whole frame starts at `offset` of the chunk, as its header says.
    fn holds_frame(&self, offset: u64) -> bool {
        let start = offset.checked_sub(self.at).and_then(|start| usize::try_from(start).ok());
        let rest = start.and_then(|start| self.bytes.get(start..)).unwrap_or_default();
        peek_frame(rest, &self.header).is_some_and(|info| info.bytes as usize <= rest.len())
    }

    fn read(&mut self, offset: u64, bytes: u64, limit: u64) -> Result<()> {
        let bytes = bytes.min(limit.saturating_sub(offset)) as usize;
        self.at = offset;
        self.bytes.resize(bytes, 0);
        let read = self.file.read_exact_at(offset, &mut self.bytes);
        read.inspect_err(|_| self.bytes.clear())
    }
}
