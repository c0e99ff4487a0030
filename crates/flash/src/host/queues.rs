//! Writes that the host has accepted and not yet sent, by unit.
//!
//! A unit's writes are sent in order. A reset goes alone, as a chunk takes nothing before it is done.
//! Where reads go first, a unit is sent a write only when it has no other to do and no read waits for
//! it, or when the write is late.

use crate::{Chunk, Sim};
use std::collections::VecDeque;

/// A write is late after so long: about two programs' time, so that what is put off is made up for.
const LATE_NS: u64 = 2_500_000;

#[derive(Clone, Copy, Debug)]
enum Order {
    Reset(Chunk),
    Write { chunk: Chunk, number: u32, tag: u32, since: u64 },
}

#[derive(Clone, Debug, Default)]
struct Queue {
    orders: VecDeque<Order>,
    sent: u32,
    is_resetting: bool,
    /// Reads that the unit has not answered.
    reads: u32,
}

/// When a unit is sent its next write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sending {
    /// At once.
    AtOnce,
    /// When it has done the one before: what follows in a burst is not yet late when its turn comes.
    OneByOne,
    /// As that, and when no read waits for the unit or the write is late.
    ReadsFirst,
}

/// All units' queues.
#[derive(Debug)]
pub(crate) struct Queues {
    queues: Vec<Queue>,
    order: Sending,
    /// Write units that wait in the queues.
    pub(crate) waiting: u64,
}

impl Queues {
    pub(crate) fn new(units: usize, order: Sending) -> Self {
        Queues { queues: vec![Queue::default(); units], order, waiting: 0 }
    }

    /// A read was sent to a unit.
    #[inline]
    pub(crate) fn read_sent(&mut self, unit: usize) {
        self.queues[unit].reads += 1;
    }

    /// A read was answered.
    #[inline]
    pub(crate) fn read_done(&mut self, sim: &mut Sim, unit: usize) {
        self.queues[unit].reads -= 1;
        if !self.queues[unit].orders.is_empty() {
            self.send(sim, unit);
        }
    }

    /// A write or a reset was answered.
    pub(crate) fn done(&mut self, sim: &mut Sim, unit: usize) {
        let queue = &mut self.queues[unit];
        queue.sent -= 1;
        queue.is_resetting = false;
        self.send(sim, unit);
    }

    /// Adds a reset.
    pub(crate) fn reset(&mut self, sim: &mut Sim, chunk: Chunk) {
        let unit = usize::from(chunk.unit.0);
        self.queues[unit].orders.push_back(Order::Reset(chunk));
        self.send(sim, unit);
    }

    /// Adds a write unit, which is answered under `tag`.
    pub(crate) fn write(&mut self, sim: &mut Sim, chunk: Chunk, number: u32, tag: u32) {
        let unit = usize::from(chunk.unit.0);
        let order = Order::Write { chunk, number, tag, since: sim.now() };
        self.queues[unit].orders.push_back(order);
        self.waiting += 1;
        self.send(sim, unit);
    }

    /// Looks for writes that have become late.
    pub(crate) fn send_late(&mut self, sim: &mut Sim) {
        for unit in 0..self.queues.len() {
            if !self.queues[unit].orders.is_empty() {
                self.send(sim, unit);
            }
        }
    }

    fn send(&mut self, sim: &mut Sim, unit: usize) {
        loop {
            let queue = &mut self.queues[unit];
            let Some(&order) = queue.orders.front() else { return };
            let must_wait = match order {
                _ if queue.is_resetting => true,
                Order::Reset(_) => queue.sent > 0,
                Order::Write { since, .. } => match self.order {
                    Sending::AtOnce => false,
                    Sending::OneByOne => queue.sent > 0,
                    Sending::ReadsFirst => {
                        let is_late = sim.now() - since > LATE_NS;
                        queue.sent > 0 || (queue.reads > 0 && !is_late)
                    }
                },
            };
            if must_wait {
                return;
            }
            queue.orders.pop_front();
            queue.sent += 1;
            match order {
                Order::Reset(chunk) => {
                    queue.is_resetting = true;
                    sim.reset(chunk, 0).expect("a free chunk is good");
                }
                Order::Write { chunk, number, tag, .. } => {
                    self.waiting -= 1;
                    sim.write(chunk, number, tag).expect("writes of a chunk are in order");
                }
            }
        }
    }
}
