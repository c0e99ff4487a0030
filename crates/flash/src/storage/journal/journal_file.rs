//! Writes the journal.

use super::found::{Found, following};
use super::marks::Marks;
use crate::Chunk;
use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use crate::storage::format::{self, Header, JOURNAL_CHUNKS, JournalRecord, journal_bytes};
use esker_base::{Error, Result};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) struct Journal {
    zones: Arc<dyn ChunkDevice>,
    generation: u64,
    /// Which of the journal's chunks is written, and where.
    current: usize,
    at: u64,
    /// The last edit written.
    pub(crate) sequence: u64,
    pub(crate) marks: Arc<Marks>,
    /// The first failure; or that nothing may be written.
    failed: Option<Error>,
    /// Whether its generation is of this process.
    is_begun: bool,
    /// The edit that closed it.
    closed: Option<u64>,
    /// Since it was opened.
    pub(crate) written_bytes: u64,
}

impl Journal {
    /// Goes on after what was found, in a new generation, which begins with the first change, or now on a device that
    /// has none. What was found is the newest: see [`Found::check`].
    pub(crate) fn begin(zones: Arc<dyn ChunkDevice>, found: &Found) -> Result<Self> {
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
    pub(crate) fn rewrite(
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
    pub(crate) fn to_read(zones: Arc<dyn ChunkDevice>, found: &Found) -> Self {
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
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Writes a change. `snapshot` is the directory after it, which is asked for if the chunk is full.
    ///
    /// A change that makes the directory larger is refused as out of space if as much again would not fit behind the
    /// snapshot, as every edit would soon write one. Then nothing was written, and the journal goes on; any other
    /// failure is permanent.
    pub(crate) fn write(
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

    /// Fails unless there is space for a change: behind what was written, or behind a snapshot of the directory `before` it with
    /// as much space again. What is written and finds none gives the journal up.
    pub(crate) fn check_room_for(
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
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.check()?;
        let flushed = self.marks.flush(&*self.zones);
        self.failed = flushed.clone().err();
        flushed
    }

    /// The last edit known to survive power loss.
    pub(crate) fn durable(&self) -> u64 {
        self.marks.durable()
    }

    /// Writes the directory once more, into another chunk, if this process changed it: then no damage to one chunk of the
    /// journal loses it. If there is no chunk for that, the journal is left as it was; after a failed write, as after a crash.
    pub(crate) fn close(&mut self, snapshot: impl FnOnce() -> Vec<JournalRecord>) {
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
    pub(crate) fn current_chunk(&self) -> Chunk {
        self.chunk(self.current)
    }

    fn chunk(&self, place: usize) -> Chunk {
        self.zones.geometry().chunk(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::chunk_device::MemoryChunkDevice;
    use crate::storage::journal::found::find;

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
