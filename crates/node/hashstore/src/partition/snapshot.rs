//! Snapshots in pieces, so that a directory of many keys keeps no request waiting.
//!
//! A snapshot goes to the half of the journal that is not in use:
//!
//! ```text
//!   ┌───────┬─────────┬─────────┬─────┬─────────────────────┐
//!   │ front │ piece 1 │ piece 2 │  …  │ last piece: windows │      epochs g, g+1, g+2 … of generation g
//!   └───────┴─────────┴─────────┴─────┴─────────────────────┘
//! ```
//!
//! Each part is a checkpoint like any other, the front an empty snapshot. A walk over the directory in its order puts the entries into pieces, a few with each
//! request, while checkpoints of changes go on in the half in use; what changes behind the walk is put there once more, and the later
//! entry counts. When the walk is at its end, all that is known is in the pieces. The last one gets the lists of a checkpoint. When all are
//! written, and synced, the front is, and installs it with one block. Until then there is no snapshot: checkpoints
//! begin with one, and what an earlier one has left at the front is of another generation.
//!
//! A front and a piece that is not the last have no seqno and no windows, so a chain that ends with one has lost the rest: it is damage.
//!
//! That no piece is taken for one of another snapshot: a generation is used by one walk only. It is given by the current epoch when the walk begins, of which there is
//! one walk at the most, as every opening begins with a checkpoint.

use super::journal::{CheckpointInProgress, Journal, LISTS_BYTES_MAX, Snapshot, State};
use super::{Partition, Purpose};
use crate::extent::Extent;
use crate::format::journal::{Checkpoint, put_change};

/// The bytes of entries that fill a piece, but for what the last one has more: where keys are short, the piece fills blocks of 4,096 B with its header.
/// Fewer are a snapshot at once.
const PIECE_BYTES: usize = (64 << 10) - 1024;

/// So many bytes of entries are worth a visit to the directory.
const VISIT_BYTES: u64 = 512;

/// What headers and ends of blocks add to the entries, as a share, at the most if keys are short.
const PIECES_SHARE: u64 = 32;

impl Partition {
    /// Begins a walk if three quarters of the space for changes are used.
    pub(super) fn begin_snapshot_in_time(&mut self) {
        let room = self.layout.half_bytes.saturating_sub(self.entry_bytes);
        let left = self.layout.half_bytes - self.journal.used;
        if self.snapshot.is_none() && left < room / 4 {
            self.begin_snapshot();
        }
    }

    /// Begins a walk, if there are enough keys for it and the half has space.
    fn begin_snapshot(&mut self) {
        let half_bytes = self.layout.half_bytes;
        let left = half_bytes - self.journal.used;
        // The walk is done when half of what is left is used, so no more than that changes behind it.
        let changes = left / 2;
        let pieces = self.entry_bytes + changes + (self.entry_bytes + changes) / PIECES_SHARE;
        if self.entry_bytes < PIECE_BYTES as u64 || pieces + LISTS_BYTES_MAX > half_bytes {
            return;
        }
        let generation = self.journal.next_generation(&self.layout);
        self.snapshot = Some(Snapshot {
            half: 1 - self.journal.half,
            generation,
            epoch: generation,
            at: u64::from(self.layout.block_bytes),
            entries: Vec::new(),
            visited: None,
            is_whole: false,
            pace: self.entry_bytes / changes.max(1) + 1,
            due: 0,
            is_awaited: false,
            has_no_room: false,
        });
    }

    /// Has a checkpoint wait for a snapshot in pieces. False if there can be none.
    pub(super) fn await_snapshot(&mut self) -> bool {
        if self.snapshot.is_none() {
            self.begin_snapshot();
        }
        match &mut self.snapshot {
            Some(snapshot) if !snapshot.has_no_room => snapshot.is_awaited = true,
            _ => return false,
        }
        self.continue_snapshot();
        self.snapshot.as_ref().is_none_or(|it| !it.has_no_room)
    }

    /// Takes note that a key has changed: it is visited later, or this says what is true now.
    pub(super) fn snapshot_follows(&mut self, key: &[u8], extents: &[Extent], bytes: usize) {
        let Some(snapshot) = &mut self.snapshot else { return };
        snapshot.due = snapshot.due.saturating_add((bytes as u64).saturating_mul(snapshot.pace));
        let (hash, key) = self.directory.order(key);
        let visited = snapshot.visited.as_ref().map(|(hash, key)| (*hash, &key[..]));
        // Behind the last key that there was may come others.
        let is_behind = snapshot.is_whole || visited.is_some_and(|it| (hash, key) <= it);
        if !snapshot.has_no_room && is_behind {
            put_change(&mut snapshot.entries, key, extents);
            self.write_full_piece();
        }
    }

    /// Does what is due of a snapshot, at most until a piece is full, and ends it if that was the last.
    pub(super) fn continue_snapshot(&mut self) {
        let Some(snapshot) = self.snapshot.as_mut().filter(|it| !it.has_no_room) else { return };
        let piece = ((PIECE_BYTES - snapshot.entries.len()) as u64).max(VISIT_BYTES);
        let is_driven = snapshot.is_awaited && self.pieces_under_way == 0;
        let due = if is_driven { piece } else { snapshot.due.min(piece) };
        if due >= VISIT_BYTES && !snapshot.is_whole {
            snapshot.due = snapshot.due.saturating_sub(due);
            self.visit(due as usize);
        }
        self.write_full_piece();
        if self.checkpoint.is_none() {
            self.end_snapshot();
        }
    }

    /// Adds the next entries to the piece, so many bytes of them.
    fn visit(&mut self, bytes: usize) {
        let Some(snapshot) = &mut self.snapshot else { return };
        let from = snapshot.visited.as_ref().map(|(_, key)| &key[..]);
        let end = snapshot.entries.len() + bytes;
        let (mut last, mut is_whole) = (None, true);
        for (key, extents) in self.directory.iter_from(from) {
            if snapshot.entries.len() >= end {
                is_whole = false;
                break;
            }
            if Some(key) != from {
                put_change(&mut snapshot.entries, key, &extents);
                last = Some(key);
            }
        }
        snapshot.is_whole = is_whole;
        if let Some(key) = last {
            snapshot.visited = Some((self.directory.order(key).0, key.to_vec()));
        }
    }

    /// Writes the entries that there are, if they fill a piece.
    fn write_full_piece(&mut self) {
        let Some(snapshot) = &mut self.snapshot else { return };
        if snapshot.entries.len() < PIECE_BYTES {
            return;
        }
        snapshot.epoch += 1;
        let &mut Snapshot { half, generation, epoch, at, .. } = snapshot;
        let changes = std::mem::take(&mut snapshot.entries);
        let piece = Checkpoint { epoch, generation, changes, ..Checkpoint::default() };
        if at + piece.bytes(self.layout.block_bytes) > self.layout.half_bytes {
            snapshot.has_no_room = true;
            return;
        }
        let bytes = self.write_piece(&piece, half, at);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.at += bytes;
        }
    }

    /// Says how many bytes it has.
    fn write_piece(&mut self, piece: &Checkpoint, half: u32, at: u64) -> u64 {
        let bytes = self.encode(piece, half, at).whole();
        let len = bytes.len() as u64;
        self.pieces_under_way += 1;
        self.write(Purpose::Piece, self.layout.half(self.number, half) + at, bytes);
        len
    }

    /// If all keys were visited, makes the snapshot a checkpoint of what is known now. None must be in progress.
    fn end_snapshot(&mut self) {
        let Some(snapshot) = self.snapshot.take_if(|it| it.is_whole && !it.has_no_room) else {
            return;
        };
        let bytes_max = self.checkpoint_bytes_max(snapshot.entries.len());
        if snapshot.at + bytes_max > self.layout.half_bytes {
            self.snapshot = Some(Snapshot { has_no_room: true, entries: Vec::new(), ..snapshot });
            return;
        }
        let Snapshot { half, generation, epoch, at, entries, .. } = snapshot;
        // They are in the pieces.
        self.journal.changes.clear();
        self.is_checkpoint_due = false;
        let epoch = epoch + 1;
        let last = self.checkpoint_of(epoch, generation, entries);
        let used = at + self.write_piece(&last, half, at);
        let front = Checkpoint { epoch: generation, generation, ..Checkpoint::default() };
        let bytes = Some(self.encode(&front, half, 0));
        let next = Journal { half, used, epoch, generation, changes: Vec::new() };
        self.checkpoint = Some(CheckpointInProgress { state: State::InPieces, bytes, at: 0, next });
        self.stats.checkpoints += 1;
        self.stats.snapshots += 1;
    }

    pub(super) fn piece_written(&mut self) {
        self.pieces_under_way -= 1;
        if self.pieces_under_way == 0
            && let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.state == State::InPieces
        {
            checkpoint.state = State::Held;
        }
    }
}
