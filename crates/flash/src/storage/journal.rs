//! The journal: a snapshot of the directory and the edits since, in one of the device's first
//! chunks.
//!
//! When the chunk is full, and at the first change after an open, the directory is written as a
//! snapshot into another of these chunks, with the next generation. A process that only reads
//! writes nothing.
//!
//! * A chunk is valid if its snapshot is complete. Of several valid chunks, the newest generation
//!   counts.
//! * The previous chunk is kept until the new snapshot is complete. A chunk that a dead process
//!   left incomplete is never appended to.
//! * If damage removes an edit from the end, the chunk itself does not show it. Log records
//!   therefore name the edit that was durable when they were written (`proof`), and a close writes
//!   the directory a second time, as its own generation.
//! * A bad chunk may have contained the newest generation. Each generation therefore records which
//!   of these chunks were bad when it was written. The next generation can only be in the first
//!   following chunk that was not.

use super::chunk_reader::Content;
use super::format::{self, Header, JournalRecord};
use super::replayer;
use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use crate::{Chunk, Geometry};
use esker_base::{Error, Result};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Chunks that hold nothing but the journal, one of them at a time: more than two, as some go bad.
pub(crate) const JOURNAL_CHUNKS: usize = 4;

/// How much of one is written at the most: every open reads it.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// How far an open looks for edits behind one that is not whole.
const LOOKED_BEHIND_BYTES: u64 = 8 << 20;

pub(super) struct Journal {
    zones: Arc<dyn ChunkDevice>,
    generation: u64,
    /// Which of the journal's chunks is written, and where.
    current: usize,
    at: u64,
    /// The last edit written.
    pub(super) sequence: u64,
    pub(super) marks: Arc<Marks>,
    /// The first failure; or that nothing may be written.
    failed: Option<Error>,
    /// Whether its generation is of this process.
    is_begun: bool,
    /// The edit that closed it.
    closed: Option<u64>,
    /// Since it was opened.
    pub(super) written_bytes: u64,
}

/// How far the journal was written, known without its lock.
#[derive(Default)]
pub(super) struct Marks {
    /// The last whole edit written, and the last known durable.
    written: AtomicU64,
    durable: AtomicU64,
    /// Whether records of logs may name edits.
    is_named: AtomicBool,
}

impl Marks {
    /// The edit that a log's record is to name.
    pub(super) fn named(&self) -> Option<u64> {
        self.is_named.load(Ordering::Acquire).then(|| self.durable())
    }

    /// Makes all that was written on a device survive power loss.
    pub(super) fn flush(&self, zones: &dyn ChunkDevice) -> Result<()> {
        let written = self.written.load(Ordering::Acquire);
        zones.flush()?;
        self.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }
}

/// How much of one of its chunks is written.
pub(super) fn journal_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.chunk_bytes).min(JOURNAL_BYTES_MAX)
}

/// What a device was found to hold.
pub(super) struct Found {
    generation: u64,
    current: Option<usize>,
    /// Which of the journal's chunks it knows to be bad.
    bad: u16,
    sequence: u64,
    /// Where its last edit ends in its chunk.
    end: u64,
    version: u32,
    /// Why there may have been a newer one.
    pub(super) doubt: Option<String>,
    /// All changes that lead to the directory as it is.
    pub(super) ops: Vec<JournalRecord>,
}

impl Found {
    /// Refuses to write to a device whose newest state may have been lost.
    pub(super) fn check(&self, zones: &dyn ChunkDevice) -> Result<()> {
        let Some(doubt) = &self.doubt else { return Ok(()) };
        let what = format!(
            "{doubt}; nothing was changed. Restore a copy to another device, or run `esker flash repair`"
        );
        Err(Error::io("use", zones.describe(), io::Error::other(what)))
    }
}

/// Reads the journal of a device. Changes nothing.
pub(super) fn find(zones: &dyn ChunkDevice) -> Result<Found> {
    let geometry = zones.geometry();
    let mut found = Found::nothing();
    let (mut has_header, mut has_other) = (false, false);
    // Chunks that may have had something newer.
    let mut suspects = Vec::new();
    for place in 0..JOURNAL_CHUNKS {
        let chunk = geometry.chunk(place);
        let mut content = Content::of(zones, chunk)?;
        if content.written == 0 || zones.is_bad(chunk) {
            continue;
        }
        let has_more = content.written > BLOCK_BYTES;
        let first = content.from(0, BLOCK_BYTES as usize)?;
        let first = &first[..first.len().min(BLOCK_BYTES as usize)];
        let is_cut_off = first.is_empty() && !has_more;
        let version = if first.is_empty() { 0 } else { format::version_of(first) };
        let header = format::check_header(first, &geometry);
        let header = header.map_err(|what| Error::corruption(zones.describe(), 0, what))?;
        let Some(Header { generation, bad }) = header else {
            has_other |= !is_cut_off && !zones.is_read_only(chunk);
            suspects.push((place, 0));
            continue;
        };
        has_header = true;
        match edits(&mut content)? {
            Some(Edits { sequence, end, ops }) if generation > found.generation => {
                let current = Some(place);
                let doubt = None;
                found = Found { generation, current, bad, sequence, end, version, doubt, ops };
            }
            Some(_) => {}
            None => suspects.push((place, generation)),
        }
    }
    if let Some(current) = found.current {
        found.doubt = doubt(zones, current, found.bad);
        suspects.retain(|(_, generation)| *generation == 0 || *generation > found.generation);
        if found.doubt.is_none() {
            found.doubt = damage(zones, &found, current, &suspects)?;
        }
    } else if has_other || !is_empty(zones, has_header)? {
        let what = "it holds data that is not Esker's, or whose journal is lost; nothing was changed. \
                    Empty it, or choose another";
        let source = io::Error::new(ErrorKind::InvalidData, what);
        return Err(Error::io("use", zones.describe(), source));
    }
    Ok(found)
}

/// Why the generation after the one that was found may have been lost.
fn doubt(zones: &dyn ChunkDevice, current: usize, bad: u16) -> Option<String> {
    for place in following(current) {
        let chunk = zones.geometry().chunk(place);
        let is_known = bad & 1 << place != 0;
        if zones.is_bad(chunk) && !is_known {
            return Some(format!(
                "chunk {place} has gone bad, which may have had the newest journal, and the one before does not \
                 know its files"
            ));
        }
        if !zones.is_bad(chunk) && !zones.is_read_only(chunk) {
            break;
        }
    }
    None
}

/// Where the next generation is written: the first of these that can be.
fn following(current: usize) -> impl Iterator<Item = usize> {
    (1..JOURNAL_CHUNKS).map(move |step| (current + step) % JOURNAL_CHUNKS)
}

/// Whether nothing but, perhaps, a journal was ever written into what can be emptied.
fn is_empty(zones: &dyn ChunkDevice, has_header: bool) -> Result<bool> {
    let geometry = zones.geometry();
    let first = if has_header { JOURNAL_CHUNKS } else { 0 };
    for chunk in (first..geometry.chunks()).map(|index| geometry.chunk(index)) {
        if zones.written(chunk)? > 0 && !zones.is_read_only(chunk) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The journal's chunks, in the order in which they can be emptied one after the other: what is left is never an older
/// directory without the newer one. What can't be read may be the newest.
pub(crate) fn from_the_oldest(zones: &dyn ChunkDevice) -> Vec<Chunk> {
    let geometry = zones.geometry();
    let generation = |chunk: &Chunk| -> Result<u64> {
        let mut content = Content::of(zones, *chunk)?;
        let block = content.from(0, BLOCK_BYTES as usize)?.get(..BLOCK_BYTES as usize);
        let header = block.and_then(|block| format::check_header(block, &geometry).ok()?);
        Ok(header.map_or(0, |header| header.generation))
    };
    let mut chunks: Vec<Chunk> = (0..JOURNAL_CHUNKS).map(|place| geometry.chunk(place)).collect();
    chunks.sort_by_key(|chunk| generation(chunk).unwrap_or(u64::MAX));
    chunks
}

impl Found {
    fn nothing() -> Self {
        let (generation, sequence, end, version) = (0, 0, 0, 0);
        let (current, bad, doubt, ops) = Default::default();
        Found { generation, current, bad, sequence, end, version, doubt, ops }
    }

    /// What a repair has found, which is to be written behind the chunk `current`.
    pub(super) fn mended(generation: u64, current: usize, sequence: u64) -> Self {
        let current = Some(current);
        Found { generation, current, sequence, ..Found::nothing() }
    }

    /// The last edit.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Edits up to this one were lost: the next one follows it.
    pub(super) fn skip_to(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Whether nothing was ever written.
    pub(super) fn is_new(&self) -> bool {
        self.current.is_none()
    }
}

/// Why the newest edit may have been lost, other than by a power loss. One that power loss cut off was never durable: no edit
/// behind it says so, and of a single block nothing is left or all.
fn damage(
    zones: &dyn ChunkDevice,
    found: &Found,
    current: usize,
    suspects: &[(usize, u64)],
) -> Result<Option<String>> {
    let last = found.sequence;
    let places = suspects.iter().map(|(place, _)| (*place, 0));
    for (place, from) in [(current, found.end)].into_iter().chain(places) {
        let mut content = Content::of(zones, zones.geometry().chunk(place))?;
        // Of a snapshot that is being written, power loss may leave all but the header.
        let first = content.from(0, BLOCK_BYTES as usize)?;
        let has_header = first.iter().take(BLOCK_BYTES as usize).any(|byte| *byte != 0);
        for (at, edit) in scan(&mut content, from, LOOKED_BEHIND_BYTES)? {
            let is_proof = edit.durable.is_some_and(|durable| durable > last);
            // A close writes the directory that was found once more: then nothing newer is lost.
            let is_newer_snapshot = place != current
                && has_header
                && at == BLOCK_BYTES
                && edit.sequence > last
                && !replayer::is_same(&zones.geometry(), &found.ops, &edit.ops);
            if is_proof || is_newer_snapshot {
                return Ok(Some(format!(
                    "an edit of the journal behind edit {last}, which was durable, is not what was written: edit {} is, at \
                     byte {at} of chunk {place}",
                    edit.sequence
                )));
            }
        }
        if place == current && is_damaged_edit(&mut content, found)? {
            let at = found.end;
            return Ok(Some(format!(
                "edit {} of the journal, at byte {at} of chunk {place}, is not what was written",
                last + 1
            )));
        }
    }
    Ok(None)
}

/// Whether what lies behind the last whole edit is one of a single block, which a power loss leaves whole or not at all. What
/// does not look like one may be somebody else's.
fn is_damaged_edit(content: &mut Content<'_>, found: &Found) -> Result<bool> {
    let block = content.from(found.end, BLOCK_BYTES as usize)?;
    let block = &block[..block.len().min(BLOCK_BYTES as usize)];
    let is_long = format::edit_bytes(block, found.sequence + 1)
        .is_some_and(|bytes| bytes > BLOCK_BYTES as usize);
    Ok(block.len() == BLOCK_BYTES as usize
        && format::resembles_edit(block, found.sequence + 1)
        && !is_long)
}

/// A complete edit, and its location.
pub(super) struct WholeEdit {
    pub(super) sequence: u64,
    /// The last edit that was durable when this was written, if it says so.
    pub(super) durable: Option<u64>,
    pub(super) ops: Vec<JournalRecord>,
}

/// The whole edits in a chunk, from the block at `from` on, and where they begin. Looks at `most` bytes.
pub(super) fn scan(
    content: &mut Content<'_>,
    from: u64,
    most: u64,
) -> Result<Vec<(u64, WholeEdit)>> {
    let (mut at, mut edits) = (from, Vec::new());
    while at < content.written && at < from.saturating_add(most) {
        let head = content.from(at, BLOCK_BYTES as usize)?;
        let mut taken = BLOCK_BYTES;
        if let Some(sequence) = format::sequence_of(head)
            && let Some(len) = format::edit_bytes(head, sequence)
            && at + len as u64 <= content.written
        {
            let bytes = content.from(at, len)?;
            let durable = format::durable_before(bytes, sequence);
            if let Some((ops, whole)) = format::decode_edit(bytes, sequence) {
                edits.push((at, WholeEdit { sequence, durable, ops }));
                taken = whole as u64;
            }
        }
        at += taken;
    }
    Ok(edits)
}

/// The edits of a chunk without a gap: the changes, the number of the last one, and where it ends.
struct Edits {
    sequence: u64,
    end: u64,
    ops: Vec<JournalRecord>,
}

/// The edits in a chunk up to the first that is not whole. `None` without a whole snapshot.
fn edits(content: &mut Content<'_>) -> Result<Option<Edits>> {
    let block = BLOCK_BYTES as usize;
    let mut at = BLOCK_BYTES;
    let Some(first) = content.from(at, block)?.get(..block) else { return Ok(None) };
    let Some(mut sequence) = format::sequence_of(first) else { return Ok(None) };
    let Some((mut ops, taken)) = edit(content, at, sequence)? else { return Ok(None) };
    at += taken as u64;
    while let Some((more, taken)) = edit(content, at, sequence + 1)? {
        ops.extend(more);
        sequence += 1;
        at += taken as u64;
    }
    Ok(Some(Edits { sequence, end: at, ops }))
}

/// The edit of this sequence number at a place in a chunk, and the bytes that it takes. `None` if it is not whole.
fn edit(
    content: &mut Content<'_>,
    at: u64,
    sequence: u64,
) -> Result<Option<(Vec<JournalRecord>, usize)>> {
    let Some(len) = format::edit_bytes(content.from(at, BLOCK_BYTES as usize)?, sequence) else {
        return Ok(None);
    };
    Ok(format::decode_edit(content.from(at, len)?, sequence))
}

impl Journal {
    /// Goes on after what was found, in a new generation, which begins with the first change, or now on a device that
    /// has none. What was found is the newest: see [`Found::check`].
    pub(super) fn begin(zones: Arc<dyn ChunkDevice>, found: &Found) -> Result<Self> {
        // What a process before this one wrote may be in the device's cache still.
        zones.flush()?;
        let mut journal = Journal::after(zones, found);
        if found.current.is_none() {
            let edit = journal.snapshot_edit(&[], journal.chunk_bytes())?;
            journal.turn(&edit)?;
        }
        Ok(journal)
    }

    /// Writes a snapshot as the generation after what was found.
    pub(super) fn rewrite(
        zones: Arc<dyn ChunkDevice>,
        found: &Found,
        snapshot: &[JournalRecord],
    ) -> Result<()> {
        zones.flush()?;
        let mut journal = Journal::after(zones, found);
        let edit = journal.snapshot_edit(snapshot, journal.chunk_bytes())?;
        journal.turn(&edit)
    }

    /// What was found, to be read only: every change is refused.
    pub(super) fn to_read(zones: Arc<dyn ChunkDevice>, found: &Found) -> Self {
        let source = io::Error::new(ErrorKind::ReadOnlyFilesystem, "it was opened to be read");
        let refusal = Error::io("write to", zones.describe(), source);
        Journal { failed: Some(refusal), ..Journal::after(zones, found) }
    }

    fn after(zones: Arc<dyn ChunkDevice>, found: &Found) -> Self {
        let &Found { generation, sequence, .. } = found;
        let current = found.current.unwrap_or(JOURNAL_CHUNKS - 1);
        // What is written next has to be a snapshot.
        let at = journal_bytes(&zones.geometry());
        let marks = Arc::new(Marks {
            written: sequence.into(),
            durable: sequence.into(),
            is_named: (found.version >= format::NAMING_VERSION).into(),
        });
        let (failed, is_begun, closed, written_bytes) = (None, false, None, 0);
        Journal {
            zones,
            generation,
            current,
            at,
            sequence,
            marks,
            failed,
            is_begun,
            closed,
            written_bytes,
        }
    }

    /// Fails if it can't be written any more.
    pub(super) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Writes a change. `snapshot` is the directory after it, which is asked for if the chunk is full.
    ///
    /// A change that makes the directory larger is refused as out of space if as much again would not fit behind the
    /// snapshot, as every edit would soon write one. Then nothing was written, and the journal goes on; any other
    /// failure is for good.
    pub(super) fn write(
        &mut self,
        ops: &[JournalRecord],
        snapshot: impl FnOnce() -> Vec<JournalRecord>,
    ) -> Result<()> {
        self.check()?;
        let bytes = format::encode_edit(self.sequence + 1, self.durable(), ops);
        let written = if self.at + bytes.len() as u64 <= self.chunk_bytes() {
            let written = self.zones.write(self.chunk(self.current), self.at, &bytes);
            self.at += bytes.len() as u64;
            self.written_bytes += bytes.len() as u64;
            self.sequence += 1;
            if written.is_ok() {
                self.marks.written.store(self.sequence, Ordering::Release);
            }
            written
        } else if ops
            .iter()
            .any(|op| matches!(op, JournalRecord::Create(_) | JournalRecord::Extend(..)))
        {
            // The caller may have parts of the change still: what is written next has to be a snapshot.
            self.at = self.chunk_bytes();
            // What a process before this one had may fill a chunk: it goes on where that did.
            let most = if self.is_begun { self.chunk_bytes() / 2 } else { self.chunk_bytes() };
            let edit = self.snapshot_edit(&snapshot(), most)?;
            self.turn(&edit)
        } else {
            let edit = self.snapshot_edit(&snapshot(), self.chunk_bytes());
            edit.and_then(|edit| self.turn(&edit))
        };
        self.failed = written.clone().err();
        written
    }

    /// Fails unless there is room for a change: behind what was written, or behind a snapshot of the directory `before` it with
    /// as much room again. What is written and finds none gives the journal up.
    pub(super) fn check_room_for(
        &self,
        ops: &[JournalRecord],
        before: impl FnOnce() -> Vec<JournalRecord>,
    ) -> Result<()> {
        let bytes_of = |ops: &[JournalRecord]| {
            format::encode_edit(self.sequence + 1, self.durable(), ops).len() as u64
        };
        let bytes = bytes_of(ops);
        let has_room = self.at + bytes <= self.chunk_bytes()
            || BLOCK_BYTES + bytes_of(&before()) + bytes <= self.chunk_bytes() / 2;
        if has_room { Ok(()) } else { Err(self.full()) }
    }

    /// Makes all that was written on the device survive power loss.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.check()?;
        let flushed = self.marks.flush(&*self.zones);
        self.failed = flushed.clone().err();
        flushed
    }

    /// The last edit known to survive power loss.
    pub(super) fn durable(&self) -> u64 {
        self.marks.durable()
    }

    /// Writes the directory once more, into another chunk, if this process changed it: then no damage to one chunk of the
    /// journal loses it. If there is no chunk for that, the journal is left as it was; after a failed write, as after a crash.
    pub(super) fn close(&mut self, snapshot: impl FnOnce() -> Vec<JournalRecord>) {
        if !self.is_begun || self.closed == Some(self.sequence) || self.flush().is_err() {
            return;
        }
        let Ok(place) = self.next_place() else { return };
        if let Ok(edit) = self.snapshot_edit(&snapshot(), self.chunk_bytes()) {
            self.failed = self.begin_in(place, &edit).err();
            self.closed = Some(self.sequence);
        }
    }

    /// A snapshot, as an edit. Refused if a chunk that begins with it has more bytes than `most`.
    fn snapshot_edit(&self, snapshot: &[JournalRecord], most: u64) -> Result<Vec<u8>> {
        let mut edit = format::encode_edit(self.sequence + 1, self.durable(), snapshot);
        if BLOCK_BYTES + edit.len() as u64 > most
            && most == self.chunk_bytes()
            && let Some((JournalRecord::Resets(_), names)) = snapshot.split_last()
        {
            // What names there are must be kept: they are worth more than how often chunks were reset.
            edit = format::encode_edit(self.sequence + 1, self.durable(), names);
        }
        if BLOCK_BYTES + edit.len() as u64 > most {
            return Err(self.full());
        }
        Ok(edit)
    }

    fn full(&self) -> Error {
        let kind = ErrorKind::StorageFull;
        Error::io("keep so many names on", self.zones.describe(), kind.into())
    }

    /// Writes a snapshot into another chunk, and goes on there.
    fn turn(&mut self, snapshot: &[u8]) -> Result<()> {
        let place = self.next_place()?;
        self.begin_in(place, snapshot)
    }

    /// An empty chunk for the next generation.
    fn next_place(&mut self) -> Result<usize> {
        for place in following(self.current) {
            let chunk = self.chunk(place);
            let is_usable = !self.zones.is_bad(chunk)
                && (self.zones.written(chunk)? == 0 || self.zones.reset(chunk).is_ok());
            if !is_usable || self.zones.written(chunk)? > 0 {
                continue;
            }
            // What the chunk before has is kept, and is not gone on with.
            for other in following(place) {
                let other_chunk = self.chunk(other);
                if self.zones.active().contains(&other_chunk) {
                    if other == self.current {
                        self.at = self.chunk_bytes();
                    }
                    self.zones.finish(other_chunk)?;
                }
            }
            return Ok(place);
        }
        let source = io::Error::other("all chunks for it have gone bad; copy the files to another");
        Err(Error::io("write the journal of", self.zones.describe(), source))
    }

    /// Writes a snapshot as the next generation, into an empty chunk.
    fn begin_in(&mut self, place: usize, snapshot: &[u8]) -> Result<()> {
        let header = Header { generation: self.generation + 1, bad: self.bad() };
        let mut bytes = format::header(&self.zones.geometry(), header);
        bytes.extend_from_slice(snapshot);
        self.zones.write(self.chunk(place), 0, &bytes)?;
        self.written_bytes += bytes.len() as u64;
        self.zones.flush()?;
        self.generation += 1;
        self.sequence += 1;
        self.is_begun = true;
        (self.current, self.at) = (place, bytes.len() as u64);
        let marks = &self.marks;
        marks.written.store(self.sequence, Ordering::Release);
        marks.durable.store(self.sequence, Ordering::Release);
        marks.is_named.store(true, Ordering::Release);
        Ok(())
    }

    /// Which of the journal's chunks are bad, a bit each.
    fn bad(&self) -> u16 {
        let is_bad = |place: &usize| self.zones.is_bad(self.chunk(*place));
        (0..JOURNAL_CHUNKS).filter(is_bad).map(|place| 1 << place).sum()
    }

    /// How much of a chunk is written.
    fn chunk_bytes(&self) -> u64 {
        journal_bytes(&self.zones.geometry())
    }

    /// The chunk that is written.
    pub(super) fn current_chunk(&self) -> Chunk {
        self.chunk(self.current)
    }

    fn chunk(&self, place: usize) -> Chunk {
        self.zones.geometry().chunk(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk_device::MemoryChunkDevice;

    #[test]
    fn an_edit_is_not_durable_after_a_flush_that_failed() {
        let zones = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 8, 32 << 10));
        let found = find(&zones).unwrap();
        let mut journal = Journal::begin(Arc::new(zones.clone()), &found).unwrap();
        journal.write(&[JournalRecord::Remove("a".to_owned())], Vec::new).unwrap();
        zones.fail_after(1);
        journal.flush().unwrap_err();
        zones.fail_after(u64::MAX);
        assert!(journal.durable() < journal.sequence);
        journal.flush().unwrap_err();
    }

    #[test]
    fn a_close_without_a_chunk_for_the_directory_leaves_the_journal_as_it_was() {
        let zones = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 8, 32 << 10));
        let found = find(&zones).unwrap();
        let mut journal = Journal::begin(Arc::new(zones.clone()), &found).unwrap();
        let others = following(journal.current).map(|place| zones.geometry().chunk(place));
        others.for_each(|chunk| zones.break_chunk(chunk));
        for name in ["a", "b"] {
            journal.write(&[JournalRecord::Remove(name.to_owned())], Vec::new).unwrap();
            journal.close(Vec::new);
            journal.check().unwrap();
        }
        assert_eq!(find(&zones).unwrap().sequence, journal.sequence);
    }
}
