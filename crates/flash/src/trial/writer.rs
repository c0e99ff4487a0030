//! Writes that the host has accepted and not yet sent, by unit.
//!
//! A unit's writes are sent in order. A reset goes alone, as a chunk takes nothing before it is done.
//! Where reads go first, a unit is sent a write only when it has no other to do and no read waits for
//! it, or when the write is late.

use super::store::Table;
use crate::placement::Lifetime;
use crate::{Chunk, Sim};
use std::collections::VecDeque;

/// A write is late after so long: about two programs' time, so that what is put off is made up for.
const LATE_NS: u64 = 2_500_000;

/// A table that is being written.
#[derive(Debug)]
pub struct Open {
    /// What its writes are called.
    pub id: u32,
    pub lifetime: Lifetime,
    pub table: Table,
    /// Write units given to the queues.
    pub given: u32,
    /// Write units done.
    pub done: u32,
    /// Write units that it takes.
    pub all: u32,
}

impl Open {
    /// Whether it takes more of this lifetime.
    pub fn takes(&self, lifetime: Lifetime) -> bool {
        self.lifetime == lifetime && self.given < self.all
    }
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Reset(Chunk),
    Write { chunk: Chunk, number: u32, table: u32, since: u64 },
}

#[derive(Clone, Debug, Default)]
struct Queue {
    orders: VecDeque<Order>,
    sent: u32,
    is_resetting: bool,
    /// Reads that the unit has not answered.
    pub reads: u32,
}

/// All units' queues.
#[derive(Debug)]
pub struct Writer {
    queues: Vec<Queue>,
    reads_go_first: bool,
    /// Write units that wait in the queues.
    pub waiting: u64,
}

impl Writer {
    pub fn new(units: usize, reads_go_first: bool) -> Self {
        Writer { queues: vec![Queue::default(); units], reads_go_first, waiting: 0 }
    }

    /// A read was sent to a unit.
    #[inline]
    pub fn read_sent(&mut self, unit: usize) {
        self.queues[unit].reads += 1;
    }

    /// A read was answered.
    #[inline]
    pub fn read_done(&mut self, sim: &mut Sim, unit: usize) {
        self.queues[unit].reads -= 1;
        if !self.queues[unit].orders.is_empty() {
            self.send(sim, unit);
        }
    }

    /// A write or a reset was answered.
    pub fn done(&mut self, sim: &mut Sim, unit: usize) {
        let queue = &mut self.queues[unit];
        queue.sent -= 1;
        queue.is_resetting = false;
        self.send(sim, unit);
    }

    /// Adds a reset.
    pub fn reset(&mut self, sim: &mut Sim, chunk: Chunk) {
        let unit = usize::from(chunk.unit.0);
        self.queues[unit].orders.push_back(Order::Reset(chunk));
        self.send(sim, unit);
    }

    /// Adds a write unit of a table.
    pub fn write(&mut self, sim: &mut Sim, chunk: Chunk, number: u32, table: u32) {
        let unit = usize::from(chunk.unit.0);
        let order = Order::Write { chunk, number, table, since: sim.now() };
        self.queues[unit].orders.push_back(order);
        self.waiting += 1;
        self.send(sim, unit);
    }

    /// Looks for writes that have become late.
    pub fn send_late(&mut self, sim: &mut Sim) {
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
                Order::Write { since, .. } if self.reads_go_first => {
                    let is_late = sim.now() - since > LATE_NS;
                    queue.sent > 0 || (queue.reads > 0 && !is_late)
                }
                Order::Write { .. } => false,
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
                Order::Write { chunk, number, table, .. } => {
                    self.waiting -= 1;
                    sim.write(chunk, number, table).expect("writes of a chunk are in order");
                }
            }
        }
    }
}
