//! Checkpoints: what recovery starts from. Those of many keys' snapshots are in `snapshot`.

use super::journal::{CheckpointInProgress, Journal, State};
use super::{Partition, Purpose};
use crate::format::journal::{Checkpoint, HEADER_BYTES, encode_mark, put_change};
use esker_base::Error;
use esker_uring::Buffer;

/// So many bytes of changes begin a checkpoint, before the window is used up: encoding them takes a fraction of a millisecond.
const CHANGES_BYTES: usize = 256 << 10;

impl Partition {
    /// Begins a checkpoint of what is known now, at once however long that takes: before any request. None must be in progress.
    pub(crate) fn begin_first_checkpoint(&mut self) {
        match self.changes_fit() {
            true => self.begin_changes(),
            false => self.begin_snapshot_at_once(),
        }
    }

    /// Begins a checkpoint of what is known now, or goes on with the snapshot that it takes. None must be in progress.
    pub(super) fn begin_checkpoint(&mut self) {
        if self.changes_fit() {
            self.begin_changes();
        } else if !self.await_snapshot() && self.pieces_under_way == 0 {
            self.begin_snapshot_at_once();
        }
    }

    /// Whether enough has changed for a checkpoint.
    pub(super) fn has_many_changes(&self) -> bool {
        self.journal.changes.len() >= CHANGES_BYTES
    }

    /// Whether what has changed fits into the half of the journal.
    fn changes_fit(&self) -> bool {
        let bytes = self.checkpoint_bytes_max(self.journal.changes.len());
        self.journal.generation > 0 && self.journal.used + bytes <= self.layout.half_bytes
    }

    /// The bytes of a checkpoint with so many bytes of changes, at the most.
    pub(super) fn checkpoint_bytes_max(&self, changes: usize) -> u64 {
        let lists = self.space.window_extents_max() * 8 + self.changes.len() * 12;
        let bytes = HEADER_BYTES + lists + changes;
        bytes.next_multiple_of(self.layout.block_bytes as usize) as u64
    }

    fn begin_changes(&mut self) {
        let (epoch, generation) = (self.journal.epoch + 1, self.journal.generation);
        let changes = std::mem::take(&mut self.journal.changes);
        self.begin_whole(epoch, generation, changes, self.journal.half, self.journal.used);
    }

    /// The directory's entries. This is the one step that takes time in proportion to the keys: where there are few, at an opening, and where
    /// they fill the half so that a snapshot in pieces has no space.
    fn begin_snapshot_at_once(&mut self) {
        let mut entries = Vec::with_capacity(self.entry_bytes as usize);
        for (key, extents) in self.directory.iter() {
            put_change(&mut entries, key, &extents);
        }
        if entries.len() as u64 > Checkpoint::CHANGES_BYTES_MAX {
            let what = "has more keys in a partition than a snapshot of it can list".to_owned();
            return self.fail(Error::CapacityExceeded { store: self.name.to_string(), what });
        }
        self.snapshot = None;
        self.journal.changes.clear();
        // Pieces that were begun before this are of lower generations: what is left of them behind it is none of it.
        let epoch = self.journal.next_generation(&self.layout) + 1;
        self.begin_whole(epoch, epoch, entries, 1 - self.journal.half, 0);
        self.stats.snapshots += 1;
    }

    /// Begins a checkpoint that is written at once, at `at` of a half.
    fn begin_whole(&mut self, epoch: u64, generation: u64, changes: Vec<u8>, half: u32, at: u64) {
        let checkpoint = self.checkpoint_of(epoch, generation, changes);
        let bytes = self.encode(&checkpoint, half, at);
        let used = at + bytes.len() as u64;
        assert!(used <= self.layout.half_bytes, "a half holds a snapshot");
        let next = Journal { half, used, epoch, generation, changes: Vec::new() };
        self.checkpoint =
            Some(CheckpointInProgress { state: State::Held, bytes: Some(bytes), at, next });
        self.stats.checkpoints += 1;
        if self.cache.is_clean() {
            self.write_checkpoint();
        }
    }

    /// A checkpoint of what is known now, with the next window.
    pub(super) fn checkpoint_of(
        &mut self,
        epoch: u64,
        generation: u64,
        changes: Vec<u8>,
    ) -> Checkpoint {
        let windows = self.space.begin_window(self.oldest_read());
        let late = self.changes.iter().map(|(&seqno, change)| (seqno, change.extents[0].start));
        Checkpoint { epoch, generation, seqno: self.seqno, windows, late: late.collect(), changes }
    }

    /// A checkpoint's bytes at `at` of a half, which are counted as written.
    pub(super) fn encode(&mut self, checkpoint: &Checkpoint, half: u32, at: u64) -> Buffer {
        let (block_bytes, secret) = (self.layout.block_bytes, self.layout.secret);
        let offset = self.layout.half(self.number, half) + at;
        let bytes = checkpoint.encode(offset, block_bytes, secret);
        self.stats.journal_bytes += bytes.len() as u64;
        Buffer::from_slice(&bytes)
    }

    /// Writes the checkpoint that was begun, or the front of it: all that it says is safe.
    fn write_checkpoint(&mut self) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let Some(bytes) = checkpoint.bytes.take() else { return };
        checkpoint.state = State::Writing;
        let offset = self.layout.half(self.number, checkpoint.next.half) + checkpoint.at;
        self.write(Purpose::Checkpoint, offset, bytes.whole());
    }

    pub(super) fn checkpoint_written(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.state = State::Written;
        }
    }

    /// A sync has ended. If it covers what a checkpoint says, that is written now; if it covers the checkpoint, that is installed.
    pub(super) fn checkpoint_synced(&mut self) {
        if self.checkpoint.as_ref().is_some_and(|it| it.state == State::Cleaning) {
            return self.write_checkpoint();
        }
        let covered = self.checkpoint.take_if(|it| it.state == State::Syncing);
        let Some(CheckpointInProgress { next, .. }) = covered else { return };
        let changes = std::mem::take(&mut self.journal.changes);
        self.journal = Journal { changes, ..next };
        self.space.open_window();
        let (block_bytes, secret) = (self.layout.block_bytes, self.layout.secret);
        let mark = encode_mark(self.journal.epoch, self.number, block_bytes, secret);
        let offset = self.layout.mark(self.number, self.journal.epoch);
        self.write(Purpose::Mark, offset, Buffer::from_slice(&mark).whole());
        self.begin_snapshot_in_time();
        self.retry_stalled();
    }

    /// Whether a checkpoint would say anything new.
    pub(crate) fn has_changes(&self) -> bool {
        !self.journal.changes.is_empty() || self.checkpoint.is_some()
    }
}
