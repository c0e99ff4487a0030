//! A device model behind blocking calls, so that code for a real device runs on it.
//!
//! The host owns the write buffer. A write is accepted once the buffer has space, and is sent when
//! its unit's turn comes (`write_queues`), as pblk does for an open-channel device (LightNVM, section 4).
//! Buffered data can be read. The buffer is assumed to survive power loss, so a flush has nothing
//! to wait for.
//!
//! The model's time passes in one of two ways:
//!
//! * *Virtual*: a waiting thread advances the time to the next event. Time stops while no thread
//!   waits, so computation takes no model time. With one thread at a time, a run is deterministic.
//! * *Paced*: time follows a clock, slowed down by a factor, and a thread of the host executes
//!   events when they are due (`time_dilation`). Any number of threads may wait. If an answered thread does
//!   not return in time because no processor is available, time stops until it does. The factor is
//!   therefore a lower bound; [`HostFtl::now`] compared with the clock gives the actual one.
//!
//! To reach the state of a device after long use, writes can be [made without
//! time](HostFtl::set_timeless).

mod clock;
mod read_queue;
mod state;
#[cfg(test)]
mod tests;
mod time_dilation;
mod write_queues;

pub use clock::HostClock;
pub(crate) use read_queue::{Read, Reads};
pub use time_dilation::DilatedClock;
pub(crate) use write_queues::{Queues, WriteOrder};

use crate::device::chunk_rules::MediaError;
use crate::placement::{WriteAdmission, WriteDispatch};
use crate::{Chunk, Geometry, Preset, ReadPriority, Sim};
use esker_base::background::Running;
use parking_lot::{Condvar, Mutex, MutexGuard};
use state::{LOOK_NS, State};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A device model and what the host knows of it. Dropped, it ends the thread that paces it.
pub struct HostFtl {
    shared: Arc<Shared>,
    pump: Mutex<Option<Box<dyn Running>>>,
}

struct Shared {
    preset: String,
    geometry: Geometry,
    pace: Option<DilatedClock>,
    state: Mutex<State>,
    /// Signals that there is work, or that the host ends.
    work: Condvar,
    /// A write has left the buffer.
    room: Condvar,
}

/// What units did up to a point in time.
#[derive(Clone, PartialEq, Debug)]
pub struct Activity {
    /// The point in time, in nanoseconds of the model.
    pub at: u64,
    /// By unit: how long it was busy with reads, and with writes and resets, in nanoseconds.
    pub read_ns: Vec<u64>,
    /// See `read_ns`.
    pub write_ns: Vec<u64>,
    /// By unit: reads that it answered.
    pub reads: Vec<u64>,
    /// Write units that were programmed.
    pub programs: u64,
}

impl HostFtl {
    /// A new device of this kind in virtual time; `seed` decides which of its chunks are bad.
    pub fn in_virtual_time(
        preset: &Preset,
        form: ReadPriority,
        sending: WriteDispatch,
        seed: u64,
    ) -> Self {
        let shared = Arc::new(Shared::new(preset, form, sending, seed, None));
        HostFtl { shared, pump: Mutex::default() }
    }

    /// A new device of this kind whose time passes with a clock. Fails if the background has no threads to give.
    pub fn paced(
        preset: &Preset,
        form: ReadPriority,
        sending: WriteDispatch,
        seed: u64,
        pace: DilatedClock,
    ) -> esker_base::Result<Self> {
        let background = pace.background.clone();
        let shared = Arc::new(Shared::new(preset, form, sending, seed, Some(pace)));
        let pumped = shared.clone();
        let body = Box::new(move || pumped.pump());
        let pump =
            background.spawn("flash-model", esker_base::background::Priority::Normal, body)?;
        let pump = pump.ok_or_else(|| esker_base::Error::InvalidSetting {
            setting: "background of a paced device",
            value: "one without threads".to_owned(),
            reason: "a thread has to make events happen when they are due".to_owned(),
        })?;
        Ok(HostFtl { shared, pump: Mutex::new(Some(pump)) })
    }

    /// The name of its preset.
    pub fn preset(&self) -> &str {
        &self.shared.preset
    }

    /// What it is made of.
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// The model's time.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.shared.lock().sim.now())
    }

    /// Whether a chunk can't be used.
    pub fn is_bad(&self, chunk: Chunk) -> bool {
        self.shared.state.lock().is_bad(chunk)
    }

    /// What units did so far.
    pub fn activity(&self) -> Activity {
        let state = self.shared.lock();
        let units = || self.shared.geometry.all_units();
        Activity {
            at: state.sim.now(),
            read_ns: units().map(|unit| state.sim.read_ns(unit)).collect(),
            write_ns: units().map(|unit| state.sim.write_ns(unit)).collect(),
            reads: state.reads.clone(),
            programs: state.programs,
        }
    }

    /// Write units in the buffer, as a part of what it holds.
    pub fn buffer_fill(&self) -> f64 {
        let state = self.shared.state.lock();
        state.buffered as f64 / state.room as f64
    }

    /// Whether reads keep half of the units busy or more while more is in the buffer than an eighth of the units
    /// program at a time.
    pub fn is_busy(&self) -> bool {
        let state = self.shared.state.lock();
        let units = state.reads.len() as u64;
        2 * u64::from(state.reads_out) >= units && 8 * state.buffered > units
    }

    /// Reads parts of a chunk, each a write unit's number and which bytes of it, and waits for all of them.
    pub fn read(
        &self,
        chunk: Chunk,
        parts: impl Iterator<Item = (u32, Range<u32>)>,
    ) -> Result<(), MediaError> {
        let mut state = self.shared.lock();
        if state.is_timeless {
            return Ok(());
        }
        let ticket = state.ticket();
        let mut outcome = Ok(());
        for (number, part) in parts {
            outcome = outcome.and(state.read(chunk, number, part, ticket));
        }
        self.shared.wait(state, ticket);
        outcome
    }

    /// From now on, writers are throttled as `admission` says.
    pub fn hold_writers(&self, admission: Option<WriteAdmission>) {
        self.shared.lock().admission = admission;
    }

    /// Accepts the next write units of a chunk, up to number `end`, once the buffer has space and
    /// they are admitted.
    pub fn write(&self, chunk: Chunk, end: u32) {
        let mut state = self.shared.lock();
        state.is_back();
        let mut since = state.sim.now();
        while state.accepted(chunk) < end {
            if state.is_timeless {
                state.write_at_once(chunk);
            } else if state.has_room() && state.admits(since) {
                state.write(chunk);
                since = state.sim.now();
            } else {
                state.held.push(since);
                self.shared.wait_for_room(&mut state);
                let held = state.held.iter().position(|other| *other == since);
                state.held.swap_remove(held.expect("it was pushed"));
            }
        }
        self.shared.work.notify_one();
    }

    /// Accepts a reset, which is done behind the unit's writes. Says whether the chunk is still good.
    pub fn reset(&self, chunk: Chunk) -> bool {
        let mut state = self.shared.lock();
        state.is_back();
        let is_good = state.reset(chunk);
        self.shared.work.notify_one();
        is_good
    }

    /// From now on writes and resets take no time, or do again. What was accepted before is done first.
    pub fn set_timeless(&self, is_timeless: bool) {
        let mut state = self.shared.lock();
        state.is_back();
        loop {
            while state.buffered > 0 || state.resets > 0 {
                self.shared.wait_for_room(&mut state);
            }
            if state.is_programmed() {
                break;
            }
            // A device with a buffer of its own does not report when the buffer is empty.
            drop(state);
            self.sleep(Duration::from_nanos(LOOK_NS));
            state = self.shared.lock();
        }
        state.is_timeless = is_timeless;
    }

    /// Waits until the model's time has gone on so much.
    pub fn sleep(&self, duration: Duration) {
        let mut state = self.shared.lock();
        if let (true, Some(pace)) = (state.is_timeless, &self.shared.pace) {
            drop(state);
            pace.clock.sleep(duration);
            return;
        }
        let ticket = state.ticket();
        state.alarm(duration.as_nanos() as u64, ticket);
        self.shared.wait(state, ticket);
    }
}

impl Shared {
    fn new(
        preset: &Preset,
        form: ReadPriority,
        sending: WriteDispatch,
        seed: u64,
        pace: Option<DilatedClock>,
    ) -> Self {
        let order = WriteOrder::of(sending, form);
        let real = pace.as_ref().map_or(Duration::ZERO, |pace| pace.clock.now());
        let state = State::new(Sim::new(preset, form, seed), order, real);
        Shared {
            preset: preset.name.clone(),
            geometry: preset.geometry(),
            pace,
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// The state as it is now.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if let Some(pace) = &self.pace {
            self.advance(&mut state, pace);
        }
        state
    }

    /// Waits until all that a ticket stands for is answered.
    fn wait(&self, mut state: MutexGuard<'_, State>, ticket: u32) {
        if let Some(pace) = &self.pace {
            self.work.notify_one();
            let answered = state.answered(ticket);
            self.advance(&mut state, pace);
            while !state.is_answered(ticket) {
                answered.wait(&mut state);
            }
        } else {
            while !state.is_answered(ticket) {
                self.step(&mut state);
            }
        }
        state.forget(ticket);
    }

    fn wait_for_room(&self, state: &mut MutexGuard<'_, State>) {
        match self.pace {
            Some(_) => {
                self.work.notify_one();
                self.room.wait(state);
            }
            None => self.step(state),
        }
    }

    /// Goes on to the next answer.
    fn step(&self, state: &mut State) {
        let done = state.sim.next_completion().expect("what is waited for is in progress");
        state.take(&done);
    }
}

impl Drop for HostFtl {
    fn drop(&mut self) {
        if let Some(pump) = self.pump.get_mut().take() {
            self.shared.state.lock().is_closing = true;
            self.shared.work.notify_one();
            pump.join();
        }
    }
}
