//! Wear leveling: occasionally moves long-lived data, so that its chunks wear as fast as others.
//!
//! New data goes to the free chunk with the least wear. A chunk that is never free keeps its low
//! erase count, and the others wear faster. When a free chunk was erased much more often than the
//! least-worn chunk with data, that data is moved to the free chunk. Long-lived data is likely to
//! stay, so the worn chunk rests and the other is erased again.
//!
//! A writer that begins another chunk, for a table that no log waits for, checks for this once in a
//! number of resets. It moves the data in three steps:
//!
//! 1. *Plan*, under the lock: all live data of the chunk, and an allocated free chunk as the
//!    target.
//! 2. *Copy*, piece by piece and without the lock, then make the copies durable. Meanwhile files
//!    may be removed. The source data may also be moved to free space, or its chunk reset and
//!    rewritten.
//! 3. *Install*, under the lock: files that have not changed get the copies. For others the copies
//!    are dropped.
//!
//! Invariants:
//!
//! * Only data of named files is moved. No thread writes to these files, and the journal already
//!   has them. Such files must own all live data of the chunk. A log chunk is live before a log
//!   owns it, and what a crash needs of logs stays in log chunks only.
//! * The source chunk is not reset until the edit that records the copies is durable.
//! * A failure leaves everything unchanged and is counted. It fails no write, except when the
//!   journal failed.
//! * A caller that finds no free chunk while a move has one waits for the move: it frees one of the
//!   two.
//!
//! Nothing is appended after moved data in its chunk. New data becomes obsolete sooner, and the
//! rest of the chunk would never become free.

#[cfg(test)]
mod tests;

use crate::Chunk;
use crate::chunk_device::BLOCK_BYTES;
use crate::placement::{LEVEL_0, LIFETIMES, Lifetime};
use crate::storage::allocation::active_zones::OpenReason;
use crate::storage::allocation::shared_device::{SharedDevice, State};
use crate::storage::files::file_meta::FileMeta;
use crate::storage::format::{Extent, JournalRecord};
use crate::storage::journal::replay::snapshot;
use crate::storage::lifetimes::lifetime::LifetimeClass;
use esker_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// How much the erase count of a chunk may exceed that of another with data: 2% of the endurance of
/// MLC flash.
const SPREAD_MAX: u32 = 64;

/// Out of larger chunks nothing is moved: somebody's write waits for it. Zones of disks have a gigabyte.
const MOVED_BYTES_MAX: u32 = 64 << 20;

/// So many chunks are reset for one that is moved, at the least: where the spread is wide already, it narrows slowly.
const RESETS_BETWEEN: u64 = 16;

/// What is read and written at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// When it is looked for something to move, and what became of that.
pub(crate) struct WearLeveler {
    /// The resets of all chunks when that was done last, in as many as are between two times.
    turn: u64,
    is_moving: bool,
    /// Chunks with which a move failed: nothing is moved out of these, or into them, before they were reset for another reason.
    pub(crate) avoided: BTreeSet<u32>,
    pub(crate) failures: u64,
    pub(crate) last_failure: Option<Error>,
}

/// What is being moved.
struct Relocation {
    from: u32,
    /// How often that chunk was reset when this was planned: as long as it is so, what files have there is there.
    resets: u32,
    to: Chunk,
    pieces: Vec<Piece>,
}

/// What a file has in the chunk, and where that goes.
struct Piece {
    /// Removing a file need not wait for its move.
    body: Weak<FileMeta>,
    old: Extent,
    new: Extent,
}

/// A move that was planned. It ends with this, if the device panics as well.
struct UnderWay<'a> {
    core: &'a SharedDevice,
    to: Chunk,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        state.space.close(self.to);
        state.levelling.is_moving = false;
        self.core.given_back.notify_all();
    }
}

/// Why something could not be copied.
enum Failure {
    /// The piece of this number can't be read.
    Unreadable(usize, Error),
    /// The new place can't be written, or not be made durable.
    Unwritable(Error),
}

impl WearLeveler {
    /// Of a device whose chunks were reset so often, all together.
    pub(crate) fn new(resets: u64) -> Self {
        let turn = resets / RESETS_BETWEEN;
        let avoided = BTreeSet::new();
        WearLeveler { turn, is_moving: false, avoided, failures: 0, last_failure: None }
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.is_moving
    }

    /// Whether it is time to look. What is found then, it is not until the next time.
    fn is_due(&mut self, resets: u64) -> bool {
        let turn = resets / RESETS_BETWEEN;
        !self.is_moving && std::mem::replace(&mut self.turn, turn) != turn
    }
}

impl SharedDevice {
    /// Moves the data of the least-worn chunk to a worn one, if a move is due and no caller waits
    /// for the data about to be written.
    pub(crate) fn run_if_due(&self, lifetime: Lifetime) {
        if lifetime <= LEVEL_0 {
            return;
        }
        let planned = self.state.lock().plan(self);
        let outcome = planned.and_then(|planned| {
            let Some(moving) = planned else { return Ok(()) };
            let _under_way = UnderWay { core: self, to: moving.to };
            let copied = self.copy(&moving);
            self.state.lock().commit_relocation(&moving, copied)
        });
        if let Err(error) = outcome {
            let levelling = &mut self.state.lock().levelling;
            levelling.failures += 1;
            levelling.last_failure = Some(error);
        }
    }

    /// Copies the pieces, and makes the copies durable.
    fn copy(&self, moving: &Relocation) -> std::result::Result<(), Failure> {
        let geometry = self.zones.geometry();
        let from = geometry.chunk(moving.from as usize);
        let mut buffer = vec![0; PIECE_BYTES as usize];
        for (number, piece) in moving.pieces.iter().enumerate() {
            let (start, end) = (piece.old.start(), piece.old.start() + piece.old.taken());
            for at in (start..end).step_by(PIECE_BYTES as usize) {
                let bytes = &mut buffer[..PIECE_BYTES.min(end - at) as usize];
                let read = self.zones.read(from, at, bytes);
                read.map_err(|error| Failure::Unreadable(number, error))?;
                let to = piece.new.start() + (at - start);
                self.zones.write(moving.to, to, bytes).map_err(Failure::Unwritable)?;
                self.moved_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                self.levelled_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
        }
        self.zones.flush().map_err(Failure::Unwritable)
    }
}

impl State {
    /// What is to be moved now, if anything.
    fn plan(&mut self, core: &SharedDevice) -> Result<Option<Relocation>> {
        let resets = self.space.wear.all();
        let is_too_large = self.space.geometry.chunk_bytes > MOVED_BYTES_MAX;
        if core.zones.spreads_wear() || is_too_large || !self.levelling.is_due(resets) {
            return Ok(None);
        }
        let Some(from) = self.space.least_worn(&self.movable_bytes()) else { return Ok(None) };
        let all = self.extents_in(from);
        let Some((largest, _)) = all.iter().max_by_key(|(_, extent)| extent.bytes) else {
            return Ok(None);
        };
        let Some(to) = self.lease_worn(core, from, largest.stay)? else { return Ok(None) };
        let pieces = pieces(&all, self.space.geometry.index(to) as u32);
        let resets = self.space.wear.of(from as usize);
        self.levelling.is_moving = true;
        Ok(Some(Relocation { from, resets, to, pieces }))
    }

    /// The bytes of each chunk that may be moved: those of named files that are not being written,
    /// except logs. None if live data is unreadable.
    fn movable_bytes(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.space.geometry.chunks()];
        for body in self.names.values().filter(|body| is_movable(body)) {
            let pieces = body.pieces.read();
            for extent in &pieces.extents {
                bytes[extent.chunk as usize] += extent.taken();
            }
        }
        let avoided = self.gc_excluded.keys().chain(&self.levelling.avoided);
        avoided.for_each(|index| bytes[*index as usize] = 0);
        bytes
    }

    /// What files have in a chunk of what may be moved.
    fn extents_in(&self, index: u32) -> Vec<(Arc<FileMeta>, Extent)> {
        let of_body = |body: &Arc<FileMeta>| {
            let pieces = body.pieces.read();
            let here = pieces.extents.iter().filter(|extent| extent.chunk == index);
            here.map(|extent| (body.clone(), *extent)).collect::<Vec<_>>()
        };
        self.names.values().filter(|body| is_movable(body)).flat_map(of_body).collect()
    }

    /// The free chunk that is worn most, if it is worn so much more than `from`, and a deep table might take it.
    fn lease_worn(
        &mut self,
        core: &SharedDevice,
        from: u32,
        stay: LifetimeClass,
    ) -> Result<Option<Chunk>> {
        let Some(free) = self.space.most_worn_free(&self.levelling.avoided) else {
            return Ok(None);
        };
        let kept = core.reserve_for(self, LIFETIMES - 1);
        if self.space.wear.spread(free as usize, from as usize) <= SPREAD_MAX
            || self.space.free_chunks() <= kept
            || !self.reserve_active_slot(&*core.zones, OpenReason::Data)?
        {
            return Ok(None);
        }
        let (lease, free_after) = self.space.lease(free);
        let lease = self.make_ready(&*core.zones, stay, lease.chunk, free_after);
        if lease.is_err() {
            self.levelling.avoided.insert(free);
        }
        Ok(lease?.map(|lease| lease.chunk))
    }

    /// The file that has a piece where it was when the move was planned.
    fn unchanged(&self, moving: &Relocation, piece: &Piece) -> Option<Arc<FileMeta>> {
        if self.space.wear.of(moving.from as usize) != moving.resets {
            return None;
        }
        let body = piece.body.upgrade().filter(|body| body.is_linked())?;
        let is_there = body.pieces.read().extents.contains(&piece.old);
        is_there.then_some(body)
    }

    /// Gives the copies to the files that are as they were, if there are copies.
    fn commit_relocation(
        &mut self,
        moving: &Relocation,
        copied: std::result::Result<(), Failure>,
    ) -> Result<()> {
        match copied {
            Err(Failure::Unwritable(error)) => {
                self.levelling.avoided.insert(self.space.geometry.index(moving.to) as u32);
                Err(error)
            }
            Err(Failure::Unreadable(number, error)) => {
                match self.unchanged(moving, &moving.pieces[number]) {
                    Some(_) => {
                        self.levelling.avoided.insert(moving.from);
                        Err(error)
                    }
                    // It is no longer stored there.
                    None => Ok(()),
                }
            }
            Ok(()) => self.replace(moving),
        }
    }

    fn replace(&mut self, moving: &Relocation) -> Result<()> {
        let (mut changed, mut moved) = (BTreeMap::new(), Vec::new());
        for piece in &moving.pieces {
            let Some(body) = self.unchanged(moving, piece) else { continue };
            let extents = || (body.clone(), body.pieces.read().extents.clone());
            let (_, extents) = changed.entry(body.id).or_insert_with(extents);
            let place = extents.iter_mut().find(|extent| **extent == piece.old);
            *place.expect("it is unchanged") = piece.new;
            moved.push(piece);
        }
        let ops =
            changed.iter().map(|(id, (_, extents))| JournalRecord::Replace(*id, extents.clone()));
        let ops: Vec<JournalRecord> = ops.collect();
        if moved.is_empty() {
            return Ok(());
        }
        let told: Vec<JournalRecord> =
            ops.iter().cloned().chain(self.space.wear.unreported()).collect();
        self.journal.check_room_for(&told, || snapshot(&self.names, &self.space))?;
        moved.iter().for_each(|piece| self.space.add(&piece.new));
        for (body, extents) in changed.into_values() {
            body.replace(extents);
            body.record();
        }
        self.write(&ops)?;
        let sequence = self.journal.sequence;
        moved.iter().for_each(|piece| self.space.remove(&piece.old, sequence));
        Ok(())
    }
}

/// Whether a file's data may be moved. The journal has all data of a file that is not being
/// written, or that is lost with the process.
fn is_movable(body: &FileMeta) -> bool {
    body.log_bytes.is_none() && !body.is_open()
}

/// What files have in a chunk, one after the other in the chunk `to`.
fn pieces(all: &[(Arc<FileMeta>, Extent)], to: u32) -> Vec<Piece> {
    let mut block = 0;
    let piece = |(body, old): &(Arc<FileMeta>, Extent)| {
        let new = Extent { chunk: to, block, bytes: old.bytes };
        block += (new.taken() / BLOCK_BYTES) as u32;
        Piece { body: Arc::downgrade(body), old: *old, new }
    };
    all.iter().map(piece).collect()
}
