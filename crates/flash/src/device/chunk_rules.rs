//! The state and the rules of a flash medium, as in the Open-Channel SSD specification 2.0. Without
//! time.
//!
//! * A chunk is written from its start, one write unit after another. It must be reset before it is
//!   written again.
//! * A write unit can be read from the device's buffer until it is programmed. After that it is
//!   unreadable until `mw_cunits` more are programmed in its chunk, or the chunk is full.
//! * A reset counts as wear. Beyond its endurance a chunk becomes bad; some are bad from the start.
//! * If power fails during a program, that write unit is lost. If it was an upper page, the lower
//!   page of the same cells is lost too. The content of the buffer is lost, unless the buffer is
//!   power-protected. A chunk that was being reset must be reset again.

#[cfg(test)]
mod tests;

use crate::{Chunk, Geometry, Preset};
use esker_base::Rng;
use std::collections::BTreeSet;

/// What a device refuses to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MediaError {
    /// A chunk that the device does not have.
    #[error("{0:?} is not on this device")]
    Unknown(Chunk),
    /// A write that is not the chunk's next.
    #[error("{chunk:?} takes write unit {expected} next, and {number} was to be written")]
    OutOfOrder {
        /// The chunk.
        chunk: Chunk,
        /// What was to be written.
        number: u32,
        /// What can be.
        expected: u32,
    },
    /// A write into a chunk that is full.
    #[error("{0:?} is full; reset it before it is written again")]
    Full(Chunk),
    /// A chunk that can't be used.
    #[error("{0:?} is bad; use another")]
    Bad(Chunk),
    /// A chunk whose reset is in progress, or was when power failed.
    #[error(
        "the reset of {0:?} is not complete; wait for it, or reset it again after a power loss"
    )]
    HalfReset(Chunk),
    /// A reset of a chunk that writes are on their way to.
    #[error("writes to {0:?} are on their way; reset it when they are programmed")]
    Writing(Chunk),
    /// A read of what was not written.
    #[error("{chunk:?} has {written} write units, and number {number} was to be read")]
    Unwritten {
        /// The chunk.
        chunk: Chunk,
        /// What was to be read.
        number: u32,
        /// How many are written.
        written: u32,
    },
    /// A read of what is programmed, but not readable before more is.
    #[error(
        "write unit {number} of {chunk:?} can be read when {missing} more were written after it"
    )]
    TooEarly {
        /// The chunk.
        chunk: Chunk,
        /// What was to be read.
        number: u32,
        /// How many are missing.
        missing: u32,
    },
    /// A read of what a loss of power destroyed.
    #[error("write unit {number} of {chunk:?} was lost with the power")]
    Lost {
        /// The chunk.
        chunk: Chunk,
        /// What was to be read.
        number: u32,
    },
}

/// Where a write unit is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The cells.
    Medium,
    /// The device's buffer.
    Buffer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Usable,
    /// Being reset, or cut short in it.
    Resetting,
    Bad,
}

#[derive(Clone, Copy, Debug)]
struct ChunkState {
    state: State,
    /// Write units that were accepted, and how many of these have no buffer space yet.
    written: u32,
    outside: u32,
    /// How many of these are in the cells.
    programmed: u32,
    erases: u32,
}

/// All chunks of a device.
#[derive(Clone, Debug)]
pub struct Media {
    geometry: Geometry,
    endurance: u32,
    buffer_survives: bool,
    chunks: Vec<ChunkState>,
    /// What power losses destroyed, by the place of the chunk.
    lost: BTreeSet<(usize, u32)>,
}

impl Media {
    /// A device as it is delivered: nothing written, some chunks bad, which `seed` decides.
    pub fn new(preset: &Preset, seed: u64) -> Self {
        let geometry = preset.geometry();
        let mut rng = Rng::new(seed);
        let mut record = || {
            let is_bad = rng.below(1_000) < u64::from(preset.bad_chunks_per_mille());
            let state = if is_bad { State::Bad } else { State::Usable };
            ChunkState { state, written: 0, outside: 0, programmed: 0, erases: 0 }
        };
        Media {
            geometry,
            endurance: preset.endurance_erases(),
            buffer_survives: preset.buffer.survives_power_loss.value,
            chunks: (0..geometry.chunks()).map(|_| record()).collect(),
            lost: BTreeSet::new(),
        }
    }

    /// What it is made of.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Whether a chunk is bad.
    pub fn is_bad(&self, chunk: Chunk) -> bool {
        self.at(chunk).is_ok_and(|at| self.chunks[at].state == State::Bad)
    }

    /// How often a chunk can be reset and is good after it.
    pub fn endurance(&self) -> u32 {
        self.endurance
    }

    /// How often a chunk was reset.
    pub fn erases(&self, chunk: Chunk) -> u32 {
        self.at(chunk).map_or(0, |at| self.chunks[at].erases)
    }

    /// Write units in a chunk, those in the buffer included: the next one's number.
    pub fn written(&self, chunk: Chunk) -> u32 {
        self.at(chunk).map_or(0, |at| self.chunks[at].written)
    }

    /// Whether writes to a chunk are on their way to its cells: until they are there it is not reset.
    pub fn is_writing(&self, chunk: Chunk) -> bool {
        self.at(chunk).is_ok_and(|at| self.chunks[at].programmed < self.chunks[at].written)
    }

    /// Accepts write unit `number` of a chunk.
    pub fn write(&mut self, chunk: Chunk, number: u32) -> Result<(), MediaError> {
        let write_units = self.geometry.write_units();
        let record = self.usable(chunk)?;
        match record.written {
            written if written == write_units => Err(MediaError::Full(chunk)),
            expected if expected != number => {
                Err(MediaError::OutOfOrder { chunk, number, expected })
            }
            _ => {
                record.written += 1;
                Ok(())
            }
        }
    }

    /// Marks the last accepted write unit of a chunk as waiting for buffer space: it is not on the
    /// device.
    pub(crate) fn waits(&mut self, chunk: Chunk) {
        let at = self.at(chunk).expect("it was written");
        self.chunks[at].outside += 1;
    }

    /// Says that the first write unit of a chunk that waited is in the buffer.
    pub(crate) fn buffered(&mut self, chunk: Chunk) {
        let at = self.at(chunk).expect("it was written");
        self.chunks[at].outside -= 1;
    }

    /// Says that the next accepted write unit of a chunk is in its cells.
    pub(crate) fn programmed(&mut self, chunk: Chunk) {
        let at = self.at(chunk).expect("it was written");
        let record = &mut self.chunks[at];
        assert!(record.programmed < record.written, "{chunk:?} is programmed before it is written");
        record.programmed += 1;
    }

    /// Where write unit `number` of a chunk is to be read from.
    pub fn read(&self, chunk: Chunk, number: u32) -> Result<Place, MediaError> {
        let at = self.at(chunk)?;
        let ChunkState { state, written, outside, programmed, .. } = self.chunks[at];
        let written = written - outside;
        match state {
            State::Bad => return Err(MediaError::Bad(chunk)),
            State::Resetting => return Err(MediaError::HalfReset(chunk)),
            State::Usable => {}
        }
        if number >= written {
            return Err(MediaError::Unwritten { chunk, number, written });
        }
        if !self.lost.is_empty() && self.lost.contains(&(at, number)) {
            return Err(MediaError::Lost { chunk, number });
        }
        if number >= programmed {
            return Ok(Place::Buffer);
        }
        let after = programmed - 1 - number;
        if after < self.geometry.mw_cunits && programmed < self.geometry.write_units() {
            let missing = self.geometry.mw_cunits - after;
            return Err(MediaError::TooEarly { chunk, number, missing });
        }
        Ok(Place::Medium)
    }

    /// Begins to reset a chunk: what was in it is gone.
    pub fn reset(&mut self, chunk: Chunk) -> Result<(), MediaError> {
        let at = self.at(chunk)?;
        if self.chunks[at].state == State::Bad {
            return Err(MediaError::Bad(chunk));
        }
        if self.is_writing(chunk) {
            return Err(MediaError::Writing(chunk));
        }
        let record = &mut self.chunks[at];
        *record = ChunkState { state: State::Resetting, written: 0, programmed: 0, ..*record };
        if !self.lost.is_empty() {
            self.lost.retain(|(lost_at, _)| *lost_at != at);
        }
        Ok(())
    }

    /// Says that a reset is complete. Returns whether the chunk is still good.
    pub(crate) fn erased(&mut self, chunk: Chunk) -> bool {
        let at = self.at(chunk).expect("it was reset");
        let record = &mut self.chunks[at];
        record.erases += 1;
        let is_good = record.erases <= self.endurance;
        record.state = if is_good { State::Usable } else { State::Bad };
        is_good
    }

    /// Power fails while the first write unit that is not programmed of each chunk in `programming` is
    /// being programmed.
    pub(crate) fn power_cut(&mut self, programming: &[Chunk]) {
        for record in &mut self.chunks {
            record.written -= std::mem::take(&mut record.outside);
        }
        if self.buffer_survives {
            // What the buffer holds is programmed on what is left of the power.
            for record in &mut self.chunks {
                record.programmed = record.written;
            }
            return;
        }
        for &chunk in programming {
            let at = self.at(chunk).expect("it is being programmed");
            let number = self.chunks[at].programmed;
            if self.geometry.is_upper(number) {
                self.lost.extend(self.geometry.partner(number).map(|lower| (at, lower)));
            }
            self.lost.insert((at, number));
            // Its cells are not clean: the next write goes behind it.
            self.chunks[at].programmed += 1;
        }
        for record in &mut self.chunks {
            record.written = record.programmed;
        }
    }

    /// Fills a chunk without taking time: how a run finds its device.
    pub fn fill(&mut self, chunk: Chunk) -> Result<(), MediaError> {
        let write_units = self.geometry.write_units();
        let record = self.usable(chunk)?;
        (record.written, record.programmed) = (write_units, write_units);
        Ok(())
    }

    fn usable(&mut self, chunk: Chunk) -> Result<&mut ChunkState, MediaError> {
        let at = self.at(chunk)?;
        match self.chunks[at].state {
            State::Usable => Ok(&mut self.chunks[at]),
            State::Bad => Err(MediaError::Bad(chunk)),
            State::Resetting => Err(MediaError::HalfReset(chunk)),
        }
    }

    fn at(&self, chunk: Chunk) -> Result<usize, MediaError> {
        let is_there = usize::from(chunk.unit.0) < self.geometry.units()
            && chunk.number < self.geometry.chunks_per_unit;
        if is_there { Ok(self.geometry.index(chunk)) } else { Err(MediaError::Unknown(chunk)) }
    }
}
