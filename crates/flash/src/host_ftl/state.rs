//! The state of the host: waiting threads, answered threads, and the buffer's content.

use super::{Queues, Read, WriteOrder};
use crate::device::chunk_rules::MediaError;
use crate::device::sim::{Completion, Kind};
use crate::placement::WriteAdmission;
use crate::{Chunk, Sim};
use parking_lot::Condvar;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

/// How often it is looked for writes that have become late, and for resets that need not wait any more.
pub(super) const LOOK_NS: u64 = 500_000;

/// The tag of alarms that no thread waits for.
const NOBODY: u32 = u32::MAX;

pub(super) struct State {
    pub(super) sim: Sim,
    queues: Queues,
    chunks: Vec<ChunkBufferState>,
    /// Write units in the buffer, and how many it holds: `mw_cunits` of each unit, which is what has to be kept
    /// anyway until it can be read from the medium.
    pub(super) buffered: u64,
    pub(super) room: u64,
    pub(super) admission: Option<WriteAdmission>,
    /// Since when writers wait, each for one write unit.
    pub(super) held: Vec<u64>,
    /// Resets in progress.
    pub(super) resets: u32,
    waits: Vec<Wait>,
    free: Vec<u32>,
    /// Threads that were answered and have not come back, oldest answer first.
    away: VecDeque<AnsweredThread>,
    is_looking: bool,
    looks_for_late: bool,
    pub(super) is_timeless: bool,
    pub(super) is_closing: bool,
    /// The clock when time went on last.
    pub(super) real_at: Duration,
    /// What has passed on the clock and not in the model, in the model's time, and is to be made up for.
    pub(super) owed_ns: u64,
    pub(super) reads: Vec<u64>,
    pub(super) reads_out: u32,
    pub(super) programs: u64,
}

/// What the host knows of a chunk.
#[derive(Clone, Copy, Default)]
struct ChunkBufferState {
    /// Write units accepted since the last reset was, and how many of them are programmed.
    accepted: u32,
    programmed: u32,
    /// Write units of before the last reset that are still in the buffer.
    stale: u32,
    /// Resets that were accepted, and those before.
    erases: u32,
    is_bad: bool,
}

/// What one thread waits for.
struct Wait {
    left: u32,
    answered: Arc<Condvar>,
    thread: ThreadId,
}

/// A thread that was answered: when, in the model's time and on the clock.
struct AnsweredThread {
    thread: ThreadId,
    at: u64,
    real_at: Duration,
}

impl State {
    pub(super) fn new(sim: Sim, order: WriteOrder, real_at: Duration) -> Self {
        let geometry = *sim.media().geometry();
        let units = geometry.units();
        let known = |index| {
            let chunk = geometry.chunk(index);
            let (is_bad, erases) = (sim.media().is_bad(chunk), sim.media().erases(chunk));
            ChunkBufferState { is_bad, erases, ..ChunkBufferState::default() }
        };
        let room = u64::from(geometry.mw_cunits.max(1)) * units as u64;
        State {
            chunks: (0..geometry.chunks()).map(known).collect(),
            sim,
            queues: Queues::new(units, order, room),
            buffered: 0,
            room,
            admission: None,
            held: Vec::new(),
            resets: 0,
            waits: Vec::new(),
            free: Vec::new(),
            away: VecDeque::new(),
            is_looking: false,
            looks_for_late: matches!(order, WriteOrder::ReadsFirst | WriteOrder::InTurns { .. }),
            is_timeless: false,
            is_closing: false,
            real_at,
            owed_ns: 0,
            reads: vec![0; units],
            reads_out: 0,
            programs: 0,
        }
    }

    /// A number for what a thread is going to wait for.
    pub(super) fn ticket(&mut self) -> u32 {
        self.is_back();
        let thread = std::thread::current().id();
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.waits.push(Wait { left: 0, answered: Arc::default(), thread });
            self.waits.len() as u32 - 1
        });
        self.waits[ticket as usize].thread = thread;
        ticket
    }

    /// The calling thread has come back: it is not waited for while it waits itself.
    pub(super) fn is_back(&mut self) {
        let thread = std::thread::current().id();
        self.away.retain(|away| away.thread != thread);
    }

    pub(super) fn is_answered(&self, ticket: u32) -> bool {
        self.waits[ticket as usize].left == 0
    }

    pub(super) fn answered(&self, ticket: u32) -> Arc<Condvar> {
        self.waits[ticket as usize].answered.clone()
    }

    /// The thread goes on.
    pub(super) fn forget(&mut self, ticket: u32) {
        self.free.push(ticket);
    }

    /// When the thread was answered that is away longest, but for those that are since before `since` on the clock:
    /// they wait for something else.
    pub(super) fn oldest_answer(&mut self, since: Duration) -> Option<u64> {
        while self.away.front().is_some_and(|away| away.real_at < since) {
            self.away.pop_front();
        }
        self.away.front().map(|away| away.at)
    }

    /// Sends a read, unless the buffer has what is read.
    pub(super) fn read(
        &mut self,
        chunk: Chunk,
        number: u32,
        part: Range<u32>,
        ticket: u32,
    ) -> Result<(), MediaError> {
        let geometry = *self.sim.media().geometry();
        let programmed = self.chunks[geometry.index(chunk)].programmed;
        let is_readable =
            programmed == geometry.write_units() || number + geometry.mw_cunits < programmed;
        if is_readable {
            let since = self.sim.now();
            let read = Read { chunk, number, part, tag: ticket, since };
            self.queues.read(&mut self.sim, read)?;
            self.waits[ticket as usize].left += 1;
            self.reads_out += 1;
        }
        Ok(())
    }

    pub(super) fn accepted(&self, chunk: Chunk) -> u32 {
        self.chunks[self.index(chunk)].accepted
    }

    pub(super) fn is_bad(&self, chunk: Chunk) -> bool {
        self.chunks[self.index(chunk)].is_bad
    }

    fn index(&self, chunk: Chunk) -> usize {
        self.sim.media().geometry().index(chunk)
    }

    pub(super) fn has_room(&self) -> bool {
        self.buffered < self.room
    }

    /// Whether a writer that waits since then may write.
    pub(super) fn admits(&self, since: u64) -> bool {
        let held_ns = self.sim.now() - since;
        let admission = self.admission.as_ref();
        admission.is_none_or(|admission| admission.admits(&self.queues.pressure(held_ns)))
    }

    /// Takes the next write unit of a chunk into the buffer.
    pub(super) fn write(&mut self, chunk: Chunk) {
        let index = self.index(chunk);
        let known = &mut self.chunks[index];
        known.accepted += 1;
        self.buffered += 1;
        self.queues.write(&mut self.sim, chunk, known.accepted - 1, index as u32);
        self.look_later();
    }

    pub(super) fn write_at_once(&mut self, chunk: Chunk) {
        let index = self.index(chunk);
        let known = &mut self.chunks[index];
        let number = known.accepted;
        self.sim.write_at_once(chunk, number).expect("writes of a chunk are in order");
        (known.accepted, known.programmed) = (number + 1, number + 1);
    }

    /// Takes a reset. Says whether the chunk is good after it.
    pub(super) fn reset(&mut self, chunk: Chunk) -> bool {
        let index = self.index(chunk);
        let known = &mut self.chunks[index];
        if known.is_bad {
            return false;
        }
        known.stale += known.accepted - known.programmed;
        (known.accepted, known.programmed) = (0, 0);
        known.is_bad = known.erases >= self.sim.media().endurance();
        known.erases += 1;
        let is_good = !known.is_bad;
        if self.is_timeless {
            self.sim.reset_at_once(chunk).expect("it was good");
        } else {
            self.resets += 1;
            self.queues.reset(&mut self.sim, chunk);
            self.look_later();
        }
        is_good
    }

    pub(super) fn alarm(&mut self, after_ns: u64, ticket: u32) {
        self.waits[ticket as usize].left += 1;
        self.sim.alarm(self.sim.now() + after_ns, ticket);
    }

    /// Takes what the device has done. Says whether a writer that waits may go on.
    pub(super) fn take(&mut self, done: &Completion) -> bool {
        let unit = usize::from(done.unit.0);
        match done.kind {
            Kind::Read => {
                self.reads[unit] += 1;
                self.reads_out -= 1;
                self.queues.read_done(&mut self.sim, unit);
                self.answer(done);
            }
            Kind::Write => {
                let known = &mut self.chunks[done.tag as usize];
                match known.stale {
                    0 => known.programmed += 1,
                    _ => known.stale -= 1,
                }
                self.buffered -= 1;
                self.programs += 1;
                self.queues.done(&mut self.sim, unit);
                self.look_later();
            }
            Kind::Reset => {
                self.resets -= 1;
                self.queues.done(&mut self.sim, unit);
                self.look_later();
            }
            Kind::Alarm if done.tag == NOBODY => {
                self.is_looking = false;
                self.queues.send_overdue(&mut self.sim);
                self.look_later();
            }
            Kind::Alarm => self.answer(done),
        }
        let oldest = self.held.iter().min();
        matches!(done.kind, Kind::Write | Kind::Reset)
            || oldest.is_some_and(|since| self.has_room() && self.admits(*since))
    }

    fn answer(&mut self, done: &Completion) {
        let wait = &mut self.waits[done.tag as usize];
        wait.left -= 1;
        if wait.left == 0 {
            wait.answered.notify_one();
            let (thread, at, real_at) = (wait.thread, done.at, self.real_at);
            self.away.push_back(AnsweredThread { thread, at, real_at });
        }
    }

    /// Whether the device has all that it acknowledged in its cells.
    pub(super) fn is_programmed(&self) -> bool {
        let geometry = *self.sim.media().geometry();
        (0..geometry.chunks()).all(|index| !self.sim.media().is_writing(geometry.chunk(index)))
    }

    /// Looks again for writes that have become late, as long as any wait, and for resets.
    fn look_later(&mut self) {
        let has_some = |state: &State| {
            (state.looks_for_late && state.queues.waiting > 0)
                || (state.resets > 0 && state.queues.has_waiting_reset(&state.sim))
        };
        if !self.is_looking && has_some(self) {
            self.is_looking = true;
            self.sim.alarm(self.sim.now() + LOOK_NS, NOBODY);
        }
    }
}
