//! Checkpoints: what recovery starts from.

use super::{Partition, Purpose};
use crate::format::journal::{Checkpoint, HEADER_BYTES, encode_mark, put_change};
use crate::format::superblock::Layout;
use esker_uring::Buffer;

/// Room for a checkpoint's lists: windows and what is left of earlier ones, and late records.
const LISTS_BYTES_MAX: u64 = (1024 + 512) * 8 + 1024 * 12;

/// Where a partition's journal is.
#[derive(Clone, Default, Debug)]
pub(crate) struct Journal {
    /// The half that is being appended to.
    pub half: u32,
    /// Its bytes that are written.
    pub used: u64,
    /// The last checkpoint's number.
    pub epoch: u64,
    /// That of the snapshot which begins the half.
    pub generation: u64,
    /// What has changed since the last checkpoint.
    pub changes: Vec<u8>,
}

impl Journal {
    /// The most bytes of a snapshot's entries.
    pub fn entry_bytes_max(&self, layout: &Layout) -> u64 {
        let block_bytes = u64::from(layout.block_bytes);
        layout.half_bytes - (HEADER_BYTES as u64 + LISTS_BYTES_MAX).next_multiple_of(block_bytes)
    }
}

/// A checkpoint on its way.
#[derive(Debug)]
pub(super) struct Underway {
    state: State,
    /// Its bytes, until they are written.
    bytes: Option<Buffer>,
    /// Where the journal will be.
    next: Journal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// What it says is not all safe: a sync comes before it is written.
    Held,
    /// That sync is under way.
    Cleaning,
    Writing,
    Written,
    Syncing,
}

impl Underway {
    pub fn waits_for_sync(&self) -> bool {
        matches!(self.state, State::Held | State::Written)
    }

    /// A sync begins, which covers what it says, or itself if it is written.
    pub fn sync_begins(&mut self) {
        self.state = match self.state {
            State::Held => State::Cleaning,
            State::Written => State::Syncing,
            other => other,
        };
    }
}

impl Partition {
    /// Begins a checkpoint of what is known now. None must be under way.
    pub(crate) fn begin_checkpoint(&mut self) {
        let oldest_read = self.reads.first_key_value().map_or(self.next_read, |(&read, _)| read);
        let windows = self.space.begin_window(oldest_read, self.next_read);
        let late = self.changes.iter().map(|(&seqno, change)| (seqno, change.extents[0].start));
        let mut checkpoint = Checkpoint {
            epoch: self.journal.epoch + 1,
            generation: self.journal.generation,
            seqno: self.seqno,
            windows,
            late: late.collect(),
            changes: std::mem::take(&mut self.journal.changes),
        };
        let (block_bytes, secret) = (self.layout.block_bytes, self.layout.secret);
        let place = |journal: &Journal| self.layout.half(self.number, journal.half) + journal.used;
        let mut next = Journal { epoch: checkpoint.epoch, ..self.journal.clone() };
        let mut bytes = checkpoint.encode(place(&next), block_bytes, secret);
        if next.used + bytes.len() as u64 > self.layout.half_bytes || next.generation == 0 {
            checkpoint.changes = self.snapshot();
            checkpoint.generation = checkpoint.epoch;
            next.generation = checkpoint.epoch;
            (next.half, next.used) = (1 - next.half, 0);
            bytes = checkpoint.encode(place(&next), block_bytes, secret);
            self.stats.snapshots += 1;
        }
        assert!(
            next.used + bytes.len() as u64 <= self.layout.half_bytes,
            "a half holds a snapshot"
        );
        next.used += bytes.len() as u64;
        self.stats.checkpoints += 1;
        self.stats.journal_bytes += bytes.len() as u64;
        let bytes = Some(Buffer::from_slice(&bytes));
        self.checkpoint = Some(Underway { state: State::Held, bytes, next });
        if self.cache.is_clean() {
            self.write_checkpoint();
        }
    }

    /// Writes the checkpoint that was begun: all that it says is safe.
    fn write_checkpoint(&mut self) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let Some(bytes) = checkpoint.bytes.take() else { return };
        checkpoint.state = State::Writing;
        let end = self.layout.half(self.number, checkpoint.next.half) + checkpoint.next.used;
        self.write(Purpose::Checkpoint, end - bytes.len() as u64, bytes.whole());
    }

    /// The directory's entries. This is the one step that takes time in proportion to the keys.
    fn snapshot(&self) -> Vec<u8> {
        let mut entries = Vec::with_capacity(self.entry_bytes as usize);
        for (key, extents) in self.directory.iter() {
            put_change(&mut entries, key, &extents);
        }
        entries
    }

    pub(super) fn checkpoint_written(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.state = State::Written;
        }
    }

    /// A sync has ended. If it covers what a checkpoint says, that is written now; if it covers the checkpoint, that is in force.
    pub(super) fn checkpoint_synced(&mut self) {
        if self.checkpoint.as_ref().is_some_and(|it| it.state == State::Cleaning) {
            return self.write_checkpoint();
        }
        let covered = self.checkpoint.take_if(|it| it.state == State::Syncing);
        let Some(Underway { next, .. }) = covered else { return };
        let changes = std::mem::take(&mut self.journal.changes);
        self.journal = Journal { changes, ..next };
        self.space.open_window();
        let (block_bytes, secret) = (self.layout.block_bytes, self.layout.secret);
        let mark = encode_mark(self.journal.epoch, self.number, block_bytes, secret);
        let offset = self.layout.mark(self.number, self.journal.epoch);
        self.write(Purpose::Mark, offset, Buffer::from_slice(&mark).whole());
        self.resume_stalled();
    }

    /// Whether a checkpoint would say anything new.
    pub(crate) fn has_changes(&self) -> bool {
        !self.journal.changes.is_empty() || self.checkpoint.is_some()
    }
}
