//! Copies frames out of MemTables and kept logs, a chunk at once.
//!
//! A chunk is whole frames in a row. It is a copy, so a reader holds neither the memory of a MemTable
//! nor a file that is to be used again. Frames of a MemTable are copied up to what is visible. A kept log is
//! read up to its recorded end; all of it was visible and durable before it was kept.

use crate::engine::Engine;
use crate::log::ingest_mark::IngestMark;
use crate::log::wal_files::log_file_name;
use crate::log::wal_reader::WalHandle;
use crate::manifest::feed_changes::KeptLog;
use crate::manifest::version_edit::LogEnd;
use esker_base::{ChangesError, Entry, Error, Result, Seqno};
use esker_memtable::{LogPosition, MemTable, SegmentHeader, frame_at, peek_frame};
use esker_storage::ReadableFile;
use std::sync::Arc;

/// About the length of a chunk in bytes. A frame may be longer.
const CHUNK_BYTES: usize = 256 << 10;

/// Frames in a row.
pub(super) struct Chunk {
    pub(super) bytes: Arc<Vec<u8>>,
    /// Where the next frame starts.
    at: usize,
    header: SegmentHeader,
    /// The seqno after its last frame.
    pub(super) next_seqno: Seqno,
    /// For messages: the file, and where in it the chunk starts.
    place: (String, u64),
    /// The epoch of the kept log that it was read from. `None`: it was copied from a MemTable.
    kept: Option<u32>,
}

/// A frame that was read from a chunk.
pub(super) struct Frame {
    pub(super) first_seqno: Seqno,
    pub(super) count: u32,
    pub(super) continues: bool,
    /// Where its entries are in the chunk.
    pub(super) entries: std::ops::Range<usize>,
}

impl Chunk {
    /// The next frame, which must start with the seqno `expected`.
    pub(super) fn next_frame(&mut self, expected: Seqno) -> Result<Option<Frame>> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let (info, entries) = frame_at(rest, &self.header).map_err(|what| self.damage(what))?;
        if info.first_seqno != expected {
            let found = info.first_seqno;
            return Err(self.damage(format!("a frame starts at seqno {found}, not at {expected}")));
        }
        let start = self.at + esker_memtable::FRAME_HEADER_BYTES;
        let entries = start..start + entries.len();
        self.at += info.bytes as usize;
        let (first_seqno, count, continues) = (info.first_seqno, info.count, info.continues);
        Ok(Some(Frame { first_seqno, count, continues, entries }))
    }

    /// Whether its log is not kept any more. Then its file was perhaps used again while it was read.
    pub(super) fn is_gone(&self, engine: &Engine) -> bool {
        self.kept.is_some_and(|epoch| is_released(engine, epoch))
    }

    /// The frames from the seqno `from` on, with which a batch starts, as a piece of the log of `epoch`. `None` if all are before it.
    pub(super) fn into_piece(mut self, epoch: u32, from: Seqno) -> Result<Option<LogPiece>> {
        let (mut start, mut ends, mut ingests) = (0, Vec::new(), Vec::new());
        let (mut first, mut next) = (None, None);
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            let (frame, mut entries) =
                frame_at(rest, &self.header).map_err(|what| self.damage(what))?;
            let expected = next.unwrap_or(frame.first_seqno);
            if frame.first_seqno != expected || first.is_none() && frame.first_seqno > from {
                let found = frame.first_seqno;
                return Err(
                    self.damage(format!("a frame starts at seqno {found}, not at {expected}"))
                );
            }
            next = Some(frame.next_seqno());
            if frame.next_seqno() > from {
                first = first.or(Some(frame.first_seqno));
                let entry = Entry::decode(&mut entries);
                let mark = entry.and_then(|entry| IngestMark::of(&entry, frame.count));
                ingests.extend(mark.map(|_| frame.first_seqno));
            }
            self.at += frame.bytes as usize;
            if first.is_none() {
                start = self.at;
            } else if !frame.continues {
                ends.push((self.place.1 + self.at as u64, frame.next_seqno() - 1));
            }
        }
        let Some(first_seqno) = first else { return Ok(None) };
        Ok(Some(LogPiece {
            epoch,
            header: self.header.encode().to_vec(),
            offset: self.place.1 + start as u64,
            bytes: self.bytes[start..].to_vec(),
            ends,
            first_seqno,
            last_seqno: next.map_or(first_seqno, |next| next - 1),
            ingests,
        }))
    }

    fn damage(&self, what: String) -> Error {
        Error::corruption(&self.place.0, self.place.1 + self.at as u64, what)
    }
}

/// Whole frames of one segment of the log, in a row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogPiece {
    /// The epoch of the segment.
    pub epoch: u32,
    /// The header of the segment, as it is stored.
    pub header: Vec<u8>,
    /// Where the frames start in the segment, in bytes.
    pub offset: u64,
    /// The frames.
    pub bytes: Vec<u8>,
    /// The ends of batches among the frames: the offset in the segment, and the last sequence number.
    pub ends: Vec<(u64, Seqno)>,
    /// The sequence number of the first entry.
    pub first_seqno: Seqno,
    /// The sequence number of the last entry.
    pub last_seqno: Seqno,
    /// The sequence numbers of ingests. Their tables are not in the log.
    pub ingests: Vec<Seqno>,
}

/// Where a reader is in a source of frames.
pub(super) enum Cursor {
    Memory(InMemory),
    File(InFile),
}

pub(super) struct InMemory {
    epoch: u32,
    /// Where the next chunk starts.
    offset: u64,
    /// The frames before this were seen complete.
    complete: LogPosition,
}

pub(super) struct InFile {
    epoch: u32,
    file: Arc<dyn ReadableFile>,
    header: SegmentHeader,
    path: String,
    offset: u64,
    end: LogEnd,
}

/// Where frames come from next.
pub(super) enum Source {
    Memory { memtable: Arc<MemTable>, begins_in_batch: bool },
    File { epoch: u32, log: KeptLog },
}

impl Source {
    /// The source of the entry `seqno`, which is visible. `None` if it is gone.
    pub(super) fn of(engine: &Engine, seqno: Seqno) -> Result<Option<Source>> {
        // A MemTable that is not there any more was flushed before the manifest is looked at.
        let view = engine.tree.view.load();
        let has = |memtable: &Arc<MemTable>| {
            let first = memtable.first_seqno();
            first > 0 && (first..=memtable.last_seqno()).contains(&seqno)
        };
        if let Some(at) = view.memtables.iter().position(has) {
            let before = view.memtables.get(at + 1);
            let begins_in_batch = before.is_some_and(|before| before.ends_in_batch());
            return Ok(Some(Source::Memory {
                memtable: view.memtables[at].clone(),
                begins_in_batch,
            }));
        }
        engine.tree.check_usable()?;
        let kept = engine.tree.installer.feed(|feed| feed.log_with(seqno));
        Ok(kept.map(|(epoch, log)| Source::File { epoch, log }))
    }

    pub(super) fn first_seqno(&self) -> Seqno {
        match self {
            Source::Memory { memtable, .. } => memtable.first_seqno(),
            Source::File { log, .. } => log.first_seqno,
        }
    }

    pub(super) fn begins_in_batch(&self) -> bool {
        match self {
            Source::Memory { begins_in_batch, .. } => *begins_in_batch,
            Source::File { log, .. } => log.begins_in_batch,
        }
    }

    pub(super) fn epoch(&self) -> u32 {
        match self {
            Source::Memory { memtable, .. } => memtable.epoch(),
            Source::File { epoch, .. } => *epoch,
        }
    }

    /// Whether the log was let go, so that its file may have others' content.
    pub(super) fn is_gone(&self, engine: &Engine) -> bool {
        match self {
            Source::Memory { .. } => false,
            Source::File { epoch, .. } => is_released(engine, *epoch),
        }
    }

    /// A cursor before the first frame of the source.
    pub(super) fn cursor(&self, engine: &Engine) -> Result<Cursor> {
        Ok(match self {
            Source::Memory { memtable, .. } => {
                let start = memtable.start();
                let (epoch, offset) = (memtable.epoch(), start.offset());
                Cursor::Memory(InMemory { epoch, offset, complete: start })
            }
            Source::File { epoch, log } => {
                let storage = engine.tree.log_files.as_ref();
                let opened = storage.map(|storage| WalHandle::of(&**storage, *epoch));
                let handle = opened.unwrap_or_else(|| Err(gone(engine, None, log.first_seqno)))?;
                let (header, path) = (handle.header, handle.path.clone());
                let offset = header.first_frame_offset();
                let (file, epoch, end) = (handle.into_file(), *epoch, log.end);
                Cursor::File(InFile { epoch, file, header, path, offset, end })
            }
        })
    }
}

impl Cursor {
    /// Whether the cursor is in `source`.
    pub(super) fn is_in(&self, source: &Source) -> bool {
        match (self, source) {
            (Cursor::Memory(cursor), Source::Memory { .. }) => cursor.epoch == source.epoch(),
            (Cursor::File(cursor), Source::File { .. }) => cursor.epoch == source.epoch(),
            _ => false,
        }
    }

    /// The next chunk of `source`, which has a visible frame after the cursor: frames up to the seqno `limit`. Frames that
    /// end before the seqno `from` and are no part of a larger batch are passed over.
    pub(super) fn chunk(
        &mut self,
        source: &Source,
        limit: Seqno,
        skip_before: Option<Seqno>,
    ) -> Result<(Chunk, u64)> {
        match (self, source) {
            (Cursor::Memory(cursor), Source::Memory { memtable, .. }) => {
                cursor.chunk(memtable, limit, skip_before)
            }
            (Cursor::File(cursor), _) => cursor.chunk(),
            _ => unreachable!("the cursor is in the source"),
        }
    }
}

impl InMemory {
    fn chunk(
        &mut self,
        memtable: &MemTable,
        limit: Seqno,
        skip_before: Option<Seqno>,
    ) -> Result<(Chunk, u64)> {
        self.complete = memtable.completed(self.complete);
        let start = memtable.start();
        let bytes = memtable.bytes(start, self.complete);
        let mut rest = &bytes[(self.offset - start.offset()) as usize..];
        let header = *memtable.header();
        let mut skipped = 0;
        while let Some(frame) = skip_before.and_then(|_| peek_frame(rest, &header)) {
            if frame.continues || Some(frame.next_seqno()) > skip_before {
                break;
            }
            skipped += u64::from(frame.count);
            self.offset += u64::from(frame.bytes);
            rest = rest.get(frame.bytes as usize..).unwrap_or_default();
        }
        let (mut end, mut next_seqno) = (0, 0);
        while end < CHUNK_BYTES
            && let Some(frame) = peek_frame(&rest[end..], &header)
            && frame.next_seqno() - 1 <= limit
            && end + frame.bytes as usize <= rest.len()
        {
            end += frame.bytes as usize;
            next_seqno = frame.next_seqno();
        }
        let place = (log_file_name(self.epoch), self.offset);
        if end == 0 {
            return Err(Error::corruption(place.0, place.1, "no frame is here in memory"));
        }
        self.offset += end as u64;
        let bytes = Arc::new(rest[..end].to_vec());
        Ok((Chunk { bytes, at: 0, header, next_seqno, place, kept: None }, skipped))
    }
}

impl InFile {
    fn chunk(&mut self) -> Result<(Chunk, u64)> {
        let place = (self.path.clone(), self.offset);
        let left = self.end.offset.saturating_sub(self.offset) as usize;
        let mut bytes = vec![0; CHUNK_BYTES.min(left)];
        self.file.read_exact_at(self.offset, &mut bytes)?;
        let (mut end, mut next_seqno) = (0, 0);
        while let Some(frame) = peek_frame(&bytes[end..], &self.header) {
            let whole = end + frame.bytes as usize;
            if whole > bytes.len() && end == 0 && whole <= left {
                bytes.resize(whole, 0);
                self.file.read_exact_at(self.offset, &mut bytes)?;
            } else if whole > bytes.len() {
                break;
            }
            end = whole;
            next_seqno = frame.next_seqno();
        }
        if end == 0 {
            return Err(Error::corruption(place.0, place.1, "no frame starts here"));
        }
        bytes.truncate(end);
        self.offset += end as u64;
        let (bytes, header, kept) = (Arc::new(bytes), self.header, Some(self.epoch));
        Ok((Chunk { bytes, at: 0, header, next_seqno, place, kept }, 0))
    }
}

fn is_released(engine: &Engine, epoch: u32) -> bool {
    !engine.tree.installer.feed(|feed| feed.kept.contains_key(&epoch))
}

/// Fails if another process writes the database and this one follows it.
pub(super) fn refuse_follower(engine: &Engine, what: &str) -> Result<()> {
    let reason = "a follower does not read it; open the database for reading";
    match engine.tree.follows {
        None => Ok(()),
        Some(_) => Err(ChangesError::NotKept { what: what.to_owned(), reason }.into()),
    }
}

/// The error for changes that no log has any more.
pub(super) fn gone(engine: &Engine, consumer: Option<&str>, wanted: Seqno) -> Error {
    let consumer = consumer.map(str::to_owned);
    ChangesError::Gone { consumer, wanted, oldest: oldest(engine) }.into()
}

/// The oldest seqno that can be read, or the next one that a write gets.
pub(crate) fn oldest(engine: &Engine) -> Seqno {
    loop {
        let view = engine.tree.view.load();
        let flushed = view.version.flushed_through;
        let kept =
            engine.tree.installer.feed(|feed| feed.kept.values().next().map(|log| log.first_seqno));
        let now = engine.tree.view.load();
        if now.version.flushed_through != flushed {
            continue;
        }
        let memtables = view.memtables.iter().filter(|memtable| memtable.first_seqno() > 0);
        let in_memory = memtables.map(|memtable| memtable.first_seqno()).min();
        return kept.or(in_memory).unwrap_or(engine.visible() + 1);
    }
}
