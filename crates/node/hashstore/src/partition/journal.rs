//! State of a partition's journal: where it is, and the checkpoint and the snapshot in progress.

use crate::format::journal::{Checkpoint, HEADER_BYTES};
use crate::format::superblock::Layout;
use esker_uring::Buffer;

/// Space for a checkpoint's lists: windows and what is left of earlier ones, and late records.
pub(super) const LISTS_BYTES_MAX: u64 = (1024 + 512) * 8 + 1024 * 12;

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
        let lists = (HEADER_BYTES as u64 + LISTS_BYTES_MAX).next_multiple_of(block_bytes);
        layout.half_bytes.saturating_sub(lists).min(Checkpoint::CHANGES_BYTES_MAX)
    }

    /// The lowest number that no checkpoint of this half can have, nor any that was begun before the last one was installed.
    pub fn next_generation(&self, layout: &Layout) -> u64 {
        self.epoch + layout.half_bytes / u64::from(layout.block_bytes) + 1
    }
}

/// A checkpoint on its way.
#[derive(Debug)]
pub(super) struct CheckpointInProgress {
    pub state: State,
    /// What installs it: its bytes, or the front of a snapshot in pieces. Until that is written.
    pub bytes: Option<Buffer>,
    /// Where in its half these go.
    pub at: u64,
    /// Where the journal will be.
    pub next: Journal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The pieces of a snapshot are being written.
    InPieces,
    /// What it says is not all safe, or its pieces are not: a sync comes before it is written.
    Held,
    /// That sync is in progress.
    Cleaning,
    Writing,
    Written,
    Syncing,
}

impl CheckpointInProgress {
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

/// A snapshot in pieces, whose walk over the directory is in progress: see `snapshot`.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub half: u32,
    pub generation: u64,
    /// The last piece's number.
    pub epoch: u64,
    /// Where in the half the next piece goes.
    pub at: u64,
    /// The entries of the next piece.
    pub entries: Vec<u8>,
    /// The last key visited, with its hash.
    pub visited: Option<(u64, Vec<u8>)>,
    /// All keys were visited.
    pub is_whole: bool,
    /// Bytes of entries that are due for each byte of changes, and those that are.
    pub pace: u64,
    pub due: u64,
    /// A checkpoint waits for it.
    pub is_awaited: bool,
    /// The half has no space for it: it goes no further.
    pub has_no_room: bool,
}
