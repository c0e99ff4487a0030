//! Accepted writes that are not yet sent, by unit.
//!
//! * A unit's writes are sent in order.
//! * A reset is sent alone, as a chunk accepts nothing before it completes. It also waits until
//!   earlier writes to its chunk are programmed. A device with its own buffer does not report this,
//!   so it is polled.
//! * If reads have priority, a write is sent to a unit only if the unit is idle and no read waits
//!   for it, or if the write is late.
//!
//! With [`WriteDispatch::InTurns`], only some units are sent writes at once,
//! those without waiting reads first. Their number is one plus a fraction of a share of all units,
//! which grows with the fill of the buffer. If all units are read alike, a read then rarely meets a
//! write, a burst of writes does not block all units, and a full buffer activates more of them.
//!
//! Reads are sent on arrival. For a device with a limited number of commands, each completed read
//! lets another one be sent (`read_queue`). An unsent read counts as waiting for its unit, so only a
//! late write passes it.

use super::{Read, Reads};
use crate::device::chunk_rules::MediaError;
use crate::placement::{ReadPressure, WriteDispatch};
use crate::{Chunk, ReadPriority, Sim};
use std::collections::VecDeque;

/// A write is late after so long: about two programs' time, so that what is put off is made up for.
const LATE_NS: u64 = 2_500_000;

#[derive(Clone, Copy, Debug)]
enum Task {
    Reset(Chunk),
    Write { chunk: Chunk, number: u32, tag: u32, since: u64 },
}

#[derive(Clone, Debug, Default)]
struct Queue {
    tasks: VecDeque<Task>,
    sent: u32,
    is_resetting: bool,
    /// Reads that the unit has not answered, sent or not.
    reads: u32,
}

/// When a unit is sent its next write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteOrder {
    /// At once.
    AtOnce,
    /// When it has done the one before: what follows in a burst is not yet late when its turn comes.
    OneByOne,
    /// As that, and when no read waits for the unit or the write is late.
    ReadsFirst,
    /// As that, and few units at a time: of so many one, if the buffer is full.
    InTurns { share: u64 },
}

impl WriteOrder {
    /// In which order writes are sent to a device of this form by a policy that sends so.
    pub(crate) fn of(sending: WriteDispatch, form: ReadPriority) -> WriteOrder {
        match (sending, form) {
            (WriteDispatch::AtOnce, _) => WriteOrder::AtOnce,
            (WriteDispatch::ReadsFirst, ReadPriority::HostOnly) => WriteOrder::ReadsFirst,
            (WriteDispatch::ReadsFirst, _) => WriteOrder::OneByOne,
            (WriteDispatch::InTurns, form) => WriteOrder::in_turns(form),
        }
    }

    /// In turns on a device of this form. Programs that give way to reads take many times as long where reads always
    /// wait; with few at a time they would not be done as fast as they come.
    fn in_turns(form: ReadPriority) -> WriteOrder {
        WriteOrder::InTurns { share: if form == ReadPriority::HostOnly { 4 } else { 1 } }
    }
}

/// All units' queues.
#[derive(Debug)]
pub(crate) struct Queues {
    queues: Vec<Queue>,
    order: WriteOrder,
    /// Write units that the buffer holds.
    room: u64,
    /// Write units that wait in the queues.
    pub(crate) waiting: u64,
    /// Writes and resets that the device has.
    sent: u64,
    /// Reads that wait, if the device takes only so many at a time.
    reads: Option<Reads>,
}

impl Queues {
    pub(crate) fn new(units: usize, order: WriteOrder, room: u64) -> Self {
        let queues = vec![Queue::default(); units];
        Queues { queues, order, room, waiting: 0, sent: 0, reads: None }
    }

    /// The same for a device that takes only so many reads at a time.
    pub(crate) fn with_slots(self, reads: Option<Reads>) -> Self {
        Queues { reads, ..self }
    }

    /// The load when a writer wants to write that has waited for `held_ns`.
    pub(crate) fn pressure(&self, held_ns: u64) -> ReadPressure {
        let reads = |queue: &Queue| u64::from(queue.reads);
        ReadPressure {
            units: self.queues.len() as u64,
            reads: self.queues.iter().map(reads).sum(),
            reads_behind_writes: self.queues.iter().filter(|queue| queue.sent > 0).map(reads).sum(),
            waiting: self.waiting,
            held_ns,
        }
    }

    /// Adds a read, which is answered under its tag.
    #[inline]
    pub(crate) fn read(&mut self, sim: &mut Sim, read: Read) -> Result<(), MediaError> {
        let unit = usize::from(read.chunk.unit.0);
        let Some(reads) = &mut self.reads else {
            sim.read(read.chunk, read.number, read.part, read.tag)?;
            self.queues[unit].reads += 1;
            return Ok(());
        };
        sim.media().read(read.chunk, read.number)?;
        reads.push(read);
        self.queues[unit].reads += 1;
        self.send_reads(sim);
        Ok(())
    }

    /// Sends the reads that there are slots for.
    fn send_reads(&mut self, sim: &mut Sim) {
        let Some(reads) = &mut self.reads else { return };
        while let Some(Read { chunk, number, part, tag, .. }) = reads.next(sim.now()) {
            sim.read(chunk, number, part, tag).expect("what is to be read is not reset");
        }
    }

    /// A read was answered.
    #[inline]
    pub(crate) fn read_done(&mut self, sim: &mut Sim, unit: usize) {
        self.queues[unit].reads -= 1;
        if let Some(reads) = &mut self.reads {
            reads.done(unit);
            self.send_reads(sim);
        }
        if !self.queues[unit].tasks.is_empty() {
            self.send(sim, unit);
        }
    }

    /// A write or a reset was answered.
    pub(crate) fn done(&mut self, sim: &mut Sim, unit: usize) {
        let queue = &mut self.queues[unit];
        queue.sent -= 1;
        queue.is_resetting = false;
        self.sent -= 1;
        self.send(sim, unit);
    }

    /// Adds a reset.
    pub(crate) fn reset(&mut self, sim: &mut Sim, chunk: Chunk) {
        let unit = usize::from(chunk.unit.0);
        self.queues[unit].tasks.push_back(Task::Reset(chunk));
        self.send(sim, unit);
    }

    /// Adds a write unit, which is answered under `tag`.
    pub(crate) fn write(&mut self, sim: &mut Sim, chunk: Chunk, number: u32, tag: u32) {
        let unit = usize::from(chunk.unit.0);
        let task = Task::Write { chunk, number, tag, since: sim.now() };
        self.queues[unit].tasks.push_back(task);
        self.waiting += 1;
        self.send(sim, unit);
    }

    /// Whether a reset is some unit's next and waits until the device has programmed what its buffer has for the chunk.
    pub(crate) fn has_waiting_reset(&self, sim: &Sim) -> bool {
        let waits = |queue: &Queue| {
            let next = queue.tasks.front();
            matches!(next, Some(Task::Reset(chunk)) if sim.media().is_writing(*chunk))
        };
        self.queues.iter().any(waits)
    }

    /// Looks for writes that have become late, and for resets that need not wait any more.
    pub(crate) fn send_overdue(&mut self, sim: &mut Sim) {
        if let WriteOrder::InTurns { share } = self.order {
            return self.send_in_turns(sim, share);
        }
        for unit in 0..self.queues.len() {
            if !self.queues[unit].tasks.is_empty() {
                self.send(sim, unit);
            }
        }
    }

    fn send(&mut self, sim: &mut Sim, unit: usize) {
        match self.order {
            WriteOrder::InTurns { share } => self.send_in_turns(sim, share),
            _ => while self.send_next(sim, unit) {},
        }
    }

    /// Sends units what they are to do next, as many as may be at it at a time.
    fn send_in_turns(&mut self, sim: &mut Sim, share: u64) {
        let units = self.queues.len() as u64;
        while self.sent <= units * self.waiting / (share * self.room) {
            let queues = self.queues.iter().enumerate();
            let ready = queues.filter(|(unit, _)| self.next(*unit, sim).is_some());
            let Some((unit, _)) = ready.min_by_key(|(_, queue)| (queue.reads, queue.since()))
            else {
                return;
            };
            self.send_next(sim, unit);
        }
    }

    /// What a unit may be sent now: no reset of a chunk that reads wait for.
    fn next(&self, unit: usize, sim: &Sim) -> Option<Task> {
        let has_reads = |chunk| self.reads.as_ref().is_some_and(|reads| reads.has(chunk));
        let task = self.queues[unit].next(self.order, sim)?;
        (!matches!(task, Task::Reset(chunk) if has_reads(chunk))).then_some(task)
    }

    /// Sends a unit its next task, if it may be sent one. Says whether it did.
    fn send_next(&mut self, sim: &mut Sim, unit: usize) -> bool {
        let Some(task) = self.next(unit, sim) else { return false };
        let queue = &mut self.queues[unit];
        if let Some(Reads { forecast, .. }) = &mut self.reads {
            match task {
                Task::Reset(_) => forecast.reset_sent(unit, sim.now()),
                Task::Write { .. } => forecast.write_sent(unit, sim.now()),
            }
        }
        queue.tasks.pop_front();
        queue.sent += 1;
        self.sent += 1;
        match task {
            Task::Reset(chunk) => {
                queue.is_resetting = true;
                sim.reset(chunk, 0).expect("a free chunk is good, and all of it is programmed");
            }
            Task::Write { chunk, number, tag, .. } => {
                self.waiting -= 1;
                sim.write(chunk, number, tag).expect("writes of a chunk are in order");
            }
        }
        true
    }
}

impl Queue {
    /// What the unit may be sent now.
    fn next(&self, order: WriteOrder, sim: &Sim) -> Option<Task> {
        let task = *self.tasks.front()?;
        let must_wait = match (task, order) {
            _ if self.is_resetting => true,
            (Task::Reset(chunk), _) => self.sent > 0 || sim.media().is_writing(chunk),
            (Task::Write { .. }, WriteOrder::AtOnce) => false,
            (Task::Write { .. }, WriteOrder::OneByOne) => self.sent > 0,
            (Task::Write { since, .. }, WriteOrder::ReadsFirst | WriteOrder::InTurns { .. }) => {
                self.sent > 0 || (self.reads > 0 && sim.now() - since <= LATE_NS)
            }
        };
        (!must_wait).then_some(task)
    }

    /// Since when its next task waits; a reset counts as old.
    fn since(&self) -> u64 {
        match self.tasks.front() {
            Some(Task::Write { since, .. }) => *since,
            _ => 0,
        }
    }
}
