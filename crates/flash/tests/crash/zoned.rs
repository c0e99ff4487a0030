//! A zoned disk that loses power: blocks of 512 bytes, zones that take less than they are long, and few that may be
//! active at a time. What loses power is the disk, under [`ZnsDevice`] and the engine's blocks of 4 KiB.
//!
//! It is written at write pointers, or by appends, as NVMe disks are; and another program may write it as well.
//!
//! What is flushed stays. Of what was written into a zone since then a part is left, to any of the disk's blocks; a reset
//! and a finish that were not flushed are done or not.

use super::histories::{Device, Known};
use esker_base::Rng;
use esker_flash::chunk_device::BLOCK_BYTES;
use esker_flash::device::zoned::{Condition, Disk, Zone};
use esker_flash::{ChunkDevice, ZnsDevice};
use esker_uring::Buffer;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

const SECTOR: usize = 512;
const ZONES: usize = 24;
const ZONE_BYTES: usize = 64 << 10;
/// What can be written of a zone, and of the last one: so that of all others a block is left, and they have to be finished.
const CAPACITY: usize = 36 << 10;
const LEAST_CAPACITY: usize = 32 << 10;
/// As few as are accepted.
const ACTIVE_MAX: usize = 8;
/// What is written at a time at the most.
const WRITE_BYTES_MAX: usize = 12 << 10;
/// What another program writes.
const FOREIGN: u8 = 0xee;

/// Clones share it.
#[derive(Clone)]
pub struct LossyDisk(Arc<Mutex<State>>);

struct State {
    zones: Vec<Content>,
    appends: bool,
    calls_left: Option<u64>,
    /// Calls until another program writes into a zone before it is written.
    another_after: Option<u64>,
    /// What another program wrote: in which zone, where, and how much.
    foreign: Option<(usize, usize, usize)>,
    seen: SeenZoned,
}

/// What power losses did that only such a disk does.
#[derive(Clone, Copy, Default, Debug)]
pub struct SeenZoned {
    /// Write pointers that were left inside of a block of 4 KiB.
    pub torn: u64,
    /// Zones that were written as far as they are used, and not finished.
    pub unfinished: u64,
    /// Resets that were undone.
    pub undone: u64,
}

impl SeenZoned {
    pub fn plus(self, other: SeenZoned) -> SeenZoned {
        SeenZoned {
            torn: self.torn + other.torn,
            unfinished: self.unfinished + other.unfinished,
            undone: self.undone + other.undone,
        }
    }
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    is_finished: bool,
    /// How much was flushed, and whether as a finished zone.
    flushed: (usize, bool),
    /// What was there, flushed, before a reset that is not.
    before: Option<(Vec<u8>, bool)>,
}

impl LossyDisk {
    /// A disk that is written at write pointers, or by appends.
    pub fn new(appends: bool) -> Self {
        let zones = vec![Content::default(); ZONES];
        let (calls_left, another_after, foreign, seen) = Default::default();
        let state = State { zones, appends, calls_left, another_after, foreign, seen };
        LossyDisk(Arc::new(Mutex::new(state)))
    }

    pub fn seen(&self) -> SeenZoned {
        self.0.lock().seen
    }
}

impl Device for LossyDisk {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        Arc::new(ZnsDevice::of(self.clone()).unwrap())
    }
    fn fail_after(&self, calls: u64) {
        self.0.lock().calls_left = Some(calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        let state = &mut *self.0.lock();
        state.calls_left = None;
        for content in &mut state.zones {
            content.lose_power(rng, &mut state.seen);
        }
    }
}

/// A disk that does not fail: another program writes it instead.
#[derive(Clone)]
pub struct AllUnits(pub LossyDisk);

impl Device for AllUnits {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        self.0.zones()
    }
    fn fail_after(&self, calls: u64) {
        self.0.0.lock().another_after = Some(calls);
    }
    /// Laid out: on an empty disk, what another program writes first makes it another's.
    fn fill(&self) -> Known {
        drop(self.0.open().unwrap());
        self.0.fill()
    }
    fn lose_power(&self, rng: &mut Rng) {
        {
            let mut state = self.0.0.lock();
            (state.another_after, state.foreign) = (None, None);
        }
        self.0.lose_power(rng);
    }
    fn ended(&self, is_failed: bool) {
        let state = self.0.0.lock();
        assert_eq!(
            is_failed,
            state.foreign.is_some(),
            "what somebody else wrote, and no more, is told"
        );
        if let Some((number, at, len)) = state.foreign {
            let found = &state.zones[number].now[at..at + len];
            assert!(found.iter().all(|byte| *byte == FOREIGN), "it was overwritten");
        }
    }
}

impl Content {
    fn lose_power(&mut self, rng: &mut Rng, seen: &mut SeenZoned) {
        match self.before.take() {
            Some(before) if rng.below(2) == 0 => {
                (self.now, self.is_finished) = before;
                seen.undone += 1;
            }
            _ => {
                let sectors = (self.now.len() - self.flushed.0).div_ceil(SECTOR) as u64;
                let left = rng.below(sectors + 1);
                self.now.truncate(self.flushed.0 + left as usize * SECTOR);
                let may_be_finished = left == sectors && rng.below(2) == 0;
                self.is_finished &= self.flushed.1 || may_be_finished;
                let is_whole = self.now.len().is_multiple_of(BLOCK_BYTES as usize);
                seen.torn += u64::from(!is_whole && !self.is_finished);
            }
        }
        let is_used_up = self.now.len() >= LEAST_CAPACITY && self.now.len() < CAPACITY;
        seen.unfinished += u64::from(is_used_up && !self.is_finished);
        self.flushed = (self.now.len(), self.is_finished);
    }
}

impl State {
    /// Whether a call is done; `None` if only a part of it.
    fn call(&mut self) -> Option<bool> {
        self.another_after = self.another_after.map(|left| left.saturating_sub(1));
        let Some(left) = &mut self.calls_left else { return Some(true) };
        let before = *left;
        *left = before.saturating_sub(1);
        match before {
            0 => Some(false),
            1 => None,
            _ => Some(true),
        }
    }

    /// Another program may come first in a zone that so much is about to be written into.
    fn meet_another(&mut self, number: usize, len: usize) {
        let zone = self.zone(number);
        let (at, room) = (zone.written as usize, (zone.capacity - zone.written) as usize);
        // Any number of the disk's blocks: with a whole one of ours, or not.
        let foreign = (len + at) / SECTOR % 19 * SECTOR;
        if self.another_after == Some(0) && (1..=room).contains(&foreign) {
            self.another_after = None;
            self.zones[number].now.extend_from_slice(&vec![FOREIGN; foreign]);
            self.foreign = Some((number, at, foreign));
        }
    }

    fn zone(&self, number: usize) -> Zone {
        let content = &self.zones[number];
        let capacity = if number + 1 == ZONES { LEAST_CAPACITY } else { CAPACITY };
        let (condition, written) = match content.now.len() {
            written if content.is_finished || written == capacity => (Condition::Full, capacity),
            0 => (Condition::Empty, 0),
            written => (Condition::Active, written),
        };
        Zone {
            start: (number * ZONE_BYTES) as u64,
            bytes: ZONE_BYTES as u64,
            capacity: capacity as u64,
            written: written as u64,
            condition,
        }
    }

    fn active(&self) -> usize {
        (0..ZONES).filter(|number| self.zone(*number).condition == Condition::Active).count()
    }
}

fn number_of(offset: u64) -> usize {
    offset as usize / ZONE_BYTES
}

fn gone() -> io::Error {
    io::Error::other("the disk is gone")
}

impl Disk for LossyDisk {
    fn name(&self) -> String {
        "a zoned disk in memory".to_owned()
    }

    fn report(&self, start: u64) -> io::Result<Vec<Zone>> {
        let state = self.0.lock();
        Ok((number_of(start)..ZONES).map(|number| state.zone(number)).collect())
    }

    fn active_max(&self) -> Option<usize> {
        Some(ACTIVE_MAX)
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        let state = self.0.lock();
        let (number, at) = (number_of(offset), offset as usize % ZONE_BYTES);
        assert!((at + out.len()) as u64 <= state.zone(number).written, "behind what is written");
        let content = &state.zones[number].now;
        for (place, byte) in out.iter_mut().enumerate() {
            // What was not written of a finished zone is zeros.
            *byte = content.get(at + place).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn written_by(&self) -> String {
        "memory".to_owned()
    }

    fn write_bytes_max(&self) -> usize {
        WRITE_BYTES_MAX
    }

    fn write(&self, believed: &Zone, bytes: Buffer) -> io::Result<u64> {
        let mut state = self.0.lock();
        let outcome = state.call();
        let number = number_of(believed.start);
        state.meet_another(number, bytes.len());
        let (zone, active) = (state.zone(number), state.active());
        let (end, is_shared) = (zone.written + bytes.len() as u64, state.foreign.is_some());
        if is_shared && (end > zone.capacity || !state.appends) {
            return Err(io::Error::other(
                "not at the write pointer, or behind the zone's capacity",
            ));
        }
        assert!(zone.condition != Condition::Full);
        assert!(is_shared || zone.written == believed.written, "not at the write pointer");
        assert!(bytes.len() <= WRITE_BYTES_MAX, "too much at a time");
        assert!(bytes.len().is_multiple_of(SECTOR), "no whole blocks");
        assert!(zone.written + bytes.len() as u64 <= zone.capacity, "behind the zone's capacity");
        assert!(zone.condition == Condition::Active || active < ACTIVE_MAX, "{active} are active");
        let done = match outcome {
            Some(true) => bytes.len(),
            Some(false) => 0,
            None => bytes.len() / SECTOR / 2 * SECTOR,
        };
        state.zones[number].now.extend_from_slice(&bytes[..done]);
        let at = zone.start + zone.written;
        if outcome == Some(true) { Ok(at) } else { Err(gone()) }
    }

    fn reset(&self, zone: &Zone) -> io::Result<()> {
        let mut state = self.0.lock();
        let outcome = state.call();
        if outcome != Some(false) {
            let content = &mut state.zones[number_of(zone.start)];
            let (len, is_finished) = content.flushed;
            let flushed = (content.now[..len].to_vec(), is_finished);
            let before = content.before.take().unwrap_or(flushed);
            *content = Content { before: Some(before), ..Content::default() };
        }
        if outcome == Some(true) { Ok(()) } else { Err(gone()) }
    }

    fn finish(&self, zone: &Zone) -> io::Result<()> {
        let mut state = self.0.lock();
        let outcome = state.call();
        if outcome != Some(false) {
            state.zones[number_of(zone.start)].is_finished = true;
        }
        if outcome == Some(true) { Ok(()) } else { Err(gone()) }
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.call() != Some(true) {
            return Err(gone());
        }
        for content in &mut state.zones {
            content.flushed = (content.now.len(), content.is_finished);
            content.before = None;
        }
        Ok(())
    }

    fn claim(&self) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}
