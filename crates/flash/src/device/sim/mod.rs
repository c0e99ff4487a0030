//! A deterministic model of a flash device in virtual time, in whole nanoseconds.
//!
//! Requests pass through dies, channels and the host link. Each executes one operation at a time,
//! except for dies whose planes read independently (`planes`):
//!
//! * A read waits for its die, is sensed, waits for the channel, and is transferred out and to the
//!   host. The die is busy until the data is out.
//! * A write is copied from the host into the buffer once it has space, and is acknowledged. It
//!   waits for its die and the channel, is transferred in piece by piece, and is programmed; its
//!   buffer space is then released. Without a buffer, it is acknowledged once it is programmed.
//! * A reset waits for its die and keeps it busy.
//!
//! The device's [`ReadPriority`] says which request goes first and whether programs yield to reads. The
//! caller submits requests and takes [`Completion`]s one by one. The current time is that of the
//! last completion taken. The model has no threads and no data; [`Media`] decides which requests a
//! device would reject.

mod bus;
mod die;
mod events;
mod pipeline;
mod planes;
mod read_priority;
mod request;
#[cfg(test)]
mod tests;
mod timings;

pub use read_priority::{ReadPriority, SUSPENDS_MOST, WRITE_DEADLINE_NS};
pub use request::Kind;

use super::chunk_rules::{Media, MediaError, Place};
use crate::{Chunk, Preset, Unit};
use bus::Bus;
use die::{Die, State};
use events::{DelayQueue, Event, Events};
use planes::Plane;
use request::{Request, Slab};
use std::collections::VecDeque;
use std::ops::Range;
use timings::Timings;

/// Something is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// When, in nanoseconds since the beginning.
    pub at: u64,
    /// When it was submitted.
    pub submitted: u64,
    /// What it was.
    pub kind: Kind,
    /// What the host called it.
    pub tag: u32,
    /// Where it was.
    pub unit: Unit,
}

/// A device.
#[derive(Debug)]
pub struct Sim {
    // Constant after construction.
    form: ReadPriority,
    times: Timings,
    // What changes.
    now: u64,
    events: Events,
    requests: Slab,
    dies: Vec<Die>,
    /// Those of all dies, if planes read independently, and else none.
    planes: Vec<Plane>,
    buses: Vec<Bus>,
    media: Media,
    /// When the way to the host is free, and the way from it.
    to_host_free: u64,
    from_host_free: u64,
    buffer_used: u64,
    /// Writes that wait for buffer space.
    unbuffered: VecDeque<u32>,
}

// The kinds of events, above the number of what they happen to.
const ARRIVED: u32 = 0;
const ARRAY: u32 = 1 << 25;
const MOVED: u32 = 2 << 25;
const FINISHED: u32 = 3 << 25;
const BUFFERED: u32 = 4 << 25;
const SENSED: u32 = 5 << 25;
const KIND: u32 = 7 << 25;

impl Sim {
    /// A device as it is delivered; `seed` decides which of its chunks are bad.
    pub fn new(preset: &Preset, form: ReadPriority, seed: u64) -> Self {
        Sim::with_media(preset, form, Media::new(preset, seed))
    }

    /// A device with this content.
    pub fn with_media(preset: &Preset, form: ReadPriority, media: Media) -> Self {
        let geometry = *media.geometry();
        let planes = match preset.has_independent_plane_reads() {
            true => vec![Plane::default(); geometry.units() * usize::from(geometry.planes)],
            false => Vec::new(),
        };
        Sim {
            form,
            times: Timings::of(preset),
            now: 0,
            events: Events::new(),
            requests: Slab::default(),
            dies: vec![Die::NEW; geometry.units()],
            planes,
            buses: (0..geometry.groups).map(|_| Bus::new(geometry.units_per_group)).collect(),
            media,
            to_host_free: 0,
            from_host_free: 0,
            buffer_used: 0,
            unbuffered: VecDeque::new(),
        }
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// What the device holds.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// How long a unit was busy with writes and resets, in nanoseconds.
    pub fn write_ns(&self, unit: Unit) -> u64 {
        self.dies[usize::from(unit.0)].write_ns
    }

    /// How long a unit was busy with reads, from the start of sensing until the data was out, in nanoseconds.
    pub fn read_ns(&self, unit: Unit) -> u64 {
        self.dies[usize::from(unit.0)].read_ns
    }

    /// How long a channel was busy, in nanoseconds.
    pub fn bus_busy_ns(&self, group: usize) -> u64 {
        self.buses[group].busy_ns
    }

    /// How many events there were: equal runs have equal numbers.
    pub fn events(&self) -> u64 {
        self.events.count()
    }

    /// Reads bytes out of write unit `number` of a chunk.
    pub fn read(
        &mut self,
        chunk: Chunk,
        number: u32,
        part: Range<u32>,
        tag: u32,
    ) -> Result<(), MediaError> {
        let is_part = part.start < part.end && part.end <= self.times.write_unit_bytes;
        assert!(is_part, "{part:?} in one read");
        let bytes = part.end - part.start;
        let place = self.media.read(chunk, number)?;
        let is_upper = self.media.geometry().is_upper(number);
        let mut request = Request::new(Kind::Read, chunk, tag, self.now);
        (request.bytes, request.left) = (bytes, bytes);
        request.array_ns = self.times.read_ns[usize::from(is_upper)];
        if !self.planes.is_empty() {
            request.planes = self.media.geometry().planes_of(&part);
        }
        let slot = self.requests.add(request);
        let at = self.now + self.times.read_firmware_ns;
        match place {
            Place::Medium => _ = self.events.push(DelayQueue::Arrival, at, ARRIVED | slot),
            Place::Buffer => self.send(slot, at),
        }
        Ok(())
    }

    /// Writes write unit `number` of a chunk.
    pub fn write(&mut self, chunk: Chunk, number: u32, tag: u32) -> Result<(), MediaError> {
        self.media.write(chunk, number)?;
        let is_upper = self.media.geometry().is_upper(number);
        let mut request = Request::new(Kind::Write, chunk, tag, self.now);
        (request.bytes, request.left) = (self.times.write_unit_bytes, self.times.write_unit_bytes);
        request.array_ns = self.times.program_ns[usize::from(is_upper)];
        let slot = self.requests.add(request);
        self.unbuffered.push_back(slot);
        self.media.waits(chunk);
        self.fill_buffer();
        Ok(())
    }

    /// Resets a chunk.
    pub fn reset(&mut self, chunk: Chunk, tag: u32) -> Result<(), MediaError> {
        self.media.reset(chunk)?;
        let mut request = Request::new(Kind::Reset, chunk, tag, self.now);
        request.array_ns = self.times.erase_ns;
        let slot = self.requests.add(request);
        self.arrive(slot);
        Ok(())
    }

    /// Writes a write unit without taking time, while no request for it is in flight. Prepares the
    /// device for a run.
    pub fn write_at_once(&mut self, chunk: Chunk, number: u32) -> Result<(), MediaError> {
        self.media.write(chunk, number)?;
        self.media.programmed(chunk);
        Ok(())
    }

    /// Resets a chunk without taking time, as [`write_at_once`](Sim::write_at_once) writes.
    pub fn reset_at_once(&mut self, chunk: Chunk) -> Result<(), MediaError> {
        self.media.reset(chunk)?;
        self.media.erased(chunk);
        Ok(())
    }

    /// Completes at the given time, or now if that is past.
    pub fn alarm(&mut self, at: u64, tag: u32) {
        let chunk = Chunk { unit: Unit(0), number: 0 };
        let slot = self.requests.add(Request::new(Kind::Alarm, chunk, tag, self.now));
        self.events.push(DelayQueue::Other, at.max(self.now), FINISHED | slot);
    }

    /// Advances to the next completion; `None` if nothing is in flight.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let event = self.events.pop()?;
            if let Some(done) = self.happen(event) {
                return Some(done);
            }
        }
    }

    /// Goes on to the next completion until the given time; `None`, and then it is that time, if there is none.
    pub fn completion_by(&mut self, at: u64) -> Option<Completion> {
        while self.events.next_at().is_some_and(|next| next <= at) {
            let event = self.events.pop().expect("there is one");
            if let Some(done) = self.happen(event) {
                return Some(done);
            }
        }
        self.now = self.now.max(at);
        None
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.events.next_at().is_none()
    }

    #[inline]
    fn happen(&mut self, event: Event) -> Option<Completion> {
        debug_assert!(event.at >= self.now);
        self.now = event.at;
        let number = event.what & !KIND;
        let done = match event.what & KIND {
            ARRIVED => {
                self.arrive(number);
                None
            }
            ARRAY if self.dies[number as usize].timer != event.order => None,
            ARRAY => self.array_done(number as u16),
            MOVED => {
                self.moved(number as usize);
                None
            }
            BUFFERED => self.buffered(number),
            SENSED => {
                self.sensed(number as usize);
                None
            }
            _ => Some(self.requests.remove(number)),
        };
        let Request { kind, tag, submitted, chunk, .. } = done?;
        Some(Completion { at: self.now, submitted, kind, tag, unit: chunk.unit })
    }

    /// Cuts the power now, and restores it: requests in flight are lost, and the medium is in its
    /// state after that.
    pub fn power_cut(&mut self) {
        let programming = |die: &Die| {
            let slot = match die.state {
                State::Changing | State::Stopping => Some(die.current),
                _ => die.suspended,
            };
            let request = self.requests.get(slot?);
            (request.kind == Kind::Write).then_some(request.chunk)
        };
        let programming: Vec<Chunk> = self.dies.iter().filter_map(programming).collect();
        self.media.power_cut(&programming);
        self.events = Events::new();
        self.requests = Slab::default();
        self.dies.fill(Die::NEW);
        let dies = self.times.units_per_group;
        self.buses.fill_with(|| Bus::new(dies));
        (self.buffer_used, self.to_host_free, self.from_host_free) = (0, self.now, self.now);
        self.unbuffered.clear();
    }
}
