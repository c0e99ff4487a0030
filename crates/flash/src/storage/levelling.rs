//! How chunks with what lives long come to wear as others do: what is in them is moved, seldom.
//!
//! A chunk is taken for new data because it is worn least, but only when it is free. One that is never free keeps its
//! few erases, and the others wear by as much faster. So when a free chunk was erased much more often than the least
//! worn one with data in it, these data are moved there: what has lived long may live on, so that the worn chunk rests,
//! and the other is erased until it is as worn.
//!
//! Whoever begins another chunk with a table that no log waits for looks for that, once in so many resets, and moves it
//! in three steps:
//!
//! 1. *Plan*, under the lock: what is moved, and a chunk to move it to, which is taken;
//! 2. *Copy*, piece by piece and without the lock, and make the copies durable. Meanwhile files may be removed, and
//!    what is copied may be moved elsewhere to make room, or its chunk be reset and written anew;
//! 3. *Come into force*, under the lock: the files that are as they were have the copies now. The others' are as if
//!    they had never been written.
//!
//! What must hold: only what a file with a name has is moved, which nobody writes, and which the journal has therefore;
//! and only if such files have all that is alive in a chunk. A log's chunk is alive and nobody's until the log has it,
//! and what a crash needs of logs is theirs alone. Until the edit is durable that says where the copies are, the chunk
//! they come from is not reset. What fails leaves everything as it was, and is counted; nobody's write fails for it.
//! Who finds no room while a move has a chunk waits for its end.

#[cfg(test)]
mod tests;

use super::body::Body;
use super::core::{Core, State};
use super::directory::snapshot;
use super::format::{Extent, Op};
use super::slots::Need;
use super::space::{LEVEL_0, LIFETIMES, Lease};
use super::stay::Stay;
use crate::Geometry;
use crate::placement::Lifetime;
use crate::zones::BLOCK_BYTES;
use esker_base::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// How much more often than another with data in it a chunk may be erased: 2% of what MLC flash stands.
const SPREAD_MAX: u32 = 64;

/// What is moved of a chunk at a time, at the most. Zones of disks have a gigabyte.
const MOVED_BYTES_MAX: u32 = 64 << 20;

/// So many times more is erased than is moved, at the least: where the spread is wide already, it narrows slowly.
const ERASED_OVER_MOVED: u64 = 16;

/// What is read and written at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// When it is looked for something to move, and what became of that.
pub(super) struct Levelling {
    /// The resets of all chunks when that was done last, in as many as are between two times.
    turn: u64,
    is_moving: bool,
    pub(super) failures: u64,
    pub(super) last_failure: Option<Error>,
}

/// What is being moved.
struct Move {
    from: u32,
    /// How often that chunk was reset when this was planned: as long as it is so, what files have there lies there.
    resets: u32,
    stay: Stay,
    /// Where the next piece goes.
    to: Lease,
    pieces: Vec<Piece>,
}

/// What a file has in the chunk, or the beginning of it, and where that goes.
struct Piece {
    /// Whoever removes a file need not wait for it to be moved.
    body: Weak<Body>,
    whole: Extent,
    old: Extent,
    new: Extent,
}

/// Why something could not be copied.
enum Failure {
    /// The piece of this number can't be read.
    Unreadable(usize, Error),
    /// The new place can't be written, or not be made durable.
    Unwritable(Error),
}

impl Levelling {
    /// Of a device whose chunks have so many bytes, and were reset so often, all together.
    pub(super) fn new(chunk_bytes: u32, resets: u64) -> Self {
        let turn = resets / resets_between(chunk_bytes);
        Levelling { turn, is_moving: false, failures: 0, last_failure: None }
    }

    pub(super) fn is_moving(&self) -> bool {
        self.is_moving
    }

    /// Whether it is time to look. What is found then, it is not until the next time.
    fn is_due(&mut self, chunk_bytes: u32, resets: u64) -> bool {
        let turn = resets / resets_between(chunk_bytes);
        !self.is_moving && std::mem::replace(&mut self.turn, turn) != turn
    }
}

/// How many chunks of so many bytes are reset between two looks.
fn resets_between(chunk_bytes: u32) -> u64 {
    let moved = u64::from(chunk_bytes.min(MOVED_BYTES_MAX));
    (ERASED_OVER_MOVED * moved / u64::from(chunk_bytes)).max(1)
}

impl Piece {
    /// What stays of what the file has there.
    fn rest(&self) -> Option<Extent> {
        let moved = self.old.bytes;
        let block = self.whole.block + (self.old.taken() / BLOCK_BYTES) as u32;
        (moved < self.whole.bytes).then(|| Extent {
            block,
            bytes: self.whole.bytes - moved,
            ..self.whole
        })
    }
}

impl Core {
    /// Moves some of what is in the least worn chunk into a worn one, if it is time for that and the caller is about to
    /// write what nobody waits for.
    pub(super) fn level_wear(&self, lifetime: Lifetime) {
        if lifetime <= LEVEL_0 {
            return;
        }
        let planned = self.state.lock().plan(self);
        let outcome = planned.and_then(|planned| {
            let Some(mut moving) = planned else { return Ok(()) };
            let copied = self.copy(&mut moving);
            let mut state = self.state.lock();
            let outcome = state.come_into_force(moving, copied);
            state.levelling.is_moving = false;
            self.given_back.notify_all();
            outcome
        });
        if let Err(error) = outcome {
            let levelling = &mut self.state.lock().levelling;
            levelling.failures += 1;
            levelling.last_failure = Some(error);
        }
    }

    /// Copies the pieces, and makes the copies durable.
    fn copy(&self, moving: &mut Move) -> std::result::Result<(), Failure> {
        let geometry = self.zones.geometry();
        let from = geometry.chunk(moving.from as usize);
        for (number, piece) in moving.pieces.iter().enumerate() {
            let (start, end) = (piece.old.start(), piece.old.start() + piece.old.taken());
            for at in (start..end).step_by(PIECE_BYTES as usize) {
                let mut bytes = vec![0; PIECE_BYTES.min(end - at) as usize];
                let read = self.zones.read(from, at, &mut bytes);
                read.map_err(|error| Failure::Unreadable(number, error))?;
                let written = self.zones.write(moving.to.chunk, moving.to.at, &bytes);
                written.map_err(Failure::Unwritable)?;
                moving.to.at += bytes.len() as u64;
                self.moved_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                self.levelled_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
        }
        self.zones.flush().map_err(Failure::Unwritable)
    }
}

impl State {
    /// What is to be moved now, if anything.
    fn plan(&mut self, core: &Core) -> Result<Option<Move>> {
        let resets = self.space.wear.all();
        if core.zones.spreads_wear()
            || !self.levelling.is_due(self.space.geometry.chunk_bytes, resets)
        {
            return Ok(None);
        }
        let Some(from) = self.space.least_worn(&self.movable_bytes()) else { return Ok(None) };
        let all = self.extents_in(from);
        let Some((largest, _)) = all.iter().max_by_key(|(_, extent)| extent.bytes) else {
            return Ok(None);
        };
        let stay = largest.stay;
        let Some(to) = self.lease_worn(core, from, stay)? else { return Ok(None) };
        let pieces = pieces(&self.space.geometry, &all, to);
        let resets = self.space.wear.of(from as usize);
        self.levelling.is_moving = true;
        Ok(Some(Move { from, resets, stay, to, pieces }))
    }

    /// Bytes of each chunk that may be moved: those of files with names that nobody writes, but logs; and nothing where
    /// something can't be read.
    fn movable_bytes(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.space.geometry.chunks()];
        for body in self.names.values().filter(|body| is_movable(body)) {
            let pieces = body.pieces.read();
            for extent in &pieces.extents {
                bytes[extent.chunk as usize] += extent.taken();
            }
        }
        self.unmovable.keys().for_each(|index| bytes[*index as usize] = 0);
        bytes
    }

    /// What files have in a chunk of what may be moved.
    fn extents_in(&self, index: u32) -> Vec<(Arc<Body>, Extent)> {
        let of_body = |body: &Arc<Body>| {
            let pieces = body.pieces.read();
            let here = pieces.extents.iter().filter(|extent| extent.chunk == index);
            here.map(|extent| (body.clone(), *extent)).collect::<Vec<_>>()
        };
        self.names.values().filter(|body| is_movable(body)).flat_map(of_body).collect()
    }

    /// A chunk to move to what stays so long and is in `from`, if one is worn so much more: where something is that
    /// stays as long, or a free one, if a deep table might take it.
    fn lease_worn(&mut self, core: &Core, from: u32, stay: Stay) -> Result<Option<Lease>> {
        let is_worn = |state: &State, index: &u32| {
            state.space.wear.spread(*index as usize, from as usize) > SPREAD_MAX
        };
        let begun = self.space.most_worn_pooled(stay);
        if let Some(begun) = begun.filter(|index| is_worn(self, index)) {
            return Ok(Some(self.space.lease(begun).0));
        }
        let free = self.space.most_worn_free();
        let Some(free) = free.filter(|index| is_worn(self, index)) else { return Ok(None) };
        let kept = core.kept_from(self, LIFETIMES - 1);
        if self.space.free_chunks() <= kept || !self.make_place(&*core.zones, Need::Data)? {
            return Ok(None);
        }
        let (lease, free_after) = self.space.lease(free);
        self.make_ready(&*core.zones, stay, lease.chunk, free_after)
    }

    /// The file that has a piece where it was when the move was planned.
    fn unchanged(&self, moving: &Move, piece: &Piece) -> Option<Arc<Body>> {
        if self.space.wear.of(moving.from as usize) != moving.resets {
            return None;
        }
        let body = piece.body.upgrade().filter(|body| body.has_name())?;
        let is_there = body.pieces.read().extents.contains(&piece.whole);
        is_there.then_some(body)
    }

    /// Gives the copies to the files that are as they were, if there are copies.
    fn come_into_force(
        &mut self,
        moving: Move,
        copied: std::result::Result<(), Failure>,
    ) -> Result<()> {
        let outcome = match copied {
            Err(Failure::Unwritable(error)) => {
                self.space.close(moving.to.chunk);
                return Err(error);
            }
            Err(Failure::Unreadable(number, error)) => {
                match self.unchanged(&moving, &moving.pieces[number]) {
                    Some(_) => {
                        self.unmovable.insert(moving.from, error.clone());
                        Err(error)
                    }
                    // It lies there no more.
                    None => Ok(()),
                }
            }
            Ok(()) => self.replace(&moving),
        };
        self.space.give_back(moving.to, moving.stay);
        outcome
    }

    fn replace(&mut self, moving: &Move) -> Result<()> {
        let (mut changed, mut moved) = (BTreeMap::new(), Vec::new());
        for piece in &moving.pieces {
            let Some(body) = self.unchanged(moving, piece) else { continue };
            let extents = || (body.clone(), body.pieces.read().extents.clone());
            let (_, extents) = changed.entry(body.id).or_insert_with(extents);
            let place = extents.iter().position(|extent| *extent == piece.whole);
            let place = place.expect("it is unchanged");
            extents.splice(place..=place, [piece.new].into_iter().chain(piece.rest()));
            moved.push(piece);
        }
        let ops = changed.iter().map(|(id, (_, extents))| Op::Replace(*id, extents.clone()));
        let ops: Vec<Op> = ops.collect();
        if moved.is_empty() {
            return Ok(());
        }
        let told: Vec<Op> = ops.iter().cloned().chain(self.space.wear.untold()).collect();
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

/// Whether what a file has may be moved. The journal has all of one that nobody writes, or that is lost with the process.
fn is_movable(body: &Body) -> bool {
    body.log_bytes.is_none() && !body.is_open()
}

/// As much of this as is moved at a time and has room, one after the other.
fn pieces(geometry: &Geometry, all: &[(Arc<Body>, Extent)], to: Lease) -> Vec<Piece> {
    let chunk = geometry.index(to.chunk) as u32;
    let end = u64::from(geometry.chunk_bytes).min(to.at + u64::from(MOVED_BYTES_MAX));
    let (mut at, mut pieces) = (to.at, Vec::new());
    for (body, whole) in all {
        let bytes = u64::from(whole.bytes).min(end - at) as u32;
        if bytes == 0 {
            break;
        }
        let old = Extent { bytes, ..*whole };
        let new = Extent { chunk, block: (at / BLOCK_BYTES) as u32, bytes };
        at += new.taken();
        pieces.push(Piece { body: Arc::downgrade(body), whole: *whole, old, new });
    }
    pieces
}
